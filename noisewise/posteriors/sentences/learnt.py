"""What is said of learnt densities, and of chains on them."""

from __future__ import annotations

from typing import Any

from noisewise.posteriors.kinds import Kind, StopKind
from noisewise.posteriors.sentences import stops


def _left_out(names: list[str]) -> str:
    return f"The same in all simulations, and left out: {', '.join(names)}."


def _not_learnt(names: list[str]) -> str:
    return f"The same in all simulations, and left out of the learnt densities: {', '.join(names)}."


def _learnt_from_less(stop: str, **numbers: Any) -> str:
    ended = stops.SENTENCES[StopKind(stop)].format(**numbers)
    return f"It was learnt from fewer simulations, or for a shorter time, than asked for: {ended}."


def _not_settled(effective_size: float, r_hat: float, enough: int) -> str:
    return (
        f"The chains have not settled: effective size {effective_size:.0f} (at least {enough} "
        f"wanted), R-hat {r_hat:.3f} (at most 1.01 wanted)."
    )


def _likelihood_chains(finished: bool, **numbers: Any) -> str:
    advice = "Allow more time, or more simulations."
    if finished:
        advice = (
            "The learnt likelihood may have several modes: take more rounds, or more simulations in"
            " each."
        )
    return f"{_not_settled(**numbers)} {advice}"


def _joint_chains(lattice: bool, **numbers: Any) -> str:
    cause = " Noise that is small beside the lattice of s makes it so." if lattice else ""
    return f"{_not_settled(**numbers)}{cause} Take more warm-up, or another method."


SENTENCES = {
    Kind.STATISTICS_LEFT_OUT: _left_out,
    Kind.STATISTICS_NOT_LEARNT: _not_learnt,
    Kind.LOSS_NEVER_FINITE: (
        "The validation loss was never finite: the network is as it was before it was trained."
    ),
    Kind.TRAINING_CUT_SHORT: (
        "Training ended after {epochs} epochs, before the validation loss stopped improving: raise"
        " max_epochs."
    ),
    Kind.LEARNT_FROM_LESS: _learnt_from_less,
    Kind.FAILURES_UNSEEN: (
        "Simulations failed. If that depends on the parameters, this method does not see it, while "
        "exact ones count a failure as impossible: fix the simulator, or use {instead}."
    ),
    Kind.FAILURES_NOT_LEARNT: (
        "{failed:,} of {simulations:,} simulations failed (NaN), and were not learnt from."
    ),
    Kind.MASS_LEAKED: (
        "{share:.0%} of the posterior lies where nothing was simulated: mass has leaked there, or "
        "is not learnt yet. Take more rounds, or certify the posterior."
    ),
    Kind.EXTRAPOLATION: (
        "{share:.0%} of the posterior lies where nothing was simulated: the network extrapolates "
        "there. Certify the posterior, or simulate near it by a method with several rounds."
    ),
    Kind.OBSERVATION_UNLIKE_TRAINING: (
        "The observation lies outside what the prior predicts (p = {p:.2g}): the network has not"
        " seen its like."
    ),
    Kind.ROUND_FROM_PRIOR: (
        "The estimate has its mass where the prior has none, so that a round drew from the prior "
        "again: the observation may lie outside what the model can produce."
    ),
    Kind.LIKELIHOOD_CHAINS_NOT_SETTLED: _likelihood_chains,
    Kind.JOINT_CHAINS_NOT_SETTLED: _joint_chains,
    Kind.STATISTICS_IMPOSSIBLE: (
        "No statistic that the model predicts can have led to this observation: these are draws "
        "from the prior. Check the observation and the model."
    ),
    Kind.LATENT_CHAINS_NOT_SETTLED: (
        "The chains over latent statistics have not settled: effective size {effective_size:.0f} "
        "(at least {enough} wanted), R-hat {r_hat:.3f} (at most 1.01 wanted). Raise num_warmup, or "
        "take more simulations, which smooth the learnt density of s."
    ),
    Kind.LATENT_OUTSIDE_SIMULATIONS: (
        "{share:.0%} of the latent statistics lie outside the cloud of simulated ones, where h and "
        "q extrapolate: do not trust these draws. A method that simulates near the observation, "
        "such as PrivatePosteriorEstimation, does not have to."
    ),
    Kind.SPIKE_AND_SLAB: (
        "SpikeAndSlab ignores that the law of the privacy noise is known: take these draws for a "
        "check of the model, and error=MechanismError() for an answer."
    ),
}
