"""What every query of the catalogue must do, and what each is by hand."""

import dataclasses
import itertools
import json
import math
import pickle
from fractions import Fraction

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
)
from noisewise.queries import (
    AbstractAdditiveQuery,
    ClampedMean,
    FunctionQuery,
    Histogram,
    InfectionCurve,
    Joint,
    Median,
    RegressionMoments,
)
from tests.catalogue_queries import QUERIES

catalogue = pytest.mark.parametrize("name", QUERIES)
NORMS = (1, 2, math.inf)


@catalogue
def test_statistic_is_the_one_worked_out_by_hand(name):
    case = QUERIES[name]
    s = case.query(case.x)
    assert isinstance(s, np.ndarray)
    assert s.dtype == np.float64
    np.testing.assert_allclose(s, case.statistic, rtol=1e-13, atol=1e-15)
    assert case.query.width == len(case.query.names) == len(set(case.query.names)) == len(s)


@catalogue
def test_lists_and_jax_arrays_do_as_well(name):
    case = QUERIES[name]
    np.testing.assert_array_equal(case.query(np.asarray(case.x).tolist()), case.query(case.x))
    assert isinstance(case.query(jnp.asarray(case.x, dtype=jnp.float32)), np.ndarray)


@catalogue
def test_order_of_records_does_not_matter(name):
    case = QUERIES[name]
    for seed in range(5):
        shuffled = np.random.default_rng(seed).permutation(case.x)
        np.testing.assert_allclose(case.query(shuffled), case.query(case.x), rtol=1e-14, atol=1e-15)


def test_order_test_would_see_an_order_dependent_query():
    weighted = FunctionQuery(lambda x: [np.average(x, weights=[1.0, 1.0, 1.0, 1.0, 1.001])])
    x = QUERIES["clamped_mean"].x
    assert abs(weighted(x[::-1]) - weighted(x))[0] > 1e-4


@catalogue
def test_numpy_and_jax_agree(name, x64_flag):
    case = QUERIES[name]
    # 1/64 steps: exact in float32 too, and no ties of the grids in use
    x = np.round(np.asarray(case.x, dtype=np.float64) * 64) / 64
    s = jax.jit(case.query)(x)
    assert s.dtype == jnp.float64
    np.testing.assert_allclose(np.asarray(s), case.query(x), rtol=1e-14, atol=1e-15)


def test_queries_run_under_vmap_over_databases():
    query = RegressionMoments(num_records=4, num_predictors=2)
    x = np.random.default_rng(0).normal(0.0, 6.0, (3, 4, 3))
    batched = jax.jit(jax.vmap(query))(x.astype(np.float32))
    expected = [query(database) for database in x.astype(np.float32)]
    np.testing.assert_allclose(np.asarray(batched), expected, rtol=1e-12)


@catalogue
def test_additive_queries_are_sums_of_contributions(name):
    query, x = QUERIES[name].query, QUERIES[name].x
    if not isinstance(query, AbstractAdditiveQuery):
        assert name in ("median", "median_of_any_number", "joint", "sum_and_count")
        return
    rows = query.contributions(x)
    assert rows.shape == (len(x), query.width)
    np.testing.assert_allclose(rows.sum(0) / query.divisor, query(x), rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(query.contributions(x[1:3]), rows[1:3])
    np.testing.assert_array_equal(jax.jit(query.contributions)(x[1:3]).shape, rows[1:3].shape)


@catalogue
def test_integer_statistic_is_the_statistic_in_steps(name):
    query, x = QUERIES[name].query, QUERIES[name].x
    if query.step is None:
        with pytest.raises(MissingCapabilityError, match="integer statistic"):
            query.integer_statistic(x)
        return
    integers = query.integer_statistic(x)
    assert all(type(value) is int for value in integers)
    np.testing.assert_allclose(query.step * np.array(integers), query(x), rtol=1e-12, atol=0.0)


def test_integer_statistic_is_exact_on_many_records():
    rng = np.random.default_rng(3)
    n, x = 5000, rng.normal(1.0, 6.0, (5000, 2))
    mean = ClampedMean(bounds=(-8.0, 8.0), num_records=n, num_columns=2, grid=2.0**-20)
    by_hand = [
        sum(round(Fraction(min(max(v, -8.0), 8.0)) * 2**20) for v in column)
        for column in x.T.tolist()
    ]
    assert mean.integer_statistic(x) == by_hand
    moments = RegressionMoments(num_records=n, num_predictors=1, bounds=(-8.0, 8.0), grid=2.0**-20)
    z = [[round(Fraction(min(max(v, -8.0), 8.0)) / 8 * 2**20) for v in row] for row in x.tolist()]
    pairs = [(2**20, y, a) for a, y in z]
    sums = [
        sum(one * y for one, y, _ in pairs),
        sum(a * y for _, y, a in pairs),
        sum(y * y for _, y, _ in pairs),
    ]
    sums += [sum(one * a for one, _, a in pairs), sum(a * a for *_, a in pairs)]
    assert moments.integer_statistic(x) == sums
    np.testing.assert_allclose(moments.step * np.array(sums), moments(x), rtol=1e-12)


@catalogue
def test_json_round_trip_is_exact(name):
    query = QUERIES[name].query
    again = nw.queries.from_spec(json.loads(json.dumps(query.to_spec(), allow_nan=False)))
    assert again == query
    assert hash(again) == hash(query)
    assert type(again) is type(query)
    np.testing.assert_array_equal(again(QUERIES[name].x), query(QUERIES[name].x))


@catalogue
def test_queries_are_frozen_and_travel(name):
    query, x = QUERIES[name].query, QUERIES[name].x
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.num_records = 3
    np.testing.assert_array_equal(pickle.loads(cloudpickle.dumps(query))(x), query(x))


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {"type": "FunctionQuery"},
        {"type": ["Median"]},
        {"type": "Median", "candidates": [1.0]},
        {"type": "Median", "candidates": [1.0], "num_records": 3, "seed": 1},
    ],
)
def test_foreign_specs_are_refused(spec):
    with pytest.raises(FileFormatError):
        nw.queries.from_spec(spec)


def test_regression_moments_follow_the_published_order():
    query = RegressionMoments(num_records=100, num_predictors=2)
    assert query.names == ("y", "x1*y", "x2*y", "y*y", "x1", "x2", "x1*x1", "x1*x2", "x2*x2")
    assert RegressionMoments(num_records=1, num_predictors=1).names == (
        "y",
        "x1*y",
        "y*y",
        "x1",
        "x1*x1",
    )
    data = np.random.default_rng(1).normal(0.0, 7.0, (100, 3))
    z = np.clip(data, -10.0, 10.0) / 10.0
    design, y = np.column_stack([np.ones(100), z[:, :2]]), z[:, 2]
    gram = design.T @ design
    upper = gram[np.triu_indices(3)][1:]
    expected = np.concatenate([design.T @ y, [y @ y], upper]) / 100
    np.testing.assert_allclose(query(data), expected, rtol=1e-12)


def test_published_sensitivities_of_regression_moments():
    exact = [
        RegressionMoments(num_records=1, num_predictors=p).sensitivity(norm=1) for p in (1, 2, 3, 4)
    ]
    np.testing.assert_allclose(exact, [16 / 3, 9.375, 14.4, 245 / 12], rtol=1e-15)
    squares = [
        RegressionMoments(num_records=1, num_predictors=p).sensitivity(norm=2) ** 2
        for p in (1, 2, 3, 4)
    ]
    np.testing.assert_allclose(squares, [8.0, 16.0, 24.0, 36.0], rtol=1e-15)
    paper = RegressionMoments(num_records=100, num_predictors=2, sensitivity_bound="paper")
    assert paper.sensitivity(norm=1) == paper.paper_sensitivity() == 0.13
    assert (
        paper.sensitivity(norm=2)
        == RegressionMoments(num_records=100, num_predictors=2).sensitivity(norm=2)
        == 0.04
    )


def largest_change(query, records, norm):
    """Over all pairs of `records`, exactly: the change of the integer statistic of a one-record
    database.
    """
    rows = np.array([query.integer_statistic([record]) for record in records])
    return max(np.linalg.norm(rows - row, ord=norm, axis=1).max() for row in rows)


@pytest.mark.parametrize("norm", NORMS)
def test_rounded_moments_never_pass_the_stated_sensitivity(norm):
    for p, resolution in ((1, 1), (1, 3), (1, 6), (2, 1), (2, 2), (2, 4)):
        query = RegressionMoments(num_records=1, num_predictors=p, grid=1 / resolution)
        axis = 10.0 * np.arange(-resolution, resolution + 1) / resolution
        found = query.step * largest_change(query, itertools.product(axis, repeat=p + 1), norm)
        assert found <= query.sensitivity(norm) * (1 + 1e-12)
    # The last of them has the extreme records of all norms on its grid, -1/4 included.
    assert found >= query.sensitivity(norm) * (1 - 1e-12)


def test_a_grid_without_the_bounds_would_raise_the_sensitivity():
    class Careless(ClampedMean):
        def __post_init__(self):
            pass

    with pytest.raises(
        InvalidInputError, match=r"bounds 0 and 0.5 must be multiples of grid=0.3; 0.25 would do"
    ):
        ClampedMean(bounds=(0.0, 0.5), num_records=1, grid=0.3)
    careless = Careless(bounds=(0.0, 0.5), num_records=1, num_columns=1, grid=0.3)
    change = careless.step * largest_change(careless, [[0.0], [0.5]], 1)
    assert change > 0.5 * 1.19
    assert (
        change <= careless.sensitivity()
    )  # the claim counts the steps of the integers, not the distance of the bounds


def test_median_sensitivity_by_enumeration():
    query = Median(candidates=(1.0, 3.0, 4.0), num_records=3)
    values = (0.0, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0)
    databases = [
        (*others, one)
        for others in itertools.combinations_with_replacement(values, 2)
        for one in values
    ]
    scores = np.array([query(database) for database in databases]).reshape(-1, len(values), 3)
    changes = (scores[:, :, None] - scores[:, None, :]).reshape(-1, 3)
    for norm in NORMS:
        assert np.linalg.norm(changes, ord=norm, axis=1).max() == pytest.approx(
            query.sensitivity(norm), rel=1e-15
        )


def test_median_prefers_the_middle():
    query = Median(candidates=tuple(range(10)), num_records=7)
    assert np.argmax(query([8.0, 8.5, 3.0, 1.0, 2.9, 0.0, 7.0])) == 3


def test_histogram_agrees_with_numpy_inside_its_edges():
    edges = (-1.0, 0.0, 0.25, 2.0, 3.0)
    x = np.concatenate([np.random.default_rng(0).uniform(-1.0, 3.0, 500), edges])
    np.testing.assert_array_equal(Histogram(edges=edges)(x), np.histogram(x, bins=edges)[0])
    assert Histogram(edges=edges).names == (
        "[-1.0, 0.0)",
        "[0.0, 0.25)",
        "[0.25, 2.0)",
        "[2.0, 3.0]",
    )


def test_infection_curve_takes_counts():
    query = InfectionCurve(population=1000, num_times=3)
    np.testing.assert_array_equal(query([1, 1000, 0]), [1.0, 1000.0, 0.0])
    assert query.integer_statistic(np.array([1.0, 7.0, 0.0])) == [1, 7, 0]
    np.testing.assert_array_equal(jax.jit(query)(jnp.array([1, 2, 3])), [1.0, 2.0, 3.0])
    with pytest.raises(InvalidInputError, match="one row per record"):
        query.contributions([1, 2, 3])


def test_joint_combines_blocks():
    first, second = (
        ClampedMean(bounds=(0.0, 3.0), num_records=2),
        ClampedMean(bounds=(-4.0, 0.0), num_records=2),
    )
    joint = Joint([first, second])
    assert joint.names == ("0:mean", "1:mean")
    assert [joint.sensitivity(norm) for norm in NORMS] == [3.5, 2.5, 2.0]
    assert joint.queries == (first, second)
    assert joint.domain == nw.queries.Box(low=(-4.0,), high=(3.0,))
    counts = Joint([Histogram(edges=(0, 1, 2)), Histogram(edges=(0, 1, 5))])
    assert counts.integer_statistic([0.5, 1.5, 1.7]) == [1, 2, 1, 2]
    assert counts.step == 1.0
    assert Joint([first, lambda x: [1.0]]).names is None


def test_function_query_uses_what_was_stated():
    stated = FunctionQuery(np.sort, sensitivity={1: 3.0, math.inf: 0.5})
    assert [stated.sensitivity(norm) for norm in NORMS] == [3.0, 3.0, 0.5]
    assert FunctionQuery(np.sort, sensitivity=2.0).sensitivity(norm=math.inf) == 2.0
    assert FunctionQuery(np.sort, sensitivity={0: 1.0}).sensitivity(norm=0) == 1.0
    with pytest.raises(MissingCapabilityError, match=r"pass sensitivity=\{1: \.\.\.\}"):
        FunctionQuery(np.sort, sensitivity={2: 1.0}).sensitivity(norm=1)
    with pytest.raises(MissingCapabilityError, match="does not state"):
        FunctionQuery(np.sort, sensitivity=1.0).sensitivity(norm=0)
    assert stated.width is None
    assert FunctionQuery(np.sort, names=["a", "b"]).width == 2
    assert FunctionQuery(np.mean)([1.0, 2.0]).tolist() == [1.5]
    assert FunctionQuery(lambda x: 3, names=["a"])([1.0]).tolist() == [3.0]
    assert jax.jit(FunctionQuery(jnp.mean))(jnp.array([1.0, 2.0])).tolist() == [1.5]
    s = jax.jit(FunctionQuery(lambda x: jnp.sort(x)))(jnp.array([2.0, 1.0]))
    np.testing.assert_array_equal(s, [1.0, 2.0])


def test_as_query():
    query = QUERIES["median"].query
    assert nw.queries.as_query(query) is query
    assert isinstance(nw.queries.as_query(np.sort), FunctionQuery)
    for wrong in (3.0, None, "mean", Median):
        with pytest.raises(InvalidTypeError, match="query must be"):
            nw.queries.as_query(wrong)


@pytest.mark.parametrize(
    "bounds", [(1e16, 1e16 + 2), (1e8, 1e8 + 1e-7), (1e6, 1e6 + 1e-9), (-3.0, 7.0)]
)
@pytest.mark.parametrize("grid", [None, 0.25])
def test_rescaled_records_stay_within_one_wherever_the_bounds_lie(bounds, grid):
    """Float64 rounds centre and width of bounds far from 0: products above 1 would break the proved
    sensitivity.
    """
    query = RegressionMoments(num_records=1, num_predictors=1, bounds=bounds, grid=grid)
    for record in itertools.product((-1e300, *bounds, 1e300), repeat=2):
        assert np.abs(query([record])).max() <= 1.0


def test_the_sensitivity_of_a_grid_is_that_of_its_integers():
    """Bounds a little beside the grid, within rounding, are moved onto it; the claim must count
    whole steps.
    """
    query = ClampedMean(bounds=(1e9 + 0.0009, 1e9 + 0.9991), num_records=1, grid=1.0)
    low, high = (query.integer_statistic([value])[0] for value in (0.0, 2e9))
    assert query.sensitivity() >= (high - low) * query.grid
