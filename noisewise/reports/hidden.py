"""What the noise hides: the confidential numbers as the answer sees them, beside the released."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.text import Markup
from noisewise.posteriors import AbstractPosterior
from noisewise.reports.html import number, paragraphs, section, table

_MOST_ROWS = 24
"""Numbers shown: as many as of the release."""
_WHOLE = 10.0
"""The sd for which numbers are shown without decimals: counts."""


def hidden(
    posterior: AbstractPosterior,
    observed: Float[np.ndarray, " kp"] | None,
    names: tuple[str, ...],
    deviations: tuple[float | None, ...],
    measured: Bool[np.ndarray, " kp"],
) -> Markup:
    """The section; nothing where the method draws no confidential numbers, where they are not those
    that were released, or where they are single answers.

    Args:
        posterior: The answer.
        observed: What was released.
        names: Of the released numbers.
        deviations: Sds of their noise, None where they depend on the numbers.
        measured: Where something was measured: a number that is not there is absent, else missing.
    """
    s = posterior.confidential_statistics
    if s is None or observed is None or s.shape[1] != len(observed) or s.max() <= 1.0:
        return Markup("")
    mean, sd, _, low, high = posterior.confidential_summary().to_numpy().T
    shown = np.full_like(sd, _WHOLE) if (s == s.round()).all() else sd
    no_value = np.where(measured, "absent", "missing").tolist()
    rows = [
        (
            name,
            number(value, noise and max(noise, digits)) if not np.isnan(value) else without,
            number(centre, max(spread, digits / _WHOLE)),
            f"{number(first, digits)} to {number(last, digits)}",
        )
        for name, value, without, noise, centre, spread, digits, first, last in zip(
            names, observed, no_value, deviations, mean, sd, shown, low, high, strict=True
        )
    ]
    more = len(rows) - _MOST_ROWS
    return section(
        "hidden",
        "What the noise hides",
        paragraphs(
            "The confidential numbers themselves, as far as the release and the model tell: the"
            " noise is weighed against what the other numbers say."
        ),
        table(
            "Confidential numbers, inferred",
            ["statistic", "published value", "estimate", "95% interval"],
            rows[:_MOST_ROWS],
        ),
        paragraphs(f"{more:,} more are not shown." if more > 0 else ""),
    )
