"""`noisewise reproduce`: the tables and figures of the paper.

It is a command of a checkout alone: `noisewise.cli.app` registers it where this folder lies beside
the package.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise.cli import show
from noisewise.errors import InvalidInputError

EPILOG = """
Examples:

  noisewise reproduce --list

  noisewise reproduce sir-accuracy

  noisewise reproduce all --quick

Results replace those in experiments/results, which git diff then compares;
--out writes them elsewhere. Trials are stored in .cache/reproduce one by one:
an interrupted command resumes where it stopped. claims judges what other items
have found: run these first, or all. The scale of the committed results is 5
trials of 10 rounds of 1000 simulations; --full takes the paper's 20 trials.
"""

_FOLDER = Path("experiments")


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ITEM...", help="Tables or figures (see --list), or all.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One small trial each: does everything work?")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="20 trials, as in the paper.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Where results go; experiments/results or runs/reproduce-quick.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the first trial.", min=0, max=2**31)] = 1,
    listed: Annotated[bool, typer.Option("--list", help="What can be reproduced.")] = False,
) -> None:
    """Reproduce tables and figures of the paper, beside the exact truth.

    Each item writes ITEM.json, a table (ITEM.md) and a figure (ITEM.png, ITEM.pdf).
    """
    if quick and full:
        raise InvalidInputError("--quick and --full exclude each other: choose one.")
    items = _items()
    if listed:
        _list(items)
        return
    slugs = _slugs(items, names or [])
    scale = items.QUICK if quick else items.FULL if full else items.STANDARD
    scale = dataclasses.replace(scale, seed=seed, folder=out or scale.folder)
    from noisewise.cli.interrupts import in_thread

    words = ["noisewise reproduce", *(names or []), *(["--quick"] * quick), *(["--full"] * full)]
    words += ([] if seed == 1 else [f"--seed {seed}"]) + (
        [] if out is None else [f"--out {shlex.quote(str(out))}"]
    )
    command = " ".join(words)
    farewell = f"Interrupted. Finished trials are stored: {command} resumes."
    _check_folder(scale.folder)
    in_thread(lambda: _run(items, slugs, scale), farewell)


def _check_folder(folder: Path) -> None:
    """Before the work, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"Results cannot be written to {folder}: {error.strerror}. Name another folder with"
            " --out."
        ) from None


def _items() -> Any:
    """The registry of items, which write to folders of the checkout."""
    if not (_FOLDER / "items.py").is_file():
        raise InvalidInputError(
            "reproduce writes into the checkout of the repository: run it in the folder that holds"
            " experiments/."
        )
    from experiments import items

    return items


def _slugs(items: Any, names: list[str]) -> list[str]:
    from noisewise.cli.exits import did_you_mean

    known = [slug.replace("_", "-") for slug in items.ITEMS]
    if not names:
        raise InvalidInputError(
            "reproduce needs an item, as in noisewise reproduce sir-accuracy, or all; see --list."
        )
    wanted = [name.replace("_", "-").lower() for name in names]
    if "all" in wanted:
        return known
    for name in wanted:
        if name not in known:
            raise InvalidInputError(f"There is no item {name!r}: {did_you_mean(name, known)}")
    return list(dict.fromkeys(wanted))


def _list(items: Any) -> None:
    modules = {slug.replace("_", "-"): items.load(slug) for slug in items.ITEMS}
    rows = [[slug, module.PAPER, module.TITLE] for slug, module in modules.items()]
    show.table(["item", "in the paper", ""], rows, numbers=False)


def _run(items: Any, slugs: list[str], scale: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    for number, slug in enumerate(slugs, start=1):
        with _progress(f"{number}/{len(slugs)} {slug}") as progress:
            record = items.reproduce(slug, scale, progress)
        path = scale.folder / f"{record['item']}.md"
        show.say(f"{slug}: {record['seconds']:.0f} s, {path}")


@contextlib.contextmanager
def _progress(name: str) -> Iterator[Callable[[str], None]]:
    """What is being done: a changing line on terminals, one line each in logs."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status(name) if console.is_terminal else contextlib.nullcontext() as status:
        show_line = console.print if status is None else status.update
        yield lambda text: show_line(f"{name}: {text}")
