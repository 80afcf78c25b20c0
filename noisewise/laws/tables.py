r"""Sums over a Poisson count whose likelihood reaches over few numbers: what does not depend on the
rate is put into a table, once.

    log p(y) = log sum_s exp(s log(rate) + c_s) - rate,   c_s = log eta(y | s) - log s!

The numbers s of each cell are those where eta(y | .) is above e^-50 of its peak. They depend on
what what was released and on the mechanism alone. A gradient is then one pass of products and exps:

    d log p / d rate = E[s | y] / rate - 1.

Where the rate is so far from what was released that the sum does not end within the table (the
summand at an end is above e^-36 of its largest), all cells are summed as they are without one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jaxtyping import Float

from noisewise._core.arrays import Array, is_traced
from noisewise.laws.windows import at_all, window
from noisewise.mechanisms.base import AbstractMechanism

_FALL = 50.0
"""Nats below the peak of the likelihood at which the numbers of a cell end: with `_ENOUGH` this
leaves 14 nats for rates that pull the summand to one side.
"""
_ENOUGH = 36.0
"""Nats below the largest summand at which a sum may end: e^-36 = 2e-16."""
_WIDEST = 384
"""Numbers of a cell, at most: from there on few points for any width cost less."""
_MOST = 6_000_000
"""Numbers in a table, at most: 48 MB."""
_MULTIPLE = 16
"""Lengths of tables are multiples of this, so that other data seldom compile anything."""
_LARGEST = 1e4
"""Numbers up to which s log(rate) - log s! keeps eleven digits."""

Full = Callable[[Any, Array, Any, Array], Array]
"""(settings, rate, mechanism, values) -> log p, cell by cell, for any rate."""


class Table(NamedTuple):
    """The numbers s = low, low + 1, ... of each cell.

    `terms` are c_s, -inf beyond a cell's numbers; `first` and `last` are 0 at ends where the sum
    must have fallen, -inf where the likelihood or the law ends there.
    """

    low: Float[Array, "*batch"]
    terms: Float[Array, "*batch m"]
    size: Float[Array, "*batch"]
    first: Float[Array, "*batch"]
    last: Float[Array, "*batch"]


def table_for(law: Any, mechanism: AbstractMechanism, values: Any) -> Table | None:
    """The table of what was released, where that is known while tracing and the law is Poisson;
    None where likelihoods reach too far.

    Args:
        law: The law, of which only the kind is looked at.
        mechanism: The mechanism.
        values: What was released, (*batch, k).
    """
    if not isinstance(law, dist.Poisson) or is_traced(values, mechanism):
        return None
    if not math.isfinite(mechanism.reach) or not np.ndim(values):
        return None
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return _table(mechanism, np.asarray(values, dtype=np.float64))


def _table(mechanism: AbstractMechanism, values: np.ndarray) -> Table | None:
    kinks = np.asarray(mechanism._kinks(values, np), dtype=np.float64)
    if not np.isfinite(kinks).all():
        return None
    floor = np.maximum(0.0, np.broadcast_to(mechanism.input_bounds[0], values.shape))
    ceiling = np.broadcast_to(mechanism.input_bounds[1], values.shape)
    low, high = (np.asarray(end) for end in _ends(mechanism, values, kinks, floor, ceiling))
    sizes = high - low + 1.0
    widest = _MULTIPLE * math.ceil(min(sizes.max(initial=1.0), _WIDEST + 1) / _MULTIPLE)
    if widest > _WIDEST or widest * values.size > _MOST or high.max(initial=0.0) > _LARGEST:
        return None
    places = np.arange(widest, dtype=np.float64)
    log_eta, before, after = (
        np.asarray(part) for part in _likelihoods(mechanism, values, low, high, places)
    )
    inside = (places < sizes[..., None]) & ~np.isnan(log_eta)
    terms = np.where(inside, log_eta, -np.inf)
    ends_below, ends_above = np.isneginf(before) | (low <= floor), np.isneginf(after)
    first, last = (np.where(end, -np.inf, 0.0) for end in (ends_below, ends_above))
    return Table(low, terms, sizes, first, last)


@jax.jit
def _ends(
    mechanism: AbstractMechanism, values: Array, kinks: Array, floor: Array, ceiling: Array
) -> tuple[Array, Array]:
    """The first and the last number of each cell."""
    eta = mechanism._continued()

    def log_eta(s: Array) -> Array:
        found = eta._log_prob_each(values, s)
        return jnp.where((s >= floor) & (s <= ceiling) & ~jnp.isnan(found), found, -jnp.inf)

    bracket = (kinks[..., 0] - 1.0, kinks[..., -1] + 1.0)
    bracket = (jnp.clip(bracket[0], floor, ceiling), jnp.clip(bracket[1], floor, ceiling))
    found = window(log_eta, bracket, (floor, ceiling), jnp.ceil(kinks), _FALL)
    return found.low, found.high


@jax.jit
def _likelihoods(
    mechanism: AbstractMechanism, values: Array, low: Array, high: Array, places: Array
) -> tuple[Array, Array, Array]:
    """log eta - log s! at the numbers of each cell, and log eta before and after them."""
    eta = mechanism._continued()
    s = low[..., None] + places
    log_eta = at_all(functools.partial(eta._log_prob_each, values), s)
    before, after = (eta._log_prob_each(values, end) for end in (low - 1.0, high + 1.0))
    return log_eta - gammaln(s + 1.0), before, after


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def log_sum(
    full: Full, settings: Any, rate: Array, mechanism: Any, values: Array, table: Table
) -> Float[Array, "*batch"]:
    """log p(y) of each cell for Poisson laws of these rates.

    Args:
        full: The same without a table.
        settings: Its first argument.
        rate: Rates, of the shape of the cells.
        mechanism: The mechanism.
        values: What was released.
        table: The table of both.
    """
    return _value_and_slope(full, settings, rate, mechanism, values, table)[0]


@log_sum.defjvp
def _log_sum_jvp(full: Full, settings: Any, primals: Any, tangents: Any) -> Any:
    with jax.enable_x64(True):  # the rule is traced where the caller differentiates
        value, slope = _value_and_slope(full, settings, *primals)
    return value, slope * tangents[0]


def _value_and_slope(
    full: Full, settings: Any, rate: Array, mechanism: Any, values: Array, table: Table
) -> tuple[Array, Array]:
    """log p(y) and its derivative in the rate; by the table where all sums end within it."""
    log_rate = jnp.log(jnp.maximum(rate, 1e-300))[..., None]
    places = jnp.arange(table.terms.shape[-1], dtype=rate.dtype)
    logs = places * log_rate + table.terms
    top = jax.lax.stop_gradient(logs.max(axis=-1, keepdims=True))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    # one product gives the sum and the mean, and makes the exponentials once. (jnp.matmul would
    # name a type, which rules that run where JAX's flag is off make float32.)
    powers = jnp.stack([jnp.ones_like(places), places], axis=-1)
    axes = (((logs.ndim - 1,), (0,)), ((), ()))
    sums = jax.lax.dot_general(jnp.exp(logs - top), powers, axes)
    total, mean = sums[..., 0], table.low + sums[..., 1] / jnp.maximum(sums[..., 0], 1e-300)
    value = top[..., 0] + jnp.log(total) + table.low * log_rate[..., 0] - rate
    slope = mean / jnp.maximum(rate, 1e-300) - 1.0
    last = (table.size - 1.0) * log_rate[..., 0] + _at_end(table)
    height = jnp.maximum(logs[..., 0] + table.first, last + table.last) - top[..., 0]
    falls_short = jax.lax.stop_gradient(jnp.any(height > -_ENOUGH))
    return _unless(falls_short, (value, slope), full, settings, rate, mechanism, values)


def _at_end(table: Table) -> Array:
    """The term of the last number of each cell."""
    places = jnp.arange(table.terms.shape[-1], dtype=table.size.dtype)
    return jnp.where(places == table.size[..., None] - 1.0, table.terms, -jnp.inf).max(axis=-1)


def _unless(
    falls_short: Array,
    found: tuple[Array, Array],
    full: Full,
    settings: Any,
    rate: Array,
    mechanism: Any,
    values: Array,
) -> tuple[Array, Array]:
    """What was found, or all of it again: a loop of one turn, which is taken under vmap only where
    one of its rows needs it. Rates change in it, so that the compiler moves nothing out of it.
    """

    def again(state: tuple[Array, ...]) -> tuple[Array, ...]:
        def by_cell(rate: Array) -> tuple[Array, Array]:
            each = full(settings, rate, mechanism, values)
            return each.sum(), each

        slope, value = jax.grad(by_cell, has_aux=True)(state[1])
        return jnp.zeros_like(state[0]), 2.0 * state[1], value, slope

    state = (falls_short, rate, *found)
    return jax.lax.while_loop(lambda state: state[0], again, state)[2:]
