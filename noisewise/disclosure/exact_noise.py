r"""Exact integer randomness for releases of real data: integers in, integers out.

Discrete Laplace, discrete Gaussian and the exponential mechanism are drawn by OpenDP, which samples
them without floating-point arithmetic (Canonne, Kamath and Steinke 2020); Bernoulli trials of
rational probability by `secrets`. Floating-point noise has gaps that depend on the value it is
added to, and so gives that value away (Mironov 2012): no floating-point generator is imported or
reachable here.

Every function checks its arguments, which are public, and OpenDP's privacy map at once, and returns
a sampler: a function of the confidential integers. A sampler refuses no integer, because a refusal
would reveal something about it: what lies outside a public range counts as the nearest end of that
range. Clamping moves no two integers apart, so the sensitivity stays what it was.
"""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from noisewise.errors import MissingDependencyError, ReleaseError

if TYPE_CHECKING:
    from noisewise.mechanisms.exact import IntegerSampler


LARGEST = 2**51
"""The range of integers is [-LARGEST, LARGEST], in noise steps, and 64 noise scales are at most as
much: sums stay exact in float64, and far from the ends of i64."""

_SLACK = 1e-9
"""Relative: distances are enlarged by this before they are cut to whole steps, against rounding."""
_STATED = 1e-12
"""Relative: by how much OpenDP's bound, which is rounded up, may be above what is stated."""
_SCALES = 64
"""Noise scales within LARGEST: Laplace noise exceeds as many with probability 1e-28."""


def opendp() -> Any:
    """OpenDP's prelude, with the constructors that we use enabled.

    Raises:
        MissingDependencyError: If it is not installed; the message has the install line.
    """
    try:
        import opendp.prelude as dp
    except ImportError:
        raise MissingDependencyError(
            "Releases draw exact noise with OpenDP, which is not installed: pip install"
            ' "noisewise[release]".'
        ) from None
    dp.enable_features("contrib")
    return dp


def in_steps(value: float, step: float) -> float:
    """value/step, rounded up, so that there is never less noise or less distance than stated.

    Args:
        value: A positive number.
        step: A positive number.

    Raises:
        ReleaseError: If there are 2^63 steps or more.
    """
    quotient = _quotient(value, step)
    return (
        quotient
        if Fraction(quotient) * Fraction(step) >= Fraction(value)
        else math.nextafter(quotient, math.inf)
    )


def whole_steps(value: float, step: float) -> int:
    r"""The largest distance of neighbours in whole steps.

    In the L1 and L-infinity norms the distance of two integer vectors is an integer, and at most
    Delta/step: hence at most its integer part. The slack keeps float64 from losing one, as in
    0.3/0.1 = 2.9999999999999996.
    """
    return math.floor(_quotient(value, step) * (1 + _SLACK))


def _quotient(value: float, step: float) -> float:
    quotient = value / step
    if not quotient < 2.0**63:
        raise ReleaseError(f"{value:g} is too many steps of {step:g}: take a coarser grid.")
    return quotient


def discrete_laplace(scale: float, *, sensitivity: int, epsilon: float) -> IntegerSampler:
    r"""Adds independent Z_j with P(Z_j = z) ~ exp(-|z|/scale); `sensitivity` is the L1 distance of
    neighbours.

    Args:
        scale: The scale in steps.
        sensitivity: The L1 distance of neighbours in steps.
        epsilon: The epsilon that will be stated.

    Returns:
        A sampler that keeps the number of integers.

    Raises:
        ReleaseError: If OpenDP proves less privacy than `epsilon`.

    >>> discrete_laplace(0.001, sensitivity=1, epsilon=1000.0)([10, 20])
    [10, 20]
    """
    dp, scale = opendp(), _noise_scale(scale)
    measurement = dp.m.make_laplace(_vectors(dp), dp.l1_distance(T="i64"), scale=scale)
    _check_map(measurement, sensitivity, epsilon)
    return lambda integers: _invoke(measurement, _within(integers, -LARGEST, LARGEST))


def discrete_gaussian(scale: float, *, sensitivity: float, rho: float) -> IntegerSampler:
    r"""Adds independent Z_j with P(Z_j = z) ~ exp(-z^2/(2 scale^2)); `sensitivity` is the L2
    distance of neighbours.

    Args:
        scale: The scale in steps.
        sensitivity: The L2 distance of neighbours in steps.
        rho: The rho that will be stated.

    Returns:
        A sampler that keeps the number of integers.

    Raises:
        ReleaseError: If OpenDP proves less privacy than `rho`.

    >>> discrete_gaussian(0.02, sensitivity=1.0, rho=1250.0)([10, 20])
    [10, 20]
    """
    dp, scale = opendp(), _noise_scale(scale)
    measurement = dp.m.make_gaussian(_vectors(dp), dp.l2_distance(T="f64"), scale=scale)
    _check_map(measurement, float(sensitivity), rho)
    return lambda integers: _invoke(measurement, _within(integers, -LARGEST, LARGEST))


def exponential_choice(scale: float, *, sensitivity: int, epsilon: float) -> IntegerSampler:
    r"""One index i with P(i) ~ exp(utilities[i]/scale); `sensitivity` is the largest change of any
    utility.

    This is the law of OpenDP's noisy max under zero-concentrated divergence (Gumbel noise), whose
    privacy map is the epsilon^2/8 of the exponential mechanism, epsilon = 2 sensitivity/scale.
    Under max divergence the law would be that of permute-and-flip.

    Args:
        scale: The scale of utilities.
        sensitivity: The largest change of any utility between neighbours.
        epsilon: The epsilon that will be stated.

    Returns:
        A sampler from utilities to a list of one index.

    >>> exponential_choice(1.0, sensitivity=1, epsilon=2.0)([0, 1000, 0])
    [1]
    """
    dp, scale = opendp(), _noise_scale(scale)
    space = _vectors(dp), dp.linf_distance(T="i64"), dp.zero_concentrated_divergence()
    measurement = dp.m.make_noisy_max(*space, scale=scale)
    _check_map(measurement, sensitivity, epsilon**2 / 8)
    return lambda utilities: [_invoke(measurement, _within(utilities, -LARGEST, LARGEST))]


def padded_binomial(*, trials: int, padding: float, population: int) -> IntegerSampler:
    r"""Independent Binomial(trials, (I + m) / (K + 2m)) counts, each probability an exact fraction.

    Counts beyond 0..K count as its ends.

    Args:
        trials: The number of trials of each count.
        padding: m, which keeps probabilities inside (0, 1).
        population: K, the largest count.

    Returns:
        A sampler that keeps the number of counts.

    >>> [0 <= count <= 3 for count in padded_binomial(trials=3, padding=0.1, population=5)([0, 5])]
    [True, True]
    """
    pad = Fraction(padding)
    denominator = (population + 2 * pad) * pad.denominator  # of (I + m) / (K + 2m), whatever I is

    def draw(counts: Sequence[int]) -> list[int]:
        numerators = [(count + pad) * pad.denominator for count in _within(counts, 0, population)]
        return [
            sum(secrets.randbelow(int(denominator)) < int(numerator) for _ in range(trials))
            for numerator in numerators
        ]

    return draw


def randomized_response(*, num_categories: int, truth_probability: float) -> IntegerSampler:
    r"""Each category kept with probability `truth_probability`, else replaced by one of the others,
    all alike.

    Numbers beyond 0..num_categories-1 count as its ends.

    Args:
        num_categories: The number of categories.
        truth_probability: The probability of the true one.

    Returns:
        A sampler that keeps the number of categories given.

    >>> randomized_response(num_categories=3, truth_probability=1.0)([0, 1, 2])
    [0, 1, 2]
    """
    truth = Fraction(truth_probability)

    def answer(category: int) -> int:
        shift = 0 if bernoulli(truth) else 1 + secrets.randbelow(num_categories - 1)
        return (category + shift) % num_categories

    return lambda categories: [
        answer(category) for category in _within(categories, 0, num_categories - 1)
    ]


def bernoulli(probability: Fraction) -> bool:
    """True with exactly this probability.

    >>> bernoulli(Fraction(1)), bernoulli(Fraction(0))
    (True, False)
    """
    return secrets.randbelow(probability.denominator) < probability.numerator


def _vectors(dp: Any) -> Any:
    return dp.vector_domain(dp.atom_domain(T="i64"))


def _within(values: Sequence[int], low: int, high: int) -> list[int]:
    if any(type(value) is not int for value in values):
        raise ReleaseError(
            "Exact noise is added to Python integers; the statistic holds something else."
        )
    return [min(max(value, low), high) for value in values]


def _noise_scale(scale: float) -> float:
    if not 0.0 < scale <= LARGEST / _SCALES:
        raise ReleaseError(
            f"The noise scale is {scale:g} grid steps; it must be positive and at most 2^45."
        )
    return float(scale)


def _check_map(measurement: Any, distance: float, stated: float) -> None:
    """Refuse noise that OpenDP does not consider as private as we are about to state."""
    proved = math.inf
    with contextlib.suppress(Exception):  # a distance beyond 64 bits
        proved = measurement.map(distance)
    if not (math.isfinite(proved) and proved <= stated * (1 + _STATED)):
        raise ReleaseError(
            f"OpenDP proves a privacy loss of {proved:.12g} for this noise, more than the"
            f" {stated:.12g} that would be stated: the mechanism's scale does not fit its"
            " sensitivity."
        )


def _invoke(measurement: Any, integers: list[int]) -> Any:
    # Raised outside any handler, so that no exception of OpenDP, which might quote the data, is
    # chained to it.
    with contextlib.suppress(Exception):
        return measurement(integers)
    raise ReleaseError("OpenDP refused the statistic.")
