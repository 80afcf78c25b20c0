"""Accuracy over rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, describe
from noisewise._core.draws import one_sample
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.metrics import c2st, cdf_error, kolmogorov_smirnov, mmd, sliced_wasserstein
from noisewise.plotting.style import PRIOR, looks, one_axes, styled
from noisewise.plotting.tables import numbers
from noisewise.posteriors import AbstractPosterior

METRICS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "C2ST": c2st,
    "MMD": mmd,
    "KS": kolmogorov_smirnov,
    "sliced Wasserstein": sliced_wasserstein,
    "CDF error": cdf_error,
}
"""What posteriors can be measured by; of those with a value per parameter the largest counts."""

_DODGE = 0.12
"""Shift between the bars of two methods, as a share of the step between rounds."""

_MAX_TICKS = 12
"""Rounds that all get a number on the axis: more would overlap."""

_SEED = 20_261_115
"""Of the draws from posteriors, so that a plot is the same whenever it is drawn."""

MetricValues = Float[Array, "*trials rounds"]
"""A metric after each round, of one trial or several."""

PosteriorsOfRounds = Sequence[AbstractPosterior] | Sequence[Sequence[AbstractPosterior]]
"""One posterior per round, of one trial or several."""


@styled
def convergence(
    values: PosteriorsOfRounds | Mapping[str, MetricValues | PosteriorsOfRounds],
    *,
    reference: Float[Array, "n d"] | None = None,
    rounds: Sequence[float] | None = None,
    metric: str = "C2ST",
    xlabel: str = "round",
    floor: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Accuracy over rounds: the mean of a metric over trials, with bars between the quartiles.

    Use it to see how many rounds or simulations a sequential method needs, and which of several
    gets there first.

    Args:
        values: Metrics by method: arrays (rounds,) for one trial, or (trials, rounds). In place of
            an array may stand the posteriors of the rounds, `list(method.rounds(key, model,
            observed))`, or a list of such lists for several trials. A lone list needs no
            dictionary.
        reference: Draws from the exact posterior, shape (n, d), with which posteriors are compared.
        rounds: Places on the horizontal axis; 1, ..., R by default. They may be numbers of
            simulations.
        metric: Which of `METRICS` measures posteriors; also the label of the vertical axis.
        xlabel: Label of the horizontal axis.
        floor: What exact draws reach, drawn as a line.
        ax: Axes to draw on; those of a new figure by default.

    Returns:
        The axes.

    Raises:
        InvalidInputError: If methods or trials differ in their number of rounds, values are not
            finite, or posteriors come without `reference`.
        InvalidTypeError: If values are neither arrays nor posteriors.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> values = 0.5 + 0.4 * rng.random((20, 5)) / np.arange(1, 6)
        >>> ax = convergence({"SPPE": values}, floor=0.5)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('round', 'C2ST')
    """
    trials = {
        name: _trials(name, given, metric, reference) for name, given in _by_method(values).items()
    }
    places = _places(rounds, {name: array.shape[1] for name, array in trials.items()})
    ax = one_axes(ax, (3.6, 2.7))
    _draw_trials(ax, trials, places)
    if floor is not None:
        ax.axhline(floor, color=PRIOR, linestyle="--", linewidth=1.0, label="exact draws", zorder=0)
    if rounds is None and len(places) <= _MAX_TICKS:
        ax.set_xticks(places)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    ax.set_xlabel(xlabel)
    ax.set_ylabel(metric)
    several = any(len(array) > 1 for array in trials.values())
    title = "mean and quartiles" if several else None
    if len(trials) > 1 or floor is not None or several:
        ax.legend(title=title, title_fontsize=8.0, alignment="left")
    return ax


def _draw_trials(ax: Axes, trials: Mapping[str, np.ndarray], places: np.ndarray) -> None:
    """Means and quartiles of each method, side by side at each place."""
    step = _DODGE * float(np.diff(places).min() if len(places) > 1 else 1.0)
    shifts = step * (np.arange(len(trials)) - (len(trials) - 1) / 2.0)
    for shift, (name, look) in zip(shifts, looks(trials).items(), strict=True):
        low, high = np.quantile(trials[name], [0.25, 0.75], axis=0)
        ax.vlines(places + shift, low, high, color=look["color"], linewidth=1.2, alpha=0.8)
        line: dict[str, Any] = {"color": look["color"], "marker": look["marker"], "linewidth": 1.2}
        ax.plot(places + shift, trials[name].mean(axis=0), label=name, **line)


def _by_method(values: object) -> dict[str, Any]:
    """Methods to what they gave; a lone list of posteriors goes by the name of its method."""
    if isinstance(values, Mapping) and values:
        return {
            str(name): list(each) if isinstance(each, Iterator) else each
            for name, each in values.items()
        }
    given = (
        list(values)
        if isinstance(values, (Iterator, Sequence)) and not isinstance(values, (str, bytes))
        else []
    )
    if given and all(isinstance(posterior, AbstractPosterior) for posterior in given):
        return {given[0].report.method: given}
    raise InvalidTypeError(
        'values must map methods to arrays (trials, rounds) of a metric, such as {"SPPE": c2st},'
        ' or to the posteriors of the rounds, such as {"SPPE": list(method.rounds(key, model,'
        f" observed))}}; got {describe(values)}."
    )


def _trials(name: str, given: Any, metric: str, reference: ArrayLike | None) -> np.ndarray:
    """The metric (trials, rounds) of one method."""
    what = f"values[{name!r}]"
    if isinstance(given, AbstractPosterior):
        raise InvalidTypeError(
            f"{what} must be the posteriors of all rounds, list(method.rounds(...)); got one alone."
        )
    if _are_posteriors(given):
        return _measured([given], what, metric, reference)
    if isinstance(given, Sequence) and given and all(_are_posteriors(trial) for trial in given):
        return _measured(given, what, metric, reference)
    array = np.atleast_2d(numbers(given, what))
    finite = bool(np.isfinite(array).all())
    if array.ndim != 2 or array.size == 0 or not finite:
        values = "" if finite else " with NaN or infinity"
        raise InvalidInputError(
            f"{what} must be a finite array (trials, rounds), got {describe(array)}{values}: leave"
            " failed trials out."
        )
    return array


def _are_posteriors(given: object) -> bool:
    return (
        isinstance(given, Sequence)
        and len(given) > 0
        and all(isinstance(posterior, AbstractPosterior) for posterior in given)
    )


def _measured(
    trials: Sequence[Sequence[AbstractPosterior]],
    what: str,
    metric: str,
    reference: ArrayLike | None,
) -> np.ndarray:
    """The metric of each posterior (trials, rounds)."""
    if metric not in METRICS:
        raise InvalidInputError(
            f"metric must be one of {', '.join(METRICS)} where posteriors are given, got"
            f" {metric!r}."
        )
    if reference is None:
        raise InvalidInputError(
            f"{what} holds posteriors, which {metric} compares with exact draws: pass reference=,"
            " such as problem.reference(key, 2000)."
        )
    if len({len(trial) for trial in trials}) > 1:
        raise InvalidInputError(
            f"All trials of {what} must have the same number of rounds, got"
            f" {[len(trial) for trial in trials]}."
        )
    exact = one_sample(reference, "reference")
    key = jax.random.key(_SEED)

    def measure(posterior: AbstractPosterior) -> float:
        return float(np.max(METRICS[metric](exact, posterior.sample(key, len(exact)))))

    return np.array([[measure(posterior) for posterior in trial] for trial in trials])


def _places(rounds: Sequence[float] | None, widths: Mapping[str, int]) -> np.ndarray:
    width = next(iter(widths.values()))
    places = np.arange(1.0, width + 1.0) if rounds is None else numbers(rounds, "rounds")
    if (
        set(widths.values()) != {width}
        or places.shape != (width,)
        or not (np.diff(places) > 0.0).all()
    ):
        got = ", ".join(f"{size} for {name!r}" for name, size in widths.items())
        raise InvalidInputError(
            "All methods must have the same number of rounds, one for each of rising `rounds`; got"
            f" {got} and rounds of {describe(places)}."
        )
    return places
