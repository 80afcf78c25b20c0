"""Numbers, intervals and tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column holds names, the others are aligned right.

    >>> print(markdown(["method", "C2ST"], [["SPPE", ".51"]]))
    | method | C2ST |
    |---|--:|
    | SPPE | .51 |
    """
    lines = [list(columns), ["---", *["--:"] * (len(columns) - 1)]]
    head, rule = (f"| {' | '.join(lines[0])} |", f"|{'|'.join(lines[1])}|")
    return "\n".join([head, rule, *(f"| {' | '.join(row)} |" for row in rows)])


def number(value: float | None, decimals: int = 2) -> str:
    """With a fixed number of decimals; a dash where there is none.

    >>> number(0.5), number(-0.001, 2), number(None)
    ('0.50', '0.00', '-')
    """
    if value is None or not np.isfinite(value):
        return "-"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def interval(mean: float, low: float, high: float, decimals: int = 2) -> str:
    """A mean and an interval, as the paper prints them: -0.62 (-2.50, 0.99)."""
    return f"{number(mean, decimals)} ({number(low, decimals)}, {number(high, decimals)})"


def spread(values: Sequence[float], decimals: int = 2) -> str:
    """Mean +- sd over trials; the mean alone of one trial.

    >>> spread([1.0, 3.0]), spread([1.0])
    ('2.00 ± 1.41', '1.00')
    """
    mean = number(float(np.mean(values)), decimals)
    return (
        mean if len(values) < 2 else f"{mean} ± {number(float(np.std(values, ddof=1)), decimals)}"
    )


def joined(parts: Sequence[str]) -> str:
    """a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
