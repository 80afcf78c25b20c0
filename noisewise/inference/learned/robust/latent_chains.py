"""Hamiltonian chains over latent statistics, and what the report says about where they went."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.keys import fold_in, generator, split
from noisewise._core.weights import MANY_DRAWS, effective_size_of_logs, normalised, rows_at
from noisewise.inference.contract.chains import Trace, chain_run
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.robust.error_models import AbstractLatent
from noisewise.posteriors import Kind
from noisewise.samplers.hamiltonian import resample_start

_LENGTH = 50
"""Draws of each chain in one segment: 100 chains then make 5,000 between two checks of R-hat."""
_THIN = 2
"""Iterations per draw: neighbours are correlated, and half of them say as much in half the memory.
"""
_MAX_SEGMENTS = 20
"""Segments after which chains that have not settled are given up."""
_FAR_SHARE = 0.001
"""Share of the simulated statistics that count as far out: with thousands of them its quantile is
still known.
"""
_MOST_OUTSIDE = 0.05
"""Share of the latent draws far out from which a reader is warned: fifty times what chance
explains.
"""
_NUM_COMPARED = 4000
"""Simulated statistics that the draws are compared with: enough for a quantile of .001."""


def latent_draws(
    key: Array,
    run: InferenceRun,
    latent: AbstractLatent,
    simulated: np.ndarray,
    *,
    num_chains: int,
    num_warmup: int,
    target_ess: int,
) -> tuple[np.ndarray, int]:
    """Draws of latent statistics, by chains that start at resampled simulations.

    They go on until effective size and R-hat are as wanted, the time is up, or for 20 segments. On
    a lattice the draws are then resampled, which leaves one chain.

    Args:
        key: JAX PRNG key.
        run: The inference, whose report gets R-hat, effective size and divergences.
        latent: The law to draw from.
        simulated: Free columns of simulated statistics, shape (m, f).
        num_chains: The number of chains.
        num_warmup: Iterations of each chain before the first draw.
        target_ess: Effective draws wanted.

    Returns:
        Free columns t, shape (n, f), and the number of chains that they are in order of.
    """
    start_key, run_key, more_key, choose_key = split(key, 4)
    start = resample_start(
        start_key, _ErrorOnly(latent), latent.coordinates(simulated), num=num_chains
    )
    drawn = chain_run(
        run, run_key, latent, start, num_warmup=num_warmup, num_draws=_LENGTH, thin=_THIN
    )
    trace, divergent = Trace(target_ess), drawn.num_divergent
    trace.add(theta=drawn.draws)
    for segment in range(1, _MAX_SEGMENTS):
        if trace.complete() or run.out_of_time():
            break
        next_key = fold_in(more_key, segment)
        settings = {"num_warmup": 0, "num_draws": _LENGTH, "thin": _THIN, "tuning": drawn.tuning}
        drawn = chain_run(run, next_key, latent, drawn.draws[-1], **settings)
        trace.add(theta=drawn.draws)
        divergent += drawn.num_divergent
    trace.look()
    with jax.enable_x64(True):
        t, log_weights = map(
            np.asarray, _statistics(latent, trace.by_chain("theta", trace.stride()))
        )
    size = trace.effective_size * _share(log_weights)
    run.diagnostics |= {"effective size": size, "R-hat": trace.r_hat, "divergent": divergent}
    if not (size >= MANY_DRAWS and trace.settled):
        numbers = {"effective_size": size, "r_hat": trace.r_hat, "enough": MANY_DRAWS}
        run.warn(Kind.LATENT_CHAINS_NOT_SETTLED, **numbers)
    if not np.ptp(log_weights) > 0.0:
        return t, trace.num_chains
    return t[_resampled(choose_key, log_weights)], 1


def look_at_cloud(
    run: InferenceRun, latent: AbstractLatent, simulated: np.ndarray, t: np.ndarray
) -> None:
    """Put into the report the share of latent statistics t that are farther out than all but one in
    a thousand simulated ones: by Mahalanobis distance, or by a low h.
    """
    nothing = np.zeros(0)
    far, unlikely = [], []
    for points in (simulated[:_NUM_COMPARED], t):
        standard = latent.marginal.whitening.forward(points, np.zeros((len(points), 0)))
        far.append(np.sum(np.asarray(standard) ** 2, axis=1))
        unlikely.append(latent.marginal.log_prob(points, nothing))
    outside = (far[1] > np.quantile(far[0], 1.0 - _FAR_SHARE)) | (
        unlikely[1] < np.quantile(unlikely[0], _FAR_SHARE)
    )
    share = float(np.mean(outside))
    run.diagnostics["latent statistics outside the simulations"] = share
    if share > _MOST_OUTSIDE:
        run.warn(Kind.LATENT_OUTSIDE_SIMULATIONS, share=share)


def _share(log_weights: np.ndarray) -> float:
    """Effective size per draw of weighted draws: (sum w)^2 / (n sum w^2)."""
    return effective_size_of_logs(log_weights) / len(log_weights)


def _resampled(key: Array, log_weights: np.ndarray) -> np.ndarray:
    """Row numbers resampled by weight, systematically and in random order."""
    rng, num = generator(key), len(log_weights)
    places = (rng.permutation(num) + rng.random()) / num
    return rows_at(normalised(log_weights), places)


class _ErrorOnly(eqx.Module):
    """log p(s_dp | s) at v: the weight of simulated statistics, which follow h."""

    latent: AbstractLatent

    def __call__(self, v: Array) -> Array:
        return self.latent.log_error(self.latent.statistic(v))


@eqx.filter_jit
def _statistics(latent: AbstractLatent, v: Array) -> tuple[Array, Array]:
    """Free columns at the draws v of chains, and their log weights."""
    t = latent.statistic(jnp.asarray(v))
    return t, latent.log_weight(t)
