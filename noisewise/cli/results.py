"""What `noisewise infer` prints at the end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from noisewise.cli import show
from noisewise.cli.outcomes import Outcome
from noisewise.cli.requests import Asked
from noisewise.cli.targets import Target

_MOST_ROWS = 40
"""Quantities that are printed: two screens. A thousand effects are for files."""


def present(
    request: Asked, target: Target, outcome: Outcome, page: Path, *, as_json: bool, quiet: bool
) -> None:
    """Print the summary beside the naive answer and the truth, the verdict, warnings, and where
    the report is.

    Args:
        request: What was asked for.
        target: The model and its release.
        outcome: The result.
        page: The path of the report.
        as_json: Print one JSON object instead.
        quiet: Print the verdict and the path alone.
    """
    if as_json:
        show.print_json(as_record(request, target, outcome, page))
        return
    if not quiet:
        _table(target, outcome)
        _say_mean(target, outcome)
    _say_verdict(outcome, quiet=quiet)
    show.console().print(str(page), soft_wrap=True)


def as_record(request: Asked, target: Target, outcome: Outcome, page: Path) -> dict[str, Any]:
    """The same as one JSON-ready object, for `--json`."""
    report, answer = outcome.posterior.report, outcome.answer
    certificate = None if outcome.certificate is None else outcome.certificate.to_spec()
    return {
        "title": target.title,
        "out": str(request.out),
        "report": str(page),
        "method": _route(outcome),
        "seed": request.seed,
        "trustworthy": outcome.assessment.trustworthy,
        "level": outcome.assessment.level,
        "verdict": outcome.assessment.verdict,
        "sentence": outcome.sentence,
        "effective_size": answer.effective_size,
        "num_simulations": sum(outcome.simulations.values()),
        "simulations": outcome.simulations,
        "seconds": report.seconds,
        "summary": summary_record(answer),
        "naive": None if outcome.naive is None else summary_record(outcome.naive),
        "truth": target.truths or None,
        **_mean_record(target, outcome),
        "certificate": certificate,
        "warnings": list(outcome.warnings),
    }


def summary_record(posterior: Any) -> dict[str, Any]:
    """The table of `posterior.summary()` by quantity and column."""
    return {name: row.to_dict() for name, row in posterior.summary().iterrows()}


def _mean(target: Target, outcome: Outcome) -> Any:
    """The mean outcome over the rows of a regression, with its interval; None for other models."""
    if target.analysis is None:
        return None
    return target.analysis.prevalence(outcome.answer, weights=target.weights)


def _mean_record(target: Target, outcome: Outcome) -> dict[str, Any]:
    found = _mean(target, outcome)
    return {} if found is None else {"prevalence": found.to_dict()}


def _say_mean(target: Target, outcome: Outcome) -> None:
    found = _mean(target, outcome)
    if found is None or target.analysis is None:
        return
    what = "Share of yes" if target.analysis.family.name == "bernoulli" else "Mean outcome"
    rows = "rows" if target.weights is None else "rows, weighted"
    show.say(
        f"{what} over all {rows}: {show.digits(found['mean'], found['sd'])}, 95% interval"
        f" {_interval_of(found)}."
    )


def _interval_of(row: Any) -> str:
    ends = [column for column in row.index if column.endswith("%")]
    return " to ".join(show.digits(row[end], row["sd"]) for end in ends)


def _table(target: Target, outcome: Outcome) -> None:
    from noisewise.posteriors.summaries import errors_in_words

    summary = outcome.answer.summary()
    naive = None if outcome.naive is None else outcome.naive.summary()
    truth = target.truths
    columns = ["", "mean", "sd", "95% interval"]
    columns += ["truth"] if truth else []
    columns += ["ignoring the noise"] if naive is not None else []
    rows = []
    for name, row in summary.head(_MOST_ROWS).iterrows():
        cells = [
            str(name),
            show.digits(row["mean"], row["sd"], row["mean mcse"]),
            show.digits(row["sd"], row["sd"]),
            _interval(row),
        ]
        cells += ([show.digits(truth[name], row["sd"]) if name in truth else ""]) if truth else []
        cells += (
            [_interval(naive.loc[name]) if name in naive.index else ""] if naive is not None else []
        )
        rows.append(cells)
    show.table(columns, rows, title=f"{target.title}, by {_route(outcome)}")
    if (left_out := len(summary) - len(rows)) > 0:
        show.say(f"... and {left_out:,} more, which --json and the report's table have.")
    show.say(errors_in_words(summary))


def _route(outcome: Outcome) -> str:
    report = outcome.posterior.report
    route = str(report.diagnostics.get("route", report.method))
    return (
        route if outcome.answer is outcome.posterior else f"{route}, corrected by its certificate"
    )


def _interval(row: Any) -> str:
    ends = [column for column in row.index if column.endswith("%")]
    errors = [error for end in ends if math.isfinite(error := row[f"{end} mcse"])]
    error = max(errors, default=math.nan)
    return " to ".join(show.digits(row[end], row["sd"], error) for end in ends)


def _say_verdict(outcome: Outcome, *, quiet: bool) -> None:
    report = outcome.posterior.report
    show.say(f"Verdict: {outcome.assessment.verdict}. {outcome.sentence}")
    assessment = outcome.assessment
    if assessment.verdict.trustworthy and not assessment.trustworthy:
        show.say(f"Do not trust this answer all the same. {assessment.reasons[0].sentence}")
    if quiet:
        return
    for text in outcome.warnings:
        show.say(f"Warning: {text}")
    show.say(f"{_simulations(outcome.simulations)}, {report.seconds:.0f} s; {report.stopped}.")


def _simulations(parts: dict[str, int]) -> str:
    total = f"{sum(parts.values()):,} simulations"
    if len(parts) == 1:
        return total
    return f"{total} ({' + '.join(f'{num:,} for the {what}' for what, num in parts.items())})"
