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

_MOST = 2**14
"""Rows from which programs take each number as it is: rows that nobody asked for, at some
microseconds each, then take as long as compiling, some hundredths of a second.
"""


def with_few_sizes(
    call: Callable[..., Shaped[Array, "n ..."]], *rows: Shaped[Array, "*batch k"]
) -> Shaped[Array, "*batch *rest"]:
    """Call a compiled function of rows, each of which counts by itself, with 16, 32, 64, ... rows.

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
    size = max(_FEWEST, 2 ** math.ceil(math.log2(max(num, 1))))
    if is_traced(*rows) or not batches <= {batch, ()} or not 0 < num <= _MOST or batch == (size,):
        return call(*rows)
    places = np.minimum(np.arange(size), num - 1)
    spread = [
        np.asarray(part).reshape(num, -1)[places] if part.shape[:-1] == batch else part
        for part in rows
    ]
    found = call(*spread)
    found = found if is_traced(found) else np.asarray(found)
    return found[:num].reshape((*batch, *found.shape[1:]))
