"""What a privacy budget buys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from noisewise._arrays import describe, number
from noisewise.errors import InvalidTypeError
from noisewise.plotting.style import SHADE, TRUTH, label, legend_above, looks, many_axes, styled
from noisewise.plotting.tables import Table, like, tables, truths

_DODGE = 1.12


@styled
def privacy_utility(
    draws: Mapping[Any, Any],
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    confidential: Any = None,
    truth: Any = None,
    level: float = 0.95,
    axes: Any = None,
) -> np.ndarray:
    r"""The median and central `level` interval of each parameter against epsilon; returns the axes (p,).

    `draws` maps epsilons to posteriors or arrays (N, p) with `names`, or methods to such mappings. The grey band is the same interval
    of `confidential` draws, which no budget can beat on average; `truth` is an array or a dictionary from names to values.

    >>> rng = np.random.default_rng(0)
    >>> draws = {epsilon: rng.normal(size=(500, 1)) / epsilon for epsilon in (0.1, 1.0, 10.0)}
    >>> axes = privacy_utility(draws, names=["mu"], truth=[0.0])
    >>> axes[0].get_xscale(), axes[0].get_xlabel(), axes[0].get_ylabel()
    ('log', 'privacy budget $\\epsilon$', '$\\mu$')
    """
    level = number("level", above=0.0, below=1.0)(level)
    methods = _by_method(draws)
    flat = {(name, epsilon): value for name, each in methods.items() for epsilon, value in each.items()}
    made = dict(
        zip(flat, tables({str(key): value for key, value in flat.items()}, names, columns).values(), strict=True)
    )
    shown = next(iter(made.values())).names
    known = truths(truth, shown)
    base = None if confidential is None else like(confidential, {"": next(iter(made.values()))}, "confidential", names)
    grid = many_axes(axes, (1, len(shown)), (3.4 if len(shown) == 1 else 2.5, 2.5)).ravel()
    tails = [(1.0 - level) / 2.0, 0.5, (1.0 + level) / 2.0]
    for j, (ax, name) in enumerate(zip(grid, shown, strict=True)):
        for i, (method, look) in enumerate(looks(methods).items()):
            shift = _DODGE ** (i - (len(methods) - 1) / 2.0)
            _draw_method(ax, {e: made[method, e] for e in sorted(methods[method])}, j, tails, look, method, shift)
        if base is not None:
            low, _, high = np.quantile(base[:, j], tails)
            ax.axhspan(low, high, color=SHADE, linewidth=0.0, label="confidential", zorder=0)
        if name in known:
            ax.axhline(known[name], color=TRUTH, linewidth=1.0, label="truth", zorder=1)
        ax.set_xscale("log")
        budgets = sorted({epsilon for _, epsilon in made})
        ax.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
        ax.set_xticks([], minor=True)
        ax.set_xlabel("privacy budget $\\epsilon$")
        ax.set_ylabel(label(name))
    if len(methods) > 1 or base is not None or known:
        legend_above(grid[0], outside=axes is None)
    return grid


def _by_method(draws: Any) -> dict[str, dict[float, Any]]:
    """Methods to epsilons to draws; a lone mapping from epsilons is called "posterior"."""
    if not isinstance(draws, Mapping) or not draws:
        raise InvalidTypeError(
            f"draws must map epsilons to posteriors, as {{0.1: ..., 1.0: ...}}, or methods to such; got {describe(draws)}."
        )
    nested = all(isinstance(value, Mapping) for value in draws.values())
    positive = number("epsilon", above=0.0, tell="draws map epsilons to posteriors, or methods to such mappings.")
    methods = draws if nested else {"posterior": draws}
    return {str(name): {positive(e): value for e, value in each.items()} for name, each in methods.items()}


def _draw_method(
    ax: Axes,
    by_epsilon: dict[float, Table],
    column: int,
    tails: list[float],
    look: dict[str, Any],
    name: str,
    shift: float,
) -> None:
    places = shift * np.array(list(by_epsilon))
    low, median, high = np.stack([np.quantile(table.values[:, column], tails) for table in by_epsilon.values()]).T
    ax.vlines(places, low, high, color=look["color"], linewidth=1.2)
    ax.plot(places, median, **look, label=name, linewidth=1.0)
