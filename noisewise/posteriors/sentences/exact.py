"""What is said of weights, particles and chains."""

from __future__ import annotations

from noisewise.posteriors.kinds import Kind

SENTENCES = {
    Kind.WEIGHTS_POOR: (
        "The weights are poor (effective size {effective_size:.0f}, Pareto k {pareto_k:.2f}): take "
        "more simulations, or for models of records DataAugmentationMCMC or ExactSMC."
    ),
    Kind.PROPOSAL_IMPOSSIBLE: (
        "None of {num:,} simulated statistics can have led to this observation: all draws have "
        "equal weight, and follow the proposal. Check the observation and the model."
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
        "The work ended at power {power:.2g} of the mechanism's density: these draws are wider "
        "than the posterior. Give it more simulations or time, or fewer particles."
    ),
    Kind.FEW_MOVES_ACCEPTED: (
        "Fewer than one move per chain was accepted at some temperature: the log evidence is "
        "unreliable, and the particles are poorly mixed. A model of records (AbstractRecordModel) "
        "would allow moves that are accepted more often."
    ),
    Kind.CHAINS_NOT_STARTED: (
        "The budget ended before the chains could start: these are weighted draws of importance"
        " sampling."
    ),
    Kind.CHAINS_IN_WARM_UP: (
        "The chains ended in their warm-up: these draws need not follow the posterior at all."
    ),
    Kind.CHAINS_NOT_SETTLED: (
        "The chains have not settled: effective size {effective_size:.0f} (at least {enough} "
        "wanted), R-hat {r_hat:.3f} (at most {largest_r_hat} wanted). Give them more simulations "
        "or time; if that does not help, check the model."
    ),
    Kind.LIKELIHOOD_NOISY: (
        "Estimates of the likelihood are noisy: log L-hat has a variance of {variance:.1f} or more "
        "with {num_inner} simulations, and chains stick where one came out too high. For models "
        "of records take DataAugmentationMCMC or ExactSMC."
    ),
    Kind.WARM_UP_STATES: (
        "The time was up before the first draw: these are states of the warm-up, which depend on"
        " where chains started."
    ),
    Kind.MATRIX_CLIPPED: (
        "In {share:.0%} of the sweeps X'X was no matrix of sums, and its negative eigenvalues were"
        " set to 0."
    ),
    Kind.CHAINS_HELD_BACK: (
        "In {share:.1%} of the sweeps chains left the floating-point numbers and were held back: "
        "no data of this model have such an observation, and these draws mean nothing."
    ),
    Kind.RECORDS_CLAMPED: (
        "About {share:.0%} of the records lie outside the bounds of the query, and Gibbs-SS "
        "ignores that they are clamped: expect bias. Use DataAugmentationMCMC, which is exact."
    ),
    Kind.CHAINS_NOT_MIXED: (
        "The chains have not mixed (R-hat {r_hat:.3f}, effective size {effective_size:.0f}): raise"
        " num_draws or thin."
    ),
}
