"""Simulations kept for training: parameters, confidential statistics, and many noisy versions of
each.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.seeds import generator
from noisewise.errors import SimulationError
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.point_sets import AbstractPointSet
from noisewise.model.private_model import PrivateModel

_ROWS = 256
_FEWEST = 20
_MOST_FAILED = 0.5


def noisy_statistics(
    key: Array, model: PrivateModel, s: np.ndarray, num: int, points: AbstractPointSet
) -> np.ndarray:
    """s_dp (N, num, k') for s (N, k): one randomised net of `num` points per row, or plain draws
    where there is no transport map.
    """
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
    """For each row one of the nets of `num` points that its bank (N, B, ...) consists of, at
    random: (len(rows), num, ...).
    """
    first = num * jax.random.randint(key, (len(rows), 1), 0, bank.shape[1] // num)
    return bank[rows[:, None], first + jnp.arange(num)]


class Rows:
    """Rows of an array that is made once, for `capacity` of them: new ones are written behind the
    old, none is ever copied.

    All of its memory is taken when it is made, so that a run for which there is not enough fails in
    its first round, not in its last.
    """

    def __init__(self, capacity: int, *shape: int, dtype: Any = float) -> None:
        self.whole, self.num = np.full((capacity, *shape), 0, dtype), 0
        """All rows (capacity, ...), zeros where there are none yet, and how many there are."""

    @property
    def values(self) -> np.ndarray:
        """The rows so far (N, ...)."""
        return self.whole[: self.num]

    def add(self, rows: np.ndarray) -> None:
        """Write rows (n, ...) behind the others."""
        if self.num + len(rows) > len(self.whole) or rows.shape[1:] != self.whole.shape[1:]:
            raise ValueError(
                f"no room for {rows.shape} behind {self.num} rows of {self.whole.shape}"
            )
        self.whole[self.num : self.num + len(rows)] = rows
        self.num += len(rows)


class Simulations:
    """Simulated pairs of all rounds so far, without those that failed. A pair is for validation, or
    not, from the moment it is made.
    """

    def __init__(self, model: PrivateModel, capacity: int) -> None:
        self._z, self._s = (
            Rows(capacity, model.prior.unconstrained_dim),
            Rows(capacity, model.statistic_width),
        )
        self._validation, self._round = Rows(capacity, dtype=bool), Rows(capacity, dtype=np.int32)

    @property
    def num(self) -> int:
        """How many there are."""
        return self._z.num

    @property
    def z(self) -> np.ndarray:
        """Parameters (N, p), unconstrained."""
        return self._z.values

    @property
    def s(self) -> np.ndarray:
        """Confidential statistics (N, k)."""
        return self._s.values

    @property
    def validation(self) -> np.ndarray:
        """Which are for validation (N,)."""
        return self._validation.values

    @property
    def round(self) -> np.ndarray:
        """In which round each was made (N,)."""
        return self._round.values

    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        """z (capacity, p) and s (capacity, k), zeros where there are none yet."""
        return self._z.whole, self._s.whole

    @property
    def nbytes(self) -> int:
        """The memory they take."""
        return sum(rows.whole.nbytes for rows in (self._z, self._s, self._validation, self._round))

    def add(
        self, key: Array, run: InferenceRun, z: np.ndarray, *, share: float, number: int
    ) -> np.ndarray:
        """Simulate at z (n, p), or at as many rows as the budgets allow: the new s (m, k), failed
        rows left out.

        A share of them, drawn by chance, is for validation. Raises `SimulationError` where more
        than half of all simulations fail.
        """
        simulate_key, role_key = jax.random.split(key)
        s = run.statistics(simulate_key, run.model.prior.constrain(z))
        if len(s) < len(z):
            run.stop_if_spent()
        good = np.isfinite(s).all(axis=1)
        if np.mean(good) < 1.0 - _MOST_FAILED:
            where = run.model.prior.constrain(z[: len(s)][~good][:1])[0]
            at = ", ".join(
                f"{name} = {value:.4g}" for name, value in zip(run.model.names, where, strict=True)
            )
            raise SimulationError(
                f"{int(np.sum(~good)):,} of {len(s):,} simulations failed (NaN or infinite"
                f" statistics), for instance at {at}: fix the simulator there, or give a prior that"
                " stays away."
            )
        z, s = z[: len(s)][good], s[good]
        roles = np.zeros(len(s), dtype=bool)
        chosen = generator(role_key).permutation(len(s))[: max(1, round(share * len(s)))]
        roles[chosen] = True
        for rows, new in (
            (self._z, z),
            (self._s, s),
            (self._validation, roles),
            (self._round, np.full(len(s), number)),
        ):
            rows.add(new)
        if self.num < _FEWEST:
            run.stop_if_spent()
            if not run.stop.finished:
                raise OutOfBudget(run.stop)
            raise SimulationError(
                f"A network needs at least {_FEWEST} simulations to learn from, got {self.num}:"
                " raise num_simulations or the budget."
            )
        return s
