r"""What a mechanism is: the publicly known randomness between a confidential statistic and a private one.

    s  --transport(u, .)-->  s_dp         u uniform on (0,1)^num_uniforms

`AbstractMechanism` owns precision, shapes, keys and compilation; a concrete mechanism is the formula. Mechanisms are
immutable pytrees whose numbers are leaves: passed as arguments of a compiled program, a new epsilon never recompiles.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import math
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from noisewise._arrays import Array, as_key, as_vectors, in_float64, is_traced, open_uniforms, stage_key
from noisewise._programs import brief_jit
from noisewise.errors import (
    ConversionError,
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
)
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.mechanisms.supports import AbstractSupport


class Capability(enum.StrEnum):
    """What a mechanism can do; inference methods ask before they start."""

    SAMPLE = "sample"
    TRANSPORT = "transport"
    DENSITY = "log_prob"
    BOUND = "log_prob_bound"
    CDF = "log_cdf"


ALL_CAPABILITIES = frozenset(Capability)


class AbstractMechanism(eqx.Module):
    r"""Base of all mechanisms.

    Shapes: `s (..., k)` and `s_dp (..., k')`, with k' = `output_width(k)`; leading axes broadcast. `log_prob` sums
    over the last axis and is -inf off the support (and for NaN); for a lattice it is the log of a probability.

    A concrete class gives `guarantee`, `support`, `norm` and those of `_transport`, `_log_prob_each`, `_log_cdf`,
    `_log_sf`, `_log_prob_bound_each` that its `capabilities` name (`_log_prob` and `_log_prob_bound` where columns
    depend on each other). They see float64 arrays of right shape, under `jit`; what they say off the support does not
    matter.
    """

    norm: ClassVar[float]
    """The norm in which `sensitivity` is measured: 0 (number of changed entries), 1, 2 or infinity."""

    if TYPE_CHECKING:

        @property
        def sensitivity(self) -> float | None:
            """The largest change of s between neighbours, where it is known."""

    @property
    @abc.abstractmethod
    def guarantee(self) -> AbstractGuarantee:
        """The privacy guarantee that the noise gives for statistics of the stated sensitivity."""

    @property
    @abc.abstractmethod
    def support(self) -> AbstractSupport:
        """Where private statistics lie."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this mechanism can do."""
        return ALL_CAPABILITIES

    @property
    def width(self) -> int | None:
        """The number of columns of s, where the mechanism fixes it."""
        return None

    @property
    def distance_unit(self) -> float | np.ndarray:
        """What distances between private statistics divide the columns of s_dp by: one number, or one per column (k',).

        1, except for counts out of n, which are compared as proportions.
        """
        return 1.0

    def output_width(self, k: int) -> int:
        """The number of columns of s_dp for k columns of s."""
        return k

    def num_uniforms(self, k: int) -> int:
        """How many uniforms `transport` takes for k columns of s."""
        return k

    @abc.abstractmethod
    def neighbours(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (s, s') of shape (pairs, k) at the stated sensitivity where the privacy loss is largest."""

    # What callers use ------------------------------------------------------------------------------------------------

    @in_float64
    def sample(self, key: Array, s: Array) -> Array:
        """Draw s_dp given s: the transport of independent uniforms."""
        self._need(Capability.SAMPLE)
        return self._sample(stage_key(as_key(key), "mechanism"), self._statistic(s))

    @in_float64
    def transport(self, u: Array, s: Array) -> Array:
        """The map tau(u, s) that turns uniforms into s_dp, for quasi-Monte Carlo."""
        self._need(Capability.TRANSPORT)
        s = self._statistic(s)
        u = as_vectors(u, "u", self.num_uniforms(s.shape[-1]))
        if not is_traced(u) and not bool(np.all((np.asarray(u) > 0) & (np.asarray(u) < 1))):
            raise InvalidInputError(
                "u must lie strictly inside (0, 1): take it from IndependentUniforms or ScrambledSobol."
            )
        return _transport(self, u, s)

    @in_float64
    def log_prob(self, s_dp: Array, s: Array) -> Array:
        """The log of eta(s_dp | s), normalised over s_dp, summed over columns."""
        self._need(Capability.DENSITY)
        s = self._statistic(s)
        return _log_prob(self, self._output(s_dp, s), s)

    @in_float64
    def log_cdf(self, s_dp: Array, s: Array) -> Array:
        """The log of P(S_dp <= s_dp | s) of each column by itself: the shape of s_dp, not summed."""
        self._need(Capability.CDF)
        s = self._statistic(s)
        return _log_cdf(self, self._output(s_dp, s), s)

    @in_float64
    def log_prob_bound(self, s_dp: Array) -> Array:
        """An upper bound of log_prob(s_dp, s) over all s: the constant of exact rejection."""
        self._need(Capability.BOUND)
        width = None if self.width is None else self.output_width(self.width)
        return _log_prob_bound(self, as_vectors(s_dp, "s_dp", width))

    # What a concrete mechanism writes --------------------------------------------------------------------------------

    def _sample(self, key: Array, s: Array) -> Array:
        u = open_uniforms(key, (*s.shape[:-1], self.num_uniforms(s.shape[-1])))
        return _transport(self, u, s)

    def _transport(self, u: Array, s: Array) -> Array:
        raise self._lacks(Capability.TRANSPORT)

    def _log_prob(self, s_dp: Array, s: Array) -> Array:
        """log_prob where s_dp lies on the support; the sum over columns, unless they depend on each other."""
        return self._log_prob_each(s_dp, s).sum(-1)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        """Elementwise log density or probability, where columns are independent."""
        raise self._lacks(Capability.DENSITY)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        """Elementwise log P(S_dp <= s_dp)."""
        raise self._lacks(Capability.CDF)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        """Elementwise log P(S_dp >= s_dp), the point itself included."""
        raise self._lacks(Capability.CDF)

    def _log_prob_bound(self, s_dp: Array) -> Array:
        return self._log_prob_bound_each(s_dp).sum(-1)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        """Elementwise bound of the log density or probability, where columns are independent."""
        raise self._lacks(Capability.BOUND)

    # Checks ----------------------------------------------------------------------------------------------------------

    def _statistic(self, s: Array) -> Array:
        s = as_vectors(s, "s", self.width)
        if not is_traced(s, self):
            self._check_statistic(np.asarray(s))
        return s

    def _check_statistic(self, s: np.ndarray) -> None:
        """Refuse statistics this mechanism cannot take (NaN passes: it means a failed simulation)."""

    def _output(self, s_dp: Array, s: Array) -> Array:
        return as_vectors(s_dp, "s_dp", self.output_width(s.shape[-1]))

    def _need(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise self._lacks(capability)

    def _lacks(self, capability: Capability) -> MissingCapabilityError:
        able = ", ".join(sorted(self.capabilities)) or "nothing"
        return MissingCapabilityError(f"{type(self).__name__} has no {capability}; it offers {able}.")

    def _stated_sensitivity(self) -> float:
        if self.sensitivity is None:
            raise MissingCapabilityError(
                f"This {type(self).__name__} does not know the query's sensitivity, so its noise gives no guarantee: "
                f"pass sensitivity=..., the largest change of s in the L{self.norm:g} norm between neighbours."
            )
        return self.sensitivity

    # Files -----------------------------------------------------------------------------------------------------------

    def to_spec(self) -> dict[str, Any]:
        """A JSON-ready description; `from_spec` reads it back to the last bit."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"type": type(self).__name__, **{name: _field_to_spec(value) for name, value in fields.items()}}


def _field_to_spec(value: Any) -> Any:
    if isinstance(value, AbstractMechanism):
        return value.to_spec()
    if isinstance(value, tuple):
        return [_field_to_spec(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise MissingCapabilityError(f"A mechanism with a field of type {type(value).__name__} cannot be written as JSON.")


def _field_from_spec(value: Any, kinds: dict[str, type[AbstractMechanism]]) -> Any:
    if isinstance(value, dict):
        return from_spec_with(value, kinds)
    if isinstance(value, list):
        return tuple(_field_from_spec(item, kinds) for item in value)
    if isinstance(value, str) and value in ("inf", "-inf"):
        return float(value)
    return value


def from_spec_with(spec: Any, kinds: dict[str, type[AbstractMechanism]]) -> AbstractMechanism:
    """Read what `to_spec` wrote, given the known classes by name."""
    if not isinstance(spec, dict) or not isinstance(spec.get("type"), str) or spec["type"] not in kinds:
        raise FileFormatError(f"A mechanism must be an object whose 'type' is one of {', '.join(sorted(kinds))}.")
    kind = kinds[spec["type"]]
    expected = {field.name for field in dataclasses.fields(kind)}
    given = set(spec) - {"type"}
    if given != expected:
        raise FileFormatError(f"{kind.__name__} has the fields {sorted(expected)}, got {sorted(given)}.")
    fields = {name: _field_from_spec(spec[name], kinds) for name in expected}
    try:
        return kind(**fields)
    except (InvalidInputError, InvalidTypeError) as error:
        raise FileFormatError(f"The fields of {kind.__name__} do not fit: {error}") from None


class AbstractAdditiveNoise(AbstractMechanism):
    r"""s_dp = s + Z with independent Z_j of one symmetric law, free of s.

    A concrete class writes three scalar formulas, `_noise(u)`, `_noise_log_prob(z)` and `_noise_log_cdf(z)`.
    """

    if TYPE_CHECKING:

        @property
        def scale(self) -> float:
            """The width of the noise."""

    @abc.abstractmethod
    def _noise(self, u: Array) -> Array:
        """The quantile function of Z."""

    @abc.abstractmethod
    def _noise_log_prob(self, z: Array) -> Array:
        """The log density (or probability) of Z."""

    @abc.abstractmethod
    def _noise_log_cdf(self, z: Array) -> Array:
        """The log of P(Z <= z)."""

    def neighbours(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        s = np.zeros((1, k))
        other = s.copy()
        other[0, 0] = self._stated_sensitivity()
        return s, other

    def _transport(self, u: Array, s: Array) -> Array:
        return s + self._noise(u)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self._noise_log_prob(s_dp - s)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return self._noise_log_cdf(s_dp - s)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return self._noise_log_cdf(s - s_dp)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return self._noise_log_prob(jnp.zeros_like(s_dp))


def require_guarantee(guarantee: Any, kinds: tuple[type[AbstractGuarantee], ...], mechanism: str) -> None:
    """Refuse a guarantee that the named mechanism cannot be calibrated to."""
    names = " or ".join(kind.__name__ for kind in kinds)
    if not isinstance(guarantee, AbstractGuarantee):
        raise InvalidTypeError(f"guarantee must be {names}, such as {kinds[0].__name__}(1.0), got {guarantee!r}.")
    if not isinstance(guarantee, kinds):
        raise InvalidInputError(
            f"{mechanism} is calibrated to {names}, got {guarantee!r}. {_instead(guarantee, kinds)}"
        )
    if not any(dataclasses.astuple(guarantee)):
        raise InvalidInputError(f"{mechanism} cannot reach {guarantee!r}: it would need infinite noise.")


def _instead(guarantee: AbstractGuarantee, kinds: tuple[type[AbstractGuarantee], ...]) -> str:
    """What to ask for: a guarantee that the refused one implies, if there is such a kind."""
    for kind in kinds:
        with contextlib.suppress(ConversionError, ArithmeticError):
            weaker = guarantee.to(kind)
            return f"Take another mechanism, or the weaker {weaker!r}, which is guarantee.to({kind.__name__})."
    return f"It implies none: take another mechanism, or ask for {kinds[0].__name__}."


@brief_jit
def _transport(mechanism: AbstractMechanism, u: Array, s: Array) -> Array:
    return mechanism._transport(u, s)


@brief_jit
def _log_prob(mechanism: AbstractMechanism, s_dp: Array, s: Array) -> Array:
    return _on_support(mechanism, s_dp, mechanism._log_prob(s_dp, s))


@brief_jit
def _log_cdf(mechanism: AbstractMechanism, s_dp: Array, s: Array) -> Array:
    return mechanism._log_cdf(s_dp, s)


@brief_jit
def _log_prob_bound(mechanism: AbstractMechanism, s_dp: Array) -> Array:
    return _on_support(mechanism, s_dp, mechanism._log_prob_bound(s_dp))


def _on_support(mechanism: AbstractMechanism, s_dp: Array, value: Array) -> Array:
    possible = mechanism.support.contains(s_dp).all(-1) & ~jnp.isnan(value)
    return jnp.where(possible, value, -jnp.inf)
