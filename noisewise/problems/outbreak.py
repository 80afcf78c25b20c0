"""Real outbreaks: influenza in a school, Ebola in West Africa, COVID-19 in Clark County."""

from __future__ import annotations

import csv
import dataclasses
import importlib.resources
from functools import cache
from typing import Any

import jax
import numpy as np
from scipy.optimize import least_squares

from noisewise.errors import InvalidInputError
from noisewise.mechanisms import PaddedBinomial
from noisewise.mechanisms.guarantees import PureDP
from noisewise.problems._epidemic_references import epidemic_references, time_shift_reference
from noisewise.problems._seeds import OBSERVATION_SEED
from noisewise.problems.base import Problem
from noisewise.problems.sir import epidemic_model
from noisewise.simulators import SIR

NAMES = ("influenza", "ebola-guinea", "ebola-liberia", "ebola-sierra-leone", "covid-clark")
UNITS = 17.0
"""Time units per observation interval, as in the paper's code; rates are per unit."""
PRIOR_MEAN, PRIOR_VARIANCE = (-2.0, -3.0), (1.0, 1.0)
_TRIALS, _PADDING = 100, 100.0


@dataclasses.dataclass(frozen=True)
class OutbreakData:
    """A confidential infection curve: counts at equally spaced days, with its source."""

    name: str
    title: str
    source: str
    population: int
    interval_days: float
    proportions: tuple[float, ...]

    @property
    def counts(self) -> np.ndarray:
        """round(K * proportion), except that one person is infected at time 0: the initial
        condition of the model.
        """
        counts = np.round(self.population * np.asarray(self.proportions))
        counts[0] = 1.0
        return counts

    @property
    def times(self) -> tuple[float, ...]:
        """Observation times in units of 1/17 of the interval."""
        return tuple(UNITS * j for j in range(len(self.proportions)))


@cache
def outbreak_data(name: str) -> OutbreakData:
    """Read one of the shipped curves.

    >>> outbreak_data("influenza").counts.astype(int).tolist()
    [1, 3, 8, 28, 76, 222, 293, 257, 237, 192]
    """
    if name not in NAMES:
        raise InvalidInputError(f"The known outbreaks are {', '.join(NAMES)}; got {name!r}.")
    lines = (
        importlib.resources.files("noisewise.problems")
        .joinpath(f"data/{name}.csv")
        .read_text()
        .splitlines()
    )
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    return OutbreakData(
        name=name,
        title=head["title"],
        source=head["source"],
        population=int(head["population"]),
        interval_days=float(head["interval_days"]),
        proportions=tuple(float(row["proportion"]) for row in rows),
    )


def outbreak(name: str, epsilon: float | None = None, *, seed: int = OBSERVATION_SEED) -> Problem:
    r"""An outbreak released through the paper's mechanism with n = m = 100 (epsilon about 9.95), or
    calibrated to `epsilon`.

    The published "releases" are raw proportions that never went through the mechanism. Here they
    are the CONFIDENTIAL curve, released through `PaddedBinomial` with the recorded `seed`. theta =
    (log beta, log gamma) per 1/17 of an observation interval with prior N((-2, -3), I); derived
    quantities give R0 and the rates per day.

    Exact posterior: the time shift and importance sampling for the populations of 100,000; exact
    simulation alone for the 763 boys of the influenza outbreak, with the time shift as a compared
    approximation.

    >>> problem = outbreak("influenza")
    >>> problem.model.derived_quantities([[-2.0, -3.0]])["R0"].round(3).tolist()
    [2.718]
    """
    data = outbreak_data(name)
    shape = {"trials": _TRIALS, "population": data.population, "num_times": len(data.proportions)}
    if epsilon is None:
        mechanism = PaddedBinomial(padding=_PADDING, **shape)
    else:
        mechanism = PaddedBinomial.calibrate(guarantee=PureDP(epsilon), **shape)
    per_day = UNITS / data.interval_days
    exact = data.population < 10_000
    model = epidemic_model(
        prior_mean=PRIOR_MEAN,
        prior_variance=PRIOR_VARIANCE,
        simulator=SIR(
            population=data.population, times=data.times, method="gillespie" if exact else "leap"
        ),
        mechanism=mechanism,
        derived={
            "beta_per_day": lambda theta: per_day * np.exp(theta[..., 0]),
            "gamma_per_day": lambda theta: per_day * np.exp(theta[..., 1]),
        },
    )
    key = jax.random.fold_in(
        jax.random.key(seed), NAMES.index(name)
    )  # each outbreak has noise of its own
    observed = mechanism.sample(key, data.counts)
    references = dict(epidemic_references(model, observed))
    if exact:
        references["time-shift approximation"] = time_shift_reference(model, observed)
    return Problem(
        name=f"outbreak-{name}",
        model=model,
        observed=observed,
        truth=None,
        confidential=data.counts,
        settings={"outbreak": name, "epsilon": epsilon, "seed": seed},
        references=references,
        at_epsilon=lambda e: outbreak(name, e, seed=seed),
        notes=(
            f"{data.title}. Source: {data.source}.",
            (
                "The published proportions are taken as the confidential curve and released with"
                f" seed {seed}."
            ),
        ),
    )


def ode_fit(data: OutbreakData) -> np.ndarray:
    """The non-private baseline: (log beta, log gamma) of the deterministic epidemic closest to the
    confidential counts in least squares, from 16 starting points.

    >>> fit = ode_fit(outbreak_data("influenza"))
    >>> round(float(np.exp(fit[0] - fit[1])), 1)
    3.8
    """
    simulator = SIR(population=data.population, times=data.times, dynamics="ode")
    key = jax.random.key(0)

    def residuals(theta: np.ndarray) -> Any:
        curve = simulator.simulate(key, theta[None])[0]
        return (np.asarray(curve) - data.counts) / data.population

    starts = [(a, b) for a in (-3.0, -2.0, -1.0, 0.0) for b in (-5.0, -4.0, -3.0, -2.0) if a > b]
    fits = [
        least_squares(residuals, start, bounds=([-10.0, -10.0], [5.0, 5.0])) for start in starts
    ]
    return min(fits, key=lambda fit: fit.cost).x
