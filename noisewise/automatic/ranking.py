"""Which of several posteriors to keep."""

from __future__ import annotations

import dataclasses

from noisewise.posteriors import AbstractPosterior, WeightedSamples

MIN_ESS_TO_EXTRAPOLATE = 50
"""Effective draws below which weights say little: their effective size is itself too uncertain to
extrapolate to a larger set, and a learnt posterior is preferred to them.
"""

SAFETY_FACTOR = 1.3
"""Simulations asked for, divided by those that the effective size so far says are needed: effective
sizes are estimates, and one more round costs more than the surplus.
"""

_EXACT = 1e6
"""Added to the rank of exact draws: above any effective size of draws that are not."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A posterior that a route offers.

    `replaces` is an earlier candidate that this one contains, or repeats at greater length. It is
    replaced even if it looks better: to keep the luckier of the two would bias.
    """

    posterior: AbstractPosterior
    replaces: AbstractPosterior | None = None


def better(best: AbstractPosterior | None, offered: Candidate) -> AbstractPosterior:
    """The best posterior so far, once a route has offered another."""
    if best is None or best is offered.replaces or rank(offered.posterior) > rank(best):
        return offered.posterior
    return best


def rank(posterior: AbstractPosterior) -> float:
    """A number that is larger for what to prefer.

    Exact draws come first, by their number; then weighted draws worth `MIN_ESS_TO_EXTRAPOLATE` or
    more; then a learnt posterior, or chains that have not settled; then fewer weighted draws. Draws
    that are still wider than the posterior, or from the prior, come last.
    """
    power = posterior.report.power
    if power is not None and power < 1.0:
        return power - 1.0
    if posterior.report.exact:
        return _EXACT + posterior.effective_size
    if isinstance(posterior, WeightedSamples):
        return posterior.effective_size
    return float(MIN_ESS_TO_EXTRAPOLATE)


def num_exact_draws(posterior: AbstractPosterior) -> float:
    """Effective draws from the exact posterior: none where the draws are not exact."""
    return posterior.effective_size if posterior.report.exact else 0.0
