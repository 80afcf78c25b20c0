"""Sentences about weights, particles and chains."""

from __future__ import annotations

from noisewise.posteriors.kinds import Kind

_SHOWN = 5
"""Quantities that a sentence names: what fits into two lines."""


def _tails_thin(names: list[str], ends: list[str], fewer_than: int) -> str:
    shown = [f"{name} ({end})" for name, end in zip(names, ends, strict=True)][:_SHOWN]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return (
        f"Fewer than {fewer_than} effective draws lie beyond these ends of 95% intervals:"
        f" {', '.join(shown)}{more}. They are hardly known: more simulations or time would help."
    )


def _unexplained(p: float) -> str:
    chance = f"{p:.1g}" if p > 0.0 else "less than .001"
    return (
        "Nothing that was found explains the observation well: noise as large as it takes has "
        f"probability {chance}. Either the model is wrong, or a part of the posterior was missed: "
        "check the model, or allow more simulations."
    )


SENTENCES = {
    Kind.WEIGHTS_POOR: (
        "The weights are poor: the draws that decide promise an effective size of "
        "{effective_size:.0f}, with a Pareto k of {pareto_k:.2f}. Run more simulations, or write "
        "the simulator as a model of records (AbstractRecordModel)."
    ),
    Kind.WEIGHTS_UNSTEADY: (
        "The weights are unsteady: the draws are worth {effective_size:.0f}, where separate draws "
        "from the same proposal promised {promised:.0f}. Run more simulations."
    ),
    Kind.TAILS_UNSTEADY: (
        "Weights vary much more in the tails than elsewhere: the tails of 2.5% rest on some "
        "{tail_size:.1f} effective draws, too few for the whole to be called exact. Run more "
        "simulations, or data augmentation (da-mcmc) for models of records."
    ),
    Kind.DRAWS_THAT_ADAPTED: (
        "The budget ended before the final draws: these are the draws that proposals were fitted "
        "to, which cannot be called exact. Allow more simulations or time."
    ),
    Kind.CONTRADICTED: (
        "These draws miss about {share:.0%} of the posterior that other simulations of the same "
        "run found: allow more simulations."
    ),
    Kind.FOUND_BY_FEW: (
        "Few of the independent searches found {share:.0%} of the posterior, so that another part "
        "may have been missed: allow more simulations."
    ),
    Kind.UNEXPLAINED: _unexplained,
    Kind.PROPOSAL_IMPOSSIBLE: (
        "None of {num:,} simulated statistics can have led to this observation. These are draws "
        "from the proposal, with equal weights. Check the observation and the model."
    ),
    Kind.PILOT_IMPOSSIBLE: (
        "None of {num:,} simulated statistics can have led to this observation: these are draws "
        "from the prior. Check the observation and the model."
    ),
    Kind.PRIOR_IMPOSSIBLE: (
        "None of {num:,} statistics simulated from the prior can have led to this observation: "
        "these are draws from the prior. Check the observation and the model."
    ),
    Kind.ENDED_EARLY_AT_POWER: (
        "The run ended at power {power:.2g} of the mechanism's density: these draws are wider than "
        "the posterior. Allow more simulations or time, or use fewer particles."
    ),
    Kind.FEW_MOVES_ACCEPTED: (
        "At some temperature fewer than one move per chain was accepted: the log evidence is "
        "unreliable, and the particles are poorly mixed. A model of records (AbstractRecordModel) "
        "allows moves that are accepted more often."
    ),
    Kind.CHAINS_NOT_STARTED: (
        "The budget ended before the chains could start: these are weighted draws from importance "
        "sampling."
    ),
    Kind.CHAINS_IN_WARM_UP: (
        "The chains ended in their warm-up: these draws need not follow the posterior at all."
    ),
    Kind.CHAINS_NOT_SETTLED: (
        "The chains have not settled: effective size {effective_size:.0f} (at least {enough} "
        "wanted), R-hat {r_hat:.3f} (at most {largest_r_hat} wanted). Allow more simulations or "
        "time; if that does not help, check the model."
    ),
    Kind.CHAINS_DIVERGED: (
        "{divergent:,} of {draws:,} trajectories diverged: places where the posterior is narrow may"
        " be missed. Priors that leave less room, or effects written around their mean, help."
    ),
    Kind.EXACT_NUMBERS_INDEPENDENT: (
        "The law takes what was released without noise ({names}) as independent of the other"
        " numbers given the parameters. If it is a sum of them, as a total is, it is counted twice:"
        " leave it out, or give a law of the inner numbers that has the total."
    ),
    Kind.LIKELIHOOD_NOISY: (
        "Estimates of the likelihood are noisy: log L-hat has a variance of {variance:.1f} or more "
        "with {num_inner} simulations, and chains get stuck where an estimate is too high. For "
        "models of records use DataAugmentationMCMC or ExactSMC."
    ),
    Kind.WARM_UP_STATES: (
        "Time ran out before the first draw: these are states of the warm-up, which depend on "
        "where the chains started."
    ),
    Kind.MATRIX_CLIPPED: (
        "In {share:.0%} of the sweeps X'X was not positive semidefinite, and its negative "
        "eigenvalues were set to 0: use DataAugmentationMCMC to avoid this."
    ),
    Kind.CHAINS_HELD_BACK: (
        "In {share:.1%} of the sweeps chains overflowed and were held back: this model cannot "
        "produce the observation, and the draws are meaningless. Check the observation and the "
        "model."
    ),
    Kind.RECORDS_CLAMPED: (
        "About {share:.0%} of the records lie outside the bounds of the query, and Gibbs-SS "
        "ignores that they are clamped. Expect bias; DataAugmentationMCMC is exact."
    ),
    Kind.CHAINS_NOT_MIXED: (
        "The chains have not mixed (R-hat {r_hat:.3f}, effective size {effective_size:.0f}): raise "
        "num_draws or thin."
    ),
    Kind.TAILS_THIN: _tails_thin,
}
