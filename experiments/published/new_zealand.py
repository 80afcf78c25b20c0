"""Fatal injuries in New Zealand, counts rounded at random to multiples of three.

python -m experiments.published.new_zealand path/to/nz_injuries_rr3.csv

912 cells by age, sex, ethnicity and year, each with an effect of its own, as an ordinary numpyro
program; the unrounded counts are summed out by `nw.Privatized`.

    y ~ Poisson(popn exp(s[age, sex] + b Maori + c (year - 2009)/10 + tau e)),  e ~ N(0, 1)
    s ~ N(-8, 2^2),  b, c ~ N(0, 1),  tau ~ half N(.5)

The posterior beside it is by independent code. Unrounded counts of the first ten rows are those of
a vignette of the R package bage, whose model is similar, not the same. File: dataset nzl_injuries
of bage (MIT), numbers by Stats NZ. A 0 means a true count of 0, 1 or 2.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import noisewise as nw
from experiments.published import comparison

PUBLISHED = {"b": (0.637, 0.019), "c": (-0.150, 0.016), "tau": (0.133, 0.011)}

VIGNETTE = [(12, 10, 14), (5, 4, 7), (3, 1, 5), (7, 5, 8), (6, 4, 8)]
VIGNETTE += [(6, 4, 8), (12, 10, 14), (4, 2, 5), (6, 4, 8), (6, 4, 8)]
"""Medians and 95% intervals of the first ten unrounded counts."""
ROUNDING = nw.mechanisms.Rounded(base=3)


def table(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the program takes."""
    groups = [f"{age}, {sex}" for age, sex in zip(data["age"], data["sex"], strict=True)]
    names, group = np.unique(groups, return_inverse=True)
    return {
        "group": group,
        "num_groups": np.array(len(names)),
        "maori": (data["ethnicity"] == "Maori").astype(float),
        "decade": (data["year"] - 2009) / 10,
        "people": data["popn"],
        "released": data["injuries"],
    }


def program(cells: dict[str, np.ndarray]) -> None:
    """The whole model."""
    num = len(cells["released"])
    with numpyro.plate("age and sex", int(cells["num_groups"])):
        s = numpyro.sample("s", dist.Normal(-8.0, 2.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    c = numpyro.sample("c", dist.Normal(0.0, 1.0))
    tau = numpyro.sample("tau", dist.HalfNormal(0.5))
    with numpyro.plate("cell", num):
        e = numpyro.sample("e", dist.Normal(0.0, 1.0))
        log_rate = s[cells["group"]] + b * cells["maori"] + c * cells["decade"] + tau * e
        rate = numpyro.deterministic("rate", cells["people"] * jnp.exp(log_rate))
        law = nw.Privatized(dist.Poisson(rate), ROUNDING)
        numpyro.sample("injuries", law, obs=cells["released"])


def unrounded(rates: np.ndarray, released: np.ndarray, seed: int) -> list[list[float]]:
    """Median and 95% interval of counts, from draws of the rates (n, k)."""
    keys = jax.random.split(jax.random.key(seed), len(rates))
    counts = jax.jit(
        jax.vmap(
            lambda key, rate: nw.Privatized(dist.Poisson(rate), ROUNDING).confidential(
                key, released
            )
        )
    )(keys, rates)
    return np.quantile(np.asarray(counts), [0.5, 0.025, 0.975], axis=0).T.tolist()


def run(path: Path, seed: int = 0) -> dict[str, Any]:
    """The posterior beside the published one."""
    cells = table(comparison.columns(path))
    mcmc = comparison.chains(functools.partial(program, cells), seed, 500, 1000)
    draws = mcmc.get_samples(group_by_chain=True)
    rows = comparison.compared(draws, PUBLISHED)
    rates = np.asarray(draws["rate"])[:, ::4].reshape(-1, len(cells["released"]))[:, :10]
    return {
        "cells": len(cells["released"]),
        "seed": seed,
        "posterior": rows,
        "unrounded counts of the first ten rows": unrounded(rates, cells["released"][:10], seed),
        "those of a similar model": [list(row) for row in VIGNETTE],
        "divergent": int(mcmc.get_extra_fields()["diverging"].sum()),
        "agrees": comparison.agrees(rows),
    }


def main() -> None:
    """Run it on the file that is named."""
    started = time.process_time()
    options = comparison.arguments(__doc__, "nz_injuries_rr3.csv")
    comparison.write("new_zealand", run(options.path), started, options.out)


if __name__ == "__main__":
    main()
