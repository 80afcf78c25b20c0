r"""Privacy guarantees as small types: what they mean, which imply which, how they add up.

| from \ to          | PureDP | ApproximateDP | ZeroConcentratedDP | GaussianDP |
|--------------------|--------|---------------|--------------------|------------|
| PureDP             | itself | exact         | epsilon^2 / 2      | exact      |
| ApproximateDP      | only if delta = 0 | itself (a larger delta only) | no | no |
| ZeroConcentratedDP | no     | upper bound   | itself             | no         |
| GaussianDP         | no     | exact         | exact, mu^2 / 2    | itself     |

"Exact" means that no smaller parameter holds for every mechanism with the guarantee on the left.
All arithmetic is plain float64; conversions that search end on the side that never understates the
loss.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, erfinv, log_ndtr, logsumexp, ndtr, ndtri

from noisewise._core.arrays import integer, number
from noisewise.errors import ConversionError, FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms.conversions import MARGIN, edge, least_epsilon_of_pure, smallest_epsilon

G = TypeVar("G", bound="AbstractGuarantee")

_MORE = 1.0 + 1e-12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclasses.dataclass(frozen=True)
class AbstractGuarantee(abc.ABC):
    """What a mechanism promises about every pair of neighbouring databases."""

    def to(self, kind: type[G], *, delta: float | None = None) -> G:
        """The best guarantee of another kind that this one implies.

        `delta` is needed, and only allowed, when `kind` is `ApproximateDP`.

        >>> GaussianDP(1.0).to(ZeroConcentratedDP)
        ZeroConcentratedDP(rho=0.5)
        >>> round(GaussianDP(1.0).to(ApproximateDP, delta=1e-5).epsilon, 6)
        4.377178
        """
        if not (isinstance(kind, type) and issubclass(kind, AbstractGuarantee)):
            raise InvalidTypeError(
                "to(...) expects one of the classes PureDP, ApproximateDP, ZeroConcentratedDP,"
                f" GaussianDP, got {kind!r}."
            )
        if delta is not None:
            if kind is not ApproximateDP:
                raise InvalidInputError(
                    f"delta only applies to ApproximateDP, not to {kind.__name__}: leave it out."
                )
            delta = number("delta", at_least=0.0, below=1.0)(delta)
        return self._to(kind, delta)  # type: ignore[return-value]

    def to_gaussian(self) -> GaussianDP:
        """The Gaussian guarantee whose noise gives this one: the largest mu that implies it, where
        that exists.

        mu is sqrt(2 rho) for rho-zCDP, and for (epsilon, delta) that of
        `GaussianDP.from_approximate`.
        """
        if isinstance(self, ApproximateDP):
            return GaussianDP.from_approximate(self)
        if isinstance(self, ZeroConcentratedDP):
            return GaussianDP(math.sqrt(2.0 * self.rho))
        return self.to(GaussianDP)

    def compose(self, *others: AbstractGuarantee) -> AbstractGuarantee:
        """The guarantee of releasing all of them about the same people: see `compose`."""
        return compose([self, *others])

    @abc.abstractmethod
    def group(self, size: int) -> AbstractGuarantee:
        """The guarantee for databases that differ in `size` records instead of one."""

    @abc.abstractmethod
    def _delta_at(self, epsilon: float) -> float:
        """The smallest delta for which this guarantee implies (epsilon, delta)-DP, as far as is
        known.
        """

    def within(self, limit: AbstractGuarantee) -> bool:
        """Whether this guarantee implies `limit`, up to a relative slack of 1e-12; False where
        nothing is known.

        >>> PureDP(1.0).within(ZeroConcentratedDP(0.5)), ZeroConcentratedDP(0.5).within(PureDP(10.0))
        (True, False)
        """
        try:
            if isinstance(limit, ApproximateDP):
                return self._delta_at(limit.epsilon * _MORE) <= limit.delta * _MORE
            converted = self.to(type(limit))
        except ConversionError:
            return False
        return dataclasses.astuple(converted)[0] <= dataclasses.astuple(limit)[0] * _MORE

    @abc.abstractmethod
    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee: ...

    def _refuse(self, kind: type, instead: str) -> ConversionError:
        return ConversionError(f"{type(self).__name__} does not imply any {kind.__name__}{instead}")

    def to_spec(self) -> dict[str, Any]:
        """A JSON-ready description; `guarantee_from_spec` reads it back."""
        return {"type": type(self).__name__, **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
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
        object.__setattr__(self, "epsilon", number("epsilon", at_least=0.0)(self.epsilon))

    def group(self, size: int) -> PureDP:
        return PureDP(integer("size", at_least=1)(size) * self.epsilon)

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
        if self.epsilon > 700:
            raise self._refuse(kind, ": an epsilon above 700 leaves the range of float64.")
        if self.epsilon < 1.0:  # the same in a form that keeps its digits near 0
            return GaussianDP(
                2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(self.epsilon / 2.0))) * _MORE
            )
        return GaussianDP(-2.0 * float(ndtri(1.0 / (1.0 + math.exp(self.epsilon)))) * _MORE)


@dataclasses.dataclass(frozen=True)
class ApproximateDP(AbstractGuarantee):
    """(epsilon, delta)-differential privacy: P(A | x) <= e^epsilon P(A | x') + delta.

    It implies no other kind (unless delta = 0), because anything may happen with probability delta.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number("epsilon", at_least=0.0)(self.epsilon))
        object.__setattr__(self, "delta", number("delta", at_least=0.0, below=1.0)(self.delta))

    def group(self, size: int) -> ApproximateDP:
        size = integer("size", at_least=1)(size)
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
        if kind is ApproximateDP:
            raise self._refuse(
                kind,
                f" with delta below its own {self.delta:g}; convert the original guarantee"
                " instead.",
            )
        raise self._refuse(
            kind,
            ". State the guarantee as PureDP, ZeroConcentratedDP or GaussianDP from the start.",
        )


@dataclasses.dataclass(frozen=True)
class ZeroConcentratedDP(AbstractGuarantee):
    r"""rho-zCDP: the Renyi divergence satisfies D_alpha <= rho alpha for every alpha > 1 (Bun and
    Steinke 2016).

    To (epsilon, delta): delta = min over alpha > 1 of exp((alpha-1)(alpha rho - epsilon)) /
    (alpha-1) (1 - 1/alpha)^alpha (Canonne, Kamath and Steinke 2020, proposition 12), an upper
    bound.
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", number("rho", at_least=0.0)(self.rho))

    def group(self, size: int) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(integer("size", at_least=1)(size) ** 2 * self.rho)

    def delta(self, epsilon: float) -> float:
        """The smallest delta that proposition 12 gives at this epsilon."""
        return math.exp(self._log_delta(epsilon))

    def _delta_at(self, epsilon: float) -> float:
        return self.delta(epsilon)

    def _log_delta(self, epsilon: float) -> float:
        if self.rho == 0.0:
            return -math.inf

        def at(log_excess: float) -> float:
            excess = math.exp(log_excess)  # alpha - 1
            alpha = 1.0 + excess
            return (
                excess * (alpha * self.rho - epsilon)
                - math.log(excess)
                - alpha * math.log1p(1.0 / excess)
            )

        # near the best alpha, about (1 + epsilon / rho) / 2, and over the whole range: any alpha
        # gives a valid bound
        centre = math.log(max(epsilon / self.rho, 1.0) / 2.0 + 0.5)
        ranges = ((centre - 3.0, centre + 3.0), (-30.0, max(30.0, centre + 3.0)))
        found = [
            minimize_scalar(at, bounds=ends, method="bounded", options={"xatol": 1e-12}).fun
            for ends in ranges
        ]
        return min(0.0, *map(float, found))

    @staticmethod
    def from_approximate(guarantee: ApproximateDP) -> ZeroConcentratedDP:
        """The largest rho whose `delta` at the given epsilon is at most the given delta.

        >>> wanted = ApproximateDP(1.0, 1e-6)
        >>> ZeroConcentratedDP.from_approximate(wanted).within(wanted)
        True
        """
        if guarantee.delta == 0.0:
            raise ConversionError(
                "No zCDP guarantee gives delta = 0: state a positive delta, or use Laplace noise."
            )
        limit = math.log(guarantee.delta) - MARGIN
        return ZeroConcentratedDP(
            edge(
                lambda rho: ZeroConcentratedDP(rho)._log_delta(guarantee.epsilon) <= limit, up=False
            )
        )

    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee:
        if kind is ZeroConcentratedDP:
            return self
        if kind is ApproximateDP:
            if not delta:
                raise self._refuse(
                    kind, " without a positive delta: write .to(ApproximateDP, delta=1e-6)."
                )
            return ApproximateDP(smallest_epsilon(self._log_delta, delta), delta)
        raise self._refuse(kind, ". It converts to ApproximateDP, with a delta.")


@dataclasses.dataclass(frozen=True)
class GaussianDP(AbstractGuarantee):
    r"""mu-GDP: telling x from x' is at least as hard as telling N(0,1) from N(mu,1) (Dong, Roth and
    Su 2022).

    To (epsilon, delta), exactly: delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 -
    epsilon/mu). To zCDP: rho = mu^2/2.
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", number("mu", at_least=0.0)(self.mu))

    def group(self, size: int) -> GaussianDP:
        return GaussianDP(integer("size", at_least=1)(size) * self.mu)

    def delta(self, epsilon: float) -> float:
        """The exact delta at this epsilon, to a relative error of 1e-12 or better."""
        return math.exp(self._log_delta(epsilon))

    def _delta_at(self, epsilon: float) -> float:
        return self.delta(epsilon)

    def _log_delta(self, epsilon: float) -> float:
        r"""With a = (epsilon/mu - mu/2)/sqrt 2 and b = a + mu/sqrt 2, delta = exp(-a^2) (erfcx(a) -
        erfcx(b)) / 2, and for small mu the difference is the integral of -erfcx'(t) = 2/sqrt(pi) -
        2 t erfcx(t) over [a, b]: nothing cancels.
        """
        if self.mu == 0.0:
            return -math.inf
        if self.mu > 1e6:
            raise ConversionError(
                f"GaussianDP({self.mu:g}) promises nothing that float64 can express: add noise."
            )
        a = (epsilon / self.mu - self.mu / 2.0) / math.sqrt(2.0)
        if self.mu < 1.0:
            half = self.mu / math.sqrt(8.0)
            t = a + half + half * _NODES
            difference = float(half * _WEIGHTS @ (2.0 / math.sqrt(math.pi) - 2.0 * t * erfcx(t)))
        elif a > -5.0:
            difference = float(erfcx(a) - erfcx(a + self.mu / math.sqrt(2.0)))
        else:
            lower = -math.sqrt(2.0) * a - self.mu
            return math.log(
                float(ndtr(-math.sqrt(2.0) * a)) - math.exp(epsilon + float(log_ndtr(lower)))
            )
        return -a * a + math.log(difference / 2.0) if difference > 0.0 else -math.inf

    @staticmethod
    def from_approximate(guarantee: ApproximateDP) -> GaussianDP:
        """The largest mu whose (epsilon, delta) curve passes through `guarantee` (Balle and Wang
        2018).
        """
        if guarantee.delta == 0.0:
            raise ConversionError(
                "No Gaussian noise gives delta = 0: state a positive delta, or use Laplace noise."
            )
        limit = math.log(guarantee.delta) - MARGIN
        return GaussianDP(
            edge(lambda mu: GaussianDP(mu)._log_delta(guarantee.epsilon) <= limit, up=False)
        )

    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee:
        if kind is GaussianDP:
            return self
        if kind is ZeroConcentratedDP:
            return ZeroConcentratedDP(self.mu * self.mu / 2)
        if kind is ApproximateDP:
            if not delta:
                raise self._refuse(
                    kind, " without a positive delta: write .to(ApproximateDP, delta=1e-6)."
                )
            return ApproximateDP(smallest_epsilon(self._log_delta, delta), delta)
        raise self._refuse(
            kind, ". It converts to ZeroConcentratedDP and, with a delta, to ApproximateDP."
        )


def compose(guarantees: Iterable[AbstractGuarantee]) -> AbstractGuarantee:
    r"""The guarantee of releasing several statistics about the same people.

    PureDP and ApproximateDP add (basic composition); zCDP adds rho; GDP adds mu^2. Mixed kinds meet
    in the strongest kind that all of them imply: PureDP with GaussianDP gives GaussianDP, anything
    with zCDP gives zCDP, and ApproximateDP only meets PureDP, because choosing the delta of the
    others is a decision that is yours.

    >>> compose([GaussianDP(3.0), GaussianDP(4.0)])
    GaussianDP(mu=5.0)
    >>> compose([PureDP(1.0), ZeroConcentratedDP(0.25)])
    ZeroConcentratedDP(rho=0.75)
    """
    parts = list(guarantees)
    if not parts:
        raise InvalidInputError("compose(...) needs at least one guarantee, got none.")
    for part in parts:
        if not isinstance(part, AbstractGuarantee):
            raise InvalidTypeError(
                f"compose(...) takes guarantees such as PureDP(1.0), got {part!r}."
            )
    kinds = {type(part) for part in parts}
    if kinds == {PureDP}:
        return PureDP(math.fsum(part.epsilon for part in parts))  # type: ignore[attr-defined]
    if kinds <= {PureDP, GaussianDP}:
        return GaussianDP(math.hypot(*(part.to(GaussianDP).mu for part in parts)))
    if ApproximateDP not in kinds:
        return ZeroConcentratedDP(math.fsum(part.to(ZeroConcentratedDP).rho for part in parts))
    if kinds <= {PureDP, ApproximateDP}:
        converted = [part.to(ApproximateDP) for part in parts]
        return ApproximateDP(
            math.fsum(p.epsilon for p in converted), math.fsum(p.delta for p in converted)
        )
    raise ConversionError(
        "ApproximateDP composes only with PureDP and itself. Convert the others first, choosing"
        " their delta: .to(ApproximateDP, delta=1e-6)."
    )


def guarantee_from_spec(spec: Any) -> AbstractGuarantee:
    """Read what `to_spec` wrote; anything else is refused."""
    kinds = {
        kind.__name__: kind for kind in (PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP)
    }
    if (
        not isinstance(spec, dict)
        or not isinstance(spec.get("type"), str)
        or spec["type"] not in kinds
    ):
        raise FileFormatError(
            f"A guarantee must be an object whose 'type' is one of {', '.join(kinds)}."
        )
    kind = kinds[spec["type"]]
    expected = {field.name for field in dataclasses.fields(kind)}
    given = set(spec) - {"type"}
    if given != expected:
        raise FileFormatError(
            f"{kind.__name__} has the fields {sorted(expected)}, got {sorted(given)}."
        )
    try:
        return kind(**{name: spec[name] for name in expected})
    except (InvalidInputError, InvalidTypeError) as error:
        raise FileFormatError(f"The fields of {kind.__name__} do not fit: {error}") from None
