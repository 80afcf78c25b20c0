"""Simulations kept for training: parameters, confidential statistics, noisy versions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from noisewise._core.arrays import Array
from noisewise._core.keys import fold_in, generator, split
from noisewise.errors import InvalidInputError, SimulationError
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.point_sets import AbstractPointSet
from noisewise.model.private_model import PrivateModel

_ROWS = 256
"""Simulations made noisy at a time: one program serves every number, and memory stays small."""
_MIN_SIMULATIONS = 20
"""Simulations that a network needs at least: fewer leave one row, or none, to validate on."""
_MAX_FAILED = 0.5
"""Share of failed simulations above which the simulator is at fault, not an odd corner of the
prior.
"""


_MULTIPLIERS = (0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35)
"""Odd numbers that mix the bits of a word: the golden section, and those of MurmurHash3."""


def noisy_statistics(
    key: Array, model: PrivateModel, s: Float[np.ndarray, "n k"], num: int, points: AbstractPointSet
) -> Float[np.ndarray, "n num kp"]:
    """Noisy versions of statistics.

    Args:
        key: JAX PRNG key.
        model: The model, whose mechanism makes the noise.
        s: Confidential statistics, shape (n, k).
        num: Noisy versions of each row: one randomised set of Sobol points, or plain draws where
            the mechanism has no transport map.
        points: Makes the point sets.

    Returns:
        s_dp, shape (n, num, kp).
    """
    mechanism = model.mechanism
    parts = []
    for start in range(0, len(s), _ROWS):
        block = s[start : start + _ROWS]
        full = np.concatenate([block, np.repeat(block[:1], _ROWS - len(block), axis=0)])
        block_key = fold_in(key, start)
        if Capability.TRANSPORT in mechanism.capabilities:
            u = points.uniforms(block_key, _ROWS, num, mechanism.num_uniforms(s.shape[1]))
            noisy = mechanism.transport(u, full[:, None])
        else:
            noisy = mechanism.sample(block_key, np.repeat(full[:, None], num, axis=1))
        parts.append(np.asarray(noisy)[: len(block)])
    return np.concatenate(parts)


def one_point_set(key: Array, bank: Array, rows: Array, num: int) -> Array:
    """For each row one of the point sets that its bank consists of, at random.

    Args:
        key: JAX PRNG key.
        bank: Noisy versions of all simulations, shape (n, B, ...), B a multiple of `num`.
        rows: Row numbers, shape (b,).
        num: The number of points in a set.

    Returns:
        Noisy versions, shape (b, num, ...).
    """
    num_sets = bank.shape[1] // num
    if num_sets == 1:
        return bank[rows]
    first = num * (_mixed(key, rows) % num_sets).astype(jnp.int32)
    return bank[rows[:, None], first[:, None] + jnp.arange(num)]


def _mixed(key: Array, rows: Int[Array, " b"]) -> UInt32[Array, " b"]:
    """A number for each row that looks random: which version is taken needs no more, and JAX's
    generator takes a fifth of a second to compile.
    """
    words = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    mixed = rows.astype(jnp.uint32) * jnp.uint32(_MULTIPLIERS[0]) + words[0]
    for multiplier, word in zip(_MULTIPLIERS[1:], (words[1], words[0]), strict=True):
        mixed = (mixed ^ (mixed >> 16) ^ word) * jnp.uint32(multiplier)
    return mixed ^ (mixed >> 13)


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


class NoisyBank:
    """Noisy versions of each simulation, drawn once and kept for all rounds: training takes a
    random point set of them each time.

    Args:
        model: The model, whose mechanism makes the noise.
        capacity: The number of simulations there will be room for.
        size: Noisy versions of each simulation.
        points: Makes the point sets.
        encode: What is kept of s_dp (n, m, kp): its features, or s_dp as it is.
    """

    def __init__(
        self,
        model: PrivateModel,
        capacity: int,
        *,
        size: int,
        points: AbstractPointSet,
        encode: Callable[[np.ndarray], np.ndarray] = lambda s_dp: s_dp,
    ) -> None:
        self.model, self.capacity, self.size = model, capacity, size
        self.points, self.encode = points, encode
        self._rows: Rows | None = None

    def add(self, key: Array, s: Float[np.ndarray, "n k"]) -> None:
        """Draw `size` noisy versions of each new row of s, and keep them encoded."""
        new = self.encode(noisy_statistics(key, self.model, s, self.size, self.points))
        if self._rows is None:
            self._rows = Rows(self.capacity, *new.shape[1:])
        self._rows.add(new)

    @property
    def values(self) -> Float[np.ndarray, "n m w"]:
        """The noisy versions of all simulations so far."""
        return self._made.values

    @property
    def whole(self) -> Float[np.ndarray, "capacity m w"]:
        """The same in an array of one size for all rounds, zeros where there are none yet."""
        return self._made.whole

    @property
    def _made(self) -> Rows:
        if self._rows is None:
            raise ValueError("nothing was simulated yet")
        return self._rows


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
    def capacity(self) -> int:
        """The number of simulations there is room for."""
        return len(self._z.whole)

    @property
    def num(self) -> int:
        """The number of simulations so far."""
        return self._z.num

    @property
    def z(self) -> Float[np.ndarray, "n p"]:
        """Parameters, unconstrained."""
        return self._z.values

    @property
    def s(self) -> Float[np.ndarray, "n k"]:
        """Confidential statistics."""
        return self._s.values

    @property
    def validation(self) -> Bool[np.ndarray, " n"]:
        """Which of them are for validation."""
        return self._validation.values

    @property
    def round(self) -> Int[np.ndarray, " n"]:
        """The round in which each was made, from 0."""
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
        """Simulate and keep what did not fail.

        Args:
            key: JAX PRNG key.
            run: The inference, which counts simulations and keeps budgets.
            z: Unconstrained parameters, shape (n, p); the first rows are simulated that the budgets
                allow.
            share: Share of the new simulations, drawn by chance, that is for validation.
            number: The round, from 0.

        Returns:
            The new statistics s, shape (m, k), failed rows left out.

        Raises:
            SimulationError: If more than half of the simulations fail, or too few are left.
        """
        simulate_key, role_key = split(key)
        s = run.statistics(simulate_key, run.model.prior.constrain(z))
        if len(s) < len(z):
            run.stop_if_spent()
        good = np.isfinite(s).all(axis=1)
        if np.mean(good) < 1.0 - _MAX_FAILED:
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
        if self.num < _MIN_SIMULATIONS:
            run.stop_if_spent()
            if not run.stop.finished:
                raise OutOfBudget(run.stop)
            raise SimulationError(
                f"A network needs at least {_MIN_SIMULATIONS} simulations to learn from, got"
                f" {self.num}: raise num_simulations or the budget."
            )
        return s


def nothing_varies(num: int, names: Sequence[str]) -> InvalidInputError:
    """The error where simulated statistics are all the same."""
    return InvalidInputError(
        f"No statistic varies over {num:,} simulations: they say nothing about"
        f" {', '.join(names)}. Check the query."
    )
