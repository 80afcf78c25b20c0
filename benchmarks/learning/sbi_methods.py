"""sbi as a careful user runs it: its defaults, vectorised slices for likelihoods, and the same
simulator. Needs the environment of `make rivals`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import torch
from sbi.inference import FMPE, NLE_A, NPE_C
from sbi.utils import BoxUniform

from benchmarks.learning.methods import NUM_DRAWS, Method, Outcome
from benchmarks.learning.problem import Columns, Problem
from benchmarks.rivals.sbi_tools import CHAINS, simulated, torch_observed

SLICES = {"mcmc_method": "slice_np_vectorized", "mcmc_parameters": CHAINS}
ROUNDS = 5
"""Rounds of the sequential methods unless `num_rounds` is set: halfway between the one round that
learns over the whole prior and the paper's ten."""


def torch_prior(columns: Columns) -> torch.distributions.Distribution:
    """The same law of the parameters."""
    first, second = (
        torch.tensor(part, dtype=torch.float32) for part in (columns.first, columns.second)
    )
    if columns.law == "normal":
        return torch.distributions.MultivariateNormal(first, torch.diag(second**2))
    return BoxUniform(first, second)


def learn(
    trainer: Any,
    rounds: int,
    problem: Problem,
    seed: int,
    simulations: int,
    settings: Mapping[str, Any],
) -> Outcome:
    """Rounds of equal size, each at draws of the posterior of the round before.

    `num_rounds` in the settings is the number of rounds, `estimator` sbi's name of a network;
    all others are passed to training.
    """
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002, the generator that sbi draws from
    torch.set_num_threads(1)
    training = dict(settings)
    rounds = training.pop("num_rounds", rounds)
    estimator = training.pop("estimator", None)
    network = {"vf_estimator" if trainer is FMPE else "density_estimator": estimator}
    chosen = network if estimator else {}
    prior, observed = torch_prior(problem.columns), torch_observed(problem)
    inference = trainer(prior=prior, show_progress_bars=False, **chosen)
    proposal, num = prior, simulations // rounds
    for index in range(rounds):
        theta = _draws(proposal, num) if index else prior.sample((num,))
        x = simulated(problem, jax.random.fold_in(jax.random.key(seed), index), theta)
        if trainer is NPE_C:
            inference.append_simulations(theta, x, proposal=proposal)
        elif trainer is FMPE:
            inference.append_simulations(theta, x)
        else:
            inference.append_simulations(theta, x, from_round=index)
        trained = inference.train(**training)
        chains = SLICES if trainer is NLE_A else {}
        proposal = inference.build_posterior(trained, **chains).set_default_x(observed)
    return Outcome(_draws(proposal, NUM_DRAWS).numpy().astype(np.float64), num * rounds)


def _draws(posterior: Any, num: int) -> torch.Tensor:
    return posterior.sample((num,), show_progress_bars=False).detach()


METHODS: dict[str, Method] = {
    "sbi-npe": functools.partial(learn, NPE_C, 1),
    "sbi-npe-c": functools.partial(learn, NPE_C, ROUNDS),
    "sbi-nle": functools.partial(learn, NLE_A, 1),
    "sbi-snle": functools.partial(learn, NLE_A, ROUNDS),
    "sbi-fmpe": functools.partial(learn, FMPE, 1),
}
"""FMPE has one round: sbi has no sequential version of it."""
