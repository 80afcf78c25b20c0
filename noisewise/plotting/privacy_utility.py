"""What a privacy budget buys: posteriors against epsilon."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from matplotlib.axes import Axes

from noisewise._core.arrays import describe, number
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.plotting.style import (
    SHADE,
    TRUTH,
    AxesLike,
    label,
    legend_above,
    looks,
    many_axes,
    styled,
)
from noisewise.plotting.tables import DrawsOf, Table, TruthLike, like, numbers, tables, truths

if TYPE_CHECKING:
    import pandas as pd

_DODGE = 1.12
"""Factor between the epsilons at which two methods are drawn: apart, and clearly one budget."""

_PERCENT = re.compile(r"\d+(\.\d+)?%")


@styled
def privacy_utility(
    draws: Mapping[float, DrawsOf] | Mapping[str, Mapping[float, DrawsOf]] | pd.DataFrame,
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    confidential: DrawsOf | None = None,
    truth: TruthLike = None,
    level: float = 0.95,
    axes: AxesLike = None,
) -> np.ndarray:
    r"""The median and central interval of each parameter against epsilon.

    Curators use it to choose a budget, with posteriors of several budgets or with the table of a
    plan. The grey band is the interval of `confidential` draws, which no budget can beat on
    average.

    In place of draws a table may come, with an index of epsilons and parameters: summaries, as
    `pd.concat({epsilon: posterior.summary()})`, whose median and interval are drawn. A table with
    an index of epsilons and a column per parameter holds standard deviations, say, as a plan
    predicts them; they are drawn as lines from 0. `names`, `level` and `confidential` are for
    draws.

    Args:
        draws: A dictionary from epsilons to posteriors or arrays (n, p), or from methods to such
            dictionaries, or a table.
        names: Names of the columns of arrays.
        columns: What is shown, in this order; all by default.
        confidential: Draws given the confidential statistic.
        truth: Known values: an array, a dictionary from names to values, or a problem.
        level: Mass of the interval.
        axes: One per column shown; those of a new figure by default.

    Returns:
        The axes, shape (p,).

    Raises:
        InvalidTypeError: If `draws` is not such a dictionary.
        InvalidInputError: If an epsilon is not above 0, or columns do not fit.

    Example:
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
    made = _tables(methods, names, columns)
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


def _tables(
    methods: Mapping[str, Mapping[float, Any]],
    names: Sequence[str] | None,
    columns: Sequence[str] | None,
) -> dict[tuple[str, float], Table]:
    """One table for each method and epsilon, all with the same columns."""
    flat = {(name, e): value for name, each in methods.items() for e, value in each.items()}
    made = tables({str(key): value for key, value in flat.items()}, names, columns)
    return dict(zip(flat, made.values(), strict=True))


def _by_method(draws: object) -> dict[str, dict[float, Any]]:
    """Methods to epsilons to draws; a lone mapping from epsilons is called "posterior"."""
    if not _is_filled(draws):
        empty = " that is empty" if isinstance(draws, Mapping) else ""
        raise InvalidTypeError(
            "draws must map epsilons to posteriors, as {0.1: ..., 1.0: ...}, or methods to such,"
            f" or be a table with an index of epsilons; got {describe(draws)}{empty}."
        )
    nested = all(isinstance(value, Mapping) for value in draws.values())
    hint = "draws map epsilons to posteriors, or methods to such mappings."
    positive = number("epsilon", above=0.0, advice=hint)
    methods = draws if nested else {"posterior": draws}
    return {
        str(name): {positive(e): value for e, value in each.items()}
        for name, each in methods.items()
    }


def _is_filled(draws: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether draws are a dictionary that is not empty, and holds no empty ones."""
    if not isinstance(draws, Mapping) or not draws:
        return False
    return not any(isinstance(value, Mapping) and not value for value in draws.values())


def _quantiles(
    by_epsilon: dict[float, Table], column: int, tails: list[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Epsilons (n,), and low ends, medians and high ends (3, n)."""
    ends = [np.quantile(table.values[:, column], tails) for table in by_epsilon.values()]
    return np.array(list(by_epsilon)), np.stack(ends).T


def _draw_intervals(
    ax: Axes, epsilons: np.ndarray, ends: np.ndarray, look: dict[str, Any], name: str, shift: float
) -> None:
    low, median, high = ends
    ax.vlines(shift * epsilons, low, high, color=look["color"], linewidth=1.2)
    line: dict[str, Any] = {"color": look["color"], "marker": look["marker"], "linewidth": 1.0}
    ax.plot(shift * epsilons, median, label=name, **line)


def _panels(axes: AxesLike, num: int) -> np.ndarray:
    return many_axes(axes, (1, num), (3.6 if num == 1 else 2.5, 2.7)).ravel()


def _frame(ax: Axes, budgets: Sequence[float], name: str) -> None:
    ax.set_xscale("log")
    ax.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("privacy budget $\\epsilon$")
    ax.set_ylabel(name)


def _is_table(value: object) -> TypeGuard[pd.DataFrame]:
    import pandas as pd

    return isinstance(value, pd.DataFrame)


def _from_table(table: pd.DataFrame, columns: Sequence[str] | None, axes: AxesLike) -> np.ndarray:
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


def _values(table: pd.DataFrame, name: str, ends: list[str], num: int) -> np.ndarray:
    """The rows of one quantity, by rising epsilon: (3, num) of a summary, (1, num) else."""
    part = table.xs(name, level=1) if ends else table
    values = part.sort_index()[ends or [name]].to_numpy(dtype=np.float64).T
    if values.shape[1] != num or not np.isfinite(values).all():
        raise InvalidInputError(
            f"The table must give finite values of {name} at each epsilon, once; it does not."
        )
    return np.asarray(values)


def _interval_columns(table: pd.DataFrame) -> list[str]:
    """The names of the low end, the median and the high end, as `summary` writes them."""
    ends = [name for name in table.columns if _PERCENT.fullmatch(str(name))]
    if len(ends) != 2 or "median" not in table:
        raise InvalidInputError(
            "A table of summaries must have the columns median and two interval ends, such as 2.5%"
            f" and 97.5%, got {list(table.columns)}."
        )
    return [ends[0], "median", ends[1]]
