"""The paper's SPPE written plainly in PyTorch: confidential statistics are kept, and noise is drawn
anew in every epoch.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import torch

from benchmarks.rivals.sbi_tools import NUM_DRAWS, same_flow, torch_observed, torch_prior
from noisewise.mechanisms import Laplace, PaddedBinomial

ATOMS, BATCH, VALIDATION, PATIENCE, RATE, DECAY, CLIP = 10, 100, 0.05, 20, 5e-4, 1e-4, 5.0

Noise = Callable[[torch.Tensor], torch.Tensor]


def torch_sppe(
    made: Any, seed: int, *, threads: int = 1, num: int = 1000
) -> Iterator[tuple[int, np.ndarray]]:
    """Rounds of `num` simulations, the first with the plain and all others with the atomic loss;
    one noise for each at a time.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    prior, observed, noise = (
        torch_prior(made),
        torch_observed(made)[None],
        noise_of(made.model.mechanism),
    )
    theta, flow = prior.sample((num,)), None
    rows: list[list[torch.Tensor]] = [[], [], [], []]
    for index in itertools.count():
        s = made.model.statistics(
            jax.random.fold_in(jax.random.key(seed), index), theta.numpy().astype(np.float64)
        )
        held = round(VALIDATION * num)
        for part, values in zip(
            rows, _split(theta, torch.tensor(s, dtype=torch.float64), held), strict=True
        ):
            part.append(values)
        parts = [torch.cat(part) for part in rows]
        flow = flow or same_flow(parts[0], noise(parts[1]))
        train(flow, *parts, noise=noise, prior=prior if index else None)
        draws = sample(flow, observed, NUM_DRAWS)
        yield num * (index + 1), draws.numpy().astype(np.float64)
        theta = sample(flow, observed, num)


def noise_of(mechanism: Any) -> Noise:
    """What draws private statistics from confidential ones."""
    if isinstance(mechanism, Laplace):
        law = torch.distributions.Laplace(0.0, mechanism.scale)
        return lambda s: (s + law.sample(s.shape)).float()
    if isinstance(mechanism, PaddedBinomial):
        total, trials = (
            mechanism.population + 2 * mechanism.padding,
            torch.tensor(float(mechanism.trials)),
        )
        return lambda s: torch.binomial(
            trials.double().expand(s.shape), (s + mechanism.padding) / total
        ).float()
    raise TypeError(f"Noise of {type(mechanism).__name__} is not written in torch.")


def train(
    flow: Any,
    theta: torch.Tensor,
    s: torch.Tensor,
    held_theta: torch.Tensor,
    held_s: torch.Tensor,
    *,
    noise: Noise,
    prior: torch.distributions.Distribution | None,
) -> None:
    """Adam until the loss of the held rows, whose noise and atoms stay, has not fallen for so many
    epochs; the best weights remain.

    Without a prior the loss is the plain one.
    """
    optimiser = torch.optim.Adam(flow.parameters(), lr=RATE, weight_decay=DECAY)
    held = (held_theta, noise(held_s), atoms(len(held_theta)))
    batch = min(BATCH, len(theta))
    best, weights, waited = float("inf"), copy.deepcopy(flow.state_dict()), 0
    while waited < PATIENCE:
        s_dp, order = noise(s), torch.randperm(len(theta))
        for rows in order[: len(theta) // batch * batch].split(batch):
            optimiser.zero_grad()
            loss(flow, prior, theta[rows], s_dp[rows], atoms(batch)).backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), max_norm=CLIP)
            optimiser.step()
        with torch.no_grad():
            value = float(loss(flow, prior, *held))
        waited += 1
        if value < best:
            best, weights, waited = value, copy.deepcopy(flow.state_dict()), 0
    flow.load_state_dict(weights)


def loss(
    flow: Any,
    prior: torch.distributions.Distribution | None,
    theta: torch.Tensor,
    s_dp: torch.Tensor,
    others: torch.Tensor,
) -> torch.Tensor:
    """-log q(theta | s_dp), or with a prior -log of the share of q / prior that theta has among
    itself and the others at its s_dp.
    """
    if prior is None:
        return flow.loss(theta, s_dp).mean()
    candidates = torch.cat([theta[None], theta[others.T]])
    log_ratios = flow.log_prob(candidates, s_dp) - prior.log_prob(candidates)
    return (torch.logsumexp(log_ratios, 0) - log_ratios[0]).mean()


def atoms(num: int) -> torch.Tensor:
    """For each of so many rows the numbers of other rows, all different, (num, ATOMS - 1)."""
    return torch.rand(num, num).fill_diagonal_(-1.0).topk(min(ATOMS, num) - 1).indices


def sample(flow: Any, observed: torch.Tensor, num: int) -> torch.Tensor:
    """Draws (num, d) of the flow at the observation."""
    with torch.no_grad():
        return flow.sample((num,), observed)[:, 0]


def _split(theta: torch.Tensor, s: torch.Tensor, held: int) -> tuple[torch.Tensor, ...]:
    """Rows for training and rows held, which are in any order already."""
    return theta[held:], s[held:], theta[:held], s[:held]
