"""Effects of a hierarchy, non-centred, centred, and each by its own share: effective draws of the
mean, of the log spread and of the worst effect, and gradients per draw.

python -m benchmarks.hierarchies           # both tables, kept under benchmarks/results/; four minutes on one core

The first two models are counts of districts under noise of sd 5, with the law of the counts
replaced by a normal one of the same mean and variance. The ten data sets of the second table are
fifty effects of spread .3 around an unknown mean, each measured once, with the information, in
units of 1 / spread^2, that its name says.
"""

from __future__ import annotations

import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import history
from noisewise.samplers import LocationScale, nuts

FORMS: dict[str, Any] = {"non-centred": 0.0, "centred": 1.0, "by shares": None}
NUM_CHAINS = 2
SPREAD = 0.3
NUM_EFFECTS = 50
SETS = {
    "none": np.zeros(NUM_EFFECTS),
    ".01": np.full(NUM_EFFECTS, 0.01),
    ".1": np.full(NUM_EFFECTS, 0.1),
    ".5": np.full(NUM_EFFECTS, 0.5),
    "1": np.full(NUM_EFFECTS, 1.0),
    "3": np.full(NUM_EFFECTS, 3.0),
    "10": np.full(NUM_EFFECTS, 10.0),
    "100": np.full(NUM_EFFECTS, 100.0),
    "half .01, half 100": np.repeat([0.01, 100.0], NUM_EFFECTS // 2),
    "from .001 to 1,000": np.geomspace(1e-3, 1e3, NUM_EFFECTS),
}


def law(z: Any) -> tuple[Any, Any]:
    """Mean and spread of the effects."""
    return z[0], jnp.exp(z[1])


class Districts(eqx.Module):
    """Noisy counts y (J, K) of cells whose rates are size * exp(effect), around a mean."""

    y: Any
    known: Any
    size: Any
    noise: float
    block: LocationScale

    def __call__(self, z: Any) -> Any:
        rate = (self.size * jnp.exp(z[2:]))[:, None]
        variance = rate + self.noise**2
        cells = -0.5 * (self.y - rate) ** 2 / variance - 0.5 * jnp.log(variance)
        data = jnp.sum(jnp.where(self.known, cells, 0.0))
        return data + self.block.log_law(z[2:], z) - z[0] ** 2 / 18 - 0.5 * (z[1] + 1) ** 2


class Measured(eqx.Module):
    """Effects measured with the given information, (J,), at y (J,)."""

    y: Any
    information: Any
    block: LocationScale

    def __call__(self, z: Any) -> Any:
        data = -0.5 * jnp.sum(self.information * (self.y - z[2:]) ** 2)
        return data + self.block.log_law(z[2:], z) - 0.5 * z[0] ** 2 - 0.5 * (z[1] + 1) ** 2


def districts(num: int, poor: int) -> Districts:
    """`num` districts of ten cells with counts of about 50; the last `poor` of them have one cell
    with a count of about 2.
    """
    rng = np.random.default_rng(1)
    rich = np.arange(num) < num - poor
    size = np.where(rich, 50.0, 2.0)
    known = np.arange(10)[None] < np.where(rich, 10, 1)[:, None]
    rate = np.repeat((size * np.exp(SPREAD * rng.normal(size=num)))[:, None], 10, axis=1)
    y = rng.poisson(rate) + 5.0 * rng.normal(size=rate.shape)
    return Districts(y, known, size, 5.0, LocationScale(range(2, 2 + num), law))


def measured(name: str) -> Measured:
    """One of the ten data sets."""
    rng = np.random.default_rng(2)
    information = SETS[name] / SPREAD**2
    effects = 0.5 + SPREAD * rng.normal(size=NUM_EFFECTS)
    noise = rng.normal(size=NUM_EFFECTS) / np.sqrt(np.maximum(information, 1e-6))
    block = LocationScale(range(2, 2 + NUM_EFFECTS), law)
    return Measured(effects + noise, information, block)


def measure(density: Any, form: str, seed: int, num_warmup: int, num_draws: int) -> dict[str, Any]:
    """One run from random draws of the prior."""
    dim = 2 + density.block.num
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(NUM_CHAINS, dim))
    start[:, 1] -= 1.0
    start[:, 2:] = start[:, :1] + np.exp(start[:, 1:2]) * start[:, 2:]
    began = time.perf_counter()
    run = nuts(
        jax.random.key(seed),
        density,
        start,
        blocks=[density.block],
        shares=FORMS[form],
        num_warmup=num_warmup,
        num_draws=num_draws,
    )
    seconds = time.perf_counter() - began
    sizes, num = run.bulk_size, NUM_CHAINS * num_draws
    return {
        "mean": float(sizes[0]),
        "log spread": float(sizes[1]),
        "worst effect": float(sizes[2:].min()),
        "worst tail": float(run.tail_size.min()),
        "largest R-hat": float(run.r_hat.max()),
        "gradients per draw": run.num_gradients / num,
        "warm-up gradients per chain": run.num_warmup_gradients / NUM_CHAINS,
        "worst per 1,000 gradients": 1000.0 * float(sizes.min()) / run.num_gradients,
        "divergences": run.num_divergent,
        "seconds": seconds,
    }


def mean_of(density: Any, form: str, seeds: int, num_warmup: int, num_draws: int) -> dict[str, Any]:
    """The mean over seeds of each number."""
    runs = [measure(density, form, seed, num_warmup, num_draws) for seed in range(seeds)]
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def run(quick: bool = False) -> dict[str, Any]:
    """Both tables."""
    seeds, draws = (1, 200) if quick else (5, 1000)
    models = {
        "1,000 districts of ten cells": (districts(1000, 0), 1 if quick else 2, draws),
        "300 districts, half rich, half poor": (districts(300, 150), 1 if quick else 2, draws),
    } | {f"information {name}": (measured(name), seeds, draws) for name in SETS}
    found = {}
    for name, (density, num_seeds, num_draws) in models.items():
        found[name] = {form: mean_of(density, form, num_seeds, 500, num_draws) for form in FORMS}
        worst = {form: row["worst per 1,000 gradients"] for form, row in found[name].items()}
        ratio = worst["by shares"] / max(worst["centred"], worst["non-centred"])
        found[name]["by shares"]["against the better"] = ratio
        for form, row in found[name].items():
            print(name, "|", form, "|", {k: round(v, 3) for k, v in row.items()}, flush=True)
    return found


if __name__ == "__main__":
    history.keep("hierarchies", run())
