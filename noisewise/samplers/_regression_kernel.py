r"""One chain of the sampler in `augmented_regression`, compiled with Numba.

A rescaled record is w = (w_1, ..., w_p, w_y), and its terms are the products, in the order of the
statistic,

    w_y, w_1 w_y, ..., w_p w_y,   w_y^2,   w_1, ..., w_p,   w_1 w_1, w_1 w_2, ..., w_p w_p.

The sum of the terms over the records is kept up to date as records change, in one operation per
term, and computed afresh every `_REFRESH` sweeps, so that rounding errors do not pile up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

_REFRESH = 1000
"""Sweeps between two fresh sums: rounding errors stay near 1e-13, and the cost is negligible."""
_ACCEPTANCE = 0.3
"""Share of accepted moves that the step is adapted to: near the optimum of random walks in a few
dimensions.
"""


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with Numba, off the GIL; keep the result on disk where a folder can be written to."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:
        return njit(nogil=True, error_model="numpy")(function)


class RegressionTarget(NamedTuple):
    """What is sampled: the observed sums (k,), the scale of their errors, the laws of records and
    beta, the bounds.
    """

    observed: np.ndarray
    scale: float
    mean: np.ndarray
    root: np.ndarray
    noise_sd: float
    prior_sd: float
    centre: np.ndarray
    half: np.ndarray


class RegressionState(NamedTuple):
    """Where a chain is: beta (p+1,), records (n, p+1), the same rescaled, and the sum of their
    terms (k,).
    """

    beta: np.ndarray
    records: np.ndarray
    rescaled: np.ndarray
    total: np.ndarray


@kernel
def run_chain(
    rng: Any,
    target: RegressionTarget,
    state: RegressionState,
    move_root: np.ndarray,
    num_moves: int,
    num_warmup: int,
    thin: int,
    draws: np.ndarray,
    totals: np.ndarray,
) -> tuple[float, float, float]:
    """Fill `draws` (num, p+1) with every thin-th beta after warm-up, and `totals` (num, k) with the
    sums beside it.

    `state` gives room to work in. Returned are the shares of records and of moves accepted after
    warm-up, and the step of the moves, which is adapted in warm-up only.
    """
    _start(rng, target, state)
    step, records_kept, moves_kept = 1.0, 0, 0
    for sweep in range(num_warmup + thin * len(draws)):
        if sweep == num_warmup:
            records_kept, moves_kept = 0, 0
        _draw_coefficients(rng, target, state)
        records_kept += _update_records(rng, target, state)
        kept = 0
        for _ in range(num_moves):
            kept += _move(rng, target, state, step, move_root)
        moves_kept += kept
        if sweep < num_warmup and num_moves > 0:
            step *= math.exp((kept / num_moves - _ACCEPTANCE) / math.sqrt(sweep + 1.0))
        if sweep % _REFRESH == 0:
            _sum_terms(state)
        done = sweep + 1 - num_warmup
        if done > 0 and done % thin == 0:
            draws[done // thin - 1] = state.beta
            totals[done // thin - 1] = state.total
    sweeps = thin * len(draws)
    return (
        records_kept / (sweeps * len(state.records)),
        moves_kept / max(1, sweeps * num_moves),
        step,
    )


@kernel
def _start(rng: Any, target: RegressionTarget, state: RegressionState) -> None:
    """Draw beta from the prior and records given it."""
    for j in range(len(state.beta)):
        state.beta[j] = target.prior_sd * rng.standard_normal()
    for i in range(len(state.records)):
        _draw_record(rng, target, state.beta, state.records[i])
        _rescale(target, state.records[i], state.rescaled[i])
    _sum_terms(state)


@kernel
def _draw_record(rng: Any, target: RegressionTarget, beta: np.ndarray, record: np.ndarray) -> None:
    """Draw one record (x, y) given beta."""
    p = len(beta) - 1
    record[:p] = target.mean
    for k in range(p):
        z = rng.standard_normal()
        for j in range(k, p):
            record[j] += target.root[j, k] * z
    response = beta[0] + target.noise_sd * rng.standard_normal()
    for j in range(p):
        response += beta[j + 1] * record[j]
    record[p] = response


@kernel
def _unit(value: float, centre: float, half: float) -> float:
    """A value clamped to its bounds and rescaled to [-1, 1]."""
    return min(1.0, max(-1.0, (value - centre) / half))


@kernel
def _rescale(target: RegressionTarget, record: np.ndarray, w: np.ndarray) -> None:
    """The rescaled record w."""
    for j in range(len(record)):
        w[j] = _unit(record[j], target.centre[j], target.half[j])


@kernel
def _terms(w: np.ndarray, out: np.ndarray) -> None:
    """The products of a rescaled record."""
    p = len(w) - 1
    out[0] = w[p]
    for j in range(p + 1):
        out[j + 1] = w[j] * w[p]
    for j in range(p):
        out[p + 2 + j] = w[j]
    place = 2 * p + 2
    for j in range(p):
        for k in range(j, p):
            out[place] = w[j] * w[k]
            place += 1


@kernel
def _sum_terms(state: RegressionState) -> None:
    """Compute the sums over all records afresh."""
    one = np.empty(len(state.total))
    state.total[:] = 0.0
    for i in range(len(state.rescaled)):
        _terms(state.rescaled[i], one)
        for j in range(len(one)):
            state.total[j] += one[j]


@kernel
def _draw_coefficients(rng: Any, target: RegressionTarget, state: RegressionState) -> None:
    """Draw beta given the records: normal of precision P = L L' and mean P^-1 b, that is L'^-1
    (L^-1 b + z).
    """
    beta, size = state.beta, len(state.beta)
    root, vector, row = np.zeros((size, size)), np.zeros(size), np.ones(size)
    for i in range(len(state.records)):
        for j in range(1, size):
            row[j] = state.records[i, j - 1]
        for j in range(size):
            vector[j] += row[j] * state.records[i, size - 1]
            for k in range(j + 1):
                root[j, k] += row[j] * row[k]
    for j in range(size):
        vector[j] /= target.noise_sd**2
        for k in range(j + 1):
            root[j, k] /= target.noise_sd**2
        root[j, j] += target.prior_sd**-2.0
    for j in range(size):
        for k in range(j + 1):
            value = root[j, k]
            for l in range(k):
                value -= root[j, l] * root[k, l]
            root[j, k] = math.sqrt(value) if j == k else value / root[k, k]
    for j in range(size):
        for k in range(j):
            vector[j] -= root[j, k] * vector[k]
        vector[j] /= root[j, j]
    for j in range(size - 1, -1, -1):
        value = vector[j] + rng.standard_normal()
        for k in range(j + 1, size):
            value -= root[k, j] * beta[k]
        beta[j] = value / root[j, j]


@kernel
def _update_records(rng: Any, target: RegressionTarget, state: RegressionState) -> int:
    """Propose a new value of each record by its law: this cancels, and the density of the errors
    decides.
    """
    proposal, w = np.empty(len(state.beta)), np.empty(len(state.beta))
    old, new = np.empty(len(state.total)), np.empty(len(state.total))
    error = _error(target, state.total)
    kept = 0
    for i in range(len(state.records)):
        _draw_record(rng, target, state.beta, proposal)
        _rescale(target, proposal, w)
        _terms(state.rescaled[i], old)
        _terms(w, new)
        for j in range(len(new)):
            new[j] += state.total[j] - old[j]
        proposed = _error(target, new)
        if proposed - error < rng.standard_exponential():
            state.total[:] = new
            state.records[i] = proposal
            state.rescaled[i] = w
            error = proposed
            kept += 1
    return kept


@kernel
def _move(
    rng: Any, target: RegressionTarget, state: RegressionState, step: float, move_root: np.ndarray
) -> int:
    """Propose a new beta, and with it all responses, while predictors and residuals stay as they
    are.

    Predictors and residuals have a law free of beta, so prior times density of the errors decides.
    The first p+2 terms change.
    """
    size, centre, half = len(state.beta), target.centre[-1], target.half[-1]
    change, responses, new = np.zeros(size), state.records[:, -1].copy(), np.zeros(size + 1)
    for k in range(size):
        z = step * rng.standard_normal()
        for j in range(k, size):
            change[j] += move_root[j, k] * z
    for i in range(len(responses)):
        responses[i] += change[0]
        for j in range(1, size):
            responses[i] += change[j] * state.records[i, j - 1]
        w = _unit(responses[i], centre, half)
        new[0] += w
        for j in range(1, size):
            new[j] += state.rescaled[i, j - 1] * w
        new[size] += w * w
    loss = _error(target, new) - _error(target, state.total[: size + 1])
    for j in range(size):
        loss += change[j] * (state.beta[j] + change[j] / 2) / target.prior_sd**2
    if loss >= rng.standard_exponential():
        return 0
    for j in range(size):
        state.beta[j] += change[j]
    state.total[: size + 1] = new
    for i in range(len(responses)):
        state.records[i, size - 1] = responses[i]
        state.rescaled[i, size - 1] = _unit(responses[i], centre, half)
    return 1


@kernel
def _error(target: RegressionTarget, total: np.ndarray) -> float:
    """The distance of the first len(total) observed sums from `total`, in units of the scale."""
    value = 0.0
    for j in range(len(total)):
        value += abs(target.observed[j] - total[j])
    return value / target.scale
