"""Draws of numpyro's laws of counts with a known total, at any total."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, is_traced

_MANY = 10_000
"""Records that are drawn one by one, as numpyro does; more are counted by binomial draws, cell by
cell, whose cost does not grow with them.
"""


def draw_counts(law: Any, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
    """A draw of any law, as `law.sample`; large totals are split between cells, not drawn one by
    one.

    Args:
        law: A numpyro distribution.
        key: JAX PRNG key.
        sample_shape: Leading axes.

    >>> import numpyro.distributions as dist
    >>> law = dist.Multinomial(10**9, probs=jnp.array([0.2, 0.3, 0.5]))
    >>> with jax.enable_x64(True):
    ...     counts = np.asarray(draw_counts(law, jax.random.key(0)))
    >>> int(counts.sum()), (counts / 1e9).round(3).tolist()
    (1000000000, [0.2, 0.3, 0.5])
    """
    import numpyro.distributions as dist

    multinomial = (dist.MultinomialProbs, dist.MultinomialLogits)
    if not isinstance(law, (*multinomial, dist.DirichletMultinomial)) or not _is_many(law):
        return law.sample(key, sample_shape)
    shape = law.shape(sample_shape)
    with jax.enable_x64(True):  # whole numbers above 2^24 need it
        if isinstance(law, multinomial):
            probs = law.probs
        else:
            key, own = jax.random.split(key)
            probs = jax.random.dirichlet(own, law.concentration, shape[:-1])
        probs = jnp.broadcast_to(jnp.asarray(probs, dtype=jnp.float64), shape)
        found = jax.random.multinomial(key, jnp.float64(law.total_count), probs)
    return found.astype(jnp.result_type(float))


def _is_many(law: Any) -> bool:
    total = law.total_count
    return not is_traced(total) and np.ndim(total) == 0 and int(total) > _MANY
