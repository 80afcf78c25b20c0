r"""The law eta(s_dp | s) of a mechanism: draws, quasi-random draws, densities and distribution
functions.

    s  --transport(u, .)-->  s_dp         u uniform on (0,1)^num_uniforms

`AbstractNoiseLaw` owns precision, shapes, keys and compilation; a concrete mechanism is the
formula. Mechanisms are immutable pytrees whose numbers are leaves: passed as arguments of a
compiled program, a new epsilon never recompiles.
"""

from __future__ import annotations

import abc
import enum
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.few_sizes import with_few_sizes
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
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.mechanisms.columns import Listed
from noisewise.mechanisms.supports import LATTICE_TOLERANCE, AbstractSupport, Lattice


class Capability(enum.StrEnum):
    """What a mechanism can do; inference methods ask before they start.

    >>> import noisewise as nw
    >>> Capability.CDF in nw.mechanisms.EuclideanLaplace(scale=1.0).capabilities
    False
    """

    SAMPLE = "sample"
    TRANSPORT = "transport"
    DENSITY = "log_prob"
    BOUND = "log_prob_bound"
    CDF = "log_cdf"


ALL_CAPABILITIES = frozenset(Capability)


class AbstractNoiseLaw(eqx.Module):
    r"""What is random in a mechanism: the law eta(s_dp | s) of the private statistic.

    Shapes: `s (..., k)` and `s_dp (..., k')`, with k' = `output_width(k)`; leading axes broadcast.
    `log_prob` sums over the last axis and is -inf off the support (and for NaN, but where that is
    an outcome, absent); for a lattice it is the log of a probability.

    A concrete class gives `support` and those of `_transport`, `_log_prob_each`, `_log_cdf`,
    `_log_sf`, `_log_prob_bound_each` that its `capabilities` name (`_log_prob` and
    `_log_prob_bound` where columns depend on each other). They get float64 arrays of the right
    shape, under `jit`; their values off the support do not matter.
    """

    @property
    @abc.abstractmethod
    def support(self) -> AbstractSupport:
        """The set of possible private statistics."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this mechanism can do; calling anything else raises `MissingCapabilityError`."""
        return ALL_CAPABILITIES

    @property
    def is_smooth(self) -> bool:
        """Whether eta(s_dp | .) is smooth on the scale of the noise, without kinks, ends, atoms."""
        return False

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        """Where eta(s_dp | s), as a function of s, has kinks, jumps, ends or its peak, in order
        along a new last axis: at s_dp, for noise that is added. Between them it is smooth on the
        scale of its distance from them. Numbers from `ceil(kink)` on are to its right. Computed
        with the functions of `xp`, NumPy or jax.numpy.
        """
        del xp
        return s_dp[..., None]

    def _continued(self) -> AbstractNoiseLaw:
        """The law whose eta(s_dp | s) is defined for every real s, smooth between kinks, where this
        one takes whole numbers only: sums over s by few points need it.

        >>> import noisewise as nw
        >>> noise = nw.mechanisms.Thresholded(nw.mechanisms.DiscreteGaussian(scale=5.0), above=9.0)
        >>> with jax.enable_x64(True):
        ...     between = noise._continued()._log_prob_each(jnp.array([9.0]), jnp.array([8.5]))
        ...     same = bool(between[0] == noise.mechanism._log_mass(0.5))
        >>> same
        True
        """

        def is_inner(node: Any) -> bool:
            return isinstance(node, AbstractNoiseLaw) and node is not self

        replaced: AbstractNoiseLaw = jax.tree.map(
            lambda node: node._continued() if is_inner(node) else node, self, is_leaf=is_inner
        )
        return replaced

    @property
    def reach(self) -> float:
        """How far beyond its kinks eta(s_dp | .) ends, down to e^-40 of its peak; inf where it does
        not, or that is not known.
        """
        return math.inf

    @property
    def input_bounds(self) -> tuple[Any, Any]:
        """The ends of the numbers s that it takes: one number for all columns, or one for each."""
        return -np.inf, np.inf

    @property
    def width(self) -> int | None:
        """The number k of columns of s, where the mechanism fixes it."""
        return None

    @property
    def distance_unit(self) -> float | Float[np.ndarray, " kp"]:
        """What distances between private statistics divide the columns of s_dp by: one number, or
        one per column.

        1, except for counts out of n, which are compared as proportions.
        """
        return 1.0

    def output_width(self, k: int) -> int:
        """The number k' of columns of s_dp for k columns of s."""
        return k

    def num_uniforms(self, k: int) -> int:
        """The number of uniforms that `transport` takes for k columns of s."""
        return k

    def __hash__(self) -> int:
        listed = lambda leaf: leaf.tobytes() if isinstance(leaf, np.ndarray) else leaf  # noqa: E731
        return hash(tuple(map(listed, jax.tree.leaves(self))))

    def __repr__(self) -> str:
        shown = lambda leaf: Listed(leaf) if isinstance(leaf, np.ndarray) else leaf  # noqa: E731
        return eqx.tree_pformat(jax.tree.map(shown, self))

    # What callers use -----------------------------------------------------------------------------

    @in_float64
    def sample(self, key: Array, s: Float[Array, "*batch k"]) -> Float[Array, "*batch kp"]:
        """Draw s_dp given s: the transport of independent uniforms.

        This is noise for simulations. Never publish it: a release of real data goes through
        `nw.release`, which draws whole numbers exactly.

        Args:
            key: JAX PRNG key.
            s: Confidential statistics, shape (..., k). Rows of NaN (failed simulations) stay NaN.

        Returns:
            Private statistics, shape (..., k'), one independent draw per row.

        Raises:
            MissingCapabilityError: If the mechanism has a density only.
            InvalidInputError: If s has the wrong width, or values that the mechanism cannot take.
        """
        self._need(Capability.SAMPLE)
        return self._sample(stage_key(as_key(key), "mechanism"), self._statistic(s))

    @in_float64
    def transport(
        self, u: Float[Array, "*batch num_uniforms"], s: Float[Array, "*batch k"]
    ) -> Float[Array, "*batch kp"]:
        """The map tau(u, s) that turns uniforms into s_dp, for quasi-Monte Carlo.

        Args:
            u: Numbers strictly inside (0, 1), shape (..., `num_uniforms(k)`), as from
                `IndependentUniforms` or `ScrambledSobol`.
            s: Confidential statistics, shape (..., k).

        Returns:
            Private statistics, shape (..., k'). They follow eta(. | s) if u is uniform.

        Raises:
            MissingCapabilityError: If the mechanism has no transport.
            InvalidInputError: If an entry of u is not inside (0, 1), or a shape is wrong.
        """
        self._need(Capability.TRANSPORT)
        s = self._statistic(s)
        u = as_vectors(u, "u", self.num_uniforms(s.shape[-1]))
        if not is_traced(u) and not bool(np.all((np.asarray(u) > 0) & (np.asarray(u) < 1))):
            raise InvalidInputError(
                "u must lie strictly inside (0, 1): take it from IndependentUniforms or"
                " ScrambledSobol."
            )
        return with_few_sizes(functools.partial(_transport, self), u, s)

    @in_float64
    def log_prob(
        self, s_dp: Float[Array, "*batch kp"], s: Float[Array, "*batch k"]
    ) -> Float[Array, "*batch"]:
        """The log of eta(s_dp | s), normalised over s_dp, summed over columns.

        Args:
            s_dp: Private statistics, shape (..., k').
            s: Confidential statistics, shape (..., k).

        Returns:
            Shape (...): a log density, or the log of a probability where s_dp is discrete (on a
            lattice, at the ends of a clamped interval, of a cell that is absent); -inf off the
            support, and for NaN unless the support contains it.

        Raises:
            MissingCapabilityError: If the mechanism has no density.
            InvalidInputError: If a width is wrong, or the mechanism cannot take s.
        """
        self._need(Capability.DENSITY)
        s = self._statistic(s)
        return with_few_sizes(functools.partial(_log_prob, self), self._output(s_dp, s), s)

    @in_float64
    def log_prob_each(
        self, s_dp: Float[Array, "*batch kp"], s: Float[Array, "*batch k"]
    ) -> Float[Array, "*batch kp"]:
        """The log of eta_j(s_dp_j | s) of each column by itself: `log_prob` is their sum.

        Args:
            s_dp: Private statistics, shape (..., k').
            s: Confidential statistics, shape (..., k).

        Returns:
            Shape (..., k'), each as in `log_prob`.

        Raises:
            MissingCapabilityError: If there is no density, or columns depend on each other.

        >>> import noisewise as nw
        >>> nw.mechanisms.Laplace(scale=0.5).log_prob_each([1.5, 2.0], [1.0, 1.0]).tolist()
        [-1.0, -2.0]
        """
        self._need(Capability.DENSITY)
        s = self._statistic(s)
        s_dp = self._output(s_dp, s)
        if s_dp.shape[-1] == 1:
            return _log_prob(self, s_dp, s)[..., None]
        if Capability.CDF not in self.capabilities:
            raise MissingCapabilityError(
                f"{type(self).__name__} has no law of each column by itself, as columns depend on"
                " each other: take log_prob, which is that of all of them."
            )
        return _log_prob_each(self, s_dp, s)

    @in_float64
    def log_cdf(
        self, s_dp: Float[Array, "*batch kp"], s: Float[Array, "*batch k"]
    ) -> Float[Array, "*batch kp"]:
        """The log of P(S_dp <= s_dp | s) of each column by itself, not summed. Absent (NaN) counts
        as less than every number.

        Args:
            s_dp: Points, shape (..., k'), on the support or not.
            s: Confidential statistics, shape (..., k).

        Returns:
            Logs of probabilities, shape (..., k').

        Raises:
            MissingCapabilityError: If columns depend on each other or the law is unknown.
        """
        self._need(Capability.CDF)
        s = self._statistic(s)
        return with_few_sizes(functools.partial(_log_cdf, self), self._output(s_dp, s), s)

    @in_float64
    def log_prob_bound(self, s_dp: Float[Array, "*batch kp"]) -> Float[Array, "*batch"]:
        """An upper bound of log_prob(s_dp, s) over all s: the constant of exact rejection.

        Args:
            s_dp: Private statistics, shape (..., k').

        Returns:
            Bounds, shape (...); -inf off the support.

        Raises:
            MissingCapabilityError: If no bound is known.
        """
        self._need(Capability.BOUND)
        width = None if self.width is None else self.output_width(self.width)
        bound = functools.partial(_log_prob_bound, self)
        return with_few_sizes(bound, as_vectors(s_dp, "s_dp", width))

    # What a concrete mechanism writes -------------------------------------------------------------

    def _sample(self, key: Array, s: Array) -> Array:
        u = open_uniforms(key, (*s.shape[:-1], self.num_uniforms(s.shape[-1])))
        return with_few_sizes(functools.partial(_transport, self), u, s)

    def _transport(self, u: Array, s: Array) -> Array:
        raise self._lacks(Capability.TRANSPORT)

    def _log_prob(self, s_dp: Array, s: Array) -> Array:
        """log_prob for s_dp on the support; overridden where columns depend on each other."""
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

    def _log_before(self, s_dp: Array, s: Array) -> Array:
        """Elementwise log P(S_dp < s_dp), the point itself left out; overridden where single values
        that lie on no lattice have a probability.
        """
        support = self.support
        if isinstance(support, Lattice):
            s_dp = support.step * (jnp.ceil(s_dp / support.step - LATTICE_TOLERANCE) - 1.0)
        return self._log_cdf(s_dp, s)

    def _log_prob_bound(self, s_dp: Array) -> Array:
        return self._log_prob_bound_each(s_dp).sum(-1)

    def _possible(self, s_dp: Array) -> Array:
        """Which values, elementwise, lie on the support."""
        return self.support.contains(s_dp)

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
        """Refuse statistics this mechanism cannot take; NaN passes, it is a failed simulation."""

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


@jit_fast_compile
def _transport(law: AbstractNoiseLaw, u: Array, s: Array) -> Array:
    return law._transport(u, s)


@jit_fast_compile
def _log_prob(law: AbstractNoiseLaw, s_dp: Array, s: Array) -> Array:
    return _on_support(law._possible(s_dp).all(-1), law._log_prob(s_dp, s))


@jit_fast_compile
def _log_prob_each(law: AbstractNoiseLaw, s_dp: Array, s: Array) -> Array:
    return _on_support(law._possible(s_dp), law._log_prob_each(s_dp, s))


@jit_fast_compile
def _log_cdf(law: AbstractNoiseLaw, s_dp: Array, s: Array) -> Array:
    return law._log_cdf(s_dp, s)


@jit_fast_compile
def _log_prob_bound(law: AbstractNoiseLaw, s_dp: Array) -> Array:
    return _on_support(law._possible(s_dp).all(-1), law._log_prob_bound(s_dp))


def _on_support(contained: Array, value: Array) -> Array:
    return jnp.where(contained & ~jnp.isnan(value), value, -jnp.inf)
