"""What makes weights poor, the approximation q or the simulator? Repeated simulation shows it."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise._core.weights import effective_size_of_logs, systematic_rows
from noisewise.assessment.judging import FAIR_EFFICIENCY
from noisewise.diagnostics.certificates.certificate import SATURATED
from noisewise.diagnostics.certificates.defensive import DefensiveProposal
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.weighted_draws import ImportanceDraws, relative_variance

_PLACES = 12
"""Values of theta at which simulations are repeated: 1 + rv is averaged over the posterior."""
_MIN_REPEATS = 64
"""Simulations at each of them: 1 + rv cannot come out larger than this."""
_REFITS = 2
"""Proposals fitted in turn where the weights are poor. Each takes a quarter of the simulations that
measure, and the other half is needed for the measurement itself."""
_MAX_LOST = 0.3
"""Log evidence that a refit may lose: a quarter of the mass, or as much by chance."""
_OUTLIERS = 5
"""Largest weights left out, so that no lucky simulation decides whether q or the simulator is at
fault."""


class Measured(NamedTuple):
    """What repeated simulation adds; `Certificate` has the same fields."""

    efficiency: float
    relative_variance: float
    repeated_relative_variance: float
    relative_variance_cap: int


def measure(
    key: Array,
    run: InferenceRun,
    draws: ImportanceDraws,
    proposal: DefensiveProposal,
    num: int,
    *,
    sound: bool,
) -> Measured:
    """Spend `num` simulations on telling efficiency from 1 + rv, at places that stand for the
    posterior, as `certify` describes.

    Args:
        key: JAX PRNG key.
        run: The work of the certificate, which simulates and counts.
        draws: The weighted draws, which need not be from p.
        proposal: p, whose efficiency is measured.
        num: Simulations to spend.
        sound: Whether the weights are sound, so that the draws stand for the posterior.

    Sound weights: half of them single, half repeated. Else a half refits, an eighth is single, and
    three eighths are repeated.
    """
    if draws.effective_size == 0.0:
        return Measured(0.0, float("inf"), float("inf"), 0)
    refit_key, excess_key, repeat_key = jax.random.split(key, 3)
    best, num_single = draws, num // 2
    if not sound:
        refits = _refits(refit_key, run, draws, proposal, num // 4)
        # a refit that lost a part of the mass, and with it evidence, would look the best
        whole = [d for d in refits if d.log_evidence > draws.log_evidence - _MAX_LOST]
        best, num_single = max([draws, *whole], key=lambda d: d.effective_size / d.num), num // 8
    excess, of_draws = _excesses(excess_key, run, best, proposal, num_single)
    repeated, repeats = _repeated(repeat_key, run, best, (num // 2 if sound else 3 * num // 8))
    implied = max(
        1.0, draws.num / (draws.effective_size if sound else _usual_size(draws)) / of_draws
    )
    if not sound:
        blameless = 1.0 / excess >= FAIR_EFFICIENCY or repeated > SATURATED * repeats
        implied = max(implied, repeated) if blameless else repeated
    return Measured(1.0 / excess, implied, repeated, repeats)


def _usual_size(draws: ImportanceDraws) -> float:
    """The effective size without the five largest weights, so that no single lucky simulation
    decides on whom to blame.
    """
    log_weights = np.sort(draws.log_weights)[:-_OUTLIERS]
    if not np.isfinite(log_weights[-1]):
        return 1.0
    return effective_size_of_logs(log_weights)


def _excesses(
    key: Array, run: InferenceRun, draws: ImportanceDraws, proposal: DefensiveProposal, num: int
) -> tuple[float, float]:
    """E[posterior / p], and the same for what the draws are from, by `num` new simulations at draws
    that stand for the posterior; at least 1, as they must be.
    """
    place_key, simulate_key = jax.random.split(key)
    rows = _resampled(place_key, draws.weights, num)
    z = draws.z[rows]
    log_eta = run.log_eta(run.statistics(simulate_key, run.model.prior.constrain(z)))
    log_posterior = proposal.prior.log_prob(z) + log_eta - draws.log_evidence

    def excess(log_density: Float[np.ndarray, " n"]) -> float:
        log_mean = float(logsumexp(log_posterior - log_density) - np.log(num))
        return max(1.0, math.exp(min(log_mean, 700.0)))

    return excess(proposal.log_prob(z)), excess(draws.log_proposal[rows])


def _repeated(key: Array, run: InferenceRun, draws: ImportanceDraws, num: int) -> tuple[float, int]:
    """1 + rv at 12 places, fewer where that leaves less than 64 simulations for each, and how many
    there are.
    """
    place_key, simulate_key = jax.random.split(key)
    repeats = max(_MIN_REPEATS, num // _PLACES)
    places = num // repeats
    theta = run.model.prior.constrain(draws.z[_resampled(place_key, draws.weights, places)])
    s = run.statistics(simulate_key, np.repeat(theta, repeats, axis=0))
    return relative_variance(run.log_eta(s).reshape(places, repeats)), repeats


def _refits(
    key: Array, run: InferenceRun, draws: ImportanceDraws, proposal: DefensiveProposal, num: int
) -> list[ImportanceDraws]:
    """Draws from laws fitted to the weighted draws before, which move towards the posterior where q
    is not.
    """
    from noisewise.samplers.adaptive_importance import fitted_proposal

    found = [draws]
    for refit_key in jax.random.split(key, _REFITS):
        last = found[-1]
        finite = np.isfinite(last.z).all(axis=1)
        law = fitted_proposal(last.z[finite], last.weights[finite], proposal.prior, proposal.share)
        found.append(ImportanceDraws(run, law))
        found[-1].add(refit_key, num)
    return found[1:]


def _resampled(key: Array, weights: Float[np.ndarray, " N"], num: int) -> Int[np.ndarray, " num"]:
    """Rows drawn by their weights with systematic resampling, shape (num,)."""
    return systematic_rows(weights, num, generator(key).random())
