"""The randomness of N simulations: a key for each, and a number to fold into it."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Hashable

import jax
import numpy as np

from noisewise._core.arrays import Array, is_key, stage_key
from noisewise._core.row_keys import as_keys, fold_in_rows, key_words


@dataclasses.dataclass(frozen=True)
class RowKeys:
    """The randomness of N simulations: simulation i draws from `fold_in(key i, indices[i])`.

    Attributes:
        words: The keys as numbers, shape (N, w), uint32.
        indices: Numbers to fold in, shape (N,): 0, ..., N-1 under one key for all, else 0, so that
            a simulation depends on its own key alone.
        implementation: Kind of typed keys, such as threefry2x32; None for raw ones.
        shared: Whether one key serves all.
    """

    words: np.ndarray
    indices: np.ndarray
    implementation: Hashable | None
    shared: bool

    @property
    def first(self) -> Array:
        """The first key, as what simulations get their keys from."""
        return as_jax_keys(self.words[0], self.implementation)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: slice) -> RowKeys:
        return dataclasses.replace(self, words=self.words[rows], indices=self.indices[rows])


def as_jax_keys(words: Array, implementation: Hashable | None) -> Array:
    """Keys of the given kind from their words (..., w); raw keys are their words."""
    if implementation is None:
        return words
    return jax.random.wrap_key_data(words, impl=implementation)


def row_keys(key: Array, num: int, stage: str) -> RowKeys:
    """The keys from which `num` simulations draw in a stage.

    Args:
        key: One key for all simulations, or an array of `num` keys.
        num: Number of simulations.
        stage: Name of the stage; stages with different names never share draws.

    Returns:
        One key and one number to fold in for each simulation.
    """
    keys = as_keys(key, num)
    if is_key(keys):
        words, implementation = key_words(stage_key(keys, stage))
        return RowKeys(
            np.broadcast_to(words, (num, words.size)),
            np.arange(num, dtype=np.uint32),
            implementation,
            True,
        )
    folded = fold_in_rows(keys, np.full(num, zlib.crc32(stage.encode()), dtype=np.uint32))
    words, implementation = key_words(folded)
    return RowKeys(words, np.zeros(num, dtype=np.uint32), implementation, False)
