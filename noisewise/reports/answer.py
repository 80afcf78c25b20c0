"""The answer: one sentence and one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from noisewise._core.text import Markup
from noisewise._core.weights import MIN_DRAWS
from noisewise.assessment.evidence import measured_size
from noisewise.assessment.judging import too_few_for_intervals
from noisewise.posteriors import AbstractPosterior
from noisewise.posteriors.summaries import errors_in_words
from noisewise.reports.html import number, paragraphs, section, table

LOW, HIGH = "2.5%", "97.5%"


def headline(summary: pd.DataFrame, prior: pd.DataFrame | None, derived: tuple[str, ...]) -> str:
    """The quantity that the one sentence is about: the first derived one that is finite, else the
    one of which most was learnt.
    """
    finite = [name for name in derived if np.isfinite(summary.loc[name, "sd"])]
    if finite:
        return finite[0]
    if prior is None:
        return str(summary.index[0])
    shares = summary["sd"] / prior["sd"].reindex(summary.index)
    return str(summary.index[int(np.argmin(shares.fillna(np.inf).to_numpy()))])


def sentence(posterior: AbstractPosterior, name: str, row: Any) -> str:
    """What is known of one quantity, whose row of the summary this is."""
    sd, size = row["sd"], measured_size(posterior)
    if too_few_for_intervals(size):
        return (
            f"There is no answer for {name} yet: the draws are worth {size:,.0f} independent ones,"
            f" and intervals need {MIN_DRAWS:.0f}."
        )
    given = (
        "given the release"
        if posterior.report.exact
        else "given the release, if the approximation is right"
    )
    return (
        f"{name} is about {number(row['mean'], sd)}, and with 95% probability between"
        f" {number(row[LOW], sd)} and {number(row[HIGH], sd)}, {given}."
    )


def answer(
    posterior: AbstractPosterior,
    summary: pd.DataFrame,
    chosen: str,
    *,
    prior: pd.DataFrame | None,
    naive: pd.DataFrame | None,
    truth: dict[str, float],
    said: bool = False,
) -> Markup:
    """The section.

    Args:
        posterior: The answer.
        summary: Its summary.
        chosen: The quantity that the sentence is about.
        prior: The summary of the prior, shown for comparison.
        naive: The summary of the answer that ignores the noise, shown for comparison.
        truth: True values by name, where they are known.
        said: Whether the page's first sentence, of another quantity, is the answer.
    """
    columns = ["quantity", "estimate", "95% interval"]
    columns += ["truth"] if truth else []
    columns += ["naive answer"] if naive is not None else []
    columns += ["sd"] + (["prior sd"] if prior is not None else []) + ["median", "shortest 95%"]
    rows = [_row(str(name), row, prior, naive, truth) for name, row in summary.iterrows()]
    method = "exact, up to Monte Carlo error" if posterior.report.exact else "approximate"
    caption = f"Posterior of each quantity given the release ({posterior.report.method}; {method})"
    return section(
        "answer",
        "The answer",
        paragraphs("" if said else sentence(posterior, chosen, summary.loc[chosen])),
        paragraphs(_about_truth(chosen, summary, truth), _about_naive(chosen, summary, naive)),
        table(caption, columns, rows),
        paragraphs(
            "sd stands for standard deviation. The shortest interval holds 95% of the probability,"
            " as the other interval does."
        ),
        paragraphs(errors_in_words(summary)),
    )


def _row(name: str, row: Any, prior: Any, naive: Any, truth: dict[str, float]) -> list[str]:
    """One row of the table, with the digits that its standard deviation leaves meaningful."""
    sd = row["sd"]
    cells = [name, number(row["mean"], sd), _interval(row[LOW], row[HIGH], sd)]
    if truth:
        cells.append(number(truth[name], sd) if name in truth else "")
    if naive is not None:
        cells.append(_with_interval(naive.loc[name], sd) if name in naive.index else "")
    cells.append(number(sd, sd))
    if prior is not None:
        cells.append(_sd(prior.loc[name, "sd"]) if name in prior.index else "")
    cells += [number(row["median"], sd), _interval(row["hdi low"], row["hdi high"], sd)]
    return cells


def _sd(sd: float) -> str:
    """An sd with two digits."""
    return number(sd, sd)


def _interval(low: float, high: float, sd: float) -> str:
    return f"{number(low, sd)} to {number(high, sd)}"


def _with_interval(row: Any, sd: float) -> str:
    """The mean with its interval in brackets."""
    return f"{number(row['mean'], sd)} ({_interval(row[LOW], row[HIGH], sd)})"


def _about_truth(name: str, summary: pd.DataFrame, truth: dict[str, float]) -> str:
    """Whether the interval holds the truth; nothing where that is unknown."""
    if name not in truth:
        return ""
    row = summary.loc[name]
    inside = row[LOW] <= truth[name] <= row[HIGH]
    value = number(truth[name], row["sd"])
    return (
        f"In this case the truth is known: {name} is {value}, which lies"
        f" {'in' if inside else 'outside'} the interval."
    )


def _about_naive(name: str, summary: pd.DataFrame, naive: pd.DataFrame | None) -> str:
    """How far off the answer would be if the noise were ignored."""
    if naive is None or name not in naive.index:
        return ""
    row, other = summary.loc[name], naive.loc[name]
    apart = not (other[LOW] <= row["mean"] <= other[HIGH])
    words = (
        "whose interval does not hold the estimate above"
        if apart
        else "whose interval holds the estimate above"
    )
    return (
        f"Taking the published numbers at face value gives {_with_interval(other, row['sd'])},"
        f" {words}."
    )
