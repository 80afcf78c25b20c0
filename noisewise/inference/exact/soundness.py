"""Whether weighted draws stand for the posterior, decided by simulations that they are not part of.

Draws whose own weights decide whether they are called exact are biased: the label falls to those in
which no large weight happened to turn up.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.draws import filled_below
from noisewise._core.keys import generator, split
from noisewise._core.weights import MIN_DRAWS, effective_size_of_logs, systematic_rows
from noisewise.inference.contract.run import InferenceRun
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import Finding, Kind
from noisewise.posteriors.weighted_samples import max_pareto_k, pareto_k
from noisewise.samplers.t_mixtures import fitted_mixture

if TYPE_CHECKING:
    from noisewise.inference.exact.pool import Pool
    from noisewise.samplers.adaptive_importance import Proposal

MIN_RELIABLE = 15.0
"""Draws that determine a Monte Carlo error, (sum w^2)^2 / sum w^4, at least: the error is then
itself known to some 1 / sqrt(2 * 15) = 18%. Over 540 answers z-scores of means had an sd of 1.01
from 20, and of 1.01 from 70.
"""

MAX_FOUND_BY_FEW = 0.1
"""Share of the posterior that few searches may have found: as much as a mode that may be
missed.
"""

MIN_VISITS = 6.0
"""Effective draws of the prior that make up for few searches: a second part as easy to come upon is
then missed with probability exp(-6) = .0025.
"""

_MIN_SHARE = 0.01
"""Effective draws for each draw from a good proposal, at least, unless the simulator is noisy."""

MAX_CONTRADICTED = 0.05
"""Share of the posterior, by all simulations of a run, that may lie where the draws hardly are."""

NOTICED = 0.1
"""Posterior mass of a mode that must not be missed: an answer without it is off by as much."""

LOG_SLACK = float(np.log(300.0))
"""Log of the factor by which one fit may lie below another of the same law: a fit to a few hundred
draws may give a narrow mode a tenth of its mass and three times its width in every direction. Where
the posterior is less than 30 times as dense as the prior, prior draws find every part of it.
"""

_CALM = 10.0
"""Fourth moment of the weights over the square of the second, up to which they have no heavy tail:
it is 3 for normal ones, and of the order of the number of draws where k is above 1/2. The fit of
Pareto k fails where weights have few values, as with discrete noise.
"""

_MAX_SHAPE = 0.5
"""Pareto k up to which weights have a variance. Averages converge up to .7, but their errors, which
an exact answer states, are only known below a half.
"""

_MAX_SHARE = 0.1
"""Share of the total weight that a draw may have at most, where sup eta bounds it: sup eta / (a N
Z), a third of the mass from which modes are sure to be seen.
"""

MIN_TAIL = 2.0
"""Effective draws beyond an end of an interval, as all simulations predict with one more like the
largest, at least. With fewer than 10 among the draws the end is called thin
(`posterior.thin_tails`); with fewer than these its error is not known either, and the whole is not
called exact. z-scores of the worse end had an sd of 1.04 over 343 answers with at least 5 of them,
of about 1.25 over 100 with 3 to 5, and of 1.35 over 97 with 1.5 to 3.
"""

_MIN_TAIL_SHARE = 0.4 * 0.025
"""Effective draws in a tail of 2.5%, as a share of all: with two fifths of what equal weights have,
the effective size still describes intervals.
"""

_DOMINATING = 0.02
"""Share of the total weight: a simulation that would weigh more among the draws contradicts
them.
"""

_FEW_EXPECTED = 3.0
"""Where 3 events are expected, none is seen with probability 5%."""

_MIN_CHANCE = 0.02
"""p-value below which the found part of the posterior does not explain the observation: at most one
in fifty of models that are right.
"""

_NUM_NOISES = 8000
"""Draws of noise behind that p-value: with 50 columns one of 2% is then known to .6%."""

SMALLEST_MODE = "smallest mode sure to be seen"
"""Name in `report.numbers` of the posterior mass from which a mode is seen with probability .95."""


def smallest_mode(num_prior: float, log_bound: float, log_evidence: float) -> float:
    r"""The posterior mass from which a mode, of any shape, was seen with probability .95.

        P(a prior draw falls into the mode) >= m Z / sup eta

    since the mode holds m Z = int_M pi E[eta] <= pi(M) sup eta. Three such draws are expected, and
    none is seen with probability .05, where m = 3 sup eta / (num_prior Z).

    Args:
        num_prior: Draws from the prior, or the share of draws that a proposal takes from it.
        log_bound: log sup eta over all statistics, which `mechanism.log_prob_bound` gives.
        log_evidence: log Z.

    Returns:
        A mass in (0, 1]; 1 says that nothing is known.
    """
    log_mass = np.log(_FEW_EXPECTED) + log_bound - np.log(max(num_prior, 1e-300)) - log_evidence
    return float(min(1.0, np.exp(min(log_mass, 0.0))))


def log_bound(run: InferenceRun) -> float:
    """log sup eta at the observation; infinite where no bound is known."""
    mechanism = run.model.mechanism
    if Capability.BOUND not in mechanism.capabilities:
        return math.inf
    return float(mechanism.log_prob_bound(run.observed))


def chance_of_noise(
    key: Array, run: InferenceRun, s: Float[np.ndarray, "n k"], weights: Float[np.ndarray, " n"]
) -> float:
    """How often the mechanism alone would carry the statistics found as far as the observation.

    For s drawn by the weights and noise drawn afresh: the share of log eta(s_dp' | s) at most as
    large as log eta(observed | s), or, with Bonferroni's factor, the two-sided p-value of the worst
    column. It is tiny where what was found explains the observation badly, so that a better
    explanation may have been missed. A difference spread over many columns hides from it.

    Returns:
        A p-value; NaN where the mechanism cannot be sampled.
    """
    mechanism = run.model.mechanism
    if Capability.SAMPLE not in mechanism.capabilities:
        return math.nan
    row_key, noise_key = split(key)
    s = s[systematic_rows(weights, _NUM_NOISES, generator(row_key).random())]
    simulated = mechanism.sample(noise_key, s)
    whole = np.mean(mechanism.log_prob(simulated, s) <= run.log_eta(s) + 1e-9)
    rows = filled_below(np.concatenate([run.observed[None], simulated]))
    below = np.mean(rows[1:] <= rows[0], axis=0)
    above = np.mean(rows[1:] >= rows[0], axis=0)
    worst = np.minimum(below, above).min() * 2.0 * simulated.shape[1]
    return float(min(whole, worst))


def contradicted(pool: Pool, proposal: Proposal, num: int) -> float:
    """The share of the posterior, by all simulations so far, at places where one of them would
    outweigh a fiftieth of `num` draws from the proposal.
    """
    if not pool.effective_size:
        return 0.0
    weights = pool.weights
    rows = np.flatnonzero(weights > 0.0)
    log_weights = pool.log_prior[rows] + pool.log_eta[rows] - pool.log_density(proposal, rows)
    limit = np.log(_DOMINATING * num) + pool.log_evidence
    return float(weights[rows][log_weights > limit].sum())


def elsewhere(
    pool: Pool,
    proposal: Proposal,
    z: Float[np.ndarray, "n p"],
    weights: Float[np.ndarray, " n"],
) -> float:
    """The share of the posterior, by all simulations of a run, where draws that were made in
    another way hardly are: a law fitted to these is less than 1/300 of the proposal there.

    Args:
        pool: All simulations.
        proposal: Fitted to the pool.
        z: The draws, shape (n, p).
        weights: Their normalised weights, shape (n,).

    Returns:
        A share; 0 where the pool is worth too little to contradict anything.
    """
    if pool.effective_size < MIN_DRAWS:
        return 0.0
    log_weights = np.log(np.maximum(weights, 1e-300))
    law = fitted_mixture(z, log_weights, proposal.log_prob(z))
    of_pool = pool.weights
    rows = np.flatnonzero(of_pool > 0.0)
    sparse = law.log_prob(pool.z[rows]) < pool.log_density(proposal, rows) - LOG_SLACK
    return float(of_pool[rows][sparse].sum())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Soundness:
    """What separate draws from the same proposal show.

    Attributes:
        num: How many of them there are.
        num_final: How many draws are likely to be reported.
        effective_size: What they are worth.
        reliable_size: (sum w^2)^2 / sum w^4, how many of them determine an error; not more than all
            simulations say.
        pareto_k: The tail of their weights.
        log_evidence: log Z by them.
        tail_size: What they are worth in the worst tail of 2.5% of a parameter, by all simulations.
        found_by_few: The share of the posterior that few independent searches found; 0 where none
            were made.
        visits: Effective draws of the prior that came upon this share.
        contradicted: The share of the posterior, by all simulations, that the proposal neglects.
        chance: The p-value of the noise that the draws need to explain the observation; NaN where
            it is not known.
        smallest_mode: The mass from which a mode was seen with probability .95.
    """

    num: int
    num_final: int
    effective_size: float
    reliable_size: float
    pareto_k: float
    log_evidence: float
    tail_size: float = math.inf
    found_by_few: float = 0.0
    visits: float = math.inf
    contradicted: float = 0.0
    chance: float = 1.0
    smallest_mode: float = 1.0

    def size_of(self, num: int) -> float:
        """What `num` draws from the same proposal are worth on average."""
        return self.effective_size * num / max(self.num, 1)

    def findings(self, num: int) -> tuple[Finding, ...]:
        """Why `num` draws from this proposal are not called exact; empty if they are."""
        size, reliable = self.size_of(num), self.reliable_size * num / max(self.num, 1)
        found = []
        if not (self.steady and reliable >= MIN_RELIABLE and size >= MIN_DRAWS):
            numbers = {"effective_size": size, "pareto_k": self.pareto_k}
            found.append(Finding(Kind.WEIGHTS_POOR, numbers))
        tail_size = self.tail_size * num / max(self.num, 1)
        if not found and tail_size < min(MIN_TAIL, _MIN_TAIL_SHARE * size):
            found.append(Finding(Kind.TAILS_UNSTEADY, {"tail_size": tail_size}))
        if self.neglectful:
            found.append(Finding(Kind.CONTRADICTED, {"share": self.contradicted}))
        return (*found, *self.about_modes)

    @property
    def about_modes(self) -> tuple[Finding, ...]:
        """What suggests that a mode was missed."""
        found = []
        if self.lucky and self.smallest_mode > NOTICED:
            found.append(Finding(Kind.FOUND_BY_FEW, {"share": self.found_by_few}))
        if self.chance < _MIN_CHANCE and self.smallest_mode > NOTICED:
            found.append(Finding(Kind.UNEXPLAINED, {"p": self.chance}))
        return tuple(found)

    @property
    def remarks(self) -> tuple[Finding, ...]:
        """What a reader must know although the draws are called exact."""
        blind = math.isnan(self.chance) and self.smallest_mode > NOTICED
        return (Finding(Kind.HIDDEN_MODES, {"share": self.smallest_mode}),) if blind else ()

    @property
    def steady(self) -> bool:
        """Whether the weights have no heavy tail: because they cannot, or as draws show."""
        bounded = self.smallest_mode <= _FEW_EXPECTED * _MAX_SHARE
        calm = self.num <= _CALM * self.reliable_size
        return bounded or calm or self.pareto_k <= min(_MAX_SHAPE, max_pareto_k(self.num))

    @property
    def lucky(self) -> bool:
        """Whether a part of the posterior was found by luck, so that another may be missed."""
        return self.found_by_few > MAX_FOUND_BY_FEW and self.visits < MIN_VISITS

    @property
    def thorough(self) -> bool:
        """Whether nothing suggests that a mode was missed."""
        return not self.about_modes

    @property
    def neglectful(self) -> bool:
        """Whether the proposal neglects what other simulations found."""
        return self.contradicted > MAX_CONTRADICTED

    @property
    def poor(self) -> bool:
        """Whether hardly any draw counts."""
        return self.effective_size < _MIN_SHARE * self.num

    @property
    def weak(self) -> bool:
        """Whether the proposal itself is to be improved."""
        few = self.reliable_size * self.num_final < MIN_RELIABLE * self.num
        return self.neglectful or self.poor or few or not self.steady


def weights_of(log_weights: Float[np.ndarray, " n"]) -> dict[str, float]:
    """Effective size, reliable size, Pareto k and log evidence of independent draws."""
    size = effective_size_of_logs(log_weights)
    if not size:
        nothing = {"effective_size": 0.0, "reliable_size": 0.0, "pareto_k": math.inf}
        return {**nothing, "log_evidence": -math.inf}
    fourth = np.exp(2.0 * logsumexp(2.0 * log_weights) - logsumexp(4.0 * log_weights))
    return {
        "effective_size": size,
        "reliable_size": float(fourth),
        "pareto_k": pareto_k(log_weights),
        "log_evidence": float(logsumexp(log_weights) - np.log(len(log_weights))),
    }
