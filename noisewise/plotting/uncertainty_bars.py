"""Where uncertainty comes from: posterior variances in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.plotting.style import OKABE_ITO, label, looks, one_axes, styled
from noisewise.plotting.tables import column_names, numbers

if TYPE_CHECKING:
    import pandas as pd

    TableLike: TypeAlias = "HasTable | pd.DataFrame"
    """A decomposition, or its table."""

_COLOURS = {
    "sampling": OKABE_ITO[0],
    "sampling and clamping": OKABE_ITO[0],
    "clamping": OKABE_ITO[6],
    "privacy": OKABE_ITO[1],
}
_ON_DARK = (OKABE_ITO[0], OKABE_ITO[1], OKABE_ITO[2])
_MIN_WRITTEN = 0.085
"""Share of a bar from which its percentage fits inside."""

_GAP = 0.6
"""Gap between groups, in heights of a row."""


@runtime_checkable
class HasTable(Protocol):
    """A decomposition of variances.

    Attributes:
        table: One row per parameter, one column per part.
    """

    table: pd.DataFrame


@styled
def uncertainty_bars(
    parts: TableLike | Mapping[Any, TableLike | Float[Array, " p"]],
    *,
    names: Sequence[str] | None = None,
    scale: Literal["share", "variance"] = "share",
    ax: Axes | None = None,
) -> Axes:
    """Posterior variances as stacked parts, such as sampling, clamping and privacy, a bar per row.

    Use it to see whether more data, wider bounds or a larger budget would help most. With
    `scale="share"` all bars have one length, shares above 8% are written into them, and the total
    standard deviation stands at the right. With "variance" lengths are variances.

    Args:
        parts: A decomposition, as `nw.diagnostics.decompose_uncertainty` gives, or its table: a row
            per parameter, a column per part, variances inside (a column `total` is left out). Or a
            dictionary from budgets, or other labels, to these: rows are then grouped by parameter.
            Or a dictionary from parts to variances, shape (p,).
        names: Names of the rows where `parts` holds arrays.
        scale: "share" or "variance".
        ax: Axes to draw on; those of a new figure by default.

    Returns:
        The axes.

    Raises:
        InvalidInputError: If a variance is negative, or rows and parts differ between budgets.
        InvalidTypeError: If `parts` is something else.

    Example:
        >>> parts = {"sampling": [0.01, 0.01], "privacy": [0.0, 0.08]}
        >>> ax = uncertainty_bars(parts, names=["confidential", "private"])
        >>> [text.get_text() for text in ax.texts if text.get_text().startswith("sd")]
        ['sd 0.1', 'sd 0.3']
    """
    if scale not in ("share", "variance"):
        raise InvalidInputError(f"scale must be 'share' or 'variance', got {scale!r}.")
    variances, groups = _given(parts, names)
    totals = np.sum(list(variances.values()), axis=0)
    divisor = np.where(totals > 0.0, totals, 1.0) if scale == "share" else np.ones_like(totals)
    places, ticks = _rows(groups)
    ax = one_axes(ax, (4.4, 0.95 + 0.3 * float(1.0 - places[-1])))
    left = np.zeros_like(totals)
    for name, look in looks(variances).items():
        length = variances[name] / divisor
        color = _COLOURS.get(name, look["color"])
        bar: dict[str, Any] = {"height": 0.7, "edgecolor": "white", "linewidth": 0.6}
        ax.barh(places, length, left=left, color=color, label=name, **bar)
        if scale == "share":
            _write_shares(ax, places, left, length, "white" if color in _ON_DARK else "black")
        left = left + length
    _write_totals(ax, places, np.sqrt(totals))
    ax.set_yticks(places, ticks)
    ax.set_ylim(places[-1] - 0.6, 0.6)
    ax.tick_params(axis="y", length=0.0)
    ax.spines["left"].set_visible(False)
    ax.set_xlim(0.0, 1.0 if scale == "share" else 1.02 * float(left.max()) or 1.0)
    if scale == "share":
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("share of the posterior variance" if scale == "share" else "posterior variance")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(variances))
    return ax


_Groups = dict[str, tuple[str, ...]]
"""The labels of the rows of each group, in the order of the variances."""


def _given(parts: object, names: Sequence[str] | None) -> tuple[dict[str, np.ndarray], _Groups]:
    """Variances (rows,) by part, and what the rows are."""
    if isinstance(parts, Mapping) and parts and all(_is_table(value) for value in parts.values()):
        return _grouped(
            {_budget(name): _table(value, f"parts[{name!r}]") for name, value in parts.items()}
        )
    if _is_table(parts):
        table = _table(parts, "parts")
        return {part: table[part].to_numpy() for part in table}, {"": tuple(map(str, table.index))}
    variances, rows = _from_arrays(parts, names)
    return variances, {"": rows}


def _is_table(value: object) -> bool:
    import pandas as pd

    return isinstance(value.table if isinstance(value, HasTable) else value, pd.DataFrame)


def _table(value: Any, what: str) -> Any:
    """A table of float64 variances, checked."""
    table = value.table if isinstance(value, HasTable) else value
    table = table.drop(columns="total", errors="ignore")
    columns = {
        str(part): _checked(table[part], f"the part {str(part)!r} of {what}") for part in table
    }
    if not columns or not len(table):
        raise InvalidInputError(
            f"{what} must have a row per parameter and a column per part, got {describe(table)}."
        )
    return type(table)(columns, index=table.index)


def _grouped(tables: dict[str, Any]) -> tuple[dict[str, np.ndarray], _Groups]:
    """One group per parameter, with a row for each label; a single parameter needs no heading."""
    first = next(iter(tables.values()))
    for name, table in tables.items():
        if list(table.index) != list(first.index) or list(table.columns) != list(first.columns):
            raise InvalidInputError(
                f"All decompositions must have the rows {', '.join(map(str, first.index))} and the"
                f" parts {', '.join(first.columns)}; {name} has {', '.join(map(str, table.index))}"
                f" and {', '.join(table.columns)}."
            )
    variances = {
        part: np.array([table.loc[row, part] for row in first.index for table in tables.values()])
        for part in first
    }
    headings = map(str, first.index) if len(first) > 1 else [""]
    return variances, dict.fromkeys(headings, tuple(tables))


def _budget(name: object) -> str:
    """Numbers are budgets."""
    return f"$\\epsilon$ = {name:g}" if isinstance(name, (int, float)) else str(name)


def _from_arrays(
    parts: object, names: Sequence[str] | None
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    if not isinstance(parts, Mapping) or not parts:
        raise InvalidTypeError(
            "parts must be a decomposition, a table with a row per parameter and a column per part,"
            " or map parts to variances (p,), such "
            f'as {{"sampling": ..., "privacy": ...}}; got {describe(parts)}.'
        )
    variances = {
        str(name): _checked(values, f"parts[{str(name)!r}]") for name, values in parts.items()
    }
    shapes = {values.shape for values in variances.values()}
    if len(shapes) > 1:
        got = ", ".join(f"{values.shape} for {name!r}" for name, values in variances.items())
        raise InvalidInputError(f"All parts must be arrays (p,) of one length, got {got}.")
    ((width,),) = shapes
    return variances, column_names(names, width, "parts")


def _checked(values: ArrayLike, what: str) -> np.ndarray:
    array = np.atleast_1d(numbers(values, what))
    if array.ndim != 1 or not array.size:
        raise InvalidInputError(
            f"{what} must hold variances (p,), one for each row, got shape {array.shape}."
        )
    if not (np.isfinite(array) & (array >= 0.0)).all():
        raise InvalidInputError(
            f"{what} must hold variances, finite and not negative: one is not. A difference of"
            " variances that came out below 0 is Monte Carlo error, or says that this part adds"
            " none: set it to 0."
        )
    return array


def _rows(groups: _Groups) -> tuple[np.ndarray, list[str]]:
    """Heights, with gaps between groups, and the text left of each row; the first row names its
    group.
    """
    heights: list[float] = []
    ticks: list[str] = []
    for heading, rows in groups.items():
        start = heights[-1] - 1.0 - _GAP if heights else 0.0
        heights += [start - i for i in range(len(rows))]
        ticks += [
            f"{label(heading)}    {label(row)}" if heading and i == 0 else label(row)
            for i, row in enumerate(rows)
        ]
    return np.array(heights), ticks


def _write_shares(
    ax: Axes, places: np.ndarray, left: np.ndarray, length: np.ndarray, color: str
) -> None:
    """Percentages inside the bars that have room for them."""
    for height, start, share in zip(places, left, length, strict=True):
        if share >= _MIN_WRITTEN:
            place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7.5}
            ax.text(start + share / 2.0, height, f"{100 * share:.0f}%", color=color, **place)


def _write_totals(ax: Axes, places: np.ndarray, totals: np.ndarray) -> None:
    """The total standard deviations in a column right of the panel."""
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8.0}
    for height, total in zip(places, totals, strict=True):
        ax.text(1.03, height, f"sd {total:.2g}", **place)
