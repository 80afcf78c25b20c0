r"""All simulations of an inference, weighed together.

    w_i = pi(z_i) eta(s_dp | s_i) / sum_j (n_j / n) q_j(z_i),    n_j draws from q_j

is an unbiased weight under the mixture of all the laws that parameters were drawn from (the balance
heuristic of Veach and Guibas 1995), so that no stage need be discarded. As later laws were fitted
to earlier draws the pool serves to search and to check; the numbers of an answer come from fresh
draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.keys import fold_in, generator, split
from noisewise._core.weights import effective_size_of_logs, normalised
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.weighted_draws import UnconstrainedPrior, weighted_posterior
from noisewise.posteriors import Finding, Kind, WeightedSamples
from noisewise.samplers.adaptive_importance import Defended, Proposal
from noisewise.samplers.t_mixtures import fitted_mixture, widened

_POWERS = (0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08)
"""Powers of the posterior that wider proposals are fitted to, each about .7 of the one before."""

_MAX_EXTRA_COST = 1.3
"""What a wider proposal may cost, as a multiple of the cheapest: weights that vary less in the
tails are worth a quarter of the draws, as errors can only be trusted then.
"""

_TAIL = 0.025
"""Mass beyond each end of a 95% interval."""

SEARCHLESS = -1
"""The search of draws that belong to none."""


class Part(NamedTuple):
    """Draws to add: `num` from `proposal`, by one of several independent searches."""

    proposal: Proposal
    num: int
    search: int = SEARCHLESS


class Targets(NamedTuple):
    """What a proposal is fitted to: draws z (m, p) with log weights (m,), the log of the target
    there (m,), and of the prior (m,).
    """

    z: np.ndarray
    log_weights: np.ndarray
    log_density: np.ndarray
    log_prior: np.ndarray


class Pool:
    """All simulations of a run, each with the law that its parameters are from.

    Args:
        run: The run, through which it simulates.

    Attributes:
        z: Unconstrained parameters, shape (n, p); all finite.
        theta: Parameters, shape (n, d).
        s: Statistics, shape (n, k).
        log_prior: Log prior densities, shape (n,).
        log_eta: log eta(s_dp | s), shape (n,); -inf for failed simulations.
        search: Which search each draw belongs to, shape (n,).
        num_prior: How many draws are from the prior.
    """

    def __init__(self, run: InferenceRun) -> None:
        self.run, self.prior = run, UnconstrainedPrior(run.model.prior)
        dim, width = run.model.prior.unconstrained_dim, run.model.statistic_width
        self.z, self.s = np.empty((0, dim)), np.empty((0, width))
        self.theta = run.model.prior.constrain(np.zeros((1, dim)))[:0]
        self.log_prior, self.log_eta = np.empty(0), np.empty(0)
        self.search = np.empty(0, dtype=int)
        self.num_prior = 0
        self._fits: list[Part] = []
        self._num_unusable = 0
        self._log_fits = np.empty(0)  # log sum_j n_j q_j, without the prior

    @property
    def num(self) -> int:
        """How many draws were made, those that could not be used included."""
        return len(self.z) + self._num_unusable

    def include(
        self,
        proposal: Proposal,
        z: Float[np.ndarray, "n p"],
        s: Float[np.ndarray, "n k"],
        *,
        usable: Bool[np.ndarray, " n"] | None = None,
        num_searches: int = 0,
    ) -> None:
        """Add independent draws that were simulated before.

        Args:
            proposal: What they are from.
            z: Unconstrained parameters, shape (n, p).
            s: Statistics, shape (n, k).
            usable: Which of them may count; the others have weight 0. None is all.
            num_searches: Deal them out to this many searches; 0 for none.
        """
        kept = np.isfinite(z).all(axis=1)
        if usable is not None:
            kept &= usable
        num, z, s = len(z), z[kept], s[kept]
        from_prior = isinstance(proposal, UnconstrainedPrior)
        self.num_prior += num if from_prior else 0
        self._num_unusable += num - len(z)
        search = np.arange(len(z)) % num_searches if num_searches else np.full(len(z), SEARCHLESS)
        theta = self.run.model.prior.constrain(z) if len(z) else self.theta[:0]
        self._append(z, theta, s, search, [] if from_prior else [Part(proposal, num)])

    def add(self, key: Array, parts: Sequence[Part]) -> float:
        """Draw, simulate and add, as far as the budgets allow.

        Returns:
            What the new draws are worth by themselves.

        Raises:
            OutOfBudget: If they allow nothing.
        """
        draw_key, simulate_key, order_key = split(key, 3)
        z = np.concatenate(
            [
                part.proposal.sample(fold_in(draw_key, number), part.num)
                for number, part in enumerate(parts)
            ]
        )
        of_part = np.repeat(np.arange(len(parts)), [part.num for part in parts])
        # in random order, so that a budget that ends early cuts all parts alike
        order = generator(order_key).permutation(len(z))
        theta = self.run.model.prior.constrain(z[order])
        s = self.run.statistics(simulate_key, theta)
        z, of_part = z[order[: len(s)]], of_part[order[: len(s)]]
        counts = np.bincount(of_part, minlength=len(parts))
        kept = [part._replace(num=int(n)) for part, n in zip(parts, counts, strict=True) if n]
        fits = [part for part in kept if not isinstance(part.proposal, UnconstrainedPrior)]
        self.num_prior += len(z) - sum(part.num for part in fits)
        search = np.array([part.search for part in parts])[of_part]
        self._append(z, theta[: len(s)], s, search, fits)
        own = _with_parts(np.full(len(z), -np.inf), z, kept)
        new = slice(len(self.z) - len(z), None)
        return effective_size_of_logs(self.log_prior[new] + self.log_eta[new] - own)

    def _append(
        self,
        z: np.ndarray,
        theta: np.ndarray,
        s: np.ndarray,
        search: np.ndarray,
        fits: list[Part],
    ) -> None:
        """Add rows, and the fits that some of them are from."""
        old = _with_parts(self._log_fits, self.z, fits)
        self._fits += fits
        new = _with_parts(np.full(len(z), -np.inf), z, self._fits)
        self._log_fits = np.concatenate([old, new])
        self.theta = np.concatenate([self.theta, theta])
        self.z, self.s = np.concatenate([self.z, z]), np.concatenate([self.s, s])
        self.log_prior = np.concatenate([self.log_prior, self.prior.log_prob(z)])
        self.log_eta = np.concatenate([self.log_eta, self.run.log_eta(s)])
        self.search = np.concatenate([self.search, search])

    @property
    def log_total(self) -> Float[np.ndarray, " n"]:
        """log sum_j n_j q_j at each draw."""
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(self.num_prior) + self.log_prior, self._log_fits)

    @property
    def log_weights(self) -> Float[np.ndarray, " n"]:
        """Log weights under the mixture of all proposals; their mean is the evidence."""
        return self.log_prior + self.log_eta - self.log_total + np.log(self.num)

    @property
    def weights(self) -> Float[np.ndarray, " n"]:
        """Normalised weights; one must be positive."""
        return normalised(self.log_weights)

    @property
    def effective_size(self) -> float:
        """The effective size of the weights; 0 if all are 0, or there are none."""
        if not self.num:
            return 0.0
        return effective_size_of_logs(self.log_weights)

    @property
    def log_evidence(self) -> float:
        """The log of the mean weight."""
        return float(logsumexp(self.log_weights) - np.log(self.num))

    def posterior(self) -> WeightedSamples:
        """All draws, weighted together, for when nothing better came of them: not called exact,
        because proposals were fitted to them.
        """
        finding = Finding(Kind.DRAWS_THAT_ADAPTED)
        return weighted_posterior(
            self.run, self.z, self.s, self.log_weights, findings=(finding,), exact=False
        )

    def targets(self, search: int | None = None) -> Targets:
        """What a proposal is fitted to: draws with a positive weight.

        Args:
            search: Use the draws of this search alone; None uses all.
        """
        if search is None:
            rows, log_total = np.arange(len(self.z)), self.log_total
        else:
            rows = np.flatnonzero(self.search == search)
            log_total = self._own_total(rows, search)
        log_density = self.log_prior[rows] + self.log_eta[rows]
        found = np.isfinite(log_density)
        rows, log_density = rows[found], log_density[found]
        return Targets(
            self.z[rows], log_density - log_total[found], log_density, self.log_prior[rows]
        )

    def log_density(
        self, proposal: Proposal, rows: Int[np.ndarray, " m"]
    ) -> Float[np.ndarray, " m"]:
        """The log density of a proposal at some of the draws, whose prior density is known."""
        if isinstance(proposal, Defended) and isinstance(proposal.start, UnconstrainedPrior):
            return proposal.log_prob_given(self.z[rows], self.log_prior[rows])
        return proposal.log_prob(self.z[rows])

    def reliable_share(self, proposal: Proposal) -> float:
        """E[w^2]^2 / E[w^4] of draws from a proposal, by all simulations: the share of them that
        determines a Monte Carlo error.
        """
        log_weights = self.log_weights
        rows = np.flatnonzero(np.isfinite(log_weights))
        log_ratio = self.log_total[rows] - np.log(self.num) - self.log_density(proposal, rows)
        log_second, log_fourth = (
            logsumexp(power * log_weights[rows] + (power - 1) * log_ratio) - np.log(self.num)
            for power in (2, 4)
        )
        return float(np.exp(2.0 * log_second - log_fourth))

    def tail_share(self, proposal: Proposal) -> float:
        """What draws from a proposal are worth, each, in the worst tail of 2.5% of a parameter, by
        all simulations: P(tail)^2 / E[w^2; tail] for weights of mean 1. What is largest counts
        twice, as the rare draws that matter most may not have occurred.
        """
        if not self.effective_size:
            return 0.0
        weights, theta = self.weights, self.theta
        rows = np.flatnonzero(weights > 0.0)
        log_ratio = self.log_total[rows] - np.log(self.num) - self.log_density(proposal, rows)
        squares = self.num * weights[rows] ** 2 * np.exp(np.minimum(log_ratio, 700.0))
        shares = []
        for values in theta[rows].T:
            order = np.argsort(values)
            for end in (order, order[::-1]):
                mass = np.cumsum(weights[rows][end])
                tail = end[: 1 + np.searchsorted(mass, _TAIL)]
                second = squares[tail].sum() + squares[tail].max()
                shares.append(weights[rows][tail].sum() ** 2 / second)
        return float(min(shares))

    def cost(self, proposal: Proposal) -> float:
        """Draws from a proposal that an effective draw takes, E[w^2] / E[w]^2, by all
        simulations.
        """
        log_weights = self.log_weights
        rows = np.flatnonzero(np.isfinite(log_weights))
        log_ratio = self.log_total[rows] - np.log(self.num) - self.log_density(proposal, rows)
        log_square = logsumexp(2.0 * log_weights[rows] + log_ratio) - np.log(self.num)
        return float(np.exp(log_square - 2.0 * self.log_evidence))

    def _own_total(self, rows: Int[np.ndarray, " m"], search: int) -> Float[np.ndarray, " m"]:
        fits = [part for part in self._fits if part.search == search]
        num_prior = len(rows) - sum(part.num for part in fits)
        with np.errstate(divide="ignore"):
            return _with_parts(np.log(num_prior) + self.log_prior[rows], self.z[rows], fits)


def _with_parts(
    log_total: Float[np.ndarray, " n"], z: Float[np.ndarray, "n p"], parts: Sequence[Part]
) -> Float[np.ndarray, " n"]:
    """The log of a sum of n_j q_j with more parts added to it."""
    if not len(z):
        return log_total
    for part in parts:
        log_total = np.logaddexp(log_total, np.log(part.num) + part.proposal.log_prob(z))
    return log_total


def cheapest_proposal(pool: Pool, prior_share: float) -> Defended:
    """A mixture of t laws fitted to all simulations, mixed with the prior.

    Where eta is noisy it is made wider than the posterior, as far as that costs little: weights
    vary the most in the tails.

    Args:
        pool: The simulations; at least one has a positive weight.
        prior_share: Share of prior draws.
    """
    z, log_weights, log_density, log_prior = pool.targets()
    law = fitted_mixture(z, log_weights, log_density)
    best = Defended(law, pool.prior, prior_share)
    lowest = pool.cost(best)
    for power in _POWERS:
        wide = widened(law, z, log_weights, log_prior, power)
        proposal = Defended(wide, pool.prior, prior_share)
        cost = pool.cost(proposal)
        if cost > _MAX_EXTRA_COST * lowest:
            break
        best, lowest = proposal, min(lowest, cost)
    return best
