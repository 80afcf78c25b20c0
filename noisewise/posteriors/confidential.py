"""The confidential statistic as an answer sees it: one row per number, beside what was released."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from noisewise.errors import InvalidInputError, MissingCapabilityError

if TYPE_CHECKING:
    import pandas as pd

    from noisewise.disclosure import Release
    from noisewise.posteriors.base import AbstractPosterior


def summary_of(
    posterior: AbstractPosterior,
    release: Release | None,
    levels: Float[np.ndarray, " l"],
    names: list[str],
) -> pd.DataFrame:
    """The table of `AbstractPosterior.confidential_summary`.

    Args:
        posterior: The answer.
        release: What was published; its labels, value and noise come first.
        levels: Of the quantiles.
        names: Of the quantiles.

    Raises:
        MissingCapabilityError: If the answer has no draws of the statistic.
        InvalidInputError: If the release has another number of values.
    """
    import pandas as pd

    s = posterior.confidential_statistics
    if s is None:
        raise MissingCapabilityError(
            f"{posterior.report.method} draws no confidential statistic. MarginalNUTS,"
            " CountAugmentationMCMC and DataAugmentationMCMC do."
        )
    mean = posterior.weights @ s
    columns = {"mean": mean, "sd": np.sqrt(posterior.weights @ (s - mean) ** 2)}
    columns |= dict(zip(names, quantiles(s, posterior.weights, levels), strict=True))
    if release is None:
        return pd.DataFrame(columns, index=list(posterior.statistic_names) or None)
    if len(release.values) != s.shape[1]:
        raise InvalidInputError(
            f"The answer has {s.shape[1]} confidential numbers, the release {len(release.values)}:"
            " pass the release that the answer was inferred from, or none."
        )
    return pd.concat([release.table, pd.DataFrame(columns)], axis=1)


def quantiles(
    s: Float[np.ndarray, "n k"], weights: Float[np.ndarray, " n"], levels: Float[np.ndarray, " l"]
) -> Float[np.ndarray, "l k"]:
    """Quantiles of each column of weighted draws: draws themselves, so that counts stay whole.

    >>> s = np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 9.0]])
    >>> quantiles(s, np.full(3, 1 / 3), np.array([0.5, 0.9])).tolist()
    [[2.0, 1.0], [3.0, 9.0]]
    """
    order, columns = np.argsort(s, axis=0), np.arange(s.shape[1])
    up_to = np.cumsum(weights[order], axis=0)
    places = [(up_to < level).sum(axis=0).clip(max=len(s) - 1) for level in levels]
    return np.stack([s[order[place, columns], columns] for place in places])
