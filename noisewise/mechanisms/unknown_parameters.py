"""Mechanisms of which a parameter is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.neighbours import AbstractNeighbours
from noisewise.errors import MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.law import AbstractNoiseLaw, Capability
from noisewise.mechanisms.supports import AbstractSupport

_SERVED = frozenset({Capability.SAMPLE, Capability.TRANSPORT, Capability.DENSITY, Capability.CDF})
"""All but a bound of the density, which would have to hold for every value of the parameters."""


class UnknownParameters(AbstractMechanism):
    r"""eta(s_dp | s, v) = eta_{make(v)}(s_dp | s): noise whose parameters v are unknown.

    `nw.PrivateModel` makes it of `mechanism=lambda theta: ...`. What it takes is s with the
    parameters behind it, (s_1, ..., s_k, v_1, ..., v_p), so that simulations carry the values at
    which they were made: noise is drawn, and densities are taken, at each row's own.

    No guarantee follows from noise that is not known.

    Attributes:
        example: The mechanism at one value of v, whose support and widths are those of all.
        make: The mechanism at v, shape (p,).
        names: Names of the parameters of the model that v holds, in the order of theta.
        num_values: p.

    >>> import noisewise as nw
    >>> make = lambda v: nw.mechanisms.Laplace(scale=v[0])
    >>> noise = UnknownParameters(make(np.ones(1)), make, ("scale",), 1)
    >>> noise.log_prob([3.0], [[3.0, 0.5], [3.0, 5.0]]).round(3) + 0.0  # log 1, log 1/10
    array([ 0.   , -2.303])
    """

    norm: ClassVar[float] = 1.0

    example: AbstractMechanism
    make: Callable[[Array], AbstractMechanism] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    num_values: int = eqx.field(static=True)

    @property
    def unknown(self) -> tuple[str, ...]:
        return self.names

    @property
    def num_unknown(self) -> int:
        return self.num_values

    def at(self, values: Float[Array, " p"]) -> AbstractMechanism:
        return self.make(values)

    # Widths -----------------------------------------------------------------------------------

    @property
    def width(self) -> int | None:
        own = self.example.width
        return None if own is None else own + self.num_values

    def output_width(self, k: int) -> int:
        return self.example.output_width(k - self.num_values)

    def num_uniforms(self, k: int) -> int:
        return self.example.num_uniforms(k - self.num_values)

    def measured(self, k: int) -> np.ndarray:
        return self.example.measured(k - self.num_values)

    # What is known of it ----------------------------------------------------------------------

    @property
    def capabilities(self) -> frozenset[Capability]:
        able = self.example.capabilities & _SERVED
        return able if Capability.TRANSPORT in able else able - {Capability.SAMPLE}

    @property
    def support(self) -> AbstractSupport:
        return self.example.support

    @property
    def distance_unit(self) -> float | np.ndarray:
        return self.example.distance_unit

    @property
    def has_noiseless_columns(self) -> bool:
        return self.example.has_noiseless_columns

    @property
    def sensitivity(self) -> None:
        """None: it says nothing without the noise."""
        return None

    @property
    def guarantee(self) -> NoReturn:
        raise MissingCapabilityError(f"{self._unknown}, so that no guarantee can be derived.")

    @property
    def derives_guarantee(self) -> bool:
        return False

    @property
    def spends(self) -> bool:
        return False

    def for_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        """Itself: it promises nothing, whoever the neighbours are."""
        return self

    def adjacent_pairs(self, k: int) -> NoReturn:
        raise MissingCapabilityError(f"{self._unknown}: there is no loss to audit.")

    def recalibrated(self, guarantee: Any) -> NoReturn:
        raise MissingCapabilityError(f"{self._unknown}, so that it has no other budgets.")

    def estimate(self, s_dp: np.ndarray) -> NoReturn:
        raise MissingCapabilityError(f"{self._unknown}, so that s has no estimate without a model.")

    def to_spec(self) -> NoReturn:
        raise MissingCapabilityError(
            f"{self._unknown}: it holds a Python function, which cannot be written as JSON."
        )

    @property
    def _unknown(self) -> str:
        names = ", ".join(self.names)
        return f"This {type(self.example).__name__} depends on what is not known ({names})"

    def describe(self) -> str:
        names = ", ".join(self.names)
        return (
            f"{type(self.example).__name__}, of which {names} is not known but inferred; no"
            " guarantee can be derived"
        )

    def __repr__(self) -> str:
        names = ", ".join(self.names)
        return f"UnknownParameters({type(self.example).__name__} given {names})"

    # The law ----------------------------------------------------------------------------------

    def _possible(self, s_dp: Array) -> Array:
        return self.example._possible(s_dp)

    def _transport(self, u: Array, s: Array) -> Array:
        return self._each(lambda law, u, s: law._transport(u, s), "(k)", u, s)

    def _log_prob(self, s_dp: Array, s: Array) -> Array:
        return self._each(lambda law, y, s: law._log_prob(y, s), "()", s_dp, s)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self._each(lambda law, y, s: law._log_prob_each(y, s), "(y)", s_dp, s)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return self._each(lambda law, y, s: law._log_cdf(y, s), "(y)", s_dp, s)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return self._each(lambda law, y, s: law._log_sf(y, s), "(y)", s_dp, s)

    def _each(
        self, fn: Callable[[AbstractNoiseLaw, Array, Array], Array], out: str, y: Array, s: Array
    ) -> Array:
        """fn of the law at each row's own parameters, of y and of s without them."""

        def one(y: Array, s: Array) -> Array:
            own, values = s[: -self.num_values], s[-self.num_values :]
            return fn(self.make(values), y, own)

        found: Array = jnp.vectorize(one, signature=f"(y),(s)->{out}")(y, s)
        return found

    def _check_statistic(self, s: np.ndarray) -> None:
        self.example._check_statistic(s[..., : -self.num_values])
