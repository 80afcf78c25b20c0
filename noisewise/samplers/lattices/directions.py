r"""Directions along which whole numbers move while given sums stay as they are.

Cells s (c,) with fixed sums E s move along integer directions d with E d = 0:

    d = e_j               cells that no fixed sum counts,
    d = e_i - e_j         cells that the same fixed sums count: enough where the sum over each group
                          of such cells is known, as for nested sums,
    d = e_ij + e_kl - e_il - e_kj
                          rows and columns of a two-way table, all of it (Diaconis and Sturmfels
                          1998: these 2 x 2 swaps connect all tables of whole numbers of 0 or more).

Each pass is a set of directions that share no cell. Matchings go round robin, so that each pair has
its turn; which pass comes next is drawn at random.

Reference: P. Diaconis and B. Sturmfels (1998), Algebraic algorithms for sampling from conditional
distributions.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from jaxtyping import Bool, Int

from noisewise.errors import MissingCapabilityError

_MOST_MATCHINGS = 32
"""Matchings of one group: each pair of up to 33 cells has its turn; of more, each cell has 32
partners, and neighbours among them connect all.
"""
_MOST_SWAPS = 4_000_000
"""Entries of the tables of swaps: 32 MB, some 50 x 50 cells."""
_TO_WRITE = (
    "pass moves=, an array with a direction of whole numbers in each row, which changes no exact"
    " sum and by which all tables can be reached; or nw.infer(...) with that total as a noisy one"
)

Move = tuple[tuple[int, ...], tuple[int, ...]]
"""The cells of a direction, and how far each goes."""
Moves = list[Move]
"""Directions that share no cell."""


@dataclasses.dataclass(frozen=True)
class Directions:
    """Kinds of moves: of each kind some passes, of which one is taken at a time.

    Attributes:
        kinds: For each kind its passes.
    """

    kinds: tuple[tuple[tuple[Move, ...], ...], ...]


def directions_for(
    fixed: Int[np.ndarray, "e c"],
    together: Int[np.ndarray, "k c"],
    *,
    still: Bool[np.ndarray, " c"] | None = None,
    bounded: bool = False,
    moves: Int[np.ndarray, "n c"] | None = None,
) -> Directions:
    """The moves that keep fixed sums and reach all tables that have them.

    Args:
        fixed: E, the sums that stay.
        together: Other sums; cells that the same ones count move in pairs too, which leaves these
            as they are: that mixes well where such sums are known better than their cells.
        still: Cells that never change, such as structural zeros.
        bounded: Whether cells have largest values of their own.
        moves: Directions by the user, in place of those above.

    Raises:
        MissingCapabilityError: If the fixed sums have no such pattern.

    >>> rows_and_columns = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    >>> directions_for(rows_and_columns, np.zeros((0, 4), int)).kinds
    (((((0, 3, 2, 1), (1, 1, -1, -1)),),),)
    """
    num = fixed.shape[1]
    live = np.ones(num, dtype=bool) if still is None else ~still
    if moves is not None:
        return Directions((_passes_of(moves),))
    classes = _alike(fixed, live)
    in_some = np.array([bool(fixed[:, group[0]].any()) for group in classes], dtype=bool)
    kinds: list[list[Moves]] = []
    free = [group for group, tied in zip(classes, in_some, strict=True) if not tied]
    singles: Moves = [((j,), (1,)) for group in free for j in group]
    if singles:
        kinds.append([singles])
    if together.size:
        kinds.append(_pairs(_alike(np.concatenate([fixed, together]), live, only_counted=True)))
    kinds.append(_pairs([group for group, tied in zip(classes, in_some, strict=True) if tied]))
    totals = np.stack([fixed[:, group[0]] for group in classes], axis=1) if classes else fixed
    tied = [group for group, is_tied in zip(classes, in_some, strict=True) if is_tied]
    if len(tied) > np.linalg.matrix_rank(totals):
        kinds.append(_swaps(totals[:, in_some], tied, bounded or not live.all()))
    found = tuple(tuple(tuple(one) for one in passes if one) for passes in kinds)
    return Directions(tuple(passes for passes in found if passes))


def _alike(sums: np.ndarray, live: np.ndarray, *, only_counted: bool = False) -> list[list[int]]:
    """Cells that the same sums count, group by group."""
    groups: dict[bytes, list[int]] = {}
    columns = np.ascontiguousarray(sums.T)
    for j in np.flatnonzero(live).tolist():
        if not only_counted or columns[j].any():
            groups.setdefault(columns[j].tobytes(), []).append(j)
    return list(groups.values())


# Pairs --------------------------------------------------------------------------------------------


def _matchings(members: list[int]) -> list[list[tuple[int, int]]]:
    """Round robin: of up to 33 members each pair once; else 32 rounds, the first two of which
    connect all.
    """
    n = len(members) + len(members) % 2
    rounds = range(n - 1)
    if len(rounds) > _MOST_MATCHINGS:
        far = np.linspace(2, n - 2, _MOST_MATCHINGS - 2).astype(int)
        rounds = [0, 1, *far.tolist()]  # type: ignore[assignment]
    found = []
    for r in rounds:
        circle = [((r - i) % (n - 1), (r + i) % (n - 1)) for i in range(1, n // 2)]
        pairs = [(r % (n - 1), n - 1), *circle]
        found.append([(members[i], members[j]) for i, j in pairs if max(i, j) < len(members)])
    return found


def _pairs(groups: list[list[int]]) -> list[Moves]:
    """Passes of pairs, each group going round by itself."""
    rounds = [_matchings(group) for group in groups if len(group) > 1]
    most = max(map(len, rounds), default=0)
    return [
        [(pair, (1, -1)) for matchings in rounds for pair in matchings[p % len(matchings)]]
        for p in range(most)
    ]


# Two-way tables -----------------------------------------------------------------------------------


def _swaps(totals: np.ndarray, groups: list[list[int]], bounded: bool) -> list[Moves]:
    """Passes of 2 x 2 swaps, for fixed sums (e, g) over groups of cells.

    Every matching of rows goes with every matching of columns.
    """
    found: list[list[Moves]] = []
    tables = _two_way_tables(_minimal(totals))
    led = sum((len(rows) - 1) * (len(columns) - 1) for rows, columns, _ in tables)
    if led + np.linalg.matrix_rank(totals) != len(groups):
        raise _unknown_pattern()
    for rows, columns, place in tables:
        if bounded:
            raise MissingCapabilityError(
                "The exact rows and columns are those of a table whose cells are bounded above, or"
                f" never change: 2 x 2 swaps may not reach all such tables. To go on, {_TO_WRITE}."
            )
        pairs = len(rows) // 2 * (len(columns) // 2) * len(rows) * len(columns)
        if 4 * pairs > _MOST_SWAPS:
            raise MissingCapabilityError(
                f"A table of {len(rows)} x {len(columns)} exact rows and columns has too many"
                f" pairs of these: {_TO_WRITE}."
            )
        both = itertools.product(
            _matchings(list(range(len(rows)))), _matchings(list(range(len(columns))))
        )
        found.append([_swaps_of(place, groups, *pair) for pair in both])
    most = max(map(len, found), default=0)
    return [[move for passes in found for move in passes[p % len(passes)]] for p in range(most)]


def _swaps_of(
    place: np.ndarray,
    groups: list[list[int]],
    rows: list[tuple[int, int]],
    columns: list[tuple[int, int]],
) -> Moves:
    found: Moves = []
    for (i, k), (j, m) in itertools.product(rows, columns):
        four = (place[i, j], place[k, m], place[k, j], place[i, m])
        found.append((tuple(groups[g][0] for g in four), (1, 1, -1, -1)))
    return found


def _minimal(totals: np.ndarray) -> np.ndarray:
    """The sums without those that smaller ones give."""
    order = np.argsort(totals.sum(axis=1), kind="stable")
    kept: list[np.ndarray] = []
    for row in totals[order]:
        others = np.array([other for other in kept if (other <= row).all()])
        if not len(others) or not _is_sum(others, row):
            kept.append(row)
    return np.array(kept)


def _is_sum(parts: np.ndarray, whole: np.ndarray) -> bool:
    """Whether a row is a combination of others."""
    return bool(np.linalg.matrix_rank(np.vstack([parts, whole])) == np.linalg.matrix_rank(parts))


def _two_way_tables(totals: np.ndarray) -> list[tuple[list[int], list[int], np.ndarray]]:
    """Rows, columns and the group at each of their crossings, table by table.

    Sums that count a group in common cross each other. In a two-way table the crossings split the
    sums into rows, which cross every column and no row, and columns.
    """
    left, found = set(range(len(totals))), []
    counts = totals @ totals.T
    is_plain = totals.size and totals.max() == 1
    while left:
        rows = {min(left)}
        columns = {q for q in left - rows if any(counts[q, r] for r in rows)}
        rows |= {q for q in left - columns if any(counts[q, r] for r in columns)}
        left -= rows | columns
        if not columns:
            continue  # a sum that crosses no other: pairs within it are enough
        block = counts[np.ix_(sorted(rows), sorted(columns))]
        sides = (counts[np.ix_(sorted(side), sorted(side))] for side in (rows, columns))
        disjoint = all((side == np.diag(np.diag(side))).all() for side in sides)
        if not (is_plain and disjoint and (block == 1).all() and _fills(totals, rows, columns)):
            raise _unknown_pattern()
        place = np.array(
            [[int(np.argmax(totals[r] & totals[q])) for q in sorted(columns)] for r in sorted(rows)]
        )
        found.append((sorted(rows), sorted(columns), place))
    return found


def _unknown_pattern() -> MissingCapabilityError:
    return MissingCapabilityError(
        "The exact sums are neither nested nor the rows and columns of a full two-way table, so"
        f" that no moves are known that reach all tables with these sums: {_TO_WRITE}."
    )


def _fills(totals: np.ndarray, rows: set[int], columns: set[int]) -> bool:
    """Whether rows and columns count the same groups, and no other sum counts them."""
    rows_, columns_ = sorted(rows), sorted(columns)
    counted = totals[rows_].sum(axis=0)
    others = np.delete(totals, rows_ + columns_, axis=0).sum(axis=0)
    same = (counted == totals[columns_].sum(axis=0)).all()
    return bool(same and not (others * counted).any())


def _passes_of(moves: np.ndarray) -> tuple[tuple[Move, ...], ...]:
    """Directions by the user, in passes that share no cell."""
    passes: list[tuple[set[int], Moves]] = []
    for row in moves:
        cells = tuple(np.flatnonzero(row).tolist())
        free = next((one for one in passes if one[0].isdisjoint(cells)), None)
        if free is None:
            free = (set(), [])
            passes.append(free)
        free[0].update(cells)
        free[1].append((cells, tuple(row[list(cells)].tolist())))
    return tuple(tuple(one) for _, one in passes)
