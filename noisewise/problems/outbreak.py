"""Real outbreaks: influenza in a school, Ebola in West Africa, COVID-19 in Clark County."""

from __future__ import annotations

import csv
import dataclasses
import importlib.resources
from functools import cache

import jax
import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from noisewise.errors import InvalidInputError
from noisewise.mechanisms import PaddedBinomial
from noisewise.mechanisms.guarantees import PureDP
from noisewise.problems._epidemic_references import (
    LARGE_POPULATION,
    epidemic_references,
    time_shift_reference,
)
from noisewise.problems._seeds import OBSERVATION_SEED
from noisewise.problems.base import Problem
from noisewise.problems.sir import epidemic_model
from noisewise.simulators import SIR

NAMES = ("influenza", "ebola-guinea", "ebola-liberia", "ebola-sierra-leone", "covid-clark")
UNITS = 17.0
"""Time units per observation interval, as in the paper's code; rates are per unit."""

PRIOR_MEAN, PRIOR_VARIANCE = (-2.0, -3.0), (1.0, 1.0)
"""Of (log beta, log gamma), as in the paper."""

_TRIALS, _PADDING = 100, 100.0  # the paper's n and m: epsilon is about 9.95 at 10 times

AT_HUNDRED_THOUSAND = dataclasses.replace(LARGE_POPULATION, mean_error=0.08)
"""Of one outbreak, whose start must have been improbably fast; less of the others."""

_SMALL_POPULATION = 10_000
"""People below which every event is simulated: 20,000 events of 20 ns are .4 ms."""


@dataclasses.dataclass(frozen=True)
class OutbreakData:
    """A confidential infection curve: counts at equally spaced days, with its source.

    Attributes:
        name: Name of the outbreak.
        title: What a reader of results sees.
        source: Where the counts were published.
        population: Number K of people.
        interval_days: Days between observations.
        proportions: Infected, as shares of the population.
    """

    name: str
    title: str
    source: str
    population: int
    interval_days: float
    proportions: tuple[float, ...]

    @property
    def counts(self) -> Float[np.ndarray, " times"]:
        """round(K * proportion), except that one person is infected at time 0, as in the model."""
        counts = np.round(self.population * np.asarray(self.proportions))
        counts[0] = 1.0
        return counts

    @property
    def times(self) -> tuple[float, ...]:
        """Observation times in units of 1/17 of the interval."""
        return tuple(UNITS * j for j in range(len(self.proportions)))


@cache
def outbreak_data(name: str) -> OutbreakData:
    """Read one of the curves that ship with the package.

    Args:
        name: One of `NAMES`.

    Returns:
        The curve and its source.

    Raises:
        InvalidInputError: If the name is not known.

    Example:
        >>> outbreak_data("influenza").counts.astype(int).tolist()
        [1, 3, 8, 28, 76, 222, 293, 257, 237, 192]
    """
    if name not in NAMES:
        raise InvalidInputError(f"The known outbreaks are {', '.join(NAMES)}; got {name!r}.")
    folder = importlib.resources.files("noisewise.problems")
    lines = folder.joinpath(f"data/{name}.csv").read_text().splitlines()
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
    """A real outbreak, released through the paper's mechanism.

    The published "releases" are raw proportions that never went through the mechanism. Here they
    are the CONFIDENTIAL curve, released through `PaddedBinomial` with the recorded `seed`. theta =
    (log beta, log gamma) per 1/17 of an observation interval with prior N((-2, -3), I); derived
    quantities give R0 and the rates per day.

    Exact posterior: importance sampling over simulated epidemics. Beside it stands the time shift,
    which is exact in the limit of a large population: for populations of 100,000 it moved one mean
    by .08 posterior sds (`problem.limits`), and for the 763 boys of the influenza outbreak it is an
    approximation to compare.

    Args:
        name: "influenza", "ebola-guinea", "ebola-liberia", "ebola-sierra-leone" or "covid-clark".
        epsilon: Privacy budget; by default that of the paper's n = m = 100, about 9.95.
        seed: Seed of the noise; every outbreak has its own noise.

    Returns:
        The problem; its truth is None.

    Raises:
        InvalidInputError: If the name is not known, or epsilon is not above 0.

    Example:
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
    exact = data.population < _SMALL_POPULATION
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
    key = jax.random.fold_in(jax.random.key(seed), NAMES.index(name))
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
        limits={
            route: LARGE_POPULATION if exact else AT_HUNDRED_THOUSAND
            for route in references
            if route.startswith("time-shift")
        },
        at_epsilon=lambda e: outbreak(name, e, seed=seed),
        notes=(
            f"{data.title}. Source: {data.source}.",
            (
                "The published proportions are taken as the confidential curve and released with"
                f" seed {seed}."
            ),
        ),
    )


def ode_fit(data: OutbreakData) -> Float[np.ndarray, " 2"]:
    """The non-private baseline: the deterministic epidemic closest to the confidential counts.

    It is a least-squares fit from 16 starting points.

    Args:
        data: A confidential curve.

    Returns:
        (log beta, log gamma), shape (2,).

    Example:
        >>> fit = ode_fit(outbreak_data("influenza"))
        >>> round(float(np.exp(fit[0] - fit[1])), 1)
        3.8
    """
    simulator = SIR(population=data.population, times=data.times, dynamics="ode")
    key = jax.random.key(0)

    def residuals(theta: np.ndarray) -> np.ndarray:
        curve = simulator.simulate(key, theta[None])[0]
        return (np.asarray(curve) - data.counts) / data.population

    starts = [(a, b) for a in (-3.0, -2.0, -1.0, 0.0) for b in (-5.0, -4.0, -3.0, -2.0) if a > b]
    box = ([-10.0, -10.0], [5.0, 5.0])
    fits = [least_squares(residuals, start, bounds=box) for start in starts]
    return min(fits, key=lambda fit: fit.cost).x
