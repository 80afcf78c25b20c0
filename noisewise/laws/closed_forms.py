r"""Normal laws through Gaussian and Laplace noise: closed forms.

Gaussian: variances add. Laplace of scale b on N(m, a^2), d = y - m:

    p(y) = (1/2b) [e^(a^2/2b^2 - d/b) Phi(d/a - a/b) + e^(a^2/2b^2 + d/b) Phi(-d/a - a/b)]

With Phi(-x) = phi(x) R(x), R Mills' ratio, each term is phi(d/a) R(x) / (2b): where x > 0 nothing
large cancels in this form, elsewhere nothing does in the first.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtri
from jaxtyping import Float

from noisewise._core.arrays import Array

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_FAR = 10.0
"""In sds: from here on Mills' ratio is its continued fraction."""
_UNDERFLOW = -500.0
"""Logs of probabilities below which exp is near its end, -708."""
_NEWTON_STEPS = 6
"""Steps from the leading term of the tail: each squares the relative error, of 1% at first."""
_LEVELS = 12
"""Levels of the fraction: right to 1e-16 from 10 sds on."""


def log_mills(x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """log [Phi(-x) / phi(x)] for every x.

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     log_mills(jnp.array([0.0, 1e8])).round(6).tolist()
    [0.225791, -18.420681]
    """
    far = jnp.maximum(x, _FAR)
    fraction = far
    for level in range(_LEVELS, 0, -1):
        fraction = far + level / fraction
    near = jnp.minimum(x, _FAR)
    return jnp.where(x > _FAR, -jnp.log(fraction), log_ndtr(-near) + 0.5 * near**2 + _LOG_SQRT_2PI)


def log_ndtri(log_p: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The z with log Phi(z) = log_p, however small the probability: by Newton's method where it
    underflows.

    >>> import jax
    >>> with jax.enable_x64(True):
    ...     log_ndtri(log_ndtr(jnp.array([-50.0, 0.5]))).round(9).tolist()
    [-50.0, 0.5]
    """
    small = jnp.minimum(log_p, _UNDERFLOW)
    z = -jnp.sqrt(-2.0 * (small + _LOG_SQRT_2PI))
    for _ in range(_NEWTON_STEPS):
        z = z - (log_ndtr(z) - small) * jnp.exp(log_mills(-z))
    return jnp.where(log_p < _UNDERFLOW, z, ndtri(jnp.exp(jnp.maximum(log_p, _UNDERFLOW))))


def log_normal_through_laplace(
    mean: Array, sd: Array, scale: Array, y: Array
) -> Float[Array, "*batch"]:
    """The log density of y = s + Laplace noise of this scale, s ~ N(mean, sd^2)."""
    d, ratio = (y - mean) / sd, sd / scale
    both = jnp.logaddexp(_one_side(ratio, d), _one_side(ratio, -d))
    return both - _LOG_SQRT_2PI - jnp.log(2.0 * scale)


def _one_side(ratio: Array, d: Array) -> Array:
    """log of Phi(d - r) e^(r^2/2 - d r) sqrt(2 pi) = log of e^(-d^2/2) R(r - d), by that form of
    which no large parts cancel: the first one where d > r.
    """
    x = ratio - d
    beyond = log_ndtr(-jnp.minimum(x, 0.0)) + ratio * (0.5 * ratio - d) + _LOG_SQRT_2PI
    return jnp.where(x > 0.0, log_mills(jnp.maximum(x, 0.0)) - 0.5 * d**2, beyond)
