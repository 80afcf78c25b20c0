"""The exact law of counts with noise: a thousand districts, the time of a gradient against sizes, and
what a user would do by hand.

python -m benchmarks.many_cells                  # all three, kept under benchmarks/results/
python -m benchmarks.many_cells scale gradients  # some of them; the others keep their last numbers

By hand means NUTS in numpyro on latent counts that are relaxed to positive real numbers, beside the
rates: with a Poisson density continued by the gamma function, and the noise's density around it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import noisewise as nw
from benchmarks import history, sections
from noisewise.laws.counts import plan_for
from noisewise.laws.routes import route_of, table_of

CELLS_PER_DISTRICT = 10
SD = 5.0
REPEATS = 5


# Scale --------------------------------------------------------------------------------------------


def districts(num: int) -> tuple[nw.PrivateModel, np.ndarray]:
    """Districts of ten cells with counts of about 50, an effect for each around a mean with a
    spread, and discrete Gaussian noise of sd 5.
    """
    rng = np.random.default_rng(1)
    size = rng.uniform(30.0, 70.0, (num, CELLS_PER_DISTRICT))
    effect = rng.normal(0.0, 0.3, num)
    counts = rng.poisson(size * np.exp(effect)[:, None]).reshape(-1).astype(float)
    noise = nw.mechanisms.DiscreteGaussian(scale=SD)
    released = np.asarray(noise.sample(jax.random.key(3), counts))
    known, where = jnp.asarray(size.reshape(-1)), np.repeat(np.arange(num), CELLS_PER_DISTRICT)
    prior = {
        "mean": dist.Normal(0.0, 1.0),
        "spread": dist.HalfNormal(1.0),
        "effect": lambda mean, spread: dist.Normal(mean, spread).expand([num]),
    }
    law = nw.simulators.StatisticLaw(
        lambda theta: dist.Poisson(known * jnp.exp(theta["effect"][where]))
    )
    return nw.PrivateModel(prior=nw.Prior(prior), simulator=law, mechanism=noise), released


def scale(num: int, seed: int = 0) -> dict[str, Any]:
    """`nw.infer` on so many districts."""
    model, released = districts(num)
    wall, spent = time.perf_counter(), time.process_time()
    posterior = nw.infer(seed, model, released, progress=False)
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    began = time.process_time()
    summary = posterior.summary()
    text = str(posterior.report)
    shown = time.process_time() - began
    chains = posterior.diagnostics()  # type: ignore[attr-defined]
    r_hat = chains["r_hat"].to_numpy()
    sizes = np.minimum(chains["ess_bulk"], chains["ess_tail"])
    return {
        "districts": num,
        "cells": released.size,
        "parameters": len(summary),
        "seconds": round(wall, 1),
        "CPU seconds": round(spent, 1),
        "least effective size, bulk": float(chains["ess_bulk"].min()),
        "least effective size, tails too": float(sizes.min()),
        "R-hat of mean and spread": float(r_hat[:2].max()),
        "share of R-hat up to 1.01": float(np.mean(r_hat <= 1.01)),
        "largest R-hat": float(r_hat.max()),
        "gradients per draw": float(posterior.report.diagnostics["gradients per draw"]),
        "draws": len(posterior.theta),
        "exact": bool(posterior.report.exact),
        "CPU seconds of summary and report": round(shown, 2),
        "lines of the report": text.count("\n") + 1,
    }


# Gradients ----------------------------------------------------------------------------------------

NOISES: dict[str, Callable[[float], Any]] = {
    "discrete Gaussian": lambda sd: nw.mechanisms.DiscreteGaussian(scale=sd),
    "discrete Laplace": lambda sd: nw.mechanisms.DiscreteLaplace(scale=sd / 2**0.5),
}


def gradient(num: int, count: float, sd: float, noise: str) -> float:
    """CPU seconds of a gradient of the log probability of Poisson counts, all rates apart; the
    least of some repeats.
    """
    rng = np.random.default_rng(0)
    rates = count * rng.uniform(0.8, 1.2, num)
    mechanism = NOISES[noise](sd)
    released = np.asarray(
        mechanism.sample(jax.random.key(1), rng.poisson(rates).astype(float)), dtype=float
    )
    with jax.enable_x64(True):
        plan = plan_for(mechanism, released)
        table = table_of(dist.Poisson(1.0), mechanism, released)

        def total(rates: Any, table: Any) -> Any:
            law = dist.Poisson(rates, validate_args=False)
            return route_of(law, mechanism, plan, table).log_prob(jnp.asarray(released)).sum()

        slope = jax.jit(jax.grad(total))
        jax.block_until_ready(slope(rates, table))
        seconds = []
        for _ in range(REPEATS):
            began = time.process_time()
            jax.block_until_ready(slope(rates, table))
            seconds.append(time.process_time() - began)
    return float(f"{min(seconds):.3g}")


def gradients(quick: bool) -> dict[str, Any]:
    """Against cells, counts and noise, one at a time."""
    cells = (1000, 10_000) if quick else (1000, 3000, 10_000, 30_000, 100_000)
    counts = (1e2, 1e8) if quick else (1e2, 1e4, 1e6, 1e8)
    deviations = (1.0, 1e4) if quick else (1.0, 5.0, 30.0, 1e3, 1e4)
    num = cells[1]
    found: dict[str, Any] = {}
    for noise in NOISES:
        by_cells = [{"cells": n, "seconds": gradient(n, 50.0, SD, noise)} for n in cells]
        logs = np.log([[row["cells"], row["seconds"]] for row in by_cells])
        found[noise] = {
            "by cells": by_cells,
            "exponent of cells": round(float(np.polyfit(*logs.T, 1)[0]), 3),
            "by count": [{"count": c, "seconds": gradient(num, c, 30.0, noise)} for c in counts],
            "by sd of noise": [
                {"sd": sd, "seconds": gradient(num, 1e6, sd, noise)} for sd in deviations
            ],
        }
    return found


# By hand ------------------------------------------------------------------------------------------

HAND_CELLS = 100
HAND_SD = 2.0


def _cells_by_hand() -> tuple[np.ndarray, np.ndarray, Any]:
    """A hundred small counts, their sizes and the noise."""
    rng = np.random.default_rng(4)
    size = rng.uniform(0.5, 6.0, HAND_CELLS)
    counts = rng.poisson(size * np.exp(rng.normal(0.0, 0.4, HAND_CELLS))).astype(float)
    noise = nw.mechanisms.DiscreteLaplace(scale=HAND_SD / 2**0.5)
    return size, np.asarray(noise.sample(jax.random.key(5), counts), dtype=float), noise


def _relaxed(size: np.ndarray, released: np.ndarray, noise: Any) -> None:
    """Rates around a mean with a spread; counts as positive latent numbers."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    with numpyro.plate("cell", len(size)):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        effect = numpyro.deterministic("effect", mean + spread * z)
        rate = size * jnp.exp(effect)
        count = numpyro.sample("count", dist.ImproperUniform(dist.constraints.positive, (), ()))
        law = count * jnp.log(rate) - rate - jax.scipy.special.gammaln(count + 1.0)
        numpyro.factor("law", law)
        numpyro.sample("released", dist.Laplace(count, noise.scale), obs=released)


def _by_numpyro(num: int, seed: int) -> tuple[dict[str, np.ndarray], int, float]:
    """Draws (chains, n, ...) of the relaxed program, divergences, and CPU seconds."""
    from numpyro.infer import MCMC, NUTS

    made = _cells_by_hand()
    mcmc = MCMC(
        NUTS(_relaxed),
        num_warmup=num,
        num_samples=num,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed), *made)
    began = time.process_time()  # the second run takes nothing but its own time
    mcmc.run(jax.random.key(seed + 1), *made, extra_fields=("diverging",))
    draws = {name: np.asarray(x) for name, x in mcmc.get_samples(group_by_chain=True).items()}
    seconds = time.process_time() - began
    return draws, int(mcmc.get_extra_fields()["diverging"].sum()), seconds


def _by_noisewise(num: int, seed: int) -> tuple[dict[str, np.ndarray], int, float]:
    """The same for `MarginalNUTS`, with as many chains and draws."""
    size, released, noise = _cells_by_hand()
    prior = {
        "mean": dist.Normal(0.0, 1.0),
        "spread": dist.HalfNormal(1.0),
        "effect": lambda mean, spread: dist.Normal(mean, spread).expand([HAND_CELLS]),
    }
    law = nw.simulators.StatisticLaw(lambda theta: dist.Poisson(size * jnp.exp(theta["effect"])))
    model = nw.PrivateModel(prior=nw.Prior(prior), simulator=law, mechanism=noise)
    method = nw.inference.MarginalNUTS(
        num_chains=2, num_warmup=num, target_ess=1_000_000, max_draws=num
    )
    method.infer(seed, model, released, progress=False)
    began = time.process_time()
    posterior = method.infer(seed + 1, model, released, progress=False)
    seconds = time.process_time() - began
    theta = posterior.theta.reshape(2, -1, HAND_CELLS + 2)
    draws = {"mean": theta[..., 0], "spread": theta[..., 1], "effect": theta[..., 2:]}
    return draws, int(posterior.report.diagnostics["divergent"]), seconds


def _worth(draws: dict[str, np.ndarray], divergent: int, seconds: float) -> dict[str, Any]:
    """What a run is worth: effective draws of the mean, the spread and the log rates."""
    from noisewise.samplers.chain_diagnostics import effective_draws

    columns = [draws["mean"], draws["spread"], *np.moveaxis(draws["effect"], 2, 0)]
    least = min(float(effective_draws(column)) for column in columns)
    return {
        "CPU seconds": round(seconds, 2),
        "least effective size": round(least, 1),
        RATE: round(least / seconds, 2),
        "divergent": divergent,
        "mean": [float(columns[0].mean()), float(columns[0].std())],
        "spread": [float(columns[1].mean()), float(columns[1].std())],
    }


RATE = "effective draws of the worst per CPU second"


def by_hand(num: int, seed: int = 0) -> dict[str, Any]:
    """Both, one after the other, in float64."""
    with jax.enable_x64(True):
        ours, hand = _worth(*_by_noisewise(num, seed)), _worth(*_by_numpyro(num, seed))
    bias = (hand["mean"][0] - ours["mean"][0]) / ours["mean"][1]
    return {
        "cells": HAND_CELLS,
        "draws of each of two chains": num,
        "summed out": ours,
        "by hand": hand,
        "times more effective draws per second": round(ours[RATE] / hand[RATE], 1),
        "bias of the mean by hand, in posterior sds": round(bias, 2),
    }


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "scale": lambda quick: scale(20 if quick else 1000),
    "gradients": gradients,
    "by hand": lambda quick: by_hand(250 if quick else 1000),
}


def run(quick: bool = False, only: tuple[str, ...] = tuple(PARTS)) -> dict[str, Any]:
    """The parts that are asked for, and what is kept of the others."""
    kept = {} if quick else dict(sections.result("many_cells") or {})
    return kept | {name: PARTS[name](quick) for name in only}


if __name__ == "__main__":
    wanted = tuple(sys.argv[1:]) or tuple(PARTS)
    result = run(only=wanted)
    history.show({name: result[name] for name in wanted})
    history.keep("many_cells", result)
