r"""What a mechanism is: the publicly known randomness between a confidential statistic and a
private one.

    s  --transport(u, .)-->  s_dp         u uniform on (0,1)^num_uniforms

`AbstractMechanism` owns precision, shapes, keys and compilation; a concrete mechanism is the
formula. Mechanisms are immutable pytrees whose numbers are leaves: passed as arguments of a
compiled program, a new epsilon never recompiles.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import (
    Array,
    as_key,
    as_vectors,
    in_float64,
    is_traced,
    open_uniforms,
    stage_key,
)
from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
)
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.mechanisms.supports import AbstractSupport

YOUR_OWN = 'pass mechanisms={"label": mechanism, ...} with the mechanism of each budget.'
"""What to do where a mechanism cannot be calibrated to another budget by itself."""


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

    Shapes: `s (..., k)` and `s_dp (..., k')`, with k' = `output_width(k)`; leading axes broadcast.
    `log_prob` sums over the last axis and is -inf off the support (and for NaN); for a lattice it
    is the log of a probability.

    A concrete class gives `guarantee`, `support`, `norm` and those of `_transport`,
    `_log_prob_each`, `_log_cdf`, `_log_sf`, `_log_prob_bound_each` that its `capabilities` name
    (`_log_prob` and `_log_prob_bound` where columns depend on each other). They see float64 arrays
    of right shape, under `jit`; what they say off the support does not matter.
    """

    norm: ClassVar[float]
    """The norm in which `sensitivity` is measured: 0 (number of changed entries), 1, 2 or infinity.
    """

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
        """What distances between private statistics divide the columns of s_dp by: one number, or
        one per column (k',).

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
        """Pairs (s, s') of shape (pairs, k) at the stated sensitivity where the privacy loss is
        largest.
        """

    # What callers use -----------------------------------------------------------------------------

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
                "u must lie strictly inside (0, 1): take it from IndependentUniforms or"
                " ScrambledSobol."
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

    # What a concrete mechanism writes -------------------------------------------------------------

    def _sample(self, key: Array, s: Array) -> Array:
        u = open_uniforms(key, (*s.shape[:-1], self.num_uniforms(s.shape[-1])))
        return _transport(self, u, s)

    def _transport(self, u: Array, s: Array) -> Array:
        raise self._lacks(Capability.TRANSPORT)

    def _log_prob(self, s_dp: Array, s: Array) -> Array:
        """log_prob where s_dp lies on the support; the sum over columns, unless they depend on each
        other.
        """
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

    # Checks ---------------------------------------------------------------------------------------

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
        return MissingCapabilityError(
            f"{type(self).__name__} has no {capability}; it offers {able}."
        )

    def _stated_sensitivity(self) -> float:
        if self.sensitivity is None:
            raise MissingCapabilityError(
                f"This {type(self).__name__} does not know the query's sensitivity, so its noise"
                " gives no guarantee: pass sensitivity=..., the largest change of s in the"
                f" L{self.norm:g} norm between neighbours."
            )
        return self.sensitivity

    # What others ask of it ------------------------------------------------------------------------

    @property
    def blocks(self) -> tuple[AbstractMechanism, ...]:
        """The mechanisms of its blocks of columns, one after the other: itself, unless it is
        composed of several.
        """
        return (self,)

    @property
    def is_composed(self) -> bool:
        """Whether its `blocks` are others than itself."""
        return self.blocks[0] is not self

    def block_widths(self, k: int) -> tuple[int, ...]:
        """How many of the k columns of s each block takes."""
        return (k,)

    @property
    def inner(self) -> AbstractMechanism:
        """What draws the noise: itself, unless it does something to the output of another."""
        return self

    def noise_sd(self, k: int) -> list[float | None]:
        """The standard deviation of the noise of each column of s_dp, for k columns of s; None
        where it depends on s.

        >>> import noisewise as nw
        >>> nw.mechanisms.Gaussian(scale=2.0).noise_sd(3)
        [2.0, 2.0, 2.0]
        """
        try:
            sd = self._noise_sd(k)
        except ArithmeticError:  # scales and steps near the ends of float64
            sd = None
        return [sd if sd is None or math.isfinite(sd) else None] * self.output_width(k)

    def _noise_sd(self, k: int) -> float | None:
        return None

    def describe(self) -> str:
        """What is done to the numbers, as a reader of reports would say it."""
        return f"a mechanism of the analyst's own ({type(self).__name__})"

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        """The s (..., k) of which s_dp is the mean release."""
        return s_dp

    @property
    def choices(self) -> tuple[float, ...] | None:
        """The values among which it chooses by their utilities; None if it does no such thing."""
        return None

    @property
    def normal_mixture(self) -> Literal["fixed", "exponential"] | None:
        """The law of the variance, if the noise is normal with a random variance."""
        return None

    # Budgets --------------------------------------------------------------------------------------

    @property
    def needs_delta(self) -> bool:
        """Whether its guarantee, put as an epsilon, comes with a positive delta."""
        return False

    def recalibrated(self, guarantee: AbstractGuarantee) -> AbstractMechanism:
        """A mechanism of the same kind, for the same sensitivity, with another guarantee: only its
        noise changes.

        >>> import noisewise as nw
        >>> nw.mechanisms.Laplace(scale=1.0, sensitivity=2.0).recalibrated(nw.PureDP(8.0))
        Laplace(scale=0.25, sensitivity=2.0)
        """
        calibrate = getattr(type(self), "calibrate", None)
        if calibrate is None:
            raise MissingCapabilityError(
                f"{type(self).__name__} cannot be calibrated to another budget by itself:"
                f" {YOUR_OWN}"
            )
        parameters = inspect.signature(calibrate).parameters
        kept = {name: getattr(self, name) for name in parameters if name != "guarantee"}
        if "sensitivity" in kept and kept["sensitivity"] is None:
            raise MissingCapabilityError(
                f"This {type(self).__name__} does not know the query's sensitivity, so that no"
                f" epsilon belongs to its scale: pass sensitivity=... to it, or {YOUR_OWN}"
            )
        made: AbstractMechanism = calibrate(**kept, guarantee=guarantee)
        return made

    def remedy(self, needed: float) -> str:
        """What to write where it is calibrated for less than the sensitivity needed."""
        return (
            f"Write nw.mechanisms.{type(self).__name__}.calibrate(sensitivity={needed!r},"
            " guarantee=...)."
        )

    # Releases of real data ------------------------------------------------------------------------

    exact_counterpart: ClassVar[str | None] = None
    """The mechanism of whole numbers to take for a release, where this one is drawn in floating
    point.
    """

    @property
    def exact_step(self) -> float | None:
        """The step of the whole numbers that `exact_sampler` takes; None if it takes those of the
        query.
        """
        return 1.0

    @property
    def largest_statistic(self) -> float | None:
        """The largest |s| that it can serve; None if there is none."""
        return None

    @property
    def is_exact(self) -> bool:
        """Whether it can be drawn without floating-point arithmetic, and so released."""
        return type(self).exact_sampler is not AbstractMechanism.exact_sampler

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        """The function by which a release draws s_dp from the integers s / step, with the samplers
        that `noise` has.

        It checks at once what can be checked; the function that it returns refuses no integers.
        What it releases is a fixed function of drawn integers.
        """
        raise MissingCapabilityError(f"{type(self).__name__} has no exact sampler.")

    # Files ----------------------------------------------------------------------------------------

    def to_spec(self) -> dict[str, Any]:
        """A JSON-ready description; `from_spec` reads it back to the last bit."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            "type": type(self).__name__,
            **{name: _field_to_spec(value) for name, value in fields.items()},
        }


def _field_to_spec(value: Any) -> Any:
    if isinstance(value, AbstractMechanism):
        return value.to_spec()
    if isinstance(value, tuple):
        return [_field_to_spec(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise MissingCapabilityError(
        f"A mechanism with a field of type {type(value).__name__} cannot be written as JSON."
    )


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
    if (
        not isinstance(spec, dict)
        or not isinstance(spec.get("type"), str)
        or spec["type"] not in kinds
    ):
        raise FileFormatError(
            f"A mechanism must be an object whose 'type' is one of {', '.join(sorted(kinds))}."
        )
    kind = kinds[spec["type"]]
    expected = {field.name for field in dataclasses.fields(kind)}
    given = set(spec) - {"type"}
    if given != expected:
        raise FileFormatError(
            f"{kind.__name__} has the fields {sorted(expected)}, got {sorted(given)}."
        )
    fields = {name: _field_from_spec(spec[name], kinds) for name in expected}
    try:
        return kind(**fields)
    except (InvalidInputError, InvalidTypeError) as error:
        raise FileFormatError(f"The fields of {kind.__name__} do not fit: {error}") from None


@jit_fast_compile
def _transport(mechanism: AbstractMechanism, u: Array, s: Array) -> Array:
    return mechanism._transport(u, s)


@jit_fast_compile
def _log_prob(mechanism: AbstractMechanism, s_dp: Array, s: Array) -> Array:
    return _on_support(mechanism, s_dp, mechanism._log_prob(s_dp, s))


@jit_fast_compile
def _log_cdf(mechanism: AbstractMechanism, s_dp: Array, s: Array) -> Array:
    return mechanism._log_cdf(s_dp, s)


@jit_fast_compile
def _log_prob_bound(mechanism: AbstractMechanism, s_dp: Array) -> Array:
    return _on_support(mechanism, s_dp, mechanism._log_prob_bound(s_dp))


def _on_support(mechanism: AbstractMechanism, s_dp: Array, value: Array) -> Array:
    possible = mechanism.support.contains(s_dp).all(-1) & ~jnp.isnan(value)
    return jnp.where(possible, value, -jnp.inf)
