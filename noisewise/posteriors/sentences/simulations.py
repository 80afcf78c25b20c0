"""Sentences about simulations, budgets, and what is saved."""

from __future__ import annotations

from noisewise.posteriors.kinds import Kind


def _surprising(p: float) -> str:
    return (
        f"The observation lies outside what the prior predicts (p = {p:.2g}): check the model, "
        "the units, and the order of the statistics."
    )


def _dropped(counts: list[int], kinds: list[str], example: str) -> str:
    total = sum(counts)
    s, were = ("", "was") if total == 1 else ("s", "were")
    failures = " and ".join(
        f"{num:,} {kind}" for num, kind in zip(counts, kinds, strict=True) if num
    )
    return (
        f"{total:,} simulation{s} failed twice and {were} dropped ({failures}), the first at "
        f"{example} If failures depend on the parameters, the posterior is biased."
    )


def _target(target: int, worth: float, exact: bool, needed: float | None = None) -> str:
    known = f"worth {worth:,.0f} exact ones" if exact else "an approximation without a certificate"
    more = "" if needed is None else f" Reaching it takes about {needed:,.0f} simulations."
    return f"The target of {target:,} effective draws was not reached: the draws are {known}.{more}"


SENTENCES = {
    Kind.STATED: "{text}",
    Kind.SURPRISING_OBSERVATION: _surprising,
    Kind.SIMULATIONS_REJECTED: (
        "{failed:,} of {simulations:,} simulations failed (NaN) and were rejected."
    ),
    Kind.SIMULATIONS_IMPOSSIBLE: (
        "{failed:,} of {simulations:,} simulations failed (NaN): they count as impossible."
    ),
    Kind.SIMULATIONS_DROPPED: _dropped,
    Kind.ONLY_PRIOR_DRAWS: (
        "The budget ended before the first draw from the posterior: these are draws from the prior."
    ),
    Kind.TARGET_NOT_REACHED: _target,
    Kind.DENSITY_NOT_SAVED: (
        "The file holds draws but not the density, because its architecture is user-defined."
    ),
    Kind.DENSITY_NEEDS_PRIOR: (
        "The file holds draws but not the density: the prior has functions, which no file holds, so"
        " log_prob and fresh draws need the model."
    ),
}
