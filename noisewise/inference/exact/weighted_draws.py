"""Weighted draws from a proposal, with one simulation each."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.weights import MIN_DRAWS, effective_size_of_logs, normalised
from noisewise.inference.contract.run import InferenceRun
from noisewise.posteriors import Kind, WeightedSamples
from noisewise.posteriors.findings import without
from noisewise.posteriors.weighted_samples import MAX_PARETO_K, pareto_k
from noisewise.priors.prior import Prior
from noisewise.samplers.adaptive_importance import Proposal

_MIN_SHARE = 0.01
"""Effective draws per simulation from which a proposal is good: each then takes a hundred
simulations.
"""

PRIOR_SHARE = 0.1
"""Share of prior draws in every fitted proposal: where q misses the posterior, weights are at most
10 times those of prior draws.
"""

_ABOUT_PARTS = (Kind.APPROXIMATION_POOR, Kind.NOT_CERTIFIABLE, Kind.WEIGHTS_POOR)
"""What holds for the last of several sets of draws, not for all of them together, as does its
verdict.
"""


@dataclasses.dataclass(frozen=True)
class UnconstrainedPrior:
    """The prior in unconstrained coordinates."""

    prior: Prior

    def sample(self, key: Array, num: int) -> np.ndarray:
        """Draws z (num, d)."""
        return self.prior.unconstrain(self.prior.sample(key, num))

    def log_prob(self, z: np.ndarray) -> np.ndarray:
        """The log density of z, Jacobian included."""
        return self.prior.log_prob_unconstrained(z)


class ImportanceDraws:
    r"""z_i ~ q, s_i ~ f(. | theta_i), w_i = pi(z_i) eta(s_dp | s_i) / q(z_i), collected batch by
    batch.

    The mean weight is an unbiased estimate of the evidence p(s_dp). A proposal may give rows that
    are not finite, for draws off the support: they are not simulated, and have weight 0.

    Args:
        run: The run, through which it simulates.
        proposal: q, with `sample(key, num)` and `log_prob(z)`.

    Attributes:
        z: Unconstrained parameters, shape (n, p).
        s: Statistics, shape (n, k).
        log_weights: Log weights, shape (n,).
        log_proposal: log q, shape (n,).
    """

    def __init__(self, run: InferenceRun, proposal: Proposal) -> None:
        self._run, self._proposal = run, proposal
        dim, width = run.model.prior.unconstrained_dim, run.model.statistic_width
        self.z, self.s = np.empty((0, dim)), np.empty((0, width))
        self.log_weights, self.log_proposal = np.empty(0), np.empty(0)

    @property
    def num(self) -> int:
        """How many draws there are."""
        return len(self.log_weights)

    def add(self, key: Array, num: int) -> None:
        """`num` more draws, or as many as budgets allow; raises `OutOfBudget` if that is none."""
        draw_key, simulate_key = jax.random.split(key)
        prior = self._run.model.prior
        z = self._proposal.sample(draw_key, num)
        inside = np.flatnonzero(np.isfinite(z).all(axis=1))
        simulated = self._run.statistics(simulate_key, prior.constrain(z[inside]))
        done = num if len(simulated) == len(inside) else inside[len(simulated)]
        s = np.full((done, self.s.shape[1]), np.nan)
        s[inside[: len(simulated)]] = simulated
        log_proposal = self._proposal.log_prob(z[:done])
        log_weights = prior.log_prob_unconstrained(z[:done]) + self._run.log_eta(s) - log_proposal
        self.z, self.s = np.concatenate([self.z, z[:done]]), np.concatenate([self.s, s])
        self.log_proposal = np.concatenate([self.log_proposal, log_proposal])
        log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
        self.log_weights = np.concatenate([self.log_weights, log_weights])

    @property
    def effective_size(self) -> float:
        """(sum w)^2 / sum w^2; 0 if all weights are."""
        return effective_size_of_logs(self.log_weights)

    @property
    def log_evidence(self) -> float:
        """The log of the mean weight; -inf if all weights are 0."""
        return (
            float(logsumexp(self.log_weights) - np.log(self.num))
            if self.effective_size
            else -np.inf
        )

    @property
    def log_evidence_se(self) -> float:
        """The standard error of the log evidence."""
        return (
            float(np.sqrt(max(1.0 / self.effective_size - 1.0 / self.num, 0.0)))
            if self.effective_size
            else np.inf
        )

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights (n,); equal ones if all are 0."""
        if self.effective_size == 0.0:
            return np.full(self.num, 1.0 / self.num)
        return normalised(self.log_weights)

    @property
    def good(self) -> bool:
        """Whether effective draws are cheap enough: at most a hundred simulations each."""
        return self.effective_size >= max(_MIN_SHARE * self.num, MIN_DRAWS / 2)

    def posterior(self) -> WeightedSamples:
        """The weighted posterior; effective size, Pareto k and log evidence go into the report."""
        run = self._run
        theta = run.model.prior.constrain(self.z)
        size, shape = self.effective_size, pareto_k(self.log_weights)
        run.diagnostics |= {
            "effective size": size,
            "Pareto k": shape,
            "log evidence": self.log_evidence,
            "log evidence se": self.log_evidence_se,
        }
        exact = trustworthy(size, shape)
        if not exact:
            run.warn(Kind.WEIGHTS_POOR, effective_size=size, pareto_k=shape)
        return run.weighted(theta, self.log_weights, self.s, exact=exact)


def trustworthy(effective_size: float, shape: float) -> bool:
    """Whether weighted draws stand for the posterior: 100 effective ones or more, and a Pareto k of
    .7 or less.
    """
    return effective_size >= MIN_DRAWS and shape <= MAX_PARETO_K


def relative_variance(log_eta: np.ndarray) -> float:
    r"""1 + rv = E[eta^2] / E[eta]^2, averaged over places.

    Args:
        log_eta: log eta of r simulations at each place, shape (places, r).

    Returns:
        The mean over places: at most r, and too low where it comes near r.
    """
    top = log_eta.max(axis=1, keepdims=True)
    eta = np.exp(log_eta - np.where(np.isfinite(top), top, 0.0))
    ratios = np.mean(eta**2, axis=1) / np.maximum(np.mean(eta, axis=1) ** 2, 1e-300)
    return float(np.mean(np.where(np.isfinite(top[:, 0]), ratios, log_eta.shape[1])))


def pooled_draws(sets: list[WeightedSamples]) -> WeightedSamples:
    """Several sets of weighted draws as one. Every weight is pi eta / p for the p that its draw is
    from, so the sets simply add up.

    Args:
        sets: The sets, all from the same model; the last one's report is kept but for what is about
            it alone.
    """
    if len(sets) == 1:
        return sets[0]
    last = sets[-1]
    log_weights = np.concatenate([part.log_weights for part in sets])
    derived = {name: np.concatenate([part.derived[name] for part in sets]) for name in last.derived}
    pooled = WeightedSamples(
        np.concatenate([part.theta for part in sets]),
        last.names,
        last.report,
        log_weights=log_weights,
        derived=derived,
        statistics=np.concatenate([part.statistics for part in sets]),
        statistic_names=last.statistic_names,
    )
    size, shape = pooled.effective_size, pareto_k(log_weights)
    numbers = {**last.report.numbers, "effective size": size, "Pareto k": shape}
    numbers.pop("verdict", None)
    findings = without(last.report.findings, *_ABOUT_PARTS)
    exact = trustworthy(size, shape)
    return pooled.with_report(
        dataclasses.replace(last.report, numbers=numbers, findings=findings, exact=exact)
    )
