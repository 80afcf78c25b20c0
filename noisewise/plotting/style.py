"""How plots look: colours for colour-blind readers, small type for papers, names as formulas."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
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
"""What of a label in LaTeX takes no room of its own."""

_KEY_INCHES, _LETTER_INCHES = 0.55, 0.075
"""Width of a legend's sample of a line with its margins, and of one letter at 8 points."""

_MIN_SIDE = 2.2
"""Inches of a figure's side, at least, so that its labels fit."""

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
    """Draw a plot under `STYLE`.

    Args:
        plot: A function that draws.

    Returns:
        The same function; matplotlib's settings are restored when it returns.
    """

    @functools.wraps(plot)
    def draw(*args: P.args, **kwargs: P.kwargs) -> T:
        with matplotlib.rc_context(STYLE):
            return plot(*args, **kwargs)

    return draw


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour, a marker and a kind of line for each name, so that curves differ in grey, too.

    They are all different up to 28 names.

    Args:
        names: Names of curves, in the order of the legend.

    Returns:
        Settings "color", "marker" and "linestyle" by name.

    Example:
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
    r"""A name as it is written on axes.

    Greek and one-letter names become formulas, with their numbers as subscripts; so do products of
    these. Other names stay as they are.

    Args:
        name: Name of a parameter or statistic.

    Returns:
        A text for matplotlib.

    Example:
        >>> [label(name) for name in ("beta[0]", "log_gamma", "R0", "p1_2[0]")]
        ['$\\beta_{0}$', '$\\log\\,\\gamma$', '$R_{0}$', '$p_{1,2,0}$']
        >>> [label(name) for name in ("x1*y", "x1*x1", "infected[3]")]
        ['$x_{1}\\,y$', '$x_{1}^{2}$', 'infected[3]']
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
    """`ax` itself, or the axes of a new figure.

    Args:
        ax: Axes of the caller, or None.
        size: Width and height of a new figure in inches.

    Returns:
        The axes to draw on.

    Raises:
        InvalidTypeError: If `ax` is anything else, such as an array of axes.
    """
    if ax is None:
        return plt.subplots(figsize=size)[1]
    if not isinstance(ax, Axes):
        raise InvalidTypeError(
            f"ax must be one matplotlib Axes, as from fig, ax = plt.subplots(); got {describe(ax)}."
        )
    return ax


AxesLike = Sequence[Axes] | np.ndarray | None
"""Axes to draw on, in any arrangement; None for those of a new figure."""


def many_axes(axes: AxesLike, shape: tuple[int, int], size: tuple[float, float]) -> np.ndarray:
    """`axes` in the given shape, or those of a new figure.

    Args:
        axes: Axes of the caller, in any arrangement, or None.
        shape: Rows and columns of panels.
        size: Width and height of a panel in inches.

    Returns:
        The axes to draw on, an array of this shape.

    Raises:
        InvalidInputError: If the number of axes does not fit.
    """
    rows, columns = shape
    if axes is None:
        sides = (max(columns * size[0], _MIN_SIDE), max(rows * size[1], _MIN_SIDE))
        made: np.ndarray = plt.subplots(rows, columns, figsize=sides, squeeze=False)[1]
        return made
    given = np.asarray(axes, dtype=object)
    if given.size != rows * columns or not all(isinstance(ax, Axes) for ax in given.flat):
        wanted = f"plt.subplots({rows}, {columns})"
        raise InvalidInputError(
            f"axes must hold {rows * columns} matplotlib Axes, as from {wanted}; got"
            f" {describe(axes)}."
        )
    return given.reshape(shape)


def legend_above(ax: Axes, *, outside: bool, title: str | None = None) -> None:
    """One legend for all panels; an earlier one is removed.

    Args:
        ax: The panel whose curves it names.
        outside: Whether it stands above the figure, in rows; else inside the panel.
        title: Its title.
    """
    handles, texts = ax.get_legend_handles_labels()
    figure: Any = ax.get_figure(root=True)
    if not outside:
        ax.legend(handles, texts, title=title, title_fontsize=8.0)
    else:
        inches = _KEY_INCHES + _LETTER_INCHES * max(len(_MARKUP.sub("", text)) for text in texts)
        num_columns = max(1, min(len(texts), int(figure.get_figwidth() / inches)))
        for old in list(figure.legends):
            old.remove()
        place: dict[str, Any] = {"loc": "outside upper center", "ncols": num_columns}
        figure.legend(handles, texts, title=title, title_fontsize=8.0, **place)


def headroom(ax: Axes, share: float = 0.08) -> None:
    """Start the vertical axis at 0 and leave a share of it free at the top.

    Args:
        ax: The panel; where nothing has a height, its axis ends at 1.
        share: Free share of the height.
    """
    top = float(ax.dataLim.y1)
    ax.set_ylim(0.0, top * (1.0 + share) if 0.0 < top < float("inf") else 1.0)
