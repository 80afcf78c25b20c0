"""The draws of numpyro's chains as named columns."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noisewise._core.arrays import describe
from noisewise.errors import InvalidInputError, InvalidTypeError


def columns_of(
    mcmc: Any, labels: Mapping[str, Sequence[str]] | None
) -> tuple[dict[tuple[str, str], np.ndarray], int]:
    """One column per entry of each site, by site and name, chain after chain; and the chains.

    Args:
        mcmc: A `numpyro.infer.MCMC`.
        labels: Labels of the entries of vectors by name.

    Raises:
        InvalidTypeError: If it is something else.
        InvalidInputError: If it has not run, or labels do not fit.
    """
    if not hasattr(mcmc, "get_samples"):
        raise InvalidTypeError(
            f"Draws.from_numpyro takes a numpyro.infer.MCMC that has run, got {describe(mcmc)}."
        )
    samples: Mapping[str, Any] = {}
    with contextlib.suppress(AssertionError):  # numpyro's, where nothing has run
        samples = mcmc.get_samples(group_by_chain=True)
    if not samples:
        raise InvalidInputError("This numpyro run has no draws: call mcmc.run(key) first.")
    given = dict(labels or {})
    unknown = sorted(set(given) - set(samples))
    if unknown:
        raise InvalidInputError(f"labels name {unknown[0]!r}, which is no site of the run.")
    for site, names in given.items():
        shape = np.shape(samples.get(site, ()))[2:]
        if site in samples and (shape != (len(names),) or len(set(names)) < len(names)):
            raise InvalidInputError(
                f"labels of {site!r} must be {shape[0] if shape else 'no'} different ones, one for"
                f" each entry of a vector, got {len(names)}."
            )
    columns: dict[tuple[str, str], np.ndarray] = {}
    for site, values in samples.items():
        array = np.asarray(values, dtype=np.float64)
        chains, num, *shape = array.shape
        entries = array.reshape(chains * num, -1).T
        for place, entry in zip(itertools.product(*map(range, shape)), entries, strict=True):
            columns[site, _name(site, place, given.get(site))] = entry
    return columns, chains


def _name(site: str, place: tuple[int, ...], labels: Sequence[str] | None) -> str:
    if not place:
        return site
    if labels is None:
        return f"{site}[{','.join(map(str, place))}]"
    return f"{site}[{labels[place[0]]}]"
