"""`noisewise infer`: from a release, or a ready problem, to a posterior and what it is worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise.cli import catalogue, exits
from noisewise.cli.requests import Asked, Request

if TYPE_CHECKING:
    from noisewise.cli.targets import Target

EPILOG = """
Examples:

  noisewise infer sir --epsilon 10 --out runs/sir

  noisewise infer sir --method sppe --num-rounds 3 --out runs/sppe

  noisewise infer model.py:model --release release.json --out runs/a

  noisewise infer model.py --release mean.json --release ages.json

A model file defines a function of the release that returns a
nw.PrivateModel: def model(release).

Exit codes: 0 the method is exact, or its answer certified; 1 bad input; 3
finished, but the approximation is poor or unchecked, or exact draws are few
(where the corrected draws of a poor one may be used, the verdict says so);
130 Ctrl-C.
"""

_HOW, _BUDGET, _OUTPUT = "How", "How much work", "Output"


def _complete_target(incomplete: str) -> list[tuple[str, str]]:
    files = [(str(path), "a model file") for path in Path().glob("*.py")]
    return [
        (name, text)
        for name, text in _slugs(catalogue.problems()) + files
        if name.startswith(incomplete)
    ]


def _complete_method(incomplete: str) -> list[tuple[str, str]]:
    return [
        (name, text) for name, text in _slugs(catalogue.methods()) if name.startswith(incomplete)
    ]


def _slugs(items: tuple[catalogue.Item, ...]) -> list[tuple[str, str]]:
    return [(item.slug, item.line) for item in items]


def infer(
    target: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM_OR_FILE",
            help=(
                "A ready problem (see noisewise problems), or a file of your own and the name in"
                " it: model.py:model."
            ),
            autocompletion=_complete_target,
            show_default=False,
        ),
    ],
    releases: Annotated[
        list[Path] | None,
        typer.Option(
            "--release",
            "-r",
            help="What was released, a JSON file; several of one dataset combine.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The privacy budget of a ready problem; by default the problem's own.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            help=(
                "See noisewise methods. By default the cheapest route that can show how good it is."
            ),
            autocompletion=_complete_method,
            rich_help_panel=_HOW,
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Same seed, same result.", rich_help_panel=_HOW, min=0, max=2**32 - 1),
    ] = 1,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the method.",
            rich_help_panel=_HOW,
            show_default=False,
        ),
    ] = None,
    num_rounds: Annotated[
        int | None,
        typer.Option(
            help="Rounds of a sequential method.", rich_help_panel=_BUDGET, show_default=False
        ),
    ] = None,
    num_simulations: Annotated[
        int | None,
        typer.Option(help="Simulations per round.", rich_help_panel=_BUDGET, show_default=False),
    ] = None,
    target_ess: Annotated[
        int | None,
        typer.Option(
            help="How many independent draws the answer should be worth.",
            rich_help_panel=_BUDGET,
            show_default=False,
        ),
    ] = None,
    max_simulations: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many simulations, --certify not counted.",
            rich_help_panel=_BUDGET,
            show_default=False,
        ),
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            help="Stop after this many minutes, --certify not counted.",
            rich_help_panel=_BUDGET,
            show_default=False,
        ),
    ] = None,
    certify: Annotated[
        int,
        typer.Option(
            help="Extra simulations that judge an answer that is not exact.",
            rich_help_panel=_BUDGET,
            min=1000,
        ),
    ] = 50_000,
    workers: Annotated[
        int,
        typer.Option(
            help="Processes for simulators in plain Python.", rich_help_panel=_BUDGET, min=1
        ),
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The run directory; by default one under runs/.",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="One JSON object on stdout, for machines.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="No progress and no table: the verdict alone.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
) -> None:
    """Infer a posterior from private numbers, and say how far to trust it.

    The run directory keeps the posterior, its certificate, report.html and the
    command. The same command resumes an interrupted run.
    """
    from noisewise.cli import settings

    named = {
        "num_rounds": num_rounds,
        "num_simulations": num_simulations,
        "target_ess": target_ess,
        "max_simulations": max_simulations,
        "max_minutes": max_minutes,
    }
    chosen = _merged(
        {name: value for name, value in named.items() if value is not None},
        settings.parsed(assignments or []),
    )
    request = Request(
        target=target,
        out=(
            out
            if out is not None
            else _default_out(target, tuple(releases or ()), method, epsilon, seed)
        ),
        releases=tuple(releases or ()),
        method=method,
        epsilon=epsilon,
        seed=seed,
        settings=chosen,
        certify=certify,
        workers=workers,
    )
    run(request, as_json=as_json, quiet=quiet)


def run(request: Request, *, as_json: bool, quiet: bool) -> None:
    """Run a request, show its outcome, and exit with a code that says how far to trust it."""
    from noisewise.cli import settings, targets

    request.check()
    if request.method is None:
        settings.check_automatic(request.settings)
        target = targets.load(request)
    else:
        method = settings.method_from(request.method, request.settings)
        target = targets.load(request)
        method.check(target.model)
    if not request.remember():
        exits.tell(
            f"This machine keeps no record of the run. To resume it: {request.resume_command}"
        )
    carry_out(request, target, as_json=as_json, quiet=quiet)


def carry_out(request: Asked, target: Target, *, as_json: bool, quiet: bool) -> None:
    """Infer, write the report, show the outcome, and exit with a code that says how far to trust
    it.
    """
    from noisewise.cli import outcomes, results
    from noisewise.cli.interrupts import in_thread

    if not (as_json or quiet):
        exits.tell(
            f"{target.title}: {', '.join(target.model.names)} by"
            f" {request.method or 'the cheapest route'}, into {request.out}"
        )

    def work() -> tuple[Any, Path]:
        outcome = outcomes.infer(request, target, progress=not (as_json or quiet))
        outcome = outcomes.checked(outcome, target)
        return outcome, outcomes.write_report(request, target, outcome)

    farewell = f"Interrupted. To resume: {request.resume_command}"
    outcome, page = in_thread(work, farewell)
    results.present(request, target, outcome, page, as_json=as_json, quiet=quiet)
    if not outcome.assessment.trustworthy:
        raise typer.Exit(exits.UNTRUSTWORTHY)


def _merged(named: dict[str, Any], assigned: dict[str, Any]) -> dict[str, Any]:
    from noisewise.errors import InvalidInputError

    twice = sorted(set(named) & set(assigned))
    if twice:
        raise InvalidInputError(
            f"{twice[0]} is given twice, by its own option and by --set: use one."
        )
    return named | assigned


def _default_out(
    target: str, releases: tuple[Path, ...], method: str | None, epsilon: float | None, seed: int
) -> Path:
    stem = Path(target.partition(".py")[0]).name.replace(":", "-").replace("_", "-") or "run"
    noise = [f"epsilon{epsilon:g}"] if epsilon is not None else [path.stem for path in releases]
    parts = [stem, *noise, method or "auto", f"seed{seed}"]
    return Path("runs") / "-".join(parts)
