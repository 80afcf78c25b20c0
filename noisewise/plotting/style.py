"""How plots look: colours that colour-blind readers can tell apart, small type for papers, names as
formulas.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from noisewise._core.arrays import describe
from noisewise.errors import InvalidInputError, InvalidTypeError

P = ParamSpec("P")
T = TypeVar("T")

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
"""The palette of Okabe and Ito (2008), without black, darkest first."""
TRUTH, PRIOR, SHADE = "#000000", "#8C8C8C", "#D9D9D9"
"""The colours of known values, of priors, and of bands in which nothing is wrong."""

_DASHES: tuple[Any, ...] = ("-", (0, (5.0, 1.5)), (0, (1.2, 1.2)), (0, (6.0, 1.5, 1.2, 1.5)))
_MARKERS = "osD^vPX"
_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|eta|theta|kappa|lambda|mu|nu|rho|sigma|tau|phi|chi|psi|omega"
)
_NAME = re.compile(r"(log_)?([A-Za-z]+)(\d*)((?:_\d+)*)(?:\[([\d, ]+)\])?")

_MARKUP = re.compile(r"(?<=\\)[a-z]+|[${}]")

STYLE: Any = {
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.0,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.wspace": 0.04,
    "savefig.dpi": 100,
}
"""Matplotlib settings that hold while a plot is drawn; `plt.rcParams` itself is left alone."""


def styled(plot: Callable[P, T]) -> Callable[P, T]:
    """The same plot, drawn under `STYLE`."""

    @functools.wraps(plot)
    def draw(*args: P.args, **kwargs: P.kwargs) -> T:
        with matplotlib.rc_context(STYLE):
            return plot(*args, **kwargs)

    return draw


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour, a marker and a kind of line for each name, so that curves can be told apart in
    grey, too; different up to 28 names.

    >>> looks(["exact", "SPPE"])["SPPE"]
    {'color': '#D55E00', 'linestyle': (0, (5.0, 1.5)), 'marker': 's'}
    """
    size = len(OKABE_ITO)
    return {
        name: {
            "color": OKABE_ITO[i % size],
            "linestyle": _DASHES[i % len(_DASHES)],
            "marker": _MARKERS[i % len(_MARKERS)],
        }
        for i, name in enumerate(names)
    }


def label(name: str) -> str:
    r"""Greek and one-letter names as formulas, with their numbers as subscripts, and products of
    these; other names as they are.

    >>> [label(name) for name in ("beta[0]", "log_gamma", "R0", "p1_2[0]", "x1*y", "x1*x1", "infected[3]")]
    ['$\\beta_{0}$', '$\\log\\,\\gamma$', '$R_{0}$', '$p_{1,2,0}$', '$x_{1}\\,y$', '$x_{1}^{2}$', 'infected[3]']
    """
    factors = [_formula(factor) for factor in name.split("*")]
    if "" in factors:
        return name
    powers = {factor: factors.count(factor) for factor in factors}
    return (
        "$"
        + r"\,".join(f"{factor}^{{{n}}}" if n > 1 else factor for factor, n in powers.items())
        + "$"
    )


def _formula(name: str) -> str:
    """A name as a formula; nothing where it is a word."""
    match = _NAME.fullmatch(name)
    if match is None:
        return ""
    greek = _GREEK.fullmatch(match[2]) is not None
    if not greek and len(match[2]) > 1:
        return ""
    numbers = re.findall(r"\d+", "_".join(part or "" for part in match.group(3, 4, 5)))
    subscript = f"_{{{','.join(numbers)}}}" if numbers else ""
    return ("\\log\\," if match[1] else "") + ("\\" if greek else "") + match[2] + subscript


def one_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """`ax` itself, or the axes of a new figure of `size` inches."""
    if ax is None:
        return plt.subplots(figsize=size)[1]
    if not isinstance(ax, Axes):
        raise InvalidTypeError(
            f"ax must be one matplotlib Axes, as from fig, ax = plt.subplots(); got {describe(ax)}."
        )
    return ax


def many_axes(axes: Any, shape: tuple[int, int], size: tuple[float, float]) -> np.ndarray:
    """`axes` in the given shape, or those of a new figure of rows x columns panels of `size` inches
    each.
    """
    rows, columns = shape
    if axes is None:
        figure_size = (columns * size[0], rows * size[1])
        made: np.ndarray = plt.subplots(
            rows, columns, figsize=_at_least(figure_size), squeeze=False
        )[1]
        return made
    given = np.asarray(axes, dtype=object)
    if given.size != rows * columns or not all(isinstance(ax, Axes) for ax in given.flat):
        wanted = f"plt.subplots({rows}, {columns})"
        raise InvalidInputError(
            f"axes must hold {rows * columns} matplotlib Axes, as from {wanted}; got"
            f" {describe(axes)}."
        )
    return given.reshape(shape)


def _at_least(size: tuple[float, float], least: float = 2.2) -> tuple[float, float]:
    """The size with no side under `least` inches."""
    return max(size[0], least), max(size[1], least)


def legend_above(ax: Axes, *, outside: bool, title: str | None = None) -> None:
    """One legend, in rows above the figure where the figure is ours, else inside the panel; an
    earlier one goes.
    """
    handles, texts = ax.get_legend_handles_labels()
    figure: Any = ax.get_figure(root=True)
    if not outside:
        ax.legend(handles, texts, title=title, title_fontsize=8.0)
    else:
        inches = 0.55 + 0.075 * max(len(_MARKUP.sub("", text)) for text in texts)
        num_columns = max(1, min(len(texts), int(figure.get_figwidth() / inches)))
        for old in list(figure.legends):
            old.remove()
        figure.legend(
            handles,
            texts,
            loc="outside upper center",
            ncols=num_columns,
            title=title,
            title_fontsize=8.0,
        )


def headroom(ax: Axes, share: float = 0.08) -> None:
    """Start the vertical axis at 0 and leave a share of it free at the top; 0 to 1 where nothing
    has a height.
    """
    top = float(ax.dataLim.y1)
    ax.set_ylim(0.0, top * (1.0 + share) if 0.0 < top < float("inf") else 1.0)
