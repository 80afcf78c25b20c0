"""Guided epidemics: densities that integrate to one, weighted means that are the model's, and
starts that fit the observation.
"""

import importlib.util
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.problems import _guided_epidemics
from noisewise.problems._guided_epidemics import POWERS, GuidedEpidemics

KEY = jax.random.key(0)
NUM = 20_000

SIMULATORS = {
    "events": nw.simulators.SIR(400, times=[0.0, 3.0, 8.0, 20.0], method="gillespie"),
    "three infected": nw.simulators.SIR(
        400, times=[2.0, 12.0], method="gillespie", initial_infected=3
    ),
    "leaps": nw.simulators.SIR(20_000, times=[5.0, 17.0, 34.0]),
}
THETAS = {"growing": (-1.0, -2.0), "hardly growing": (-1.0, -1.2), "shrinking": (-1.5, -1.0)}


def standard_scores(values, expected, variance=0.0):
    """(mean over epidemics - expected) in standard errors; `variance` is that of `expected`, where
    it is simulated too.
    """
    spread = np.sqrt(values.var(0) / len(values) + variance)
    return (values.mean(0) - expected) / np.where(spread > 0.0, spread, 1.0)


def all_integrate_to_one(guided, log_ratios):
    """Under the mixture, density of each guide over density of the mixture has mean 1: within 4
    standard errors for all seven.

    These ratios are at most 7 under equal shares, so that normal limits hold. The first is the
    weight itself.
    """
    densities = np.exp(log_ratios + guided.log_weights(log_ratios)[:, None])
    return np.abs(standard_scores(densities, 1.0)).max() < 4.0


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("name", SIMULATORS)
def test_weighted_epidemics_are_the_models(name, theta):
    """Also E I(t) and P(I(t) = 0) at every time agree with plain simulation, within 4 standard
    errors of both.
    """
    simulator, rows = SIMULATORS[name], np.tile(THETAS[theta], (NUM, 1))
    guided = GuidedEpidemics(simulator)
    infected, log_ratios = guided.simulate(KEY, rows)
    assert all_integrate_to_one(guided, log_ratios)
    weights = np.exp(guided.log_weights(log_ratios))[:, None]
    plain = simulator.simulate(jax.random.key(1), rows)
    for summary in (lambda x: x, lambda x: x == 0.0):
        expected = summary(plain)
        scores = standard_scores(
            weights * summary(infected), expected.mean(0), expected.var(0) / NUM
        )
        assert np.abs(scores).max() < 4.0


def test_planted_errors_of_the_density_are_caught():
    """The guided start ends with the only observation here, at time 1, so that its exponential term
    is exp(-kappa).
    """
    guided = GuidedEpidemics(nw.simulators.SIR(4000, times=[1.0]))
    infected, log_ratios = guided.simulate(KEY, np.tile([-1.0, -2.0], (NUM, 1)))
    assert infected.max() < guided.level
    assert all_integrate_to_one(guided, log_ratios)
    kappas = np.concatenate([[0.0], POWERS * (np.exp(-1.0) * 3999 / 4000 - np.exp(-2.0))])
    assert not all_integrate_to_one(guided, log_ratios + kappas)
    assert not all_integrate_to_one(
        guided, np.where(np.isfinite(log_ratios), -log_ratios, log_ratios)
    )


PLANTS = {
    "no exponential": ("total = -kappas[k] * t", "total = 0.0"),
    "no depletion": ("shortfall[i] * (steps[i, k] - 1.0)", "0.0"),
    "ratio inverted": ("total += math.log(steps[i, k])", "total -= math.log(steps[i, k])"),
    "rates of another guide": ("steps[:, guide], shortfall", "steps[:, guide // 2], shortfall"),
}


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS)
def test_planted_errors_in_the_kernel_are_caught(plant, tmp_path, monkeypatch):
    """One line of the module changed; with "events" above, which pass the same test."""
    source, (old, new) = Path(_guided_epidemics.__file__).read_text(), PLANTS[plant]
    assert source.count(old) == 1
    path = tmp_path / "planted.py"
    path.write_text(source.replace(old, new))
    spec = importlib.util.spec_from_file_location("planted", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planted", module)
    spec.loader.exec_module(module)
    guided = module.GuidedEpidemics(SIMULATORS["events"])
    log_ratios = guided.simulate(KEY, np.tile(THETAS["growing"], (NUM, 1)))[1]
    assert not all_integrate_to_one(guided, log_ratios)


def test_no_guide_where_none_can_help():
    """More infected than the level at the start, or recoveries a billion times faster than
    infections.
    """
    simulator = nw.simulators.SIR(400, times=[1.0, 2.0], initial_infected=30)
    assert np.all(
        GuidedEpidemics(simulator).simulate(KEY, np.tile([-1.0, -2.0], (50, 1)))[1] == 0.0
    )
    rows = np.tile([-800.0, -1.0], (50, 1))
    infected, log_ratios = GuidedEpidemics(SIMULATORS["events"]).simulate(KEY, rows)
    assert np.all(log_ratios == 0.0)
    assert np.all(infected <= 1.0)


def test_the_same_key_gives_the_same_epidemics():
    guided, rows = GuidedEpidemics(SIMULATORS["leaps"]), np.tile([-1.0, -2.0], (200, 1))
    first, again, fewer = (
        guided.simulate(KEY, rows),
        guided.simulate(KEY, rows),
        guided.simulate(KEY, rows[:70]),
    )
    for one, two, three in zip(first, again, fewer, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one[:70], three)
    assert not np.array_equal(first[0], guided.simulate(jax.random.key(1), rows)[0])


def test_fitted_guides_reach_the_rare_start_of_covid():
    """At the posterior mean one plain epidemic in 150 counts, and nearly every second guided one
    (200,000 of each).
    """
    problem = nw.problems.outbreak("covid-clark")
    rows = np.tile([-1.61, -2.89], (4000, 1))

    def weigh(guided, key):
        infected, log_ratios = guided.simulate(key, rows)
        return log_ratios, problem.model.mechanism.log_prob(
            problem.observed, infected
        ) + guided.log_weights(log_ratios)

    def share_that_counts(log_weights):
        weights = np.exp(log_weights - log_weights.max())
        return weights.sum() ** 2 / (weights**2).sum() / len(weights)

    fitted = GuidedEpidemics(problem.model.simulator)
    fitted = fitted.fitted(*weigh(fitted, KEY))
    assert fitted.shares.sum() == pytest.approx(1.0)
    assert fitted.shares.min() > 0.015
    plain = problem.model.mechanism.log_prob(problem.observed, problem.model.statistics(KEY, rows))
    assert share_that_counts(plain) < 0.02
    assert share_that_counts(weigh(fitted, jax.random.key(1))[1]) > 0.3
