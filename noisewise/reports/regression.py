"""What a regression says: its coefficients in words and as a picture, averages, and the highest
likelihood beside the posterior.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noisewise._core.text import Markup, bullets, element, join
from noisewise.errors import NoisewiseError
from noisewise.plotting import forest
from noisewise.plotting.tables import even_rows
from noisewise.posteriors import AbstractPosterior
from noisewise.regressions import Analysis, MaximumLikelihood, maximum_likelihood
from noisewise.regressions.readings import RATIOS, coefficients_of
from noisewise.reports.html import captioned, number, paragraphs, picture, section, table

_MOST = 24
"""Coefficients that are put into words and drawn: as many as fit on a screen."""
_MOST_PROFILED = 12
"""Parameters whose profile intervals are found: each takes some hundred gradients."""


def regression_section(
    analysis: Analysis | None, posterior: AbstractPosterior, weights: Any = None
) -> Markup:
    """The section; nothing for other models.

    Args:
        analysis: The regression.
        posterior: Its answer.
        weights: Of the rows, for averages.
    """
    if analysis is None:
        return Markup("")
    notes = [str(finding) for finding in analysis.findings]
    return section(
        "regression",
        "What the regression says",
        paragraphs(_model(analysis)),
        bullets(analysis.in_words(posterior)[:_MOST]),
        paragraphs(_shared(analysis)),
        _picture(analysis, posterior),
        paragraphs(averages(analysis, posterior, weights)),
        _effects(analysis, posterior, weights),
        _likelihood(analysis, posterior),
        join(element("h3", "Notes on the model"), bullets(notes)) if notes else "",
        join(
            element("h3", "Priors"),
            bullets(f"{name} ~ {law}" for name, law in analysis.priors.items()),
        ),
    )


def _model(analysis: Analysis) -> str:
    return (
        f"{analysis.formula.text}: {analysis.family.name} law, link {analysis.link_name};"
        f" {analysis.rows_in_words}. All else being equal:"
    )


def _shared(analysis: Analysis) -> str:
    """That a term is not the whole effect of a column, where the column stands in several."""
    names = sorted(analysis.formula.shared_variables)
    if not names:
        return ""
    stands = "stands" if len(names) == 1 else "stand"
    return (
        f"{', '.join(names)} {stands} in several terms, which change together: the average changes"
        " below count all of them."
    )


def _picture(analysis: Analysis, posterior: AbstractPosterior) -> Markup:
    """The forest of ratios, or of coefficients where there are none."""
    names = [c.name for c in coefficients_of(analysis)][:_MOST]
    if not names:
        return Markup("")
    draws = posterior.theta[even_rows(posterior.weights)]
    draws = draws[:, [posterior.names.index(name) for name in names]]
    safe = [name.replace("$", r"\$") for name in names]
    if analysis.link_name in RATIOS:
        what = RATIOS[analysis.link_name]
        ax = forest(np.exp(draws), names=safe, reference=1.0, scale="log")
    else:
        what = "coefficient"
        ax = forest(draws, names=safe, reference=0.0)
    ax.set_xlabel(f"{what}: median, 50% and 95% intervals")
    words = f"The {what} for each column; the dashed line is no effect."
    return captioned(words, picture(ax.get_figure(root=True), f"Forest plot. {words}"))


def averages(analysis: Analysis, posterior: AbstractPosterior, weights: Any) -> str:
    """The mean over rows in a sentence.

    Args:
        analysis: The regression.
        posterior: Its answer.
        weights: Of the rows.
    """
    found = analysis.prevalence(posterior, weights=weights)
    low, high = (found[name] for name in found.index if name.endswith("%"))
    outcome = analysis.formula.outcome
    rows = "all rows" if weights is None else "all rows, weighted,"
    what = (
        f"The share of a true yes to {outcome} over {rows}"
        if analysis.family.name == "bernoulli"
        else f"The average over {rows} of the expected {outcome}"
    )
    given = "" if posterior.report.exact else ", if the approximation is right"
    return (
        f"{what} is about {number(found['mean'], found['sd'])}, and with 95%"
        f" probability between {number(low, found['sd'])} and {number(high, found['sd'])}{given}."
    )


def _effects(analysis: Analysis, posterior: AbstractPosterior, weights: Any) -> Markup:
    found = analysis.marginal_effects(posterior, weights=weights)
    if found.empty:
        return Markup("")
    ends = [name for name in found.columns if name.endswith("%")]
    rows = [
        (
            str(name),
            row["change"],
            number(row["mean"], row["sd"]),
            " to ".join(number(row[end], row["sd"]) for end in ends),
        )
        for name, row in found.iterrows()
    ]
    caption = "By how much the expected outcome changes, on average over the rows"
    return table(caption, ["column", "change", "estimate", "95% interval"], rows)


def _likelihood(analysis: Analysis, posterior: AbstractPosterior) -> Markup:
    """The highest likelihood beside the posterior; why there is none, where that is of interest."""
    if analysis.model.prior.dependent or analysis.model.prior.dim > _MOST_PROFILED:
        return Markup("")
    heading = element("h3", "Without the prior")
    try:
        found = maximum_likelihood(analysis, profile=True)
    except NoisewiseError as error:
        return join(heading, paragraphs(str(error)))
    said = [finding.sentence for finding in found.findings]
    shape = "" if said else "The likelihood is about symmetric: standard errors serve."
    return join(heading, paragraphs(*said, shape), _beside(found, posterior))


def _beside(found: MaximumLikelihood, posterior: AbstractPosterior) -> Markup:
    summary, profiles = posterior.summary(), found.profiles
    assert profiles is not None
    rows = []
    for name, row in summary.loc[list(found.estimate.index)].iterrows():
        sd, ends = row["sd"], profiles.loc[name]
        pairs = [
            (row["2.5%"], row["97.5%"]),
            (ends["symmetric low"], ends["symmetric high"]),
            (ends["profile low"], ends["profile high"]),
        ]
        intervals = [f"{number(low, sd)} to {number(high, sd)}" for low, high in pairs]
        rows.append(
            (str(name), number(row["mean"], sd), number(found.estimate[name], sd), *intervals)
        )
    columns = [
        "quantity",
        "posterior mean",
        "highest likelihood",
        "posterior 95%",
        "by standard error",
        "profile likelihood",
    ]
    return table("The posterior beside the highest likelihood", columns, rows)
