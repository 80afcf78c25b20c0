"""Contact with armed groups in Nigeria, asked by forced response (Blair, Imai and Zhou 2015).

python -m experiments.published.nigeria path/to/nigeria_rr.csv

Each of 2,423 people rolled a die: with probability 2/3 they answered truthfully, with 1/6 each they
said yes or no whatever was true. The model is a logistic regression of the true answer, written as
an ordinary numpyro program; its true answers are summed out by `nw.Privatized`. Its maximum
likelihood is one line, `nw.regression`, beside that of the R package (standard errors of the latter
are from outer products of scores; those from observed information by independent code).

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
import pandas as pd

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
FORMULA = "rr ~ assets + married + I(age/10) + I((age/10)**2) + education + female"
ESTIMATES = (-0.34017, 0.07896, -0.26743, -0.35283, 0.04099, -0.00691, -0.55439)
FROM_SCORES = (0.50856, 0.04136, 0.25451, 0.26423, 0.02603, 0.04558, 0.16244)
FROM_INFORMATION = (0.4929, 0.0404, 0.2414, 0.2637, 0.0271, 0.0447, 0.1627)
LOG_LIKELIHOOD = -1540.118
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


def maximum_likelihood(path: Path) -> dict[str, Any]:
    """The seven estimates, their errors and the log likelihood, in the order of `NAMES`."""
    answers = nw.mechanisms.ForcedResponse(truth=2 / 3, yes=1 / 6)
    analysis = nw.regression(FORMULA, pd.read_csv(path), law="bernoulli", mechanism=answers)
    found = nw.maximum_likelihood(analysis)
    return {
        "estimate": found.estimate.tolist(),
        "standard errors": found.standard_errors.tolist(),
        "from scores": found.score_standard_errors.tolist(),
        "log likelihood": found.log_likelihood,
    }


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
        "maximum likelihood": maximum_likelihood(path),
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
