r"""Posteriors where few simulations come near the release: a local normal law in place of more simulations.

    p(theta, s | s_dp) ∝ p_a(theta, s) eta(s_dp | s)^(1-a),     p_a(theta, s) ∝ pi(theta) f(s | theta) eta(s_dp | s)^a

The power a is the largest for which the simulations, weighted by eta^a, are worth 200 draws. p_a is narrow already, and a normal law is
fitted to it; the rest of eta, the mechanism's exact density, weighs draws from that law, which cost nothing.

Measured against exact posteriors: on the log-linear problem at epsilon 10, where 50,000 simulations are worth 1 to 3 draws of a release,
standard deviations came out 8% too large on average over 4 releases and 5 parameters, the worst by 25%.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from noisewise._arrays import Array
from noisewise.errors import InvalidInputError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.samplers._seeds import generator
from noisewise.samplers.adaptive_importance import adaptive_importance

if TYPE_CHECKING:
    from noisewise.planning.weighing import SimulatedSet

_WORTH = 200.0
_HALVINGS = 40
_NEGLIGIBLE = 1e-9
_STAGES, _DRAWS = 3, 2000


def complete(
    key: Array, simulated: SimulatedSet, mechanism: AbstractMechanism, s_dp: np.ndarray, log_eta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Unconstrained draws z (n, p) with weights (n,) that stand for the posterior given s_dp; log_eta (N,) is that of the simulations."""
    power = _power(log_eta)
    log_weights = np.where(np.isfinite(log_eta), power * log_eta, -np.inf) if power else np.zeros(len(log_eta))
    weights = np.exp(log_weights - logsumexp(log_weights))
    kept = weights > _NEGLIGIBLE * weights.max()
    dim = simulated.z.shape[1]
    pairs = np.concatenate([simulated.z[kept], simulated.s[kept]], axis=1)
    local = _Local.fit(pairs, weights[kept] / weights[kept].sum())

    def log_target(_: Array, x: np.ndarray) -> np.ndarray:
        s = simulated.lattice.nearest(local.places(x)[:, dim:])
        return local.log_prob(x) + (1.0 - power) * mechanism.log_prob(s_dp, s)

    counts = {"num_stages": _STAGES, "num_adapt": _DRAWS, "num_final": _DRAWS}
    try:
        drawn = adaptive_importance(key, log_target, local, **counts)
    except InvalidInputError:  # the release is impossible under the local law: all that is left is the law itself
        return local.places(local.sample(key, _DRAWS))[:, :dim], np.full(_DRAWS, 1.0 / _DRAWS)
    return local.places(drawn.theta)[:, :dim], drawn.weights


def _power(log_eta: np.ndarray) -> float:
    """The largest a <= 1 for which weights eta^a are worth 200 draws; 0 where no simulation can have led to the release."""
    found = log_eta[np.isfinite(log_eta)]
    if len(found) < _WORTH:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        worth = 2.0 * logsumexp(middle * found) - logsumexp(2.0 * middle * found)
        low, high = (middle, high) if worth >= np.log(_WORTH) else (low, middle)
    return low


@dataclasses.dataclass(frozen=True)
class _Local:
    """A normal law of places (n, m), in coordinates x in which it is standard normal; there are fewer where places lie on a plane."""

    mean: np.ndarray
    root: np.ndarray

    @staticmethod
    def fit(places: np.ndarray, weights: np.ndarray) -> _Local:
        mean = weights @ places
        scale = np.sqrt(weights @ (places - mean) ** 2)
        scale = np.where(scale > 0.0, scale, 1.0)
        centred = (places - mean) / scale
        values, vectors = np.linalg.eigh((weights[:, None] * centred).T @ centred)
        free = values > _NEGLIGIBLE * values.max()
        return _Local(mean, scale[:, None] * vectors[:, free] * np.sqrt(values[free]))

    def places(self, x: np.ndarray) -> np.ndarray:
        return self.mean + x @ self.root.T

    def sample(self, key: Array, num: int) -> np.ndarray:
        return generator(key).normal(size=(num, self.root.shape[1]))

    def log_prob(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(-0.5 * np.sum(x**2, axis=1) - 0.5 * x.shape[1] * np.log(2.0 * np.pi))


@dataclasses.dataclass(frozen=True)
class Lattice:
    """Where statistics may lie, as far as simulations show: on multiples of the smallest step seen, within the range seen."""

    base: np.ndarray
    step: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def of(s: np.ndarray) -> Lattice:
        steps = [np.diff(np.unique(column)) for column in s.T]
        return Lattice(
            s[0], np.array([step.min() if step.size else 1.0 for step in steps]), s.min(axis=0), s.max(axis=0)
        )

    def nearest(self, s: np.ndarray) -> np.ndarray:
        """The nearest place on the lattice; where the steps are tiny that changes nothing."""
        snapped = self.base + self.step * np.round((s - self.base) / self.step)
        return np.clip(snapped, self.low, self.high)
