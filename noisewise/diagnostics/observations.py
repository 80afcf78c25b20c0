"""Simulated observations, and which of them are some: a failed simulation and a table whose cells
are all absent are both NaN.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array, as_key
from noisewise.model.private_model import PrivateModel


def simulated_observations(
    key: Array, model: PrivateModel, theta: Float[np.ndarray, "n d"], executor: Any = None
) -> tuple[Float[np.ndarray, "n kp"], Bool[np.ndarray, " n"]]:
    """Private statistics as `model.simulate` gives them, and which rows are observations.

    Args:
        key: JAX PRNG key.
        model: The model to simulate from.
        theta: Where to simulate, shape (n, d).
        executor: Where Python simulators run; None is this process.

    Returns:
        s_dp, shape (n, k'), and False for rows of failed simulations, shape (n,).

    >>> import noisewise as nw
    >>> model = nw.problems.gaussian_mean(1.0).model
    >>> simulated_observations(jax.random.key(0), model, np.zeros((2, 1)))[1].tolist()
    [True, True]
    """
    simulation, noise = jax.random.split(as_key(key))
    s = model.statistics(simulation, theta, executor=executor, faults=model.new_faults())
    s_dp = model.mechanism.sample(noise, s)
    outcome = np.isfinite(s_dp) | model.mechanism.support.may_be_absent(s_dp.shape[1])
    return s_dp, ~np.isnan(s).any(axis=1) & outcome.all(axis=1)
