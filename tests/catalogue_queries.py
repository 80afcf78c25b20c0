"""The catalogue of queries: one small asymmetrical database each, with its statistic worked out by
hand.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from noisewise import queries as q


@dataclasses.dataclass(frozen=True, eq=False)
class QueryCase:
    """A query, a database, its statistic, and whether the stated sensitivities are exact (or only
    upper bounds).

    `added` says whether they are defined where records are added or removed.
    """

    query: q.AbstractQuery
    x: Any
    statistic: list[float]
    exact: bool = True
    added: bool = True


_REAL = np.array([[12.0, -5.0, 2.0], [-3.0, 4.0, -50.0], [5.0, 1.0, 7.0], [0.0, -2.0, 6.0]])
# Rescaled by 10: (1, -.5, .2), (-.3, .4, -1), (.5, .1, .7), (0, -.2, .6), columns x1, x2, y
_MOMENTS = [0.5, 0.85, -0.55, 1.89, 1.2, -0.2, 1.34, -0.57, 0.46]
_CLASSES = np.array([[0, 1, 2], [0, 1, 0], [1, 0, 2], [0, 0, 2], [1, 0, 1]])
_STATUSES = np.array([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 0, 0]])
_LINE = np.array([0.2, 1.0, 2.6, 9.0, -4.0])

QUERIES: dict[str, QueryCase] = {
    "clamped_mean": QueryCase(
        q.ClampedMean(bounds=(-1.0, 4.0), num_records=5), _LINE, [1.36], added=False
    ),
    "clamped_mean_columns": QueryCase(
        q.ClampedMean(bounds=((0.0, 8.0), (-4.0, 2.0), (-20.0, 5.0)), num_records=4, num_columns=3),
        _REAL,
        [3.25, -0.75, -2.0],
        added=False,
    ),
    "clamped_mean_grid": QueryCase(
        q.ClampedMean(bounds=(-1.0, 4.0), num_records=5, grid=0.5),
        _LINE,
        [(0.0 + 1.0 + 2.5 + 4.0 - 1.0) / 5],
        added=False,
    ),
    "histogram": QueryCase(q.Histogram(edges=(0.0, 1.0, 2.0, 5.0)), _LINE, [2.0, 1.0, 2.0]),
    "histogram_normalized": QueryCase(
        q.Histogram(edges=(-5.0, 0.0, 9.0), num_records=5, normalize=True),
        _LINE,
        [0.2, 0.8],
        added=False,
    ),
    "contingency_table": QueryCase(
        q.ContingencyTable(levels=(2, 2, 3)), _CLASSES, [0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0]
    ),
    "contingency_table_normalized": QueryCase(
        q.ContingencyTable(levels=(3, 2), num_records=4, normalize=True),
        np.array([[2, 0], [2, 0], [0, 1], [1, 1]]),
        [0.0, 0.25, 0.0, 0.25, 0.5, 0.0],
        added=False,
    ),
    # Below and above: (1, 4), (2, 2), (3, 2), (4, 1)
    "median": QueryCase(
        q.Median(candidates=(0.0, 1.0, 2.0, 3.0), num_records=5), _LINE, [-1.5, 0.0, -0.5, -1.5]
    ),
    "regression_moments": QueryCase(
        q.RegressionMoments(num_records=4, num_predictors=2),
        _REAL,
        [value / 4 for value in _MOMENTS],
        added=False,
    ),
    "regression_moments_grid": QueryCase(
        q.RegressionMoments(num_records=4, num_predictors=2, grid=0.25),
        # On quarters: (4, -2, 1), (-1, 2, -4), (2, 0, 3), (0, -1, 2)
        _REAL,
        [2 / 16, 14 / 64, -12 / 64, 30 / 64, 5 / 16, -1 / 16, 21 / 64, -10 / 64, 9 / 64],
        added=False,
    ),
    "regression_moments_bounds": QueryCase(
        q.RegressionMoments(
            num_records=4, num_predictors=1, bounds=((0.0, 4.0), (-2.0, 0.0)), grid=1 / 6
        ),
        np.array([[1.0, -2.0], [9.0, -1.5], [0.0, 3.0], [3.0, -1.0]]),
        # Rescaled: (-.5, -1), (1, -.5), (-1, 1), (.5, 0)
        [-0.5 / 4, -1.0 / 4, 2.25 / 4, 0.0, 2.5 / 4],
        added=False,
    ),
    "category_proportions": QueryCase(
        q.CategoryProportions(num_classes=2, num_values=(2, 3), num_records=5),
        _CLASSES,
        [0.2, 0.4, 0.2, 0.0, 0.4, 0.4, 0.0, 0.0, 0.2, 0.2],
        added=False,
    ),
    "infection_curve": QueryCase(
        q.InfectionCurve(population=5, num_times=4), _STATUSES, [1.0, 4.0, 2.0, 1.0]
    ),
    "joint": QueryCase(
        q.Joint(
            [q.Histogram(edges=(0.0, 2.0, 5.0)), q.ClampedMean(bounds=(-1.0, 4.0), num_records=5)]
        ),
        _LINE,
        [3.0, 2.0, 1.36],
        exact=False,
        added=False,
    ),
    "clamped_sum": QueryCase(q.ClampedSum(bounds=(-1.0, 4.0)), _LINE, [6.8]),
    "clamped_sum_columns": QueryCase(
        q.ClampedSum(bounds=((0.0, 8.0), (-4.0, 2.0), (-20.0, 5.0)), num_columns=3),
        _REAL,
        [13.0, -3.0, -8.0],
    ),
    "clamped_sum_grid": QueryCase(
        q.ClampedSum(bounds=(-1.0, 4.0), grid=0.5), _LINE, [0.0 + 1.0 + 2.5 + 4.0 - 1.0]
    ),
    "count": QueryCase(q.Count(num_columns=3), _REAL, [4.0]),
    "median_of_any_number": QueryCase(
        q.Median(candidates=(0.0, 1.0, 2.0, 3.0)), _LINE, [-1.5, 0.0, -0.5, -1.5]
    ),
    "sum_and_count": QueryCase(
        q.Joint([q.ClampedSum(bounds=(-1.0, 4.0), grid=0.5), q.Count()]), _LINE, [6.5, 5.0]
    ),
}
