"""Posteriors with a known density, right or wrong by design, that play the learnt ones."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from noisewise._core.keys import generator
from noisewise.posteriors import AbstractPosterior, Report


class Planted(AbstractPosterior):
    """`draw(rng, num)` gives theta (num, d), `log_density(theta)` its normalised log density
    (num,).
    """

    def __init__(self, names, draw, log_density):
        self._draw, self._log_density = draw, log_density
        super().__init__(draw(np.random.default_rng(0), 2000), names, Report("planted"))

    @property
    def weights(self):
        return np.full(len(self.theta), 1.0 / len(self.theta))

    @property
    def effective_size(self):
        return float(len(self.theta))

    def sample(self, key, num):
        return self._draw(generator(key), num)

    def log_prob(self, theta):
        return self._log_density(theta)


def normal(names, mean, covariance):
    """A multivariate normal posterior."""
    law = multivariate_normal(mean, covariance)
    return Planted(
        names,
        lambda rng, num: law.rvs(num, rng).reshape(num, -1),
        lambda theta: law.logpdf(theta).reshape(len(theta)),
    )


def normal_mixture(names, parts):
    """An equal mixture of normals, one (mean, covariance) for each part."""
    laws = [multivariate_normal(*part) for part in parts]

    def draw(rng, num):
        each = np.stack([law.rvs(num, rng).reshape(num, -1) for law in laws])
        return each[rng.integers(len(laws), size=num), np.arange(num)]

    def log_density(theta):
        return logsumexp([law.logpdf(theta).reshape(len(theta)) for law in laws], axis=0) - np.log(
            len(laws)
        )

    return Planted(names, draw, log_density)


def normal_fit(names, draws, shift=0.0, stretch=1.0):
    """The normal law of exact draws (N, d), moved by `shift` standard deviations and stretched."""
    covariance = np.atleast_2d(np.cov(draws.T))
    return normal(
        names, draws.mean(axis=0) + shift * np.sqrt(np.diag(covariance)), stretch**2 * covariance
    )
