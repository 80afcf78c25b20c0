"""Sentences about learnt densities, and about chains on them."""

from __future__ import annotations

from typing import Any

from noisewise.posteriors.kinds import Kind, StopKind
from noisewise.posteriors.sentences import stops


def _left_out(names: list[str]) -> str:
    return f"Left out, as they are the same in all simulations: {', '.join(names)}."


def _not_learnt(names: list[str]) -> str:
    return (
        "Left out of the learnt densities, as they are the same in all simulations:"
        f" {', '.join(names)}."
    )


def _learnt_from_less(stop: str, **numbers: Any) -> str:
    ended = stops.SENTENCES[StopKind(stop)].format(**numbers)
    return f"Learning ended early, with fewer simulations or less time than asked for: {ended}."


def _not_settled(effective_size: float, enough: int, r_hat: float) -> str:
    return (
        f"The populations of particles disagree: together they are worth {effective_size:.0f} "
        f"independent draws (at least {enough} wanted), R-hat {r_hat:.3f}."
    )


def _likelihood_chains(finished: bool, **numbers: Any) -> str:
    advice = "Allow more time, or more simulations."
    if finished:
        advice = (
            "The learnt likelihood has several modes, whose shares are uncertain: raise "
            "num_chains, or run more rounds, which make it smoother."
        )
    return f"{_not_settled(**numbers)} {advice}"


def _joint_chains(lattice: bool, **numbers: Any) -> str:
    cause = " The noise is narrower than a step of the lattice of s." if lattice else ""
    return f"{_not_settled(**numbers)}{cause} Raise num_chains, or use another method."


SENTENCES = {
    Kind.STATISTICS_LEFT_OUT: _left_out,
    Kind.STATISTICS_NOT_LEARNT: _not_learnt,
    Kind.LOSS_NEVER_FINITE: (
        "The validation loss was never finite: the network is the untrained one."
    ),
    Kind.TRAINING_CUT_SHORT: (
        "Training ended after {epochs} epochs, while the validation loss was still improving: "
        "raise max_epochs."
    ),
    Kind.LEARNT_FROM_LESS: _learnt_from_less,
    Kind.FAILURES_UNSEEN: (
        "Simulations failed. If that depends on the parameters, this method is biased: it leaves "
        "failures out, while exact methods count them as impossible. Fix the simulator, or use "
        "{instead}."
    ),
    Kind.FAILURES_NOT_LEARNT: (
        "{failed:,} of {simulations:,} simulations failed (NaN) and were left out of training."
    ),
    Kind.MASS_LEAKED: (
        "{share:.0%} of the posterior lies where nothing was simulated: its mass has leaked there, "
        "or is not learnt yet. Run more rounds, or certify the posterior."
    ),
    Kind.EXTRAPOLATION: (
        "{share:.0%} of the posterior lies where nothing was simulated: the network extrapolates "
        "there. Certify the posterior, or simulate near it by a method with several rounds."
    ),
    Kind.OBSERVATION_UNLIKE_TRAINING: (
        "The observation lies outside what the prior predicts (p = {p:.2g}): the network has seen "
        "nothing like it."
    ),
    Kind.ROUND_FROM_PRIOR: (
        "The estimate has its mass where the prior has none, so a round drew from the prior again. "
        "The model may be unable to produce such an observation."
    ),
    Kind.ROUND_NOT_ADOPTED: (
        "Round {round} predicted held-out simulations near the observation worse than round {kept} "
        "(by {loss:.2g} nats, standard error {error:.2g}): this is the posterior of round {kept}."
    ),
    Kind.PARAMETERS_NOT_FOUND: (
        "Later rounds found too few parameters where the estimate has its mass: {missing:,} of the "
        "{asked:,} simulations asked for are missing."
    ),
    Kind.LIKELIHOOD_CHAINS_NOT_SETTLED: _likelihood_chains,
    Kind.JOINT_CHAINS_NOT_SETTLED: _joint_chains,
    Kind.STATISTICS_IMPOSSIBLE: (
        "No statistic that the model predicts can have led to this observation: these are draws "
        "from the prior. Check the observation and the model."
    ),
    Kind.LEARNT_DRAWS_NOT_FINITE: (
        "{failed:,} of {draws:,} draws of the learnt law of statistics were NaN, and count "
        "as impossible: it was asked where it had seen nothing. Simulate more."
    ),
    Kind.LATENT_CHAINS_NOT_SETTLED: (
        "The chains over latent statistics have not settled: effective size {effective_size:.0f} "
        "(at least {enough} wanted), R-hat {r_hat:.3f} (at most 1.01 wanted). Raise num_warmup, or "
        "num_simulations, which makes the learnt density of s smoother."
    ),
    Kind.LATENT_OUTSIDE_SIMULATIONS: (
        "{share:.0%} of the latent statistics lie outside the cloud of simulated ones, where h and "
        "q extrapolate: do not trust these draws. Use a method that simulates near the "
        "observation, such as PrivatePosteriorEstimation."
    ),
    Kind.SPIKE_AND_SLAB: (
        "SpikeAndSlab ignores that the law of the privacy noise is known. Use these draws to check "
        "the model, and error=MechanismError() for an answer."
    ),
}
