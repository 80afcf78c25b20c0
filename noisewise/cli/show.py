"""Tables and sentences for people, JSON for machines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from noisewise._core.json_files import dump_json
from noisewise._core.json_values import jsonable
from noisewise._core.text import printable

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for machines.")]


def console() -> Any:
    """A console without markup or highlights; what would command the terminal is left out."""
    from rich.console import Console

    class Safe(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Any]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    return Safe(highlight=False, markup=False, emoji=False)


def say(text: str = "") -> None:
    """A paragraph on stdout, wrapped to the terminal."""
    console().print(text)


def print_json(value: Any) -> None:
    """Strict JSON on stdout: what is not finite becomes null."""
    print(dump_json(jsonable(value)), end="")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    numbers: bool = True,
    num_names: int = 1,
) -> None:
    """A table on stdout.

    Args:
        columns: Headings.
        rows: Cells as text.
        title: Printed above.
        numbers: Whether the columns after the names hold numbers, which are aligned to the right
            and never cut while names can be folded; or else texts.
        num_names: How many columns hold names.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        name = index < num_names
        justify: Any = "right" if numbers and not name else "left"
        shown.add_column(column, justify=justify, overflow="fold", no_wrap=name != numbers)
    for row in rows:
        shown.add_row(*row)
    console().print(shown)


def digits(value: float, sd: float, error: float = 0.0) -> str:
    """The number to a hundredth of its standard deviation, or to three digits where that is
    unknown. Digits behind the first that its Monte Carlo error changes are left out.

    >>> digits(1.23456, 0.1), digits(12345.6, 200.0), digits(1.23456, float("nan"))
    ('1.235', '12346', '1.23')
    >>> digits(1.23456, 0.1, error=0.03)
    '1.23'
    """
    if not (math.isfinite(value) and math.isfinite(sd) and sd > 0.0):
        return f"{value:.3g}"
    decimals = min(12, 2 - math.floor(math.log10(sd)))
    if math.isfinite(error) and error > 0.0:
        decimals = min(decimals, -math.floor(math.log10(error)))
    decimals = max(0, decimals)
    return f"{value:.{decimals}f}" if abs(value) < 1e7 else f"{value:.6g}"
