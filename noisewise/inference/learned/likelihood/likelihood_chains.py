"""The posterior of a learnt likelihood, as a density that particles are drawn from."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.effects import blocks_of
from noisewise.inference.learned.common.sampling import Sampling
from noisewise.priors.prior import Prior


class LogLikelihood(eqx.Module):
    """z -> log of q(s_dp | theta(z)), averaged over places in the cell of s_dp."""

    density: ConditionalDensity
    places: Float[Array, "j d"]
    log_weights: Float[Array, " j"]

    def __call__(self, z: Float[Array, " p"]) -> Float[Array, ""]:
        each = self.density.log_density(self.places, z[None]) + self.log_weights
        return jax.scipy.special.logsumexp(each) - jnp.log(float(len(self.places)))


class LogPrior(eqx.Module):
    """z -> log prior(z), Jacobian included."""

    prior: Prior = eqx.field(static=True)

    def __call__(self, z: Float[Array, " p"]) -> Float[Array, ""]:
        return self.prior.log_prob_unconstrained(z)


class LogPosterior(eqx.Module):
    """z -> log q(s_dp | theta(z)) + log prior(z), Jacobian included."""

    likelihood: LogLikelihood
    prior: Prior = eqx.field(static=True)

    def __call__(self, z: Float[Array, " p"]) -> Float[Array, ""]:
        return self.likelihood(z) + self.prior.log_prob_unconstrained(z)


def posterior_sampling(
    prior: Prior, likelihood: LogLikelihood, settings: dict[str, Any]
) -> Sampling:
    """Particles from the prior to the posterior of one observation.

    Args:
        prior: The prior, in whose unconstrained coordinates particles move.
        likelihood: The learnt likelihood of the observation.
        settings: num_chains, num_warmup, length and target_ess.

    Returns:
        What `Populations` needs.
    """

    def draw(key: Array, num: int) -> Float[np.ndarray, "n p"]:
        return prior.unconstrain(prior.sample(key, num))

    densities = LogPosterior(likelihood, prior), LogPrior(prior)
    return Sampling(*densities, draw, blocks=blocks_of(prior), **settings)
