"""How far methods are from each other, parameter by parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noisewise._arrays import describe
from noisewise.errors import InvalidInputError
from noisewise.metrics import kolmogorov_smirnov
from noisewise.plotting.style import label, many_axes, styled
from noisewise.plotting.tables import Table, tables

_LEAST_RANGE = 0.2


@styled
def ks_heatmap(
    draws: Mapping[str, Any],
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    axes: Any = None,
) -> np.ndarray:
    """Kolmogorov-Smirnov distances between the marginals of every two methods, a panel per parameter; returns the axes (p,).

    `draws` maps two methods or more to posteriors or arrays (N, p) with `names`; `columns` chooses and orders what is shown. All panels
    share one scale, from 0 to the largest distance.

    >>> rng = np.random.default_rng(0)
    >>> axes = ks_heatmap({"exact": rng.normal(size=(500, 1)), "naive": 1.0 + rng.normal(size=(500, 1))}, names=["b"])
    >>> [text.get_text() for text in axes[0].texts]
    ['0', '.40', '.40', '0']
    """
    if not isinstance(draws, Mapping) or len(draws) < 2:
        raise InvalidInputError(
            f'draws must map two methods or more to posteriors, as {{"SPPE": ..., "exact": ...}}; got {describe(draws)}.'
        )
    made = tables(draws, names, columns)
    shown = next(iter(made.values())).names
    distances = _distances(list(made.values()))
    largest = max(_LEAST_RANGE, float(distances.max()))
    side = 0.62 + 0.42 * len(made)
    grid = many_axes(axes, (1, len(shown)), (side, side + 0.35)).ravel()
    for j, (ax, name) in enumerate(zip(grid, shown, strict=True)):
        image = ax.imshow(distances[..., j], cmap="Blues", vmin=0.0, vmax=largest)
        for (row, column), value in np.ndenumerate(distances[..., j]):
            color = "white" if value > 0.55 * largest else "black"
            ax.text(column, row, _short(value), ha="center", va="center", fontsize=7.5, color=color)
        ax.set_xticks(range(len(made)), list(made), rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(len(made)), list(made) if j == 0 else [])
        ax.tick_params(length=0.0)
        ax.spines[:].set_visible(False)
        ax.set_title(label(name))
    if axes is None:
        grid[0].figure.colorbar(image, ax=list(grid), label="KS distance", shrink=0.8, pad=0.02)
    return grid


def _distances(made: list[Table]) -> np.ndarray:
    """Distances (M, M, p), symmetric with a zero diagonal."""
    num = len(made)
    distances = np.zeros((num, num, len(made[0].names)))
    for a in range(num):
        for b in range(a):
            distances[a, b] = distances[b, a] = kolmogorov_smirnov(made[a].values, made[b].values)
    return distances


def _short(value: float) -> str:
    """Two decimals without a leading zero."""
    return "0" if value == 0.0 else f"{value:.2f}".removeprefix("0")
