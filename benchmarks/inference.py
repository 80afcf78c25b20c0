"""Exact inference: simulations and seconds that ExactSMC and SMC-ABC take on SIR, and what interweaving buys on the regression."""

import time

import jax
import numpy as np

import noisewise as nw
from noisewise.metrics import c2st, mmd


def run() -> list[dict[str, object]]:
    return [*epidemics(), *interweaving()]


def epidemics() -> list[dict[str, object]]:
    """SIR at epsilon 10: each method until it is near the exact posterior, by its own measure."""
    problem = nw.problems.sir(10.0)
    reference = problem.reference(jax.random.key(1), 2000)
    exact = nw.inference.ExactSMC(num_particles=1000, target_ess=2000)
    started = time.perf_counter()
    posterior = exact.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    rows: list[dict[str, object]] = [
        {
            "method": "exact-smc",
            "simulations": posterior.report.num_simulations,
            "seconds": round(time.perf_counter() - started, 1),
            "c2st": round(c2st(reference, posterior.sample(jax.random.key(2), 2000)), 3),
            "mmd^2": round(mmd(reference, posterior.sample(jax.random.key(2), 2000)), 4),
        }
    ]
    started = time.perf_counter()
    abc = nw.inference.SMCABC(num_particles=1000, tolerance=nw.inference.GeometricDecay(0.5, 0.7), max_minutes=5.0)
    for posterior in abc.rounds(jax.random.key(0), problem.model, problem.observed, progress=False):
        draws = posterior.sample(jax.random.key(2), 2000)
        distance = mmd(reference, draws)
        if distance < 0.1:
            break
    rows.append(
        {
            "method": "smc-abc, until mmd^2 < .1",
            "simulations": posterior.report.num_simulations,
            "seconds": round(time.perf_counter() - started, 1),
            "c2st": round(c2st(reference, draws), 3),
            "mmd^2": round(distance, 4),
        }
    )
    return rows


def interweaving() -> list[dict[str, object]]:
    """Regression at epsilon .1: bulk effective draws per second, compiled beforehand, with and without moves that are not centred."""
    problem = nw.problems.linear_regression(0.1)
    rates = {}
    for num_moves in (0, 5):
        method = nw.inference.DataAugmentationMCMC(num_moves=num_moves, target_ess=10**6, max_sweeps=2000)
        short = nw.inference.DataAugmentationMCMC(num_moves=num_moves, num_warmup=50, target_ess=1, max_sweeps=50)
        short.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
        posterior = method.infer(jax.random.key(1), problem.model, problem.observed, progress=False)
        rates[num_moves] = posterior.report.diagnostics["effective size"] / posterior.report.seconds
    return [
        {
            "method": "da-mcmc, regression at epsilon .1",
            "effective draws per second": round(float(rates[5]), 1),
            "without interweaving": round(float(rates[0]), 1),
            "times better": round(float(np.divide(rates[5], rates[0])), 1),
        }
    ]
