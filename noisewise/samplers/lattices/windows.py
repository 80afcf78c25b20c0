r"""Whole numbers drawn in windows that hold the current ones: exact, at any size.

Along a direction d the target is a function g(k) of the whole number k, now 0. With a step h and a
place i, both drawn without looking at k, the window is

    k_j = (j - i) h,    j = 0, ..., 15,

in which the current number has the place i, and the next one is drawn in proportion to g(k_j). As
every place is as likely, each number of the window could have been the current one with the same
window, so that the law is kept: a Gibbs step, without rejections and without a limit of size.
The step is random, from 1 up to most of a standard deviation, of which only speed depends.

Directions that share no number of the target are moved at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.samplers.lattices.passes import Passes

WINDOW = 16
"""Numbers in a window. With steps of .4 sd on the average it is 6 sds long."""
_PLACES = WINDOW
"""Places in the window where the current number may be: all of them."""
_LONGEST = 0.8
"""Standard deviations: the longest step."""
_LEAST_PRECISION = 1e-18
"""Where nothing is known of a direction, windows are as for a standard deviation of 1e9."""

LogOfMany = Callable[[Array], Array]
"""Numbers (16, n) -> the logs of their densities, (16, n), each by itself."""


def moved(
    key: Array,
    cells: Float[Array, " c"],
    sums: Float[Array, " k"],
    passes: Passes,
    variances: Float[Array, " c"],
    log_cells: LogOfMany,
    log_own: LogOfMany,
    log_shared: LogOfMany,
) -> tuple[Float[Array, " c"], Float[Array, " k"]]:
    """Cells and sums after one pass, which keeps the law with the density

        prod_j f_j(cells_j) prod_q g_q(sums_q),    sums = A cells.

    Args:
        key: A PRNG key.
        cells: Whole numbers in float64.
        sums: A cells.
        passes: Tables of directions; one pass is drawn.
        variances: Of each cell, about: they must not depend on the cells.
        log_cells: log f_j of all cells.
        log_own: log g_q of the sums `passes.own`.
        log_shared: The same of `passes.shared`.
    """
    which_key, step_key, place_key, draw_key = jax.random.split(key, 4)
    which = jax.random.randint(which_key, (), 0, len(passes.cells))
    one = jax.tree.map(lambda table: jnp.asarray(table)[which], passes)
    num = one.cells.shape[0]
    steps = _steps(step_key, one, variances)
    places = jax.random.randint(place_key, (num,), 0, _PLACES)
    offsets = (jnp.arange(WINDOW)[:, None] - places) * steps
    noise = jax.random.gumbel(draw_key, (WINDOW, num), jnp.float64)
    offered = cells + one.owner_amount * _at(offsets, one.owner)
    scores = noise + _at(log_cells(offered), one.cells).sum(-1)
    own, shared = np.array(passes.own, int), np.array(passes.shared, int)
    if own.size:
        values = log_own(sums[own] + one.own_amount * _at(offsets, one.own_owner))
        scores = scores + _at(values, one.own_of).sum(-1)
    if shared.size:
        chosen, new = _in_turns(one, scores, offsets, sums[shared], log_shared)
        sums = sums.at[shared].set(new)
    else:
        chosen = _best(scores, offsets)
    cells = cells + one.owner_amount * _at(chosen, one.owner)
    if own.size:
        sums = sums.at[own].add(one.own_amount * _at(chosen, one.own_owner))
    return cells, sums


def _steps(key: Array, one: Passes, variances: Array) -> Array:
    """The step of each direction: up to .8 of about a standard deviation of the target."""
    known = jnp.where((variances > 0.0) & jnp.isfinite(variances), variances, jnp.inf)
    of_cells = (one.amounts**2 * _at(1.0 / known, one.cells)).sum(-1)
    sd = (one.precision + of_cells + _LEAST_PRECISION) ** -0.5
    share = _LONGEST * jax.random.uniform(key, sd.shape, jnp.float64)
    return jnp.maximum(1.0, jnp.floor(share * sd))


def _in_turns(
    one: Passes, scores: Array, offsets: Array, sums: Array, log_shared: LogOfMany
) -> tuple[Array, Array]:
    """What each direction chooses, and the shared sums: turn by turn."""
    num = scores.shape[-1]

    def turn(state: tuple[Array, Array], tables: tuple[Array, ...]) -> Any:
        chosen, sums = state
        active, of, owner, amount = tables
        reach = _at(offsets, active)
        values = log_shared(sums + amount * _at(reach, owner))
        best = _best(_at(scores, active) + _at(values, of).sum(-1), reach)
        return (chosen.at[active].set(best), sums + amount * _at(best, owner)), None

    tables = (one.turns, one.turn_of, one.turn_owner, one.turn_amount)
    (chosen, sums), _ = jax.lax.scan(turn, (jnp.zeros(num + 1), sums), tables)
    return chosen[:num], sums


def _at(values: Array, places: Array) -> Array:
    """Entries of the last axis; 0 at the place one beyond it."""
    filler = jnp.zeros((*values.shape[:-1], 1), values.dtype)
    return jnp.concatenate([values, filler], axis=-1)[..., places]


def _best(scores: Array, offsets: Array) -> Array:
    """The offset of the largest score in each column."""
    place = jnp.argmax(scores, axis=0)
    return jnp.take_along_axis(offsets, place[None], axis=0)[0]
