r"""How each mechanism is drawn exactly: on whole numbers of steps, with the samplers of
`exact_noise`.

    integers --exact_noise--> integers --times step--> s_dp

Each mechanism says by `exact_sampler` what it does with them. Here its integers are those of the
query, brought to its step. Only public facts are used, and the function that is returned
refuses no confidential integers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import cast

from noisewise.disclosure import exact_noise
from noisewise.errors import ReleaseError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.exact import ExactNoise
from noisewise.queries.base import AbstractQuery

Sampler = Callable[[Sequence[int]], list[float]]

_FINEST = 2**20
"""The most steps of a mechanism in one of a query whose statistic has no bound: 2^31 of the query's
steps are then in the range of exact noise, more than any country has people. What lies beyond
counts as the end of the range.
"""
_ROUNDING = 1e-12
"""Relative: by how much the query's step may differ from a multiple of the mechanism's."""

_SMALLEST_STEP = 1e-200
"""The smallest step; its inverse is the largest. No released number, at most 2^63 steps, then
leaves the range of float64 or loses digits at its lower end.
"""


def require_exact(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    """Refuse noise that is not drawn exactly, before the data are read.

    Args:
        mechanism: The noise.
        query: The statistic, for the line to write instead.

    Raises:
        ReleaseError: If a block of the mechanism has no exact sampler.
    """
    for block in mechanism.blocks:
        if not block.is_exact:
            raise ReleaseError(_instead(block.inner, query))


@dataclasses.dataclass(frozen=True)
class Columns:
    """What is public about the integers of a query: column j of the statistic is integers[j] *
    steps[j].

    One step and one bound stand for all columns where these are alike, which they must be where the
    number of columns is not known.

    Attributes:
        width: The number of columns, None if not known.
        steps: The step of each column.
        largest: A bound on |integers[j]| over all databases for each column, None if there is none.
    """

    width: int | None
    steps: tuple[float, ...]
    largest: tuple[int | None, ...]

    def part(self, start: int, width: int) -> Columns:
        """Some neighbouring columns.

        Args:
            start: The first of them, from 0.
            width: How many.
        """
        cut = slice(start, start + width)
        steps = self.steps if len(self.steps) == 1 else self.steps[cut]
        return Columns(width, steps, self.largest if len(self.largest) == 1 else self.largest[cut])


def exact_sampler(mechanism: AbstractMechanism, columns: Columns) -> Sampler:
    """The function that draws s_dp from the exact integers of a query.

    Args:
        mechanism: The noise.
        columns: What is public about the integers.

    Returns:
        A function from the integers, of length k, to the list of private values, to be called once.
        It refuses no integers.

    Raises:
        ReleaseError: If the mechanism does not fit; all that is checked is public.
    """
    if None not in (mechanism.width, columns.width) and mechanism.width != columns.width:
        name = type(mechanism).__name__
        raise ReleaseError(
            f"{name} takes {mechanism.width} numbers, the query gives {columns.width}."
        )
    if not mechanism.is_composed:
        return _of_block(mechanism, columns)
    widths = mechanism.block_widths(columns.width or 0)
    starts = [sum(widths[:number]) for number in range(len(widths))]
    blocks = list(zip(mechanism.blocks, starts, widths, strict=True))
    samplers = [exact_sampler(block, columns.part(start, width)) for block, start, width in blocks]

    def draw(integers: Sequence[int]) -> list[float]:
        parts = [integers[start : start + width] for _, start, width in blocks]
        return [
            value for sampler, part in zip(samplers, parts, strict=True) for value in sampler(part)
        ]

    return draw


def _of_block(mechanism: AbstractMechanism, columns: Columns) -> Sampler:
    """The sampler of one block, fed with the query's integers in units of the mechanism's step, of
    which the query's must be a multiple.
    """
    step = columns.steps[0] if mechanism.exact_step is None else mechanism.exact_step
    if not _SMALLEST_STEP <= step <= 1.0 / _SMALLEST_STEP:
        raise ReleaseError(
            f"The mechanism's step is {step:g}; it must be between 1e-200 and 1e200: choose other"
            " units."
        )
    draw = mechanism.exact_sampler(cast(ExactNoise, exact_noise), step)
    ratios = [
        _ratio(own, step, largest)
        for own, largest in zip(columns.steps, columns.largest, strict=True)
    ]
    top = mechanism.largest_statistic
    if top is not None and any(
        n is not None and n * own > top
        for n, own in zip(columns.largest, columns.steps, strict=True)
    ):
        raise ReleaseError(
            f"The mechanism serves statistics up to {top:g}, which is less than the largest that"
            " the query can give: of a PaddedBinomial that is its population."
        )

    def fed(integers: Sequence[int]) -> list[float]:
        own = ratios * len(integers) if len(ratios) == 1 else ratios
        return draw([number * ratio for number, ratio in zip(integers, own, strict=True)])

    return fed


def _ratio(own: float, step: float, largest: int | None) -> int:
    """The number of the mechanism's steps in one of the query's; `largest` of them must be in the
    range of exact noise.
    """
    quotient = own / step
    ratio = round(quotient) if quotient < 2.0**63 else 0
    if (ratio >= 1 and abs(own - ratio * step) > _ROUNDING * own) or quotient < 0.5:
        raise ReleaseError(
            f"The mechanism works in steps of {step:g}, the query in steps of {own:g}: give the"
            " mechanism step=query.step."
        )
    if ratio == 0 or (
        ratio > _FINEST if largest is None else largest * ratio > exact_noise.LARGEST
    ):
        raise ReleaseError(
            f"The statistic may reach more than 2^51 steps of {step:g}: take a coarser grid, or"
            " give the mechanism step=query.step."
        )
    return ratio


def _instead(mechanism: AbstractMechanism, query: AbstractQuery) -> str:
    """Why a mechanism is refused, with the line to write instead."""
    name, discrete = type(mechanism).__name__, mechanism.exact_counterpart
    if discrete is None:
        return (
            f"{name} has no exact sampler, and a release of real data draws nothing in floating"
            " point."
        )
    step = (
        "query.step)."
        if query.has_spec
        else "...), and the statistic must be a whole multiple of the step."
    )
    return (
        f"{name} noise is real-valued, and floating-point noise can reveal the data. "
        f"Write nw.mechanisms.{discrete}.calibrate(sensitivity=..., guarantee=..., step={step}"
    )
