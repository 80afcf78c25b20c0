"""`noisewise resume`: resume a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisewise.cli import show

EPILOG = """
Examples:

  noisewise resume runs/a

  noisewise resume downloads/a --model model.py
"""

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder that --out named.", show_default=False)
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="FILE",
        help="The model file of the run, model.py or model.py:name.",
        show_default=False,
    ),
]


def resume(
    run: RunArgument,
    model: ModelOption = None,
    as_json: show.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no table: the verdict alone.")
    ] = False,
) -> None:
    """Go on with an interrupted run; show a finished one again.

    The model file must be what it was when the run started. A file that the run
    directory names is run only if you have used it for this run, on this machine
    and in this place; else name it by --model. Releases are read from the copies
    in the run directory.
    """
    from noisewise.cli.infer import run as go_on
    from noisewise.cli.requests import remembered

    go_on(remembered(run, model), as_json=as_json, quiet=quiet)
