"""q(target | condition): an ensemble of estimators with its standardisation, in the units of the
data.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, is_traced
from noisewise._core.keys import fold_in, split
from noisewise.estimators.conditioner import Scale
from noisewise.estimators.members import Estimator
from noisewise.estimators.whitening import Whitening

_ROWS = 1024
"""Rows evaluated at a time: more columns of a network at once leave a CPU cache and take longer
each.
"""


class ConditionalDensity(eqx.Module):
    r"""A learnt density of targets given conditions, in the units of the data:

        q(t | c) = 1/E sum_e q_e(L^-1 (t - mean(c')) | c') / |det L|

    with c' the standardised condition, L and mean of `whitening`, and E members.

    Arrays in and out are float64, the members compute in float32. Works under `jit` and `grad`, and
    compiled programs that take it as an argument serve every density of the same architecture.

    Args:
        members: An ensemble, as `ensemble` or `train` return it.
        condition_scale: Standardises conditions, or makes of them what else members see.
        whitening: Standardises targets, given standardised conditions.
    """

    members: Estimator
    condition_scale: Scale
    whitening: Whitening

    @property
    def num_members(self) -> int:
        """The number of estimators that are averaged."""
        return next(leaf for leaf in jax.tree.leaves(self.members) if eqx.is_array(leaf)).shape[0]

    @property
    def dims(self) -> tuple[int, int]:
        """The number of columns of targets and of conditions."""
        return self.whitening.root.shape[0], self.condition_scale.num_columns

    def standardised(self, target: Array, condition: Array) -> tuple[Array, Array]:
        """Target and condition as the members see them, float32."""
        condition = self.condition_scale(condition)
        standard = self.whitening.forward(target, condition)
        return standard.astype(jnp.float32), condition.astype(jnp.float32)

    def log_density(
        self, target: Float[Array, "*n d"], condition: Float[Array, "*n w"]
    ) -> Float[Array, "*n"]:
        """log q for targets and conditions whose batch axes broadcast; for use inside compiled
        programs traced in float64.
        """
        lead = jnp.broadcast_shapes(target.shape[:-1], condition.shape[:-1])
        target = jnp.broadcast_to(target, (*lead, target.shape[-1]))
        condition = jnp.broadcast_to(condition, (*lead, condition.shape[-1]))
        standard, standard_condition = self.standardised(target, condition)
        with jax.enable_x64(False):
            each = self._each(lambda member: member.log_prob(standard, standard_condition))
        each = jnp.where(jnp.isnan(each), -jnp.inf, each).astype(jnp.float64)
        mixed = jax.scipy.special.logsumexp(each, axis=0) - jnp.log(float(self.num_members))
        return mixed + self.whitening.log_det

    def log_prob(self, target: Any, condition: Any) -> Float[np.ndarray, " n"]:
        """log q(target | condition), row by row; under `jit` or `grad` a tracer.

        Args:
            target: Targets, shape (n, d).
            condition: Conditions, shape (n, w), or one for all of them (w,).

        Returns:
            Log densities, shape (n,).
        """
        with jax.enable_x64(True):
            target = np.asarray(target, dtype=np.float64) if not is_traced(target) else target
            if is_traced(target, condition, self):
                return self.log_density(target, jnp.asarray(condition, jnp.float64))
            condition = np.broadcast_to(
                np.asarray(condition, dtype=np.float64), (len(target), np.shape(condition)[-1])
            )
            parts = [_log_density(self, *block) for block in _blocks(target, condition)]
            return np.concatenate([np.asarray(part) for part in parts])[: len(target)]

    def sample(
        self, key: Array, condition: Any, num: int | None = None
    ) -> Float[np.ndarray, "n d"]:
        """Draws of targets.

        Args:
            key: JAX PRNG key.
            condition: One condition (w,), or one for each draw (n, w).
            num: The number of draws given one condition.

        Returns:
            Targets, shape (num, d) or (n, d).
        """
        condition = np.asarray(condition, dtype=np.float64)
        if condition.ndim == 1:
            condition = np.broadcast_to(condition, (int(num or 1), len(condition)))
        with jax.enable_x64(True):
            parts = [
                np.asarray(_sample_given(self, fold_in(key, number), *block))
                for number, block in enumerate(_blocks(condition))
            ]
        return np.concatenate(parts)[: len(condition)]

    def _each(self, fn: Any) -> Array:
        """fn of every member, stacked on a first axis."""
        arrays, static = eqx.partition(self.members, eqx.is_array)
        apply = lambda part: fn(paramax.unwrap(eqx.combine(part, static)))  # noqa: E731
        if self.num_members == 1:
            return apply(jax.tree.map(lambda leaf: leaf[0], arrays))[None]
        return jax.vmap(apply)(arrays)


def _blocks(*arrays: np.ndarray) -> Any:
    """Rows in blocks of 1,024, the last one filled up: one program serves every number of rows."""
    for start in range(0, len(arrays[0]), _ROWS):
        parts = [array[start : start + _ROWS] for array in arrays]
        yield [
            np.concatenate([part, np.repeat(part[:1], _ROWS - len(part), axis=0)]) for part in parts
        ]


@filter_jit_fast_compile
def _log_density(density: ConditionalDensity, target: Array, condition: Array) -> Array:
    return density.log_density(target, condition)


@filter_jit_fast_compile
def _sample_given(density: ConditionalDensity, key: Array, condition: Array) -> Array:
    """One target for each condition, from a member chosen at random."""
    standard_condition = density.condition_scale(condition)
    member_key, draw_key = split(key)
    with jax.enable_x64(False):
        given = standard_condition.astype(jnp.float32)
        draws = density._each(lambda member: member.sample(draw_key, (), given))
        chosen = jax.random.randint(member_key, (len(given),), 0, len(draws))
        standard = draws[chosen, jnp.arange(len(given))]
    return density.whitening.inverse(standard.astype(jnp.float64), standard_condition)
