"""What a privacy budget buys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from noisewise._core.arrays import describe, number
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.plotting.style import SHADE, TRUTH, label, legend_above, looks, many_axes, styled
from noisewise.plotting.tables import Table, like, numbers, tables, truths

_DODGE = 1.12
_PERCENT = re.compile(r"\d+(\.\d+)?%")


@styled
def privacy_utility(
    draws: Any,
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    confidential: Any = None,
    truth: Any = None,
    level: float = 0.95,
    axes: Any = None,
) -> np.ndarray:
    r"""The median and central `level` interval of each parameter against epsilon; returns the axes
    (p,).

    `draws` maps epsilons to posteriors or arrays (N, p) with `names`, or methods to such mappings.
    The grey band is the same interval of `confidential` draws, which no budget can beat on average;
    `truth` is an array, a dictionary from names to values or a problem.

    Instead of draws a table may come, with an index of epsilons and parameters: summaries, as
    `pd.concat({epsilon: posterior.summary()})`, whose median and interval are drawn; or with an
    index of epsilons and a column per parameter: standard deviations, say, as a plan predicts them,
    drawn as lines from 0. `names`, `level` and `confidential` are for draws.

    >>> rng = np.random.default_rng(0)
    >>> draws = {epsilon: rng.normal(size=(500, 1)) / epsilon for epsilon in (0.1, 1.0, 10.0)}
    >>> axes = privacy_utility(draws, names=["mu"], truth=[0.0])
    >>> axes[0].get_xscale(), axes[0].get_xlabel(), axes[0].get_ylabel()
    ('log', 'privacy budget $\\epsilon$', '$\\mu$')
    """
    level = number("level", above=0.0, below=1.0)(level)
    if _is_table(draws):
        return _from_table(draws, columns, axes)
    methods = _by_method(draws)
    flat = {
        (name, epsilon): value for name, each in methods.items() for epsilon, value in each.items()
    }
    made = dict(
        zip(
            flat,
            tables({str(key): value for key, value in flat.items()}, names, columns).values(),
            strict=True,
        )
    )
    first = {"": next(iter(made.values()))}
    shown = first[""].names
    known = truths(truth, first)
    base = None if confidential is None else like(confidential, first, "confidential", names)
    grid = _panels(axes, len(shown))
    tails = [(1.0 - level) / 2.0, 0.5, (1.0 + level) / 2.0]
    for j, (ax, name) in enumerate(zip(grid, shown, strict=True)):
        for i, (method, look) in enumerate(looks(methods).items()):
            shift = _DODGE ** (i - (len(methods) - 1) / 2.0)
            by_epsilon = {e: made[method, e] for e in sorted(methods[method])}
            _draw_intervals(ax, *_quantiles(by_epsilon, j, tails), look, method, shift)
        if base is not None:
            low, _, high = np.quantile(base[:, j], tails)
            ax.axhspan(low, high, color=SHADE, linewidth=0.0, label="confidential", zorder=0)
        if name in known:
            ax.axhline(known[name], color=TRUTH, linewidth=1.0, label="truth", zorder=1)
        _frame(ax, sorted({epsilon for _, epsilon in made}), label(name))
    legend_above(grid[0], outside=axes is None, title=f"median and {100 * level:g}% interval")
    return grid


def _by_method(draws: Any) -> dict[str, dict[float, Any]]:
    """Methods to epsilons to draws; a lone mapping from epsilons is called "posterior"."""
    if (
        not isinstance(draws, Mapping)
        or not draws
        or any(isinstance(v, Mapping) and not v for v in draws.values())
    ):
        raise InvalidTypeError(
            "draws must map epsilons to posteriors, as {0.1: ..., 1.0: ...}, or methods to such,"
            " or be a table with an index of epsilons; got"
            f" {describe(draws)}{' that is empty' if isinstance(draws, Mapping) else ''}."
        )
    nested = all(isinstance(value, Mapping) for value in draws.values())
    positive = number(
        "epsilon", above=0.0, tell="draws map epsilons to posteriors, or methods to such mappings."
    )
    methods = draws if nested else {"posterior": draws}
    return {
        str(name): {positive(e): value for e, value in each.items()}
        for name, each in methods.items()
    }


def _quantiles(
    by_epsilon: dict[float, Table], column: int, tails: list[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Epsilons (n,), and low ends, medians and high ends (3, n)."""
    ends = np.stack(
        [np.quantile(table.values[:, column], tails) for table in by_epsilon.values()]
    ).T
    return np.array(list(by_epsilon)), ends


def _draw_intervals(
    ax: Axes, epsilons: np.ndarray, ends: np.ndarray, look: dict[str, Any], name: str, shift: float
) -> None:
    low, median, high = ends
    ax.vlines(shift * epsilons, low, high, color=look["color"], linewidth=1.2)
    ax.plot(
        shift * epsilons,
        median,
        color=look["color"],
        marker=look["marker"],
        label=name,
        linewidth=1.0,
    )


def _panels(axes: Any, num: int) -> np.ndarray:
    return many_axes(axes, (1, num), (3.6 if num == 1 else 2.5, 2.7)).ravel()


def _frame(ax: Axes, budgets: Sequence[float], name: str) -> None:
    ax.set_xscale("log")
    ax.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("privacy budget $\\epsilon$")
    ax.set_ylabel(name)


def _is_table(value: Any) -> bool:
    import pandas as pd

    return isinstance(value, pd.DataFrame)


def _from_table(table: Any, columns: Sequence[str] | None, axes: Any) -> np.ndarray:
    """Summaries, with an index of two levels, or numbers, with an index of one."""
    summaries = table.index.nlevels == 2
    epsilons = np.unique(numbers(table.index.get_level_values(0), "the index of the table"))
    found = (
        list(dict.fromkeys(table.index.get_level_values(1))) if summaries else list(table.columns)
    )
    shown = found if columns is None else list(columns)
    if not shown or not set(shown) <= set(found) or not len(epsilons) or not (epsilons > 0.0).all():
        raise InvalidInputError(
            f"The table must have an index of epsilons above 0 and hold {shown}, got"
            f" {epsilons.tolist()} and {found}."
        )
    ends = _interval_columns(table) if summaries else []
    values = {name: _values(table, name, ends, len(epsilons)) for name in shown}
    grid = _panels(axes, len(shown))
    look = looks([""])[""]
    for ax, name in zip(grid, shown, strict=True):
        if summaries:
            _draw_intervals(ax, epsilons, values[name], look, "posterior", 1.0)
        else:
            ax.plot(epsilons, values[name][0], color=look["color"], marker=look["marker"])
            ax.set_ylim(bottom=0.0)
        _frame(ax, epsilons.tolist(), label(str(name)))
    if summaries:
        legend_above(grid[0], outside=axes is None, title=f"median, {ends[0]} and {ends[2]}")
    return grid


def _values(table: Any, name: str, ends: list[str], num: int) -> np.ndarray:
    """The rows of one quantity, by rising epsilon: (3, num) of a summary, (1, num) else."""
    part = table.xs(name, level=1) if ends else table
    values = part.sort_index()[ends or [name]].to_numpy(dtype=np.float64).T
    if values.shape[1] != num or not np.isfinite(values).all():
        raise InvalidInputError(
            f"The table must give finite values of {name} at each epsilon, once; it does not."
        )
    return np.asarray(values)


def _interval_columns(table: Any) -> list[str]:
    """The names of the low end, the median and the high end, as `summary` writes them."""
    ends = [name for name in table.columns if _PERCENT.fullmatch(str(name))]
    if len(ends) != 2 or "median" not in table:
        raise InvalidInputError(
            "A table of summaries must have the columns median and two interval ends, such as 2.5%"
            f" and 97.5%, got {list(table.columns)}."
        )
    return [ends[0], "median", ends[1]]
