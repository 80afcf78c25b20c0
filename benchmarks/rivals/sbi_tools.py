"""sbi as a careful user runs it, with its defaults and with the paper's flow; the same flow in
nflows for the time of a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import torch
from nflows import distributions, flows, transforms
from sbi.inference import NLE_A, NPE_C, SMCABC
from sbi.neural_nets.estimators.nflows_flow import NFlowsFlow
from sbi.neural_nets.net_builders.flow import build_nsf
from sbi.utils import standardizing_net, standardizing_transform
from torch import nn

from benchmarks.rivals.one_at_a_time import systematic, worth

LAYERS, UNITS, BINS, BOUND = 8, 50, 10, 5.0
NUM_DRAWS = 1000
PAPER = {
    "training_batch_size": 100,
    "validation_fraction": 0.05,
    "stop_after_epochs": 20,
    "learning_rate": 5e-4,
}
CHAINS = {"num_chains": 20, "warmup_steps": 50}
BUDGET = 100_000
FARTHEST = 20.0

Stages = Iterator[tuple[int, np.ndarray]]
Sampler = Callable[[int], torch.Tensor]


# Contenders ---------------------------------------------------------------------------------------


def npe(made: Any, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """NPE-C with all its defaults: a masked autoregressive flow and the atomic loss of 10 atoms."""
    return _npe(made, seed, threads, num, density_estimator="maf", training={})


def npe_paper(made: Any, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """NPE-C with the paper's flow and training."""
    return _npe(
        made, seed, threads, num, density_estimator=same_flow, training={"num_atoms": 10, **PAPER}
    )


def nle(made: Any, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """NLE with all its defaults, sampled by vectorised slices."""
    return _nle(made, seed, threads, num, density_estimator="maf", training={})


def nle_paper(made: Any, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """NLE with the paper's flow and training, sampled by vectorised slices."""
    return _nle(
        made,
        seed,
        threads,
        num,
        density_estimator=lambda theta, x: same_flow(x, theta),
        training=PAPER,
    )


def smc_abc(made: Any, seed: int, *, threads: int = 1, num: int = 1000) -> Stages:
    """SMC-ABC, Euclidean in statistics over their prior predictive sds, with tolerances from the
    last distances.

    sbi's own loop gives populations only at its end, so that its steps are called here in turn.
    """
    _begin(seed, threads)
    prior, key, calls = torch_prior(made), jax.random.key(seed), itertools.count()
    pilot = simulated(made, jax.random.fold_in(key, next(calls)), prior.sample((num,)))
    scale = pilot.std(0)

    def simulator(theta: torch.Tensor) -> torch.Tensor:
        return _simulated_padded(made, jax.random.fold_in(key, next(calls)), theta) / scale

    batches = {"simulation_batch_size": num, "show_progress_bars": False}
    abc = SMCABC(simulator, prior, distance="l2", algorithm_variant="C", **batches)
    abc.num_simulations = BUDGET - num
    observed = torch_observed(made)[None] / scale
    particles, _, distances, x = abc._set_xo_and_sample_initial_population(
        observed, num, 5 * num, 1
    )
    log_weights = torch.full((num,), -float(np.log(num)))
    yield num + abc.simulation_counter, _resampled(particles, log_weights)
    while abc.simulation_counter < abc.num_simulations:
        tolerance = abc._get_next_epsilon(distances, 0.5)
        abc.kernel_variance = abc._get_kernel_variance(
            particles, log_weights.exp(), kernel_variance_scale=0.5
        )
        particles, log_weights, distances, x = abc._sample_next_population(
            particles, log_weights, distances, tolerance, x, num_iid_samples=1
        )
        yield num + abc.simulation_counter, _resampled(particles, log_weights)


def _npe(
    made: Any,
    seed: int,
    threads: int,
    num: int,
    *,
    density_estimator: Any,
    training: dict[str, Any],
) -> Stages:
    _begin(seed, threads)
    prior, observed = torch_prior(made), torch_observed(made)
    inference = NPE_C(prior=prior, density_estimator=density_estimator, show_progress_bars=False)
    theta, proposal = prior.sample((num,)), prior
    for index in itertools.count():
        x = simulated(made, jax.random.fold_in(jax.random.key(seed), index), theta)
        estimator = inference.append_simulations(theta, x, proposal=proposal).train(**training)
        proposal = inference.build_posterior(estimator).set_default_x(observed)
        sample = _sampler(proposal)
        draws = sample(NUM_DRAWS)
        yield num * (index + 1), draws.numpy().astype(np.float64)
        theta = _proposed(sample, draws, num)


def _nle(
    made: Any,
    seed: int,
    threads: int,
    num: int,
    *,
    density_estimator: Any,
    training: dict[str, Any],
) -> Stages:
    _begin(seed, threads)
    prior, observed = torch_prior(made), torch_observed(made)
    inference = NLE_A(prior=prior, density_estimator=density_estimator, show_progress_bars=False)
    theta = prior.sample((num,))
    for index in itertools.count():
        x = simulated(made, jax.random.fold_in(jax.random.key(seed), index), theta)
        estimator = inference.append_simulations(theta, x, from_round=index).train(**training)
        posterior = inference.build_posterior(
            estimator, mcmc_method="slice_np_vectorized", mcmc_parameters=CHAINS
        ).set_default_x(observed)
        sample = _sampler(posterior)
        draws = sample(NUM_DRAWS)
        yield num * (index + 1), draws.numpy().astype(np.float64)
        theta = _proposed(sample, draws, num)


# What they share ----------------------------------------------------------------------------------


def torch_prior(made: Any) -> torch.distributions.MultivariateNormal:
    """The prior of a problem all of whose parameters are independent and normal."""
    laws = made.model.prior.distributions.values()
    mean, variance = (
        torch.tensor(
            np.concatenate([np.ravel(getattr(law, part)) for law in laws]), dtype=torch.float32
        )
        for part in ("mean", "variance")
    )
    return torch.distributions.MultivariateNormal(mean, torch.diag(variance))


def torch_observed(made: Any) -> torch.Tensor:
    """The private statistics that were observed, (k',)."""
    return torch.tensor(np.asarray(made.observed), dtype=torch.float32)


def simulated(made: Any, key: Any, theta: torch.Tensor) -> torch.Tensor:
    """Private statistics (n, k') at theta (n, d); a posterior that leaks proposes log rates of 900,
    which no simulator serves.
    """
    served = theta.clamp(-FARTHEST, FARTHEST).numpy().astype(np.float64)
    return torch.tensor(made.model.simulate(key, served), dtype=torch.float32)


def _simulated_padded(made: Any, key: Any, theta: torch.Tensor) -> torch.Tensor:
    """The same, with theta repeated up to a power of two: batches shrink as particles are accepted,
    and each new size compiles.
    """
    size = max(32, 1 << (len(theta) - 1).bit_length())
    rows = torch.arange(size) % len(theta)
    return simulated(made, key, theta[rows])[: len(theta)]


def _begin(seed: int, threads: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    torch.set_num_threads(threads)


def _sampler(posterior: Any) -> Sampler:
    return lambda num: posterior.sample((num,), show_progress_bars=False).detach()


def _proposed(sample: Sampler, draws: torch.Tensor, num: int) -> torch.Tensor:
    """`num` parameters for the next round: the draws at hand, and as many more as are missing."""
    if num > len(draws):
        return torch.cat([draws, sample(num - len(draws))])
    return draws[torch.randperm(len(draws))[:num]]


def _resampled(particles: torch.Tensor, log_weights: torch.Tensor) -> np.ndarray:
    weights = log_weights.exp().numpy()
    rows = systematic(np.random.default_rng(0), weights, worth(weights, NUM_DRAWS))
    return particles.numpy().astype(np.float64)[rows]


# Flows --------------------------------------------------------------------------------------------


class Conditioner(nn.Module):
    """Two hidden layers over what is kept and the condition."""

    def __init__(self, num_inputs: int, num_outputs: int, condition_dim: int) -> None:
        super().__init__()
        self.hidden_features = UNITS  # by which nflows scales
        sizes = (num_inputs + condition_dim, UNITS, UNITS, num_outputs)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def forward(self, kept: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        values = torch.cat([kept, context], dim=-1)
        for layer in self.layers[:-1]:
            values = torch.relu(layer(values))
        return self.layers[-1](values)


def same_flow(target: torch.Tensor, condition: torch.Tensor) -> NFlowsFlow:
    """Couplings with the network of `neural_spline_flow`, of standardised targets and conditions."""
    dim, condition_dim = target.shape[1], condition.shape[1]
    parts: list[Any] = [standardizing_transform(target)]
    for layer in range(LAYERS):
        mask = torch.tensor([(j + layer) % 2 for j in range(dim)], dtype=torch.uint8)
        parts.append(
            transforms.PiecewiseRationalQuadraticCouplingTransform(
                mask=mask,
                transform_net_create_fn=lambda inputs, outputs: Conditioner(
                    inputs, outputs, condition_dim
                ),
                num_bins=BINS,
                tails="linear",
                tail_bound=BOUND,
            )
        )
    base = distributions.StandardNormal((dim,))
    flow = flows.Flow(transforms.CompositeTransform(parts), base, standardizing_net(condition))
    return NFlowsFlow(flow, input_shape=target[0].shape, condition_shape=condition[0].shape)


def sbi_flow(target: torch.Tensor, condition: torch.Tensor) -> NFlowsFlow:
    """sbi's own spline flow of as many layers, units and bins: residual blocks, and a linear map
    after each layer.
    """
    sizes = {
        "hidden_features": UNITS,
        "num_transforms": LAYERS,
        "num_bins": BINS,
        "tail_bound": BOUND,
    }
    return build_nsf(target, condition, num_blocks=2, **sizes)


def stepper(
    build: Callable[..., NFlowsFlow],
    target: np.ndarray,
    condition: np.ndarray,
    batch: int,
    threads: int,
) -> tuple[Callable[[int], None], int]:
    """What takes so many optimiser steps on random batches, as sbi's own loop does, and the number
    of weights.
    """
    theta, x = (
        torch.tensor(target, dtype=torch.float32),
        torch.tensor(condition, dtype=torch.float32),
    )
    flow = build(theta, x)
    optimiser = torch.optim.Adam(flow.parameters(), lr=5e-4)

    def steps(num: int) -> None:
        torch.set_num_threads(threads)
        for _ in range(num):
            rows = torch.randint(len(theta), (batch,))
            optimiser.zero_grad()
            flow.loss(theta[rows], x[rows]).mean().backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), max_norm=5.0)
            optimiser.step()

    return steps, sum(weights.numel() for weights in flow.parameters() if weights.requires_grad)
