"""Exact inference: simulations and seconds that ExactSMC and SMC-ABC take on SIR, and what
interweaving buys on the regression.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax

import noisewise as nw
from benchmarks.timing import ratios, summary
from noisewise.metrics import c2st, mmd

SEEDS = (0, 1, 2)


def run(quick: bool = False) -> dict[str, Any]:
    seeds = SEEDS[:1] if quick else SEEDS
    rows = [row("exact-smc", [exact_epidemic(seed) for seed in seeds])]
    if not quick:
        rows.append(
            row("smc-abc, until mmd^2 < .1", [approximate_epidemic(seed) for seed in seeds])
        )
    return {"epidemics": rows, "interweaving": interweaving(seeds, 300 if quick else 2000)}


def row(method: str, found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Medians over seeds, with spread."""
    return {
        "method": method,
        **{name: summary([each[name] for each in found]) for name in found[0]},
    }


def exact_epidemic(seed: int) -> dict[str, float]:
    """SIR at epsilon 10 by ExactSMC, with 1000 particles and an effective size of 2000."""
    method = nw.inference.ExactSMC(num_particles=1000, target_ess=2000)
    started = time.perf_counter()
    problem = nw.problems.sir(10.0)
    posterior = method.infer(jax.random.key(seed), problem.model, problem.observed, progress=False)
    return scored(problem, posterior, time.perf_counter() - started)


def approximate_epidemic(seed: int) -> dict[str, float]:
    """The same by SMC-ABC, stopped at the first population with MMD^2 < .1; measuring it is not on
    the clock.
    """
    problem, seconds = nw.problems.sir(10.0), 0.0
    reference = problem.reference(jax.random.key(1), 2000)
    for posterior, spent in timed(abc_populations(problem, seed)):
        seconds += spent
        if mmd(reference, posterior.sample(jax.random.key(2), 2000)) < 0.1:
            break
    return scored(problem, posterior, seconds)


def abc_populations(problem: Any, seed: int) -> Iterator[Any]:
    method = nw.inference.SMCABC(
        num_particles=1000, tolerance=nw.inference.GeometricDecay(0.5, 0.7), max_minutes=5.0
    )
    return method.rounds(jax.random.key(seed), problem.model, problem.observed, progress=False)


def timed(values: Iterator[Any]) -> Iterator[tuple[Any, float]]:
    """Each value with the seconds that it took."""
    while True:
        started = time.perf_counter()
        value = next(values, None)
        if value is None:
            return
        yield value, time.perf_counter() - started


def scored(problem: Any, posterior: Any, seconds: float) -> dict[str, float]:
    """Against 2000 exact draws."""
    reference, draws = (
        problem.reference(jax.random.key(1), 2000),
        posterior.sample(jax.random.key(2), 2000),
    )
    return {
        "simulations": posterior.report.num_simulations,
        "seconds": seconds,
        "c2st": float(c2st(reference, draws)),
        "mmd^2": float(mmd(reference, draws)),
    }


def interweaving(seeds: Sequence[int], sweeps: int) -> dict[str, Any]:
    """Regression at epsilon .1: bulk effective draws per second, compiled beforehand, with and
    without moves that are not centred.
    """
    problem = nw.problems.linear_regression(0.1)
    rates: dict[int, list[float]] = {0: [], 5: []}
    for num_moves in rates:
        short = nw.inference.DataAugmentationMCMC(
            num_moves=num_moves, num_warmup=50, target_ess=1, max_sweeps=50
        )
        short.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    for seed in seeds:
        for num_moves, found in rates.items():
            method = nw.inference.DataAugmentationMCMC(
                num_moves=num_moves, target_ess=10**6, max_sweeps=sweeps
            )
            posterior = method.infer(
                jax.random.key(1 + seed), problem.model, problem.observed, progress=False
            )
            found.append(posterior.report.diagnostics["effective size"] / posterior.report.seconds)
    return {
        "effective draws per second": summary(rates[5]),
        "without interweaving": summary(rates[0]),
        "times better": ratios(rates[5], rates[0]),
    }
