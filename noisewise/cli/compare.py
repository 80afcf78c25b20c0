"""`noisewise compare`: several runs of one problem side by side."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise.cli import show

EPILOG = """
Example:

  noisewise compare runs/a runs/b
"""


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN...", help="Two or more run directories.", show_default=False
        ),
    ],
    as_json: show.Json = False,
) -> None:
    """Compare the answers of two runs or more of the same parameters.

    C2ST is how often a classifier tells two of them apart: .5 means never better
    than guessing, 1 always. The Kolmogorov-Smirnov distance (KS) is the largest
    difference of two distribution functions. Next to each is the value expected by
    chance for this number of draws.
    """
    from noisewise.diagnostics import compare as compared
    from noisewise.errors import InvalidInputError

    if len(runs) < 2:
        raise InvalidInputError(
            "compare needs two runs or more, as in noisewise compare runs/a runs/b."
        )
    if len({run.resolve() for run in runs}) < len(runs):
        raise InvalidInputError("The same run is given twice: name two that differ.")
    found = compared({str(run): _answer(run) for run in runs})
    if as_json:
        show.print_json(_record(found))
    else:
        _print(found)


def _answer(run: Path) -> Any:
    """The answer that `noisewise infer` showed, or the posterior that Python saved."""
    from noisewise.cli import outcomes
    from noisewise.posteriors import load_posterior

    return (
        outcomes.stored(run).answer
        if os.path.lexists(run / outcomes.CERTIFICATE)
        else load_posterior(run)
    )


def _print(found: Any) -> None:
    columns = ["quantity", "run", *found.table.columns]
    rows = []
    for (quantity, run), row in found.table.iterrows():
        rows.append([quantity, run, *(show.digits(value, row["sd"]) for value in row)])
    show.table(columns, rows, num_names=2)
    names = list(found.kolmogorov_smirnov.columns)
    pairs = []
    for pair, row in found.kolmogorov_smirnov.iterrows():
        limit = found.chance.loc[pair]
        values = [found.c2st.loc[pair], limit["C2ST"], *row, limit["Kolmogorov-Smirnov"]]
        pairs.append([", ".join(pair), *(f"{value:.3f}" for value in values)])
    show.table(["pair", "C2ST", "by chance", *(f"KS {name}" for name in names), "by chance"], pairs)
    show.say(
        "By chance: exact posteriors that are worth as many draws as these stay below in 95% of"
        " cases. What is above differs."
    )


def _record(found: Any) -> dict[str, Any]:
    table: dict[str, dict[str, Any]] = {}
    for (quantity, run), row in found.table.iterrows():
        table.setdefault(quantity, {})[run] = row.to_dict()
    pairs = [
        {
            "runs": list(pair),
            "c2st": found.c2st.loc[pair],
            "kolmogorov_smirnov": row.to_dict(),
            "by_chance": {
                "c2st": found.chance.loc[pair, "C2ST"],
                "kolmogorov_smirnov": found.chance.loc[pair, "Kolmogorov-Smirnov"],
                "num_draws_c2st": int(found.chance.loc[pair, "draws"]),
            },
        }
        for pair, row in found.kolmogorov_smirnov.iterrows()
    ]
    return {"table": table, "pairs": pairs}
