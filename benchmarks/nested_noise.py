"""Nested randomised quasi-Monte Carlo over privacy noise: variance of the loss gradient, and which
noise to train with.

    python -m benchmarks.nested_noise --out cells.jsonl          every cell that the file lacks
    python -m benchmarks.nested_noise --table cells.jsonl        its means over seeds, into benchmarks/results/

A cell is one training; `--problems` and `--seeds` choose some, so that several processes may share
the work, each on a core of its own.
"""

import argparse
import dataclasses
import functools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax

import noisewise as nw
from benchmarks.cells import append, read
from benchmarks.neural_accuracy import problem as ready
from noisewise.estimators.training import Training, negative_log_prob, train
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.simulations import noisy_statistics
from noisewise.inference.learned.posterior.posterior_rounds import PosteriorRounds, train_all
from noisewise.metrics import c2st

PROBLEMS = ("linear_regression", "sir", "log_linear")
POINTS = {"iid": nw.mechanisms.IndependentUniforms(), "rqmc": nw.mechanisms.ScrambledSobol()}
RESULT = Path(__file__).parent / "results" / "nested_noise.json"
ROWS, REPEATS = 100, 60
LEARNT = ("linear_regression", "sir")
NUM_SIMULATIONS, SECONDS = 2000, 6.0


def gradients(backend: str) -> Iterator[dict[str, object]]:
    """Var of the gradient given 100 simulations, summed over all weights of a half-trained flow:
    nets over independent points.
    """
    for name in PROBLEMS:
        problem = ready(name, 10.0, backend)
        method = nw.inference.PrivatePosteriorEstimation(
            num_rounds=1, num_noise=1, training=Training(learning_rate=1e-3, max_epochs=30)
        )
        rounds = _rounds(method, problem, 0)
        rounds.simulate(0)
        train_all([rounds], 0)
        ratios = {}
        for num in (8, 32, 128):
            spread = {kind: _gradients(rounds, num, points) for kind, points in POINTS.items()}
            ratios[f"M = {num}"] = _ratio(spread["rqmc"], spread["iid"])
        yield {"what": "variance of the gradient, rqmc / iid", "problem": name, **ratios}


def _rounds(method: Any, problem: Any, seed: int) -> PosteriorRounds:
    run = InferenceRun("bench", {}, problem.model, problem.observed)
    return PosteriorRounds(method, jax.random.key(seed), run, problem.observed)


@eqx.filter_jit
def _gradient(members: Any, standard: Any, condition: Any) -> Any:
    with jax.enable_x64(False):
        weights, frozen = eqx.partition(members, eqx.is_inexact_array)

        def loss(w):
            networks = paramax.unwrap(eqx.combine(w, frozen))
            return negative_log_prob(networks, standard, condition).mean()

        leaves = jax.tree.leaves(jax.grad(loss)(weights))
        return jnp.concatenate([leaf.ravel() for leaf in leaves])


def _ratio(first: np.ndarray, second: np.ndarray) -> str:
    """The ratio of summed variances of gradients (R, weights), with a bootstrap standard error over
    repetitions.
    """
    rng = np.random.default_rng(0)
    total = lambda found: np.var(found, axis=0, ddof=1).sum()  # noqa: E731
    again = [
        total(first[rng.integers(0, len(first), len(first))])
        / total(second[rng.integers(0, len(second), len(second))])
        for _ in range(200)
    ]
    return f"{total(first) / total(second):.3f} +- {np.std(again):.3f}"


def _gradients(rounds: PosteriorRounds, num: int, points: Any) -> np.ndarray:
    """Gradients (R, weights) under repeated noise, simulations held fixed."""
    learner = rounds.learner
    s, z = learner.simulations.s[:ROWS], learner.simulations.z[:ROWS]
    lone = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, learner.members)
    found = []
    for repeat in range(REPEATS):
        noisy = noisy_statistics(jax.random.key(1000 + repeat), rounds.run.model, s, num, points)
        condition = learner.scale(rounds.task.features(noisy))
        standard = np.asarray(learner.whitening.forward(z[:, None], condition), dtype=np.float32)
        found.append(np.asarray(_gradient(lone, standard, np.asarray(condition, dtype=np.float32))))
    return np.stack(found)


def noises(
    names: list[str], seeds: list[int], done: set[Any], backend: str
) -> Iterator[dict[str, object]]:
    """One round with fixed or fresh noise, M points at a time: test loss and C2ST, trained until it
    stops, or for as many seconds. Lower is better for both.
    """
    for name in names:
        problem = ready(name, 10.0, backend)
        test = _test_pairs(problem)
        reference = problem.reference(jax.random.key(99), 2000)
        for m in (1, 8, 32):
            for seed in seeds:
                for kind in ("fixed", "fresh"):
                    for until in ("it stops", f"{SECONDS:g} s"):
                        cell = {
                            "problem": name,
                            "noise": kind,
                            "M": m,
                            "until": until,
                            "seed": seed,
                        }
                        if tuple(cell.values()) in done:
                            continue
                        limit = None if until == "it stops" else SECONDS
                        bank = m if kind == "fixed" else 128
                        loss, distance, seconds = _trained(
                            problem, test, reference, m, bank, limit, seed
                        )
                        yield cell | {
                            "test loss": loss,
                            "c2st": distance,
                            "seconds": round(seconds, 2),
                        }


def _test_pairs(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """Fresh parameters and private statistics, 5000 of each."""
    theta = problem.model.prior.sample(jax.random.key(77), 5000)
    s_dp = problem.model.simulate(jax.random.key(78), theta)
    return problem.model.prior.unconstrain(theta), s_dp


def _trained(
    problem: Any,
    test: Any,
    reference: np.ndarray,
    m: int,
    bank: int,
    limit: float | None,
    seed: int,
) -> tuple[float, float, float]:
    method = nw.inference.PrivatePosteriorEstimation(
        num_rounds=1, num_simulations=NUM_SIMULATIONS, num_noise=m, noise_bank=bank
    )
    rounds = _rounds(method, problem, seed)
    rounds.simulate(0)
    learner, features = rounds.learner, rounds.task.features
    pairs = learner.prepare(rounds.key, rounds._key(0, 1))
    train_rows, validation_rows = rounds.task.rows()
    noisy = noisy_statistics(
        jax.random.key(321 + seed), problem.model, learner.simulations.s, 16, POINTS["rqmc"]
    )
    fit = functools.partial(
        train,
        jax.random.key(500 + seed),
        learner.members,
        pairs,
        train_rows=train_rows,
        validation_rows=validation_rows,
        capacity=NUM_SIMULATIONS,
        settings=method.training,
        validation=dataclasses.replace(pairs, bank=features(noisy), num_noise=16),
    )
    fit(watch=lambda *_: True)  # compiles
    clock = _Clock(limit)
    trained = fit(watch=clock)
    learner.adopt(trained.members, trained.train_losses, trained.validation_losses)
    z, s_dp = test
    loss = -np.mean(learner.density.log_prob(z, features(s_dp)))
    draws = problem.model.prior.constrain(
        learner.density.sample(jax.random.key(9), rounds.condition, 2000)
    )
    free = list(problem.free_columns)
    return float(loss), float(c2st(reference[:, free], draws[:, free])), clock.seconds


class _Clock:
    """Stops training after so many seconds."""

    def __init__(self, limit: float | None) -> None:
        self.limit, self.started, self.seconds = limit, time.perf_counter(), 0.0

    def __call__(self, *_: Any) -> bool:
        self.seconds = time.perf_counter() - self.started
        return self.limit is not None and self.seconds > self.limit


def table(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ratios of variances as they are, and trainings averaged over seeds."""
    rows = [record for record in records if "what" in record]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        if "what" not in record:
            groups.setdefault(
                tuple(record[part] for part in ("problem", "noise", "M", "until")), []
            ).append(record)
    for (name, kind, m, until), cells in sorted(groups.items()):
        loss = np.array([cell["test loss"] for cell in cells])
        rows.append(
            {
                "problem": name,
                "noise": kind,
                "M": m,
                "until": until,
                "seeds": len(cells),
                "test loss": round(float(loss.mean()), 3),
                "se": round(float(loss.std(ddof=1) / np.sqrt(len(loss))), 3),
                "c2st": round(float(np.median([cell["c2st"] for cell in cells])), 3),
                "seconds": round(float(np.mean([cell["seconds"] for cell in cells])), 1),
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", nargs="*", default=list(LEARNT), choices=LEARNT)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--out", type=Path, default=Path("nested_noise.jsonl"))
    parser.add_argument("--backend", default="numba", choices=["numba", "jax"])
    parser.add_argument("--gradients", action="store_true", help="only the variances of gradients")
    parser.add_argument("--table", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    if options.table:
        rows = table([record for path in options.table for record in read(path)])
        RESULT.write_text(
            json.dumps({"made by": "python -m benchmarks.nested_noise", "rows": rows}, indent=1)
            + "\n"
        )
        for row in rows:
            print("  ".join(f"{name}: {value}" for name, value in row.items()))
    elif options.gradients:
        append(options.out, gradients(options.backend))
    else:
        identity = ("problem", "noise", "M", "until", "seed")
        done = {
            tuple(record[part] for part in identity)
            for record in read(options.out)
            if "seed" in record
        }
        append(options.out, noises(options.problems, options.seeds, done, options.backend))


if __name__ == "__main__":
    main()
