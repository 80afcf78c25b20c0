"""How far methods are from each other, parameter by parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noisewise._core.arrays import describe
from noisewise.diagnostics import Comparison
from noisewise.errors import InvalidInputError
from noisewise.metrics import kolmogorov_smirnov
from noisewise.plotting.style import AxesLike, label, many_axes, styled
from noisewise.plotting.tables import DrawsOf, tables

_MIN_RANGE = 0.2
"""Distance at which the colour scale ends, at least: chance alone must not look dark."""


@styled
def ks_heatmap(
    draws: Mapping[str, DrawsOf] | Comparison,
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    axes: AxesLike = None,
) -> np.ndarray:
    """How far methods are from each other: Kolmogorov-Smirnov distances of every two, parameter by
    parameter.

    Use it where no exact posterior is known: methods that agree have light cells. All panels
    share one scale, from 0 to the largest distance.

    Args:
        draws: A dictionary from two methods or more to posteriors or arrays (n, p), or what
            `nw.diagnostics.compare` gives.
        names: Names of the columns of arrays.
        columns: What is shown, in this order; all by default.
        axes: One per column shown; those of a new figure by default.

    Returns:
        The axes, shape (p,).

    Raises:
        InvalidInputError: If there are fewer than two methods, or columns do not fit.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> draws = {"exact": rng.normal(size=(500, 1)), "naive": 1.0 + rng.normal(size=(500, 1))}
        >>> axes = ks_heatmap(draws, names=["b"])
        >>> [text.get_text() for text in axes[0].texts]
        ['0', '.40', '.40', '0']
    """
    methods, shown, distances = (
        _compared(draws, columns)
        if isinstance(draws, Comparison)
        else _from_draws(draws, names, columns)
    )
    largest = max(_MIN_RANGE, float(distances.max()))
    side = 0.62 + 0.42 * len(methods)
    grid = many_axes(axes, (1, len(shown)), (side, side + 0.35)).ravel()
    for j, (ax, name) in enumerate(zip(grid, shown, strict=True)):
        image = ax.imshow(distances[..., j], cmap="Blues", vmin=0.0, vmax=largest)
        for (row, column), value in np.ndenumerate(distances[..., j]):
            color = "white" if value > 0.55 * largest else "black"
            ax.text(column, row, _short(value), ha="center", va="center", fontsize=7.5, color=color)
        ax.set_xticks(range(len(methods)), methods, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(len(methods)), methods if j == 0 else [])
        ax.tick_params(length=0.0)
        ax.spines[:].set_visible(False)
        ax.set_title(label(name))
    if axes is None:
        grid[0].figure.colorbar(image, ax=list(grid), label="KS distance", shrink=0.8, pad=0.02)
    return grid


_Found = tuple[list[str], tuple[str, ...], np.ndarray]
"""Methods, columns, and distances (M, M, p), symmetric with a zero diagonal."""


def _from_draws(
    draws: object, names: Sequence[str] | None, columns: Sequence[str] | None
) -> _Found:
    if not isinstance(draws, Mapping) or len(draws) < 2:
        raise InvalidInputError(
            'draws must map two methods or more to posteriors, as {"SPPE": ..., "exact": ...},'
            f" or be what nw.diagnostics.compare gives; got {describe(draws)}."
        )
    made = tables(draws, names, columns)
    values = [table.values for table in made.values()]
    shown = next(iter(made.values())).names
    distances = np.zeros((len(values), len(values), len(shown)))
    for a in range(len(values)):
        for b in range(a):
            distances[a, b] = distances[b, a] = kolmogorov_smirnov(values[a], values[b])
    return list(made), shown, distances


def _compared(found: Comparison, columns: Sequence[str] | None) -> _Found:
    table = found.kolmogorov_smirnov
    shown = tuple(table.columns) if columns is None else tuple(columns)
    missing = [name for name in shown if name not in table.columns]
    if missing or not shown:
        raise InvalidInputError(
            f"columns must be among {', '.join(table.columns)}, got {list(shown)}."
        )
    methods = list(found.c2st.index)
    distances = np.zeros((len(methods), len(methods), len(shown)))
    for (first, second), row in table[list(shown)].iterrows():
        a, b = methods.index(first), methods.index(second)
        distances[a, b] = distances[b, a] = row
    return methods, shown, distances


def _short(value: float) -> str:
    """Two decimals without a leading zero."""
    return "0" if value == 0.0 else f"{value:.2f}".removeprefix("0").replace("1.00", "1")
