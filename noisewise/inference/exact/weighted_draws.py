"""Weighted draws from a proposal, with one simulation each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.keys import split
from noisewise._core.weights import effective_size_of_logs, normalised
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.soundness import SMALLEST_MODE, Soundness
from noisewise.posteriors import Finding, Kind, WeightedSamples
from noisewise.posteriors.weighted_samples import pareto_k
from noisewise.priors.prior import Prior
from noisewise.samplers.adaptive_importance import Proposal

PRIOR_SHARE = 0.1
"""Share of prior draws in every fitted proposal: where q misses the posterior, weights are at most
10 times those of prior draws.
"""

_ABOUT_WEIGHTS = (
    Kind.WEIGHTS_POOR,
    Kind.WEIGHTS_UNSTEADY,
    Kind.TAILS_UNSTEADY,
    Kind.DRAWS_THAT_ADAPTED,
    Kind.CONTRADICTED,
    Kind.FOUND_BY_FEW,
    Kind.UNEXPLAINED,
)
"""What holds for one set of weighted draws: the next set of a run makes it void."""

_AGAINST_WEIGHTS = {Kind.WEIGHTS_POOR, Kind.WEIGHTS_UNSTEADY, Kind.TAILS_UNSTEADY}
"""Findings with which the error of the evidence is not known either."""

_MIN_OF_PROMISE = 0.25
"""Share of the effective size that separate draws promised: chance hardly halves it."""

_MAX_STANDARD_SCORE = 4.5
"""Standard errors between two estimates of the evidence: 1 in 150,000 by chance."""


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
        run: The run.
        proposal: q.
        z: Unconstrained parameters, shape (n, p).
        s: Statistics, shape (n, k).
        log_weights: Log weights, shape (n,).
        log_proposal: log q, shape (n,).
    """

    def __init__(self, run: InferenceRun, proposal: Proposal) -> None:
        self.run, self.proposal = run, proposal
        dim, width = run.model.prior.unconstrained_dim, run.model.statistic_width
        self.z, self.s = np.empty((0, dim)), np.empty((0, width))
        self.log_weights, self.log_proposal = np.empty(0), np.empty(0)

    @property
    def num(self) -> int:
        """How many draws there are."""
        return len(self.log_weights)

    def add(self, key: Array, num: int) -> None:
        """`num` more draws, or as many as budgets allow; raises `OutOfBudget` if that is none."""
        draw_key, simulate_key = split(key)
        prior = self.run.model.prior
        z = self.proposal.sample(draw_key, num)
        inside = np.flatnonzero(np.isfinite(z).all(axis=1))
        simulated = self.run.statistics(simulate_key, prior.constrain(z[inside]))
        done = num if len(simulated) == len(inside) else inside[len(simulated)]
        s = np.full((done, self.s.shape[1]), np.nan)
        s[inside[: len(simulated)]] = simulated
        log_proposal = self.proposal.log_prob(z[:done])
        log_weights = prior.log_prob_unconstrained(z[:done]) + self.run.log_eta(s) - log_proposal
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

    def posterior(self, sound: Soundness | None = None) -> WeightedSamples:
        """The weighted posterior; effective size, Pareto k and log evidence go into the report.

        Args:
            sound: What separate draws from the same proposal show; it alone decides whether these
                are called exact. Without it they are not.
        """
        findings = () if sound is None else sound.findings(self.num)
        if sound is not None and self.contradicts(sound):
            findings += (Finding(Kind.WEIGHTS_UNSTEADY, self._against(sound)),)
        return weighted_posterior(
            self.run,
            self.z,
            self.s,
            self.log_weights,
            findings=findings + (() if sound is None else sound.remarks),
            exact=sound is not None and not findings,
            smallest_mode=None if sound is None else sound.smallest_mode,
        )

    def contradicts(self, sound: Soundness) -> bool:
        """Whether these draws are worth so much less than the separate ones promised, or give
        another evidence, that chance does not explain it.
        """
        size, promised = self.effective_size, sound.size_of(self.num)
        error = np.hypot(self.log_evidence_se, 1.0 / np.sqrt(max(sound.effective_size, 1.0)))
        far = abs(self.log_evidence - sound.log_evidence) > _MAX_STANDARD_SCORE * error
        return bool(size < _MIN_OF_PROMISE * promised or far)

    def _against(self, sound: Soundness) -> dict[str, float]:
        return {"effective_size": self.effective_size, "promised": sound.size_of(self.num)}


def weighted_posterior(
    run: InferenceRun,
    z: Float[np.ndarray, "n p"],
    s: Float[np.ndarray, "n k"],
    log_weights: Float[np.ndarray, " n"],
    *,
    findings: Iterable[Finding] = (),
    exact: bool,
    smallest_mode: float | None = None,
) -> WeightedSamples:
    """Weighted draws as a posterior, with what they are worth in its report.

    Args:
        run: The run that they are from.
        z: Unconstrained parameters, shape (n, p).
        s: Statistics, shape (n, k).
        log_weights: Their log weights, whose mean is the evidence, shape (n,).
        findings: What a reader must know of them.
        exact: Whether they are called exact.
        smallest_mode: The posterior mass from which a mode was sure to be seen; None if unknown.
    """
    size, findings = effective_size_of_logs(log_weights), tuple(findings)
    known = exact or not {finding.kind for finding in findings} & _AGAINST_WEIGHTS
    error = np.sqrt(max(1.0 / size - 1.0 / len(log_weights), 0.0)) if size else np.inf
    run.diagnostics |= {
        "effective size": size,
        "Pareto k": pareto_k(log_weights),
        "log evidence": float(logsumexp(log_weights) - np.log(len(log_weights))),
        "log evidence se": max(float(error), 1.0 / len(log_weights)) if known else np.inf,
    }
    if smallest_mode is not None:
        run.diagnostics[SMALLEST_MODE] = smallest_mode
    run.withdraw(*_ABOUT_WEIGHTS)
    run.add(*findings)
    return run.weighted(run.model.prior.constrain(z), log_weights, s, exact=exact)


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
