"""Where uncertainty comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from noisewise._arrays import describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.plotting.style import OKABE_ITO, label, looks, one_axes, styled
from noisewise.plotting.tables import column_names, numbers

_COLOURS = {"sampling": OKABE_ITO[0], "clamping": OKABE_ITO[4], "privacy": OKABE_ITO[1]}


@styled
def uncertainty_bars(
    parts: Mapping[str, Any],
    *,
    names: Sequence[str] | None = None,
    scale: Literal["share", "variance"] = "share",
    ax: Axes | None = None,
) -> Axes:
    """Posterior variances as stacked parts, such as sampling, clamping and privacy, a bar per row; returns the axes.

    `parts` maps each part to variances (p,), none negative; `names` are those of the rows: parameters, budgets, methods. With
    `scale="share"` bars have one length and the total standard deviation stands at their right; with "variance" lengths are variances.

    >>> ax = uncertainty_bars({"sampling": [0.01, 0.01], "privacy": [0.0, 0.08]}, names=["confidential", "private"])
    >>> [text.get_text() for text in ax.texts]
    ['sd 0.1', 'sd 0.3']
    """
    variances, rows = _checked(parts, names)
    if scale not in ("share", "variance"):
        raise InvalidInputError(f"scale must be 'share' or 'variance', got {scale!r}.")
    totals = np.sum(list(variances.values()), axis=0)
    divisor = np.where(totals > 0.0, totals, 1.0) if scale == "share" else np.ones_like(totals)
    places = -np.arange(float(len(rows)))
    ax = one_axes(ax, (4.2, 0.95 + 0.3 * len(rows)))
    left = np.zeros_like(totals)
    for name, look in looks(variances).items():
        length = variances[name] / divisor
        color = _COLOURS.get(name, look["color"])
        ax.barh(places, length, height=0.65, left=left, color=color, label=name, edgecolor="white", linewidth=0.6)
        left = left + length
    _write_totals(ax, places, np.sqrt(totals))
    ax.set_yticks(places, [label(row) for row in rows])
    ax.set_ylim(places[-1] - 0.6, 0.6)
    ax.tick_params(axis="y", length=0.0)
    ax.spines["left"].set_visible(False)
    ax.set_xlim(0.0, 1.0 if scale == "share" else 1.02 * float(left.max()) or 1.0)
    if scale == "share":
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("share of the posterior variance" if scale == "share" else "posterior variance")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(variances))
    return ax


def _checked(parts: Any, names: Sequence[str] | None) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    if not isinstance(parts, Mapping) or not parts:
        raise InvalidTypeError(
            f'parts must map parts to variances (p,), such as {{"sampling": ..., "privacy": ...}}; got {describe(parts)}.'
        )
    variances = {str(name): np.atleast_1d(numbers(values, f"parts[{str(name)!r}]")) for name, values in parts.items()}
    shapes = {values.shape for values in variances.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) != 1:
        got = ", ".join(f"{values.shape} for {name!r}" for name, values in variances.items())
        raise InvalidInputError(f"All parts must be arrays (p,) of one length, got {got}.")
    for name, values in variances.items():
        if not (np.isfinite(values) & (values >= 0.0)).all():
            raise InvalidInputError(
                f"parts[{name!r}] must hold variances, finite and not negative: one is not. A difference of variances that came out "
                "below 0 is Monte Carlo error, or says that this part adds none: set it to 0."
            )
    (width,) = next(iter(shapes))
    return variances, column_names(names, width, "parts")


def _write_totals(ax: Axes, places: np.ndarray, totals: np.ndarray) -> None:
    """The total standard deviations in a column right of the panel."""
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8.0}
    for height, total in zip(places, totals, strict=True):
        ax.text(1.03, height, f"sd {total:.2g}", **place)
