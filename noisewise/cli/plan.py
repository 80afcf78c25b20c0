"""`noisewise plan`: what an analyst will learn at each privacy budget, before any release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisewise.cli import catalogue, show
from noisewise.cli.option_texts import neighbours_if_given
from noisewise.cli.targets import model_from, ready_problem, released
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    from noisewise.planning import Plan

EPILOG = r"""
Examples:

  noisewise plan linear_regression --epsilon 0.1 0.3 1 3 10

  noisewise plan model.py:model --release trial.json --epsilon 1 10 --picture plan.png

  noisewise plan model.py:model --release trial.json --epsilon 1 10 \
      --neighbours add-remove --max-contributions 3
"""

_BUDGETS = (0.1, 0.3, 1.0, 3.0, 10.0)


def plan(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PROBLEM",
            help="A ready problem, or model.py:model, a file and the model in it.",
            show_default=False,
        ),
    ],
    epsilon: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER...",
            help="Budgets, one or more; 0.1 0.3 1 3 10 by default.",
            show_default=False,
        ),
    ] = None,
    release: Annotated[
        list[Path] | None,
        typer.Option(
            "--release",
            "-r",
            help=(
                "For def model(release): an earlier or a trial release, whose query and kind of"
                " noise the plan takes."
            ),
            show_default=False,
        ),
    ] = None,
    simulations: Annotated[
        int, typer.Option(help="Simulations, one set for all budgets.")
    ] = 50_000,
    releases: Annotated[int, typer.Option(help="Simulated releases over which is averaged.")] = 100,
    delta: Annotated[float, typer.Option(help="The delta of Gaussian noise.")] = 1e-6,
    neighbours: Annotated[
        str | None,
        typer.Option(
            help="replace-one or add-remove; by default those of the model's noise.",
            show_default=False,
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="With --neighbours: whose records.", show_default=False)
    ] = None,
    max_contributions: Annotated[
        int | None,
        typer.Option(
            help="With add-remove: the most records of one unit.", min=1, show_default=False
        ),
    ] = None,
    max_per_cell: Annotated[
        int | None,
        typer.Option(help="The most of these in one cell.", min=1, show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same plan.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Write the plan as JSON.", show_default=False)
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the plan: .png, .pdf or .svg.", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, for machines.")
    ] = False,
) -> None:
    """What will an analyst learn at each privacy budget?

    Expected posterior widths and coverage before any data are released, from ONE set of
    simulations: noise is free.
    """
    target, budgets = _sorted_out(words, epsilon or [])
    options = {
        "neighbours": neighbours_if_given(neighbours, unit, max_contributions, max_per_cell),
        "num_simulations": simulations,
        "num_releases": releases,
        "delta": delta,
    }
    found = _found(target, tuple(release or ()), budgets, options, seed)
    if out is not None:
        found.save(out)
    if picture is not None:
        _draw(found, picture)
    if as_json:
        show.print_json(found.to_spec())
    else:
        _print(found)


def _sorted_out(words: list[str], epsilon: list[str]) -> tuple[str, tuple[float, ...]]:
    """The problem and the budgets: a word that is a number is a budget, as in `--epsilon 0.1 1 10`.

    Args:
        words: The words that belong to no option.
        epsilon: What follows --epsilon.

    Raises:
        InvalidInputError: If there is not one problem.
    """
    targets, budgets = [], []
    for text in [*epsilon, *words]:
        for part in text.split(",") if text in epsilon else [text]:
            try:
                budgets.append(float(part))
            except ValueError:
                targets.append(part)
    if len(targets) != 1:
        got = ", ".join(targets) or "none"
        raise InvalidInputError(
            f"plan needs one problem, as in noisewise plan sir --epsilon 0.1 1 10; got {got}."
        )
    if budgets and not epsilon:
        raise InvalidInputError(
            f"Budgets follow --epsilon, as in noisewise plan {targets[0]} --epsilon 0.1 1 10."
        )
    return targets[0], tuple(sorted(set(budgets))) or _BUDGETS


def _found(
    target: str,
    files: tuple[Path, ...],
    budgets: tuple[float, ...],
    options: dict[str, Any],
    seed: int,
) -> Plan:
    """The plan of a ready problem, or of the model in a file.

    Args:
        target: The name of a problem, or FILE.py:NAME.
        files: Releases, for models in files.
        budgets: The epsilons.
        options: Arguments of `nw.plan` by name.
        seed: The seed of the plan.
    """
    import jax

    from noisewise.planning import plan as make_plan

    key = jax.random.key(seed)
    if ":" in target or target.endswith(".py"):
        path, _, name = target.partition(":")
        if not Path(path).is_file():
            raise InvalidInputError(f"There is no Python file {path}.")
        return make_plan(
            key, model_from(Path(path), name or "model", released(files)), budgets, **options
        )
    if files:
        raise InvalidInputError(
            "--release is for models of your own: a ready problem has its query and its noise."
        )
    item = catalogue.find("problem", target, catalogue.problems())
    models = {epsilon: ready_problem(item, epsilon).model for epsilon in budgets}
    mechanisms = {epsilon: model.mechanism for epsilon, model in models.items()}
    return make_plan(key, models[budgets[-1]], mechanisms=mechanisms, **options)


def _draw(found: Plan, path: Path) -> None:
    """Write the plot to a file."""
    import matplotlib

    matplotlib.use("Agg")
    grid = found.plot()
    figure = getattr(grid, "flat", [grid])[0].get_figure(root=True)
    try:
        figure.savefig(path, dpi=200)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be drawn: {error}.") from None


def _print(found: Plan) -> None:
    """The table, then a sentence for each budget, then warnings."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    columns = [
        "epsilon",
        "quantity",
        "mean sd",
        "of prior",
        f"median {100 * found.level:g}% width",
        "coverage",
    ]
    for index, column in enumerate(columns):
        shown.add_column(column, justify="left" if index == 1 else "right", no_wrap=True)
    for (label, name), row in found.table.iterrows():
        cells = [
            f"{row['mean sd']:.3g} ± {row['mean sd error']:.1g}",
            f"{100 * row['share of prior']:.0f}%",
        ]
        cells += [
            f"{row['median width']:.3g} ± {row['median width error']:.1g}",
            f"{100 * row['coverage']:.0f}%",
        ]
        first = label if name == found.names[0] else ""
        shown.add_row(
            f"{first:g}" if isinstance(first, float) else first,
            name,
            *cells,
            end_section=name == found.names[-1],
        )
    console = show.console()
    console.print(shown)
    console.print(
        f"Means and medians are over {found.num_releases:,} simulated releases, ± their standard"
        " errors."
    )
    for label in found.budgets:
        console.print(found.sentence(label))
    for text in found.warnings:
        console.print(f"Warning: {text}")
