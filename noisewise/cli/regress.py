"""`noisewise regress`: a regression whose outcome was noised, from a file to a posterior."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise.cli import exits, show
from noisewise.cli.options import optional, with_options

if TYPE_CHECKING:
    from noisewise.cli.targets import Target

EPILOG = r"""
Examples:

  noisewise regress survey.csv "rr ~ assets + married + age + female" \
      --law bernoulli --mechanism forced-response --set truth=2/3 \
      --out runs/survey

  noisewise regress views.csv "views ~ weekend + (1 | month)" \
      --law "negative binomial" --mechanism discrete-gaussian \
      --set scale=18.2 --set threshold=90 --missing status=no_file

  noisewise regress answers.csv "answer ~ age" --law bernoulli --by arm \
      --mechanism direct=direct-question --mechanism dice=forced-response \
      --set dice.truth=p --prior "age=Normal(0,1)"

  noisewise regress ban.csv "answer ~ age" --law bernoulli \
      --mechanism stochastic-lie-detector --set truth=honest --set p=share \
      --prior "honest=Uniform(0,1)"

A value of --set is a number, a fraction, the name of a column, or that of a
parameter that is not known and has a --prior.

Laws of --prior: Normal, HalfNormal, StudentT, Cauchy, HalfCauchy, Laplace,
Uniform, Beta, Gamma, InverseGamma, Exponential, LogNormal.

Mechanisms, with what --set sets: forced-response (truth, yes), warner (p),
unrelated-question (p, prevalence), crosswise (p), triangular (p),
stochastic-lie-detector (truth, p), direct-question; laplace, gaussian,
discrete-laplace, discrete-gaussian (scale, threshold), exact (threshold);
rounded (base).

Needs pip install 'noisewise\[formula]'. Exit codes as those of infer.
"""

_MODEL, _ROWS, _WORK = "The model", "Rows", "How much work"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressOptions:
    """The model and its rows, as they are typed."""

    law: Annotated[
        str,
        optional("bernoulli, binomial, poisson, negative binomial or normal.", _MODEL),
    ]
    mechanism: Annotated[
        list[str],
        optional("What was done to the outcome.", _MODEL, metavar="[ENTRY=]NAME"),
    ]
    set_: Annotated[
        list[str] | None,
        optional("A parameter of the mechanism.", _MODEL, "--set", metavar="[ENTRY.]NAME=VALUE"),
    ] = None
    by: Annotated[
        str | None, optional("The column whose entries choose among mechanisms.", _MODEL)
    ] = None
    prior: Annotated[
        list[str] | None,
        optional(
            'The law of a parameter, as "age=Normal(0,1)".', _MODEL, metavar="NAME=LAW(NUMBERS)"
        ),
    ] = None
    link: Annotated[str | None, optional("logit, probit, log or identity.", _MODEL)] = None
    offset: Annotated[
        str | None,
        optional("A column added to the linear predictor: a log exposure.", _MODEL),
    ] = None
    weights: Annotated[
        str | None,
        optional("The column of weights with which rows are averaged.", _ROWS),
    ] = None
    missing: Annotated[
        str | None,
        optional("Rows of which nothing was measured.", _ROWS, metavar="COLUMN=TEXT"),
    ] = None
    absent: Annotated[
        str | None, optional("What stands for suppressed outcomes, besides nothing.", _ROWS)
    ] = None
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing", help="Leave out rows that lack a covariate.", rich_help_panel=_ROWS
        ),
    ] = False
    separator: Annotated[str, typer.Option(help="Between cells.", rich_help_panel=_ROWS)] = ","


@with_options(RegressOptions)
def regress(
    data: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The data, a CSV file.", show_default=False),
    ],
    formula: Annotated[
        str,
        typer.Argument(
            metavar="FORMULA", help="As in lme4: 'answer ~ age + (1 | area)'.", show_default=False
        ),
    ],
    given: RegressOptions,
    seed: Annotated[
        int,
        typer.Option(help="Same seed, same result.", rich_help_panel=_WORK, min=0, max=2**32 - 1),
    ] = 1,
    target_ess: Annotated[
        int | None, optional("How many independent draws the answer should be worth.", _WORK)
    ] = None,
    max_minutes: Annotated[float | None, optional("Stop after this many minutes.", _WORK)] = None,
    out: Annotated[
        Path | None,
        optional("The run directory; by default one under runs/.", "Output", "--out", "-o"),
    ] = None,
    as_json: show.Json = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="No progress and no table: the verdict alone."),
    ] = False,
) -> None:
    """Regress a noised, randomised, rounded or suppressed outcome on the columns of a file.

    The run directory keeps the posterior and report.html. The same command
    resumes an interrupted run, and shows a finished one again.
    """
    from noisewise.cli import settings
    from noisewise.cli.infer import carry_out
    from noisewise.cli.regression_requests import RegressionRequest

    budgets: dict[str, Any] = {"target_ess": target_ess, "max_minutes": max_minutes}
    chosen = {name: value for name, value in budgets.items() if value is not None}
    settings.check_automatic(chosen)
    request = RegressionRequest(
        data=data,
        formula=formula,
        law=given.law,
        mechanisms=tuple(given.mechanism),
        parameters=tuple(given.set_ or ()),
        place=out,
        by=given.by,
        priors=tuple(given.prior or ()),
        link=given.link,
        offset=given.offset,
        weights=given.weights,
        missing=given.missing,
        absent=given.absent,
        drop_missing=given.drop_missing,
        separator=given.separator,
        seed=seed,
        settings=chosen,
    )
    target, digest = request.load()
    request.remember(digest)
    if not (as_json or quiet):
        _tell_notes(target)
    carry_out(request, target, as_json=as_json, quiet=quiet)


def _tell_notes(target: Target) -> None:
    """What to know of the model before it is run."""
    for finding in () if target.analysis is None else target.analysis.findings:
        exits.tell(f"Note: {finding}")
