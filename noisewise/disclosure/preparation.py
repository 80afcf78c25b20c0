"""What happens to confidential data before noise is drawn: a public grid, a fitting mechanism,
exact integers.

All but `confidential_integers` uses public facts alone, before the data are read.
"""

from __future__ import annotations

import math
from typing import Any

from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours
from noisewise.disclosure.exact_mechanisms import Columns
from noisewise.disclosure.fields import relation_of
from noisewise.errors import InvalidTypeError, ReleaseError, SensitivityError
from noisewise.mechanisms import DiscreteGaussian, DiscreteLaplace, ExponentialMechanism, Product
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.columns import is_listed
from noisewise.mechanisms.guarantees import (
    AbstractGuarantee,
    ApproximateDP,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
)
from noisewise.queries.base import AbstractQuery

_ROUNDING = 1e-12
"""Relative slack for sensitivities that went through float64 arithmetic."""

# The mechanism ------------------------------------------------------------------------------------


def stated_mechanism(
    query: AbstractQuery, guarantee: Any, mechanism: Any, neighbours: Any, privacy_unit: str
) -> tuple[AbstractMechanism, AbstractNeighbours]:
    """The mechanism that is passed, or that a guarantee asks for, and whom it protects.

    Args:
        query: The statistic.
        guarantee: What the release must guarantee.
        mechanism: The noise, in place of a guarantee.
        neighbours: Which databases are neighbours; None for those that one of them carries.
        privacy_unit: What one record stands for.

    Raises:
        ReleaseError: If both are passed, or neither.
        InvalidInputError: If the neighbours contradict each other.
        InvalidTypeError: If either is something else.
    """
    if isinstance(guarantee, AbstractMechanism):
        raise InvalidTypeError(
            f"guarantee is a mechanism, {type(guarantee).__name__}: pass it as mechanism=..."
        )
    if (guarantee is None) == (mechanism is None):
        raise ReleaseError(
            "Pass either a guarantee, such as PureDP(1.0), or mechanism=..., and not both."
        )
    if mechanism is not None and not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(
            f"mechanism must be one such as DiscreteLaplace(...), got {type(mechanism).__name__}."
        )
    if guarantee is not None and not isinstance(guarantee, AbstractGuarantee):
        raise InvalidTypeError(
            f"guarantee must be one such as PureDP(1.0), got {type(guarantee).__name__}."
        )
    relation = relation_of(neighbours, privacy_unit, guarantee=guarantee, mechanism=mechanism)
    _check_num_records(query, relation)
    if mechanism is None:
        # a mechanism names a unit only where it must name its neighbours anyway
        named = REPLACE_ONE if REPLACE_ONE.agrees_with(relation) else relation
        mechanism = choose_mechanism(query, guarantee.with_neighbours(named))  # type: ignore[union-attr]
    return mechanism.for_neighbours(relation), relation


def _check_num_records(query: AbstractQuery, neighbours: AbstractNeighbours) -> None:
    """Refuse to make the number of records public where neighbours differ in it."""
    if not neighbours.has_public_number and query.num_records is not None:
        raise ReleaseError(
            f"This {type(query).__name__} states the number of records, which is confidential"
            f" where a {neighbours.unit} is added or removed: leave it out, or release"
            " queries.ClampedSum and queries.Count where it divides by it."
        )


def choose_mechanism(query: AbstractQuery, guarantee: AbstractGuarantee) -> AbstractMechanism:
    r"""The mechanism that a release uses when only a guarantee is given.

    PureDP: discrete Laplace noise, or the exponential mechanism where the query has `choices`.
    ZeroConcentratedDP and ApproximateDP: discrete Gaussian noise. The blocks of a `Joint` share the
    budget evenly. The step is the query's.

    The noise is calibrated to the query ON its grid, for the neighbours of the guarantee. Rounding
    maps records to records, so the sensitivity Delta that the query states bounds the rounded query
    too; its integers then move by at most Delta/step in the same norm.

    Args:
        query: The statistic.
        guarantee: What the release must guarantee.

    Returns:
        The calibrated mechanism.

    Raises:
        ReleaseError: If the guarantee is a GaussianDP, which no noise on a lattice has.

    >>> import noisewise as nw
    >>> query = nw.queries.ClampedMean(bounds=(0.0, 1.0), num_records=10, grid=0.5)
    >>> choose_mechanism(query, nw.PureDP(2.0))
    DiscreteLaplace(scale=0.05, sensitivity=0.1, step=0.05)
    """
    if isinstance(guarantee, GaussianDP):
        raise ReleaseError(
            "Exact Gaussian noise lives on a lattice, where GaussianDP does not hold: "
            "ask for guarantee.to(ZeroConcentratedDP) instead."
        )
    if query.is_composed:
        share = _share(guarantee, len(query.blocks))
        blocks = [choose_mechanism(block, share) for block in query.blocks]
        return Product(blocks, widths=[block.width for block in query.blocks])  # type: ignore[misc]
    if query.choices is not None:
        sensitivity = query.sensitivity(math.inf, guarantee.neighbours)
        return ExponentialMechanism.calibrate(
            candidates=query.choices, guarantee=guarantee, sensitivity=sensitivity
        )
    query = query.on_default_grid()
    kind = DiscreteLaplace if isinstance(guarantee, PureDP) else DiscreteGaussian
    sensitivity = query.sensitivity(kind.norm, guarantee.neighbours)
    if sensitivity == 0.0:
        raise ReleaseError(
            f"No neighbour changes this {type(query).__name__}: where one record is replaced, it is"
            " public and needs no noise. If it is not public, pass neighbours=nw.AddRemoveOne()."
        )
    return kind.calibrate(
        sensitivity=sensitivity,
        guarantee=guarantee,
        step=query.step,  # type: ignore[arg-type]
    )


def _share(guarantee: AbstractGuarantee, parts: int) -> AbstractGuarantee:
    """The guarantee of each of several parts that share a budget evenly."""
    if isinstance(guarantee, PureDP):
        return guarantee.with_parameters(epsilon=guarantee.epsilon / parts)
    if isinstance(guarantee, ApproximateDP):
        guarantee = ZeroConcentratedDP.from_approximate(guarantee)
    return guarantee.with_parameters(rho=guarantee.rho / parts)  # type: ignore[attr-defined]


def check_fit(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    """Refuse a mechanism that does not take the query's statistic, or whose guarantee would be
    false for it.

    Args:
        mechanism: The noise.
        query: The statistic.

    Raises:
        ReleaseError: If they do not fit.
        SensitivityError: If the mechanism is made for a smaller sensitivity than the query has.
    """
    if None not in (mechanism.width, query.width) and mechanism.width != query.width:
        raise ReleaseError(
            f"{type(mechanism).__name__} takes {mechanism.width} numbers, {type(query).__name__}"
            f" gives {query.width}."
        )
    if mechanism.is_composed:
        return _check_blocks(mechanism, query)
    if query.choices is not None and mechanism.choices != query.choices:
        raise ReleaseError(
            f"{type(query).__name__} gives utilities: use ExponentialMechanism with the same"
            " candidates."
        )
    _check_sensitivity(mechanism, query)


def _check_blocks(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    aligned = mechanism.has_blocks_of([block.width for block in query.blocks])
    queries = query.blocks if aligned else [query] * len(mechanism.blocks)
    for part, block in zip(mechanism.blocks, queries, strict=True):
        # Some of a query's columns change by at most as much as all of them, in every norm.
        (check_fit if aligned else _check_sensitivity)(part, block)


def _check_sensitivity(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    name, norm = type(mechanism).__name__, mechanism.norm
    if mechanism.sensitivity is None:
        raise SensitivityError(
            f"{name} does not state a sensitivity, so no guarantee follows: pass sensitivity=..."
        )
    if norm not in query.norms:
        raise SensitivityError(
            f"{type(query).__name__} does not state how many entries one person can change, which"
            f" {name} needs: use FunctionQuery(fn, sensitivity={{0: 1}})."
        )
    if is_listed(mechanism.sensitivity):
        return _check_columns(mechanism, query)
    needed = query.sensitivity(norm, mechanism.neighbours)
    if needed > mechanism.sensitivity * (1 + _ROUNDING):
        raise SensitivityError(
            f"{name} is made for a sensitivity of {mechanism.sensitivity:g} in the L{norm:g} norm,"
            f" but {type(query).__name__} has {needed:g}: calibrate it to the query."
        )


def _check_columns(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    """A sensitivity per column holds where no column of the query changes by more."""
    least = float(min(mechanism.sensitivity))
    known = math.inf in query.norms
    needed = query.sensitivity(math.inf, mechanism.neighbours) if known else math.inf
    if needed > least * (1 + _ROUNDING):
        found = f"changes single columns by up to {needed:g}" if known else "does not say how much"
        raise SensitivityError(
            f"{type(mechanism).__name__} is made for columns that change by {least:g} or more each,"
            f" but {type(query).__name__} {found}: give one sensitivity for all columns together,"
            f" sensitivity=query.sensitivity(norm={mechanism.norm:g})."
        )


def has_right_shape(data: Any, query: AbstractQuery) -> bool:
    """Whether the number of columns is right, and that of records where the query states it, since
    both are public then.

    Args:
        data: The records, of which nothing but the shape is looked at.
        query: The statistic.
    """
    if isinstance(data, (list, tuple)):
        return query.over_time is not None or query.num_records in (None, len(data))
    shape = getattr(data, "shape", None)
    return not isinstance(shape, tuple) or query.takes_shape(shape)


# The integers -------------------------------------------------------------------------------------


def columns_of(query: AbstractQuery) -> Columns:
    """The steps and bounds of the integers that `confidential_integers` gives.

    Args:
        query: The statistic, on a grid.

    Raises:
        ReleaseError: If the number of columns of a block is needed, and not known.
    """
    if not query.is_composed:
        return Columns(query.width, (query.step,), (query.largest_integer,))  # type: ignore[arg-type]
    return _side_by_side([columns_of(block) for block in query.blocks], query.width)


def _side_by_side(parts: list[Columns], width: int | None) -> Columns:
    if len({(part.steps, part.largest) for part in parts}) == 1 and len(parts[0].steps) == 1:
        return Columns(width, parts[0].steps, parts[0].largest)
    widths = [part.width for part in parts]
    if None in widths:
        raise ReleaseError(
            "Each FunctionQuery of a Joint must say how many numbers it returns: pass names=[...]"
            " to it."
        )
    wide = [part if len(part.steps) > 1 else _repeated(part) for part in parts]
    return Columns(
        sum(widths),  # type: ignore[arg-type]
        tuple(step for part in wide for step in part.steps),
        tuple(largest for part in wide for largest in part.largest),
    )


def _repeated(columns: Columns) -> Columns:
    """Columns of one step and one bound, written out."""
    return Columns(columns.width, columns.steps * columns.width, columns.largest * columns.width)  # type: ignore[operator]


def confidential_integers(data: Any, query: AbstractQuery) -> list[int]:
    """The statistic as exact integers, in steps of its columns.

    What it raises may contain data, so callers must let nothing of it out.

    Args:
        data: The records.
        query: The statistic, on a grid.

    Returns:
        k integers.
    """
    if query.is_composed:  # blocks may have steps of their own
        return [number for block in query.blocks for number in confidential_integers(data, block)]
    return query.integer_statistic(data)
