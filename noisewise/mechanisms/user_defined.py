"""Mechanisms of a user's own: a sampler without a density, or a density without a sampler."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp

from noisewise._compile.options import jit_fast_compile
from noisewise._core import user_functions
from noisewise._core.arrays import Array, integer, number
from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours
from noisewise._core.user_functions import check_call
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.mechanisms.supports import AbstractSupport, Real


@dataclasses.dataclass(frozen=True)
class Stated:
    """What a user states about a mechanism, which noisewise believes.

    Attributes:
        guarantee: The privacy guarantee; None if none is claimed.
        support: The set of possible private statistics.
        sensitivity: The largest change of s for which the guarantee holds; None if unknown.
        norm: The norm in which it is measured: 0, 1, 2 or infinity.
        width: The number of columns of s, if only one fits.
        output_width: The number of columns of s_dp, if it is not that of s.
    """

    guarantee: AbstractGuarantee | None
    support: AbstractSupport
    sensitivity: float | None
    norm: float
    width: int | None
    output_width: int | None

    def __post_init__(self) -> None:
        if self.guarantee is not None and not isinstance(self.guarantee, AbstractGuarantee):
            raise InvalidTypeError(
                "guarantee must be None or one such as PureDP(1.0), got"
                f" {type(self.guarantee).__name__}."
            )
        if not isinstance(self.support, AbstractSupport):
            raise InvalidTypeError(
                "support must be one such as Real() or Lattice(1.0), got"
                f" {type(self.support).__name__}."
            )
        if self.norm not in (0, 1, 2, math.inf):
            raise InvalidInputError(f"norm must be 0, 1, 2 or infinity, got {self.norm!r}.")
        number("sensitivity", above=0.0, optional=True)(self.sensitivity)
        integer("width", at_least=1, optional=True)(self.width)
        integer("output_width", at_least=1, optional=True)(self.output_width)


class AbstractUserMechanism(AbstractMechanism):
    """Base of both kinds: nothing can be derived from a function, so a property is what the user
    stated, or refused.
    """

    if TYPE_CHECKING:
        stated: Stated

    @property
    def guarantee(self) -> AbstractGuarantee:
        if self.stated.guarantee is None:
            raise MissingCapabilityError(
                f"This {type(self).__name__} states no guarantee, and its function implies none:"
                " pass guarantee=..."
            )
        return self.stated.guarantee

    @property
    def derives_guarantee(self) -> bool:
        return False

    @property
    def neighbours(self) -> AbstractNeighbours:
        """Those of the stated guarantee."""
        claimed = self.stated.guarantee
        return REPLACE_ONE if claimed is None else claimed.neighbours

    def _with_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        if self.stated.guarantee is None:
            return self
        raise InvalidInputError(
            f"The guarantee of this {type(self).__name__} is stated for {self.neighbours!r}: if it"
            f" holds for {neighbours!r}, state it so, as in {type(self.stated.guarantee).__name__}"
            "(..., neighbours=...)."
        )

    @property
    def support(self) -> AbstractSupport:
        return self.stated.support

    @property
    def sensitivity(self) -> float | None:
        """The sensitivity for which the guarantee was stated."""
        return self.stated.sensitivity

    @property
    def norm(self) -> float:  # type: ignore[override]
        """The norm in which that sensitivity is measured."""
        return float(self.stated.norm)

    @property
    def width(self) -> int | None:
        return self.stated.width

    def output_width(self, k: int) -> int:
        return self.stated.output_width or k

    def num_uniforms(self, k: int) -> int:
        raise self._lacks(Capability.TRANSPORT)

    def adjacent_pairs(self, k: int) -> NoReturn:
        raise MissingCapabilityError(
            f"{type(self).__name__} does not know where its privacy loss is largest: choose the"
            " pairs yourself, and pass neighbours=(s, s'), two arrays of shape (pairs, k), to the"
            " audit."
        )

    def remedy(self, needed: float) -> str:
        return f"If its guarantee holds for that, pass sensitivity={needed!r}."

    def to_spec(self) -> NoReturn:
        raise MissingCapabilityError(
            f"{type(self).__name__} holds a Python function, which cannot be written as JSON."
        )


class SampledMechanism(AbstractUserMechanism):
    """Noise that can be drawn but has no known density.

    `sample(key, s) -> s_dp` is written with jax.numpy for ONE statistic s of shape (k,) and returns
    shape (k,), or (`output_width`,). It is compiled, and vectorised over leading axes with a key
    for each. All randomness must come from that key (np.random would be drawn once, when it is
    compiled): a function that does not use it is refused.

    Args:
        sample: The function (key, s) -> s_dp.
        guarantee: What the mechanism promises; needed for anything that asks for privacy.
        support: The set of possible private statistics; all finite numbers by default.
        sensitivity: The largest change of s for which the guarantee holds.
        norm: The norm in which it is measured: 0, 1, 2 or infinity.
        width: The number of columns of s, if only one fits.
        output_width: The number of columns of s_dp, if it is not that of s.

    Raises:
        InvalidTypeError: If an argument is of the wrong type, or `sample` takes other arguments.

    >>> import jax
    >>> def two_coins(key, s):
    ...     return s + jax.random.rademacher(key, (2, *s.shape)).sum(0)
    >>> mechanism = SampledMechanism(two_coins)
    >>> mechanism.sample(jax.random.key(0), [[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]]).shape
    (2, 3)
    >>> mechanism.log_prob([0.0], [0.0])
    Traceback (most recent call last):
    noisewise.errors.MissingCapabilityError: SampledMechanism has no log_prob; it offers sample.
    """

    function: Callable[[Array, Array], Array] = eqx.field(static=True)
    stated: Stated = eqx.field(static=True)

    def __init__(
        self,
        sample: Callable[[Array, Array], Array],
        *,
        guarantee: AbstractGuarantee | None = None,
        support: AbstractSupport = Real(),  # noqa: B008
        sensitivity: float | None = None,
        norm: float = 1.0,
        width: int | None = None,
        output_width: int | None = None,
    ) -> None:
        self.stated = Stated(guarantee, support, sensitivity, norm, width, output_width)
        self.function = _callable(sample, "sample(key, s) -> s_dp", "key", "s")

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.SAMPLE})

    def _sample(self, key: Array, s: Array) -> Array:
        key_like = jax.ShapeDtypeStruct(key.shape, key.dtype)
        _examine(self, key_like, jax.ShapeDtypeStruct(s.shape[-1:], s.dtype))
        return _draw(self, key, s)

    def _draw(self, key: Array, s: Array) -> Array:
        """One draw for one statistic of shape (k,)."""
        return _call(self.function, (key, s), (self.output_width(s.shape[-1]),), "sample(key, s)")


class DensityMechanism(AbstractUserMechanism):
    """Noise with a known density that cannot be drawn directly, as in private principal components.

    `log_prob(s_dp, s) -> number` is written with jax.numpy for ONE private statistic of shape (k',)
    and ONE confidential one of shape (k,); `log_prob_bound(s_dp) -> number`, if given, bounds it
    over all s. Both are compiled and vectorised over leading axes. Off the stated support noisewise
    gives -inf without calling them.

    Args:
        log_prob: The function (s_dp, s) -> log density, normalised over s_dp.
        guarantee: What the mechanism promises; needed for anything that asks for privacy.
        support: The set of possible private statistics; all finite numbers by default.
        log_prob_bound: The function s_dp -> bound, for exact rejection; None if unknown.
        sensitivity: The largest change of s for which the guarantee holds.
        norm: The norm in which it is measured: 0, 1, 2 or infinity.
        width: The number of columns of s, if only one fits.
        output_width: The number of columns of s_dp, if it is not that of s.

    Raises:
        InvalidTypeError: If an argument is of the wrong type, or a function takes other arguments.

    >>> import jax.numpy as jnp
    >>> def laplace(s_dp, s):
    ...     return -jnp.abs(s_dp - s).sum() - s.size * jnp.log(2.0)
    >>> mechanism = DensityMechanism(laplace)
    >>> mechanism.log_prob([[1.0, 0.0], [3.0, 0.0]], [1.0, 0.0]).round(6).tolist()
    [-1.386294, -3.386294]
    >>> sorted(mechanism.capabilities)
    [<Capability.DENSITY: 'log_prob'>]
    """

    function: Callable[[Array, Array], Array] = eqx.field(static=True)
    bound: Callable[[Array], Array] | None = eqx.field(static=True)
    stated: Stated = eqx.field(static=True)

    def __init__(
        self,
        log_prob: Callable[[Array, Array], Array],
        *,
        guarantee: AbstractGuarantee | None = None,
        support: AbstractSupport = Real(),  # noqa: B008
        log_prob_bound: Callable[[Array], Array] | None = None,
        sensitivity: float | None = None,
        norm: float = 1.0,
        width: int | None = None,
        output_width: int | None = None,
    ) -> None:
        self.stated = Stated(guarantee, support, sensitivity, norm, width, output_width)
        self.function = _callable(log_prob, "log_prob(s_dp, s) -> number", "s_dp", "s")
        bound = log_prob_bound
        self.bound = (
            None if bound is None else _callable(bound, "log_prob_bound(s_dp) -> number", "s_dp")
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset(
            {Capability.DENSITY} if self.bound is None else {Capability.DENSITY, Capability.BOUND}
        )

    def _log_prob(self, s_dp: Array, s: Array) -> Array:
        one = lambda *pair: _call(self.function, pair, (), "log_prob(s_dp, s)")  # noqa: E731
        return jnp.vectorize(one, signature="(i),(j)->()")(s_dp, s)

    def _log_prob_bound(self, s_dp: Array) -> Array:
        if self.bound is None:
            raise self._lacks(Capability.BOUND)
        one = lambda y: _call(self.bound, (y,), (), "log_prob_bound(s_dp)")  # noqa: E731
        return jnp.vectorize(one, signature="(i)->()")(s_dp)


@jit_fast_compile
def _draw(mechanism: SampledMechanism, key: Array, s: Array) -> Array:
    rows = s.reshape(-1, s.shape[-1])
    draws = jax.vmap(mechanism._draw)(jax.random.split(key, len(rows)), rows)
    return draws.reshape(*s.shape[:-1], -1)


@functools.lru_cache(maxsize=64)
def _examine(mechanism: SampledMechanism, key: Any, s: Any) -> None:
    """Refuse, once, a sampler whose draws do not come from its key alone or that reads entries s
    does not have.
    """
    program, _ = user_functions.trace(mechanism._draw, key, s)
    again, _ = user_functions.trace(mechanism._draw, key, s)
    beyond = user_functions.read_beyond(program, 1)
    if beyond is not None:
        raise InvalidInputError(
            f"sample(key, s) reads s[{beyond}], but s has {s.shape[0]} column(s): correct the"
            " index."
        )
    if user_functions.differ(program, again) or not user_functions.depends_on(program, 0):
        raise InvalidInputError(
            "sample(key, s) must draw from its key, as in jax.random.laplace(key, s.shape):"
            " randomness from elsewhere, such as np.random, is drawn once, while JAX compiles the"
            " function, and never again."
        )


def _callable(function: Any, signature: str, *arguments: str) -> Any:
    if not callable(function):
        raise InvalidTypeError(
            f"The first argument must be a function {signature}, got {type(function).__name__}."
        )
    check_call(function, signature.partition(" ->")[0], *arguments)
    return function


def _call(
    function: Callable[..., Array], arguments: tuple[Array, ...], shape: tuple[int, ...], name: str
) -> Array:
    """The user's function on one point, as float64 of the shape it should have."""
    try:
        value = jnp.asarray(function(*arguments), dtype=jnp.float64)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise InvalidTypeError(
            f"{name} must be written with jax.numpy instead of NumPy: it is compiled. ({error})"
        ) from None
    if value.shape != shape:
        raise InvalidInputError(
            f"{name} must return shape {shape} for one statistic, got {value.shape}."
        )
    return value
