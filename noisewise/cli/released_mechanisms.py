"""The mechanisms that options of `noisewise release` ask for, besides plain noise."""

from __future__ import annotations

from typing import Any


def padded_binomial(trials: int, guarantee: Any, query: Any) -> Any:
    """The mechanism of `--trials`, calibrated to the guarantee.

    Args:
        trials: The number of people sampled at each time.
        guarantee: What it must guarantee.
        query: The infection curve.
    """
    from noisewise.mechanisms import PaddedBinomial

    shape = {"trials": trials, "population": query.population, "num_times": query.num_times}
    return PaddedBinomial.calibrate(guarantee=guarantee, **shape)


def thresholded(threshold: float, guarantee: Any, neighbours: Any, query: Any) -> Any:
    """The mechanism of `--threshold`: noise for the guarantee, of which small numbers are absent.

    Args:
        threshold: The least noisy number that is published.
        guarantee: What it must guarantee.
        neighbours: Of which databases.
        query: The counts.
    """
    from noisewise.disclosure.preparation import choose_mechanism
    from noisewise.mechanisms import Thresholded

    noise = choose_mechanism(query, guarantee.with_neighbours(neighbours))
    return Thresholded(noise, above=threshold)
