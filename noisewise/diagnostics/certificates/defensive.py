"""Proposals that keep a share of the prior, so that what a posterior misses still shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array
from noisewise._core.draws import constant_columns
from noisewise._core.keys import generator
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.inference.exact.weighted_draws import UnconstrainedPrior
from noisewise.posteriors import AbstractPosterior
from noisewise.posteriors.learned import LearnedPosterior
from noisewise.priors.prior import Prior
from noisewise.samplers.adaptive_importance import Proposal

OWN = "the posterior's own density"
FITTED = "a heavy-tailed law fitted to the posterior's draws"

_DRAWS_PER_COORDINATE = 10
"""Draws for each coordinate, the least that a covariance is fitted to."""
_FREEDOM = 5.0
"""Degrees of freedom of the fitted law: tails heavy enough for any posterior with four moments."""
_NOTHING = 1.0 - 1e-9
"""Prior part above which the posterior's own density counts as 0: rounding alone gives 1e-16."""


@dataclasses.dataclass(frozen=True)
class DefensiveProposal:
    """p(z) = (1 - a) q(z) + a pi(z) in unconstrained coordinates z, with exactly a share a of the
    draws from the prior, which come last.

    Attributes:
        prior: pi, in unconstrained coordinates.
        share: a, the share of draws from the prior.
        draw: (key, num) to z (num, d) from q, with rows that are not finite where theta is off the
            support of the prior.
        log_density: z (N, d) to log q (N,), normalised.
        description: What q is, in words.
    """

    prior: UnconstrainedPrior
    share: float
    draw: Callable[[Array, int], Float[np.ndarray, "num d"]]
    log_density: Callable[[Float[np.ndarray, "N d"]], Float[np.ndarray, " N"]]
    description: str

    def num_own(self, num: int) -> int:
        """How many of `num` draws come from q."""
        return num - max(1, round(self.share * num))

    def sample(self, key: Array, num: int) -> Float[np.ndarray, "num d"]:
        """Draws z (num, d)."""
        own_key, prior_key = jax.random.split(key)
        own = self.num_own(num)
        return np.concatenate([self.draw(own_key, own), self.prior.sample(prior_key, num - own)])

    def log_prob(self, z: Float[np.ndarray, "N d"]) -> Float[np.ndarray, " N"]:
        """The log density of z (N, d), NaN where z is not finite; q counts as 0 where its density
        is not a number.
        """
        finite = np.isfinite(z).all(axis=1)
        z = np.where(finite[:, None], z, 0.0)
        log_q = np.asarray(self.log_density(z), dtype=np.float64)
        log_q = np.where(np.isnan(log_q), -np.inf, log_q)
        log_p = np.logaddexp(
            np.log1p(-self.share) + log_q, np.log(self.share) + self.prior.log_prob(z)
        )
        return np.where(finite, log_p, np.nan)

    def prior_part(
        self, z: Float[np.ndarray, "N d"], log_prob: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, " N"]:
        """a pi(z) / p(z), the probability that a draw at z came from the prior."""
        with np.errstate(invalid="ignore"):
            return np.exp(np.log(self.share) + self.prior.log_prob(z) - log_prob)

    def unusable(
        self, z: Float[np.ndarray, "N d"], log_prob: Float[np.ndarray, " N"]
    ) -> Bool[np.ndarray, " N"]:
        """Which draws (N,) are off the support, or come from q where its own density is 0, infinite
        or not a number.
        """
        own = np.arange(len(z)) < self.num_own(len(z))
        contradicted = ~(self.prior_part(z, log_prob) < _NOTHING) | np.isposinf(log_prob)
        return ~np.isfinite(z).all(axis=1) | (own & contradicted)


@dataclasses.dataclass(frozen=True)
class ImprovedProposal:
    """r(z) = (1 - b) p(z) + b w(z): a share b of the draws is from a law w that was fitted to
    weighted draws from a defensive proposal p. Where weights vary in the tails, w is wider than the
    posterior.
    """

    defensive: DefensiveProposal
    law: Proposal
    share_of_law: float

    def sample(self, key: Array, num: int) -> Float[np.ndarray, "num d"]:
        """Draws z (num, d), those from p first."""
        own_key, law_key = jax.random.split(key)
        own = self._num_own(num)
        return np.concatenate(
            [self.defensive.sample(own_key, own), self.law.sample(law_key, num - own)]
        )

    def log_prob(self, z: Float[np.ndarray, "N d"]) -> Float[np.ndarray, " N"]:
        """The log density of z (N, d), NaN where z is not finite."""
        finite = np.isfinite(z).all(axis=1)
        of_law = self.law.log_prob(np.where(finite[:, None], z, 0.0))
        with np.errstate(invalid="ignore"):
            return np.logaddexp(
                np.log1p(-self.share_of_law) + self.defensive.log_prob(z),
                np.log(self.share_of_law) + of_law,
            )

    def unusable(
        self, z: Float[np.ndarray, "N d"], log_prob: Float[np.ndarray, " N"]
    ) -> Bool[np.ndarray, " N"]:
        """Which draws (N,), in the order of `sample`, are off the support or contradict p."""
        num = self._num_own(len(z))
        own = self.defensive.unusable(z[:num], self.defensive.log_prob(z[:num]))
        finite = np.isfinite(z[num:]).all(axis=1) & np.isfinite(log_prob[num:])
        return np.concatenate([own, ~finite])

    def _num_own(self, num: int) -> int:
        """How many of `num` draws are from p."""
        return num - round(self.share_of_law * num)


def proposal_from(posterior: AbstractPosterior, prior: Prior, share: float) -> DefensiveProposal:
    """The defensive proposal around a posterior: its own density where it has one, else a law
    fitted to its draws.

    Args:
        posterior: The approximation q.
        prior: The prior of its parameters.
        share: a, the share of draws from the prior.

    Raises:
        InvalidInputError: If the posterior is of other parameters, or no law can be fitted.
    """
    if posterior.names != prior.names:
        raise InvalidInputError(
            f"The posterior must be of {', '.join(prior.names)}, as the model is; got one of"
            f" {', '.join(posterior.names)}."
        )
    try:
        posterior.log_prob(posterior.theta[:1])
    except MissingCapabilityError:
        return _fitted(posterior, prior, share)

    if isinstance(posterior, LearnedPosterior):
        return DefensiveProposal(
            UnconstrainedPrior(prior),
            share,
            posterior.sample_unconstrained,
            posterior.log_prob_unconstrained,
            OWN,
        )

    def draw(key: Array, num: int) -> np.ndarray:
        return prior.unconstrain(posterior.sample(key, num))

    def log_density(z: np.ndarray) -> np.ndarray:
        theta = prior.constrain(z)
        with np.errstate(invalid="ignore"):
            return (
                posterior.log_prob(theta) + prior.log_prob_unconstrained(z) - prior.log_prob(theta)
            )

    return DefensiveProposal(UnconstrainedPrior(prior), share, draw, log_density, OWN)


def _fitted(posterior: AbstractPosterior, prior: Prior, share: float) -> DefensiveProposal:
    """The proposal around a multivariate t law with the mean and covariance of the draws.

    Raises:
        InvalidInputError: If there are too few draws, or if they do not vary in every direction.
    """
    from scipy.stats import multivariate_t

    from noisewise.samplers.adaptive_importance import fitted_proposal

    z, weights = prior.unconstrain(posterior.theta), posterior.weights
    usable = np.isfinite(z).all(axis=1) & (weights > 0.0)
    needed = _DRAWS_PER_COORDINATE * z.shape[1]
    if usable.sum() < needed:
        raise InvalidInputError(
            f"A posterior without a density needs at least {needed} draws inside the prior's"
            f" support, so that a law can be fitted to them; got {usable.sum()}."
        )
    flat = [
        name
        for name, constant in zip(
            posterior.names, constant_columns(posterior.theta[usable]), strict=True
        )
        if constant
    ]
    if flat:
        raise InvalidInputError(
            "A posterior without a density needs draws that vary, so that a law can be fitted to"
            f" them; those of {', '.join(flat)} do not."
        )
    fit = fitted_proposal(z[usable], weights[usable], UnconstrainedPrior(prior), share)
    unit = np.sqrt(np.diag(fit.scale))
    try:
        law = multivariate_t(shape=fit.scale / np.outer(unit, unit), df=_FREEDOM)
    except np.linalg.LinAlgError:
        raise InvalidInputError(
            "A posterior without a density needs draws that vary in every direction, so that a law"
            " can be fitted to them; these lie on a plane: use a method whose posterior has a"
            " density, or leave out what the others determine."
        ) from None

    def draw(key: Array, num: int) -> np.ndarray:
        steps = law.rvs(size=num, random_state=generator(key)).reshape(num, -1)
        return np.asarray(fit.mean + unit * steps)

    def log_density(z: np.ndarray) -> np.ndarray:
        return np.asarray(law.logpdf((z - fit.mean) / unit) - np.log(unit).sum())

    return DefensiveProposal(UnconstrainedPrior(prior), share, draw, log_density, FITTED)
