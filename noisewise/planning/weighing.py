r"""Posteriors of many releases from one set of simulations.

    theta_i ~ pi,   s_i ~ f(. | theta_i),   w_i ∝ eta(s_dp | s_i)

are weighted draws of p(theta | s_dp) for any s_dp and any mechanism: the simulations depend on
neither.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np
from jaxtyping import Bool, Float, Integer
from scipy.special import logsumexp
from scipy.stats import norm

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.model.private_model import PrivateModel
from noisewise.planning.completion import Lattice, complete

THIN = 20.0
"""Effective draws below which the weights say too little, and are completed."""
PLENTY = 100.0
"""Effective draws from which intervals are quantiles; with fewer, those of a normal law."""
_KEPT = 20
"""Draws kept of each posterior: with 100 releases 2000 for a plot."""


@dataclasses.dataclass(frozen=True)
class SimulatedSet:
    """Simulations of a model: parameters with their statistics."""

    model: PrivateModel
    theta: Float[np.ndarray, "n d"]
    s: Float[np.ndarray, "n k"]

    @functools.cached_property
    def quantities(self) -> Float[np.ndarray, "n q"]:
        """Parameters and derived quantities, side by side."""
        return quantities_of(self.model, self.theta)

    @functools.cached_property
    def order(self) -> Integer[np.ndarray, "n q"]:
        """The numbers of the rows in order of each quantity."""
        return np.argsort(self.quantities, axis=0)

    @functools.cached_property
    def z(self) -> Float[np.ndarray, "n p"]:
        """The parameters in unconstrained coordinates."""
        return self.model.prior.unconstrain(self.theta)

    @functools.cached_property
    def lattice(self) -> Lattice:
        """Where statistics may lie."""
        return Lattice.of(self.s)


@dataclasses.dataclass(frozen=True)
class Learnt:
    """What analysts learn at one budget: one row per release (J), one column per quantity (q)."""

    sd: Float[np.ndarray, "j q"]
    """Posterior standard deviations."""
    low: Float[np.ndarray, "j q"]
    """Lower ends of central intervals."""
    high: Float[np.ndarray, "j q"]
    """Upper ends of central intervals."""
    effective_size: Float[np.ndarray, " j"]
    """Effective draws, before completion."""
    power: Float[np.ndarray, " j"]
    """1, or, where the weights were too thin and a local normal law completed them, the power
    of eta at which it was fitted.
    """
    deviations: Float[np.ndarray, "n q"]
    """Draws of all posteriors, each less its mean."""

    @property
    def completed(self) -> Bool[np.ndarray, " j"]:
        """Whether a local normal law completed the weights."""
        return self.power < 1.0


def quantities_of(model: PrivateModel, theta: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n q"]:
    """Parameters and derived quantities side by side.

    Args:
        model: Says which quantities are derived.
        theta: Parameters, shape (n, d).

    Returns:
        The quantities, shape (n, q).
    """
    return np.concatenate(
        [theta, *(values[:, None] for values in model.derived_quantities(theta).values())], axis=1
    )


def learn(
    key: Array,
    simulated: SimulatedSet,
    mechanism: AbstractMechanism,
    released: Float[np.ndarray, "j kp"],
    level: float,
) -> Learnt:
    """The posterior of each release.

    Args:
        key: A JAX PRNG key.
        simulated: Simulations of the model.
        mechanism: The noise.
        released: Releases, shape (J, k').
        level: The probability of intervals.

    Returns:
        Widths and intervals of all posteriors.
    """
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
    """The posterior of one release: sd, ends of intervals, effective size, power, and draws."""
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
    """Mean and sd. The variance is divided by 1 - sum of w^2, since it is too small by that factor
    on average.

    """
    with np.errstate(invalid="ignore", over="ignore"):
        mean = weights @ values
        variance = weights @ (values - mean) ** 2 / (1.0 - min(np.sum(weights**2), 0.5))
    return mean, np.sqrt(variance)


def _quantiles(
    values: np.ndarray, order: np.ndarray, weights: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of central intervals of weighted values (n, q), each of shape (q,)."""
    ends = np.empty((2, values.shape[1]))
    for j, rows in enumerate(order.T):
        middles = np.cumsum(weights[rows]) - weights[rows] / 2.0
        ends[:, j] = np.interp([0.5 - level / 2.0, 0.5 + level / 2.0], middles, values[rows, j])
    return ends[0], ends[1]
