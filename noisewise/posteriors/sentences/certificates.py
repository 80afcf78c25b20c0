"""Sentences about certificates and decompositions."""

from __future__ import annotations

import math

from noisewise.posteriors.kinds import Kind
from noisewise.posteriors.sentences.words import percent, short


def _certified(effective_size: float, cost: float) -> str:
    return (
        f"The corrected draws are worth {effective_size:,.0f} exact ones: averages have a Monte "
        f"Carlo error of {100 / math.sqrt(effective_size):.1f}% of a posterior sd. Each further "
        f"one takes {short(cost)} simulations."
    )


def _poor(
    effective_size: float, perfect_size: float, usable: bool, missed: float | None = None
) -> str:
    gap = (
        ""
        if missed is None
        else f", as the approximation misses {percent(missed)} of the posterior"
    )
    unusable = "" if usable else " Neither they nor the approximation should be used."
    return (
        f"The corrected draws are worth {effective_size:,.0f} exact ones{gap}. With a perfect "
        f"approximation the same simulations would be worth {perfect_size:,.0f}.{unusable}"
    )


def _not_certifiable(
    effective_size: float,
    enough: float,
    cost: float,
    at_least: bool,
    suspicious_efficiency: float | None = None,
) -> str:
    about_q = "This says nothing against the approximation."
    if suspicious_efficiency is not None:
        about_q = (
            "What evidence there is suggests that the approximation is poor too: its efficiency is "
            "about "
            f"{percent(suspicious_efficiency)}."
        )
    return (
        f"The corrected draws are worth {effective_size:,.0f} exact ones, and would be worth less "
        f"than {enough:.0f} even with a perfect approximation: databases simulated at one theta "
        f"differ so much that each exact draw takes {'at least' if at_least else 'about'} "
        f"{cost:,.0f} simulations. {about_q}"
    )


def _hidden_modes(share: float) -> str:
    if share >= 1.0:
        return (
            "Nothing can be said of modes that neither the approximation nor a draw from the prior "
            "came upon."
        )
    return (
        f"A mode that the approximation misses would have been seen, with probability 95%, if it "
        f"held {percent(share)} of the posterior."
    )


SENTENCES = {
    Kind.CERTIFIED: _certified,
    Kind.APPROXIMATION_POOR: _poor,
    Kind.NOT_CERTIFIABLE: _not_certifiable,
    Kind.CERTIFICATE_UNEXPLAINED: (
        "The corrected draws are worth {effective_size:,.0f} weighted ones, but none of them "
        "explains the observation: use neither them nor the approximation."
    ),
    Kind.NOTHING_CERTIFIABLE: (
        "None of {num:,} simulated statistics can have led to this observation, so nothing can be "
        "said about the approximation."
    ),
    Kind.HIDDEN_MODES: _hidden_modes,
    Kind.PARTS_NOT_SETTLED: (
        "The chains have not settled (R-hat {r_hat:.3f}): do not rely on these parts."
    ),
    Kind.DRAWS_DEPENDENT: (
        "Draws of theta given the records still depend on each other {steps} steps apart, so the "
        "sampling share is underestimated: implement sample_parameters in the model."
    ),
}
