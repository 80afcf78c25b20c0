"""Quantities that are functions of theta: their checks, and their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.priors.prior import Prior

if TYPE_CHECKING:
    from noisewise.model.private_model import PrivateModel

Derived = Callable[[Any], Any]
"""A quantity of theta (..., d), of shape (...)."""


NUM_PRIOR_DRAWS = 1000
"""Draws that stand for a prior in files and pictures: enough for a histogram."""


def checked_derived(derived: Any, prior: Prior) -> dict[str, Derived]:
    """Derived quantities by name, checked.

    Args:
        derived: Functions of theta by name; None for none.
        prior: The prior, whose names are taken.

    Raises:
        InvalidTypeError: If it is no mapping, or holds something else than functions.
        InvalidInputError: If a name is empty or taken.
    """
    if derived is None:
        return {}
    if not isinstance(derived, Mapping):
        raise InvalidTypeError(
            f"derived must map names to functions of theta, got {describe(derived)}."
        )
    taken = {*prior.names, *prior.distributions}
    for name, fn in derived.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(
                f"Names of derived quantities are non-empty strings, got {name!r}."
            )
        if name in taken:
            raise InvalidInputError(
                f"The derived quantity {name!r} has the name of a parameter: choose another."
            )
        if not callable(fn):
            raise InvalidTypeError(
                f"The derived quantity {name!r} must be a function of theta, got {describe(fn)}."
            )
    return dict(derived)


def derive(name: str, fn: Derived, theta: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """A derived quantity of each row of theta.

    Args:
        name: Its name, for messages.
        fn: The function, of theta (..., d).
        theta: Parameters, shape (n, d).

    Raises:
        InvalidInputError: If the function fails or returns another shape.
    """
    # With as many rows as columns, theta[0] would pass for a column; one more row reveals it.
    rows = np.concatenate([theta, theta[-1:]]) if len(theta) == theta.shape[1] else theta
    try:
        values = np.asarray(fn(rows.copy()), dtype=np.float64)
    except Exception as error:
        raise InvalidInputError(
            f"The derived quantity {name!r} failed: {type(error).__name__}: {error}"
        ) from error
    if values.shape != rows.shape[:-1]:
        raise InvalidInputError(
            f"The derived quantity {name!r} must turn theta of shape {rows.shape} into shape"
            f" {rows.shape[:-1]}, got {values.shape}: index columns as theta[..., 0]."
        )
    return values[: len(theta)]


def beside_draws(model: PrivateModel, theta: Float[Array, "n d"]) -> dict[str, Any]:
    """What posteriors keep of a model beside their draws.

    Args:
        model: The model.
        theta: The draws, shape (n, d).

    Returns:
        "derived", the derived quantities by name, and "prior_draws": draws of the prior where no
        file can hold it, because it has functions; else None.
    """
    prior = model.prior
    drawn = prior.sample(jax.random.key(0), NUM_PRIOR_DRAWS) if prior.dependent else None
    return {"derived": model.derived_quantities(theta), "prior_draws": drawn}
