"""All parameters against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from noisewise.model.private_model import PrivateModel
from noisewise.plotting.densities import density_surface, view
from noisewise.plotting.marginals import draw_marginal
from noisewise.plotting.style import PRIOR, SHADE, TRUTH, AxesLike, label, looks, many_axes, styled
from noisewise.plotting.tables import DrawsLike, DrawsOf, TruthLike, like, tables, truths

_MASSES = (0.5, 0.9)
"""Shares of draws inside the two contours; the legend says so."""

_MAX_POINTS = 1000
"""Points of a scatter plot, at most: more only paint over each other."""

_PRIOR_AREAS = ("#EEEEEE", SHADE)


@styled
def pair_plot(
    draws: DrawsLike,
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    prior: PrivateModel | DrawsOf | None = None,
    truth: TruthLike = None,
    axes: AxesLike = None,
) -> np.ndarray:
    """All parameters against each other: densities on the diagonal, regions of pairs below it.

    Use it for up to six parameters or so, to see dependence that `marginals` hides. The contours
    hold 50% and 90% of the draws. Pairs that lie on a line are shown as points. Limits follow the
    posteriors, not the prior, whose regions may fill a panel or not reach it.

    Args:
        draws: A posterior, an array (n, p), or a dictionary from methods to these.
        names: Names of the columns of arrays.
        columns: What is shown, in this order; all by default.
        prior: Draws too, or the model: grey regions.
        truth: Known values, black lines: an array, a dictionary from names to values, or a problem.
        axes: p times p axes; those of a new figure by default.

    Returns:
        The axes, shape (p, p); those above the diagonal are empty.

    Raises:
        InvalidInputError: If columns or names do not fit the draws, or methods differ in columns.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> prior = 3.0 * rng.normal(size=(500, 2))
        >>> axes = pair_plot(rng.normal(size=(500, 2)), names=["a", "b"], prior=prior)
        >>> axes.shape, axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()
        ((2, 2), '$a$', '$b$')
    """
    made = tables(draws, names, columns)
    shown = next(iter(made.values())).names
    known = truths(truth, made)
    background = None if prior is None else like(prior, made, "prior", names)
    grid = many_axes(axes, (len(shown), len(shown)), (1.8, 1.65))
    samples = {method: table.values for method, table in made.items()}
    for (i, j), ax in np.ndenumerate(grid):
        if j > i:
            ax.set_axis_off()
        elif j < i:
            _draw_pair(ax, samples, background, j, i)
            _mark(ax, known.get(shown[j]), known.get(shown[i]))
        else:
            column = {method: values[:, i] for method, values in samples.items()}
            behind = None if background is None else background[:, i]
            draw_marginal(ax, column, behind, known.get(shown[i]))
    _frame(grid, samples, shown, known)
    if len(made) > 1 or background is not None or known:
        _add_legend(grid)
    return grid


def _add_legend(grid: np.ndarray) -> None:
    """A legend in the upper right corner, where panels are empty."""
    handles, texts = grid[0, 0].get_legend_handles_labels()
    several = len(grid) > 1
    title = "regions hold 50% and 90%" if several else None
    place: dict[str, Any] = {"loc": "upper right", "borderaxespad": 0.0, "alignment": "left"}
    legend = grid[0, -1].legend(handles, texts, title=title, title_fontsize=8.0, **place)
    legend.set_in_layout(not several)  # it may reach into the empty panels beside it


def _draw_pair(
    ax: Axes, samples: dict[str, np.ndarray], prior: np.ndarray | None, j: int, i: int
) -> None:
    if prior is not None:
        _draw_prior(ax, prior[:, j], prior[:, i])
    for method, look in looks(samples).items():
        x, y = samples[method][:, j], samples[method][:, i]
        surface = density_surface(x, y, _MASSES)
        if surface is None:
            _scatter(ax, x, y, look["color"])
            continue
        *grid, levels = surface
        if len(samples) == 1:
            filled = [*levels, grid[2].max()]
            ax.contourf(*grid, levels=filled, colors=look["color"], alpha=0.2, zorder=2)
        line: dict[str, Any] = {"colors": look["color"], "linestyles": [look["linestyle"]]}
        ax.contour(*grid, levels=levels, linewidths=1.2, zorder=3, **line)


def _draw_prior(ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
    surface = density_surface(x, y, _MASSES)
    if surface is None:
        _scatter(ax, x, y, PRIOR)
        return
    *grid, levels = surface
    filled = [*levels, grid[2].max()]
    ax.contourf(*grid, levels=filled, colors=_PRIOR_AREAS[-len(levels) :], zorder=0)
    ax.contour(*grid, levels=levels, colors=PRIOR, linewidths=0.6, zorder=0)


def _scatter(ax: Axes, x: np.ndarray, y: np.ndarray, color: str) -> None:
    rows = np.linspace(0, len(x) - 1, min(len(x), _MAX_POINTS)).astype(int)
    ax.scatter(x[rows], y[rows], s=4.0, color=color, alpha=0.45, linewidths=0.0, zorder=1)


def _mark(ax: Axes, x: float | None, y: float | None) -> None:
    """The truth, as lines that cross."""
    if x is not None:
        ax.axvline(x, color=TRUTH, linewidth=0.7, zorder=4)
    if y is not None:
        ax.axhline(y, color=TRUTH, linewidth=0.7, zorder=4)
    if x is not None and y is not None:
        ax.plot([x], [y], marker="s", markersize=3.5, color=TRUTH, zorder=5)


def _frame(
    grid: np.ndarray,
    samples: dict[str, np.ndarray],
    shown: tuple[str, ...],
    known: dict[str, float],
) -> None:
    """Shared limits, and names and numbers at the left and the bottom only."""
    last = len(shown) - 1
    for j, name in enumerate(shown):
        limits = view(
            [values[:, j] for values in samples.values()], [known[name]] if name in known else []
        )
        for ax in grid[j:, j]:
            ax.set_xlim(limits)
            ax.locator_params(axis="x", nbins=3)
            ax.tick_params(labelbottom=False)
        for ax in grid[j, :j]:
            ax.set_ylim(limits)
            ax.locator_params(axis="y", nbins=3)
            ax.tick_params(labelleft=False)
        grid[last, j].set_xlabel(label(name))
        grid[last, j].tick_params(labelbottom=True)
        if j:
            grid[j, 0].set_ylabel(label(name))
            grid[j, 0].tick_params(labelleft=True)
    grid[:, 0][0].get_figure(root=True).align_labels()
