"""The commands of `noisewise`, in the order in which a newcomer meets them.

A command is a function with an epilog in a module of its own; this one only lists them.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from noisewise import __version__
from noisewise.cli import (
    compare,
    import_,
    infer,
    ledger,
    lists,
    plan,
    regress,
    release,
    report,
    resume,
)
from noisewise.cli.exits import Commands

_EPILOG = """
Start here:

  noisewise problems

  noisewise infer sir --epsilon 10 --out runs/sir

  noisewise regress --help

  noisewise release --help

Exit codes: 0 success, 1 bad input, 3 finished but read the verdict before you
use the answer, 70 bug in noisewise, 130 interrupted.
"""

app = typer.Typer(
    cls=Commands,
    help=(
        "Bayesian inference from differentially private releases, for models you can only simulate."
    ),
    epilog=_EPILOG,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_ANALYST, _CURATOR, _REFEREE, _LISTS = (
    "For analysts",
    "For curators",
    "For referees",
    "What there is",
)

_EXPERIMENTS = Path(__file__).parents[2] / "experiments" / "command.py"
"""The command `reproduce`, not part of the package: a checkout has it, a wheel does not."""

app.command("import", rich_help_panel=_ANALYST, epilog=import_.EPILOG)(import_.import_release)
app.command(rich_help_panel=_ANALYST, epilog=infer.EPILOG)(infer.infer)
app.command(rich_help_panel=_ANALYST, epilog=regress.EPILOG)(regress.regress)
app.command(rich_help_panel=_ANALYST, epilog=resume.EPILOG)(resume.resume)
app.command(rich_help_panel=_ANALYST, epilog=report.EPILOG)(report.report)
app.command(rich_help_panel=_ANALYST, epilog=compare.EPILOG)(compare.compare)
app.command(rich_help_panel=_CURATOR, epilog=plan.EPILOG)(plan.plan)
app.command(rich_help_panel=_CURATOR, epilog=release.EPILOG, cls=release.ReleaseCommand)(
    release.release
)
app.command(rich_help_panel=_CURATOR, epilog=ledger.EPILOG)(ledger.ledger)
if _EXPERIMENTS.is_file():
    experiments = importlib.import_module("experiments.command")
    app.command(rich_help_panel=_REFEREE, epilog=experiments.EPILOG)(experiments.reproduce)
app.command(rich_help_panel=_LISTS, epilog=lists.EPILOGS["problems"])(lists.problems)
app.command(rich_help_panel=_LISTS, epilog=lists.EPILOGS["methods"])(lists.methods)
app.command(rich_help_panel=_LISTS, epilog=lists.EPILOGS["mechanisms"])(lists.mechanisms)
app.command(rich_help_panel=_LISTS, epilog=lists.EPILOGS["queries"])(lists.queries)


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version.", is_eager=True, callback=lambda v: _version(v)
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    """Bayesian inference from differentially private releases, for models you can only simulate."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"noisewise {__version__}")
        raise typer.Exit
