"""Assessments in words: the only place where levels, verdicts and reasons become sentences.

Nothing but people may depend on these words: `tests/assessment/test_sentences.py` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def level(name: str) -> str:
    """The level in a sentence."""
    return _LEVELS[name]


def reason(name: str, numbers: Mapping[str, Any]) -> str:
    """The reason with its numbers in a sentence."""
    words = REASONS[name]
    return words.format(**numbers) if isinstance(words, str) else words(**numbers)


def prediction(
    source: str, passed: bool, p_value: float, name: str = "", p_of_name: float = math.nan
) -> str:
    """What a predictive check found.

    Args:
        source: "prior" or "posterior", which made the predictions.
        passed: Whether the observation looks like the simulated ones.
        p_value: The p-value of all statistics together.
        name: The statistic with the smallest p-value of its own.
        p_of_name: That p-value.
    """
    if passed:
        return f"The {source} makes data like the observation (p = {p_value:.2g})."
    return (
        f"The observation lies outside what the {source} predicts (p = {p_value:.2g}), {name} the"
        f" most (p = {p_of_name:.2g}): {_AFTER_MISFIT[source]}."
    )


def exact_draws(worth: float, few: bool, num_dropped: int) -> str:
    """What exact draws are worth, and on which condition."""
    given = (
        f", conditional on the simulator not failing (it failed {num_dropped:,} times),"
        if num_dropped
        else ""
    )
    more = ": too few for intervals. Give the method more simulations or time" if few else ""
    return (
        f"The draws come from the exact posterior{given} and are worth {worth:,.0f} independent"
        f" ones{more}."
    )


FOR_COMPARISON = (
    "This answer is for comparison: it either ignores the noise or uses the confidential data."
)
NOT_CERTIFIED = (
    "Nothing shows how good this approximation is: the mechanism has no density, so it cannot be"
    " certified."
)
NOT_CHECKED = "Nothing shows how good this approximation is: certify it."

_LEVELS = {
    "trust": "All checks passed.",
    "trust with care": "These numbers are usable, with the reservations below.",
    "do not trust": "These numbers should not be used as they stand.",
}
_AFTER_MISFIT = {
    "prior": "check the model, the units, and the order of the statistics",
    "posterior": "the model cannot make these data, or the posterior is wrong: certify it",
}


def _worth(worth: float, unchecked: bool = False) -> str:
    error = 100 / math.sqrt(max(worth, 1.0))
    more = ", besides that of the approximation, which is not known" if unchecked else ""
    return (
        f"The draws are worth {worth:,.0f} independent ones, so that averages carry an error of"
        f" {error:.0f}% of a posterior sd{more}."
    )


def _misfit(p_value: float, name: str, p_of_name: float) -> str:
    found = prediction("posterior", False, p_value, name, p_of_name)
    return f"The answer does not predict the published numbers: {found}"


REASONS: dict[str, Any] = {
    "noise ignored": (
        "This is the naive answer, which ignores the noise and the clamping of records."
    ),
    "partial": (
        "The work ended before the observation was taken into account in full: the draws are too"
        " wide."
    ),
    "exact method": "The method is exact: its draws follow the posterior, up to Monte Carlo error.",
    "unchecked": (
        "The method is an approximation, and nothing has checked it: certify the posterior."
    ),
    "too few draws": (
        "The draws are worth {worth:,.0f} independent ones, too few for intervals: give the"
        " method more simulations or time."
    ),
    "some draws": _worth,
    "enough draws": _worth,
    "corrected draws certified": "Certified by {num_simulations:,} fresh simulations.",
    "agrees with certified draws": (
        "Certified by {num_simulations:,} fresh simulations, with which the draws agree."
    ),
    "differs from certified draws": (
        "The draws differ from the corrected ones that are certified: the mean of {name} by"
        " {shift:+.2f} sd, its sd by a factor of {ratio:.2f}. Use those."
    ),
    "corrected draws not certified": (
        "The certificate reads: {verdict}. Here are its corrected draws, which are exact."
    ),
    "exact draws not certified": ("The certificate reads: {verdict}. The draws are still exact."),
    "certificate undecided": (
        "Fresh simulations could not show how good the approximation is, and found no fault in it."
    ),
    "certificate against": (
        "Fresh simulations do not confirm the approximation: see the certificate below."
    ),
    "predicts": (
        "Data simulated from the answer look like the published numbers (p = {p_value:.2g})."
    ),
    "does not predict": _misfit,
    "mechanism contradicted": (
        "The answers contradict the mechanism that is stated: see the warnings."
    ),
    "warnings": "There are warnings, listed below.",
}
