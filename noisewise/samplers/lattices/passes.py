"""Passes over directions as tables of indices, so that one compiled program takes any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from noisewise.samplers.lattices.directions import Directions, Move


class Passes(eqx.Module):
    """The passes of one kind, p of them, each with up to m directions that share no cell.

    Sums that one direction at most changes in every pass are its own; the others are shared, and
    directions that share one take turns. Places of nothing are m, or one beyond the last entry.

    Attributes:
        cells: The cells of each direction.
        amounts: How far each goes.
        owner: The direction of each cell.
        owner_amount: How far that takes it.
        own_of: The own sums of each direction.
        own_owner: The direction of each own sum.
        own_amount: How far that takes it.
        turns: The directions of each turn.
        turn_of: The shared sums of each direction of a turn.
        turn_owner: The place in the turn of the direction of each shared sum.
        turn_amount: How far that takes it.
        precision: The sum of (change of a sum / sd of its noise)^2 for each direction.
        own: Which sums are own.
        shared: Which are shared.
    """

    cells: Int[np.ndarray, "p m t"]
    amounts: Float[np.ndarray, "p m t"]
    owner: Int[np.ndarray, "p c"]
    owner_amount: Float[np.ndarray, "p c"]
    own_of: Int[np.ndarray, "p m a"]
    own_owner: Int[np.ndarray, "p o"]
    own_amount: Float[np.ndarray, "p o"]
    turns: Int[np.ndarray, "p r w"]
    turn_of: Int[np.ndarray, "p r w b"]
    turn_owner: Int[np.ndarray, "p r q"]
    turn_amount: Float[np.ndarray, "p r q"]
    precision: Float[np.ndarray, "p m"]
    own: tuple[int, ...] = eqx.field(static=True)
    shared: tuple[int, ...] = eqx.field(static=True)


def passes_for(
    directions: Directions, sums: Int[np.ndarray, "k c"], sds: Float[np.ndarray, " k"]
) -> tuple[Passes, ...]:
    """Tables of each kind.

    Args:
        directions: The directions.
        sums: A: the sums that the target depends on.
        sds: How well each is known.

    >>> from noisewise.samplers.lattices.directions import directions_for
    >>> sums = np.array([[1, 0], [0, 1], [1, 1]])
    >>> singles, pairs = passes_for(directions_for(sums[:0], sums[2:]), sums, np.ones(3))
    >>> singles.own, singles.shared, singles.turns.tolist(), pairs.shared
    ((0, 1), (2,), [[[0], [1]]], ())
    """
    return tuple(_tables(passes, sums, sds) for passes in directions.kinds)


def _tables(passes: Sequence[Sequence[Move]], sums: np.ndarray, sds: np.ndarray) -> Passes:
    columns = _nonzero_by_column(sums)
    changes = [[_changes(move, columns) for move in one] for one in passes]
    k, c = sums.shape
    times = np.zeros((len(passes), k), dtype=int)
    for p, one in enumerate(changes):
        for change in one:
            times[p, list(change)] += 1
    is_shared = times.max(axis=0) > 1
    touched = times.max(axis=0) > 0
    own, shared = np.flatnonzero(touched & ~is_shared), np.flatnonzero(is_shared)
    place = np.full(k, -1)
    place[own], place[shared] = np.arange(len(own)), np.arange(len(shared))
    width = max(map(len, passes))
    moved = [[cells for cells, _ in one] for one in passes]
    owners = [_owners(one, c, width) for one in passes]
    own_of = [[[place[q] for q in ch if not is_shared[q]] for ch in one] for one in changes]
    own_owners = [_sum_owners(one, place, ~is_shared, len(own), width) for one in changes]
    turns = [_turns(one, is_shared) for one in changes]
    depth = max(map(len, turns))
    shared_of = [
        [[[int(place[q]) for q in one[d] if is_shared[q]] for d in turn] for turn in listed]
        for one, listed in zip(changes, turns, strict=True)
    ]
    broad = max(len(turn) for listed in turns for turn in listed)
    turn_owners = [
        [_turn_owners(one, turn, place, is_shared, len(shared), broad) for turn in listed]
        + [(np.full(len(shared), broad), np.zeros(len(shared)))] * (depth - len(listed))
        for one, listed in zip(changes, turns, strict=True)
    ]
    precision = [
        [sum((a / sds[q]) ** 2 for q, a in change.items()) for change in one] for one in changes
    ]
    return Passes(
        cells=_padded(moved, 3, c),
        amounts=_padded([[amounts for _, amounts in one] for one in passes], 3, 0.0),
        owner=np.stack([places for places, _ in owners]),
        owner_amount=np.stack([amounts for _, amounts in owners]),
        own_of=_padded(own_of, 3, len(own)),
        own_owner=np.stack([places for places, _ in own_owners]),
        own_amount=np.stack([amounts for _, amounts in own_owners]),
        turns=_padded(turns, 3, width),
        turn_of=_padded(shared_of, 4, len(shared)),
        turn_owner=np.stack([[places for places, _ in one] for one in turn_owners]),
        turn_amount=np.stack([[amounts for _, amounts in one] for one in turn_owners]),
        precision=_padded(precision, 2, 0.0),
        own=tuple(own.tolist()),
        shared=tuple(shared.tolist()),
    )


def _nonzero_by_column(sums: np.ndarray) -> list[dict[int, int]]:
    """For each cell the sums that count it, and how often."""
    found: list[dict[int, int]] = [{} for _ in range(sums.shape[1])]
    for q, j in zip(*map(np.ndarray.tolist, np.nonzero(sums)), strict=True):
        found[j][q] = int(sums[q, j])
    return found


def _changes(move: Move, columns: list[dict[int, int]]) -> dict[int, int]:
    """The sums that a direction changes, and by how much."""
    found: dict[int, int] = {}
    for j, amount in zip(*move, strict=True):
        for q, times in columns[j].items():
            found[q] = found.get(q, 0) + amount * times
    return {q: change for q, change in found.items() if change}


def _owners(moves: Sequence[Move], num: int, nothing: int) -> tuple[np.ndarray, np.ndarray]:
    """The direction of each cell, and how far it takes it."""
    owner, amount = np.full(num, nothing), np.zeros(num)
    for d, (cells, amounts) in enumerate(moves):
        owner[list(cells)], amount[list(cells)] = d, amounts
    return owner, amount


def _sum_owners(
    changes: list[dict[int, int]], place: np.ndarray, chosen: np.ndarray, num: int, nothing: int
) -> tuple[np.ndarray, np.ndarray]:
    """The direction of each chosen sum, and how far it takes it."""
    owner, amount = np.full(num, nothing), np.zeros(num)
    for d, change in enumerate(changes):
        for q, times in change.items():
            if chosen[q]:
                owner[place[q]], amount[place[q]] = d, times
    return owner, amount


def _turns(changes: list[dict[int, int]], is_shared: np.ndarray) -> list[list[int]]:
    """Directions turn by turn, so that those of one turn change no sum in common."""
    free: dict[int, int] = {}
    turns: list[list[int]] = []
    for d, change in enumerate(changes):
        shared = [q for q in change if is_shared[q]]
        turn = max((free.get(q, 0) for q in shared), default=0)
        free.update(dict.fromkeys(shared, turn + 1))
        turns.extend([] for _ in range(turn + 1 - len(turns)))
        turns[turn].append(d)
    return turns


def _turn_owners(
    changes: list[dict[int, int]],
    turn: list[int],
    place: np.ndarray,
    is_shared: np.ndarray,
    num: int,
    nothing: int,
) -> tuple[np.ndarray, np.ndarray]:
    return _sum_owners([changes[d] for d in turn], place, is_shared, num, nothing)


def _padded(ragged: Any, depth: int, filler: float) -> np.ndarray:
    """Lists of unequal lengths, `depth` of them inside each other, as one array."""
    level, shape = [ragged], []
    for _ in range(depth):
        shape.append(max(map(len, level), default=0))
        level = [item for part in level for item in part]
    found = np.full(shape, filler)
    for index, values in _innermost(ragged, depth - 1, ()):
        found[(*index, slice(len(values)))] = values
    return found


def _innermost(ragged: Any, depth: int, index: tuple[int, ...]) -> Iterator[Any]:
    if depth == 0:
        yield index, ragged
        return
    for i, part in enumerate(ragged):
        yield from _innermost(part, depth - 1, (*index, i))
