"""Problems with modes that are easily missed, with the mass of each and the evidence in closed form or
by quadrature.

All but the counts are deterministic; the spikes' likelihood is a + sum_j b_j exp(-|theta - c_j|^2 / (2 w_j^2)),
which a single statistic carries, theta ~ N(0, I).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.stats import ncx2

import noisewise as nw


@dataclasses.dataclass(frozen=True)
class ModalProblem:
    """A model with its observation.

    Attributes:
        inside: theta (n, d) to whether it lies in the hidden mode, for each hidden mode.
        masses: Posterior mass of these modes.
        log_evidence: log p(s_dp).
    """

    model: nw.PrivateModel
    observed: np.ndarray
    inside: tuple[Callable[[np.ndarray], np.ndarray], ...]
    masses: tuple[float, ...]
    log_evidence: float

    def errors(self, posterior: nw.posteriors.AbstractPosterior) -> np.ndarray:
        """Estimated less true mass of each hidden mode."""
        found = [posterior.weights @ inside(posterior.theta) for inside in self.inside]
        return np.array(found) - np.array(self.masses)


def _model(dim, statistic, mechanism, *, deterministic=True):
    simulate = (lambda _key, theta: statistic(theta)) if deterministic else statistic
    simulator = nw.simulators.JaxSimulator(simulate, deterministic=deterministic)
    prior = nw.Prior({f"t{i}": dist.Normal(0.0, 1.0) for i in range(dim)})
    return nw.PrivateModel(prior=prior, simulator=simulator, query=lambda x: x, mechanism=mechanism)


def _within(centre, radius):
    return lambda theta: np.sum((theta - np.asarray(centre)) ** 2, axis=1) < radius**2


def spikes(dim, centres, widths, shares, *, noise="laplace"):
    """A broad mode, the prior itself, and a narrow one at each centre, with these posterior shares.

    exp(-|s|) (Laplace(1)) or exp(-s^2 / 2) (Gaussian(1)) of the statistic s is the likelihood, at
    most 1.
    """
    centres, widths, shares = np.asarray(centres, float), np.asarray(widths), np.asarray(shares)
    square = widths**2
    mass = (square / (1 + square)) ** (dim / 2) * np.exp(
        -np.sum(centres**2, axis=1) / (2 * (1 + square))
    )
    heights = shares / mass  # up to a factor that the background shares
    background = 1.0 - shares.sum()
    top = background + heights.max()

    def likelihood(theta):
        far = jnp.sum((theta - centres) ** 2, axis=1) / (2 * square)
        return (background + jnp.sum(heights * jnp.exp(-far))) / top

    def statistic(theta):
        minus_log = jnp.maximum(-jnp.log(likelihood(theta)), 0.0)
        return jnp.atleast_1d(minus_log if noise == "laplace" else jnp.sqrt(2.0 * minus_log))

    mechanism = (
        nw.mechanisms.Laplace(scale=1.0)
        if noise == "laplace"
        else nw.mechanisms.Gaussian(scale=1.0)
    )
    # mass within 4.5 widths, where the spike's share of the prior's own mode is counted too
    inside, masses = [], []
    for j in range(len(centres)):
        radius = 5.0 * widths[j]
        inside.append(_within(centres[j], radius))
        own = ncx2.cdf(radius**2, dim, np.sum(centres[j] ** 2))  # of the prior
        spread = square[j] / (1 + square[j])
        centre = centres[j] / (1 + square[j])
        spike = ncx2.cdf(radius**2 / spread, dim, np.sum((centre - centres[j]) ** 2) / spread)
        masses.append(background * own + shares[j] * spike)
    density = 0.5 if noise == "laplace" else 1 / np.sqrt(2 * np.pi)
    return ModalProblem(
        _model(dim, statistic, mechanism),
        np.zeros(1),
        tuple(inside),
        tuple(masses),
        float(np.log(density / top)),
    )


def disc(prior_mass=1.1e-4, share=0.72, distance=1.0, dim=2, count=1):
    """The observation is explained inside small discs alone, and hardly anywhere else."""
    from scipy.optimize import brentq

    centres = [np.full(dim, distance / np.sqrt(dim)) * (-1) ** j for j in range(count)]
    radius = brentq(
        lambda r: ncx2.cdf(r**2, dim, distance**2) * count - prior_mass, 1e-6, 3.0, xtol=1e-14
    )
    # prior_mass * 1 : (1 - prior_mass) exp(-far) = share : 1 - share
    far = -np.log(prior_mass * (1 - share) / (share * (1 - prior_mass)))

    def statistic(theta):
        near = [jnp.sum((theta - centre) ** 2) < radius**2 for centre in centres]
        return jnp.atleast_1d(jnp.where(jnp.any(jnp.stack(near)), 0.0, far))

    evidence = 0.5 * (prior_mass + (1 - prior_mass) * np.exp(-far))
    return ModalProblem(
        _model(dim, statistic, nw.mechanisms.Laplace(scale=1.0)),
        np.zeros(1),
        tuple(_within(centre, radius) for centre in centres),
        (share / count,) * count,
        float(np.log(evidence)),
    )


def rare_counts(width=0.03, away=10, observed=0, centre=(1.0, 0.6)):
    """A count, released with discrete noise, that is 10 but in a small region, where it falls to 0:
    s = round(10 (1 - exp(-|theta - c|^2 / (2 w^2)))) + e, with e = -1, 0, 1 at chances 1/4, 1/2, 1/4.
    """
    centre = np.asarray(centre)

    def statistic(key, theta):
        dip = jnp.exp(-jnp.sum((theta - centre) ** 2) / (2 * width**2))
        error = jnp.sum(jax.random.bernoulli(key, 0.5, (2,))) - 1.0
        return jnp.atleast_1d(jnp.round(away * (1.0 - dip)) + error)

    decay, chances = np.exp(-1.0), {-1: 0.25, 0: 0.5, 1: 0.25}

    def likelihood(dip):
        mean = np.round(away * (1.0 - dip))
        parts = [chance * decay ** np.abs(observed - mean - e) for e, chance in chances.items()]
        return (1 - decay) / (1 + decay) * np.sum(parts, axis=0)

    # over rings: the prior's probability of a distance, and the likelihood there
    inner, outer = 4 * width, 12 * width
    distances = np.linspace(0.0, outer, 40_001)
    below = ncx2.cdf(distances**2, 2, np.sum(centre**2))
    middle = (distances[1:] + distances[:-1]) / 2
    rings = np.diff(below) * likelihood(np.exp(-(middle**2) / (2 * width**2)))
    evidence = rings.sum() + (1 - below[-1]) * likelihood(np.zeros(1))[0]
    return ModalProblem(
        _model(2, statistic, nw.mechanisms.DiscreteLaplace(scale=1.0), deterministic=False),
        np.array([float(observed)]),
        (_within(centre, inner),),
        (float(rings[middle < inner].sum() / evidence),),
        float(np.log(evidence)),
    )


CATALOGUE = {
    "narrow": lambda: spikes(3, [[1.0, 1.0, 1.0]], [0.05], [0.5]),
    "disc": lambda: disc(),
    "two dimensions": lambda: spikes(2, [[0.5, -1.2]], [0.02], [0.6], noise="gaussian"),
    "four dimensions": lambda: spikes(4, [[0.7, 0.7, 0.7, 0.7]], [0.15], [0.5]),
    "three modes": lambda: spikes(
        3, [[1.0, 1.0, 1.0], [-1.0, 0.5, -1.0]], [0.06, 0.08], [0.35, 0.35]
    ),
    "six dimensions": lambda: spikes(6, [[0.5] * 6], [0.2], [0.5]),
    "counts": lambda: rare_counts(),
}
