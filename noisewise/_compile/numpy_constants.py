"""NumPy arrays that functions close over, in both precisions.

JAX (0.10 to 0.12) keeps the constant that stands for a NumPy array under the array alone. So after
a program in float32 has used `people`, one in float64 gets the constant of float32, and cannot be
compiled; the other way round it gets bytes of the wrong size. Here users' laws run in float64
beside their own models in float32, on the same arrays: constants are made anew each time.
"""

from __future__ import annotations

import numpy as np
from jax._src import dtypes, literals


def make_constants_anew() -> None:
    """Let each program make its own constant of a NumPy array; nothing if JAX has no such place.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> people = np.array([2.5, 3.5])
    >>> make_constants_anew()
    >>> narrow = jax.jit(lambda x: people * jnp.exp(x))(jnp.zeros(2))
    >>> with jax.enable_x64(True):
    ...     wide = jax.jit(lambda x: people * jnp.exp(x))(jnp.zeros(2))
    >>> str(narrow.dtype), str(wide.dtype)
    ('float32', 'float64')
    """
    if hasattr(dtypes, "register_canonicalize_value_handler"):
        dtypes.register_canonicalize_value_handler(np.ndarray, _constant)


def _constant(array: np.ndarray) -> np.ndarray:
    dtype = dtypes.canonicalize_dtype(array.dtype)
    constant: np.ndarray = literals.TypedNdArray(np.asarray(array, dtype))
    return constant
