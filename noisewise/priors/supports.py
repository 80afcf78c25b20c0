r"""Supports of priors: which points they contain, how to map these to unconstrained coordinates,
how to stay off the edge.

numpyro has the constraints and their bijections. This module adds membership with a stated
tolerance where a support has equalities (simplex, correlation), a stick-breaking map that keeps
tiny components, and the interior. Everything works on float64 JAX arrays, eager or traced.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import IndependentTransform, ParameterFreeTransform, Transform

from noisewise._core.arrays import Array

TOLERANCE = 1e-6
"""How far a point may be from an equality of its support (entries that sum to one, rows of unit
length).
"""

_TINY = float(np.finfo(np.float64).tiny)  # 2.2e-308, the smallest positive normal number
_STEP = 4.0 * float(np.finfo(np.float64).eps)  # relative: survives the rounding of a round trip


class StickBreaking(ParameterFreeTransform):
    r"""The simplex from R^(J-1): theta_k = sigmoid(y_k) prod_{l<k} (1 - sigmoid(y_l)), with y_k =
    z_k - log(J - k).

    z = 0 is the centre. The map is numpyro's, computed from logarithms and from the sums of what
    remains of the stick, so that components far below the precision of 1 (sparse Dirichlets have
    many) survive the round trip.

    >>> with jax.enable_x64(True):
    ...     StickBreaking()(jnp.zeros(2)).round(6).tolist()
    [0.333333, 0.333333, 0.333333]
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __call__(self, x: Array) -> Array:
        return jnp.exp(self._log(x))

    def _log(self, x: Array) -> Array:
        y = x - _balance(x.shape[-1])
        whole = jnp.zeros((*x.shape[:-1], 1))
        broken = jnp.concatenate([jax.nn.log_sigmoid(y), whole], axis=-1)
        return broken + jnp.concatenate(
            [whole, jnp.cumsum(jax.nn.log_sigmoid(-y), axis=-1)], axis=-1
        )

    def _inverse(self, y: Array) -> Array:
        left = jnp.flip(jnp.cumsum(jnp.flip(y[..., 1:], -1), axis=-1), -1)
        return jnp.log(y[..., :-1]) - jnp.log(left) + _balance(y.shape[-1] - 1)

    def log_abs_det_jacobian(self, x: Array, y: Array, intermediates: None = None) -> Array:
        """sum_k log theta_k + log(1 - sigmoid(y_k)), k < J: the matrix of derivatives is
        triangular.
        """
        return (self._log(x)[..., :-1] + jax.nn.log_sigmoid(_balance(x.shape[-1]) - x)).sum(-1)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)


def _balance(free: int) -> Array:
    return jnp.log(free - jnp.arange(free, dtype=jnp.float64))


def _base(support: constraints.Constraint) -> constraints.Constraint:
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def bijection(support: constraints.Constraint) -> Transform:
    """The map from unconstrained coordinates onto the interior of a support.

    Raises:
        NotImplementedError: If numpyro knows none.
    """
    if isinstance(support, constraints.independent):
        return IndependentTransform(
            bijection(support.base_constraint), support.reinterpreted_batch_ndims
        )
    return StickBreaking() if isinstance(support, type(constraints.simplex)) else biject_to(support)


def contains(
    support: constraints.Constraint, x: Float[Array, "*batch_and_event"]
) -> Bool[Array, "*batch"]:
    """Whether each event of x is finite and lies in the support.

    A support of vectors or matrices contains x if mapping x to unconstrained coordinates and back
    moves no entry by more than `TOLERANCE` (relative to entries above 1).

    Args:
        support: A numpyro constraint.
        x: Batch axes, then the axes of the event.

    Returns:
        One boolean per event, with the shape of the batch axes.
    """
    axes = tuple(range(x.ndim - support.event_dim, x.ndim))
    finite = jnp.isfinite(x).all(axes)
    if _base(support).event_dim == 0:
        return finite & support(x)
    onto = bijection(support)
    moved = jnp.abs(onto(onto.inv(x)) - x)
    return finite & (moved <= TOLERANCE * jnp.maximum(1.0, jnp.abs(x))).all(axes)


def interior(support: constraints.Constraint, x: Array) -> Array:
    """Move entries on the edge of an interval, half-line or simplex inside, by a few units in the
    last place.

    At an edge at zero the smallest positive normal number, 2.2e-308, replaces zero. Entries inside
    stay as they are.

    >>> with jax.enable_x64(True):
    ...     interior(constraints.positive, jnp.array([0.0, 1.0])).tolist()
    [2.2250738585072014e-308, 1.0]
    """
    base = _base(support)
    if isinstance(base, type(constraints.simplex)):
        return jnp.maximum(x, _TINY)
    low, high = bounds(support)
    if low is not None:
        x = jnp.maximum(x, low + jnp.maximum(_STEP * jnp.abs(low), _TINY))
    if high is not None:
        size = jnp.abs(high) if low is None else jnp.maximum(jnp.abs(low), jnp.abs(high))
        x = jnp.minimum(x, high - jnp.maximum(_STEP * size, _TINY))
    return x


def bounds(support: constraints.Constraint) -> tuple[Array | None, Array | None]:
    """The lower and upper bound of an interval or half-line; None where there is no such bound."""
    base = _base(support)
    has_low = isinstance(base, (constraints.interval, constraints.greater_than))
    has_high = isinstance(base, (constraints.interval, constraints.less_than))
    return base.lower_bound if has_low else None, base.upper_bound if has_high else None
