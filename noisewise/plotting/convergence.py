"""Accuracy over rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from noisewise._arrays import describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.plotting.style import PRIOR, looks, one_axes, styled
from noisewise.plotting.tables import numbers

_DODGE = 0.12
_FEW_ROUNDS = 12


@styled
def convergence(
    values: Mapping[str, Any],
    *,
    rounds: Sequence[float] | None = None,
    metric: str = "C2ST",
    xlabel: str = "round",
    floor: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The mean of a metric over trials after each round, with bars from the lower to the upper quartile; returns the axes.

    `values` maps methods to arrays (trials, R), or (R,) for one trial. `rounds` (R,) are the places on the horizontal axis: 1, ..., R by
    default, or numbers of simulations with a fitting `xlabel`. `floor` is what exact draws reach.

    >>> rng = np.random.default_rng(0)
    >>> ax = convergence({"SPPE": 0.5 + 0.4 * rng.random((20, 5)) / np.arange(1, 6)}, floor=0.5)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('round', 'C2ST')
    """
    if not isinstance(values, Mapping) or not values:
        raise InvalidTypeError(
            f'values must map methods to arrays (trials, rounds), such as {{"SPPE": c2st}}; got {describe(values)}.'
        )
    trials = {str(name): _trials(name, array) for name, array in values.items()}
    places = _places(rounds, {name: array.shape[1] for name, array in trials.items()})
    ax = one_axes(ax, (3.4, 2.5))
    step = _DODGE * float(np.diff(places).min() if len(places) > 1 else 1.0)
    shifts = step * (np.arange(len(trials)) - (len(trials) - 1) / 2.0)
    for shift, (name, look) in zip(shifts, looks(trials).items(), strict=True):
        mean = trials[name].mean(axis=0)
        low, high = np.quantile(trials[name], [0.25, 0.75], axis=0)
        ax.vlines(places + shift, low, high, color=look["color"], linewidth=1.2, alpha=0.8)
        ax.plot(places + shift, mean, **look, label=name, linewidth=1.2)
    if floor is not None:
        ax.axhline(floor, color=PRIOR, linestyle="--", linewidth=1.0, label="exact draws", zorder=0)
    if rounds is None and len(places) <= _FEW_ROUNDS:
        ax.set_xticks(places)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    ax.set_xlabel(xlabel)
    ax.set_ylabel(metric)
    ax.legend()
    return ax


def _trials(name: Any, values: Any) -> np.ndarray:
    array = np.atleast_2d(numbers(values, f"values[{str(name)!r}]"))
    if array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidInputError(
            f"values[{str(name)!r}] must be a finite array (trials, rounds), got {describe(array)}"
            f"{' with NaN or infinity' if array.size and not np.isfinite(array).all() else ''}: leave failed trials out."
        )
    return array


def _places(rounds: Sequence[float] | None, widths: Mapping[str, int]) -> np.ndarray:
    width = next(iter(widths.values()))
    places = np.arange(1.0, width + 1.0) if rounds is None else numbers(rounds, "rounds")
    if set(widths.values()) != {width} or places.shape != (width,) or (np.diff(places) <= 0.0).any():
        got = ", ".join(f"{size} for {name!r}" for name, size in widths.items())
        raise InvalidInputError(
            f"All methods must have as many rounds, one for each of rising `rounds`; got {got} and rounds of {describe(places)}."
        )
    return places
