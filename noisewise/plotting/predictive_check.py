"""Does the model say data like those observed?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from noisewise._arrays import describe
from noisewise.errors import InvalidInputError
from noisewise.metrics._samples import one_sample
from noisewise.plotting.forest import draw_intervals
from noisewise.plotting.style import OKABE_ITO, TRUTH, label, one_axes, styled
from noisewise.plotting.tables import column_names, numbers

_LEVEL = 0.95


@styled
def predictive_check(
    simulated: Any, observed: Any, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Each observed statistic over the 50% and 95% intervals of simulated ones, in predictive standard deviations; returns the axes.

    `simulated` (N, k) are private statistics at draws of the posterior, as `model.simulate(key, posterior.sample(key, 1000))`, and
    `observed` (k,) the release, `names` being `model.private_names`. Values outside the 95% interval are filled in another colour; the
    share of simulations at least as far out, on either side, stands at the right.

    >>> rng = np.random.default_rng(0)
    >>> ax = predictive_check(rng.normal(size=(500, 2)), [0.3, 4.0], names=["mean", "variance"])
    >>> [text.get_text() for text in ax.get_yticklabels()], [text.get_text() for text in ax.texts]
    (['mean', 'variance'], ['p = .70', 'p < .01'])
    """
    draws = one_sample(simulated, "simulated")
    values = np.atleast_1d(numbers(observed, "observed"))
    width = draws.shape[1]
    if values.shape != (width,) or not np.isfinite(values).all():
        raise InvalidInputError(
            f"observed must hold {width} finite values, one per simulated column; got {describe(values)}."
        )
    shown = column_names(names, width, "simulated", stem="s")
    shares = _tail_shares(draws, values)
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
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, columnspacing=1.2, handlelength=1.4)
    return ax


def _tail_shares(draws: np.ndarray, values: np.ndarray) -> np.ndarray:
    """2 min(P(draw <= value), P(draw >= value)), at most 1."""
    below, above = (draws <= values).mean(axis=0), (draws >= values).mean(axis=0)
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(below, above)))


def _draw_observed(ax: Axes, values: np.ndarray, places: np.ndarray, outside: np.ndarray) -> None:
    for chosen, color, name in ((~outside, TRUTH, "observed"), (outside, OKABE_ITO[1], "outside 95%")):
        if chosen.any():
            ax.plot(values[chosen], places[chosen], "o", color=color, markersize=4.5, label=name, zorder=3)


def _write_shares(ax: Axes, places: np.ndarray, shares: np.ndarray) -> None:
    """The tail shares in a column right of the panel."""
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8.0}
    for height, share in zip(places, shares, strict=True):
        text = "< .01" if share < 0.01 else "= " + f"{share:.2f}".removeprefix("0")
        ax.text(1.03, height, f"p {text}", **place)
