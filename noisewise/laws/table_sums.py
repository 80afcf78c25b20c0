r"""Sums over counts by tables of their likelihoods: Horner's rule.

    p(y) = f(low) sum_{s=low}^{high} eta(y | s) x(low) ... x(s - 1),    x(s) = f(s + 1) / f(s)

The sum is taken from its last number down, for all cells at once and without exponentials:

    p <- K(s) + q(s) p,    d <- q(s) (d + p),    e <- q(s) e + p dq(s)/dr

with q(s) = x(s) (s + 1) / u, and K(s), u of `tables`. No step divides, and q of Poisson laws is the
same for all s. d / p is E[s - low | y], from which slopes follow; e serves laws with a shape r on
which their ratios depend. All terms are positive, so that nothing cancels.

Where the law is so far from what was released that the sum does not end within the table (the
summand at an end is above e^-36 of the sum), or has overflown, all cells are summed as they are
without one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.laws import randomness
from noisewise.laws.deviance import AbstractRatios, Parameters, log_pmf
from noisewise.laws.tables import BLOCK, Part, Table

_ENOUGH = 36.0
"""Nats below the sum at which it may end: e^-36 = 2e-16."""
_LARGEST = 650.0
"""Log of numbers by which others are divided, at most: e^709 is the largest float64."""
_ROOM = 350.0
"""Log of a sum, relative to its first number, that is far from overflow: where a sum overflows, at
709, tables alone say that what was released is impossible, and chains turn back.
"""

Full = Callable[[AbstractRatios, Any, Parameters, Any, Array], Array]
"""(kind, settings, parameters, mechanism, values) -> log p, cell by cell, for any parameters."""


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def log_sum(
    full: Full | None,
    kind: AbstractRatios,
    settings: Any,
    parameters: Parameters,
    mechanism: Any,
    values: Array,
    table: Table,
) -> Float[Array, "*batch"]:
    """log p(y) of each cell.

    Args:
        full: The same without a table; None takes what is in the table for the sum, and what has
            overflown for 0.
        kind: The kind of the law.
        settings: What `full` takes besides.
        parameters: Those of the law.
        mechanism: The mechanism.
        values: What was released.
        table: The table of both.
    """
    return _value_and_slopes(full, kind, settings, parameters, mechanism, values, table)[0]


@log_sum.defjvp
def _log_sum_jvp(
    full: Full | None, kind: AbstractRatios, settings: Any, primals: Any, tangents: Any
) -> Any:
    with jax.enable_x64(True):  # the rule is traced where the caller differentiates
        value, slopes = _value_and_slopes(full, kind, settings, *primals)
    moved = [slope * tangent for slope, tangent in zip(slopes, tangents[0], strict=True)]
    return value, functools.reduce(jnp.add, moved)


def _value_and_slopes(
    full: Full | None,
    kind: AbstractRatios,
    settings: Any,
    parameters: Parameters,
    mechanism: Any,
    values: Array,
    table: Table,
) -> tuple[Array, Parameters]:
    """log p(y) and its derivatives in the parameters; by the table where all sums end within it."""
    found = [_sums(kind, _of(parameters, part), part) for part in table.parts]
    seen = table.back < sum(part.columns.shape[0] for part in table.parts)
    value = jnp.where(seen, _joined([each[0] for each in found], table), 0.0)
    slopes = tuple(
        jnp.where(seen, _joined(list(each), table), 0.0)
        for each in zip(*(each[1] for each in found), strict=True)
    )
    if full is None:
        fine = jnp.isfinite(value)
        slopes = tuple(jnp.where(fine & jnp.isfinite(slope), slope, 0.0) for slope in slopes)
        return jnp.where(fine, value, -jnp.inf), slopes
    is_short = functools.reduce(jnp.logical_or, [each[2] for each in found])

    def without(parameters: Parameters) -> Array:
        return full(kind, settings, parameters, mechanism, values)

    return _unless(jax.lax.stop_gradient(is_short), (value, slopes), without, parameters)


def falls_short(kind: AbstractRatios, parameters: Parameters, table: Table) -> Array:
    """Whether the sum of some cell does not end within the table, or is near overflow."""
    found = [_sums(kind, _of(parameters, part), part, _ROOM)[2] for part in table.parts]
    return functools.reduce(jnp.logical_or, found)


def _of(parameters: Parameters, part: Part) -> Parameters:
    """The parameters of a part's cells."""
    whole = part.columns.shape[0] == parameters[0].shape[-1]
    places = part.columns.astype(int)
    return parameters if whole else tuple(each[..., places] for each in parameters)


def _joined(parts: list[Array], table: Table) -> Array:
    """Numbers of the cells of all parts, in the order of all cells."""
    joined = jnp.concatenate([*parts, jnp.zeros_like(parts[0][..., :1])], axis=-1)
    return joined[..., table.back.astype(int)]


def _sums(
    kind: AbstractRatios, parameters: Parameters, part: Part, room: float = math.inf
) -> tuple[Any, Any, Any]:
    """log p(y), its derivatives in the parameters, and whether a sum does not end, or has no room
    left to overflow.
    """
    common, zeros = kind.common(parameters) / part.unit, jnp.zeros_like(parameters[0])
    shapes = kind.of_each(parameters, part.low) is not None

    def block(state: tuple[Array, ...], rows: tuple[Array, Array]) -> tuple[Any, None]:
        p, d, e = state
        for i in reversed(range(BLOCK)):
            s = part.low + rows[1][i]
            q = common * kind.each(parameters, s)
            d = q * (d + p)
            if shapes:
                e = q * e + common * kind.of_each(parameters, s) * p
            p = rows[0][i] + q * p
        return (p, d, e), None

    rows = part.terms.reshape(-1, BLOCK, *part.terms.shape[1:])
    places = jnp.arange(part.terms.shape[0], dtype=zeros.dtype).reshape(-1, BLOCK)
    start = (zeros, zeros, zeros)
    (p, d, e), _ = jax.lax.scan(block, start, (rows, places), reverse=True)

    def at(s: Array) -> Callable[[Parameters], tuple[Array, Array]]:
        def log_law(parameters: Parameters) -> tuple[Array, Array]:
            each = log_pmf(kind.law(parameters), s)
            return each.sum(), each

        return log_law

    slopes, at_low = jax.grad(at(part.low), has_aux=True)(parameters)
    log_p, share = jnp.log(p), 1.0 / jnp.maximum(p, 1e-300)
    added = [each * d * share for each in kind.of_common(parameters)]
    if shapes:
        added[0] = added[0] + e * share
    slopes = tuple(each + more for each, more in zip(slopes, added, strict=True))
    most = kind.most(parameters)
    last = at(jnp.minimum(part.high, most))(parameters)[1] - at_low + part.last
    last = jnp.where(jnp.isneginf(part.last) | (part.high >= most), -jnp.inf, last)
    fallen = jnp.maximum(part.first, last) - log_p <= -_ENOUGH
    fine = fallen & jnp.isfinite(log_p) & (log_p <= room) & jnp.isfinite(at_low)
    return at_low + log_p + part.top, slopes, ~jnp.all(fine)


def draw(
    key: Array,
    kind: AbstractRatios,
    parameters: Parameters,
    table: Table,
    otherwise: Callable[[Array], Array] | None,
) -> Float[Array, "*batch"]:
    """A draw of s of each cell given what was released; of cells without a measurement anything.

    Args:
        key: JAX PRNG key.
        kind: The kind of the law.
        parameters: Those of the law.
        table: The table.
        otherwise: The same by a key, where sums do not end within the table; None draws from what
            is in the table.
    """
    u = randomness.uniform(key, parameters[0].shape)
    drawn, shorts = [], []
    for part in table.parts:
        own, share = _of(parameters, part), _of((u,), part)[0]
        value, _, short = _sums(kind, own, part)
        at_low = log_pmf(kind.law(own), part.low)
        drawn.append(part.low + _below(kind, own, part, share, value - at_low - part.top))
        shorts.append(short)
    if otherwise is None:
        return _joined(drawn, table)
    is_short = functools.reduce(jnp.logical_or, shorts)
    again = lambda state: (jnp.zeros_like(state[0]), otherwise(key))  # noqa: E731
    return jax.lax.while_loop(lambda state: state[0], again, (is_short, _joined(drawn, table)))[1]


def _below(
    kind: AbstractRatios, parameters: Parameters, part: Part, u: Array, log_sum: Array
) -> Array:
    """How many numbers have sums, up to each, below a share u of the whole. Weights are divided by
    the whole: by themselves they overflow where terms are small.
    """
    size = jnp.clip(log_sum, -_LARGEST, _LARGEST)
    common, wanted = kind.common(parameters) / part.unit, u * jnp.exp(log_sum - size)

    def step(state: tuple[Array, ...], row: tuple[Array, Array]) -> tuple[Any, None]:
        weight, total, count = state
        total = total + row[0] * weight
        weight = weight * common * kind.each(parameters, part.low + row[1])
        return (weight, total, count + (total < wanted)), None

    places = jnp.arange(part.terms.shape[0], dtype=u.dtype)
    start = (jnp.exp(-size), jnp.zeros_like(u), jnp.zeros_like(u))
    below = jax.lax.scan(step, start, (part.terms, places))[0][2]
    return jnp.minimum(below, part.high - part.low)


def _unless(
    falls_short: Array,
    found: tuple[Array, Parameters],
    full: Callable[[Parameters], Array],
    parameters: Parameters,
) -> tuple[Array, Parameters]:
    """What was found, or all of it again: a loop of one turn, which is taken under vmap only where
    one of its rows needs it. Parameters change in it, so that the compiler moves nothing out of it.
    """

    def again(state: Any) -> Any:
        _, given, _, _ = state

        def by_cell(given: Parameters) -> tuple[Array, Array]:
            each = full(given)
            return each.sum(), each

        slopes, value = jax.grad(by_cell, has_aux=True)(given)
        return jnp.zeros_like(state[0]), tuple(2.0 * part for part in given), value, slopes

    state = (falls_short, parameters, *found)
    return jax.lax.while_loop(lambda state: state[0], again, state)[2:]
