"""Curves with their uncertainty."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, describe, number
from noisewise._core.draws import one_sample
from noisewise.diagnostics import Certificate
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.model.private_model import PrivateModel
from noisewise.plotting.style import OKABE_ITO, TRUTH, one_axes, styled
from noisewise.plotting.tables import even_rows, numbers
from noisewise.posteriors import AbstractPosterior
from noisewise.simulators import SIR

if TYPE_CHECKING:
    from noisewise.disclosure import Release

_FINE_TIMES = 200
"""Times at which curves are simulated besides those of the model: smooth at any size of figure."""

_CURVES = 1000
"""Simulated curves: 25 lie beyond each end of a 95% band."""

_SEED = 20_261_115
"""Of simulated curves, so that a plot is the same whenever it is drawn."""


@styled
def infection_fan(
    curves: AbstractPosterior | Certificate | Float[Array, "n times"],
    *,
    model: PrivateModel | None = None,
    times: Float[Array, " times"] | None = None,
    observed: Float[Array, " kp"] | Release | None = None,
    observed_times: Float[Array, " kp"] | None = None,
    truth: Float[Array, " times"] | None = None,
    levels: Sequence[float] = (0.5, 0.8, 0.95),
    xlabel: str = "time",
    ylabel: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """An epidemic with its uncertainty: the median of curves, and bands that hold shares `levels`
    of them.

    Use it to show what a private release says of the confidential curve. There are two ways to
    call it.

    **With a model** whose simulator is `nw.simulators.SIR`, `curves` is a posterior, and all is
    shown as percentages of the population. `observed` is the release as it came: counts of
    `PaddedBinomial` are turned back into people by inverting their mean. A posterior that drew
    confidential statistics, as exact methods do, shows their law p(s | s_dp) at the times of the
    model. For others 1000 epidemics are simulated at their draws, on a fine grid: their spread
    includes the chance of a new epidemic.

    **Without a model** `curves` is an array on any scale, or a posterior with confidential
    statistics.

    Args:
        curves: A posterior, or curves, shape (n, times).
        model: The model of the posterior; it gives times and scale.
        times: Times of the curves, without a model; 0, 1, ... by default.
        observed: The private release, drawn as points.
        observed_times: Its times, without a model; `times` by default.
        truth: The confidential curve, one value per time; with a deterministic model also theta.
        levels: Shares of curves that the bands hold, each in (0, 1).
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis; by default it names people or percentages.
        ax: Axes to draw on; those of a new figure by default.

    Returns:
        The axes.

    Raises:
        InvalidInputError: If shapes do not fit, or times come with a model.
        InvalidTypeError: If the model's simulator is not `SIR`, or `curves` is not a posterior
            with it.
        MissingCapabilityError: If a posterior without confidential statistics comes without a
            model.

    Example:
        >>> times, rates = np.arange(30.0), np.random.default_rng(0).normal(0.3, 0.02, size=200)
        >>> curves = 1.0 / (1.0 + 1000.0 * np.exp(-rates[:, None] * times))
        >>> release = {"observed": [0.0, 0.05, 0.3], "observed_times": [0.0, 10.0, 20.0]}
        >>> ax = infection_fan(curves, times=times, **release)
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['95%', '80%', '50%', 'median', 'private release']
    """
    given = _Given(curves, times, observed, observed_times, truth, None)
    given = _of_curves(given) if model is None else _of_model(given, model)
    draws, places = given.curves, given.times
    chosen = sorted(
        (number("levels", above=0.0, below=1.0)(level) for level in levels), reverse=True
    )
    ax = one_axes(ax, (4.2, 2.7))
    color = OKABE_ITO[0]
    for i, level in enumerate(chosen):
        low, high = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        opacity = 0.15 + 0.45 * i / max(len(chosen) - 1, 1)
        ax.fill_between(
            places, low, high, color=color, alpha=opacity, linewidth=0.0, label=f"{100 * level:g}%"
        )
    ax.plot(places, np.median(draws, axis=0), color=color, label="median")
    if given.truth is not None:
        where = places if given.truth_times is None else given.truth_times
        line = _line(given.truth, None, len(where), "truth")
        ax.plot(where, line, color=TRUTH, linewidth=1.0, linestyle="--", label="truth")
    if given.observed is not None:
        _draw_observed(
            ax, given.observed, places if given.observed_times is None else given.observed_times
        )
    ax.set_xlim(places[0], places[-1])
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel or ("infected" if model is None else "infected (% of the population)"))
    ax.legend()
    return ax


class _Given(NamedTuple):
    curves: Any
    times: Any
    observed: Any
    observed_times: Any
    truth: Any
    truth_times: Any


def _of_curves(given: _Given) -> _Given:
    """Curves as they are, or the confidential statistics of a posterior."""
    curves = given.curves.corrected if isinstance(given.curves, Certificate) else given.curves
    if isinstance(curves, AbstractPosterior):
        if curves.statistics is None:
            raise MissingCapabilityError(
                f"{curves.report.method} drew no confidential statistics: pass model=, so that"
                " curves are simulated at its draws, or curves (N, L) of your own."
            )
        curves = curves.statistics[even_rows(curves.weights)]
    draws = one_sample(curves, "curves", advice="pass a posterior and model=, or curves (N, L)")
    places = _line(given.times, np.arange(draws.shape[1], dtype=float), draws.shape[1], "times")
    if not (np.diff(places) > 0.0).all():
        raise InvalidInputError("times must be increasing.")
    return given._replace(curves=draws, times=places)


def _of_model(given: _Given, model: PrivateModel) -> _Given:
    """The curves of a posterior, the release and the truth in percent of the model's population."""
    posterior = given.curves.corrected if isinstance(given.curves, Certificate) else given.curves
    if not isinstance(model, PrivateModel) or not isinstance(model.simulator, SIR):
        raise InvalidTypeError(
            "model must be a PrivateModel whose simulator is nw.simulators.SIR, got"
            f" {describe(model)}: pass curves (N, L) without model=."
        )
    if not isinstance(posterior, AbstractPosterior):
        raise InvalidTypeError(
            f"With model=, the first argument must be a posterior, got {describe(posterior)}: pass"
            " curves without model=."
        )
    if given.times is not None or given.observed_times is not None:
        raise InvalidInputError(
            "With model=, the times come from the model: leave times and observed_times out, or"
            " pass curves without model=."
        )
    simulator = model.simulator
    seen_at, percent = np.array(simulator.times), 100.0 / simulator.population
    draws, places = _curves_of(posterior, model)
    observed = given.observed
    if observed is not None:
        observed = percent * _people(model.observation(observed), model)
    truth, truth_times = _truth(given.truth, model)
    shown = None if truth is None else percent * truth
    return _Given(percent * draws, places, observed, seen_at, shown, truth_times)


def _curves_of(posterior: AbstractPosterior, model: PrivateModel) -> tuple[np.ndarray, np.ndarray]:
    """Curves (N, L) of people, and their times."""
    simulator: Any = model.simulator
    if posterior.statistics is not None and posterior.statistics.shape[1] == len(simulator.times):
        return posterior.statistics[even_rows(posterior.weights)], np.array(simulator.times)
    fine = _fine(simulator)
    draw_key, simulate_key = jax.random.split(jax.random.key(_SEED))
    curves = fine.simulate(simulate_key, posterior.sample(draw_key, _CURVES))
    return np.asarray(curves), np.array(fine.times)


def _fine(simulator: SIR) -> SIR:
    even = np.linspace(simulator.times[0], simulator.times[-1], _FINE_TIMES)
    times = np.union1d(even, simulator.times)
    return dataclasses.replace(simulator, times=tuple(times.tolist()))


def _people(observed: np.ndarray, model: PrivateModel) -> np.ndarray:
    """The confidential counts whose mean release is the observed one."""
    try:
        return model.mechanism.estimate(observed)
    except MissingCapabilityError:
        return observed


def _truth(
    truth: ArrayLike | None, model: PrivateModel
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The confidential curve and its times, from theta where the epidemic is deterministic."""
    simulator: Any = model.simulator
    if truth is None:
        return None, None
    values = np.atleast_1d(numbers(truth, "truth"))
    is_theta = values.shape == (model.prior.dim,) != (len(simulator.times),)
    if is_theta and simulator.dynamics == "ode":
        fine = _fine(simulator)
        curve = np.asarray(fine.simulate(jax.random.key(_SEED), values[None]))[0]
        return curve, np.array(fine.times)
    if values.shape != (len(simulator.times),):
        theta = ", or theta" if simulator.dynamics == "ode" else "; theta does not determine it"
        raise InvalidInputError(
            f"truth must be the confidential curve at the {len(simulator.times)} times of the"
            f" model{theta}; got {describe(values)}."
        )
    return values, np.array(simulator.times)


def _line(
    values: ArrayLike | None, default: np.ndarray | None, length: int, name: str
) -> np.ndarray:
    line = default if values is None else np.atleast_1d(numbers(values, name))
    if line is None or line.shape != (length,) or not np.isfinite(line).all():
        raise InvalidInputError(
            f"{name} must hold {length} finite values, one per time; got {describe(values)}."
        )
    return line


def _draw_observed(ax: Axes, observed: ArrayLike, times: ArrayLike) -> None:
    places = np.atleast_1d(numbers(times, "observed_times"))
    values = _line(observed, None, len(places), "observed")
    point: dict[str, Any] = {"color": OKABE_ITO[1], "markersize": 4.5, "mec": "white", "mew": 0.6}
    ax.plot(places, values, "o", label="private release", clip_on=False, zorder=4, **point)
