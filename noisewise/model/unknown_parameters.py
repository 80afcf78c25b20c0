"""Mechanisms that a model describes as functions of its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from noisewise._core.arrays import Array
from noisewise._core.user_functions import check_call
from noisewise.errors import InvalidInputError, InvalidTypeError, NoisewiseError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.unknown_parameters import UnknownParameters
from noisewise.priors.prior import Prior
from noisewise.simulators.named import Layout, NamedTheta

FunctionOfTheta = Callable[[Any], AbstractMechanism]
"""The mechanism at named parameters."""

_NUM_TRIED = 8
"""Draws of the prior at which the mechanism is made when the model is, so that values that it
refuses, and supports that move, are seen at once.
"""


@dataclasses.dataclass(frozen=True)
class _Make:
    """The mechanism at those parameters that it reads, (p,).

    Attributes:
        fn: The user's function of named parameters.
        layout: Their names and shapes.
    """

    fn: FunctionOfTheta
    layout: Layout

    def __call__(self, values: Array) -> AbstractMechanism:
        return self.fn(NamedTheta(values, self.layout))


class _Watched(NamedTheta):
    """Parameters by name, of which those that are read are noted."""

    def __init__(self, array: Any, layout: Layout) -> None:
        self._vector, self._layout, self.read = array, dict(layout), set[str]()

    def __getitem__(self, name: str) -> Any:
        part = NamedTheta(self._vector, tuple(self._layout.items()))[name]
        self.read.add(name)
        return part

    @property
    def array(self) -> Any:
        self.read |= set(self._layout)
        return self._vector


def as_mechanism(given: AbstractMechanism | FunctionOfTheta, prior: Prior) -> AbstractMechanism:
    """A mechanism, or what a function of the parameters describes as one.

    Raises:
        InvalidInputError: If it reads parameters that the prior lacks.
    """
    if not isinstance(given, AbstractMechanism):
        return of_parameters(given, prior)
    columns_of(prior, given.unknown)
    return given


def of_parameters(fn: FunctionOfTheta, prior: Prior) -> UnknownParameters:
    """The mechanism that a function of the parameters describes.

    Args:
        fn: Function of a `NamedTheta` that returns a mechanism; written in JAX.
        prior: The law of the parameters, which names them.

    Raises:
        InvalidTypeError: If it returns something else.
        InvalidInputError: If it reads no parameter or an unknown one, or what may be released at
            all depends on it.
    """
    check_call(fn, "mechanism(theta)", "theta")
    theta = np.asarray(prior.sample(jax.random.key(0), _NUM_TRIED))
    names = _names_read(fn, prior, theta[0])
    make = _Make(fn, tuple((name, shape) for name, shape in prior.layout if name in names))
    values = theta[:, columns_of(prior, names)]
    found = [_made(make, row) for row in values]
    if any(other.support != found[0].support for other in found[1:]):
        raise InvalidInputError(
            "What a mechanism may release must not depend on unknown parameters: thresholds, ends"
            f" and steps must be numbers, but the {type(found[0]).__name__} has others at other"
            " draws of the prior."
        )
    _check_traceable(make, values.shape[1])
    return UnknownParameters(found[0], make, names, values.shape[1])


def columns_of(prior: Prior, names: tuple[str, ...]) -> Int[np.ndarray, " p"]:
    """The columns of theta that belong to some names, in the order of theta.

    Raises:
        InvalidInputError: If the prior lacks one.
    """
    missing = [name for name in names if name not in dict(prior.layout)]
    if missing:
        raise InvalidInputError(
            f"The mechanism depends on {', '.join(map(repr, missing))}, which the prior of this"
            " model lacks: keep what the mechanism reads among its parameters."
        )
    sizes = [(name, int(np.prod(shape))) for name, shape in prior.layout]
    owner = np.repeat([name for name, _ in sizes], [size for _, size in sizes])
    return np.flatnonzero(np.isin(owner, names))


def _names_read(fn: Callable[[Any], Any], prior: Prior, row: np.ndarray) -> tuple[str, ...]:
    watched = _Watched(row, prior.layout)
    _made(lambda _: fn(watched), row)
    if not watched.read:
        raise InvalidInputError(
            "mechanism= is a function that reads no parameter: give the mechanism itself, or read"
            " one by its name, as in lambda theta: nw.mechanisms.Laplace(scale=theta['scale'])."
        )
    return tuple(name for name, _ in prior.layout if name in watched.read)


def _made(make: Callable[[Any], Any], row: np.ndarray) -> AbstractMechanism:
    """The mechanism at one draw of the prior."""
    try:
        with jax.enable_x64(True):
            found = make(row)
    except NoisewiseError as error:
        raise InvalidInputError(
            f"The mechanism cannot be made at a draw of the prior: {error} Let the prior's support"
            " hold only values that the mechanism takes."
        ) from error
    if not isinstance(found, AbstractMechanism):
        raise InvalidTypeError(
            "mechanism= must be a mechanism, or a function of theta that returns one, as in lambda"
            " theta: nw.mechanisms.Laplace(scale=theta['scale']); it returned"
            f" {type(found).__name__}."
        )
    return found


def _check_traceable(make: _Make, num_values: int) -> None:
    def traced(values: Array) -> Array:
        make(values)
        return values

    try:
        with jax.enable_x64(True):
            jax.eval_shape(traced, jax.ShapeDtypeStruct((num_values,), jnp.float64))
    except Exception as error:
        raise InvalidInputError(
            f"The function mechanism= cannot be traced: {type(error).__name__}: {error}. Write it"
            " in jax.numpy, without if and float() on parameters."
        ) from error
