"""One compiled program for many numbers of rows: a new number would take longer to compile than to
compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Shaped

from noisewise._core.arrays import Array, is_traced

_FEWEST = 16
"""Rows: up to as many cost nothing beside the call."""
_FACTOR = 4
"""From one size to the next: a program takes a tenth of a second to compile, as long as it takes to
compute thousands of rows that nobody asked for.
"""
_MOST = 4096
"""Rows of a call, at most: so many take longer than the call itself."""


def with_few_sizes(
    call: Callable[..., Shaped[Array, "n ..."]], *rows: Shaped[Array, "*batch k"]
) -> Shaped[Array, "*batch *rest"]:
    """Call a compiled function of rows, each of which counts by itself, with 16, 64, 256, 1024 or
    4096 rows, as often as needed.

    The last row is repeated, and what it gives left out. Under a transformation, and with batches
    that broadcast against each other, the function is called as it is.

    Args:
        call: A function of arrays (..., k) of one batch shape, or of single vectors beside it.
        rows: The arrays.

    Returns:
        What `call(*rows)` returns.

    >>> import jax
    >>> double = jax.jit(lambda x: 2.0 * x)
    >>> [with_few_sizes(double, np.ones((n, 1))).shape for n in (3, 5, 7)], double._cache_size()
    ([(3, 1), (5, 1), (7, 1)], 1)
    """
    batches = {part.shape[:-1] for part in rows}
    batch = max(batches, key=len)
    num = math.prod(batch)
    size = _size(num)
    if is_traced(*rows) or not batches <= {batch, ()} or not num or batch == (size,):
        return call(*rows)
    shared = [part.shape[:-1] != batch for part in rows]
    flat = [
        part if alone else np.asarray(part).reshape(num, -1)
        for part, alone in zip(rows, shared, strict=True)
    ]
    parts = []
    for start in range(0, num, size):
        places = np.minimum(np.arange(start, start + size), num - 1)
        block = [part if alone else part[places] for part, alone in zip(flat, shared, strict=True)]
        found = call(*block)
        if is_traced(found):  # what `call` closes over is
            return call(*rows)
        parts.append(np.asarray(found))
    found = np.concatenate(parts)[:num]
    return found.reshape((*batch, *found.shape[1:]))


def _size(num: int) -> int:
    """The number of rows of the program that serves so many."""
    size = _FEWEST
    while size < min(num, _MOST):
        size *= _FACTOR
    return size
