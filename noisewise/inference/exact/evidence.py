"""The log evidence of tempered particles, with an error from independent populations."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from noisewise._core.weights import normalised, systematic_rows

NUM_POPULATIONS = 16
"""Populations at most: their spread gives the error, and is itself known to a fifth."""

_MIN_CHAINS = 4
"""Chains of each population, at least, so that resampling has something to choose from."""

_MIN_POPULATIONS = 4
"""Populations without which no error is given: Student's t with fewer than 3 degrees of freedom has
no variance.
"""

_MIN_SHARE = 0.25
"""Share of the populations that must count (as an effective size), or no error is given: where a
few have all of the evidence, their spread says little about how much others would have.
"""


_MIN_ACCEPTANCE = 0.03
"""Share of moves accepted, below which no error is given. All populations then hold the same kind
of few, sticky states, and their spread hides what they miss: with normal statistics it was right at
.06 (2 parameters), and half the real error at .01 (4 parameters).
"""


class Evidence:
    r"""log p(s_dp) from R populations of particles that are resampled apart.

    Chain c belongs to population c modulo R. Given the powers and the proposals, which all share,

        Z_r = prod_t mean_{i in r} eta_i^(lambda_t - lambda_{t-1})

    are independent and unbiased estimates of the evidence. The log of their mean is reported, with
    the standard error

        sd(Z) / (mean(Z) sqrt(R)) * sqrt((R - 1) / (R - 3)),

    whose last factor makes up for the error of sd(Z): it is the sd of Student's t. The error is at
    least 1 / n, since n simulations may have missed what occurs once in n. It is infinite where it
    cannot be known: with fewer than 4 populations, where a few of them have most of the evidence,
    and where fewer than 3% of moves were accepted.

    Args:
        num_particles: Particles at the start, n.
        num_chains: Chains that carry them.

    Attributes:
        log_each: log Z_r so far, shape (R,).
        num_temperatures: How many powers there were so far.
        acceptance: The smallest share of moves accepted at a power so far.
    """

    def __init__(self, num_particles: int, num_chains: int) -> None:
        self._num_particles = num_particles
        size = int(np.clip(num_chains // _MIN_CHAINS, 1, NUM_POPULATIONS))
        self.log_each = self._log_before = np.zeros(size)
        self.num_temperatures = 0
        self.acceptance = 1.0

    def add(self, log_weights: Float[np.ndarray, " n"], num_chains: int) -> None:
        """Multiply by the mean weights of the next power; particle i belongs to chain i modulo
        their number.
        """
        self._log_weights = log_weights
        self._population = np.arange(len(log_weights)) % num_chains % len(self.log_each)
        self._log_before = self.log_each
        log_means = [logsumexp(part) - np.log(len(part)) for part in map(self._of, self._numbers)]
        self.log_each = self._log_before + np.array(log_means)
        self.num_temperatures += 1

    @property
    def _numbers(self) -> range:
        return range(len(self.log_each))

    def _of(self, population: int) -> np.ndarray:
        return self._log_weights[self._population == population]

    @property
    def weights(self) -> Float[np.ndarray, " n"]:
        """Normalised weights of all particles at the last power, those of each population in
        proportion to its estimate.
        """
        return normalised(self._log_weights + self._log_before[self._population])

    def ancestors(self, num: int, rng: np.random.Generator) -> Int[np.ndarray, " num"]:
        """Rows of the particles at which `num` chains of the next power start, by systematic
        resampling within each population.
        """
        population_of_chain = np.arange(num) % len(self.log_each)
        rows = np.empty(num, dtype=int)
        for population in self._numbers:
            members = np.flatnonzero(self._population == population)
            if not np.isfinite(self._log_weights[members]).any():  # its estimate stays at 0
                members = np.arange(len(self._log_weights))
            chains = np.flatnonzero(population_of_chain == population)
            weights = normalised(self._log_weights[members])
            rows[chains] = members[systematic_rows(weights, len(chains), rng.random())]
        return rows

    @property
    def log_evidence(self) -> float:
        """The log of the mean of the estimates."""
        return float(logsumexp(self.log_each) - np.log(len(self.log_each)))

    @property
    def standard_error(self) -> float:
        """The standard error of the log evidence; infinite where it cannot be known."""
        num = len(self.log_each)
        estimates = np.exp(self.log_each - self.log_evidence)
        counting = num / np.mean(estimates**2)
        known = num >= _MIN_POPULATIONS and counting >= _MIN_SHARE * num
        if not known or self.acceptance < _MIN_ACCEPTANCE:
            return float("inf")
        spread = np.sqrt(estimates.var(ddof=1) / num * (num - 1) / (num - 3))
        return float(max(spread, 1.0 / self._num_particles))

    def numbers(self) -> dict[str, float]:
        """The log evidence and its standard error, for the report."""
        return {"log evidence": self.log_evidence, "log evidence se": self.standard_error}
