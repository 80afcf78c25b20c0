"""Chains on the posterior of a learnt likelihood, carried over from one likelihood to the next."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.chains import Trace, chain_run
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.segments import (
    NUM_CANDIDATES,
    THIN,
    AbstractSegmentedChains,
)
from noisewise.priors.prior import Prior
from noisewise.samplers.densities import log_densities
from noisewise.samplers.hamiltonian import Tuning, precompile, resample_start


class LogLikelihood(eqx.Module):
    """z -> log of q(s_dp | theta(z)), averaged over places in the cell of s_dp."""

    density: ConditionalDensity
    places: Float[Array, "j d"]
    log_weights: Float[Array, " j"]

    def __call__(self, z: Float[Array, " p"]) -> Float[Array, ""]:
        each = self.density.log_density(self.places, z[None]) + self.log_weights
        return jax.scipy.special.logsumexp(each) - jnp.log(float(len(self.places)))


class LogPosterior(eqx.Module):
    """z -> log q(s_dp | theta(z)) + log prior(z), Jacobian included: the target of the chains."""

    likelihood: LogLikelihood
    prior: Prior = eqx.field(static=True)

    def __call__(self, z: Float[Array, " p"]) -> Float[Array, ""]:
        return self.likelihood(z) + self.prior.log_prob_unconstrained(z)


class LikelihoodChains(AbstractSegmentedChains):
    """Hamiltonian chains whose target changes from round to round.

    Each time they start from candidates resampled by target / proposal, where the proposal is the
    mixture of the prior and of the chains' last target: modes that a better likelihood reveals are
    found wherever the prior reaches.

    Args:
        prior: The prior, in whose unconstrained coordinates chains move.
        num_chains: The number of chains.
        num_warmup: Iterations of each chain after each change of target.
        length: Draws of each chain in one segment.
        target_ess: Effective draws at which `finish` ends.
    """

    def __init__(
        self, prior: Prior, *, num_chains: int, num_warmup: int, length: int, target_ess: int
    ) -> None:
        self.prior, self.num_chains, self.num_warmup = prior, num_chains, num_warmup
        self.length, self.target_ess = length, target_ess
        self.target: LogPosterior | None = None
        self._log_evidence = 0.0

    @property
    def draws(self) -> Float[np.ndarray, "n p"]:
        """The last segment of all chains."""
        return self.latest.draws.reshape(-1, self.latest.draws.shape[-1])

    def precompile(self, likelihood: LogLikelihood) -> None:
        """Compile what chains on a likelihood of this kind run."""
        target = LogPosterior(likelihood, self.prior)
        precompile(target, self.num_chains, self.prior.unconstrained_dim, self.length)

    def move(self, key: Array, likelihood: LogLikelihood, run: InferenceRun) -> None:
        """Go over to another likelihood: resample, warm up, and draw one segment."""
        candidate_key, start_key, run_key = jax.random.split(key, 3)
        target = LogPosterior(likelihood, self.prior)
        z, log_proposal = self._candidates(candidate_key)
        log_weights = log_densities(target, z) - log_proposal
        if np.isfinite(log_weights).any():
            self._log_evidence = float(logsumexp(log_weights) - np.log(len(z)))
        start = resample_start(start_key, target, z, log_proposal, self.num_chains)
        self.target, self.trace = target, Trace(self.target_ess)
        self._segment(run, run_key, start, num_warmup=self.num_warmup, tuning=None)

    def _segment(
        self,
        run: InferenceRun,
        key: Array,
        start: Float[np.ndarray, "c p"],
        *,
        num_warmup: int,
        tuning: Tuning | None,
    ) -> None:
        settings = {
            "num_warmup": num_warmup,
            "num_draws": self.length,
            "thin": THIN,
            "tuning": tuning,
        }
        self.latest = chain_run(run, key, self.target, start, **settings)
        self.trace.add(theta=self.latest.draws)

    def _candidates(self, key: Array) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, " n"]]:
        """Points from the prior and from the chains so far, and the log density of that mixture."""
        z = self.prior.unconstrain(self.prior.sample(key, NUM_CANDIDATES))
        if self.target is None:
            return z, self.prior.log_prob_unconstrained(z)
        z = np.concatenate([z, self.draws])
        share = NUM_CANDIDATES / len(z)
        from_prior = self.prior.log_prob_unconstrained(z) + np.log(share)
        from_chains = log_densities(self.target, z) - self._log_evidence + np.log1p(-share)
        return z, np.logaddexp(from_prior, from_chains)
