"""Cost against size: records up to a million, statistics up to a thousand columns, and round after
round.
"""

import dataclasses
import functools
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import noisewise as nw
from benchmarks.training import pairs, training
from noisewise.estimators.training import Training

RECORDS, FEW_RECORDS = (100, 1000, 10_000, 100_000, 1_000_000), (100, 1000)
WHOLE, FEW_WHOLE = (100, 10_000, 100_000, 1_000_000), (100,)
WIDTHS, FEW_WIDTHS = (10, 30, 100, 300, 1000), (10,)
LAYERS, FEW_LAYERS = 8, 2
ROUNDS, FEW_ROUNDS = 10, 3
TURNS = 3
BATCH, ROWS, EPOCHS = 100, 1000, 10
LIMIT = 60.0
"""Seconds of simulation above which a whole inference is not run."""
_RECORDS_AT_ONCE = 8_000_000
_SMALL = functools.partial(
    nw.estimators.neural_spline_flow, num_layers=2, num_units=16, num_hidden=1
)


def run(quick: bool = False) -> dict[str, Any]:
    """Every sweep; medians of three after one call that compiles, with exponents of the cost in the
    size.
    """
    simulated = records(FEW_RECORDS if quick else RECORDS)
    costs = {row["n"]: row["seconds"] for row in simulated["rows"]}
    return {
        "records": simulated,
        "whole inference against records": whole_inferences(FEW_WHOLE if quick else WHOLE, costs),
        "columns of s": columns(FEW_WIDTHS if quick else WIDTHS, FEW_LAYERS if quick else LAYERS),
        "rounds": rounds(FEW_ROUNDS if quick else ROUNDS),
    }


# Records ------------------------------------------------------------------------------------------


def records(sizes: tuple[int, ...]) -> dict[str, Any]:
    """Seconds per simulated statistic of a regression on n records."""
    rows = []
    for size in sizes:
        model, num = _regression(size), int(np.clip(_RECORDS_AT_ONCE // size, 4, 256))
        theta = model.prior.sample(jax.random.key(0), num)
        spent = _timed(functools.partial(model.statistics, jax.random.key(1), theta))
        rows.append(
            {"n": size, "data sets": num, **_spread([value / num for value in spent["seconds"]])}
        )
    return {
        "rows": rows,
        "exponent": _exponent("n", rows),
        "exponent at the end": _exponent("n", rows[-2:]),
    }


def whole_inferences(sizes: tuple[int, ...], costs: dict[int, float]) -> dict[str, Any]:
    """SPPE in 2 rounds of 200 simulations with hardly any training, where the simulations, whose
    costs are known, do not take too long.
    """
    rows = []
    left_out = {str(size): round(400 * costs[size]) for size in sizes if 400 * costs[size] > LIMIT}
    for size in [size for size in sizes if str(size) not in left_out]:
        model = _regression(size)
        observed = model.simulate(jax.random.key(0), np.full((1, model.prior.dim), 0.5))[0]
        method = _method(2, 200, 10, max_simulations=400)
        infer = functools.partial(method.infer, model=model, observed=observed, progress=False)
        spent = _timed(lambda infer=infer: infer(jax.random.key(1)))
        rows.append({"n": size, "first": spent["first"], **_spread(spent["seconds"])})
    told = {"simulations": 400, "left out, with the seconds that simulations would take": left_out}
    return told | {"rows": rows, "exponent": _exponent("n", rows)}


def _regression(num_records: int) -> Any:
    model = nw.problems.linear_regression(epsilon=10.0).model
    simulator = dataclasses.replace(model.simulator, num_records=num_records)
    return dataclasses.replace(
        model, simulator=simulator, query=dataclasses.replace(model.query, num_records=num_records)
    )


# Columns of s -------------------------------------------------------------------------------------


def columns(widths: tuple[int, ...], layers: int) -> dict[str, Any]:
    """A histogram of k bins of 1000 normal records under Laplace noise: simulation, a step of a
    flow of `layers`, an inference, draws.
    """
    found: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("simulation", "step", "inference", "1000 draws")
    }
    for width in widths:
        model = _histogram(width)
        theta = model.prior.sample(jax.random.key(0), 512)
        simulated = _timed(functools.partial(model.statistics, jax.random.key(1), theta))
        found["simulation"].append(
            {"k": width, **_spread([value / 512 for value in simulated["seconds"]])}
        )
        found["step"].append({"k": width, **_step(width, layers)})
        observed = model.simulate(jax.random.key(2), np.zeros((1, 2)))[0]
        method = _method(1, 500, 5, max_simulations=500)
        infer = functools.partial(method.infer, model=model, observed=observed, progress=False)
        spent = _timed(lambda infer=infer: infer(jax.random.key(3)))
        found["inference"].append(
            {"k": width, "first": spent["first"], **_spread(spent["seconds"])}
        )
        drawn = _timed(functools.partial(infer(jax.random.key(3)).sample, jax.random.key(4), 1000))
        found["1000 draws"].append({"k": width, **_spread(drawn["seconds"])})
    swept = {name: {"rows": rows, "exponent": _exponent("k", rows)} for name, rows in found.items()}
    return {"layers of the step": layers} | swept


def _histogram(width: int) -> Any:
    edges = tuple(np.linspace(-3.0, 3.0, width + 1).tolist())
    query = nw.queries.Histogram(edges=edges, num_records=1000, normalize=True)
    noise = nw.mechanisms.Laplace.calibrate(
        sensitivity=query.sensitivity(norm=1), guarantee=nw.PureDP(1.0)
    )
    return nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Normal(0.0, 1.0), "log_sd": dist.Normal(0.0, 0.5)}),
        simulator=nw.simulators.JaxSimulator(_normals),
        query=query,
        mechanism=noise,
    )


def _normals(key: Any, theta: Any) -> Any:
    return theta[0] + jnp.exp(theta[1]) * jax.random.normal(key, (1000, 1))


def _step(width: int, layers: int) -> dict[str, Any]:
    """Seconds of one optimiser step, batch 100, two targets."""
    steps, num, _ = training(
        *pairs(ROWS, 2, width), batch=BATCH, epochs=EPOCHS, checks=BATCH, num_layers=layers
    )
    spent = _timed(steps)
    return {"first": spent["first"], **_spread([value / num for value in spent["seconds"]])}


# Rounds -------------------------------------------------------------------------------------------


def rounds(num: int) -> dict[str, Any]:
    """Seconds of each round of 200 simulations, with 20 epochs over all data so far, once compiled
    and the first time.

    The first round simulates 400 more, to look at the observation.
    """
    made = nw.problems.linear_regression(epsilon=1.0)
    method = _method(num, 200, 20)

    def once() -> list[float]:
        marks = [time.perf_counter()]
        for _ in method.rounds(jax.random.key(1), made.model, made.observed, progress=False):
            marks.append(time.perf_counter())
        return [end - start for start, end in itertools.pairwise(marks)]

    first = once()
    found = list(zip(*(once() for _ in range(TURNS)), strict=True))
    rows = [
        {
            "round": i + 1,
            "simulations so far": 200 * (i + 1),
            "first": round(first[i], 3),
            **_spread(seconds),
        }
        for i, seconds in enumerate(found)
    ]
    usual = [row["seconds"] for row in rows]
    return {
        "rows": rows,
        "compilation": round(sum(first) - sum(usual), 2),
        "exponent, from round 2": _exponent("simulations so far", rows[1:]),
        "last over second round": round(usual[-1] / usual[1], 2),
    }


# Shared -------------------------------------------------------------------------------------------


def _method(num_rounds: int, num: int, epochs: int, max_simulations: int | None = None) -> Any:
    """A small flow, one noise at a time; a small budget keeps it from simulating 400 more to look
    at the observation.
    """
    return nw.inference.PrivatePosteriorEstimation(
        num_rounds=num_rounds,
        num_simulations=num,
        max_simulations=max_simulations,
        num_noise=1,
        noise_bank=8,
        estimator=_SMALL,
        training=Training(max_epochs=epochs, patience=epochs),
    )


def _timed(call: Callable[[], Any]) -> dict[str, Any]:
    """Seconds of the first call, and of three more."""
    seconds = []
    for _ in range(1 + TURNS):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return {"first": round(seconds[0], 2), "seconds": seconds[1:]}


def _spread(seconds: Any) -> dict[str, float]:
    values = {"seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds)}
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def _exponent(size: str, rows: list[dict[str, Any]]) -> float | None:
    """The slope of the logarithm of seconds in that of the size; None for a single size."""
    if len(rows) < 2:
        return None
    logs = np.log([[row[size], row["seconds"]] for row in rows])
    return round(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]), 3)


if __name__ == "__main__":
    print(json.dumps(run("--quick" in sys.argv), indent=1))
