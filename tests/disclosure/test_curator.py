"""What `nw.release` publishes: possible observations, the statistic where noise is small, grids,
and what ledgers are charged.
"""

import math

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.disclosure import exact_noise
from noisewise.errors import BudgetError, NoisewiseError, ReleaseError
from tests.disclosure.releases import MEAN, MEDIAN, PATHS, SURE

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries


@pytest.mark.parametrize("name", PATHS)
def test_a_release_is_a_possible_observation_and_survives_its_file(name, tmp_path):
    query, settings = PATHS[name]
    published = nw.release([1.0], query, **settings)
    s = query.on_default_grid()([1.0])
    assert np.isfinite(published.mechanism.log_prob(published.observed, s))
    assert published.guarantee == published.mechanism.guarantee
    if "guarantee" in settings:
        assert published.guarantee.within(settings["guarantee"])
    assert set(published.versions) == {"noisewise", "opendp", "python"}
    published.save(tmp_path / "release.json")
    loaded = nw.Release.load(tmp_path / "release.json")
    assert loaded == published
    assert loaded.to_json() == published.to_json()
    assert hash(loaded) == hash(published)
    assert [value.hex() for value in loaded.values] == [value.hex() for value in published.values]


DATA = {
    "mean": ([0.24, 0.5, 9.0, -4.0], q.ClampedMean(bounds=(0.0, 1.0), num_records=4, grid=0.1), [0.425]),
    "means": ([[0.25, 3], [0.5, 1]], q.ClampedMean(bounds=((0, 1), (0, 4)), num_records=2, num_columns=2), [0.375, 2]),
    "histogram": ([0.5, 1.5, 1.6], q.Histogram(edges=(0, 1, 2, 3)), [1, 2, 0]),
    "proportions": ([0.5, 1.5, 1.6, 9], q.Histogram(edges=(0, 1, 2), num_records=4, normalize=True), [0.25, 0.75]),
    "table": ([[0, 2], [0, 2], [1, 0]], q.ContingencyTable(levels=(2, 3)), [0, 0, 2, 1, 0, 0]),
    "categories": ([[0, 1], [1, 1]], q.CategoryProportions(2, num_values=(2,), num_records=2), [0, 0.5, 0, 0.5]),
    "regression": ([[10.0, -5.0], [2.5, 99.0]], q.RegressionMoments(num_records=2, num_predictors=1),
                   [0.25, -0.125, 0.625, 0.625, 0.53125]),
    "infections": ([[0, 1], [1, 1], [0, 0]], q.InfectionCurve(population=3, num_times=2), [1, 2]),
    "infection counts": ([1, 2], q.InfectionCurve(population=3, num_times=2), [1, 2]),
    "median": ([1.0, 2.0, 2.0, 3.0, 50.0], q.Median(candidates=(1.0, 2.0, 3.0), num_records=5), [2.0]),
    "joint": ([0.5, 1.5, 1.6], q.Joint([q.Histogram(edges=(0, 1, 2)), q.Median((0.5, 1.5), 3)]), [1, 2, 1.5]),
    "data frame": (pd.DataFrame({"a": [0, 1, 1]}), q.ContingencyTable(levels=(2,)), [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_without_noise_to_speak_of_the_statistic_comes_out(name):
    data, query, expected = DATA[name]
    published = nw.release(data, query, SURE)
    assert published.observed == pytest.approx(expected, abs=1e-12)
    assert published.num_records == query.num_records
    assert published.query == query.on_default_grid().to_spec()
    if len(expected) == query.width:
        assert published.names == query.names


def test_concentrated_noise_also_centres_on_the_statistic():
    data, query, expected = DATA["means"]
    published = nw.release(
        data, query, nw.ZeroConcentratedDP(1e6), names=("a", "b"), privacy_unit="household"
    )
    assert published.observed == pytest.approx(expected, abs=0.01)
    assert (published.names, published.privacy_unit) == (("a", "b"), "household")
    assert isinstance(published.mechanism, m.DiscreteGaussian)


def test_the_median_is_named():
    assert nw.release([1.0], MEDIAN, SURE).names == ("median",)


@pytest.mark.parametrize(
    ("bounds", "grid"),
    [
        ((0.0, 1.0), 2**-12),
        ((-1.5, 2.5), 0.5 / 2**9),
        ((0.0, math.pi), math.pi / 2**12),
        ((0.1, 0.7), 0.1 / 2**10),
    ],
)
def test_default_grid_divides_the_bounds(bounds, grid):
    query = q.ClampedMean(bounds=bounds, num_records=3).on_default_grid()
    assert query.grid == pytest.approx(grid, rel=1e-15)
    assert (bounds[1] - bounds[0]) / query.grid >= 2**12 - 1e-6


def test_noise_fits_the_rounded_query():
    """Integers of neighbours differ by at most what OpenDP was told: search over neighbours on and
    off the grid.
    """
    query = q.RegressionMoments(num_records=2, num_predictors=1, grid=0.25)
    rng = np.random.default_rng(0)
    reach = math.floor(query.sensitivity(1) / query.step * (1 + 1e-9))
    largest = 0
    for _ in range(2000):
        x = rng.uniform(-12.0, 12.0, (2, 2))
        other = x.copy()
        other[0] = rng.choice([-10.0, -10 / 3, 10 / 3, 10.0, 2.5, -2.5], 2)
        change = np.subtract(query.integer_statistic(x), query.integer_statistic(other))
        largest = max(largest, int(np.abs(change).sum()))
    assert 0.9 * reach <= largest <= reach


def test_values_are_integers_times_the_step():
    query = q.ClampedMean(bounds=(0.0, 1.0), num_records=7, grid=0.1)
    for _ in range(50):
        (value,) = nw.release(np.full(7, 0.5), query, nw.PureDP(0.01)).values
        assert value == query.step * round(value / query.step)


# The ledger ---------------------------------------------------------------------------------------


def test_the_budget_is_spent_before_noise_is_drawn(tmp_path, monkeypatch):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1.0))
    seen = []
    monkeypatch.setattr(
        exact_noise, "_invoke", lambda measurement, integers: seen.append(ledger.spent) or integers
    )
    nw.release([1.0], MEAN, nw.PureDP(0.75), ledger=ledger, description="the mean")
    assert seen == [nw.PureDP(0.75)]
    with pytest.raises(BudgetError, match="limit"):
        nw.release([1.0], MEAN, nw.PureDP(0.5), ledger=ledger)
    assert len(seen) == 1
    assert [(entry.description, entry.guarantee) for entry in ledger.entries] == [
        ("the mean", nw.PureDP(0.75))
    ]


def test_what_public_facts_refuse_costs_nothing_and_what_the_data_refuse_costs_all(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(2.0))
    named, columns = [([1.0], {"names": ("a", "b")}), ([1.0], {"names": 3})], np.ones((1, 2))
    for data, options in [
        ("people.csv", {}),
        (None, {}),
        *named,
        ([1.0, 2.0], {}),
        (columns, {}),
        (np.ones(3), {}),
    ]:
        with pytest.raises(NoisewiseError):
            nw.release(data, MEAN, nw.PureDP(0.75), ledger=ledger, **options)
    assert ledger.entries == ()
    for number, data in enumerate([[math.nan], ["a"]], start=1):
        with pytest.raises(
            ReleaseError, match=r"PureDP\(epsilon=0.75\) was spent; another attempt costs again"
        ):
            nw.release(data, MEAN, nw.PureDP(0.75), ledger=ledger)
        assert ledger.spent == nw.PureDP(0.75 * number)


def test_gaussian_releases_add_up_under_an_approximate_limit(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.ApproximateDP(1.0, 1e-6))
    nw.release([1.0], MEAN, nw.ApproximateDP(1.0, 1e-6), ledger=ledger)
    assert tuple(ledger.spent.parameters.values()) == pytest.approx((1.0, 1e-6))
    with pytest.raises(BudgetError):
        nw.release([1.0], MEAN, nw.ZeroConcentratedDP(1e-4), ledger=ledger)


def test_an_approximate_request_adds_up_as_it_was_asked_for(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.ApproximateDP(1.0, 1e-6))
    nw.release([1.0], MEAN, nw.PureDP(0.3), ledger=ledger)
    published = nw.release(
        [1.0], MEAN, nw.ApproximateDP(0.5, 5e-7), ledger=ledger, description="the mean"
    )
    assert isinstance(published.guarantee, nw.ZeroConcentratedDP)
    assert published.requested == nw.ApproximateDP(0.5, 5e-7)
    assert published.description == "the mean"
    assert nw.Release.from_json(published.to_json()) == published
    assert tuple(ledger.spent.parameters.values()) == pytest.approx((0.8, 5e-7))
    assert [entry.query for entry in ledger.entries] == ["ClampedMean", "ClampedMean"]
    with pytest.raises(BudgetError, match="asked for ApproximateDP"):
        nw.release([1.0], MEAN, nw.ApproximateDP(0.21, 5e-7), ledger=ledger)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_asked_for_always_follows(seed):
    """Calibration and the sum over blocks round: never so far that a release would contradict its
    request.
    """
    rng = np.random.default_rng(seed)
    for _ in range(20):
        guarantee = [
            nw.ApproximateDP(10 ** rng.uniform(-2, 1.5), 10 ** rng.uniform(-12, -2)),
            nw.PureDP(10 ** rng.uniform(-2, 2)),
            nw.ZeroConcentratedDP(10 ** rng.uniform(-4, 2)),
        ][rng.integers(3)]
        blocks = [
            q.ClampedMean((0.0, float(rng.integers(1, 99))), 7) for _ in range(rng.integers(1, 6))
        ]
        assert nw.release(np.ones(7), q.Joint(blocks), guarantee).requested == guarantee
