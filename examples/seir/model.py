"""An SEIR epidemic in a town, known by a private histogram of the weeks of reported illness."""

import numpy as np
import numpyro.distributions as dist

import noisewise as nw

PEOPLE, WEEKS, LATENT_DAYS, INFECTIOUS_DAYS = 600, 10, 3.0, 5.0

initial, reporting = dist.LogNormal(np.log(10.0), 0.7), dist.Beta(4.0, 4.0)
r0 = dist.LogNormal(np.log(2.0), 0.3)
prior = nw.Prior({"R0": r0, "initial": initial, "reporting": reporting})


def simulate(rng, theta):
    """The week in which each person is reported ill, 1 to WEEKS; 0 for those who never are."""
    r0, initial, reporting = theta
    exposed, infectious, reported = min(PEOPLE, round(initial)), 0, np.zeros(WEEKS + 1, dtype=int)
    susceptible = PEOPLE - exposed
    for day in range(7 * WEEKS):
        daily_risk = 1.0 - np.exp(-r0 / INFECTIOUS_DAYS * infectious / PEOPLE)
        infections = rng.binomial(susceptible, daily_risk)
        onsets = rng.binomial(exposed, 1.0 - np.exp(-1.0 / LATENT_DAYS))
        recoveries = rng.binomial(infectious, 1.0 - np.exp(-1.0 / INFECTIOUS_DAYS))
        susceptible -= infections
        exposed += infections - onsets
        infectious += onsets - recoveries
        reported[1 + day // 7] += rng.binomial(onsets, reporting)
    reported[0] = PEOPLE - reported.sum()
    return np.repeat(np.arange(WEEKS + 1), reported)


def model(release):
    """The release says what was counted and with which noise; prior and simulator come from here."""
    simulator = nw.simulators.PythonSimulator(simulate)
    return nw.PrivateModel.from_release(release, prior=prior, simulator=simulator)
