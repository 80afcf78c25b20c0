r"""Random walks on (theta, u) where u makes an unbiased estimate of the likelihood.

    L-hat(theta, u)  =  1/M sum_j eta(s_dp | s(theta, u_j))
    target(theta, u)  ~  pi(theta) p(u_1) ... p(u_M) L-hat(theta, u)

u_j is the key of a simulation: with it, s is a function of theta, and uniform keys are its law
whatever theta is. So a move may propose theta' with any of the keys kept and the others drawn
again, and is accepted with probability

    min(1, pi(theta') L-hat(theta', u') / (pi(theta) L-hat(theta, u))):

the densities of the keys cancel. Summed over the keys the target is pi(theta) f(s_dp | theta). The
target is also the sum over j of pi(theta) p(u) eta(s_dp | s_j) / M, hence s_j with j drawn in
proportion to eta(s_dp | s_j) makes (theta, s_j) a draw from p(theta, s | s_dp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from noisewise.inference.exact.centred_prior import CentredPrior

Simulate = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(keys (C, M, 2), theta (C, d)) -> s (C, M, k)."""


class PseudoMarginalState(NamedTuple):
    """Where C chains are.

    Attributes:
        z: Coordinates of the prior, shape (c, p).
        log_prior: Their log prior density, shape (c,).
        keys: The keys of M simulations for each chain, shape (c, m, 2).
        s: Their statistics, shape (c, m, k).
        log_eta: log eta of these, shape (c, m).
        log_likelihood: log L-hat, shape (c,).
    """

    z: np.ndarray
    log_prior: np.ndarray
    keys: np.ndarray
    s: np.ndarray
    log_eta: np.ndarray
    log_likelihood: np.ndarray


class PseudoMarginalTarget(NamedTuple):
    """A prior, a simulation, and log_eta(s) (C, M), which is -inf where s is NaN."""

    prior: CentredPrior
    simulate: Simulate
    log_eta: Callable[[np.ndarray], np.ndarray]

    def at(self, z: np.ndarray, keys: np.ndarray, otherwise: np.ndarray) -> PseudoMarginalState:
        """Chains at z with these keys.

        Args:
            z: Unconstrained parameters, shape (c, p).
            keys: Keys of simulations, shape (c, m, 2).
            otherwise: Where to simulate for chains whose z is off the prior's support, shape (c,
                p); their density is 0.
        """
        theta, log_prior = self.prior.constrain(z), log_prior_of(self.prior, z)
        possible = np.isfinite(theta).all(axis=1) & np.isfinite(log_prior)
        s = self.simulate(keys, np.where(possible[:, None], theta, self.prior.constrain(otherwise)))
        log_eta = self.log_eta(s)
        log_prior = np.where(possible, log_prior, -np.inf)
        return PseudoMarginalState(z, log_prior, keys, s, log_eta, log_mean_exp(log_eta))


def move(
    rng: np.random.Generator,
    target: PseudoMarginalTarget,
    state: PseudoMarginalState,
    steps: np.ndarray,
    num_blocks: int,
) -> tuple[PseudoMarginalState, np.ndarray]:
    """One move of each chain. L-hat is that of the state until it moves: it is never estimated
    twice.

    Args:
        rng: A generator.
        target: Prior, simulation and eta.
        state: Where the chains are.
        steps: By how much z is to change, shape (c, p).
        num_blocks: In how many blocks the keys are divided, one of which is drawn again.

    Returns:
        The next state, and who moved, shape (c,).
    """
    keys = refreshed(rng, state.keys, num_blocks)
    proposed = target.at(state.z + steps, keys, state.z)
    with np.errstate(invalid="ignore"):
        ratio = (
            proposed.log_likelihood + proposed.log_prior - state.log_likelihood - state.log_prior
        )
    return merged(np.log(rng.random(len(steps))) < ratio, proposed, state)


def merged(
    accepted: np.ndarray, proposed: PseudoMarginalState, state: PseudoMarginalState
) -> tuple[PseudoMarginalState, np.ndarray]:
    """The proposed state where it is accepted, the old one elsewhere."""
    fields = zip(proposed, state, strict=True)
    chosen = [
        np.where(accepted.reshape(-1, *(1,) * (new.ndim - 1)), new, old) for new, old in fields
    ]
    return PseudoMarginalState(*chosen), accepted


def refreshed(rng: np.random.Generator, keys: np.ndarray, num_blocks: int) -> np.ndarray:
    """keys (c, m, 2) with one block of each chain, chosen at random, drawn again."""
    block = np.arange(keys.shape[1]) * num_blocks // keys.shape[1]
    renewed = block == rng.integers(num_blocks, size=(len(keys), 1))
    return np.where(renewed[:, :, None], fresh_keys(rng, *keys.shape[:2]), keys)


def fresh_keys(rng: np.random.Generator, num_chains: int, num_inner: int) -> np.ndarray:
    """Uniform keys (C, M, 2)."""
    return rng.integers(2**32, size=(num_chains, num_inner, 2), dtype=np.uint32)


def drawn_statistics(rng: np.random.Generator, state: PseudoMarginalState) -> np.ndarray:
    """One of the M statistics of each chain, in proportion to eta: (C, k)."""
    chosen = np.argmax(state.log_eta + rng.gumbel(size=state.log_eta.shape), axis=1)
    return state.s[np.arange(len(chosen)), chosen]


def log_mean_exp(log_eta: np.ndarray) -> np.ndarray:
    """log L-hat (...) from log eta (..., M)."""
    return logsumexp(log_eta, axis=-1) - np.log(log_eta.shape[-1])


def log_prior_of(prior: CentredPrior, z: np.ndarray) -> np.ndarray:
    """The log prior density of z, the Jacobian of theta(z) included."""
    return prior.log_prob(z)
