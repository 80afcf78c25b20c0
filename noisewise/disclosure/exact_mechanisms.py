r"""How each mechanism is drawn exactly: `exact_noise` on whole numbers of steps.

    integers --exact_noise--> integers --times step--> s_dp

Each released number is a fixed function of a released integer, so floating-point arithmetic has nothing to reveal.
`exact_sampler` looks at public facts alone and returns a function of the confidential integers, which refuses none.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from noisewise.disclosure import exact_noise
from noisewise.errors import ReleaseError
from noisewise.mechanisms import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    EuclideanLaplace,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PaddedBinomial,
    Product,
    RandomizedResponse,
)
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.queries.base import AbstractQuery

Sampler = Callable[[Sequence[int]], list[float]]

_EXACT = (DiscreteLaplace, DiscreteGaussian, PaddedBinomial, RandomizedResponse, ExponentialMechanism)

_ROUNDING = 1e-9
"""Relative slack for sensitivities that went through float64 arithmetic."""

_FINEST = 2**20
"""How many steps of a mechanism one of a query may have whose statistic nothing bounds: up to 2^31 of it are then told
apart, which is more than there are people in any country; what lies beyond counts as the end of the range."""

_SMALLEST_STEP = 1e-200
"""So that no released number, at most 2^63 steps, leaves the range of float64 or loses digits to its lower end."""


def require_exact(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    """Refuse noise that is not drawn exactly, before the data are looked at."""
    if isinstance(mechanism, Product):
        for block in mechanism.mechanisms:
            require_exact(block, query)
        return
    inner = mechanism.mechanism if isinstance(mechanism, Clamped) else mechanism
    if not isinstance(inner, _EXACT):
        raise ReleaseError(_instead(inner, query))


@dataclasses.dataclass(frozen=True)
class Columns:
    """What is public about the integers of a query: column j of the statistic is integers[j] * steps[j].

    `largest` bounds |integers[j]| over all databases, None if nothing does. One step and one bound stand for all
    columns where these are alike, which they must be where their number, `width`, is not known.
    """

    width: int | None
    steps: tuple[float, ...]
    largest: tuple[int | None, ...]

    def part(self, start: int, width: int) -> Columns:
        """Some neighbouring columns."""
        cut = slice(start, start + width)
        steps = self.steps if len(self.steps) == 1 else self.steps[cut]
        return Columns(width, steps, self.largest if len(self.largest) == 1 else self.largest[cut])


def exact_sampler(mechanism: AbstractMechanism, columns: Columns) -> Sampler:
    """Check everything, all of it public; return the function that draws s_dp, to be called once."""
    if None not in (mechanism.width, columns.width) and mechanism.width != columns.width:
        name = type(mechanism).__name__
        raise ReleaseError(f"{name} takes {mechanism.width} numbers, the query gives {columns.width}.")
    if isinstance(mechanism, Product):
        return _in_blocks(mechanism, columns)
    if isinstance(mechanism, ExponentialMechanism):
        choose = _choice(mechanism, columns)
        return lambda utilities: [mechanism.candidates[index] for index in choose(utilities)]
    if isinstance(mechanism, Clamped):
        draw, step = _lattice_sampler(mechanism.mechanism, columns)
        return lambda integers: [_clamp(mechanism, number, step) for number in draw(integers)]
    draw, step = _lattice_sampler(mechanism, columns)
    return lambda integers: [step * number for number in draw(integers)]


def _in_blocks(product: Product, columns: Columns) -> Sampler:
    starts = [sum(product.widths[:number]) for number in range(len(product.widths))]
    blocks = list(zip(product.mechanisms, starts, product.widths, strict=True))
    samplers = [exact_sampler(block, columns.part(start, width)) for block, start, width in blocks]

    def draw(integers: Sequence[int]) -> list[float]:
        parts = [integers[start : start + width] for _, start, width in blocks]
        return [value for sampler, part in zip(samplers, parts, strict=True) for value in sampler(part)]

    return draw


def _lattice_sampler(mechanism: AbstractMechanism, columns: Columns) -> tuple[exact_noise.Sampler, float]:
    """A sampler of whole numbers of steps, and the step."""
    if isinstance(mechanism, DiscreteLaplace):
        step, epsilon = _usable(mechanism.step), mechanism.guarantee.epsilon
        distance, scale = _reach(mechanism.sensitivity, step), _in_steps(mechanism.scale, step)
        return _on_lattice(exact_noise.discrete_laplace(scale, sensitivity=distance, epsilon=epsilon), columns, step)
    if isinstance(mechanism, DiscreteGaussian):
        step, rho = _usable(mechanism.step), mechanism.guarantee.rho
        length, scale = _in_steps(mechanism.sensitivity, step), _in_steps(mechanism.scale, step)
        return _on_lattice(exact_noise.discrete_gaussian(scale, sensitivity=length, rho=rho), columns, step)
    if isinstance(mechanism, PaddedBinomial):
        if any(largest is not None and largest > mechanism.population for largest in columns.largest):
            raise ReleaseError("The mechanism's population is smaller than the largest count that the query can give.")
        trials, padding, population = mechanism.trials, mechanism.padding, mechanism.population
        binomial = exact_noise.padded_binomial(trials=trials, padding=padding, population=population)
        return _on_lattice(binomial, columns, 1.0)
    if isinstance(mechanism, RandomizedResponse):
        number, truth = mechanism.num_categories, mechanism.truth_probability
        response = exact_noise.randomized_response(num_categories=number, truth_probability=truth)
        return _on_lattice(response, columns, 1.0)
    raise ReleaseError(f"{type(mechanism).__name__} has no exact sampler.")


def _choice(mechanism: ExponentialMechanism, columns: Columns) -> exact_noise.Sampler:
    step = columns.steps[0]
    scale, distance = _in_steps(mechanism.scale, step), _reach(mechanism.sensitivity, step)
    choice = exact_noise.exponential_choice(scale, sensitivity=distance, epsilon=mechanism.guarantee.epsilon)
    return _on_lattice(choice, columns, step)[0]


def _clamp(mechanism: Clamped, number: int, step: float) -> float:
    """Post-processing of one released integer; halves round up."""
    if mechanism.step is not None:
        ratio = round(mechanism.step / step)
        number, step = (2 * number + ratio) // (2 * ratio), mechanism.step
    return min(max(step * number, mechanism.low), mechanism.high)


def _on_lattice(draw: exact_noise.Sampler, columns: Columns, step: float) -> tuple[exact_noise.Sampler, float]:
    """The sampler fed with the query's integers in units of the mechanism's step, of which the query's must be multiples."""
    ratios = [round(_quotient(own, step)) for own in columns.steps]
    if any(
        ratio < 1 or abs(own - ratio * step) > 1e-12 * own for ratio, own in zip(ratios, columns.steps, strict=True)
    ):
        raise ReleaseError(
            f"The mechanism works in steps of {step:g}, the query in steps of {columns.steps[0]:g}: "
            "give the mechanism step=query.step."
        )
    pairs = zip(ratios, columns.largest, strict=True)
    if any(ratio > _FINEST if largest is None else largest * ratio > exact_noise.LARGEST for ratio, largest in pairs):
        raise ReleaseError(
            f"The statistic may reach more than 2^51 steps of {step:g}: take a coarser grid, or give the mechanism "
            "step=query.step."
        )

    def fed(integers: Sequence[int]) -> list[int]:
        own = ratios * len(integers) if len(ratios) == 1 else ratios
        return draw([number * ratio for number, ratio in zip(integers, own, strict=True)])

    return fed, step


def _usable(step: float) -> float:
    if not _SMALLEST_STEP <= step <= 1.0 / _SMALLEST_STEP:
        raise ReleaseError(
            f"The mechanism's step is {step:g}; it must be between 1e-200 and 1e200: choose other units."
        )
    return step


def _reach(sensitivity: Any, step: float) -> int:
    r"""The largest distance of neighbours in whole steps.

    In the L1 and L-infinity norms the distance of two integer vectors is an integer, and at most Delta/step: hence at
    most its integer part. The slack keeps float64 from losing one, as in 0.3/0.1 = 2.9999999999999996.
    """
    return math.floor(_quotient(sensitivity, step) * (1 + _ROUNDING))


def _in_steps(value: Any, step: float) -> float:
    """value/step, rounded up: never less noise than stated, never less distance."""
    quotient = _quotient(value, step)
    return quotient if Fraction(quotient) * Fraction(step) >= Fraction(value) else math.nextafter(quotient, math.inf)


def _quotient(value: float, step: float) -> float:
    quotient = value / step
    if not quotient < 2.0**63:
        raise ReleaseError(f"{value:g} is too many steps of {step:g}: take a coarser grid.")
    return quotient


def _instead(mechanism: AbstractMechanism, query: AbstractQuery) -> str:
    name = type(mechanism).__name__
    if isinstance(mechanism, (Laplace, EuclideanLaplace)):
        discrete = "DiscreteLaplace"
    elif isinstance(mechanism, Gaussian):
        discrete = "DiscreteGaussian"
    else:
        return f"{name} has no exact sampler, and a release of real data draws nothing in floating point."
    step = "query.step)." if query.step is not None else "...), of which the statistic must be a whole multiple."
    return (
        f"{name} noise is real-valued, and drawn in floating point it gives the data away. "
        f"Write nw.mechanisms.{discrete}.calibrate(sensitivity=..., guarantee=..., step={step}"
    )
