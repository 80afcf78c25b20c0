"""Whether and how a release is refused depends on public facts alone: neighbours come to the same,
in the same words.

Driven with pairs of neighbouring databases chosen adversarially, at settings near every limit
(`refusals`). Oracles that releases once had are planted again and found.
"""

import dataclasses
import functools
import json
import traceback
import types

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.disclosure import curator, exact_mechanisms, exact_noise
from noisewise.errors import BudgetError, ReleaseError
from tests.disclosure.refusals import KINDS, Case, cases, differences, outcome
from tests.disclosure.releases import CODES, MEAN, MEAN3, PATHS, PURE

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries

FEWER, MORE = 1_000, 50_000


@pytest.fixture(scope="module", autouse=True)
def _conversions_computed_once():
    """The cases state seven budgets with a delta: their zCDP is searched for once, which takes longer
    than a release.
    """
    with pytest.MonkeyPatch.context() as patch:
        search = functools.cache(nw.ZeroConcentratedDP.from_approximate)
        patch.setattr(nw.ZeroConcentratedDP, "from_approximate", staticmethod(search))
        yield


def test_neighbours_come_to_the_same():
    assert list(differences(cases(np.random.default_rng(0), FEWER))) == []


@pytest.mark.slow
def test_many_neighbours_come_to_the_same():
    assert list(differences(cases(np.random.default_rng(1), MORE))) == []


def test_every_kind_is_both_released_and_refused():
    """Else the test above would look at one side of each limit only."""
    rng = np.random.default_rng(2)
    for name, kind in KINDS.items():
        kinds, both = set(), name not in ("answer", "median")
        for _ in range(150):
            try:
                case = kind(rng)
            except nw.errors.NoisewiseError:
                continue
            kinds.add(outcome(case, case.pair[0])[0][0])
            if "released" in kinds and len(kinds) > both:
                break
        assert "released" in kinds, name
        assert len(kinds) > both, name


# The oracles of before, planted again -------------------------------------------------------------


def refuse_outside(values, low, high):
    if any(not low <= value <= high for value in values):
        raise ReleaseError("The statistic lies outside the range.")
    return list(values)


def refused_aloud(plan, read):
    """What `draw` would be if it let errors out."""
    return tuple(plan.sampler(curator.confidential_integers(read(), plan.query)))


def without_limits(monkeypatch):
    """The true integers are tested, not what they could be: the largest of a histogram, the sum
    behind a mean.
    """
    monkeypatch.setattr(exact_mechanisms, "_FINEST", 2**80)
    monkeypatch.setattr(q.AbstractQuery, "largest_integer", None)
    for kind in (q.ClampedMean, q.RegressionMoments, q.Median, q.InfectionCurve, q.Joint):
        monkeypatch.setattr(kind, "largest_integer", None)
    monkeypatch.setattr("noisewise.queries.base.AbstractCountQuery.largest_integer", None)
    monkeypatch.setattr(exact_noise, "_within", refuse_outside)


def counts_above_the_population(monkeypatch):
    monkeypatch.setattr(exact_noise, "_within", refuse_outside)


def lattices_of_the_mechanism(monkeypatch):
    """The caller's step decides which values of a user's function are refused."""
    of = curator.PlannedRelease.of.__func__

    def planted(cls, query, guarantee=None, *, mechanism=None, **terms):
        if isinstance(query, q.FunctionQuery) and isinstance(
            mechanism, (m.DiscreteLaplace, m.DiscreteGaussian)
        ):
            query = query.on_lattice(mechanism.step)
        return of(cls, query, guarantee, mechanism=mechanism, **terms)

    monkeypatch.setattr(curator.PlannedRelease, "of", classmethod(planted))


def sizes_in_messages(monkeypatch):
    """A message that says how large the noisy values are."""
    publish = curator.PlannedRelease.publish

    def planted(plan, values):
        if values is not None and values[0] > 3.0:
            raise ReleaseError("The statistic is large.")
        return publish(plan, values)

    monkeypatch.setattr(curator.PlannedRelease, "publish", planted)


@pytest.mark.parametrize(
    "plant",
    [without_limits, counts_above_the_population, lattices_of_the_mechanism, sizes_in_messages],
)
def test_planted_oracles_are_found(plant, monkeypatch):
    plant(monkeypatch)
    assert any(differences(cases(np.random.default_rng(0), FEWER)))


def finer(step, count, sensitivity):
    """Noise of which `count` steps of the query are just more than 2^51 of its own, and one less is
    not.
    """
    own = step / round(2**51 / (count - 0.5))
    return m.DiscreteLaplace(own * 2**40, sensitivity, own)


ORACLES = {
    "largest count by finer steps": [
        Case(q.Histogram(edges=(0, 1, 2)), {"mechanism": finer(1.0, count, 2.0)}, ([0.5] * 8, [0.5] * 7 + [1.5]))
        for count in range(2, 12)
    ],
    "sum by finer steps": [
        Case(
            dataclasses.replace(MEAN3, bounds=(0.0, 8.0), grid=1.0),
            {"mechanism": finer(1 / 3, count, 8 / 3)},
            ([8.0, 8.0, 8.0], [8.0, 8.0, 7.0]),
        )
        for count in range(2, 30)
    ],
    "counts above a population": [
        Case(q.Histogram(edges=(0, 1, 2)), {"mechanism": m.PaddedBinomial(2, 1.0, population, 2)}, ([0.5] * 8, [0.5] * 7 + [1.5]))
        for population in range(1, 12)
    ],
    "divisible by seven": [
        Case(q.FunctionQuery(len, sensitivity=sensitivity), {"mechanism": m.DiscreteLaplace(7.0, 7.0, 7.0)}, ([1] * n, [1] * (n + 1)))
        for sensitivity in (1.0, 7.0)
        for n in range(1, 15)
    ],
    "a grid that is too fine": [
        Case(q.ClampedMean((0.0, 1.0), 4, grid=0.5**halving), {"guarantee": PURE}, ([1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]))
        for halving in range(1, 51)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLES)
def test_the_oracles_of_before_tell_nothing(name):
    assert list(differences(ORACLES[name])) == []


# The ledger ---------------------------------------------------------------------------------------


class Untouchable:
    """Data that notice when anybody looks at them."""

    def __init__(self):
        self.touched = []

    def __getattribute__(self, name):
        if name not in ("touched", "__class__", "__dict__"):
            self.touched.append(name)
        return object.__getattribute__(self, name)

    def __len__(self):
        self.touched.append("len")
        return 1

    def __iter__(self):
        self.touched.append("iter")
        return iter([1.0])

    def __array__(self, *arguments, **options):
        self.touched.append("array")
        return np.ones(1)


def test_an_exhausted_ledger_refuses_before_the_data_are_looked_at(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.ZeroConcentratedDP(1e-30))
    tried = 0
    for case in cases(np.random.default_rng(3), 500):
        if outcome(case, case.pair[0])[0][0] != "released":
            continue
        data = Untouchable()
        with pytest.raises(BudgetError):
            nw.release(data, case.query, **case.terms, ledger=ledger)
        assert data.touched == []
        tried += 1
    assert tried > 200
    assert ledger.entries == ()


def test_data_that_are_looked_at_notice_it():
    data = Untouchable()
    nw.release(data, MEAN, PURE)
    assert "array" in data.touched


def test_charging_after_the_data_would_be_found(tmp_path, monkeypatch):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(1e-30))
    charge, draw = curator.PlannedRelease.charge, curator.PlannedRelease.draw
    monkeypatch.setattr(curator.PlannedRelease, "afford", lambda plan: None)
    monkeypatch.setattr(curator.PlannedRelease, "charge", lambda plan: None)
    monkeypatch.setattr(
        curator.PlannedRelease, "draw", lambda plan, read: (draw(plan, read), charge(plan))[0]
    )
    data = Untouchable()
    with pytest.raises(BudgetError):
        nw.release(data, MEAN, PURE, ledger=ledger)
    assert data.touched


# What is wrong with data is not said --------------------------------------------------------------

WRONG = {
    "missing": [0.25, np.nan, 1.0],
    "infinite": [0.25, 1.0, -np.inf],
    "one too few": [0.25, 1.0],
    "one too many": [0.25] * 4,
    "none": [],
    "short texts": ["a", "b", "c"],
    "long texts": ["a", "b", "c" * 11],
    "objects": np.array([0.25, None, 1.0], dtype=object),
    "two columns": [[0.25, 1.0]] * 3,
    "rows of two lengths": [[0.25], [1.0, 2.0], [1.0]],
    "complex": np.array([0.25, 1.0, 2j]),
    "masked": np.ma.masked_array([0.25, 1.0, 2.0], mask=[True, False, False]),
    "missing of pandas": pd.Series([0.25, None, 1.0]),
    "a frame of texts": pd.DataFrame({"a": ["x", "y", "z"]}),
}


@pytest.mark.parametrize(
    "query", [MEAN3, q.Median((1.0, 2.0), 3), q.Joint([MEAN3, q.Median((1.0, 2.0), 3)])], ids=repr
)
def test_one_sentence_whatever_is_wrong(query, tmp_path):
    """And one before anything is spent, where the number of columns, or of records that the query
    states, is another.
    """
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=nw.PureDP(100.0))
    found = []
    for data in WRONG.values():
        with pytest.raises(ReleaseError) as caught:
            nw.release(data, query, PURE, ledger=ledger)
        found.append(str(caught.value))
    shape, spent = sorted(set(found), key=lambda text: "Nothing was spent" not in text)
    assert "Nothing was spent" in shape
    assert "another attempt costs again" in spent
    assert "3 rows" in shape
    assert "3 rows" in spent
    assert len(ledger.entries) == found.count(spent) == len(WRONG) - 3


FUNCTIONS = {
    "raises": lambda x: 1 / 0,
    "exits": lambda x: exit(f"{x}"),
    "returns nothing": lambda x: None,
    "returns a text": lambda x: "31",
    "returns no number": lambda x: [np.nan],
    "returns infinity": lambda x: [np.inf],
    "returns half a step": lambda x: [0.5],
    "returns two numbers": lambda x: [1, 2],
    "returns a table": lambda x: [[1.0]],
    "returns none": lambda x: [],
}


def test_one_sentence_whatever_a_function_does(tmp_path):
    mechanism = m.DiscreteLaplace(1.0, 1.0)
    found = set()
    for fn in FUNCTIONS.values():
        query = q.FunctionQuery(fn, names=["count"], sensitivity=1.0)
        with pytest.raises(ReleaseError) as caught:
            nw.release([0.25], query, mechanism=mechanism)
        found.add(str(caught.value))
    assert len(found) == 1
    assert "1 finite whole multiple" in found.pop()


FAR = (1.0, 2**63, -(2**64), 10**30, -(10**400), 1e308, -1.7e308)


@pytest.mark.parametrize(
    "query", [MEAN3, q.Histogram((0.0, 1.0, 2.0)), q.Median((1.0, 2.0), 3)], ids=repr
)
def test_a_number_is_never_too_large(query):
    """All finite numbers beyond the bounds count as the bounds: a refusal would tell of one record."""
    for value in FAR:
        for others in ([0.5, 1.0], [0, 1]):
            assert nw.release([value, *others], query, PURE).guarantee == PURE
            assert nw.release([*others, value], query, PURE).guarantee == PURE


class Stop(BaseException):
    """Like asyncio.CancelledError: no Exception."""


@pytest.mark.parametrize("kind", [Stop, GeneratorExit, SystemExit, KeyboardInterrupt])
def test_whatever_a_function_raises_ends_inside(kind):
    def fails(x):
        raise kind(f"data {x}")

    with pytest.raises((ReleaseError, KeyboardInterrupt)) as caught:
        nw.release(
            [SECRET], q.FunctionQuery(fails, sensitivity=1.0), mechanism=m.DiscreteLaplace(1.0, 1.0)
        )
    assert "31337" not in str(caught.value)
    assert (caught.type is KeyboardInterrupt) == (kind is KeyboardInterrupt)
    assert caught.value.__context__ is None
    assert frames_with_the_secret(caught.value) == []


def test_warnings_about_the_data_stay_inside():
    with np.errstate(all="warn"):
        query = q.FunctionQuery(lambda x: [int(np.sum(np.asarray(x) / 0.0 > 1.0))], sensitivity=1.0)
        assert nw.release([1.0, 2.0], query, mechanism=m.DiscreteLaplace(1e-3, 1.0)).values == (
            2.0,
        )


# Lattices -----------------------------------------------------------------------------------------


def test_values_off_the_lattice_are_refused_however_large():
    """Neighbours at 1e15 + .5 and 1e15 + 1.5 once were rounded to integers two apart: a loss of 2
    where 1 was stated.
    """
    query = q.FunctionQuery(lambda x: [1e15 + sum(x)], sensitivity=1.0)
    mechanism = m.DiscreteLaplace.calibrate(sensitivity=1.0, guarantee=PURE)
    for data in ([0.5, 0.0], [0.5, 1.0]):
        with pytest.raises(ReleaseError):
            nw.release(data, query, mechanism=mechanism)


def test_proportions_are_multiples_whatever_the_count():
    """k/n is often not the float64 k * (1/n): to refuse it then would tell of the count."""
    for num in (3, 7, 49, 7000, 12_345, 10**6 + 3):
        for count in np.random.default_rng(num).integers(0, num + 1, 200).tolist():
            query = q.FunctionQuery(lambda x: [x / num], sensitivity=1 / num, step=1 / num)  # noqa: B023
            assert query.integer_statistic(count) == [count]


@pytest.mark.parametrize("index", [1, 1000, 2**30, 2**43])
def test_a_hundredth_of_a_step_is_off_the_lattice(index):
    for step in (1.0, 0.5, 0.1, 1 / 3):
        query = q.FunctionQuery(lambda x: [step * (index + x)], sensitivity=step, step=step)  # noqa: B023
        assert query.integer_statistic(0.0) == [index]
        with pytest.raises(nw.errors.InvalidInputError):
            query.integer_statistic(0.01)


def test_integers_are_never_farther_apart_than_the_values(monkeypatch):
    """Over functions of every size whose values keep to a lattice: what noise is added to moves as
    the claim says.
    """
    seen = []
    monkeypatch.setattr(
        exact_noise, "_invoke", lambda measurement, integers: seen.append(integers) or integers
    )
    rng = np.random.default_rng(0)
    for _ in range(300):
        step, start = rng.choice([1.0, 0.1, 0.3, 1 / 3, 1e-7, 1e7]), int(10 ** rng.uniform(0, 13))
        query = q.FunctionQuery(lambda x: [step * (start + x[0])], sensitivity=step, step=step)  # noqa: B023
        del seen[:]
        for record in (0, 1):
            nw.release([record], query, PURE)
        (first,), (second,) = seen
        assert (first, second) == (start, start + 1)


def recorded(monkeypatch):
    """(integers, distance stated to OpenDP, norm) of each block that is drawn, without noise."""
    seen, stated = [], {}
    for name, norm in {
        "discrete_laplace": 1,
        "discrete_gaussian": 2,
        "exponential_choice": np.inf,
    }.items():
        make = getattr(exact_noise, name)

        def noted(scale, *, make=make, norm=norm, sensitivity, **more):
            draw = make(scale, sensitivity=sensitivity, **more)

            def sampler(integers):
                stated["now"] = (sensitivity, norm)
                return draw(integers)

            return sampler

        monkeypatch.setattr(exact_noise, name, noted)

    def drawn(measurement, integers):
        seen.append((np.array(integers, dtype=object), *stated["now"]))
        return integers if stated["now"][1] < 3 else 0

    monkeypatch.setattr(exact_noise, "_invoke", drawn)
    return seen


def losses(case, seen):
    """For each block, how far the integers of the neighbours lie apart, in units of the distance
    that OpenDP was told.
    """
    blocks = []
    for data in case.pair:
        del seen[:]
        if outcome(case, data)[0][0] != "released":
            return []
        blocks.append(list(seen))
    found = []
    for (first, sensitivity, norm), (second, _, _) in zip(*blocks, strict=True):
        change = np.abs((first - second).astype(float))
        apart = change.max() if norm == np.inf else float(np.sum(change**norm) ** (1 / norm))
        found.append(apart / sensitivity if sensitivity else apart * np.inf if apart else 0.0)
    return found


def test_integers_of_neighbours_are_no_farther_apart_than_opendp_is_told(monkeypatch):
    """The privacy loss itself, over the same pairs: a ratio above 1 is a guarantee that is false."""
    seen = recorded(monkeypatch)
    ratios = [
        ratio for case in cases(np.random.default_rng(4), FEWER) for ratio in losses(case, seen)
    ]
    assert len(ratios) > FEWER / 3
    assert max(ratios) <= 1.0 + 1e-9
    assert max(ratios) > 0.99


def test_a_sensitivity_that_is_understated_would_be_found(monkeypatch):
    seen = recorded(monkeypatch)
    monkeypatch.setattr(q.Histogram, "_sensitivity", lambda self, norm: 1.0 / self.divisor)
    found = (
        ratio for case in cases(np.random.default_rng(4), FEWER) for ratio in losses(case, seen)
    )
    assert any(ratio >= np.sqrt(2.0) for ratio in found)


def test_blocks_of_a_product_serve_the_columns_that_they_stand_for():
    """Widths (3, 1) where the queries have (1, 3): the first block stands for columns of both."""
    query = q.Joint([q.ClampedMean((0.0, 1.0), 4, grid=0.25), q.Histogram((0.0, 0.3, 0.6, 1.0))])
    blocks = [m.DiscreteLaplace(1.0, 0.25, 1 / 16), m.DiscreteLaplace(1.0, 2.0, 1 / 16)]
    with pytest.raises(nw.errors.SensitivityError):
        nw.release([0.1, 0.2, 0.5, 0.9], query, mechanism=m.Product(blocks, widths=[3, 1]))
    assert nw.release(
        [0.1, 0.2, 0.5, 0.9], query, mechanism=m.Product(blocks, widths=[1, 3])
    ).guarantee


# Tracebacks ---------------------------------------------------------------------------------------

SECRET = 31337.125


def holds_secret(value, depth=4):
    """Whether the secret can be reached from a value in a few steps."""
    if isinstance(value, (float, int, np.number)) and not isinstance(value, bool):
        return float(value) == SECRET
    if isinstance(value, str):
        return "31337" in value
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiuO" and any(
            holds_secret(item, 1) for item in value.ravel()[:100]
        )
    if depth == 0:
        return False
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return any(holds_secret(item, depth - 1) for item in cells)
    if isinstance(value, dict):
        return any(holds_secret(item, depth - 1) for item in value.values())
    if isinstance(value, (list, tuple, set)):
        return any(holds_secret(item, depth - 1) for item in value)
    return False


def frames_with_the_secret(error):
    """The functions below the public one in whose frames the secret lies."""
    found, inside = [], False
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if inside and any(holds_secret(value) for value in frame.f_locals.values()):
            found.append(frame.f_code.co_name)
        inside = inside or frame.f_code is nw.release.__code__
    return found


REFUSED = {
    "public": lambda: nw.release([SECRET], MEAN, nw.PureDP(1e-30)),
    "missing": lambda: nw.release([SECRET, np.nan, 1.0], MEAN3, PURE),
    "a function": lambda: nw.release([SECRET], CODES, mechanism=m.DiscreteLaplace(1.0, 1.0)),
    "unknown category": lambda: nw.release([[SECRET]], q.ContingencyTable(levels=(2,)), PURE),
    "joint": lambda: nw.release([SECRET, np.nan, 1.0], q.Joint([MEAN3]), PURE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_frame_below_the_public_function_holds_the_data(name):
    with pytest.raises(nw.errors.NoisewiseError) as caught:
        REFUSED[name]()
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert frames_with_the_secret(caught.value) == []


def test_data_in_a_frame_would_be_found(monkeypatch):
    monkeypatch.setattr(curator.PlannedRelease, "draw", refused_aloud)
    with pytest.raises(nw.errors.NoisewiseError) as caught:
        REFUSED["missing"]()
    assert "refused_aloud" in frames_with_the_secret(caught.value)


def test_what_is_released_says_nothing_but_its_values():
    """Fields of two releases of neighbours differ in values and ids alone."""
    for query, terms in PATHS.values():
        first, second = (json.loads(nw.release([x], query, **terms).to_json()) for x in (0.0, 1.0))
        assert {name for name in first if first[name] != second[name]} <= {"values", "ids"}
