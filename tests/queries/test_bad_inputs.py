"""Bad arguments and bad data: a typed error each, that says what to do and repeats nothing
confidential.
"""

import math
import traceback

import numpy as np
import pytest

from noisewise import queries as q
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError

SECRET = 314159.0
MEAN = q.ClampedMean(bounds=(0.0, 1.0), num_records=3)
PAIRS = q.ClampedMean(bounds=(0.0, 1.0), num_records=2, num_columns=2, grid=0.5)
MOMENTS = q.RegressionMoments(num_records=2, num_predictors=2, grid=0.5)
TABLE = q.ContingencyTable(levels=(2, 3))
CLASSES = q.CategoryProportions(num_classes=2, num_values=(2,), num_records=2)
CURVE = q.InfectionCurve(population=2, num_times=3)
MEDIAN = q.Median(candidates=(1.0, 2.0), num_records=2)
BARE = q.FunctionQuery(np.sort)

DATA = {
    "nan": (MEAN, [SECRET, math.nan, 0.0]),
    "inf": (MEAN, [SECRET, math.inf, 0.0]),
    "minus inf in moments": (MOMENTS, [[SECRET, 1.0, -math.inf], [1.0, 1.0, 1.0]]),
    "nan for a histogram": (q.Histogram(edges=(0.0, 1.0, 2.0)), [SECRET, math.nan]),
    "nan for a median": (MEDIAN, [SECRET, math.nan]),
    "too few records": (MEAN, [SECRET, 0.0]),
    "too many records": (MEDIAN, [SECRET, 0.0, 1.0]),
    "no records": (MEDIAN, np.zeros((0, 1))),
    "one column of two": (PAIRS, [SECRET, 0.0]),
    "three columns of two": (PAIRS, [[SECRET, 0.0, 1.0], [SECRET, 0.0, 1.0]]),
    "transposed": (MOMENTS, np.full((3, 2), SECRET)),
    "a cube": (PAIRS, np.full((2, 2, 2), SECRET)),
    "a number": (MEAN, SECRET),
    "ragged": (PAIRS, [[SECRET], [SECRET, 1.0]]),
    "masked": (MEAN, np.ma.masked_invalid([SECRET, math.nan, 0.0])),
    "half a category": (TABLE, [[0, 1], [0.5, 1]]),
    "category too large": (TABLE, [[0, SECRET], [0, 1]]),
    "negative category": (CLASSES, [[0, 1], [0, -SECRET]]),
    "category missing": (CLASSES, [[0, 1], [0, math.nan]]),
    "status neither 0 nor 1": (CURVE, [[0, 1, 0], [0, SECRET, 1]]),
    "status one half": (CURVE, [[0, 1, 0], [0, 0.5, 1]]),
    "people missing": (CURVE, [[0, 1, 0]]),
    "count above the population": (CURVE, [0, 1, SECRET]),
    "negative count": (CURVE, [0, 1, -1]),
    "counts of other times": (CURVE, [SECRET, 1]),
}

TYPES = {
    "strings": (MEAN, ["314159", "b", "c"]),
    "objects": (PAIRS, [[SECRET, None], [1.0, 2.0]]),
    "complex": (MEAN, np.array([SECRET + 1j, 0.0, 0.0])),
    "none": (MEAN, None),
    "dates": (MEAN, np.array(["2020-01-01"] * 3, dtype="datetime64[D]")),
}


@pytest.mark.parametrize(
    ("table", "name"), [(DATA, name) for name in DATA] + [(TYPES, name) for name in TYPES]
)
def test_bad_data_is_refused_without_repeating_it(table, name):
    query, x = table[name]
    expected = InvalidInputError if table is DATA else InvalidTypeError
    for evaluate in (query, query.integer_statistic):
        if evaluate == query.integer_statistic and query.step is None:
            continue
        with pytest.raises(expected, match="x must") as caught:
            evaluate(x)
        shown = "".join(traceback.format_exception_only(caught.value)) + repr(
            caught.value.__cause__
        )
        assert "314159" not in shown
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


ARGUMENTS = {
    "bounds swapped": (
        lambda: q.ClampedMean(bounds=(1.0, 0.0), num_records=3),
        InvalidInputError,
        "low < high",
    ),
    "bounds equal": (
        lambda: q.RegressionMoments(3, 1, bounds=(1.0, 1.0)),
        InvalidInputError,
        "low < high",
    ),
    "bounds infinite": (lambda: q.ClampedMean((0.0, math.inf), 3), InvalidInputError, "finite"),
    "bounds a number": (lambda: q.ClampedMean(3.0, 3), InvalidInputError, "pair"),
    "bounds too many": (
        lambda: q.ClampedMean(((0, 1),) * 3, 3, 2),
        InvalidInputError,
        "2 such pair",
    ),
    "bounds off the grid": (
        lambda: q.ClampedMean((0, 100), 500, grid=0.3),
        InvalidInputError,
        "bounds 0 and 100 must be multiples of grid=0.3; 0.25 would do",
    ),
    "one of the bounds off the grid": (
        lambda: q.ClampedMean([(0, 1), (-1.5, 2.5)], 9, grid=1.0),
        InvalidInputError,
        "bounds -1.5 and 2.5 must be multiples of grid=1; 0.5 would do",
    ),
    "bounds without a common grid": (
        lambda: q.ClampedMean((-1.23456789012345, math.pi), 9, grid=0.1),
        InvalidInputError,
        "multiples of grid=0.1; take rounder bounds",
    ),
    "bounds for fewer columns": (
        lambda: q.ClampedMean([(0, 1)] * 2, 9, num_columns=1),
        InvalidInputError,
        "1 such",
    ),
    "a trillion columns": (
        lambda: q.ClampedMean((0, 1), 3, 10**12),
        InvalidInputError,
        "num_columns would .* fewer",
    ),
    "a million pairs": (
        lambda: q.ClampedMean(np.zeros((1_000_001, 2)), 3),
        InvalidInputError,
        "num_columns would",
    ),
    "a trillion moments": (
        lambda: q.RegressionMoments(3, 10**6),
        InvalidInputError,
        "num_predictors would",
    ),
    "a trillion times": (lambda: q.InfectionCurve(3, 10**12), InvalidInputError, "num_times would"),
    "a table beyond counting": (
        lambda: q.ContingencyTable((2**900,) * 2),
        InvalidInputError,
        "product of levels",
    ),
    "a trillion classes": (
        lambda: q.CategoryProportions(10**12, (2,), 3),
        InvalidInputError,
        "num_classes times",
    ),
    "grid negative": (lambda: q.ClampedMean((0.0, 1.0), 3, grid=-0.5), InvalidInputError, "> 0"),
    "grid too fine": (
        lambda: q.ClampedMean((0.0, 1.0), 2**30, grid=2.0**-30),
        InvalidInputError,
        "coarser",
    ),
    "moments grid not 1/R": (
        lambda: q.RegressionMoments(3, 1, grid=0.3),
        InvalidInputError,
        "1/grid",
    ),
    "moments grid too fine": (
        lambda: q.RegressionMoments(10**6, 1, grid=1e-6),
        InvalidInputError,
        "coarser",
    ),
    "moments bound unknown": (
        lambda: q.RegressionMoments(3, 1, sensitivity_bound="tight"),
        InvalidInputError,
        "paper",
    ),
    "no predictors": (lambda: q.RegressionMoments(3, 0), InvalidInputError, "num_predictors"),
    "no records": (lambda: q.ClampedMean((0.0, 1.0), 0), InvalidInputError, "num_records"),
    "records fractional": (lambda: q.ClampedMean((0.0, 1.0), 2.5), InvalidTypeError, "num_records"),
    "arguments swapped": (lambda: q.ClampedMean(10, (0.0, 1.0)), InvalidTypeError, "num_records"),
    "edges decreasing": (
        lambda: q.Histogram(edges=(0.0, 2.0, 1.0)),
        InvalidInputError,
        "increasing",
    ),
    "one bin": (lambda: q.Histogram(edges=(0.0, 1.0)), InvalidInputError, "at least 3"),
    "edges a number": (lambda: q.Histogram(edges=4), InvalidTypeError, "at least 3"),
    "proportions of unknown n": (
        lambda: q.Histogram((0, 1, 2), normalize=True),
        InvalidInputError,
        "pass num_records",
    ),
    "normalize by number": (
        lambda: q.ContingencyTable((2, 2), 5, normalize=5),
        InvalidTypeError,
        "True or False",
    ),
    "one level": (lambda: q.ContingencyTable(levels=(2, 1)), InvalidInputError, ">= 2"),
    "levels a number": (lambda: q.ContingencyTable(levels=4), InvalidTypeError, "tuple"),
    "no candidates": (
        lambda: q.Median(candidates=(), num_records=3),
        InvalidInputError,
        "at least 1",
    ),
    "candidate twice": (
        lambda: q.Median(candidates=(1.0, 1.0), num_records=3),
        InvalidInputError,
        "increasing",
    ),
    "candidate nan": (
        lambda: q.Median(candidates=(1.0, math.nan), num_records=3),
        InvalidInputError,
        "finite",
    ),
    "no times": (
        lambda: q.InfectionCurve(population=3, num_times=0),
        InvalidInputError,
        "num_times",
    ),
    "no features": (lambda: q.CategoryProportions(2, (), 3), InvalidTypeError, "num_values"),
    "joint of nothing": (lambda: q.Joint([]), InvalidTypeError, "one or more"),
    "joint of one, bare": (lambda: q.Joint(MEAN), InvalidTypeError, "list"),
    "joint of two databases": (lambda: q.Joint([MEAN, MEDIAN]), InvalidInputError, "one database"),
    "norm 3": (
        lambda: MEAN.sensitivity(norm=3),
        InvalidInputError,
        "norm must be one of 1, 2, math.inf",
    ),
    "norm 0 of a mean": (
        lambda: MEAN.sensitivity(norm=0),
        InvalidInputError,
        "norm must be one of",
    ),
    "norm a word": (lambda: MEAN.sensitivity(norm="l1"), InvalidTypeError, "norm must be"),
    "norm nan": (lambda: MEAN.sensitivity(norm=math.nan), InvalidInputError, "norm must be"),
    "function missing": (lambda: q.FunctionQuery(3.0), InvalidTypeError, "fn must be a function"),
    "names a string": (
        lambda: q.FunctionQuery(np.sort, names="ab"),
        InvalidTypeError,
        "sequence of strings",
    ),
    "names repeated": (
        lambda: q.FunctionQuery(np.sort, names=["a", "a"]),
        InvalidInputError,
        "different",
    ),
    "sensitivity negative": (
        lambda: q.FunctionQuery(np.sort, sensitivity=-1.0),
        InvalidInputError,
        "> 0",
    ),
    "sensitivity of norm 3": (
        lambda: q.FunctionQuery(np.sort, sensitivity={3: 1.0}),
        InvalidInputError,
        "0, 1, 2",
    ),
    "sensitivity unstated": (
        lambda: BARE.sensitivity(),
        MissingCapabilityError,
        "pass sensitivity",
    ),
    "function to integers": (
        lambda: BARE.integer_statistic([1]),
        MissingCapabilityError,
        "lattice",
    ),
    "function to JSON": (lambda: BARE.to_spec(), MissingCapabilityError, "JSON"),
    "function to a matrix": (
        lambda: q.FunctionQuery(np.diag)([1.0, 2.0]),
        InvalidInputError,
        "1-D",
    ),
    "function to words": (lambda: q.FunctionQuery(lambda x: ["a"])([1.0]), InvalidTypeError, "1-D"),
    "function to too many": (
        lambda: q.FunctionQuery(np.sort, names=["a", "b"])([1]),
        InvalidInputError,
        "has 2",
    ),
    "no grid": (lambda: MEAN.integer_statistic([0.0, 0.0, 0.0]), MissingCapabilityError, "grid="),
    "box upside down": (lambda: q.Box(low=(1.0,), high=(0.0,)), InvalidInputError, "low < high"),
    "box grid": (
        lambda: q.Box(low=(0.0,), high=(1.0,), grid=(0.0,)),
        InvalidInputError,
        "positive",
    ),
    "no categories": (lambda: q.Categories(levels=(0,)), InvalidInputError, ">= 1"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_bad_arguments_are_refused(name):
    make, error, text = ARGUMENTS[name]
    with pytest.raises(error, match=text) as caught:
        make()
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize(
    "name", ["status neither 0 nor 1", "status one half", "people missing", "negative count"]
)
def test_infection_curves_speak_of_statuses_and_counts(name):
    query, x = DATA[name]
    with pytest.raises(
        InvalidInputError,
        match=r"statuses, (0 or 1|of shape)|counts of infected people.*population=2",
    ):
        query(x)
    with pytest.raises(InvalidInputError, match="statuses, 0 or 1"):
        query.contributions([[0, 1, 2]])


@pytest.mark.parametrize("grid", [0.3, 0.07, 1.1, 3.0, 400.0])
@pytest.mark.parametrize("bounds", [(0, 100), (-1.5, 2.5), (0.1, 0.7), (-1e6, 33.3)])
def test_the_proposed_grid_would_do(bounds, grid):
    try:
        q.ClampedMean(bounds, 10, grid=grid)
    except InvalidInputError as error:
        better = float(str(error).split("; ")[1].split()[0])
        assert better <= grid
        assert q.ClampedMean(bounds, 10, grid=better).grid == better
    else:
        assert all((end / grid).is_integer() or grid == 0.3 for end in bounds)


def test_the_number_of_columns_is_that_of_the_pairs():
    query = q.ClampedMean([(0, 100), (0, 1)], 500)
    assert query == q.ClampedMean(((0.0, 100.0), (0.0, 1.0)), 500, num_columns=2)
    assert q.from_spec(query.to_spec()) == query
    assert q.ClampedMean((0, 100), 500).num_columns == 1
    assert q.ClampedMean([(0, 100)], 500).num_columns == 1


def test_curves_of_the_differential_equation_are_statistics_but_not_released():
    """A deterministic epidemic has real-valued counts; only a release insists on whole ones."""
    np.testing.assert_array_equal(CURVE([0.5, 1.25, 0.0]), [0.5, 1.25, 0.0])
    with pytest.raises(InvalidInputError, match="whole counts"):
        CURVE.integer_statistic([0.5, 1.25, 0.0])
