r"""How each mechanism is drawn exactly: `exact_noise` on whole numbers of steps.

    integers --exact_noise--> integers --times step--> s_dp

Each released number is a fixed function of a released integer, so floating-point arithmetic has nothing to reveal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

_EXACT = (DiscreteLaplace, DiscreteGaussian, PaddedBinomial, RandomizedResponse, ExponentialMechanism)

_ROUNDING = 1e-9
"""Relative slack for sensitivities that went through float64 arithmetic."""


def require_exact(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    """Refuse noise that is not drawn exactly, before the data are looked at."""
    if isinstance(mechanism, Product):
        for block in mechanism.mechanisms:
            require_exact(block, query)
        return
    inner = mechanism.mechanism if isinstance(mechanism, Clamped) else mechanism
    if not isinstance(inner, _EXACT):
        raise ReleaseError(_instead(inner, query))


def exact_draw(mechanism: AbstractMechanism, integers: list[int], steps: list[float]) -> Callable[[], list[float]]:
    """Check everything that can be checked; return the function that draws s_dp, to be called once.

    Column j of the statistic is integers[j] * steps[j].
    """
    if mechanism.width not in (None, len(integers)):
        name = type(mechanism).__name__
        raise ReleaseError(f"{name} takes {mechanism.width} numbers, the query gives {len(integers)}.")
    if isinstance(mechanism, Product):
        draws, start = [], 0
        for block, width in zip(mechanism.mechanisms, mechanism.widths, strict=True):
            draws.append(exact_draw(block, integers[start : start + width], steps[start : start + width]))
            start += width
        return lambda: [value for draw in draws for value in draw()]
    if isinstance(mechanism, ExponentialMechanism):
        choice = _choice(mechanism, integers, steps)
        return lambda: [mechanism.candidates[index] for index in choice()]
    if isinstance(mechanism, Clamped):
        draw, step = _lattice_draw(mechanism.mechanism, integers, steps)
        return lambda: [_clamp(mechanism, number, step) for number in draw()]
    draw, step = _lattice_draw(mechanism, integers, steps)
    return lambda: [step * number for number in draw()]


def _lattice_draw(
    mechanism: AbstractMechanism, integers: list[int], steps: list[float]
) -> tuple[exact_noise.Draw, float]:
    """Released integers, and what one of them is worth."""
    if isinstance(mechanism, DiscreteLaplace):
        step, epsilon = mechanism.step, mechanism.guarantee.epsilon
        distance, scale = _reach(mechanism.sensitivity, step), _in_steps(mechanism.scale, step)
        integers = _on_lattice(integers, steps, step)
        return exact_noise.discrete_laplace(integers, scale, sensitivity=distance, epsilon=epsilon), step
    if isinstance(mechanism, DiscreteGaussian):
        step, rho = mechanism.step, mechanism.guarantee.rho
        length, scale = _in_steps(mechanism.sensitivity, step), _in_steps(mechanism.scale, step)
        integers = _on_lattice(integers, steps, step)
        return exact_noise.discrete_gaussian(integers, scale, sensitivity=length, rho=rho), step
    if isinstance(mechanism, PaddedBinomial):
        counts, trials, padding = _on_lattice(integers, steps, 1.0), mechanism.trials, mechanism.padding
        draw = exact_noise.padded_binomial(counts, trials=trials, padding=padding, population=mechanism.population)
        return draw, 1.0
    if isinstance(mechanism, RandomizedResponse):
        categories, truth = _on_lattice(integers, steps, 1.0), mechanism.truth_probability
        draw = exact_noise.randomized_response(
            categories, num_categories=mechanism.num_categories, truth_probability=truth
        )
        return draw, 1.0
    raise ReleaseError(f"{type(mechanism).__name__} has no exact sampler.")


def _choice(mechanism: ExponentialMechanism, utilities: list[int], steps: list[float]) -> exact_noise.Draw:
    step = steps[0]
    scale, distance = _in_steps(mechanism.scale, step), _reach(mechanism.sensitivity, step)
    utilities = _on_lattice(utilities, steps, step)
    return exact_noise.exponential_choice(utilities, scale, sensitivity=distance, epsilon=mechanism.guarantee.epsilon)


def _clamp(mechanism: Clamped, number: int, step: float) -> float:
    """Post-processing of one released integer; halves round up."""
    if mechanism.step is not None:
        ratio = round(mechanism.step / step)
        number, step = (2 * number + ratio) // (2 * ratio), mechanism.step
    return min(max(step * number, mechanism.low), mechanism.high)


def _on_lattice(integers: list[int], steps: list[float], step: float) -> list[int]:
    """The integers in units of the mechanism's step, of which the query's steps must be multiples."""
    ratios = [round(_quotient(own, step)) for own in steps]
    if any(ratio < 1 or abs(own - ratio * step) > 1e-12 * own for ratio, own in zip(ratios, steps, strict=True)):
        raise ReleaseError(
            f"The mechanism works in steps of {step:g}, the query in steps of {steps[0]:g}: "
            "give the mechanism step=query.step."
        )
    return [number * ratio for number, ratio in zip(integers, ratios, strict=True)]


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
