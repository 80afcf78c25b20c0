"""Curves with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from noisewise._arrays import describe, number
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.metrics._samples import one_sample
from noisewise.plotting.style import OKABE_ITO, TRUTH, one_axes, styled
from noisewise.plotting.tables import even_rows, numbers
from noisewise.posteriors import AbstractPosterior


@styled
def infection_fan(
    curves: Any,
    *,
    times: Any = None,
    observed: Any = None,
    observed_times: Any = None,
    truth: Any = None,
    levels: Sequence[float] = (0.5, 0.8, 0.95),
    xlabel: str = "time",
    ylabel: str = "infected",
    ax: Axes | None = None,
) -> Axes:
    """The median of curves (N, L) and central bands that hold shares `levels` of them at each time; returns the axes.

    `curves` are simulated at draws of the posterior, at `times` (L,), or is a posterior that drew confidential statistics, whose law is
    p(s | s_dp). `observed` is the private release on the same scale, at `observed_times` (`times` by default), `truth` the confidential
    curve where it is known.

    >>> times, rates = np.arange(30.0), np.random.default_rng(0).normal(0.3, 0.02, size=200)
    >>> curves = 1.0 / (1.0 + 1000.0 * np.exp(-rates[:, None] * times))
    >>> ax = infection_fan(curves, times=times, observed=[0.0, 0.05, 0.3], observed_times=[0.0, 10.0, 20.0])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['95%', '80%', '50%', 'median', 'private release']
    """
    draws = one_sample(_curves_of(curves), "curves")
    places = _line(times, np.arange(draws.shape[1], dtype=float), draws.shape[1], "times")
    chosen = sorted((number("levels", above=0.0, below=1.0)(level) for level in levels), reverse=True)
    ax = one_axes(ax, (4.0, 2.6))
    color = OKABE_ITO[0]
    for i, level in enumerate(chosen):
        low, high = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        opacity = 0.15 + 0.45 * i / max(len(chosen) - 1, 1)
        ax.fill_between(places, low, high, color=color, alpha=opacity, linewidth=0.0, label=f"{100 * level:g}%")
    ax.plot(places, np.median(draws, axis=0), color=color, label="median")
    if truth is not None:
        ax.plot(
            places,
            _line(truth, None, draws.shape[1], "truth"),
            color=TRUTH,
            linewidth=1.0,
            linestyle="--",
            label="truth",
        )
    if observed is not None:
        _draw_observed(ax, observed, places if observed_times is None else observed_times)
    ax.set_xlim(places[0], places[-1])
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.legend()
    return ax


def _curves_of(curves: Any) -> Any:
    if not isinstance(curves, AbstractPosterior):
        return curves
    if curves.statistics is None:
        raise MissingCapabilityError(
            f"{curves.report.method} drew no confidential statistics: pass curves (N, L) simulated at its draws, as "
            "model.statistics(key, posterior.sample(key, 500))."
        )
    return curves.statistics[even_rows(curves.weights)]


def _line(values: Any, default: np.ndarray | None, length: int, name: str) -> np.ndarray:
    line = default if values is None else np.atleast_1d(numbers(values, name))
    if line is None or line.shape != (length,) or not np.isfinite(line).all():
        raise InvalidInputError(f"{name} must hold {length} finite values, one per time; got {describe(values)}.")
    return line


def _draw_observed(ax: Axes, observed: Any, times: Any) -> None:
    places = np.atleast_1d(numbers(times, "observed_times"))
    values = _line(observed, None, len(places), "observed")
    ax.plot(
        places,
        values,
        "o",
        color=OKABE_ITO[1],
        markersize=4.5,
        mec="white",
        mew=0.6,
        label="private release",
        clip_on=False,
        zorder=4,
    )
