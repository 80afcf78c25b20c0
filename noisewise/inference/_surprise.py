"""How far an observation lies from simulated ones."""

from __future__ import annotations

import numpy as np


def p_value(simulated: np.ndarray, observed: np.ndarray) -> float:
    r"""Twice the smaller of two ranks of observed (k',) among simulated (n, k'), at most 1: exact for exchangeable ones, up to Bonferroni.

    Ranked are the squared deviations from the medians in units of the median absolute deviation, averaged over columns, and the largest
    deviation of a column in units of its own 99% quantile.

    >>> rng = np.random.default_rng(0)
    >>> p_value(rng.normal(size=(999, 3)), np.zeros(3)) > 0.5, p_value(rng.normal(size=(999, 3)), np.array([0.0, 9.0, 0.0]))
    (True, 0.002)
    """
    centre = np.median(simulated, axis=0)
    spread = np.median(np.abs(simulated - centre), axis=0)
    spread = np.where(spread > 0, spread, np.maximum(simulated.std(axis=0), 1e-300))
    reach = np.maximum(np.quantile(np.abs(simulated - centre), 0.99, axis=0), 1e-300)
    with np.errstate(over="ignore"):
        all_columns = lambda y: np.mean(((y - centre) / spread) ** 2, axis=-1)  # noqa: E731
        one_column = lambda y: np.max(np.abs(y - centre) / reach, axis=-1)  # noqa: E731
        ranks = [1 + np.sum(far(simulated) >= far(observed)) for far in (all_columns, one_column)]
    return float(min(1.0, 2.0 * min(ranks) / (1 + len(simulated))))
