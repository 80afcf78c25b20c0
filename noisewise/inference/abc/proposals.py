"""Proposals of theta in unconstrained coordinates z, and how they are collected until enough are
accepted.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np

from noisewise._core.arrays import Array, in_blocks
from noisewise._core.keys import fold_in, generator
from noisewise._core.weights import effective_size, rows_at, systematic_rows
from noisewise.inference.contract.run import NUM_PRIOR_CHECK, OutOfBudget
from noisewise.priors.prior import Prior

PILOT = NUM_PRIOR_CHECK
"""Prior draws that come first, at least: they show whether the observation is surprising, and what
scale its columns have.
"""

Batch = tuple[np.ndarray, tuple[np.ndarray, ...]]
"""Which of n proposals are accepted (n,), and what is kept of those: arrays (n, ...)."""

_MIN_BATCH, _MAX_BATCH = 64, 2**16
"""Proposals in a batch: more than one at a time where few are missing, and few enough for memory
and for looks at the budgets.
"""

_NUM_NEAREST = 100
"""Proposals shown when none is accepted: a round number, for readers only."""

_MIN_EXPECTED = 10.0
"""Acceptances that must be expected before an acceptance is judged too low: that none is then seen
has probability exp(-10).
"""

_MAX_PAIRS = 2**22
"""Pairs of point and kernel handled at once: 32 MiB of float64."""


@dataclasses.dataclass(frozen=True)
class PriorProposal:
    """The prior."""

    prior: Prior

    def sample(self, key: Array, num: int) -> np.ndarray:
        return in_blocks(lambda _, rows: self.prior.unconstrain(rows), self.prior.sample(key, num))

    def log_prob(self, z: np.ndarray) -> np.ndarray:
        return self.prior.log_prob_unconstrained(z)


@dataclasses.dataclass(frozen=True)
class KernelProposal:
    """A mixture of normal kernels, sum_j W_j N(.; z_j, 2 Cov_W).

    Attributes:
        z: Centres, shape (n, p).
        weights: Their normalised weights, shape (n,).
        root: The Cholesky factor of 2 Cov_W, shape (p, p).
    """

    z: np.ndarray
    weights: np.ndarray
    root: np.ndarray

    @staticmethod
    def fitted(key: Array, z: np.ndarray, weights: np.ndarray) -> KernelProposal:
        """The proposal for weighted particles, resampled first if their effective size is below
        n/2.

        Args:
            key: A PRNG key, for resampling.
            z: Particles, shape (n, p).
            weights: Normalised weights, shape (n,).
        """
        if effective_size(weights) < len(z) / 2:
            z = z[systematic_rows(weights, len(z), generator(key).random())]
            weights = np.full(len(z), 1.0 / len(z))
        centred = z - weights @ z
        covariance = (weights[:, None] * centred).T @ centred
        # the ridge lets particles on one line or point still move
        ridge = 1e-9 * np.diag(np.maximum(np.diag(covariance), 1e-12))
        return KernelProposal(z, weights, np.linalg.cholesky(2.0 * (covariance + ridge)))

    def sample(self, key: Array, num: int) -> np.ndarray:
        rng = generator(key)
        parents = rows_at(self.weights, rng.random(num))
        return self.z[parents] + rng.standard_normal((num, self.z.shape[1])) @ self.root.T

    def log_prob(self, z: np.ndarray) -> np.ndarray:
        """The log density, shape (n,), computed for 4 million pairs at a time."""
        rows = max(1, _MAX_PAIRS // len(self.z))
        centre = self.weights @ self.z
        centres, points = (
            np.linalg.solve(self.root, (values - centre).T).T for values in (self.z, z)
        )
        constant = np.log(np.diag(self.root)).sum() + 0.5 * z.shape[1] * np.log(2.0 * np.pi)
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        parts = [
            _log_mixture(points[i : i + rows], centres, log_weights) for i in range(0, len(z), rows)
        ]
        return np.concatenate(parts) - constant


def _log_mixture(points: np.ndarray, centres: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    terms = points @ centres.T + (log_weights - 0.5 * np.sum(centres**2, axis=1))
    top = terms.max(axis=1)
    terms -= top[:, None]
    return top + np.log(np.exp(terms, out=terms).sum(axis=1)) - 0.5 * np.sum(points**2, axis=1)


# Taking them in -----------------------------------------------------------------------------------


class Nearest:
    """The 100 proposals with the smallest finite scores so far, to show if none is accepted."""

    def __init__(self) -> None:
        self._kept: tuple[np.ndarray, ...] = ()

    def add(self, scores: np.ndarray, *columns: np.ndarray) -> None:
        """Consider n proposals: their scores (n,), and what to keep of them, arrays (n, ...)."""
        candidates = (*columns, scores)
        if self._kept:
            candidates = tuple(
                np.concatenate(pair) for pair in zip(self._kept, candidates, strict=True)
            )
        best = np.argsort(candidates[-1], kind="stable")[:_NUM_NEAREST]
        self._kept = tuple(column[best] for column in candidates)

    def columns(self) -> tuple[np.ndarray, ...]:
        """What was kept, nearest first, the scores last."""
        return tuple(column[np.isfinite(self._kept[-1])] for column in self._kept)


@dataclasses.dataclass
class Harvest:
    """Accepted proposals, in the order in which they were made.

    Attributes:
        wanted: Acceptances that complete the harvest.
        num_tried: Proposals so far.
        num_accepted: Acceptances so far.
        parts: What is kept of the accepted ones, batch by batch.
    """

    wanted: int
    num_tried: int = 0
    num_accepted: int = 0
    parts: list[tuple[np.ndarray, ...]] = dataclasses.field(default_factory=list)

    @property
    def acceptance(self) -> float:
        """The share of proposals accepted, surplus ones included."""
        return self.num_accepted / max(self.num_tried, 1)

    @property
    def complete(self) -> bool:
        """Whether enough are accepted."""
        return self.num_accepted >= self.wanted

    def add(self, batch: Batch) -> None:
        """Add a batch of proposals."""
        accepted, columns = batch
        self.num_tried += len(accepted)
        self.num_accepted += int(accepted.sum())
        self.parts.append(tuple(column[accepted] for column in columns))

    def columns(self) -> tuple[np.ndarray, ...]:
        """What was kept of the first `wanted` accepted ones."""
        return tuple(
            np.concatenate(column)[: self.wanted] for column in zip(*self.parts, strict=True)
        )

    def next_size(self, guess: float) -> int:
        """Proposals to try next: what is still needed at the acceptance rate so far and up to a
        tenth more, at most four times as many as so far. `guess` is the rate until one is accepted.
        """
        rate = (self.num_accepted + guess) / (self.num_tried + 1.0)
        needed = (1.1 - 0.1 * rate) * (self.wanted - self.num_accepted) / rate
        return math.ceil(
            min(max(needed, _MIN_BATCH), 4 * max(self.num_tried, 4 * _MIN_BATCH), _MAX_BATCH)
        )


def collect(
    key: Array,
    attempt: Callable[[Array, int], Batch],
    wanted: int,
    *,
    first: Batch | None = None,
    guess: float = 0.5,
    min_acceptance: float = 0.0,
) -> Harvest:
    """Propose batch after batch, until enough are accepted, a budget ends, or too few are accepted.

    Proposals are independent and accepted in their order, so the sizes of batches, which follow the
    acceptance rate, bias nothing. The rate is judged once ten acceptances would be expected at
    `min_acceptance`.

    Args:
        key: A PRNG key.
        attempt: (key, num) to a batch of about `num` proposals, judged.
        wanted: Acceptances that are enough.
        first: A batch to begin with.
        guess: The acceptance rate until one is accepted.
        min_acceptance: The rate below which to give up.
    """
    harvest = Harvest(wanted)
    if first is not None:
        harvest.add(first)
    for batch in itertools.count():
        judged = min_acceptance * harvest.num_tried >= _MIN_EXPECTED
        if harvest.complete or (judged and harvest.acceptance < min_acceptance):
            break
        try:
            harvest.add(attempt(fold_in(key, batch), harvest.next_size(guess)))
        except OutOfBudget:
            break
    return harvest
