r"""How later rounds of posterior estimation stay honest although their parameters are not drawn from the prior."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from noisewise._arrays import Array, integer, number
from noisewise.samplers.adaptive_importance import fitted_proposal

_PRIOR_TRIES = 20
_BLOCK = 10_240


@dataclasses.dataclass(frozen=True)
class AbstractCorrection(abc.ABC):
    """What to propose in later rounds, which simulations to learn from, and with which loss."""

    num_atoms: int = dataclasses.field(default=0, init=False, repr=False)

    @abc.abstractmethod
    def propose(self, key: Array, trial: Any, num: int) -> np.ndarray:
        """z (num, p) for the next round."""

    @abc.abstractmethod
    def usable(self, trial: Any) -> np.ndarray:
        """Which simulations to learn from (N,)."""


@dataclasses.dataclass(frozen=True)
class TruncatedProposals(AbstractCorrection):
    r"""Later rounds draw from the prior, truncated to where the estimate has mass (Deistler, Goncalves and Macke 2022).

        A_r = A_{r-1} and {z : log q_r(z | s_dp) > tau_r},   tau_r the quantile `outside` of log q_r at its own draws.

    Pairs inside A_r, of whatever round, are draws from the prior restricted to A_r, so that the plain loss -log q needs no correction:
    within A_r the prior's shape is untouched. There is no leakage, and every simulation counts with equal weight.
    """

    outside: float = 1e-3

    def __post_init__(self) -> None:
        object.__setattr__(self, "outside", number("outside", above=0.0, below=0.5)(self.outside))

    def propose(self, key: Array, trial: Any, num: int) -> np.ndarray:
        level_key, prior_key, fit_key = jax.random.split(key, 3)
        own = trial.density.sample(level_key, trial.condition, _BLOCK)
        trial.regions.append((trial.density, np.quantile(trial.log_q(own), self.outside)))
        prior = trial.work.model.prior
        found: list[np.ndarray] = []
        missing = num
        for block in range(_PRIOR_TRIES):
            z = prior.unconstrain(prior.sample(jax.random.fold_in(prior_key, block), _BLOCK))
            found.append(z[trial.inside(z)][:missing])
            missing -= len(found[-1])
            if missing <= 0:
                return np.concatenate(found)
            if block == 1 and num - missing < num / 10:
                break
        return self._resampled(fit_key, trial, own, num)

    def _resampled(self, key: Array, trial: Any, own: np.ndarray, num: int) -> np.ndarray:
        """Where the prior rarely falls into the region: weighted draws of a wide fit to q, resampled by prior / fit."""
        prior = trial.work.model.prior
        fit = fitted_proposal(own, np.full(len(own), 1.0 / len(own)), _Wide(own), 0.1)
        z = np.concatenate([fit.sample(jax.random.fold_in(key, block), _BLOCK) for block in range(10)])
        log_weights = np.where(trial.inside(z), prior.log_prob_unconstrained(z) - fit.log_prob(z), -np.inf)
        gumbel = -np.log(-np.log(np.random.Generator(np.random.Philox(_seed(key))).uniform(1e-300, 1.0, len(z))))
        return z[np.argsort(-(log_weights - logsumexp(log_weights) + gumbel), kind="stable")[:num]]

    def usable(self, trial: Any) -> np.ndarray:
        return trial.inside(trial.simulations.z)


@dataclasses.dataclass(frozen=True)
class AtomicProposals(AbstractCorrection):
    r"""Later rounds draw from the estimate itself, and the loss is a choice among atoms (Greenberg, Nonnenmacher and Macke 2019).

        -log [q(z_1 | s_dp) / pi(z_1)] / sum_a [q(z_a | s_dp) / pi(z_a)],   z_2, ..., z_A parameters of other simulations.

    All simulations of all rounds are used. The densities of proposals cancel; the loss does not see a factor of q that only depends on
    s_dp, so that mass may leak to where no atoms are: `anchor` times -log q at the first round's pairs, which follow the prior, holds it.
    """

    num_atoms: int = 10
    anchor: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_atoms", integer("num_atoms", at_least=2)(self.num_atoms))
        object.__setattr__(self, "anchor", number("anchor", at_least=0.0)(self.anchor))

    def propose(self, key: Array, trial: Any, num: int) -> np.ndarray:
        return trial.density.sample(key, trial.condition, num)

    def usable(self, trial: Any) -> np.ndarray:
        return np.ones(trial.simulations.num, dtype=bool)


def atomic_loss(distribution: Any, target: Any, condition: Array) -> Array:
    """-log softmax over atoms: standardised targets (B, A, M, d) with log priors (B, A), conditions (B, 1, M, w)."""
    standard, log_prior = target
    logits = distribution.log_prob(standard, condition) - log_prior[:, :, None]
    return -jax.nn.log_softmax(logits, axis=1)[:, 0].mean(axis=-1)


@dataclasses.dataclass(frozen=True)
class _Wide:
    """A normal law three times as wide as draws (N, p), all directions alike."""

    draws: np.ndarray

    def sample(self, key: Array, num: int) -> np.ndarray:
        with jax.enable_x64(True):
            noise = np.asarray(jax.random.normal(key, (num, self.draws.shape[1]), jnp.float64))
        return self.draws.mean(axis=0) + self._scale * noise

    def log_prob(self, z: np.ndarray) -> np.ndarray:
        standard = (z - self.draws.mean(axis=0)) / self._scale
        return np.sum(-0.5 * standard**2 - 0.5 * np.log(2 * np.pi) - np.log(self._scale), axis=-1)

    @property
    def _scale(self) -> np.ndarray:
        return 3.0 * self.draws.std(axis=0)


def _seed(key: Array) -> int:
    return int(np.asarray(jax.random.bits(key, (), np.uint32)))
