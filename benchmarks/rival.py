"""The same flow in PyTorch: nflows couplings for the time of a step, sbi's NPE-C for a whole inference. Needs torch and sbi."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from nflows import distributions, flows, transforms
from sbi.inference import NPE_C
from sbi.neural_nets.estimators.nflows_flow import NFlowsFlow
from sbi.neural_nets.net_builders.flow import build_nsf
from sbi.utils import standardizing_net, standardizing_transform
from torch import nn

LAYERS, UNITS, BINS, BOUND = 8, 50, 10, 5.0


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
                transform_net_create_fn=lambda inputs, outputs: Conditioner(inputs, outputs, condition_dim),
                num_bins=BINS,
                tails="linear",
                tail_bound=BOUND,
            )
        )
    base = distributions.StandardNormal((dim,))
    flow = flows.Flow(transforms.CompositeTransform(parts), base, standardizing_net(condition))
    return NFlowsFlow(flow, input_shape=target[0].shape, condition_shape=condition[0].shape)


def sbi_flow(target: torch.Tensor, condition: torch.Tensor) -> NFlowsFlow:
    """sbi's own spline flow of as many layers, units and bins: residual blocks, and a linear map after each layer."""
    sizes = {"hidden_features": UNITS, "num_transforms": LAYERS, "num_bins": BINS, "tail_bound": BOUND}
    return build_nsf(target, condition, num_blocks=2, **sizes)


def stepper(
    build: Callable[..., NFlowsFlow], target: np.ndarray, condition: np.ndarray, batch: int, threads: int
) -> tuple[Callable[[int], None], int]:
    """What takes so many optimiser steps on random batches, as sbi's own loop does, and the number of weights."""
    theta, x = torch.tensor(target, dtype=torch.float32), torch.tensor(condition, dtype=torch.float32)
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


def npe_c(
    problem: Any, seed: int, *, rounds: int, num: int, atoms: int, threads: int, limit: float
) -> tuple[np.ndarray | None, float]:
    """2000 draws of sbi's NPE-C at the observation, and seconds; no draws where the limit passed before the last round."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    import jax

    prior = problem.model.prior
    laws = list(prior.distributions.values())
    loc, scale = (torch.tensor([float(getattr(law, part)) for law in laws]) for part in ("loc", "scale"))
    prior_law = torch.distributions.MultivariateNormal(loc, torch.diag(scale**2))
    observed = torch.tensor(np.asarray(problem.observed), dtype=torch.float32)
    started, proposal = time.perf_counter(), prior_law
    inference = NPE_C(prior=prior_law, density_estimator=same_flow, show_progress_bars=False)
    for index in range(rounds):
        theta = proposal.sample((num,))
        s_dp = problem.model.simulate(jax.random.key(1000 * seed + index), theta.numpy().astype(np.float64))
        appended = inference.append_simulations(theta, torch.tensor(np.asarray(s_dp), dtype=torch.float32), proposal)
        estimator = appended.train(
            num_atoms=atoms, training_batch_size=100, validation_fraction=0.05, learning_rate=5e-4, stop_after_epochs=20
        )
        proposal = inference.build_posterior(estimator).set_default_x(observed)
        if time.perf_counter() - started > limit and index + 1 < rounds:
            return None, time.perf_counter() - started
    draws = proposal.sample((2000,), show_progress_bars=False).numpy()
    return draws, time.perf_counter() - started
