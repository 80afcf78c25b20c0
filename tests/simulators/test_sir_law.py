"""The laws of simulated epidemics: exact at a population of 20, extinction, leaps against events,
JAX against Numba.

Every gate is also shown to fail on a planted error.
"""

import math

import jax
import numba
import numpy as np
import pytest

import noisewise as nw
from noisewise.simulators.xoshiro import key_words, seeded, uniform
from tests.simulators.epidemics import (
    TIMES,
    VECTORS,
    chi_square_p_value,
    exact_laws,
    smallest_p_value,
)

SMALL_TIMES = (0.5, 2.0, 6.0)
NUM_SMALL = 100_000


def curves(seed, theta, num, population, times=TIMES, **options):
    simulator = nw.simulators.SIR(population, times, **options)
    return simulator.simulate(jax.random.key(seed), np.tile(theta, (num, 1)))


@numba.njit(error_model="numpy")
def one_event_ahead(words, beta, gamma, population, times, infected):
    """The planted error: an event is applied before it is asked whether it falls behind the
    observation time.
    """
    for row in range(len(infected)):
        rng = seeded(words, row)
        s, i, t = population - 1.0, 1.0, 0.0
        for place in range(times.size):
            while t < times[place] and i > 0.0:
                infection, recovery = beta * s * i / population, gamma * i
                u, rng = uniform(rng)
                t -= math.log(u) / (infection + recovery)
                u, rng = uniform(rng)
                if u * (infection + recovery) < infection:
                    s -= 1.0
                    i += 1.0
                else:
                    i -= 1.0
            infected[row, place] = i


@pytest.mark.parametrize("method", ["gillespie", "leap"])
@pytest.mark.parametrize("rates", [(1.5, 0.5), (0.7, 0.9)])
def test_law_at_population_20(rates, method):
    """Chi-square p > .001 at three times for 100,000 epidemics; below a switch of 500, `leap` makes
    events only.
    """
    x = curves(1, np.log(rates), NUM_SMALL, 20, SMALL_TIMES, method=method)
    laws = exact_laws(*rates, 20, SMALL_TIMES)
    assert min(chi_square_p_value(x[:, j], law) for j, law in enumerate(laws)) > 0.001


def test_law_at_population_20_without_recovery():
    x = curves(2, [math.log(0.8)], NUM_SMALL, 20, SMALL_TIMES, variant="si")
    laws = exact_laws(0.8, 0.0, 20, SMALL_TIMES)
    assert min(chi_square_p_value(x[:, j], law) for j, law in enumerate(laws)) > 0.001


def test_an_event_too_many_is_caught():
    rates = (1.5, 0.5)
    x = np.empty((NUM_SMALL, 3))
    one_event_ahead(key_words(jax.random.key(1)), *rates, 20.0, np.array(SMALL_TIMES), x)
    p_values = [
        chi_square_p_value(x[:, j], law)
        for j, law in enumerate(exact_laws(*rates, 20, SMALL_TIMES))
    ]
    assert max(p_values) < 1e-6


@pytest.mark.parametrize("initial", [1, 3])
def test_extinction_probability(initial):
    """By time t, while infections are few beside the population, q(t)^initial with the birth-death
    process's q(t) = gamma (e^{rt} - 1) / (beta e^{rt} - gamma), which tends to gamma / beta: within
    4 standard errors.
    """
    num, beta, gamma, t = 20_000, 0.6, 0.3, 20.0
    growth = math.exp((beta - gamma) * t)
    p = (gamma * (growth - 1.0) / (beta * growth - gamma)) ** initial
    assert p == pytest.approx((gamma / beta) ** initial, rel=0.01)

    def standardised(beta):
        x = curves(3, np.log([beta, gamma]), num, 1_000_000, (t,), initial_infected=initial)
        return ((x[:, 0] == 0).mean() - p) / math.sqrt(p * (1 - p) / num)

    assert abs(standardised(beta)) < 4
    assert abs(standardised(1.05 * beta)) > 4


@pytest.mark.parametrize("theta", [pytest.param(VECTORS[0], marks=pytest.mark.slow), VECTORS[2]])
def test_leaps_follow_the_law_of_events(theta):
    """20,000 epidemics at a population of 2,000, from 20 infected so that 1% more beta shows: power
    above .99.
    """
    exact = curves(4, theta, 20_000, 2_000, initial_infected=20, method="gillespie")
    leap = curves(5, theta, 20_000, 2_000, initial_infected=20)
    planted = curves(5, np.add(theta, [math.log(1.01), 0.0]), 20_000, 2_000, initial_infected=20)
    assert smallest_p_value(leap, exact) > 0.001
    assert smallest_p_value(planted, exact) < 0.001


def test_observations_within_a_leap_have_the_right_spread():
    """Observed early in an epidemic that starts with leaps, where the state at a fraction f of a
    leap has f of its variance. The planted error is to interpolate between the ends, which has f^2
    of it.
    """
    theta, num = VECTORS[0], 20_000
    leap = 0.25
    length = leap / np.exp(theta).sum()  # of the first leap, at S ~ K
    times = (0.3 * length, 0.7 * length, 1.5 * length, 4 * length)
    options = {"initial_infected": 2_000, "times": times}
    exact = curves(6, theta, num, 1_000_000, method="gillespie", **options)
    coarse = curves(7, theta, num, 1_000_000, leap=leap, **options)
    assert smallest_p_value(coarse, exact) > 0.001
    whole = curves(
        8, theta, num, 1_000_000, method="gillespie", initial_infected=2_000, times=(length,)
    )
    interpolated = np.rint(2_000 * (whole / 2_000) ** 0.3)
    assert smallest_p_value(interpolated, exact[:, :1]) < 0.001


def test_jax_follows_the_law_of_numba():
    """2,048 epidemics from 1,000 infected of 20,000 against 20,000: at this size 2% more beta is
    seen.
    """
    theta, options = VECTORS[0], {"initial_infected": 1_000}
    numba_curves = curves(9, theta, 20_000, 20_000, **options)
    jax_curves = curves(10, theta, 2_048, 20_000, backend="jax", **options)
    planted = curves(
        10, np.add(theta, [math.log(1.02), 0.0]), 2_048, 20_000, backend="jax", **options
    )
    assert smallest_p_value(jax_curves, numba_curves) > 0.001
    assert smallest_p_value(planted, numba_curves) < 0.001


def test_jax_events_follow_the_exact_law():
    """Chi-square at a population of 20, below the switch: 4,096 epidemics at nine times,
    Bonferroni.
    """
    rates, times = (1.5, 0.5), (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    x = curves(11, np.log(rates), 4_096, 20, times, backend="jax")
    laws = exact_laws(*rates, 20, times)
    assert min(chi_square_p_value(x[:, j], law) for j, law in enumerate(laws)) * len(times) > 0.001


def test_large_epidemics_follow_the_differential_equation():
    """From 10^6 infected of 10^8 the relative fluctuations are of order 10^-3."""
    theta, options = [VECTORS[0]], {"initial_infected": 10**6}
    x = curves(12, theta[0], 3, 10**8, **options)
    ode = curves(12, theta[0], 1, 10**8, dynamics="ode", **options)
    assert x == pytest.approx(np.repeat(ode, 3, axis=0), rel=0.02)
