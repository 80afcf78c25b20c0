"""How far an observation lies from simulated ones."""

from __future__ import annotations

import numpy as np

from noisewise._core.draws import filled_below


def p_value(simulated: np.ndarray, observed: np.ndarray) -> float:
    r"""Twice the smaller of two ranks of observed (k',) among simulated (n, k'), at most 1: exact
    for exchangeable ones, up to Bonferroni.

    All columns: squared deviations from the medians in units of the median absolute deviation,
    averaged. One column: how deep a row lies, that is the least number of rows, itself included, on
    either side of it in a column; among rows as deep, its largest deviation from a median in units
    of the 1% and 99% quantiles on that side. Medians, units and depths are those of all n + 1 rows.
    An observation outside the range of a column is as deep as 2 k' - 1 others at most, so that its
    p-value is at most 4 k' / (n + 1), however skew the law. NaN, which is absent, counts as less
    than every number.

    >>> rng = np.random.default_rng(0)
    >>> p_value(rng.normal(size=(999, 3)), np.zeros(3)) > 0.5
    True
    >>> p_value(rng.normal(size=(999, 3)), np.array([0.0, 9.0, 0.0]))
    0.002
    >>> p_value(rng.exponential(size=(999, 1)), np.array([-0.01])) <= 0.004
    True
    """
    rows = filled_below(np.concatenate([observed[None], simulated]))
    far, depth, reach = _far(rows), _depth(rows), _reach(rows)
    shallow = (depth < depth[0]) | ((depth == depth[0]) & (reach >= reach[0]))
    ranks = np.sum(far >= far[0]), np.sum(shallow)
    return float(min(1.0, 2.0 * min(ranks) / len(rows)))


def _far(rows: np.ndarray) -> np.ndarray:
    """Squared deviation of each row from the medians in robust units, averaged over columns."""
    deviation = np.abs(rows - np.median(rows, axis=0))
    spread = np.median(deviation, axis=0)
    spread = np.where(spread > 0.0, spread, np.maximum(deviation.mean(axis=0), 1e-300))
    with np.errstate(over="ignore"):
        return np.mean((deviation / spread) ** 2, axis=1)


def _depth(rows: np.ndarray) -> np.ndarray:
    """How deep each row lies: the fewest rows on either side of it in any column."""
    depths = []
    for column in rows.T:
        ordered = np.sort(column)
        above = len(column) - np.searchsorted(ordered, column, side="left")
        depths.append(np.minimum(np.searchsorted(ordered, column, side="right"), above))
    return np.min(depths, axis=0)


def _reach(rows: np.ndarray) -> np.ndarray:
    """Largest deviation of each row from a median, in units of the outer quantile on that side."""
    low, centre, high = np.quantile(rows, [0.01, 0.5, 0.99], axis=0)
    with np.errstate(over="ignore"):
        below = (centre - rows) / np.maximum(centre - low, 1e-300)
        return np.max(
            np.maximum(below, (rows - centre) / np.maximum(high - centre, 1e-300)), axis=1
        )
