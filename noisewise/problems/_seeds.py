"""Fixed seeds of the observations that ship with the package, and NumPy generators from JAX keys."""

from __future__ import annotations

import jax
import numpy as np

from noisewise._arrays import Array

OBSERVATION_SEED = 20_240
"""Observations that the paper does not print are made once, with keys of this seed and the next."""


def rng_from(key: Array) -> np.random.Generator:
    """A NumPy generator determined by a JAX key."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(np.asarray(jax.random.key_data(key)).tolist())))
