"""NumPy generators from JAX keys."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from noisewise._core.arrays import as_key


def generator(key: Any, index: int = 0) -> np.random.Generator:
    """The NumPy generator of stream `index` under a JAX key.

    Args:
        key: A JAX PRNG key, typed or raw.
        index: The number of the stream; different streams are independent.

    Returns:
        A PCG64 generator.
    """
    key = as_key(key)
    data = (
        jax.random.key_data(key) if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    )
    words = [int(word) for word in np.asarray(data).ravel()]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words, spawn_key=(index,))))
