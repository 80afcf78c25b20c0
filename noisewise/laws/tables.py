r"""Sums over a count whose likelihood reaches over few numbers: what does not depend on the law is
put into a table, once.

    p(y) = f(low) sum_{s=low}^{high} eta(y | s) x(low) ... x(s - 1),    x(s) = f(s + 1) / f(s)

The numbers s of each cell are those where eta(y | .) is above e^-50 of its peak. They depend on
what was released and on the mechanism alone: an absent cell is one like any other. The sum is taken
by Horner's rule, from its last number down, for all cells at once and without exponentials:

    p <- eta(y | s) + x(s) p,    d <- x(s) (d + p),    e <- x(s) (e + p dlog x(s)/dr)

where d / p is E[s - low | y], from which slopes follow, and e serves laws whose ratios have a shape
r that depends on s. All terms are positive, so that nothing cancels.

Cells whose numbers are many stand apart from those with few (`Part`); cells of which nothing was
measured have a likelihood of 1 and stand nowhere. Where the law is so far from what was released
that the sum does not end within the table (the summand at an end is above e^-36 of the sum), or has
overflown, all cells are summed as they are without one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, is_traced
from noisewise.laws import randomness
from noisewise.laws.deviance import AbstractRatios, Parameters, log_pmf, ratios_of
from noisewise.laws.windows import at_all, window
from noisewise.mechanisms.base import AbstractMechanism

_FALL = 50.0
"""Nats below the peak of the likelihood at which the numbers of a cell end: with `_ENOUGH` this
leaves 14 nats for laws that pull the summand to one side.
"""
_ENOUGH = 36.0
"""Nats below the sum at which it may end: e^-36 = 2e-16."""
_WIDEST = 4096
"""Numbers of a cell, at most: from there on sums by few points cost less."""
_MOST = 6_000_000
"""Numbers in a table, at most: 48 MB."""
_BLOCK = 16
"""Lengths of tables are multiples of this, so that other data seldom compile anything; as many
steps are one block of a loop.
"""
_LARGEST = 1e9
"""Largest count in a table: counts and ratios beyond lose digits."""
_ALIKE = 0.5
"""Cells stand together if they have at least this share of the numbers of the longest."""

Full = Callable[[AbstractRatios, Any, Parameters, Any, Array], Array]
"""(kind, settings, parameters, mechanism, values) -> log p, cell by cell, for any parameters."""


class Part(NamedTuple):
    """Some cells, and their numbers s = low, low + 1, ...

    `columns` are their places. `likelihoods` are eta(y | s) relative to their peak, whose log is
    `peak`, number by number; 0 beyond a cell's numbers. `first` and `last` are log likelihoods
    relative to the peak at ends where the sum must have fallen, -inf where the likelihood or the
    law ends there.
    """

    columns: Float[Array, " j"]
    low: Float[Array, "*batch j"]
    high: Float[Array, "*batch j"]
    likelihoods: Float[Array, "m *batch j"]
    peak: Float[Array, "*batch j"]
    first: Float[Array, "*batch j"]
    last: Float[Array, "*batch j"]


class Table(NamedTuple):
    """Cells by their numbers. `back` are the places of all cells among those of the parts and one
    more, which stands for cells without a measurement.
    """

    parts: tuple[Part, ...]
    back: Float[Array, " k"]


def table_for(law: Any, mechanism: AbstractMechanism, values: Any) -> Table | None:
    """The table of what was released, where that is known while tracing and the law has ratios;
    None where likelihoods reach too far.

    Args:
        law: The law, of which only the kind is looked at.
        mechanism: The mechanism.
        values: What was released, (*batch, k).
    """
    if ratios_of(law) is None or is_traced(values, mechanism) or not np.ndim(values):
        return None
    values = np.asarray(values, dtype=np.float64)
    measured = mechanism.measured(values.shape[-1])
    if not measured.any():
        return None
    if not measured.all():
        mechanism = mechanism.of_columns(np.flatnonzero(measured).tolist())
    if not math.isfinite(mechanism.reach):
        return None
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return _table(mechanism, values[..., measured], measured)


def _table(mechanism: AbstractMechanism, values: np.ndarray, measured: np.ndarray) -> Table | None:
    """The table of the cells that were measured; mechanism and values are of these alone."""
    kinks = np.asarray(mechanism._kinks(values, np), dtype=np.float64)
    if not np.isfinite(kinks).all():
        return None
    bounds = [np.broadcast_to(end, values.shape) for end in mechanism.input_bounds]
    floor, ceiling = np.maximum(0.0, bounds[0]), bounds[1]
    low, high = (np.asarray(end) for end in _ends(mechanism, values, kinks, floor, ceiling))
    size = high - low + 1.0
    if size.max() > _WIDEST or high.max() > _LARGEST:
        return None
    groups = _groups(size.max(axis=tuple(range(size.ndim - 1))))
    lengths = [_BLOCK * math.ceil(size[..., group].max() / _BLOCK) for group in groups]
    num = sum(low[..., group].size * m for group, m in zip(groups, lengths, strict=True))
    if num > _MOST:
        return None
    places = np.flatnonzero(measured).astype(np.float64)
    parts = []
    for group, length in zip(groups, lengths, strict=True):
        own = mechanism if len(groups) == 1 else mechanism.of_columns(group.tolist())
        ends = tuple(end[..., group] for end in (low, high, floor))
        parts.append(Part(places[group], *ends[:2], *_part(own, values[..., group], ends, length)))
    in_parts = np.concatenate([part.columns for part in parts]).astype(int)
    back = np.full(measured.size, in_parts.size, dtype=np.float64)
    back[in_parts] = np.arange(in_parts.size)
    return Table(tuple(parts), back)


def _groups(size: np.ndarray) -> list[np.ndarray]:
    """Columns whose numbers are about as many, the longest first."""
    left, groups = np.argsort(-size, kind="stable"), []
    while left.size:
        alike = size[left] >= _ALIKE * size[left[0]]
        groups.append(np.sort(left[alike]))
        left = left[~alike]
    return groups


def _part(
    mechanism: AbstractMechanism, values: np.ndarray, ends: tuple[np.ndarray, ...], length: int
) -> tuple[np.ndarray, ...]:
    """What a `Part` has besides its ends."""
    low, high, floor = ends
    places = np.arange(length, dtype=np.float64)
    log_eta, before, after = (
        np.asarray(part) for part in _likelihoods(mechanism, values, low, high, places)
    )
    inside = (places <= (high - low)[..., None]) & ~np.isnan(log_eta)
    logs = np.where(inside, log_eta, -np.inf)
    peak = logs.max(axis=-1)
    logs = logs - np.where(np.isfinite(peak), peak, 0.0)[..., None]
    at_last = np.take_along_axis(logs, (high - low)[..., None].astype(int), axis=-1)[..., 0]
    first = np.where(np.isneginf(before) | (low <= floor), -np.inf, logs[..., 0])
    last = np.where(np.isneginf(after), -np.inf, at_last)
    return np.ascontiguousarray(np.moveaxis(np.exp(logs), -1, 0)), peak, first, last


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
    """log eta at the numbers of each cell, and before and after them."""
    eta = mechanism._continued()
    log_eta = at_all(functools.partial(eta._log_prob_each, values), low[..., None] + places)
    before, after = (eta._log_prob_each(values, end) for end in (low - 1.0, high + 1.0))
    return log_eta, before, after


# Sums by the table --------------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def log_sum(
    full: Full,
    kind: AbstractRatios,
    settings: Any,
    parameters: Parameters,
    mechanism: Any,
    values: Array,
    table: Table,
) -> Float[Array, "*batch"]:
    """log p(y) of each cell.

    Args:
        full: The same without a table.
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
    full: Full, kind: AbstractRatios, settings: Any, primals: Any, tangents: Any
) -> Any:
    with jax.enable_x64(True):  # the rule is traced where the caller differentiates
        value, slopes = _value_and_slopes(full, kind, settings, *primals)
    moved = [slope * tangent for slope, tangent in zip(slopes, tangents[0], strict=True)]
    return value, functools.reduce(jnp.add, moved)


def _value_and_slopes(
    full: Full,
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
    is_short = functools.reduce(jnp.logical_or, [each[2] for each in found])

    def without(parameters: Parameters) -> Array:
        return full(kind, settings, parameters, mechanism, values)

    return _unless(jax.lax.stop_gradient(is_short), (value, slopes), without, parameters)


def _of(parameters: Parameters, part: Part) -> Parameters:
    """The parameters of a part's cells."""
    whole = part.columns.shape[0] == parameters[0].shape[-1]
    places = part.columns.astype(int)
    return parameters if whole else tuple(each[..., places] for each in parameters)


def _joined(parts: list[Array], table: Table) -> Array:
    """Numbers of the cells of all parts, in the order of all cells."""
    joined = jnp.concatenate([*parts, jnp.zeros_like(parts[0][..., :1])], axis=-1)
    return joined[..., table.back.astype(int)]


def _sums(kind: AbstractRatios, parameters: Parameters, part: Part) -> tuple[Any, Any, Any]:
    """log p(y), its derivatives in the parameters, and whether a sum does not end."""
    common, zeros = kind.common(parameters), jnp.zeros_like(parameters[0])
    shapes = kind.of_each(parameters, part.low) is not None

    def block(state: tuple[Array, ...], rows: tuple[Array, Array]) -> tuple[Any, None]:
        p, d, e = state
        for i in reversed(range(_BLOCK)):
            s = part.low + rows[1][i]
            x = common * kind.each(parameters, s)
            d = x * (d + p)
            if shapes:
                e = x * (e + p * kind.of_each(parameters, s))
            p = rows[0][i] + x * p
        return (p, d, e), None

    rows = part.likelihoods.reshape(-1, _BLOCK, *part.likelihoods.shape[1:])
    places = jnp.arange(part.likelihoods.shape[0], dtype=zeros.dtype).reshape(-1, _BLOCK)
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
    value = at_low + log_p + part.peak
    return value, slopes, ~jnp.all(fallen & jnp.isfinite(log_p) & jnp.isfinite(at_low))


def draw(
    key: Array,
    kind: AbstractRatios,
    parameters: Parameters,
    table: Table,
    otherwise: Callable[[Array], Array],
) -> Float[Array, "*batch"]:
    """A draw of s of each cell given what was released; of cells without a measurement anything.

    Args:
        key: JAX PRNG key.
        kind: The kind of the law.
        parameters: Those of the law.
        table: The table.
        otherwise: The same by a key, where sums do not end within the table.
    """
    u = randomness.uniform(key, parameters[0].shape)
    drawn, shorts = [], []
    for part in table.parts:
        own, share = _of(parameters, part), _of((u,), part)[0]
        value, _, short = _sums(kind, own, part)
        at_low = log_pmf(kind.law(own), part.low)
        drawn.append(part.low + _below(kind, own, part, share, value - at_low - part.peak))
        shorts.append(short)
    is_short = functools.reduce(jnp.logical_or, shorts)
    again = lambda state: (jnp.zeros_like(state[0]), otherwise(key))  # noqa: E731
    return jax.lax.while_loop(lambda state: state[0], again, (is_short, _joined(drawn, table)))[1]


def _below(
    kind: AbstractRatios, parameters: Parameters, part: Part, u: Array, log_sum: Array
) -> Array:
    """How many numbers have sums, up to each, below a share u of the whole."""
    common, wanted = kind.common(parameters), u * jnp.exp(log_sum)

    def step(state: tuple[Array, ...], row: tuple[Array, Array]) -> tuple[Any, None]:
        weight, total, count = state
        total = total + row[0] * weight
        weight = weight * common * kind.each(parameters, part.low + row[1])
        return (weight, total, count + (total < wanted)), None

    places = jnp.arange(part.likelihoods.shape[0], dtype=u.dtype)
    start = (jnp.ones_like(u), jnp.zeros_like(u), jnp.zeros_like(u))
    return jax.lax.scan(step, start, (part.likelihoods, places))[0][2]


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
