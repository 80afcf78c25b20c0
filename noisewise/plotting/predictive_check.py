"""Does the fitted model produce data like those observed?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from noisewise._core.arrays import Array, describe
from noisewise._core.draws import filled_below, one_sample
from noisewise.diagnostics import PredictiveCheck
from noisewise.diagnostics.predictive import two_sided_p_values
from noisewise.errors import InvalidInputError
from noisewise.plotting.forest import draw_intervals
from noisewise.plotting.style import OKABE_ITO, TRUTH, label, one_axes, styled
from noisewise.plotting.tables import column_names, numbers

_LEVEL = 0.95
"""Mass of the thin interval, outside of which an observation gets another colour."""


@styled
def predictive_check(
    simulated: PredictiveCheck | Float[Array, "n kp"],
    observed: Float[Array, " kp"] | None = None,
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Each observed statistic over the 50% and 95% intervals of simulated ones, in predictive sds.

    Use it after inference: a statistic far outside says that the model cannot have produced the
    release. Values outside the 95% interval have another colour and shape. Two-sided p-values stand
    at the right: twice the share of simulations at least as far out, ties counted half. Absent
    values of a `PredictiveCheck` are drawn one sd below the least published one.

    Args:
        simulated: What `nw.diagnostics.predictive_check` or `misspecification` gives, alone; or
            private statistics at draws of the posterior, shape (n, k'), as `model.simulate(key,
            posterior.sample(key, 1000))`.
        observed: The release, shape (k',), with an array.
        names: Names of the statistics of an array, such as `model.private_names`.
        ax: Axes to draw on; those of a new figure by default.

    Returns:
        The axes.

    Raises:
        InvalidInputError: If shapes do not fit, or a `PredictiveCheck` does not come alone.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> ax = predictive_check(rng.normal(size=(500, 2)), [0.3, 4.0], names=["mean", "variance"])
        >>> [text.get_text() for text in (*ax.get_yticklabels(), *ax.texts)]
        ['mean', 'variance', 'p = .70', 'p < .01']
    """
    draws, values, shown = _given(simulated, observed, names)
    width = draws.shape[1]
    shares = two_sided_p_values(draws, values)
    centre, scale = np.median(draws, axis=0), draws.std(axis=0)
    scale = np.where(scale > 0.0, scale, np.maximum(np.abs(values - centre), 1.0))
    places = -np.arange(float(width))
    ax = one_axes(ax, (4.2, 0.75 + 0.24 * width))
    look = {"color": OKABE_ITO[5], "marker": "|"}
    draw_intervals(ax, (draws - centre) / scale, places, _LEVEL, look, "")
    ax.plot([], [], color=look["color"], linewidth=3.0, label="simulated, 50% and 95%")
    _draw_observed(ax, (values - centre) / scale, places, shares < 1.0 - _LEVEL)
    _write_shares(ax, places, shares)
    ax.set_yticks(places, [label(name) for name in shown])
    ax.set_ylim(places[-1] - 0.6, 0.6)
    ax.tick_params(axis="y", length=0.0)
    ax.set_xlabel("distance from the predictive median, in sd")
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, columnspacing=1.2, handlelength=1.4
    )
    return ax


def _given(
    simulated: PredictiveCheck | Float[Array, "n kp"],
    observed: Float[Array, " kp"] | None,
    names: Sequence[str] | None,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Simulated statistics (n, k'), the observation (k',) and names."""
    if isinstance(simulated, PredictiveCheck):
        if observed is not None or names is not None:
            raise InvalidInputError(
                "A PredictiveCheck holds its observation and names: pass it alone."
            )
        rows = filled_below(np.concatenate([simulated.observed[None], simulated.simulated]))
        return rows[1:], rows[0], simulated.names
    hint = (
        "pass what nw.diagnostics.predictive_check gives, or model.simulate(key,"
        " posterior.sample(key, 1000)) and the observation"
    )
    draws = one_sample(simulated, "simulated", advice=hint)
    values = np.atleast_1d(numbers(observed, "observed"))
    width = draws.shape[1]
    if values.shape != (width,) or not np.isfinite(values).all():
        raise InvalidInputError(
            f"observed must hold {width} finite values, one per simulated column; got"
            f" {describe(values)}."
        )
    return draws, values, column_names(names, width, "simulated", stem="s")


def _draw_observed(ax: Axes, values: np.ndarray, places: np.ndarray, outside: np.ndarray) -> None:
    inner, outer = (~outside, TRUTH, "o", "observed"), (outside, OKABE_ITO[1], "D", "outside 95%")
    for chosen, color, marker, name in (inner, outer):
        if chosen.any():
            point: dict[str, Any] = {"color": color, "markersize": 4.5, "zorder": 3}
            ax.plot(values[chosen], places[chosen], marker, label=name, **point)


def _write_shares(ax: Axes, places: np.ndarray, shares: np.ndarray) -> None:
    """The tail shares in a column right of the panel."""
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8.0}
    for height, share in zip(places, shares, strict=True):
        text = "< .01" if share < 0.01 else "= " + f"{share:.2f}".removeprefix("0")
        ax.text(1.03, height, f"p {text}", **place)
