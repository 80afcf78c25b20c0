"""What is said of approximate Bayesian computation, and of methods for comparison."""

from __future__ import annotations

from noisewise.posteriors.kinds import Kind

SENTENCES = {
    Kind.NEAREST_KEPT: (
        "{mechanism} lacks a density or a bound of it, so the nearest {share:.0%} of the "
        "simulations are kept, an approximation."
    ),
    Kind.FEW_DRAWS_ACCEPTED: (
        "{num:,} simulations gave few draws: ImportanceSampling, ExactSMC and SMCABC need fewer"
        " simulations per draw."
    ),
    Kind.NONE_ACCEPTED: (
        "None of {num:,} simulations was accepted. Here are the {kept} at which the observation is "
        "likeliest, weighted by its density, which is no posterior: use ImportanceSampling or "
        "ExactSMC."
    ),
    Kind.NONE_WITHIN_TOLERANCE: (
        "None of {num:,} simulations came within {tolerance:g} of the observation. Here are the "
        "{kept} nearest, up to {farthest:.4g} away: raise the tolerance, or give quantile= instead."
    ),
    Kind.FEW_WITHIN_FIRST_TOLERANCE: (
        "Only {num} prior draws came within the first tolerance, {tolerance:.4g}."
    ),
    Kind.NONE_WITHIN_FIRST_TOLERANCE: (
        "None of {num:,} prior draws came within the first tolerance, {tolerance:.4g}. Here are "
        "the {kept} nearest, up to {farthest:.4g} away: take a larger tolerance, or QuantileDecay, "
        "which finds its own."
    ),
    Kind.NOISE_IGNORED: (
        "The noise in the observation and the clamping of records are ignored: take these draws "
        "for comparison only, and a method that knows the mechanism for an answer."
    ),
    Kind.CONFIDENTIAL: (
        "This posterior comes from confidential data and reveals them: it is not private."
    ),
    Kind.CLAMPING_IGNORED: (
        "It takes the statistic for that of records that were not clamped, and is exact only if "
        "none was: pass the records to be sure."
    ),
}
