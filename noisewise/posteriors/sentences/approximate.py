"""Sentences about approximate Bayesian computation, and about methods for comparison."""

from __future__ import annotations

from noisewise.posteriors.kinds import Kind

SENTENCES = {
    Kind.NEAREST_KEPT: (
        "{mechanism} has no density, or its density has no known bound. The nearest {share:.0%} of "
        "the simulations are kept instead, which is an approximation."
    ),
    Kind.FEW_DRAWS_ACCEPTED: (
        "{num:,} simulations gave few draws. ImportanceSampling, ExactSMC and SMCABC need fewer "
        "simulations per draw."
    ),
    Kind.NONE_ACCEPTED: (
        "None of {num:,} simulations was accepted. These are the {kept} that make the observation "
        "most likely, weighted by its density. They are not a posterior: use ImportanceSampling or "
        "ExactSMC."
    ),
    Kind.NONE_WITHIN_TOLERANCE: (
        "None of {num:,} simulations came within {tolerance:g} of the observation. These are the "
        "{kept} nearest, up to {farthest:.4g} away: raise tolerance=, or set quantile= instead."
    ),
    Kind.FEW_WITHIN_FIRST_TOLERANCE: (
        "Only {num} prior draws came within the first tolerance, {tolerance:.4g}. Use a larger "
        "tolerance, or QuantileDecay."
    ),
    Kind.NONE_WITHIN_FIRST_TOLERANCE: (
        "None of {num:,} prior draws came within the first tolerance, {tolerance:.4g}. These are "
        "the {kept} nearest, up to {farthest:.4g} away: use a larger tolerance, or QuantileDecay, "
        "which finds its own."
    ),
    Kind.NOISE_IGNORED: (
        "The noise in the observation and the clamping of records are ignored. Use these draws for "
        "comparison only, and a method that knows the mechanism for an answer."
    ),
    Kind.CONFIDENTIAL: (
        "This posterior is computed from confidential data and reveals them: it is not private."
    ),
    Kind.CLAMPING_IGNORED: (
        "The method assumes that no record was clamped, and is exact only if that is true: pass "
        "the records to be sure."
    ),
}
