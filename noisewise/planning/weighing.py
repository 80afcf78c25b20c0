r"""Posteriors of many releases from one set of simulations.

    theta_i ~ pi,   s_i ~ f(. | theta_i),   w_i ∝ eta(s_dp | s_i)

are weighted draws of p(theta | s_dp) for any s_dp and any mechanism: the simulations know of
neither.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from noisewise._core.arrays import Array
from noisewise._core.seeds import generator
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.model.private_model import PrivateModel
from noisewise.planning.completion import Lattice, complete

THIN = 20.0
"""Below so many effective draws the weights say too little, and are completed."""
PLENTY = 100.0
"""From so many on intervals are quantiles; below, those of a normal law."""
_KEPT = 20


@dataclasses.dataclass(frozen=True)
class SimulatedSet:
    """Parameters (N, d) with their statistics (N, k)."""

    model: PrivateModel
    theta: np.ndarray
    s: np.ndarray

    @functools.cached_property
    def quantities(self) -> np.ndarray:
        """Parameters and derived quantities (N, q)."""
        return quantities_of(self.model, self.theta)

    @functools.cached_property
    def order(self) -> np.ndarray:
        """The rows (N, q) in order of each quantity."""
        return np.argsort(self.quantities, axis=0)

    @functools.cached_property
    def z(self) -> np.ndarray:
        """The parameters in unconstrained coordinates."""
        return self.model.prior.unconstrain(self.theta)

    @functools.cached_property
    def lattice(self) -> Lattice:
        """Where statistics may lie."""
        return Lattice.of(self.s)


@dataclasses.dataclass(frozen=True)
class Learnt:
    """What analysts learn at one budget: one row per release, one column per quantity."""

    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    effective_size: np.ndarray
    """(J,) Effective draws, before completion."""
    power: np.ndarray
    """(J,) 1, or, where the weights were too thin and a local normal law completed them, the power
    of eta at which it was fitted.
    """
    deviations: np.ndarray
    """(20 J, q) Draws of all posteriors, each less its mean."""

    @property
    def completed(self) -> np.ndarray:
        """(J,) Whether a local normal law completed the weights."""
        return self.power < 1.0


def quantities_of(model: PrivateModel, theta: np.ndarray) -> np.ndarray:
    """Parameters and derived quantities side by side."""
    return np.concatenate(
        [theta, *(values[:, None] for values in model.derived_quantities(theta).values())], axis=1
    )


def learn(
    key: Array,
    simulated: SimulatedSet,
    mechanism: AbstractMechanism,
    released: np.ndarray,
    level: float,
) -> Learnt:
    """The posteriors of releases (J, k')."""
    keys = jax.random.split(key, len(released))
    rows = [
        _one(each, simulated, mechanism, s_dp, level)
        for each, s_dp in zip(keys, released, strict=True)
    ]
    sd, low, high, size, power, deviations = (
        np.stack(column) for column in zip(*rows, strict=True)
    )
    return Learnt(sd, low, high, size, power, deviations.reshape(-1, deviations.shape[-1]))


def _one(
    key: Array,
    simulated: SimulatedSet,
    mechanism: AbstractMechanism,
    s_dp: np.ndarray,
    level: float,
) -> tuple[np.ndarray, ...]:
    log_eta = mechanism.log_prob(s_dp, simulated.s)
    found = np.isfinite(log_eta)
    weights = (
        np.exp(log_eta - logsumexp(log_eta))
        if found.any()
        else np.full(len(log_eta), 1.0 / len(log_eta))
    )
    size = float(1.0 / np.sum(weights**2)) if found.any() else 0.0
    values, order, power = simulated.quantities, simulated.order, 1.0
    if size < THIN:
        z, weights, power = complete(key, simulated, mechanism, s_dp, log_eta)
        values = quantities_of(simulated.model, simulated.model.prior.constrain(z))
        order = np.argsort(values, axis=0)
    mean, sd = _moments(values, weights)
    if power < 1.0 or size >= PLENTY:
        low, high = _quantiles(values, order, weights, level)
    else:
        half = norm.ppf(0.5 + level / 2.0) * sd
        low, high = mean - half, mean + half
    draws = values[generator(key).choice(len(values), _KEPT, p=weights)] - mean
    return sd, low, high, np.array(size), np.array(power), draws


def _moments(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd; the variance is divided by 1 - sum of w^2, as it is too small by that factor on
    average.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        mean = weights @ values
        variance = weights @ (values - mean) ** 2 / (1.0 - min(np.sum(weights**2), 0.5))
    return mean, np.sqrt(variance)


def _quantiles(
    values: np.ndarray, order: np.ndarray, weights: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    ends = np.empty((2, values.shape[1]))
    for j, rows in enumerate(order.T):
        middles = np.cumsum(weights[rows]) - weights[rows] / 2.0
        ends[:, j] = np.interp([0.5 - level / 2.0, 0.5 + level / 2.0], middles, values[rows, j])
    return ends[0], ends[1]
