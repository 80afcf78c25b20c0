r"""Effects that are moved to their own share between centred and non-centred.

An effect e_j ~ m + tau x, x of a standardised law, with m and tau functions of other parameters, is
sampled through w_j:

    e_j = m + (tau / tau0)^(1 - c_j) (w_j - c_j m),    log |de_j / dw_j| = (1 - c_j) log(tau / tau0)

c = 1 is the centred form, w = e; c = 0 the non-centred one, w = tau0 x. Where data speak of e_j
with the information I_j, the share

    c_j = I_j / (I_j + 1 / tau^2)

leaves w_j hardly dependent on m and tau. With the constant tau0 = 1 this is numpyro's
`LocScaleReparam(centered=c)`; with tau0 where tau lies the form does not depend on units.

A random walk, e_t ~ m_t + tau x with m_t = e_{t-1} + drift, is moved step by step:

    e_t = (1 - c_t) m_t + c_t o_t + (tau / tau0)^(1 - c_t) w_t

where the constant o is about where m is. I_t is there what the data at t and after say of e_t:
J_t = I_t + J_{t+1} / (1 + tau^2 J_{t+1}), and w_t are then independent of each other.

References: Papaspiliopoulos, Roberts and Skoeld (2007), A general framework for the
parametrization of hierarchical models; Gorinova, Moore and Hoffman (2020), Automatic
reparameterisation of probabilistic programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, describe, in_float64, is_traced
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.samplers.densities import LogDensity, as_pytree

_PROBES = 32
"""Vectors of random signs by which the diagonal of a Hessian is found: one would do where effects
are independent given the rest; otherwise the error falls with the root of their number. Blocks of
no more effects are done exactly, column by column.
"""
_STEP = 1e-4
"""Of coordinates whose densities change over distances of order 1: curvatures are right to 1e-7."""
_LOG_ROOT_TAU = 0.5 * float(np.log(2.0 * np.pi))
"""log of the root of 2 pi: the constant of the normal law."""


def _standard_normal(x: Array) -> Array:
    return -0.5 * x**2 - _LOG_ROOT_TAU


class LocationScale(eqx.Module):
    r"""A block of effects e = z[columns], of which e_j = loc_j + scale_j x_j with x_j of one law.

    Args:
        columns: Which coordinates of z the effects are.
        law: z (d,) -> (loc, scale), each a number or of shape (n,); a pytree that can be called. It
            reads coordinates of parents alone, never the block's own.
        increments: Whether the effects are a random walk: `loc` is then the location of the first
            one, or, of shape (n,), that of the first followed by those of the increments
            e_t - e_{t-1}, which are 0 otherwise.
        log_density: The standardised law's log density, elementwise; normal by default.

    >>> block = LocationScale(range(2, 6), lambda z: (z[0], jnp.exp(z[1])))
    >>> block.columns
    (2, 3, 4, 5)
    """

    columns: tuple[int, ...] = eqx.field(static=True, converter=lambda given: _columns(given))
    law: Callable[[Array], tuple[Array, Array]]
    increments: bool = eqx.field(static=True, default=False)
    log_density: Callable[[Array], Array] = _standard_normal

    def __check_init__(self) -> None:
        if not callable(self.law):
            raise InvalidTypeError(
                "law must be a function z (d,) -> (loc, scale), such as"
                f" lambda z: (z[0], jnp.exp(z[1])), got {describe(self.law)}."
            )

    @property
    def num(self) -> int:
        """The number of effects."""
        return len(self.columns)

    def loc_and_scale(self, z: Array) -> tuple[Array, Array]:
        """Both at z, of shape (n,); of random walks for the first point and the increments."""
        loc, scale = (jnp.asarray(value) for value in self.law(z))
        for name, value in (("loc", loc), ("scale", scale)):
            if value.shape not in ((), (1,), (self.num,)):
                raise InvalidInputError(
                    f"law(z) must give a {name} that is a number or of shape ({self.num},), one"
                    f" for each effect, got shape {value.shape}."
                )
        if self.increments and loc.shape != (self.num,):
            loc = jnp.zeros(self.num).at[0].set(loc.reshape(()))
        return jnp.broadcast_to(loc, (self.num,)), jnp.broadcast_to(scale, (self.num,))

    def log_law(self, effects: Array, z: Array) -> Array:
        """The log density of effects (n,) given their parents in z, a scalar."""
        loc, scale = self.loc_and_scale(z)
        steps = jnp.diff(effects, prepend=0.0) if self.increments else effects
        return jnp.sum(self.log_density((steps - loc) / scale) - jnp.log(scale))

    def take(self, z: Array) -> Array:
        """The effects in z, shape (n,)."""
        span = _span(self.columns)
        return z[np.array(self.columns)] if span is None else z[span]

    def put(self, z: Array, effects: Array) -> Array:
        """z with other effects."""
        span = _span(self.columns)
        place = np.array(self.columns) if span is None else span
        return jnp.asarray(z).at[place].set(effects)


class Centred(eqx.Module):
    r"""The density of w: of z = to_z(w), times the Jacobian of that map.

    Args:
        log_density: z (d,) -> unnormalised log density; a pytree that can be called.
        blocks: The blocks of effects, parents before children.
        shares: c in [0, 1]: a number for all effects, or a number or array (n,) for each block.
        scales: tau0, in the same form.
        origins: o of random walks, in the same form; other blocks do without.

    Raises:
        InvalidInputError: If shares are outside of [0, 1], scales are not positive, or blocks
            overlap.

    Eight effects around an unknown mean, with an unknown spread:

    >>> block = LocationScale(range(2, 10), lambda z: (z[0], jnp.exp(z[1])))
    >>> def log_density(z):
    ...     data = -0.5 * jnp.sum((z[2:] - 3.0) ** 2)
    ...     return data + block.log_law(z[2:], z) - 0.5 * z[0] ** 2 - 0.5 * z[1] ** 2
    >>> half = Centred(log_density, [block], shares=0.5)
    >>> w = np.linspace(-1.0, 1.0, 10)
    >>> bool(np.allclose(half.from_z(half.to_z(w)), w))
    True
    >>> jacobian = 8 * 0.5 * w[1]
    >>> bool(np.isclose(half(w), log_density(half.to_z(w)) + jacobian, rtol=1e-6))
    True
    """

    log_density: LogDensity
    blocks: tuple[LocationScale, ...]
    shares: tuple[Array, ...]
    scales: tuple[Array, ...]
    origins: tuple[Array, ...]

    def __init__(
        self,
        log_density: LogDensity,
        blocks: Sequence[LocationScale],
        shares: Any = 0.5,
        scales: Any = 1.0,
        origins: Any = 0.0,
    ) -> None:
        self.log_density, self.blocks = log_density, tuple(blocks)
        self.shares = per_block(shares, self.blocks, "shares")
        self.scales = per_block(scales, self.blocks, "scales")
        self.origins = per_block(origins, self.blocks, "origins")

    def __check_init__(self) -> None:
        used = [column for block in self.blocks for column in block.columns]
        if len(set(used)) < len(used):
            raise InvalidInputError("blocks must not share columns: each effect has one law.")
        for share, scale in zip(self.shares, self.scales, strict=True):
            if not is_traced(share) and not ((share >= 0.0) & (share <= 1.0)).all():
                raise InvalidInputError(f"shares must lie in [0, 1], got {describe(share)}.")
            if not is_traced(scale) and not (scale > 0.0).all():
                raise InvalidInputError(f"scales must be positive, got {describe(scale)}.")

    @in_float64
    def __call__(self, w: Float[Array, " d"]) -> Float[Array, ""]:
        """The unnormalised log density of w."""
        z, log_jacobian = self._moved(jnp.asarray(w, jnp.float64))
        return self.log_density(z) + log_jacobian

    @in_float64
    def to_z(self, w: Float[Array, " d"]) -> Float[Array, " d"]:
        """z as the density's author wrote it."""
        return self._moved(jnp.asarray(w, jnp.float64))[0]

    @in_float64
    def from_z(self, z: Float[Array, " d"]) -> Float[Array, " d"]:
        """The w whose z this is."""
        z = w = jnp.asarray(z, jnp.float64)
        for block, share, scale0, origin in self._parts():
            loc, scale = block.loc_and_scale(z)
            effects, shrink = block.take(z), (scale / scale0) ** (share - 1.0)
            if block.increments:
                mean = loc + jnp.concatenate([jnp.zeros(1), effects[:-1]])
                moved = (effects - (1.0 - share) * mean - share * origin) * shrink
            else:
                moved = share * loc + (effects - loc) * shrink
            w = block.put(w, moved)
        return w

    def log_jacobian(self, z: Array) -> Array:
        """log |dz / dw| at z, a scalar; for use inside compiled programs."""
        total = jnp.zeros(())
        for block, share, scale0, _ in self._parts():
            total += jnp.sum((1.0 - share) * jnp.log(block.loc_and_scale(z)[1] / scale0))
        return total

    def _parts(self) -> Any:
        return zip(self.blocks, self.shares, self.scales, self.origins, strict=True)

    def _moved(self, w: Array) -> tuple[Array, Array]:
        """z and log |dz / dw|."""
        z, log_jacobian = w, jnp.zeros(())
        for block, share, scale0, origin in self._parts():
            loc, scale = block.loc_and_scale(z)
            moved, log_grow = block.take(z), (1.0 - share) * jnp.log(scale / scale0)
            if block.increments:
                keep = 1.0 - share
                effects = _walk(keep, keep * loc + share * origin + jnp.exp(log_grow) * moved)
            else:
                effects = loc + jnp.exp(log_grow) * (moved - share * loc)
            z, log_jacobian = block.put(z, effects), log_jacobian + jnp.sum(log_grow)
        return z, log_jacobian


@in_float64
def shares_at(
    log_density: LogDensity, blocks: Sequence[LocationScale], z: Float[Array, " d"]
) -> tuple[Float[np.ndarray, " n"], ...]:
    r"""The share of each effect, c_j = I_j / (I_j + 1 / tau_j^2), at one point.

        I_j = - d^2 / de_j^2 [log density - the block's own log law]

    Take z where effects are at their mean and spreads at their median, never at a joint mode, where
    spreads run off to 0. Blocks are done from the last to the first, each with its children held at
    their w, so that I_j of a parent is what the data say of it through them. Shares are clipped to
    [0, 1].

    Args:
        log_density: z (d,) -> unnormalised log density; a pytree that can be called.
        blocks: The blocks of effects, parents before children.
        z: The point, shape (d,).

    Returns:
        Shares of each block, shape (n,).

    Three effects of spread 1, measured with sd 1/3, 1 and 3:

    >>> block = LocationScale(range(1, 4), lambda z: (z[0], 1.0))
    >>> information = np.array([9.0, 1.0, 1 / 9])
    >>> def log_density(z):
    ...     return block.log_law(z[1:], z) - 0.5 * jnp.sum(information * z[1:] ** 2)
    >>> shares_at(log_density, [block], np.zeros(4))[0].round(6).tolist()
    [0.9, 0.5, 0.1]
    """
    target, blocks = as_pytree(log_density), as_pytree_blocks(blocks)
    return tuple(_shares_at(target, blocks, jnp.asarray(z, jnp.float64)))


def per_block(values: Any, blocks: Sequence[LocationScale], name: str) -> tuple[Array, ...]:
    """One array (n,) for each block, of a number for all, or of a number or array for each."""
    each = list(values) if isinstance(values, (list, tuple)) else [values] * len(blocks)
    if len(each) != len(blocks):
        raise InvalidInputError(
            f"{name} must be a number or a list with a number or an array for each of the"
            f" {len(blocks)} blocks, got {len(each)}."
        )
    found = []
    for value, block in zip(each, blocks, strict=True):
        array = value if is_traced(value) else np.asarray(value, dtype=np.float64)
        if array.shape not in ((), (block.num,)):
            raise InvalidInputError(
                f"{name} of a block must be a number or of shape ({block.num},), got"
                f" {describe(value)}."
            )
        spread = jnp.broadcast_to if is_traced(array) else np.broadcast_to
        found.append(spread(array, (block.num,)))
    return tuple(found)


def as_pytree_blocks(blocks: Sequence[LocationScale]) -> tuple[LocationScale, ...]:
    """Blocks with numbers and NumPy arrays as JAX arrays; call it where float64 is enabled."""
    blocks = tuple(blocks)
    for block in blocks:
        if not isinstance(block, LocationScale):
            raise InvalidTypeError(
                f"blocks must be nw.samplers.LocationScale(columns, law), got {describe(block)}."
            )
    return tuple(
        jax.tree.map(
            lambda leaf: (
                jnp.asarray(leaf) if isinstance(leaf, (float, np.ndarray, np.generic)) else leaf
            ),
            block,
        )
        for block in blocks
    )


# Compiled -----------------------------------------------------------------------------------------


@filter_jit_fast_compile
def _shares_at(log_density: LogDensity, blocks: tuple[LocationScale, ...], z: Array) -> list[Array]:
    return shares_of(log_density, blocks, z)


def shares_of(log_density: LogDensity, blocks: tuple[LocationScale, ...], z: Array) -> list[Array]:
    """`shares_at`, inside compiled programs."""
    shares: list[Array] = []
    for i, block in reversed(list(enumerate(blocks))):
        scales = [child.loc_and_scale(z)[1] for child in blocks[i + 1 :]]
        origins = [child.take(z) for child in blocks[i + 1 :]]
        rest = Centred(log_density, blocks[i + 1 :], shares, scales, origins)
        w = rest.from_z(z)

        def others(effects: Array, block: Any = block, rest: Any = rest, w: Any = w) -> Array:
            return rest(block.put(w, effects)) - block.log_law(effects, w)

        information = -hessian_diagonal(others, block.take(z))
        precision = block.loc_and_scale(z)[1] ** -2
        if block.increments:
            information = _of_what_follows(information, precision)
        share = jnp.clip(information / (information + precision), 0.0, 1.0)
        share = jnp.where(information > 0.0, share, 0.0)
        shares.insert(0, jnp.where(jnp.isfinite(information), share, 0.5))
    return shares


def hessian_diagonal(function: Callable[[Array], Array], at: Array) -> Array:
    """The diagonal of the Hessian, by products with signs s: the mean of s * H s."""
    num = len(at)
    if num <= _PROBES:
        probes = np.eye(num)
    else:
        signs = np.random.default_rng(0).integers(0, 2, size=(_PROBES, num))
        probes = (2.0 * signs - 1.0) / np.sqrt(_PROBES)
    along = jnp.asarray(probes)
    return jnp.sum(along * hessian_products(function, at, along), axis=0)


def hessian_products(
    function: Callable[[Array], Array], at: Array, along: Float[Array, "n d"]
) -> Float[Array, "n d"]:
    """H v for each row v, by differences of slopes: derivatives of slopes take longer to compile
    than all else that chains need.
    """
    slope = jax.vmap(jax.grad(function))
    gaps = slope(at + _STEP * jnp.concatenate([along, -along]))
    return (gaps[: len(along)] - gaps[len(along) :]) / (2.0 * _STEP)


def _of_what_follows(information: Array, precision: Array) -> Array:
    """J_t = I_t + J_{t+1} / (1 + tau_{t+1}^2 J_{t+1}), from the last to the first."""

    def back(after: tuple[Array, Array], here: tuple[Array, Array]) -> Any:
        later, tight = after
        total = jnp.maximum(here[0], 0.0) + later * tight / (later + tight)
        return (total, here[1]), total

    end = (jnp.zeros(()), jnp.ones(()))
    return jax.lax.scan(back, end, (information, precision), reverse=True)[1]


def _walk(keep: Array, steps: Array) -> Array:
    """x_t = keep_t x_{t-1} + steps_t with x_0 = 0, in parallel."""

    def joined(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    return jax.lax.associative_scan(joined, (keep, steps))[1]


# Columns ------------------------------------------------------------------------------------------


def _columns(given: Any) -> tuple[int, ...]:
    array = np.asarray(list(given) if not isinstance(given, np.ndarray) else given)
    whole = array.ndim == 1 and array.dtype.kind in "iu" and array.size > 0
    if not whole or array.min() < 0 or len(set(array.tolist())) < array.size:
        raise InvalidInputError(
            "columns must be different whole numbers from 0 on, such as range(2, 10), got"
            f" {describe(given)}."
        )
    return tuple(array.tolist())


def _span(columns: tuple[int, ...]) -> slice | None:
    """The slice that takes these columns, where there is one: far cheaper than a scatter."""
    steps = set(np.diff(columns).tolist()) or {1}
    step = steps.pop()
    return None if steps or step <= 0 else slice(columns[0], columns[-1] + 1, step)
