r"""Privacy guarantees as small types: what they mean, which imply which, how they add up."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from noisewise._core import specs
from noisewise._core.arrays import number
from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours, neighbours_from_spec
from noisewise.errors import ConversionError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms.abstract_guarantee import AbstractGuarantee as AbstractGuarantee
from noisewise.mechanisms.conversions import (
    SLACK,
    largest_parameter,
    least_epsilon_of_pure,
    log_delta_of_concentrated,
    log_delta_of_gaussian,
    mu_of_pure,
    smallest_epsilon,
)

_NOTHING = ": it promises nothing. A mechanism with noise and a known sensitivity would."


class AbstractCurveGuarantee(AbstractGuarantee):
    """A guarantee that gives a positive delta for every epsilon."""

    @abc.abstractmethod
    def _log_delta(self, epsilon: float) -> float:
        """The log of `delta(epsilon)`, which may be below the smallest float64."""

    def delta(self, epsilon: float) -> float:
        """The smallest delta known to hold at this epsilon; for GaussianDP it is exact."""
        return math.exp(self._log_delta(epsilon))

    def _delta_at(self, epsilon: float) -> float:
        return self.delta(epsilon)

    def _approximate(self, delta: float | None) -> ApproximateDP:
        if not delta:
            raise self._refuse(
                ApproximateDP, " without a positive delta: write .to(ApproximateDP, delta=1e-6)."
            )
        return ApproximateDP(smallest_epsilon(self._log_delta, delta), delta)


@dataclasses.dataclass(frozen=True, repr=False)
class PureDP(AbstractGuarantee):
    r"""epsilon-differential privacy: P(A | x) <= e^epsilon P(A | x') for all events A and
    neighbours x, x'.

    Conversions. To (epsilon', delta): every epsilon-DP mechanism is a post-processing of binary
    randomised response, for which delta(epsilon') = (e^epsilon - e^epsilon') / (1 + e^epsilon). To
    mu-GDP: the trade-off function of randomised response is piecewise linear with its corner at
    alpha = 1/(1+e^epsilon); the convex curve G_mu through that corner, mu = 2 Phi^-1(e^epsilon /
    (1+e^epsilon)), lies below its chords, hence below it. To zCDP: rho = epsilon^2 / 2 (Bun and
    Steinke 2016, proposition 1.4).

    >>> PureDP(1.0).compose(PureDP(0.5))
    PureDP(epsilon=1.5)
    """

    epsilon: float

    def __post_init__(self) -> None:
        AbstractGuarantee.__post_init__(self)
        object.__setattr__(self, "epsilon", number("epsilon", at_least=0.0)(self.epsilon))

    def _group(self, size: int) -> PureDP:
        return PureDP(size * self.epsilon)

    def _implied_by(self, other: AbstractGuarantee) -> bool:
        return other.to(PureDP).epsilon <= self.epsilon * SLACK

    def _delta_at(self, epsilon: float) -> float:
        """(e^epsilon_0 - e^epsilon) / (1 + e^epsilon_0) for epsilon below its own epsilon_0, else
        0.
        """
        return max(0.0, -math.expm1(epsilon - self.epsilon)) / (1.0 + math.exp(-self.epsilon))

    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee:
        if kind is PureDP:
            return self
        if kind is ApproximateDP:
            return ApproximateDP(least_epsilon_of_pure(self.epsilon, delta or 0.0), delta or 0.0)
        if kind is ZeroConcentratedDP:
            return ZeroConcentratedDP(self.epsilon * self.epsilon / 2)
        return GaussianDP(mu_of_pure(self.epsilon))

    def _to_gaussian(self) -> GaussianDP:
        return GaussianDP(mu_of_pure(self.epsilon))


@dataclasses.dataclass(frozen=True, repr=False)
class ApproximateDP(AbstractGuarantee):
    """(epsilon, delta)-differential privacy: P(A | x) <= e^epsilon P(A | x') + delta.

    It implies no other kind (unless delta = 0), because anything may happen with probability delta.

    >>> ApproximateDP(1.0, 1e-6).compose(PureDP(0.5))
    ApproximateDP(epsilon=1.5, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        AbstractGuarantee.__post_init__(self)
        object.__setattr__(self, "epsilon", number("epsilon", at_least=0.0)(self.epsilon))
        object.__setattr__(self, "delta", number("delta", at_least=0.0, below=1.0)(self.delta))

    takes_delta: ClassVar[bool] = True

    def _implied_by(self, other: AbstractGuarantee) -> bool:
        return other._delta_at(self.epsilon * SLACK) <= self.delta * SLACK

    def _group(self, size: int) -> ApproximateDP:
        if self.delta == 0.0:
            return ApproximateDP(size * self.epsilon, 0.0)
        # 1 + e^epsilon + ... + e^((size-1) epsilon), in logs
        steps = self.epsilon * np.arange(size)
        log_delta = math.log(self.delta) + float(logsumexp(steps))
        if log_delta >= 0.0:
            raise ConversionError(
                f"A group of {size} gets delta = exp({log_delta:.3g}) >= 1, which promises nothing;"
                " use a smaller group."
            )
        return ApproximateDP(size * self.epsilon, math.exp(log_delta))

    def _delta_at(self, epsilon: float) -> float:
        """With probability 1 - delta the loss is that of PureDP, by the shape of the trade-off
        function.
        """
        return self.delta + (1.0 - self.delta) * PureDP(self.epsilon)._delta_at(epsilon)

    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee:
        if kind is ApproximateDP and (delta is None or delta >= self.delta):
            return ApproximateDP(self.epsilon, self.delta if delta is None else delta)
        if self.delta == 0.0:
            return PureDP(self.epsilon)._to(kind, delta)
        hint = ". State the guarantee as PureDP, ZeroConcentratedDP or GaussianDP from the start."
        if kind is ApproximateDP:
            hint = (
                f" with delta below its own {self.delta:g}; convert the original guarantee instead."
            )
        raise self._refuse(kind, hint)

    def _to_gaussian(self) -> GaussianDP:
        return GaussianDP.from_approximate(self)


@dataclasses.dataclass(frozen=True, repr=False)
class ZeroConcentratedDP(AbstractCurveGuarantee):
    r"""rho-zCDP: the Renyi divergence satisfies D_alpha <= rho alpha for every alpha > 1 (Bun and
    Steinke 2016).

    To (epsilon, delta): delta = min over alpha > 1 of exp((alpha-1)(alpha rho - epsilon)) /
    (alpha-1) (1 - 1/alpha)^alpha (Canonne, Kamath and Steinke 2020, proposition 12), an upper
    bound.
    """

    rho: float

    def __post_init__(self) -> None:
        AbstractGuarantee.__post_init__(self)
        object.__setattr__(self, "rho", number("rho", at_least=0.0)(self.rho))

    def _group(self, size: int) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(size**2 * self.rho)

    def _implied_by(self, other: AbstractGuarantee) -> bool:
        return other.to(ZeroConcentratedDP).rho <= self.rho * SLACK

    def _to_gaussian(self) -> GaussianDP:
        return GaussianDP(math.sqrt(2.0 * self.rho))

    def _log_delta(self, epsilon: float) -> float:
        return log_delta_of_concentrated(self.rho, epsilon)

    @staticmethod
    def from_approximate(guarantee: ApproximateDP) -> ZeroConcentratedDP:
        """The largest rho whose `delta` at the given epsilon is at most the given delta.

        Raises:
            ConversionError: If the given delta is 0, which no zCDP gives.
        """
        at = (guarantee.epsilon, guarantee.delta)
        rho = largest_parameter(log_delta_of_concentrated, *at, "zCDP guarantee")
        return ZeroConcentratedDP(rho, neighbours=guarantee.neighbours)

    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee:
        if kind is ZeroConcentratedDP:
            return self
        if kind is ApproximateDP:
            return self._approximate(delta)
        raise self._refuse(kind, ". It converts to ApproximateDP, with a delta.")


@dataclasses.dataclass(frozen=True, repr=False)
class GaussianDP(AbstractCurveGuarantee):
    r"""mu-GDP: testing x against x' is at least as hard as testing N(0,1) against N(mu,1) (Dong,
    Roth and Su 2022).

    To (epsilon, delta), exactly (`delta` to a relative error of 1e-12): delta = Phi(mu/2 -
    epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu). To zCDP: rho = mu^2/2.

    >>> round(GaussianDP(1.0).delta(epsilon=1.0), 6)
    0.126937
    """

    mu: float

    def __post_init__(self) -> None:
        AbstractGuarantee.__post_init__(self)
        object.__setattr__(self, "mu", number("mu", at_least=0.0)(self.mu))

    def _group(self, size: int) -> GaussianDP:
        return GaussianDP(size * self.mu)

    def _implied_by(self, other: AbstractGuarantee) -> bool:
        return other.to(GaussianDP).mu <= self.mu * SLACK

    def _to_gaussian(self) -> GaussianDP:
        return self

    def _log_delta(self, epsilon: float) -> float:
        return log_delta_of_gaussian(self.mu, epsilon)

    @staticmethod
    def from_approximate(guarantee: ApproximateDP) -> GaussianDP:
        """The largest mu whose delta(epsilon) is at most the given delta (Balle and Wang 2018).

        Raises:
            ConversionError: If the given delta is 0, which no Gaussian noise gives.
        """
        at = (guarantee.epsilon, guarantee.delta)
        mu = largest_parameter(log_delta_of_gaussian, *at, "Gaussian noise")
        return GaussianDP(mu, neighbours=guarantee.neighbours)

    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee:
        if kind is GaussianDP:
            return self
        if kind is ZeroConcentratedDP:
            return ZeroConcentratedDP(self.mu * self.mu / 2)
        if kind is ApproximateDP:
            return self._approximate(delta)
        hint = ". It converts to ZeroConcentratedDP and, with a delta, to ApproximateDP."
        raise self._refuse(kind, hint)


@dataclasses.dataclass(frozen=True, repr=False)
class NoGuarantee(AbstractGuarantee):
    """No promise at all: what exact and merely rounded numbers have.

    Whatever it is composed with, nothing is promised. It implies no guarantee, and every question
    for a number is refused.

    >>> compose([PureDP(1.0), NoGuarantee()])
    NoGuarantee()
    >>> NoGuarantee().within(PureDP(100.0))
    False
    """

    promises: ClassVar[bool] = False

    def _implied_by(self, other: AbstractGuarantee) -> bool:
        return True

    def _delta_at(self, epsilon: float) -> float:
        raise self._refuse(ApproximateDP, _NOTHING)

    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee:
        raise self._refuse(kind, _NOTHING)

    def _to_gaussian(self) -> GaussianDP:
        raise self._refuse(GaussianDP, _NOTHING)

    def _group(self, size: int) -> NoGuarantee:
        return self


def compose(guarantees: Iterable[AbstractGuarantee]) -> AbstractGuarantee:
    r"""The guarantee of releasing several statistics about the same people.

    PureDP and ApproximateDP add (basic composition); zCDP adds rho; GDP adds mu^2. Mixed kinds meet
    in the strongest kind that all of them imply: PureDP with GaussianDP gives GaussianDP, anything
    with zCDP gives zCDP, and ApproximateDP only meets PureDP, because choosing the delta of the
    others is a decision that is yours.

    All must be about the same neighbours and unit. With `NoGuarantee` nothing is promised.

    Raises:
        ConversionError: If ApproximateDP meets zCDP or GDP, or the neighbours differ.

    >>> compose([GaussianDP(3.0), GaussianDP(4.0)])
    GaussianDP(mu=5.0)
    >>> compose([PureDP(1.0), ZeroConcentratedDP(0.25)])
    ZeroConcentratedDP(rho=0.75)
    """
    parts = _checked(guarantees)
    if not all(part.promises for part in parts):
        return NoGuarantee()
    return _composed(parts).with_neighbours(_common_neighbours(parts))


def _composed(parts: list[AbstractGuarantee]) -> AbstractGuarantee:
    kinds = {type(part) for part in parts}
    if kinds == {PureDP}:
        return PureDP(_sum(parts, PureDP, "epsilon"))
    if kinds <= {PureDP, GaussianDP}:
        return GaussianDP(math.hypot(*(part.to(GaussianDP).mu for part in parts)))
    if ApproximateDP not in kinds:
        return ZeroConcentratedDP(_sum(parts, ZeroConcentratedDP, "rho"))
    if kinds <= {PureDP, ApproximateDP}:
        return ApproximateDP(*(_sum(parts, ApproximateDP, name) for name in ("epsilon", "delta")))
    raise ConversionError(
        "ApproximateDP composes only with PureDP and itself. Convert the others first, choosing"
        " their delta: .to(ApproximateDP, delta=1e-6)."
    )


def _common_neighbours(parts: list[AbstractGuarantee]) -> AbstractNeighbours:
    relations = list(dict.fromkeys(part.neighbours for part in parts))
    if len(relations) > 1:
        raise ConversionError(
            "Guarantees add up only where they are about the same neighbours and unit, got"
            f" {' and '.join(map(repr, relations))}. One for AddRemoveOne() implies one for"
            " ReplaceOne(), of a group of two: write guarantee.for_replacement()."
        )
    return relations[0]


def _sum(parts: list[AbstractGuarantee], kind: type[AbstractGuarantee], name: str) -> float:
    return math.fsum(getattr(part.to(kind), name) for part in parts)


def _checked(guarantees: Iterable[AbstractGuarantee]) -> list[AbstractGuarantee]:
    parts = list(guarantees)
    wrong = [part for part in parts if not isinstance(part, AbstractGuarantee)]
    if wrong:
        raise InvalidTypeError(
            f"compose(...) takes guarantees such as PureDP(1.0), got {wrong[0]!r}."
        )
    if not parts:
        raise InvalidInputError("compose(...) needs at least one guarantee, got none.")
    return parts


def guarantee_from_spec(
    spec: Any, *, beside: AbstractNeighbours = REPLACE_ONE
) -> AbstractGuarantee:
    """The guarantee that `to_spec` described.

    Args:
        spec: The description.
        beside: The neighbours of a guarantee that names none.

    Raises:
        FileFormatError: If `spec` is anything else.

    >>> guarantee_from_spec({"type": "PureDP", "epsilon": 1.0})
    PureDP(epsilon=1.0)
    """
    kinds: tuple[Any, ...] = (PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP, NoGuarantee)
    kind = specs.named_class(spec, {kind.__name__: kind for kind in kinds}, "A guarantee")
    fields = {name: value for name, value in spec.items() if name != "type"}
    relation = neighbours_from_spec(fields.pop("neighbours")) if "neighbours" in fields else beside
    return specs.built(kind, fields | {"neighbours": relation})
