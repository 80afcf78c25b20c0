"""Blocks of columns, each with a mechanism of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, integer, is_traced
from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import YOUR_OWN, AbstractMechanism, Capability
from noisewise.mechanisms.guarantees import AbstractGuarantee, GaussianDP, PureDP, compose
from noisewise.mechanisms.law import AbstractNoiseLaw
from noisewise.mechanisms.supports import AbstractSupport, Blocks

MAX_MECHANISMS = 1_000
"""Mechanisms in one: those of a few hundred already take a minute to compile."""

_FEW = 8
"""Laws that a sentence lists: as many as can be told apart."""


class Product(AbstractMechanism):
    r"""Columns 0..widths[0]-1 of s go through `mechanisms[0]`, the next `widths[1]` through
    `mechanisms[1]`, and so on.

    Use it where one release has parts with noise of their own; `queries.Joint` is its counterpart.
    Blocks are independent: uniforms and outputs stand side by side, log_prob and its bound add up
    (the bound is attained where the blocks' are).

    Guarantee: the composition of the blocks' guarantees, each for its own sensitivity, because one
    person may change all blocks at once. Its capabilities are those that all blocks share.

    Args:
        mechanisms: One mechanism per block, at least one.
        widths: The number of columns of s in each block; by default the one that the mechanism
            fixes, else 1.

    Raises:
        InvalidTypeError: If `mechanisms` is not a list of mechanisms.
        InvalidInputError: If the widths do not fit the mechanisms, or there are more than a
            thousand.

    >>> import noisewise as nw
    >>> wide = nw.mechanisms.Gaussian(scale=1.0, sensitivity=0.6)
    >>> narrow = nw.mechanisms.Gaussian(scale=1.0, sensitivity=0.8)
    >>> both = nw.mechanisms.Product([wide, narrow], widths=[3, 1])
    >>> both.guarantee, both.width
    (GaussianDP(mu=1.0), 4)
    >>> both.transport([0.5, 0.5, 0.5, 0.5], [1.0, 2.0, 3.0, 4.0]).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    mechanisms: tuple[AbstractMechanism, ...]
    widths: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, mechanisms: Iterable[AbstractMechanism], widths: Sequence[int] | None = None
    ) -> None:
        self.mechanisms = _mechanisms(mechanisms)
        self.widths = _widths(self.mechanisms, widths)
        require_few("Product", self.mechanisms)

    @property
    def is_smooth(self) -> bool:
        return all(mechanism.is_smooth for mechanism in self.mechanisms)

    @property
    def blocks(self) -> tuple[AbstractMechanism, ...]:
        return self.mechanisms

    def block_widths(self, k: int) -> tuple[int, ...]:
        return self.widths

    def of_columns(self, columns: Sequence[int]) -> AbstractMechanism:
        """Columns of one block, and whole blocks, stay together; others must be in order."""
        chosen, ends = np.asarray(columns), np.cumsum(self.widths)
        block = np.searchsorted(ends, chosen, side="right")
        if np.any(np.diff(block) < 0):
            raise MissingCapabilityError(
                "Columns of a Product are taken in their order, block after block."
            )
        used = list(dict.fromkeys(block.tolist()))
        places = [(chosen[block == j] - (ends[j] - self.widths[j])).tolist() for j in used]
        kept = [
            self.mechanisms[j]
            if part == list(range(self.widths[j]))
            else self.mechanisms[j].of_columns(part)
            for j, part in zip(used, places, strict=True)
        ]
        return Product(kept, widths=[len(part) for part in places])

    def measured(self, k: int) -> np.ndarray:
        return np.concatenate([mechanism.measured(width) for mechanism, width in self._parts])

    def column_kinds(self, k: int) -> np.ndarray:
        parts, first = [], 0
        for mechanism, width in self._parts:
            parts.append(first + mechanism.column_kinds(width))
            first += width
        return np.concatenate(parts)

    def noise_sd(self, k: int) -> list[float | None]:
        return [sd for mechanism, width in self._parts for sd in mechanism.noise_sd(width)]

    @property
    def has_noiseless_columns(self) -> bool:
        return any(mechanism.has_noiseless_columns for mechanism in self.mechanisms)

    def describe(self) -> str:
        return in_words(self, "numbers")

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        parts = np.split(s_dp, np.cumsum(self._output_widths)[:-1], axis=-1)
        pairs = zip(self.mechanisms, parts, strict=True)
        return np.concatenate([mechanism.estimate(part) for mechanism, part in pairs], axis=-1)

    @property
    def needs_delta(self) -> bool:
        return any(mechanism.needs_delta for mechanism in self.mechanisms)

    def recalibrated(self, guarantee: AbstractGuarantee) -> AbstractMechanism:
        """Blocks keep their shares of the budget: epsilons add up, and so do squares of mu. Those
        that have none stay as they are.

        Raises:
            MissingCapabilityError: If the blocks' guarantees are neither all PureDP nor all
                GaussianDP.
        """
        spending = [mechanism for mechanism in self.mechanisms if mechanism.spends]
        shares = iter(_shares([mechanism.guarantee for mechanism in spending], guarantee))
        blocks = [
            mechanism.recalibrated(next(shares)) if mechanism.spends else mechanism
            for mechanism in self.mechanisms
        ]
        return Product(blocks, widths=self.widths)

    @property
    def spends(self) -> bool:
        return any(mechanism.spends for mechanism in self.mechanisms)

    @property
    def is_exact(self) -> bool:
        return all(mechanism.is_exact for mechanism in self.mechanisms)

    @property
    def norm(self) -> float:  # type: ignore[override]
        """Not defined: each block has its own."""
        raise MissingCapabilityError(
            "The blocks of a Product have norms of their own: ask each of .mechanisms."
        )

    @property
    def sensitivity(self) -> None:
        """None: each block states its own."""
        return None

    @property
    def derives_guarantee(self) -> bool:
        return all(mechanism.derives_guarantee for mechanism in self.mechanisms)

    @property
    def neighbours(self) -> AbstractNeighbours:
        """The first that a block has besides the default: blocks of different ones have no
        guarantee together.
        """
        relations = (mechanism.neighbours for mechanism in self.mechanisms)
        return next((relation for relation in relations if relation != REPLACE_ONE), REPLACE_ONE)

    def for_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        blocks = [mechanism.for_neighbours(neighbours) for mechanism in self.mechanisms]
        return Product(blocks, widths=self.widths)

    @property
    def guarantee(self) -> AbstractGuarantee:
        return compose([mechanism.guarantee for mechanism in self.mechanisms])

    @property
    def support(self) -> AbstractSupport:
        return Blocks(
            tuple(mechanism.support for mechanism in self.mechanisms), self._output_widths
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset.intersection(*(mechanism.capabilities for mechanism in self.mechanisms))

    @property
    def width(self) -> int:
        return sum(self.widths)

    @property
    def distance_unit(self) -> np.ndarray:
        """The units of the blocks, side by side."""
        units = zip(self.mechanisms, self._output_widths, strict=True)
        return np.concatenate(
            [np.broadcast_to(mechanism.distance_unit, width) for mechanism, width in units]
        )

    def output_width(self, k: int) -> int:
        return sum(self._output_widths)

    def num_uniforms(self, k: int) -> int:
        return sum(self._num_uniforms)

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The blocks' extreme pairs side by side, all blocks changed at once."""
        pairs = [mechanism.adjacent_pairs(width) for mechanism, width in self._parts]
        rows = np.arange(max(len(s) for s, _ in pairs))
        first = [s[rows % len(s)] for s, _ in pairs]
        second = [other[rows % len(other)] for _, other in pairs]
        return np.concatenate(first, axis=-1), np.concatenate(second, axis=-1)

    @property
    def _parts(self) -> Iterator[tuple[AbstractMechanism, int]]:
        return zip(self.mechanisms, self.widths, strict=True)

    @property
    def _output_widths(self) -> tuple[int, ...]:
        return tuple(mechanism.output_width(width) for mechanism, width in self._parts)

    @property
    def _num_uniforms(self) -> tuple[int, ...]:
        return tuple(mechanism.num_uniforms(width) for mechanism, width in self._parts)

    def _sample(self, key: Array, s: Array) -> Array:
        keys = jax.random.split(key, len(self.mechanisms))
        blocks = zip(self.mechanisms, keys, _split(s, self.widths), strict=True)
        return _join([mechanism._sample(key, part) for mechanism, key, part in blocks])

    def _transport(self, u: Array, s: Array) -> Array:
        blocks = zip(
            self.mechanisms, _split(u, self._num_uniforms), _split(s, self.widths), strict=True
        )
        return _join([mechanism._transport(uniforms, part) for mechanism, uniforms, part in blocks])

    def _log_prob(self, s_dp: Array, s: Array) -> Array:
        return sum(mechanism._log_prob(y, part) for mechanism, y, part in self._blocks(s_dp, s))

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return _join(
            [mechanism._log_prob_each(y, part) for mechanism, y, part in self._blocks(s_dp, s)]
        )

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return _join([mechanism._log_cdf(y, part) for mechanism, y, part in self._blocks(s_dp, s)])

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return _join([mechanism._log_sf(y, part) for mechanism, y, part in self._blocks(s_dp, s)])

    def _possible(self, s_dp: Array) -> Array:
        parts = zip(self.mechanisms, _split(s_dp, self._output_widths), strict=True)
        return _join([mechanism._possible(y) for mechanism, y in parts])

    @property
    def reach(self) -> float:
        return max(mechanism.reach for mechanism in self.mechanisms)

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        """Those of each column, the last one repeated where it has fewer than others."""
        parts = xp.split(s_dp, np.cumsum(self._output_widths)[:-1], axis=-1)
        kinks = [law._kinks(part, xp) for law, part in zip(self.mechanisms, parts, strict=True)]
        most = max(found.shape[-1] for found in kinks)
        filled = [
            xp.concatenate([found, *[found[..., -1:]] * (most - found.shape[-1])], axis=-1)
            for found in kinks
        ]
        return xp.concatenate(filled, axis=-2)

    @property
    def input_bounds(self) -> tuple[Any, Any]:
        xp: Any = jnp if is_traced(self) else np
        both = zip(*(law.input_bounds for law in self.mechanisms), strict=True)
        widths = list(self.widths)
        low, high = (
            xp.concatenate(
                [xp.broadcast_to(end, (k,)) for end, k in zip(ends, widths, strict=True)]
            )
            for ends in both
        )
        return low, high

    def _log_prob_bound(self, s_dp: Array) -> Array:
        parts = _split(s_dp, self._output_widths)
        return sum(
            mechanism._log_prob_bound(y)
            for mechanism, y in zip(self.mechanisms, parts, strict=True)
        )

    def _blocks(self, s_dp: Array, s: Array) -> Iterator[tuple[AbstractMechanism, Array, Array]]:
        return zip(
            self.mechanisms, _split(s_dp, self._output_widths), _split(s, self.widths), strict=True
        )

    def _check_statistic(self, s: np.ndarray) -> None:
        for mechanism, part in zip(
            self.mechanisms, np.split(s, np.cumsum(self.widths)[:-1], axis=-1), strict=True
        ):
            mechanism._check_statistic(part)


def _shares(
    current: list[AbstractGuarantee], guarantee: AbstractGuarantee
) -> list[AbstractGuarantee]:
    """Parts of a guarantee in the proportions of the current ones."""
    if isinstance(guarantee, PureDP) and all(isinstance(part, PureDP) for part in current):
        parts = np.array([part.epsilon for part in current])  # type: ignore[attr-defined]
        shares = (parts / parts.sum()).tolist()
        return [guarantee.with_parameters(epsilon=guarantee.epsilon * share) for share in shares]
    if all(isinstance(part, GaussianDP) for part in current):
        parts = np.array([part.mu for part in current])  # type: ignore[attr-defined]
        whole, shares = guarantee.to_gaussian(), (parts / np.linalg.norm(parts)).tolist()
        return [whole.with_parameters(mu=whole.mu * share) for share in shares]
    raise MissingCapabilityError(
        f"The blocks of this Product have guarantees that do not scale together: {YOUR_OWN}"
    )


def _split(values: Array, widths: tuple[int, ...]) -> list[Array]:
    return jnp.split(values, np.cumsum(widths)[:-1], axis=-1)


def _join(parts: list[Array]) -> Array:
    return jnp.concatenate(parts, axis=-1)


def _mechanisms(mechanisms: Any) -> tuple[AbstractMechanism, ...]:
    if isinstance(mechanisms, AbstractMechanism) or not isinstance(mechanisms, Iterable):
        raise InvalidTypeError(
            f"Product takes a list of mechanisms, got {type(mechanisms).__name__}."
        )
    blocks = tuple(mechanisms)
    for block in blocks:
        if not isinstance(block, AbstractNoiseLaw):
            raise InvalidTypeError(
                f"Product takes a list of mechanisms, got {type(block).__name__} in it."
            )
    if not blocks:
        raise InvalidInputError("Product needs at least one mechanism, got an empty list.")
    return blocks


def require_few(name: str, mechanisms: tuple[AbstractMechanism, ...]) -> None:
    """Refuse more mechanisms than there may be in one.

    Raises:
        InvalidInputError: If there are more than `MAX_MECHANISMS`, with those inside others.
    """
    # laws that continue mechanisms between points were counted as these
    counted = [each for each in mechanisms if isinstance(each, AbstractMechanism)]
    number = sum(len(each.uncomposed(each.width or 1)) for each in counted)
    if number > MAX_MECHANISMS:
        raise InvalidInputError(
            f"{name} has {number:,} mechanisms, more than {MAX_MECHANISMS:,}: give cells of one"
            " kind one mechanism, with a number per column where these differ, as in"
            " DiscreteLaplace(scale=[3.0, 8.0])."
        )


def in_words(mechanism: AbstractMechanism, noun: str) -> str:
    """What is done to the numbers, and to how many of them, by a mechanism composed of others."""
    counts: dict[str, int] = {}
    for part, width in mechanism.uncomposed(mechanism.width or 1):
        text = part.describe()
        counts[text] = counts.get(text, 0) + width
    parts = [f"{text} ({count:,} of the {noun})" for text, count in counts.items()]
    rest = f"; and {len(parts) - _FEW} more laws" if len(parts) > _FEW else ""
    return "; ".join(parts[:_FEW]) + rest


def _widths(mechanisms: tuple[AbstractMechanism, ...], widths: Any) -> tuple[int, ...]:
    if widths is None:
        return tuple(mechanism.width or 1 for mechanism in mechanisms)
    if isinstance(widths, (str, bytes)) or not isinstance(widths, Iterable):
        raise InvalidTypeError(
            "widths must be a list of whole numbers, one per mechanism, got"
            f" {type(widths).__name__}."
        )
    given = tuple(integer("widths", at_least=1)(width) for width in widths)
    if len(given) != len(mechanisms):
        raise InvalidInputError(
            f"widths must have one entry per mechanism, {len(mechanisms)}, got {len(given)}."
        )
    for mechanism, width in zip(mechanisms, given, strict=True):
        if mechanism.width not in (None, width):
            name = type(mechanism).__name__
            raise InvalidInputError(
                f"{name} takes {mechanism.width} columns, but widths gives it {width}."
            )
    return given
