"""Draws made uniform: what the law of each column, as the density implies it, makes of them."""

from __future__ import annotations

import dataclasses

import numpy as np

from noisewise.audit.numerical_laws import (
    FINE,
    LogDensity,
    Resolution,
    column_law,
    plane_law,
    ranked,
)
from noisewise.audit.outputs import column_supports, independent_blocks, quantiles, typical
from noisewise.errors import MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.supports import AbstractSupport, Lattice, Real


@dataclasses.dataclass(frozen=True)
class Block:
    """Transforms of the draws of columns that may depend on each other: of each by itself, and of
    their log density.

    `ties` holds the continuous values of each column and how many equal pairs float64 explains;
    `moments` are those of `PlaneLaw.cross_moments`.
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
    """The draws (N, k') given one s, block by block of columns that are independent of each other."""
    return [
        _transformed(mechanism, s, draws, block, rng, resolution)
        for block in independent_blocks(mechanism, s.size)
    ]


def check_blocks(mechanism: AbstractMechanism, k: int) -> None:
    """Refuse columns that depend on each other in ways that are not audited."""
    supports = column_supports(mechanism.support, mechanism.output_width(k))
    for block in independent_blocks(mechanism, k):
        size, real = (
            block.stop - block.start,
            all(isinstance(support, Real) for support in supports[block]),
        )
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

    supports = column_supports(mechanism.support, draws.shape[-1])[where]
    if len(supports) == 1:
        center = s[where] if s.size == draws.shape[-1] else np.empty(0)
        return _line(
            supports[0],
            log_density,
            ladder[:, where.start],
            center,
            draws[:, where.start],
            rng,
            resolution,
        )
    return _plane(log_density, ladder[:, where], draws[:, where], rng, resolution)


def _line(
    support: AbstractSupport,
    log_density: LogDensity,
    ladder: np.ndarray,
    center: np.ndarray,
    values: np.ndarray,
    rng: np.random.Generator,
    resolution: Resolution,
) -> Block:
    law = column_law(support, log_density, ladder, center, resolution)
    if isinstance(support, Lattice):
        # To the floats the law is tabulated at.
        values = support.step * np.round(values / support.step)
    u, levels = law.transform(values, rng), ranked(law, log_density(values[:, None]), rng)
    inside = values[~np.isin(values, law.points[law.discrete])]
    return Block(
        [u], levels, [] if law.discrete.all() else [(inside, law.expected_ties(values.size))]
    )


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
