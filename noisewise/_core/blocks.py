"""Functions of rows, applied block by block, so that a new number of rows compiles nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Shaped

BLOCK = 1024
"""Rows of a block: a compiled program serves any number of rows, and filling up a block costs next
to nothing.
"""


def in_blocks(
    fn: Callable[[int, Shaped[np.ndarray, "block ..."]], Shaped[np.ndarray, "block ..."]],
    rows: Shaped[np.ndarray, "n ..."],
) -> Shaped[np.ndarray, "n ..."]:
    """fn(number, block) of successive blocks of rows, laid end to end.

    The last block is filled up with copies of its last row, whose results are dropped.

    >>> values = in_blocks(lambda number, block: block[:, 0] + number, np.zeros((1025, 1)))
    >>> values[[0, 1023, 1024]].tolist()
    [0.0, 0.0, 1.0]
    """
    filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % BLOCK, axis=0)])
    return np.concatenate(
        [fn(i, filled[i * BLOCK : (i + 1) * BLOCK]) for i in range(len(filled) // BLOCK)]
    )[: len(rows)]
