r"""How later rounds of posterior estimation stay honest although their parameters are not drawn
from the prior.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, integer, number
from noisewise._core.seeds import generator
from noisewise.posteriors import Kind
from noisewise.samplers.adaptive_importance import fitted_proposal

_OWN = 10_240
_BLOCK = 20_480
_RARE = 0.003
_MOST_BLOCKS = 20
_FEWEST = 20


@dataclasses.dataclass(frozen=True)
class AbstractCorrection(abc.ABC):
    """What to propose in later rounds, which simulations to learn from, and with which loss."""

    num_atoms: ClassVar[int] = 0
    """Among how many parameters the loss lets choose; none for the plain loss."""
    any_proposal: ClassVar[bool] = False
    """Whether the first round may draw from another law than the prior."""

    @abc.abstractmethod
    def propose(self, key: Array, trial: Any, num: int) -> np.ndarray:
        """z (num, p) for the next round."""

    @abc.abstractmethod
    def usable(self, trial: Any) -> np.ndarray:
        """Which simulations to learn from (N,)."""


@dataclasses.dataclass(frozen=True)
class TruncatedProposals(AbstractCorrection):
    r"""Later rounds draw from the prior, truncated to where the estimate has mass (Deistler,
    Goncalves and Macke 2022).

        A_r = A_{r-1} and {z : log q_r(z | s_dp) > tau_r},   tau_r the quantile `outside` of log q_r at its own draws.

    Pairs inside A_r, of whatever round, are draws from the prior restricted to A_r, so that the
    plain loss -log q needs no correction: within A_r the prior's shape is untouched, and every
    simulation counts with equal weight. The posterior is q as it was learnt, not cut off at the
    edge of A_r; the report says how much of it lies outside.
    """

    outside: float = 1e-4

    def __post_init__(self) -> None:
        object.__setattr__(self, "outside", number("outside", above=0.0, below=0.5)(self.outside))

    def propose(self, key: Array, trial: Any, num: int) -> np.ndarray:
        level_key, prior_key, fit_key = jax.random.split(key, 3)
        own = trial.density.sample(level_key, trial.condition, _OWN)
        trial.regions.append(_region(trial, own, self.outside))
        prior = trial.run.model.prior
        found: list[np.ndarray] = []
        missing, tried = num, 0
        while missing > 0:
            z = prior.unconstrain(prior.sample(jax.random.fold_in(prior_key, tried), _BLOCK))
            found.append(z[trial.inside(z)][:missing])
            missing -= len(found[-1])
            tried += _BLOCK
            if missing > 0 and num - missing < _RARE * tried:
                return self._rare(fit_key, trial, own, num)
        return np.concatenate(found)

    def _rare(self, key: Array, trial: Any, own: np.ndarray, num: int) -> np.ndarray:
        """Draws inside the regions where the prior hardly falls into them; where it does not at
        all, the last one is given up.
        """
        z = _resampled(key, trial, own, num)
        if len(z) >= _FEWEST:
            return z
        trial.regions.pop()
        trial.run.warn(Kind.ROUND_FROM_PRIOR)
        prior = trial.run.model.prior
        return prior.unconstrain(prior.sample(key, num))

    def usable(self, trial: Any) -> np.ndarray:
        return trial.within()


@dataclasses.dataclass(frozen=True)
class AtomicProposals(AbstractCorrection):
    r"""Later rounds draw from the estimate itself, and the loss is a choice among atoms (Greenberg,
    Nonnenmacher and Macke 2019).

        -log [q(z_1 | s_dp) / pi(z_1)] / sum_a [q(z_a | s_dp) / pi(z_a)],   z_2, ..., z_A parameters of other simulations.

    All simulations of all rounds are used, and the densities of their proposals cancel. The loss
    does not see a factor of q that only depends on s_dp, so that mass may leak to where no atoms
    are; the report says how much of it lies outside their range.
    """

    any_proposal: ClassVar[bool] = True

    num_atoms: int = 10  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_atoms", integer("num_atoms", at_least=2)(self.num_atoms))

    def propose(self, key: Array, trial: Any, num: int) -> np.ndarray:
        return trial.density.sample(key, trial.condition, num)

    def usable(self, trial: Any) -> np.ndarray:
        return np.ones(trial.simulations.num, dtype=bool)


def atomic_loss(distribution: Any, target: Any, condition: Array) -> Array:
    """-log softmax over atoms: standardised targets (B, A, M, d) with log priors (B, A), conditions
    (B, 1, M, w).
    """
    standard, log_prior = target
    logits = distribution.log_prob(standard, condition) - log_prior[:, :, None]
    return -jax.nn.log_softmax(logits, axis=1)[:, 0].mean(axis=-1)


def _region(trial: Any, own: np.ndarray, outside: float) -> Region:
    """Where q is above its quantile at its own draws, inside the box of these draws and half as
    much again to each side.
    """
    low, high = own.min(axis=0), own.max(axis=0)
    margin = 0.5 * (high - low)
    level = float(np.quantile(trial.log_q(own), outside))
    return Region(trial.density, trial.condition, level, low - margin, high + margin)


@dataclasses.dataclass(frozen=True)
class Region:
    """A set of z: a box, and in it where a density is above a level."""

    density: Any
    condition: np.ndarray
    level: float
    low: np.ndarray
    high: np.ndarray

    def contains(self, z: np.ndarray) -> np.ndarray:
        """Which rows of z lie in it (N,)."""
        result: np.ndarray = np.all((z >= self.low) & (z <= self.high), axis=1)
        if result.any():
            result[result] = self.density.log_prob(z[result], self.condition) > self.level
        return result


def _resampled(key: Array, trial: Any, own: np.ndarray, num: int) -> np.ndarray:
    """Where the prior rarely falls into the region: draws of a wide fit to q, accepted by prior /
    fit over its largest value found.
    """
    prior = trial.run.model.prior
    spread = own.std(axis=0)
    if not (np.isfinite(spread).all() and (spread > 1e-12 * np.abs(own).max(axis=0)).all()):
        return own[:0]
    wide = fitted_proposal(own, np.full(len(own), 1.0 / len(own)), _Wide(own), 0.2)
    z, log_ratio, log_u = np.empty((0, own.shape[1])), np.empty(0), np.empty(0)
    accepted = np.empty(0, dtype=bool)
    for block in range(_MOST_BLOCKS):
        draw_key, accept_key = jax.random.split(jax.random.fold_in(key, block))
        new = wide.sample(draw_key, _BLOCK)
        new = new[trial.inside(new)]
        if not len(new):
            break
        ratio = prior.log_prob_unconstrained(new) - wide.log_prob(new)
        z, log_ratio = np.concatenate([z, new]), np.concatenate([log_ratio, ratio])
        log_u = np.concatenate(
            [log_u, np.log(generator(accept_key).uniform(1e-300, 1.0, len(new)))]
        )
        accepted = log_u < log_ratio - log_ratio.max(initial=-np.inf)
        if accepted.sum() >= num:
            break
    return z[accepted][:num]


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
