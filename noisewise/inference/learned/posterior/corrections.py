r"""How later rounds of posterior estimation stay honest although their parameters are not drawn
from the prior.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array, integer, number
from noisewise._core.keys import fold_in, generator, split
from noisewise.estimators.members import Estimator
from noisewise.inference.learned.posterior.regions import (
    Estimate,
    NextRound,
    Region,
    Regions,
    in_all,
)
from noisewise.priors.prior import Prior
from noisewise.samplers.adaptive_importance import fitted_proposal
from noisewise.samplers.differential_evolution import differential_evolution

_NUM_OWN = 10_240
"""Draws of the estimate that find the level of a region: ten blocks of the 1,024 rows that
densities are evaluated in, and about one draw beyond the default quantile of 1e-4.
"""
_BLOCK = 20_480
"""Draws of the prior at a time: cheap compared with simulations, twenty blocks of 1,024 rows."""
_CHUNK = 4096
"""Draws held against the regions at a time: four blocks of 1,024 rows, so that no more than needed
are asked about where most of them lie inside.
"""
_NATS_PER_DIMENSION = 6.0
"""Fall of log q from its mean to the edge of a region, for each dimension but the first: then r^2 =
d + 12 (d - 1) for normal posteriors, which `TruncatedProposals` explains.
"""
_MARGIN = 1.5
"""Room on each side of the box, in ranges of the estimate's own draws. In the ball above one
parameter has an sd of r / sqrt(d + 2), at most sqrt(13) = 3.6 posterior sds. The draws reach 3.9
sds and their range is 7.8, so that the box ends at 15.6 posterior sds, 4.3 sds in the ball: it cuts
off next to nothing.
"""
_MIN_ACCEPTANCE = 0.003
"""Share of prior draws inside the regions: below it rejection would need more than 300 draws for
each one kept, and a fitted proposal is faster.
"""
_MAX_BLOCKS = 20
"""Blocks tried with the fitted proposal, where the first promises that so many will do."""
_MIN_DRAWS = 20
"""Draws: a round with fewer than a network needs at least (`simulations`) is not worth having; and
the members of a population, whose differences are its steps.
"""
_WIDE_SHARE = 0.2
"""Share of the wide normal law in the fitted proposal: enough for draws in the tails that the fit
misses; the result does not depend on it.
"""


@dataclasses.dataclass(frozen=True)
class AbstractCorrection(abc.ABC):
    """What to propose in later rounds, which simulations to learn from, and with which loss."""

    num_atoms: ClassVar[int] = 0
    """The number of parameters that the loss chooses among; 0 for the plain loss."""
    from_prior: ClassVar[bool] = False
    """Whether usable simulations are draws of the prior inside the regions. Then held-out log
    densities say which of two networks is better, and a round that made them worse is not adopted.
    """
    any_proposal: ClassVar[bool] = False
    """Whether the first round may draw from another law than the prior."""

    @abc.abstractmethod
    def propose(self, key: Array, estimate: Estimate, num: int) -> NextRound:
        """Parameters for the next round.

        Args:
            key: JAX PRNG key.
            estimate: The posterior learnt from the rounds before.
            num: The number of parameters wanted.

        Returns:
            `num` rows of z, with the region they were restricted to, if any.
        """

    def usable(self, regions: Regions, z: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, " n"]:
        """Which of the simulations at z to learn from; by default all."""
        return np.ones(len(z), dtype=bool)


@dataclasses.dataclass(frozen=True)
class TruncatedProposals(AbstractCorrection):
    r"""Later rounds draw from the prior, truncated to where the estimate has mass (Deistler,
    Goncalves and Macke 2022).

        A_r = A_{r-1} and {z : log q_r(z | s_dp) > tau_r},

        tau_r = min(quantile `outside` of log q_r at its own draws, their mean - 6 (d - 1)).

    Pairs inside A_r, of whatever round, are draws from the prior restricted to A_r, so that the
    plain loss -log q needs no correction: within A_r the prior's shape is untouched, and every
    simulation counts with equal weight. Where rejection finds too few parameters in A_r, a
    population of them moves inside it (`differential_evolution`). The posterior is q as it was
    learnt, not cut off at the edge of A_r; the report says how much of it lies outside.

    The regions grow with d because most of a ball lies near its surface. For a normal posterior,
    A_r is a ball of r posterior sds, in which each parameter has variance v = r^2 / (d + 2) under a
    flat prior. The posterior of a pair near the surface is cut off there, and a network that gives
    all pairs one width learns the sd ratio sqrt(v / (1 + v)). With the quantile alone v falls from
    4.6 at d = 2 to 2.8 at 12 and 2.4 at 20, the ratio to .86 and .84. With r^2 = d + 12 (d - 1), v
    is 10.3 at d = 12 and tends to 13, the ratio from .955 to .964, and closer to 1 where the prior
    is not flat. With one or two parameters the quantile decides: networks learn the cut there.

    A later round is adopted only if it predicts held-out simulations inside A_r no worse than the
    round before.

    The default: it cannot leak mass, and trains faster than `AtomicProposals`.

    Args:
        outside: Share of the estimate's own mass that may lie outside its region, at most; the
            reference's. It decides in one and two dimensions.

    Reference: Deistler, Goncalves and Macke (2022), Truncated proposals for scalable and
    hassle-free simulation-based inference, arXiv:2210.04815.

    >>> TruncatedProposals().outside
    0.0001
    """

    from_prior: ClassVar[bool] = True

    outside: float = 1e-4

    def __post_init__(self) -> None:
        object.__setattr__(self, "outside", number("outside", above=0.0, below=0.5)(self.outside))

    def propose(self, key: Array, estimate: Estimate, num: int) -> NextRound:
        level_key, prior_key, rare_key = split(key, 3)
        own = estimate.sample(level_key, _NUM_OWN)
        known, prior = estimate.regions, estimate.prior
        new = None
        if not known or known[-1].density is not estimate.density:
            new = _region(estimate, own, self.outside)
            known = (*known, new)
        found: list[np.ndarray] = []
        missing, tried = num, 0
        while missing > 0:
            z = prior.unconstrain(prior.sample(fold_in(prior_key, tried), _BLOCK))
            found.append(_first_inside(known, z, missing))
            missing -= len(found[-1])
            tried += _BLOCK
            if missing > 0 and num - missing < _MIN_ACCEPTANCE * tried:
                z = _rare(rare_key, estimate, known, own, num)
                if len(z) < min(num, _MIN_DRAWS):
                    return NextRound(prior.unconstrain(prior.sample(rare_key, num)), gave_up=True)
                return NextRound(z, new)
        return NextRound(np.concatenate(found), new)

    def usable(self, regions: Regions, z: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, " n"]:
        return regions.holding(z)


@dataclasses.dataclass(frozen=True)
class AtomicProposals(AbstractCorrection):
    r"""Later rounds draw from the estimate itself, and the loss is a choice among atoms (Greenberg,
    Nonnenmacher and Macke 2019).

        -log [q(z_1 | s_dp) / pi(z_1)] / sum_a [q(z_a | s_dp) / pi(z_a)],

        z_2, ..., z_A parameters of other simulations.

    All simulations of all rounds are used, and the densities of their proposals cancel. The loss
    does not see a factor of q that only depends on s_dp, so that mass may leak to where no atoms
    are; the report says how much of it lies outside their range.

    Use it as in the paper, to start from a `proposal`, or for posteriors of a complicated shape. A
    step costs `num_atoms` times as many densities.

    Args:
        num_atoms: A, the row's own parameters included; 10 as in sbi and by the authors.

    Reference: Greenberg, Nonnenmacher and Macke (2019), Automatic posterior transformation for
    likelihood-free inference, arXiv:1905.07488.

    >>> AtomicProposals().num_atoms
    10
    """

    any_proposal: ClassVar[bool] = True

    num_atoms: int = 10  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_atoms", integer("num_atoms", at_least=2)(self.num_atoms))

    def propose(self, key: Array, estimate: Estimate, num: int) -> NextRound:
        return NextRound(estimate.sample(key, num))


def atomic_loss(distribution: Estimator, target: tuple[Array, Array], condition: Array) -> Array:
    """-log softmax over atoms, averaged over noisy versions.

    Args:
        distribution: q in standardised coordinates.
        target: Standardised targets (b, a, m, p) with their log priors (b, a), infinite for atoms
            that do not count.
        condition: Conditions (b, 1, m, w).

    Returns:
        The loss of each row, shape (b,).
    """
    standard, log_prior = target
    logits = distribution.log_prob(standard, condition) - log_prior[:, :, None]
    return -jax.nn.log_softmax(logits, axis=1)[:, 0].mean(axis=-1)


def _region(estimate: Estimate, own: np.ndarray, outside: float) -> Region:
    """Where q is above a level that `TruncatedProposals` explains, inside a box around its own
    draws.
    """
    low, high = own.min(axis=0), own.max(axis=0)
    margin = _MARGIN * (high - low)
    log_q = estimate.log_prob(own)
    typical = float(log_q[np.isfinite(log_q)].mean()) if np.isfinite(log_q).any() else np.inf
    level = min(
        float(np.quantile(log_q, outside)), typical - _NATS_PER_DIMENSION * (own.shape[1] - 1)
    )
    return Region(estimate.density, estimate.condition, level, low - margin, high + margin)


def _first_inside(regions: tuple[Region, ...], z: np.ndarray, num: int) -> np.ndarray:
    """The first `num` rows of z that lie in all regions, or all there are."""
    found: list[np.ndarray] = []
    for start in range(0, len(z), _CHUNK):
        chunk = z[start : start + _CHUNK]
        found.append(chunk[in_all(regions, chunk)][:num])
        num -= len(found[-1])
        if num <= 0:
            break
    return np.concatenate(found)


def _rare(
    key: Array, estimate: Estimate, regions: tuple[Region, ...], own: np.ndarray, num: int
) -> np.ndarray:
    """At most `num` draws of the prior inside regions that it rarely falls into: by rejection from
    a fit to q, or else by a population that starts from all points known to lie inside.
    """
    spread = own.std(axis=0)
    if not (np.isfinite(spread).all() and (spread > 1e-12 * np.abs(own).max(axis=0)).all()):
        return own[:0]
    accepted = _accepted(key, estimate.prior, regions, own, num)
    if len(accepted) >= num:
        return accepted
    rng = generator(fold_in(key, _MAX_BLOCKS))
    past = estimate.simulated[in_all(regions, estimate.simulated)]
    drawn = np.concatenate([accepted, rng.permutation(past)])  # these follow the law already
    starts = np.concatenate([drawn, _first_inside(regions, own, max(num, _MIN_DRAWS))])
    size = max(num, _MIN_DRAWS)
    if not len(starts):
        return starts
    if len(starts) < size:
        starts = np.concatenate([starts, rng.choice(starts, size=size - len(starts))])
    population = differential_evolution(
        fold_in(key, _MAX_BLOCKS + 1),
        estimate.prior.log_prob_unconstrained,
        lambda z: in_all(regions, z),
        starts[:size],
    )
    return population.z[population.moves > 0][:num]


def _accepted(
    key: Array, prior: Prior, regions: tuple[Region, ...], own: np.ndarray, num: int
) -> np.ndarray:
    """At most `num` draws of the prior inside the regions: draws of a wide fit to q, accepted by
    prior / fit over its largest value found. Fewer where the fit finds them too slowly.
    """
    wide = fitted_proposal(own, np.full(len(own), 1.0 / len(own)), _Wide(own), _WIDE_SHARE)
    z, log_ratio, log_u = np.empty((0, own.shape[1])), np.empty(0), np.empty(0)
    accepted = np.empty(0, dtype=bool)
    for block in range(_MAX_BLOCKS):
        draw_key, accept_key = split(fold_in(key, block))
        new = wide.sample(draw_key, _BLOCK)
        new = new[in_all(regions, new)]
        if not len(new):
            break
        ratio = prior.log_prob_unconstrained(new) - wide.log_prob(new)
        z, log_ratio = np.concatenate([z, new]), np.concatenate([log_ratio, ratio])
        log_u = np.concatenate(
            [log_u, np.log(generator(accept_key).uniform(1e-300, 1.0, len(new)))]
        )
        accepted = log_u < log_ratio - log_ratio.max(initial=-np.inf)
        if not num / _MAX_BLOCKS * (block + 1) <= accepted.sum() < num:
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
