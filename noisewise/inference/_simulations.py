"""Simulations kept for training: parameters, confidential statistics, and many noisy versions of each."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._arrays import Array
from noisewise.errors import SimulationError
from noisewise.inference.work import OutOfBudget, Work
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.point_sets import AbstractPointSet
from noisewise.private_model import PrivateModel
from noisewise.samplers._seeds import generator

_ROWS = 256
_FEWEST = 20
_MOST_FAILED = 0.5


def noisy_statistics(key: Array, model: PrivateModel, s: np.ndarray, num: int, points: AbstractPointSet) -> np.ndarray:
    """s_dp (N, num, k') for s (N, k): one randomised net of `num` points per row, or plain draws where there is no transport map."""
    mechanism = model.mechanism
    parts = []
    for start in range(0, len(s), _ROWS):
        block = s[start : start + _ROWS]
        full = np.concatenate([block, np.repeat(block[:1], _ROWS - len(block), axis=0)])
        block_key = jax.random.fold_in(key, start)
        if Capability.TRANSPORT in mechanism.capabilities:
            u = points.uniforms(block_key, _ROWS, num, mechanism.num_uniforms(s.shape[1]))
            noisy = mechanism.transport(u, full[:, None])
        else:
            noisy = mechanism.sample(block_key, np.repeat(full[:, None], num, axis=1))
        parts.append(np.asarray(noisy)[: len(block)])
    return np.concatenate(parts)


def one_net(key: Array, bank: Array, rows: Array, num: int) -> Array:
    """For each row one of the nets of `num` points that its bank (N, B, ...) consists of, at random: (len(rows), num, ...)."""
    first = num * jax.random.randint(key, (len(rows), 1), 0, bank.shape[1] // num)
    return bank[rows[:, None], first + jnp.arange(num)]


def padded(values: np.ndarray, capacity: int) -> np.ndarray:
    """Values (N, ...) with zeros behind, `capacity` rows in all."""
    return np.pad(values, ((0, capacity - len(values)),) + ((0, 0),) * (values.ndim - 1))


@dataclasses.dataclass
class Simulations:
    """Simulated pairs of all rounds so far, without those that failed. A pair is for validation, or not, from the moment it is made."""

    z: np.ndarray
    s: np.ndarray
    validation: np.ndarray
    round: np.ndarray

    @staticmethod
    def none(model: PrivateModel) -> Simulations:
        """The start."""
        return Simulations(
            np.empty((0, model.prior.unconstrained_dim)),
            np.empty((0, model.statistic_width)),
            np.empty(0, dtype=bool),
            np.empty(0, dtype=int),
        )

    @property
    def num(self) -> int:
        """How many there are."""
        return len(self.z)

    def add(self, key: Array, work: Work, z: np.ndarray, *, share: float, number: int) -> np.ndarray:
        """Simulate at z (n, p), or at as many rows as the budgets allow: the new s (m, k), failed rows left out.

        A share of them, drawn by chance, is for validation. Raises `SimulationError` where more than half of all simulations fail.
        """
        simulate_key, role_key = jax.random.split(key)
        s = work.statistics(simulate_key, work.model.prior.constrain(z))
        if len(s) < len(z):
            work.stop_if_spent()
        good = np.isfinite(s).all(axis=1)
        if np.mean(good) < 1.0 - _MOST_FAILED:
            where = work.model.prior.constrain(z[: len(s)][~good][:1])[0]
            at = ", ".join(f"{name} = {value:.4g}" for name, value in zip(work.model.names, where, strict=True))
            raise SimulationError(
                f"{int(np.sum(~good)):,} of {len(s):,} simulations failed (NaN or infinite statistics), for instance at {at}: "
                "mend the simulator there, or give a prior that stays away."
            )
        z, s = z[: len(s)][good], s[good]
        roles = np.zeros(len(s), dtype=bool)
        chosen = generator(role_key).permutation(len(s))[: max(1, round(share * len(s)))]
        roles[chosen] = True
        self.z, self.s = np.concatenate([self.z, z]), np.concatenate([self.s, s])
        self.validation = np.concatenate([self.validation, roles])
        self.round = np.concatenate([self.round, np.full(len(s), number)])
        if self.num < _FEWEST:
            work.stop_if_spent()
            if work.stopped != "finished":
                raise OutOfBudget(work.stopped)
            raise SimulationError(
                f"A network needs at least {_FEWEST} simulations to learn from, got {self.num}: raise num_simulations or the budget."
            )
        return s
