"""Densities of one parameter at a time, across methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from noisewise.model.private_model import PrivateModel
from noisewise.plotting.densities import density_curve, is_constant, view
from noisewise.plotting.style import (
    PRIOR,
    SHADE,
    TRUTH,
    AxesLike,
    headroom,
    label,
    legend_above,
    looks,
    many_axes,
    styled,
)
from noisewise.plotting.tables import DrawsLike, DrawsOf, TruthLike, like, tables, truths

_MAX_PER_ROW = 4
"""Panels side by side: 8.8 inches, the width of a landscape page."""


@styled
def marginals(
    draws: DrawsLike,
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    prior: PrivateModel | DrawsOf | None = None,
    truth: TruthLike = None,
    axes: AxesLike = None,
) -> np.ndarray:
    """The density of each parameter and derived quantity, one panel each, across methods.

    Use it first: it shows shape, spread and shift of every quantity. `pair_plot` adds dependence,
    `forest` holds more parameters.

    Args:
        draws: A posterior, an array (n, p), or a dictionary from methods to these.
        names: Names of the columns of arrays.
        columns: What is shown, in this order; all by default.
        prior: Draws too, or the model: a grey area.
        truth: Known values, vertical lines: an array, a dictionary from names to values, or a
            problem.
        axes: One per column shown; those of a new figure by default.

    Returns:
        The axes, shape (p,).

    Raises:
        InvalidInputError: If columns or names do not fit the draws, or methods differ in columns.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> draws = {"exact": rng.normal(size=(500, 2)), "naive": rng.normal(size=(500, 2))}
        >>> axes = marginals(draws, names=["a", "b"], truth=[0.0, 0.0])
        >>> axes.shape, axes[0].get_xlabel()
        ((2,), '$a$')
    """
    made = tables(draws, names, columns)
    shown = next(iter(made.values())).names
    known = truths(truth, made)
    background = None if prior is None else like(prior, made, "prior", names)
    num_columns = min(len(shown), _MAX_PER_ROW)
    num_rows = -(-len(shown) // num_columns)
    shape = (num_rows, num_columns) if axes is None else (1, len(shown))
    grid = many_axes(axes, shape, (2.2, 2.0)).ravel()
    for spare in grid[len(shown) :]:
        spare.set_axis_off()
    for j, (name, ax) in enumerate(zip(shown, grid, strict=False)):
        samples = {method: table.values[:, j] for method, table in made.items()}
        behind = None if background is None else background[:, j]
        draw_marginal(ax, samples, behind, known.get(name))
        ax.set_xlabel(label(name))
        ax.set_ylabel("density" if j % num_columns == 0 else "")
    if len(made) > 1 or background is not None or known:
        legend_above(grid[0], outside=axes is None)
    return grid[: len(shown)]


def draw_marginal(
    ax: Axes, samples: dict[str, np.ndarray], prior: np.ndarray | None, truth: float | None
) -> None:
    """Draw the densities of one quantity on one panel, without ticks on the density's scale.

    Args:
        ax: The panel.
        samples: Draws, shape (n,), by method.
        prior: Draws of the prior, shape (m,), or None.
        truth: The known value, or None.
    """
    for method, look in looks(samples).items():
        _draw_density(ax, samples[method], method, look, fill=len(samples) <= 2)
    if prior is not None and not is_constant(prior):
        x, y = density_curve(prior)
        ax.fill_between(x, y, color=SHADE, edgecolor=PRIOR, linewidth=0.8, label="prior", zorder=0)
    headroom(ax)
    if truth is not None:
        ax.axvline(truth, color=TRUTH, linewidth=1.0, label="truth", zorder=3)
    ax.set_xlim(view(list(samples.values()), [] if truth is None else [truth]))
    ax.locator_params(axis="x", nbins=4)
    ax.set_yticks([])
    ax.spines[["left", "top", "right"]].set_visible(False)


def _draw_density(
    ax: Axes, values: np.ndarray, method: str, look: dict[str, Any], *, fill: bool
) -> None:
    color, line = look["color"], look["linestyle"]
    if is_constant(values):
        ax.axvline(float(values[0]), color=color, linestyle=line, linewidth=2.5, label=method)
        return
    x, y = density_curve(values)
    ax.plot(x, y, color=color, linestyle=line, label=method, zorder=2)
    if fill:
        ax.fill_between(x, y, color=color, alpha=0.2, linewidth=0.0)
