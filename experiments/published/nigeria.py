"""Contact with armed groups in Nigeria, asked by forced response (Blair, Imai and Zhou 2015).

python -m experiments.published.nigeria path/to/nigeria_rr.csv

Each of 2,423 people rolled a die: with probability 2/3 they answered truthfully, with 1/6 each they
said yes or no whatever was true. The model is a logistic regression of the true answer, written as
an ordinary numpyro program; its true answers are summed out by `nw.Privatized`.

    P(yes) = 1/6 + 2/3 logit^-1(x beta),  beta_0 ~ N(0, 5^2), others ~ N(0, 2.5^2)

The posterior beside it is by independent code (effective size above 16,000). File: dataset nigeria
of the R package rr (SensitiveQuestions/rr, GPL >= 3).
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import noisewise as nw
from experiments.published import comparison

NAMES = ("intercept", "assets", "married", "age/10", "(age/10)^2", "education", "female")
PUBLISHED = {
    "intercept": (-0.343, 0.510),
    "assets": (0.0799, 0.0411),
    "married": (-0.281, 0.247),
    "age/10": (-0.361, 0.273),
    "(age/10)^2": (0.0420, 0.0284),
    "education": (-0.006, 0.046),
    "female": (-0.568, 0.163),
}
PREVALENCE = (0.232, 0.260, 0.288)
"""2.5%, mean and 97.5% of the share of true yes."""
TRUTHFUL = 2 / 3
MECHANISM = nw.mechanisms.RandomizedResponse(
    num_categories=2, truth_probability=TRUTHFUL + (1 - TRUTHFUL) / 2
)
"""The true answer is told with 2/3 + 1/6."""


def covariates(data: dict[str, np.ndarray]) -> np.ndarray:
    """One row per person, in the order of `NAMES`."""
    age = data["age"] / 10
    parts = [np.ones(len(age)), data["assets"], data["married"], age, age**2]
    return np.column_stack([*parts, data["education"], data["female"]])


def program(x: np.ndarray, answers: np.ndarray | None = None) -> None:
    """The whole model."""
    scale = jnp.array([5.0] + [2.5] * (x.shape[1] - 1))
    beta = numpyro.sample("beta", dist.Normal(0.0, scale).to_event(1))
    with numpyro.plate("person", len(x)):
        truth = dist.Bernoulli(logits=x @ beta)
        numpyro.sample("answer", nw.Privatized(truth, MECHANISM), obs=answers)


def run(path: Path, seed: int = 0) -> dict[str, Any]:
    """The posterior beside the published one."""
    data = comparison.columns(path)
    x = covariates(data)
    # age and its square are nearly collinear
    mcmc = comparison.chains(functools.partial(program, x, data["rr"]), seed, 500, 1500, dense=True)
    beta = np.asarray(mcmc.get_samples(group_by_chain=True)["beta"])
    draws = {name: beta[..., j] for j, name in enumerate(NAMES)}
    share = 1.0 / (1.0 + np.exp(-np.einsum("...j,ij->...i", beta[:, ::5], x)))
    low, high = np.quantile(share.mean(axis=-1), [0.025, 0.975])
    rows = comparison.compared(draws, PUBLISHED)
    return {
        "people": len(x),
        "seed": seed,
        "posterior": rows,
        "prevalence": [float(low), float(share.mean()), float(high)],
        "published prevalence": list(PREVALENCE),
        "divergent": int(mcmc.get_extra_fields()["diverging"].sum()),
        "agrees": comparison.agrees(rows),
    }


def main() -> None:
    """Run it on the file that is named."""
    started = time.process_time()
    options = comparison.arguments(__doc__, "nigeria_rr.csv")
    comparison.write("nigeria", run(options.path), started, options.out)


if __name__ == "__main__":
    main()
