"""The law of what is released, as a numpyro distribution."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array, as_key, describe, is_traced
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.laws.counts import Plan, plan_for
from noisewise.laws.randomness import uniform
from noisewise.laws.routes import AbstractRoute, route_of, table_of
from noisewise.laws.tables import Table
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.simulators.multinomial_draws import draw_counts


class Privatized(dist.Distribution):
    r"""The law of y, what `mechanism` releases of a confidential s ~ `law`:

        p(y) = sum_s f(s) eta(y | s),    or the integral.

    It is an ordinary numpyro distribution: `log_prob` is exact to the accuracy below and
    differentiable in the law's parameters, under `jit`, `vmap` and `grad`, inside plates, for NUTS,
    SVI and `Predictive`. It computes in float64 whatever JAX's flag says.

    Mechanisms of independent columns keep the law's batch shape, whose last axis is the columns:
    scales per column broadcast there. Laws with one event axis are sums over it.

    Routes, by the types of law and mechanism:

    - counts (Poisson, binomial, negative binomial, geometric, beta-binomial, zero-inflated,
      uniform, categories) through any mechanism of independent columns: a sum over a fixed number
      of points around the mode of the summand, right to 1e-11 of |log p| for Poisson, binomial and
      negative binomial laws up to counts of 1e9. The cost depends neither on counts nor on noise;
    - multinomial and Dirichlet-multinomial counts with a known total (`total_count=` one whole
      number) through such mechanisms: sums over single cells conditioned on the total by a discrete
      Fourier transform, right to 1e-9 for noise of scales up to 20, and for larger ones where at
      least four cells hold more than their noise. The cost follows the scale of the noise;
    - normal laws with Gaussian or Laplace noise, multivariate normal laws with Gaussian noise:
      closed forms;
    - other continuous laws of one dimension (gamma, log-normal, beta, Student's t, uniform, ...)
      through Gaussian or Laplace noise, cut or thresholded too: an integral by graded panels, right
      to 1e-9 where f is smooth but for powers at the ends of its support;
    - thresholds, clamps, exact cells, rounding and cells of different mechanisms as the mechanism
      defines them: an absent cell is NaN.

    Args:
        law: A numpyro distribution of the confidential statistic.
        mechanism: What was done to it, such as `release.mechanism`.

    Raises:
        InvalidTypeError: If one of them is something else.
        MissingCapabilityError: If there is no route; the message names what would serve.

    >>> import noisewise as nw
    >>> noise = nw.mechanisms.DiscreteLaplace(scale=2.0)
    >>> law = Privatized(dist.Poisson(jnp.array([10.0, 1e9])), noise)
    >>> [f"{value:.3f}" for value in law.log_prob(np.array([12.0, 1e9 + 1e5]))]
    ['-2.484', '-16.280']
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    pytree_data_fields = ("law", "mechanism")

    def __init__(
        self,
        law: dist.Distribution,
        mechanism: AbstractMechanism,
        *,
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(law, type) or not isinstance(law, dist.Distribution):
            raise InvalidTypeError(
                "Privatized(law, mechanism) takes a numpyro distribution first, such as"
                f" dist.Poisson(rate), got {describe(law)}."
            )
        if not isinstance(mechanism, AbstractMechanism):
            raise InvalidTypeError(
                "Privatized(law, mechanism) takes a mechanism second, such as release.mechanism,"
                f" got {describe(mechanism)}."
            )
        self.law, self.mechanism = law, mechanism
        batch_shape, event_shape = self._route().shapes()
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _route(self) -> AbstractRoute:
        return route_of(self.law, self.mechanism)

    @property
    def support(self) -> constraints.Constraint:
        return _Released(self.mechanism, len(self.event_shape))

    def log_prob(self, value: Any) -> Array:
        """The log density, or probability where that is discrete, of a released value.

        Args:
            value: Released numbers, of shape batch + event; NaN where a cell is absent.
        """
        return self._compute(_log_prob, value)

    def log_prob_error(self, value: Any) -> Array:
        """How far `log_prob` may be off: for integrals the difference of two rules, else what is
        stated above.

        Args:
            value: Released numbers, of shape batch + event; NaN where a cell is absent.
        """
        return self._compute(_error, value)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Released values: s from the law, and the mechanism's noise.

        Args:
            key: JAX PRNG key.
            sample_shape: Leading axes.
        """
        first, second = jax.random.split(as_key(key))
        law = self.law
        if not self.event_shape and tuple(law.batch_shape) != tuple(self.batch_shape):
            law = law.expand(tuple(self.batch_shape))
        # in the caller's precision, as numpyro's programs
        drawn = draw_counts(law, first, sample_shape)
        rows = drawn.shape or (1,)
        shape = (*rows[:-1], self.mechanism.num_uniforms(rows[-1]))
        with jax.enable_x64(True):
            s = _float64(drawn)
            found = self.mechanism.transport(uniform(second, shape), s.reshape(rows))
        return _default_float(jnp.asarray(found).reshape(s.shape))

    def confidential(self, key: Array, value: Any) -> Array:
        """A draw of s given what was released.

        Args:
            key: JAX PRNG key.
            value: Released numbers, of shape batch + event.
        """
        return self._compute(functools.partial(_confidential, as_key(key)), value)

    def _compute(self, program: Any, value: Any) -> Array:
        """A program of law, mechanism, value and plan, in float64."""
        with jax.enable_x64(True):
            value = _float64(value)
            cells = value if value.ndim else value[None]
            plan = plan_for(self.mechanism, cells)
            law = jax.tree.map(_float64, self.law)
            known = is_traced(law)  # else nothing is computed twice
            table = table_of(law, self.mechanism, cells) if known else None
            found = program(law, self.mechanism, value, table, plan)
        return _default_float(found)

    def expand(self, batch_shape: tuple[int, ...]) -> Privatized:
        """The same for more batch axes."""
        if tuple(batch_shape) == tuple(self.batch_shape):
            return self
        width = self.mechanism.width
        if not self.event_shape and width not in (None, *batch_shape[-1:]):
            raise InvalidInputError(
                f"The mechanism has numbers for {width} columns, which are the last axis of the"
                f" batch; a plate makes it {batch_shape}. Plates that subsample, or stand behind"
                " the columns, need a mechanism with one number for all."
            )
        return Privatized(self.law.expand(tuple(batch_shape)), self.mechanism)

    @property
    def mean(self) -> Array:
        """The mean of the law: noise is centred where nothing is thresholded or clamped."""
        return self.law.mean


@jit_fast_compile(static_argnums=4)
def _log_prob(
    law: dist.Distribution,
    mechanism: AbstractMechanism,
    value: Array,
    table: Table | None,
    plan: Plan,
) -> Array:
    return route_of(law, mechanism, plan, table).log_prob(value)


@jit_fast_compile(static_argnums=4)
def _error(
    law: dist.Distribution,
    mechanism: AbstractMechanism,
    value: Array,
    table: Table | None,
    plan: Plan,
) -> Array:
    return route_of(law, mechanism, plan, table).error(value)


@jit_fast_compile(static_argnums=5)
def _confidential(
    key: Array,
    law: dist.Distribution,
    mechanism: AbstractMechanism,
    value: Array,
    table: Table | None,
    plan: Plan,
) -> Array:
    return route_of(law, mechanism, plan, table).confidential(key, value)


class _Released(constraints.Constraint):
    """What a mechanism may release."""

    def __init__(self, mechanism: AbstractMechanism, event_dim: int) -> None:
        self.mechanism, self._event_dim = mechanism, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    def __call__(self, x: Any) -> Any:
        rows = np.asarray(x, dtype=np.float64)
        inside = self.mechanism.support.contains(rows if rows.ndim else rows[None])
        inside = np.asarray(inside).reshape(rows.shape)
        return inside.all(-1) if self._event_dim else inside

    def tree_flatten(self) -> Any:
        return (self.mechanism,), (("mechanism",), {"_event_dim": self._event_dim})


def _float64(leaf: Any) -> Any:
    """Numbers in float64, whole numbers too: counts above 2^24 keep their digits."""
    if isinstance(leaf, bool) or not isinstance(
        leaf, (int, float, np.ndarray, jax.Array, np.generic)
    ):
        return leaf
    xp: Any = jnp if is_traced(leaf) else np  # what is known while tracing stays known
    array = xp.asarray(leaf)
    is_number = jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(
        array.dtype, jnp.integer
    )
    return array.astype(np.float64) if is_number else array


def _default_float(array: Array) -> Array:
    """The array in JAX's default precision, which numpyro's own densities have."""
    return array.astype(jnp.result_type(float))
