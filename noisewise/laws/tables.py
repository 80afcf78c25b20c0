r"""Tables of what is known of sums over counts before the law's parameters are.

    K(s) = eta(y | s) times the product of u / (t + 1) over t from low to s - 1

The numbers s = low, low + 1, ... of each cell are those where eta(y | .) is above e^-50 of its
peak; u is about their middle, or below. They depend on what was released and on the mechanism
alone: an absent cell is one like any other. Cells whose numbers are many stand apart from those
with few (`Part`); cells of which nothing was measured have a likelihood of 1 and stand nowhere. The
sums are taken in `table_sums`.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, is_traced
from noisewise.laws.deviance import ratios_of
from noisewise.laws.windows import at_all, window
from noisewise.mechanisms.base import AbstractMechanism

_FALL = 50.0
"""Nats below the peak of the likelihood at which the numbers of a cell end: sums may end at
e^-36, which leaves 14 nats for laws that pull the summand to one side.
"""
_WIDEST = 4096
"""Numbers of a cell, at most: from there on sums by few points cost less."""
_MOST = 6_000_000
"""Numbers in a table, at most: 48 MB."""
BLOCK = 8
"""Lengths of tables are multiples of this, so that other data seldom compile anything; as many
steps are one block of a loop.
"""
_LARGEST = 1e9
"""Largest count in a table: counts and ratios beyond lose digits."""
_RANGE = 600.0
"""Nats between the terms of a cell, at most: exp(-600) is a number, and so are products with it."""
_ROOM = 300.0
"""Log of a sum, relative to its first number, at the likeliest law: overflow, at 709, is far."""
_ATTEMPTS = 3
"""Units that are tried, each half as far from a cell's first number as the one before, until no
term before the last is lost.
"""
_ALIKE = 0.5
"""Cells stand together if they have at least this share of the numbers of the longest."""


class Part(NamedTuple):
    """Some cells, and their numbers s = low, low + 1, ...

    `columns` are their places. `terms` are K(s) relative to their largest, whose log is `top`,
    number by number; 0 beyond a cell's numbers. `first` and `last` are log eta(y | s), less `top`,
    at ends where the sum must have fallen, -inf where the likelihood or the law ends there.
    """

    columns: Float[Array, " j"]
    low: Float[Array, "*batch j"]
    high: Float[Array, "*batch j"]
    unit: Float[Array, "*batch j"]
    terms: Float[Array, "m *batch j"]
    top: Float[Array, "*batch j"]
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
    lengths = [BLOCK * math.ceil(size[..., group].max() / BLOCK) for group in groups]
    num = sum(low[..., group].size * m for group, m in zip(groups, lengths, strict=True))
    if num > _MOST:
        return None
    places = np.flatnonzero(measured).astype(np.float64)
    parts = []
    for group, length in zip(groups, lengths, strict=True):
        own = mechanism if len(groups) == 1 else mechanism.of_columns(group.tolist())
        ends = tuple(end[..., group] for end in (low, high, floor))
        part = _part(own, places[group], values[..., group], ends, length)
        if part is None:
            return None
        parts.append(part)
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
    mechanism: AbstractMechanism,
    columns: np.ndarray,
    values: np.ndarray,
    ends: tuple[np.ndarray, ...],
    length: int,
) -> Part | None:
    """Some cells, up to the last number whose term floating point can hold beside the largest; None
    where one before it cannot be held, or where the sum would not end, or nearly overflow, at a
    Poisson law whose mean is the likeliest number.
    """
    low, high, floor = ends
    places = np.arange(length, dtype=np.float64)
    log_eta, before, after = (
        np.asarray(part) for part in _likelihoods(mechanism, values, low, high, places)
    )
    inside = (places <= (high - low)[..., None]) & ~np.isnan(log_eta)
    log_eta, middle = np.where(inside, log_eta, -np.inf), 0.5 * (high - low)
    for _ in range(_ATTEMPTS):
        unit = low + 1.0 + middle
        logs = log_eta + _products(unit[..., None] / (low[..., None] + places + 1.0))
        top = logs.max(axis=-1)
        holds = logs >= top[..., None] - _RANGE
        last_place = length - 1 - np.argmax(holds[..., ::-1], axis=-1)
        inside = places <= last_place[..., None]
        is_lost = (np.isfinite(logs) & ~holds & inside).any(axis=-1)
        middle = np.where(is_lost, 0.5 * middle, middle)
    if not np.isfinite(top).all() or is_lost.any():
        return None
    is_cut = (np.isfinite(logs) & ~inside).any(axis=-1)
    ends_above = np.isneginf(after) & ~is_cut
    likely = np.maximum(low + log_eta.argmax(axis=-1), 0.5)
    tilted = logs - top[..., None] + places * np.log(likely / unit)[..., None]
    largest = np.where(inside, tilted, -np.inf).max(axis=-1)
    end = np.take_along_axis(tilted, last_place[..., None], axis=-1)[..., 0]
    if not ((largest <= _ROOM) & (ends_above | (end <= largest - _FALL))).all():
        return None
    at_last = np.take_along_axis(log_eta, last_place[..., None], axis=-1)[..., 0] - top
    terms = np.exp(np.where(inside, logs, -np.inf) - top[..., None])
    terms = terms[..., : BLOCK * math.ceil((last_place.max() + 1) / BLOCK)]
    return Part(
        columns,
        low,
        low + last_place,
        unit,
        np.ascontiguousarray(np.moveaxis(terms, -1, 0)),
        top,
        np.where(np.isneginf(before) | (low <= floor), -np.inf, logs[..., 0] - top),
        np.where(ends_above, -np.inf, at_last),
    )


def _products(ratios: np.ndarray) -> np.ndarray:
    """Logs of the products of all ratios before each."""
    sums = np.cumsum(np.log(ratios), axis=-1)
    return np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], axis=-1)


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
