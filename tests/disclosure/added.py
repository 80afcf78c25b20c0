"""Pairs of databases of which one lacks the records of a unit, and what is released of them.

`added_cases(rng, number)` are `refusals.Case`s: outcomes of the two may differ in the values and in
nothing else, and the number of records is in none of them. Half of the databases have no record or
one.
"""

import contextlib

import numpy as np

import noisewise as nw
from noisewise.errors import NoisewiseError
from tests.disclosure.refusals import EPSILONS, HALVINGS, Case, extreme, pick, whole

m, q = nw.mechanisms, nw.queries

SIZES = (0, 0, 1, 1, 2, 7)


def added_cases(rng, number):
    """`number` releases of all kinds, in turn."""
    kinds, made, turn = list(ADDED.values()), 0, 0
    while made < number:
        with contextlib.suppress(NoisewiseError):  # a query that cannot be made is no release yet
            yield kinds[turn % len(kinds)](rng)
            made += 1
        turn += 1


def relation(rng):
    most = int(pick(rng, (1, 1, 1, 2, 5)))
    return nw.AddRemoveOne(pick(rng, ("person", "household")), most, int(rng.integers(1, most + 1)))


def terms(rng, query, neighbours):
    """A guarantee, or a mechanism calibrated to it whose steps may be finer than the query's."""
    epsilon = pick(rng, EPSILONS)
    guarantees = (nw.PureDP(epsilon), nw.ZeroConcentratedDP(epsilon**2 / 2))
    guarantee = guarantees[int(rng.random() < 0.4)]
    way = rng.random()
    if way < 0.4 or query.step is None:
        return {"guarantee": guarantee, "neighbours": neighbours}
    if way < 0.6:
        return {"guarantee": guarantee.with_neighbours(neighbours)}
    kind = m.DiscreteLaplace if isinstance(guarantee, nw.PureDP) else m.DiscreteGaussian
    mechanism = kind.calibrate(
        sensitivity=query.sensitivity(kind.norm, neighbours),
        guarantee=guarantee,
        step=query.step * pick(rng, (*(0.5**halving for halving in HALVINGS), 7.0, 1 / 3)),
        neighbours=neighbours,
    )
    if rng.random() < 0.3:
        mechanism = m.Clamped(mechanism, low=0.0)
    return {"mechanism": mechanism}


def pair(rng, neighbours, record, columns, *, per_cell=False):
    """A database, and the same with the records of one more unit, in any order."""
    others = [record() for _ in range(pick(rng, SIZES))]
    most = neighbours.max_per_cell if per_cell else neighbours.max_contributions
    unit = [record()] * int(rng.integers(1, most + 1))
    both = [*others, *unit]
    both = [both[index] for index in rng.permutation(len(both))]
    without, with_unit = (np.array(rows).reshape(len(rows), columns) for rows in (others, both))
    if rng.random() < 0.3:
        return without.tolist(), with_unit.tolist()
    return without, with_unit


def case(rng, query, neighbours, record, columns, **more):
    return Case(
        query, terms(rng, query, neighbours), pair(rng, neighbours, record, columns, **more)
    )


def bounds_and_grid(rng):
    low, high = pick(rng, ((0.0, 1.0), (-5.0, 100.0), (3.0, 4.0), (-1e15, 1e15)))
    return (
        low,
        high,
        pick(rng, (None, (high - low) / 4, *((high - low) * 0.5**h for h in HALVINGS))),
    )


def a_sum(rng):
    low, high, grid = bounds_and_grid(rng)
    columns = int(rng.integers(1, 3))
    query = q.ClampedSum(bounds=(low, high), num_columns=columns, grid=grid)
    step = grid or (high - low) / 4096
    record = lambda: [extreme(rng, low, high, step) for _ in range(columns)]
    return case(rng, query, relation(rng), record, columns)


def a_count(rng):
    query = q.Count(num_columns=2)
    return case(rng, query, relation(rng), lambda: [extreme(rng, 0.0, 1.0, 0.5)] * 2, 2)


def a_mean(rng):
    low, high, grid = bounds_and_grid(rng)
    query = q.Joint([q.ClampedSum(bounds=(low, high), grid=grid), q.Count()])
    neighbours = relation(rng)
    record = lambda: [extreme(rng, low, high, grid or 1.0)]
    given = {"guarantee": nw.PureDP(pick(rng, EPSILONS)), "neighbours": neighbours}
    return Case(query, given, pair(rng, neighbours, record, 1))


def a_histogram(rng):
    query = q.Histogram(edges=(0.0, 1.0, 2.0, 5.0)[: int(rng.integers(3, 5))])
    record = lambda: [extreme(rng, 0.0, 2.0, 1.0)]
    return case(rng, query, relation(rng), record, 1, per_cell=True)


def a_table(rng):
    query = q.ContingencyTable(levels=(2, 3))
    record = lambda: [int(rng.integers(count)) for count in (2, 3)]
    return case(rng, query, relation(rng), record, 2, per_cell=True)


def a_median(rng):
    query = q.Median(candidates=(-1.0, 0.0, 0.5, 1e6)[: int(rng.integers(2, 5))])
    neighbours = relation(rng)
    given = {"guarantee": nw.PureDP(pick(rng, EPSILONS)), "neighbours": neighbours}
    return Case(query, given, pair(rng, neighbours, lambda: [extreme(rng, -1.0, 1e6, 0.5)], 1))


def a_function(rng):
    neighbours = relation(rng)
    query = q.FunctionQuery(
        lambda x: [sum(whole(x))],
        names=["ones"],
        sensitivity=float(neighbours.max_contributions),
        step=1.0,
        neighbours=neighbours,
    )
    return case(rng, query, neighbours, lambda: [int(rng.integers(0, 2))], 1)


ADDED = {
    "sum": a_sum,
    "count": a_count,
    "mean": a_mean,
    "histogram": a_histogram,
    "table": a_table,
    "median": a_median,
    "function": a_function,
}
