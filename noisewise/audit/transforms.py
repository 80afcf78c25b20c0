"""Draws made uniform by the law of each column that the density implies."""

from __future__ import annotations

import dataclasses

import numpy as np

from noisewise.audit.numerical_laws import (
    FINE,
    ColumnLaw,
    LogDensity,
    Resolution,
    column_law,
    plane_law,
    ranked,
)
from noisewise.audit.outputs import independent_blocks, quantiles, typical
from noisewise.errors import MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.supports import AbstractSupport, Lattice, OrAbsent, Real


@dataclasses.dataclass(frozen=True)
class Block:
    """Transforms of the draws of columns that may depend on each other.

    Attributes:
        columns: The transform of each column by itself, uniform if the density is right.
        levels: The transform of their log density, likewise.
        ties: The continuous values of each column, and the number of equal pairs that float64
            explains.
        moments: Those of `PlaneLaw.cross_moments`; None for a single column.
    """

    columns: list[np.ndarray]
    levels: np.ndarray
    ties: list[tuple[np.ndarray, float]]
    moments: tuple[np.ndarray, np.ndarray] | None = None


def transformed(
    mechanism: AbstractMechanism,
    s: np.ndarray,
    draws: np.ndarray,
    rng: np.random.Generator,
    resolution: Resolution = FINE,
) -> list[Block]:
    """Transform the draws given one s, by blocks of columns that are independent of each other.

    Args:
        mechanism: The mechanism whose density is taken as correct.
        s: The statistic, shape (k,).
        draws: Draws given s, shape (n, k').
        rng: Shares the mass of ties and atoms at random.
        resolution: The number of cells of the tables.

    Returns:
        One block per group of dependent columns, in order.
    """
    return [
        _transformed(mechanism, s, draws, block, rng, resolution)
        for block in independent_blocks(mechanism, s.size)
    ]


def check_blocks(mechanism: AbstractMechanism, k: int) -> None:
    """Refuse columns that depend on each other in ways that are not audited.

    Raises:
        MissingCapabilityError: If three or more columns depend on each other, or two that are not
            continuous.
    """
    supports = mechanism.support.columns(mechanism.output_width(k))
    for block in independent_blocks(mechanism, k):
        size = block.stop - block.start
        real = all(isinstance(support, Real) for support in supports[block])
        if size > 2 or (size == 2 and not real):
            raise MissingCapabilityError(
                f"The columns of {type(mechanism).__name__} depend on each other: audit it with one"
                f" or two columns that do (on the whole line if two), not {size}."
            )


def _transformed(
    mechanism: AbstractMechanism,
    s: np.ndarray,
    draws: np.ndarray,
    where: slice,
    rng: np.random.Generator,
    resolution: Resolution,
) -> Block:
    """Blocks are independent: the density of one, the others held at a typical value, is its law up
    to a constant.
    """
    ladder = quantiles(mechanism, s[None])[0]

    def log_density(values: np.ndarray) -> np.ndarray:
        outputs = np.tile(typical(ladder), (len(values), 1))
        outputs[:, where] = values
        return mechanism.log_prob(outputs, s)

    supports = mechanism.support.columns(draws.shape[-1])[where]
    if len(supports) == 1:
        center = s[where] if s.size == draws.shape[-1] else np.empty(0)
        law = column_law(supports[0], log_density, ladder[:, where.start], center, resolution)
        return _line(supports[0], law, log_density, draws[:, where.start], rng)
    return _plane(log_density, ladder[:, where], draws[:, where], rng, resolution)


def _line(
    support: AbstractSupport,
    law: ColumnLaw,
    log_density: LogDensity,
    values: np.ndarray,
    rng: np.random.Generator,
) -> Block:
    """One column: its law gives the transforms, and the number of ties to expect."""
    present = support.present if isinstance(support, OrAbsent) else support
    if isinstance(present, Lattice):
        # To the floats the law is tabulated at.
        values = present.step * np.round(values / present.step)
    levels = log_density(values[:, None])
    values = np.where(np.isnan(values), -np.inf, values)  # absent, in the law
    u, levels = law.transform(values, rng), ranked(law, levels, rng)
    if law.discrete.all():
        return Block([u], levels, [])
    inside = values[~np.isin(values, law.points[law.discrete])]
    return Block([u], levels, [(inside, law.expected_ties(values.size))])


def _plane(
    log_density: LogDensity,
    ladder: np.ndarray,
    draws: np.ndarray,
    rng: np.random.Generator,
    resolution: Resolution,
) -> Block:
    """Two dependent columns: their joint density on a square grid gives both margins, their
    association and T.
    """
    law = plane_law(log_density, ladder, resolution)
    margins = [law.margin(j) for j in range(2)]
    columns = [margin.transform(draws[:, j], rng) for j, margin in enumerate(margins)]
    ties = [(draws[:, j], margin.expected_ties(len(draws))) for j, margin in enumerate(margins)]
    return Block(columns, ranked(law, log_density(draws), rng), ties, law.cross_moments())
