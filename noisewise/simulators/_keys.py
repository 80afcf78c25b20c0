"""The randomness of N simulations: a key for each, and a number to fold into it."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import jax
import numpy as np

from noisewise._core.arrays import Array, as_keys, fold_in_rows, is_key, key_words, stage_key


@dataclasses.dataclass(frozen=True)
class RowKeys:
    """Simulation i draws from `fold_in(key i, indices[i])`.

    The keys are `words` (N, w) in uint32. `implementation` is that of typed keys, None for raw
    ones. Under one key for all (`shared`) the indices are 0, ..., N-1; with a key for each they are
    0, so that a simulation depends on its own key alone.
    """

    words: np.ndarray
    indices: np.ndarray
    implementation: Any
    shared: bool

    @property
    def first(self) -> Array:
        """The first key, as what simulations get their keys from."""
        words = self.words[0]
        return (
            words
            if self.implementation is None
            else jax.random.wrap_key_data(words, impl=self.implementation)
        )

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: slice) -> RowKeys:
        return dataclasses.replace(self, words=self.words[rows], indices=self.indices[rows])


def row_keys(key: Any, num: int, stage: str) -> RowKeys:
    """The keys from which `num` simulations draw in a stage, given one key for all of them or one
    for each.
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
