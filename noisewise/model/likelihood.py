"""The law of each released number given theta, where it is known."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import jit_fast_compile
from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.simulators import KnowsLikelihood, StatisticLaw

if TYPE_CHECKING:
    from noisewise.model.private_model import PrivateModel

_ROWS = 16
"""Rows of theta that are evaluated at once."""


def log_likelihood(
    model: PrivateModel, theta: Float[np.ndarray, "n d"], observed: Float[np.ndarray, " kp"]
) -> Float[np.ndarray, "n kp"] | None:
    """log p(y_j | theta) of each released number.

    Args:
        model: The model.
        theta: Parameters, shape (n, d).
        observed: What was released, shape (k',).

    Returns:
        Shape (n, k'); None where the simulator knows no such law.

    Raises:
        InvalidInputError: If a user's simulator returns another shape.
    """
    simulator = model.simulator
    if isinstance(simulator, StatisticLaw):
        return _of_law(simulator, model, theta, observed)
    if not isinstance(simulator, KnowsLikelihood) or model.mechanism.unknown:
        return None
    values = simulator.log_likelihood(theta, model.query, model.mechanism, observed)
    shape = (len(theta), model.private_width)
    if values is not None and np.shape(values) != shape:
        raise InvalidInputError(
            f"{type(simulator).__name__}.log_likelihood must return shape {shape}, one number per"
            f" row of theta and released number, got {np.shape(values)}."
        )
    return None if values is None else np.asarray(values, dtype=np.float64)


def _of_law(
    simulator: StatisticLaw, model: PrivateModel, theta: np.ndarray, observed: np.ndarray
) -> np.ndarray | None:
    from noisewise.laws import Privatized

    if simulator.sums is not None:
        return None

    def one(row: Array) -> Array:
        law = Privatized(simulator.law(row), model.mechanism_at(row))
        if law.event_shape:
            raise MissingCapabilityError("The law ties the numbers to each other.")
        return law.log_prob(observed.reshape(law.batch_shape)).reshape(-1)

    try:
        with jax.enable_x64(True):
            program = jit_fast_compile(functools.partial(jax.lax.map, one, batch_size=_ROWS))
            return np.asarray(program(jnp.asarray(theta)))
    except MissingCapabilityError:
        return None
