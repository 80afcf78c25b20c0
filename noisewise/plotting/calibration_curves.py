"""Calibration: ranks of true parameters, and how often intervals hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from noisewise._core.arrays import describe, number
from noisewise._core.draws import one_sample
from noisewise.diagnostics import Calibration, Trials
from noisewise.diagnostics.uniformity import ecdf_band
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.plotting.style import SHADE, label, looks, one_axes, styled
from noisewise.plotting.tables import column_names

if TYPE_CHECKING:
    import pandas as pd

_ALPHA = 0.05
"""Share of correct posteriors whose curves leave the band, where the caller names none."""

_TABLE = ("coverage", "low", "high")
_DODGE = 0.012
"""Shift between the points of two rows at one level, as a share of the axis: a marker's width."""


RanksLike = Calibration | ArrayLike | Mapping[str, Calibration | ArrayLike]
"""What `nw.diagnostics.calibrate` or `tarp` gives, ranks in (0, 1), or one of these per method."""


@styled
def rank_ecdf(
    ranks: RanksLike,
    *,
    names: Sequence[str] | None = None,
    alpha: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    r"""Are posteriors calibrated? F_N(u) - u of the ranks u of true parameters, within a band.

    Correct posteriors give 0 up to chance: all m curves stay inside the grey band, at all points,
    with probability 1 - alpha at least. A curve like an S says that posteriors are too narrow
    (first above 0) or too wide, one like an arch that they are too high (above 0) or too low.

    Use it after `nw.diagnostics.calibrate`; `coverage_curve` shows the same ranks as coverage.

    Args:
        ranks: What `nw.diagnostics.calibrate` or `tarp` gives, ranks scaled to (0, 1), shape (N,
            m), or a dictionary from methods to these.
        names: Names of the columns of an array.
        alpha: Chance that correct posteriors leave the band; that of the calibration by default, or
            .05. The band is that of the fewest trials.
        ax: Axes to draw on; those of a new figure by default.

    Returns:
        The axes.

    Raises:
        InvalidInputError: If ranks are missing or not in [0, 1].
        InvalidTypeError: If ranks are something else, such as `Trials`.

    References:
        T. Sailynoja, P.-C. Burkner and A. Vehtari, Graphical test for discrete uniformity and its
        applications in goodness-of-fit evaluation and multiple sample comparison, Stat. Comput. 32
        (2022).

    Example:
        >>> u = np.random.default_rng(0).random((300, 2))
        >>> ax = rank_ecdf(u, names=["mu", "b"])
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['95% band', '$\\mu$', '$b$']
    """
    curves, level = _curves_of(ranks, names, alpha)
    ax = one_axes(ax, (3.6, 2.7))
    x = _band(curves, level, ax, difference=True)
    ax.axhline(0.0, color="black", linewidth=0.7, zorder=1)
    _draw({name: u for name, (u, _) in curves.items()}, x, x, ax)
    ax.set_xlabel("rank of the truth, as a share $u$")
    ax.set_ylabel("ECDF$(u) - u$")
    return ax


@styled
def coverage_curve(
    ranks: RanksLike | pd.DataFrame,
    *,
    names: Sequence[str] | None = None,
    alpha: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How often intervals hold the truth, against their level: the diagonal for correct
    posteriors.

    Curves under the diagonal belong to posteriors that are too sure, curves above to posteriors
    that are too wide. Readers understand it sooner than `rank_ecdf`, but it does not show a shift.

    The central interval of level c holds the truth where |2u - 1| <= c, u being its rank. For the
    distances of `tarp` the region is that of the draws nearest to the point, u <= c.

    Args:
        ranks: As in `rank_ecdf`; columns may as well be methods. The table of
            `nw.diagnostics.coverage` is drawn as points with its limits.
        names: Names of the columns of an array.
        alpha: Chance that correct posteriors leave the band, as in `rank_ecdf`.
        ax: Axes to draw on; those of a new figure by default.

    Returns:
        The axes.

    Raises:
        InvalidInputError: If ranks are missing or not in [0, 1].

    Example:
        >>> u = np.random.default_rng(0).random(300)
        >>> two = np.stack([u, (u + 0.5) / 2.0], axis=1)
        >>> ax = coverage_curve(two, names=["exact", "wide"])
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('nominal coverage', 'actual coverage')
    """
    rows = _coverage_rows(ranks)
    curves, level = ({}, _ALPHA) if rows else _curves_of(ranks, names, alpha)
    ax = one_axes(ax, (3.1, 3.0))
    if rows:
        _draw_rows(rows, ax)
    else:
        x = _band(curves, level, ax, difference=False)
        inside = {
            name: u if distance else np.abs(2.0 * u - 1.0) for name, (u, distance) in curves.items()
        }
        _draw(inside, x, np.zeros_like(x), ax)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="black", linewidth=0.7, zorder=1)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    ax.set_xlabel("nominal coverage")
    ax.set_ylabel("actual coverage")
    return ax


_Curves = dict[str, tuple[np.ndarray, bool]]
"""Ranks (N,) by name, and whether they are those of distances."""


def _curves_of(
    ranks: RanksLike, names: Sequence[str] | None, alpha: float | None
) -> tuple[_Curves, float]:
    """The curves, and the share of right ones that may leave the band."""
    given = dict(ranks) if isinstance(ranks, Mapping) else {"": ranks}
    if not given:
        raise InvalidInputError(
            "ranks must hold at least one calibration, such as {'SPPE': calibration}; got none."
        )
    found: _Curves = {}
    for method, value in given.items():
        found |= _columns(value, names, str(method))
    levels = {value.alpha for value in given.values() if isinstance(value, Calibration)}
    level = (
        min(levels, default=_ALPHA)
        if alpha is None
        else number("alpha", above=0.0, below=1.0)(alpha)
    )
    return found, level


def _columns(value: Calibration | ArrayLike, names: Sequence[str] | None, method: str) -> _Curves:
    """The columns of one calibration, under the name of its method where that has one and they are
    several.
    """
    if isinstance(value, Trials):
        raise InvalidTypeError(
            "ranks must come from nw.diagnostics.calibrate(key, trials) or tarp(key, trials); got"
            " Trials."
        )
    if isinstance(value, (str, bytes)) or value is None:
        raise InvalidTypeError(
            "ranks must be what nw.diagnostics.calibrate gives, or ranks (N, m); got"
            f" {describe(value)}."
        )
    if isinstance(value, Calibration):
        uniforms, shown, distance = value.uniforms, value.names, value.quantity == "distance"
    else:
        uniforms, distance = _checked(value), False
        shown = column_names(names, uniforms.shape[1], "ranks")
    if method and len(shown) == 1:
        shown = (method,)
    elif method:
        shown = tuple(f"{method}, {label(name)}" for name in shown)
    return {name: (u, distance) for name, u in zip(shown, uniforms.T, strict=True)}


def _checked(ranks: ArrayLike) -> np.ndarray:
    uniforms = one_sample(ranks, "ranks", advice="pass what nw.diagnostics.calibrate gives")
    if uniforms.min() < 0.0 or uniforms.max() > 1.0:
        raise InvalidInputError(
            f"ranks must lie between 0 and 1, got values from {uniforms.min():g} to"
            f" {uniforms.max():g}: divide by the number of draws + 1, or pass what"
            " nw.diagnostics.calibrate gives."
        )
    return uniforms


def _band(curves: _Curves, alpha: float, ax: Axes, *, difference: bool) -> np.ndarray:
    """Draw the band that uniforms stay in; returns its points."""
    num = min(len(u) for u, _ in curves.values())
    points, low, high = ecdf_band(num, alpha / len(curves))
    x, low, high = (np.concatenate([[0.0], line, [1.0]]) for line in (points, low, high))
    base = x if difference else np.zeros_like(x)
    ax.fill_between(
        x, low - base, high - base, color=SHADE, linewidth=0.0, label=f"{100 * (1 - alpha):g}% band"
    )
    return x


def _draw(curves: Mapping[str, np.ndarray], x: np.ndarray, base: np.ndarray, ax: Axes) -> None:
    """ECDFs of the curves at x, less `base`."""
    for name, look in looks(curves).items():
        u = np.sort(curves[name])
        y = np.searchsorted(u, x, side="right") / len(u)
        ax.plot(x, y - base, color=look["color"], linestyle=look["linestyle"], label=label(name))
    ax.set_xlim(0.0, 1.0)
    ax.legend()


def _coverage_rows(table: object) -> dict[str, np.ndarray]:
    """Levels, coverage and limits (4, n) by row of the table of `coverage`; nothing for other
    things.
    """
    if not set(_TABLE) <= set(map(str, getattr(table, "columns", ()))):
        return {}
    return {name: np.array(rows).T for name, rows in _grouped(table)}


def _grouped(table: pd.DataFrame) -> Iterator[tuple[str, list[list[float]]]]:
    for name in dict.fromkeys(table.index.get_level_values(0)):
        part = table.loc[name]
        yield str(name), [[float(level), *part.loc[level, list(_TABLE)]] for level in part.index]


def _draw_rows(rows: Mapping[str, np.ndarray], ax: Axes) -> None:
    for i, (name, look) in enumerate(looks(rows).items()):
        level, share, low, high = rows[name]
        ax.errorbar(
            level + _DODGE * (i - (len(rows) - 1) / 2.0),
            share,
            yerr=[share - low, high - share],
            fmt=look["marker"],
            color=look["color"],
            linewidth=1.2,
            label=label(name),
        )
    ax.legend(title="with 95% limits", title_fontsize=8.0, alignment="left")
