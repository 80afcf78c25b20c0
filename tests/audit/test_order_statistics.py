"""Queries that are no sums: the search finds the sensitivity derived by hand, and a smaller claim
never passes.

A sum of c_j x_(j) over the order statistics of records in [0, 1] moves most between two-valued
databases (the vertices), where one record more at 1 moves it by one c_j: its sensitivity is max_j
|c_j|.
"""

import dataclasses
import math

import numpy as np
import pytest

from noisewise import queries as q
from noisewise.audit import sensitivity
from noisewise.audit.databases import largest_steps

UNIT = q.Box(low=(0.0,), high=(1.0,))

POSITIONS = {
    "linear": lambda p, n: (n - 1) * p,
    "hazen": lambda p, n: n * p - 0.5,
    "weibull": lambda p, n: (n + 1) * p - 1.0,
    "median_unbiased": lambda p, n: n * p + (p + 1.0) / 3.0 - 1.0,
    "interpolated_inverted_cdf": lambda p, n: n * p - 1.0,
}
"""Where numpy's interpolating quantiles lie among the order statistics 0..n-1."""


def weights(p, n, method):
    """The coefficients of the order statistics, to 1e-9 (a position that is whole up to rounding is
    whole).
    """
    position = min(max(POSITIONS[method](p, n), 0.0), n - 1.0)
    below, share = int(position + 1e-9), max(0.0, position - int(position + 1e-9))
    c = np.zeros(n + 1)
    c[below] += 1.0 - share
    c[below + 1] += share
    return c[:n]


def judged(fn, truth, n, **settings):
    """The audit of the true claim passes and is attained; that of a claim 5% smaller fails."""
    audit = sensitivity(
        q.FunctionQuery(fn, sensitivity=truth), domain=UNIT, num_records=n, **settings
    )
    assert audit.passed, audit
    assert audit.ratio >= 0.999, audit
    assert not dataclasses.replace(audit, claimed=0.95 * truth).passed


@pytest.mark.parametrize(("p", "n"), [pytest.param(0.25, 2, marks=pytest.mark.slow), (0.1, 4)])
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("linear", "weibull")))
        for name in POSITIONS
    ],
)
def test_interpolated_quantiles(method, p, n):
    judged(
        lambda x: [np.quantile(x, p, method=method)], weights(p, n, method).max(), n, num_starts=4
    )


@pytest.mark.parametrize(
    "method",
    [
        "inverted_cdf",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("lower", "higher", "nearest", "closest_observation")
        ),
    ],
)
def test_quantiles_that_are_records_move_by_the_whole_range(method):
    judged(lambda x: [np.quantile(x, 0.9, method=method)], 1.0, 8, num_starts=4)


@pytest.mark.parametrize(
    ("c", "claim"), [({3: 1.0}, 0.3), ({16: 0.1, 17: 0.9}, 0.2), ({16: 1.0}, 0.1)]
)
def test_quantiles_far_from_the_middle(c, claim):
    """Combinations c of the order statistics 0..19, with claims of a fraction of max |c|."""
    coefficients = np.array([c.get(j, 0.0) for j in range(20)])
    audit = sensitivity(
        q.FunctionQuery(lambda x: [np.sort(x) @ coefficients], sensitivity=claim),
        domain=UNIT,
        num_records=20,
    )
    assert not audit.passed
    assert audit.found == pytest.approx(max(c.values()), rel=1e-12)


BY_HAND = {
    "median, odd": (lambda x: [np.median(x)], 9, 1.0),
    "median, even": (lambda x: [np.median(x)], 14, 0.5),
    "trimmed mean": (lambda x: [np.sort(x)[2:-2].mean()], 12, 1 / 8),
    "smallest": (lambda x: [x.min()], 20, 1.0),
    "largest": (lambda x: [x.max()], 20, 1.0),
    "range": (lambda x: [np.ptp(x)], 17, 1.0),
    "quartiles apart": (lambda x: [np.subtract(*np.quantile(x, [0.75, 0.25]))], 8, 0.75),
    "distinct": (lambda x: [len(np.unique(x))], 6, 1.0),
    "at the top": (lambda x: [np.sum(x == x.max())], 8, 7.0),
    "below the mean": (lambda x: [np.sum(x < x.mean())], 8, 7.0),
}
"""Queries with a number of records n and their sensitivity there."""


MIRRORED = ("largest", "below the mean")
"""Queries of which another one is the mirror image."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in MIRRORED)) for name in BY_HAND],
)
def test_by_hand(name):
    fn, n, truth = BY_HAND[name]
    judged(fn, truth, n, num_starts=16)


def test_records_next_to_a_returned_value():
    """How many of five records lie within 1e-9 of the median: (0, 0, m, 1, 1) has one, and three
    once a 0 becomes m or 1.

    Not four: that takes three others at one value, which is then the median whatever the fifth is,
    so that three stay.
    """
    audit = sensitivity(
        lambda x: [np.sum(np.abs(x - np.median(x)) < 1e-9)], domain=UNIT, num_records=5
    )
    assert audit.found == 2.0


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_next_float_beside_a_returned_value(side):
    """All records above (below) the mean by no more than 1e-12: n - 1 of them, if they lie there;
    only climbing finds it.
    """

    def fn(x):
        return [np.sum((side * (x - x[0]) > 0.0) & (side * (x - x[0]) < 1e-12)), x[0]]

    audit = sensitivity(fn, domain=UNIT, num_records=6)
    assert audit.found >= 5.0


@pytest.mark.parametrize("p", [0.37])
def test_long_databases_are_halved(p):
    c = weights(p, 1000, "linear")
    judged(lambda x: [np.sort(x) @ c], c.max(), 1000, num_starts=4)


def test_a_step_is_found_among_many():
    jumps = {17: 1.0, 400: 5.0, 99_998: 3.0}
    values = lambda m: np.array([sum(size for place, size in jumps.items() if m > place)])
    assert largest_steps(values, 100_000, lambda a, b: abs(a - b).max())[:3] == [400, 99_998, 17]


def order_statistics(repetition):
    """A random combination of order statistics, and its sensitivity."""
    rng = np.random.default_rng(repetition)
    n = int(rng.integers(2, 21))
    c = rng.normal(size=n) * (rng.random(n) < 0.7)
    c[rng.integers(n)] = 1.5 + rng.random()
    return lambda x: [np.sort(x) @ c], float(np.abs(c).max()), n


@pytest.mark.parametrize(
    "repetition", [0, 1, *(pytest.param(number, marks=pytest.mark.slow) for number in (2, 3))]
)
def test_combinations_of_order_statistics(repetition):
    judged(*order_statistics(repetition), num_starts=4)


@pytest.mark.slow
def test_true_claims_never_fail():
    """200 combinations at their exact sensitivity: a lower bound is never above it, and false
    alarms do not occur.
    """
    for repetition in range(200):
        fn, truth, n = order_statistics(1000 + repetition)
        audit = sensitivity(
            q.FunctionQuery(fn, sensitivity=truth),
            domain=UNIT,
            num_records=n,
            num_starts=8,
            seed=repetition,
        )
        assert audit.passed
        assert audit.ratio >= 0.999


def test_a_query_that_sorts_its_data_in_place_is_audited_as_it_is():
    def fn(x):
        x.sort()
        return x[-2:]

    audit = sensitivity(fn, domain=UNIT, num_records=4, norm=math.inf)
    assert audit.found == 1.0
    assert np.sum(audit.database != audit.neighbour) == 1
