"""Pairs of neighbouring databases, chosen adversarially, and settings near every limit: what a
release does with both.

`cases(rng)` yields releases without end: a query, how to release it, and two databases that differ
in one record. What the two come to may differ in the values and in nothing else: `outcome` is all
the rest, errors with every word included.
"""

import contextlib
import dataclasses
import itertools
import math
import warnings

import numpy as np

import noisewise as nw
from noisewise.errors import NoisewiseError

m, q = nw.mechanisms, nw.queries

EPSILONS = (1e-9, 1e-3, 0.1, 1.0, 30.0, 1e6, 1e12)
HALVINGS = (0, 1, 2, 3, 10, 20, 21, 30, 45, 50, 51, 52, 60)
"""How often the step of a mechanism halves that of the query."""
HUGE = (1e6, 2.0**53, 1e19, 1e100, 1.7e308)


@dataclasses.dataclass(frozen=True)
class Case:
    """One release of two neighbours; `terms` are the arguments of `nw.release` after the query."""

    query: object
    terms: dict
    pair: tuple


def outcome(case, data, **more):
    """All of a release but its values and its ids; of an error its kind and its words."""
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        try:
            published = nw.release(data, case.query, **case.terms, **more)
        except NoisewiseError as error:
            result = (
                type(error).__name__,
                str(error),
                repr(error.__cause__),
                repr(error.__context__),
            )
        else:
            result = (
                "released",
                dataclasses.replace(published, values=neutral(published), ids=()).to_json(),
            )
    return result, [str(warning.message) for warning in noticed]


def neutral(published):
    """Values that every release of this mechanism could have."""
    mechanism = published.mechanism
    parts = (
        zip(mechanism.mechanisms, mechanism.widths, strict=True)
        if isinstance(mechanism, m.Product)
        else None
    )
    if parts is not None:
        return tuple(
            itertools.chain.from_iterable(
                _neutral(part, part.output_width(width)) for part, width in parts
            )
        )
    return _neutral(mechanism, len(published.values))


def _neutral(mechanism, width):
    if isinstance(mechanism, m.ExponentialMechanism):
        return (mechanism.candidates[0],)
    if isinstance(mechanism, m.Thresholded):
        return (math.nan,) * width
    return (max(0.0, mechanism.low) if isinstance(mechanism, m.Clamped) else 0.0,) * width


def differences(cases):
    """The cases whose two databases do not come to the same, one after the other."""
    return (case for case in cases if outcome(case, case.pair[0]) != outcome(case, case.pair[1]))


def cases(rng, number):
    """`number` releases of all kinds, in turn."""
    kinds = list(KINDS.values())
    made = 0
    for turn in itertools.count():
        with contextlib.suppress(
            NoisewiseError
        ):  # a query or a mechanism that cannot be made is no release yet
            yield kinds[turn % len(kinds)](rng)
            made += 1
        if made == number:
            return


# What is released of what -------------------------------------------------------------------------


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


def extreme(rng, low, high, grid):
    """A record's number where something could turn: ends, just beside them, halves of the grid, far
    outside.
    """
    ends = (low, high, (low + high) / 2, 0.0)
    beside = (
        math.nextafter(low, -math.inf),
        math.nextafter(high, math.inf),
        math.nextafter(high, low),
    )
    halves = (low + 0.5 * grid, high - 0.5 * grid, low + 1.5 * grid)
    far = (*HUGE, *(-value for value in HUGE), 5e-324, -5e-324)
    return float(pick(rng, (*ends, *beside, *halves, *far)))


def neighbours(rng, record, size):
    """Two databases that differ in one record: all alike but for that one, or any mix."""
    alike = record()
    rows = [alike if rng.random() < 0.7 else record() for _ in range(size)]
    other = list(rows)
    other[rng.integers(size)] = record()
    return np.array(rows), np.array(other)


def noise(rng, query, *kinds):
    """A guarantee, or a mechanism calibrated to it whose steps may be finer than the query's by any
    factor.
    """
    epsilon = pick(rng, EPSILONS)
    guarantee = pick(
        rng,
        (
            nw.PureDP(epsilon),
            nw.ZeroConcentratedDP(epsilon**2 / 2),
            nw.ApproximateDP(epsilon, 1e-6),
        ),
    )
    if rng.random() < 0.3 or query.step is None:
        return {"guarantee": guarantee}
    step = query.step * pick(
        rng, (*(0.5**halving for halving in HALVINGS), 7.0, 3.0, 1 / 3, 1e-320, 1e300)
    )
    kind = m.DiscreteLaplace if isinstance(guarantee, nw.PureDP) else m.DiscreteGaussian
    mechanism = kind.calibrate(
        sensitivity=query.sensitivity(kind.norm), guarantee=guarantee, step=step
    )
    if rng.random() < 0.3:
        mechanism = m.Clamped(
            mechanism, low=0.0, high=8.0 * step, step=pick(rng, (None, 2.0 * step))
        )
    return {"mechanism": mechanism}


def a_mean(rng):
    low, high = pick(rng, ((0.0, 1.0), (-5.0, 100.0), (0.0, 2.0**-30), (-1e15, 1e15)))
    size, columns = int(pick(rng, (1, 2, 4, 7))), int(rng.integers(1, 3))
    grid = pick(
        rng, (None, (high - low) / 4, *((high - low) * 0.5**halving for halving in HALVINGS))
    )
    query = q.ClampedMean(bounds=(low, high), num_records=size, num_columns=columns, grid=grid)
    grid = grid or (high - low) / 4096
    pair = neighbours(rng, lambda: [extreme(rng, low, high, grid) for _ in range(columns)], size)
    return Case(query, noise(rng, query), pair)


def moments(rng):
    size = int(pick(rng, (1, 2, 4)))
    grid = pick(rng, (None, 1.0, 0.25, 0.1, 2.0**-12, 2.0**-24, 2.0**-25, 2.0**-26))
    query = q.RegressionMoments(num_records=size, num_predictors=1, grid=grid)
    pair = neighbours(
        rng, lambda: [extreme(rng, -10.0, 10.0, 20.0 * (grid or 2.0**-12)) for _ in range(2)], size
    )
    return Case(query, noise(rng, query), pair)


def binomial(rng, query, size):
    """Counts out of `trials`, of a population around the number of records."""
    population = int(max(1, size + rng.integers(-2, 3)))
    mechanism = m.PaddedBinomial(
        int(rng.integers(1, 4)), float(pick(rng, (0.01, 1.0, 1e6))), population, query.width
    )
    return {"mechanism": mechanism}


def counted(rng, query, record, size):
    """A query that counts, by noise or by the padded binomial."""
    terms = binomial(rng, query, size) if rng.random() < 0.4 else noise(rng, query)
    return Case(query, terms, neighbours(rng, record, size))


def a_histogram(rng):
    size = int(pick(rng, (1, 2, 3, 8)))
    query = q.Histogram(
        edges=(0.0, 1.0, 2.0, 5.0)[: int(rng.integers(3, 5))],
        num_records=pick(rng, (None, size)),
        normalize=bool(rng.random() < 0.3),
    )
    return counted(rng, query, lambda: [extreme(rng, 0.0, 2.0, 1.0)], size)


def a_table(rng):
    size = int(pick(rng, (1, 2, 5)))
    levels = pick(rng, ((2,), (2, 3)))
    query = q.ContingencyTable(levels=levels, num_records=pick(rng, (None, size)))
    return counted(rng, query, lambda: [int(rng.integers(count)) for count in levels], size)


def proportions(rng):
    size = int(pick(rng, (1, 2, 5)))
    query = q.CategoryProportions(num_classes=2, num_values=(2, 3), num_records=size)
    return counted(rng, query, lambda: [int(rng.integers(count)) for count in (2, 2, 3)], size)


def a_curve(rng):
    size, times = int(pick(rng, (1, 2, 5))), int(rng.integers(1, 4))
    query = q.InfectionCurve(population=size, num_times=times)
    return counted(rng, query, lambda: [int(bit) for bit in rng.integers(0, 2, times)], size)


def a_median(rng):
    size = int(pick(rng, (1, 2, 5, 8)))
    candidates = (-1.0, 0.0, 0.5, 1e6)[: int(rng.integers(1, 5))]
    query = q.Median(candidates=candidates, num_records=size)
    terms = {"guarantee": nw.PureDP(pick(rng, EPSILONS))}
    return Case(query, terms, neighbours(rng, lambda: [extreme(rng, -1.0, 1e6, 0.5)], size))


def jointly(rng):
    size = int(pick(rng, (1, 2, 4)))
    mean = q.ClampedMean(
        bounds=(0.0, 1.0), num_records=size, grid=pick(rng, (None, 0.25, 2.0**-50))
    )
    blocks = [
        mean,
        q.Histogram(edges=(0.0, 0.5, 1.0)),
        q.Median(candidates=(0.0, 1.0), num_records=size),
    ]
    query = q.Joint(blocks[: int(rng.integers(1, 4))])
    epsilon = pick(rng, EPSILONS)
    terms = {"guarantee": nw.PureDP(epsilon)}
    if rng.random() < 0.4:
        parts = [nw.mechanisms.DiscreteLaplace.calibrate(sensitivity=block.sensitivity(1), guarantee=nw.PureDP(epsilon),
                 step=(block.step or 1.0) * pick(rng, (1.0, 0.5, 2.0**-51))) for block in query.queries]  # fmt: skip
        terms = {"mechanism": m.Product(parts, widths=[block.width for block in query.queries])}
    return Case(query, terms, neighbours(rng, lambda: [extreme(rng, 0.0, 1.0, 0.25)], size))


def whole(values):
    return [int(value) for value in np.ravel(values)]


OFFSETS = (0, 1, 2**31, 2**51 - 1, 2**51, 2**53, 2**63, 10**15, 10**400)


def a_function(rng):
    """A count, or a whole number far out, of records that are whole; what it returns keeps to the
    lattice that it states.
    """
    offset, sign, repeats = pick(rng, OFFSETS), pick(rng, (-1, 1)), int(rng.integers(1, 3))
    step = pick(rng, (None, 1.0, 0.5, 7.0))
    scale = 1 if step is None else step if step == 0.5 else int(step)
    names = tuple("abc"[:repeats]) if rng.random() < 0.5 else None
    fn = lambda x: (
        [sign * offset if offset > 1e300 else scale * (sign * offset + sum(whole(x)))] * repeats
    )
    query = q.FunctionQuery(fn, names=names, sensitivity=float(7 * repeats), step=step)
    terms = (
        noise(rng, query)
        if rng.random() < 0.5
        else noise(rng, q.FunctionQuery(fn, sensitivity=7.0 * repeats, step=1.0))
    )
    if rng.random() < 0.2:
        terms = {"mechanism": m.DiscreteLaplace(scale=7.0, sensitivity=7.0 * repeats, step=7.0)}
    size = int(pick(rng, (1, 2, 8)))
    return Case(query, terms, neighbours(rng, lambda: [int(rng.integers(0, 2))], size))


def an_answer(rng):
    """Randomised response to a category that the function may number beyond what the mechanism
    knows.
    """
    most = int(pick(rng, (1, 2, 5)))
    query = q.FunctionQuery(whole, sensitivity={0: 1, 1: 1})
    mechanism = pick(rng, (m.RandomizedResponse(num_categories=2 + int(rng.integers(2)), truth_probability=0.7),
                           m.PaddedBinomial(2, 1.0, int(rng.integers(1, 4)), 1)))  # fmt: skip
    return Case(
        query, {"mechanism": mechanism}, neighbours(rng, lambda: int(rng.integers(-1, most + 1)), 1)
    )


KINDS = {
    "mean": a_mean,
    "moments": moments,
    "histogram": a_histogram,
    "table": a_table,
    "proportions": proportions,
    "curve": a_curve,
    "median": a_median,
    "joint": jointly,
    "function": a_function,
    "answer": an_answer,
}
