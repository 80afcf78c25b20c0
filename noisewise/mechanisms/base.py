"""What a mechanism is: a law of noise, the privacy it gives, its budgets, releases and files."""

from __future__ import annotations

import abc
import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Float

from noisewise._core import specs
from noisewise._core.arrays import Array
from noisewise._core.neighbours import (
    RELATIONS,
    REPLACE_ONE,
    AbstractNeighbours,
    joint_relation,
    neighbours_from_spec,
)
from noisewise._core.user_functions import check_keywords
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.mechanisms.columns import PerColumn, length
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.mechanisms.law import AbstractNoiseLaw
from noisewise.mechanisms.law import Capability as Capability  # also known by this address

YOUR_OWN = 'pass mechanisms={"label": mechanism, ...} with the mechanism of each budget.'
"""The way out for a mechanism that has no `calibrate` for another budget."""


class AbstractMechanism(AbstractNoiseLaw):
    """Base of all mechanisms: the publicly known randomness between s and s_dp.

    `AbstractNoiseLaw` has the draws and densities. A concrete class adds `guarantee`, `norm`,
    `adjacent_pairs`, and what it knows of budgets (`calibrate`) and releases (`exact_sampler`).
    """

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """An instance; keywords that its class does not take are refused with those it takes."""
        check_keywords(cls, given)
        return super().__new__(cls)

    norm: ClassVar[float]
    """The norm in which `sensitivity` is measured: 0 (number of changed entries), 1, 2 or infinity.
    """

    if TYPE_CHECKING:

        @property
        def sensitivity(self) -> PerColumn:
            """The largest change of s between neighbours in `norm`, or that of each column, where
            it is known.
            """

    @property
    @abc.abstractmethod
    def guarantee(self) -> AbstractGuarantee:
        """The privacy guarantee that the noise gives for statistics of the stated sensitivity.

        Raises:
            MissingCapabilityError: If the mechanism does not know the sensitivity.
        """

    @abc.abstractmethod
    def adjacent_pairs(
        self, k: int
    ) -> tuple[Float[np.ndarray, "pairs k"], Float[np.ndarray, "pairs k"]]:
        """Pairs (s, s') at the stated sensitivity where the privacy loss is largest, for audits.

        Args:
            k: The number of columns of s.

        Returns:
            s and s', each of shape (pairs, k): row i of one is a neighbour of row i of the other.
        """

    @property
    def total_sensitivity(self) -> float | None:
        """The largest change of s between neighbours in `norm`, of all columns together."""
        return None if self.sensitivity is None else length(self.sensitivity, self.norm)

    @property
    def neighbours(self) -> AbstractNeighbours:
        """Between which databases `sensitivity` is the largest change of s, and whom `guarantee`
        protects. A mechanism with a sensitivity of its own has it as a field, given by name.
        """
        return REPLACE_ONE

    @property
    def derives_guarantee(self) -> bool:
        """Whether its guarantee follows from the noise and the sensitivity; else it is the word of
        whoever stated it.
        """
        return True

    def for_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        """The same noise with its sensitivity stated for these neighbours, where it was stated for
        none: the default `ReplaceOne()` yields, and a unit may be named.

        Whoever calls it must know that the sensitivity holds for them, or check it.

        Raises:
            InvalidInputError: If it was stated for others.

        >>> import noisewise as nw
        >>> noise = nw.mechanisms.Laplace(scale=2.0, sensitivity=1.0)
        >>> noise.for_neighbours(nw.AddRemoveOne()).guarantee
        PureDP(epsilon=0.5, neighbours=AddRemoveOne(unit='person', max_contributions=1, ...))
        """
        joint = joint_relation(self.neighbours, neighbours, "mechanism")
        return self if self.neighbours.agrees_with(joint) else self._with_neighbours(joint)

    def _with_neighbours(self, neighbours: AbstractNeighbours) -> AbstractMechanism:
        if all(field.name != "neighbours" for field in dataclasses.fields(self)):
            raise InvalidInputError(
                f"{type(self).__name__} gives a guarantee for {self.neighbours!r}, not for"
                f" {neighbours!r}: take a mechanism with a sensitivity, such as DiscreteLaplace."
            )
        changes: dict[str, Any] = {"neighbours": neighbours}
        return dataclasses.replace(self, **changes)

    def _stated_sensitivity(self) -> Any:
        if self.sensitivity is None:
            raise MissingCapabilityError(
                f"This {type(self).__name__} does not know the query's sensitivity, so its noise"
                " gives no guarantee: pass sensitivity=..., the largest change of s in the"
                f" L{self.norm:g} norm between neighbours."
            )
        return self.sensitivity

    # Unknown parameters ---------------------------------------------------------------------------

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the model's parameters on which it depends. Their values stand behind s: they
        are the last `num_unknown` columns of what it takes.
        """
        return ()

    @property
    def num_unknown(self) -> int:
        """How many numbers its unknown parameters are."""
        return 0

    def at(self, values: Float[Array, " p"]) -> AbstractMechanism:
        """The mechanism where its unknown parameters have these values: itself, if it has none."""
        return self

    # Structure and description --------------------------------------------------------------------

    @property
    def blocks(self) -> tuple[AbstractMechanism, ...]:
        """The mechanisms of its blocks of columns, in order: itself, unless it is composed."""
        return (self,)

    @property
    def is_composed(self) -> bool:
        """Whether its `blocks` are other mechanisms than itself."""
        return self.blocks[0] is not self

    def block_widths(self, k: int) -> tuple[int, ...]:
        """The number of columns of s that each block takes, out of k in all."""
        return (k,)

    def calibrated_blocks(self, k: int) -> list[tuple[AbstractMechanism, int]]:
        """The mechanisms that each have a sensitivity of their own, and the number of columns, out
        of k in all, that each serves. They are the `blocks` unless some of these share one.
        """
        return list(zip(self.blocks, self.block_widths(k), strict=True))

    def uncomposed(self, k: int) -> list[tuple[AbstractMechanism, int]]:
        """The mechanisms of which it is composed that are not composed themselves, and the number
        of columns, out of k in all, that each serves: itself, if it is not composed.

        >>> import noisewise as nw
        >>> pair = nw.mechanisms.Product([nw.mechanisms.Laplace(1.0), nw.mechanisms.Exact()])
        >>> nw.mechanisms.Product([pair, nw.mechanisms.Exact()], widths=[2, 3]).uncomposed(5)
        [(Laplace(scale=1.0), 1), (Exact(), 1), (Exact(), 3)]
        """
        if not self.is_composed:
            return [(self, k)]
        parts = self.calibrated_blocks(k)
        return [each for part, width in parts for each in part.uncomposed(width)]

    def has_blocks_of(self, widths: Sequence[int | None]) -> bool:
        """Whether its blocks have these widths, and each a sensitivity of its own."""
        k = sum(width or 0 for width in widths)
        own = tuple(width for _, width in self.calibrated_blocks(k))
        return len(own) == len(widths) and self.block_widths(k) == tuple(widths)

    def of_columns(self, columns: Sequence[int]) -> AbstractMechanism:
        """The mechanism of some of its columns alone.

        Args:
            columns: Their places, from 0.

        Raises:
            MissingCapabilityError: If its columns depend on each other.

        >>> import noisewise as nw
        >>> nw.mechanisms.Laplace(scale=[1.0, 2.0, 8.0]).of_columns([2, 0])
        Laplace(scale=[8.0, 1.0])
        """
        if Capability.CDF not in self.capabilities or self.width is not None:
            raise MissingCapabilityError(
                f"{type(self).__name__} is about all its columns together: none can be left out."
            )
        return self

    def measured(self, k: int) -> np.ndarray:
        """Which columns of s_dp say something about s, for k columns of s; `Unmeasured` ones do
        not.
        """
        return np.ones(self.output_width(k), dtype=bool)

    def column_kinds(self, k: int) -> np.ndarray:
        """A number for each of k columns: where it is the same, so is the noise."""
        return np.zeros(k, dtype=int) if self.width is None else np.arange(k)

    @property
    def inner(self) -> AbstractMechanism:
        """What draws the noise: itself, unless it post-processes the output of another."""
        return self

    def noise_sd(self, k: int) -> list[float | None]:
        """The standard deviation of the noise of each column of s_dp, for k columns of s.

        Returns:
            One entry per column of s_dp; None where it depends on s or is not known.

        >>> import noisewise as nw
        >>> nw.mechanisms.Gaussian(scale=2.0).noise_sd(3)
        [2.0, 2.0, 2.0]
        """
        try:
            sd = self._noise_sd(k)
        except ArithmeticError:  # scales and steps near the ends of float64
            sd = None
        each = sd if np.ndim(sd) else [sd] * self.output_width(k)
        return [float(sd) if sd is not None and math.isfinite(sd) else None for sd in each]

    def _noise_sd(self, k: int) -> PerColumn:
        return None

    @property
    def has_noiseless_columns(self) -> bool:
        """Whether some column of s_dp is a fixed function of s.

        >>> import noisewise as nw
        >>> exact = nw.mechanisms.Exact()
        >>> nw.mechanisms.Product([exact, nw.mechanisms.Laplace(1.0)]).has_noiseless_columns
        True
        """
        return False

    def describe(self) -> str:
        """What is done to the numbers, in the words of a report."""
        return f"a mechanism of the analyst's own ({type(self).__name__})"

    def estimate(self, s_dp: Float[np.ndarray, "*batch kp"]) -> Float[np.ndarray, "*batch k"]:
        """The s, shape (..., k), for which E[S_dp | s] = s_dp, clamping left aside: the naive
        estimate.

        Raises:
            MissingCapabilityError: If the mechanism releases choices, which have no mean.
        """
        return s_dp

    @property
    def choices(self) -> tuple[float, ...] | None:
        """The values among which it chooses by their utilities; None if it does no such thing."""
        return None

    @property
    def normal_mixture(self) -> Literal["fixed", "exponential"] | None:
        """The law of the variance, if the noise is normal given a (random) variance; else None."""
        return None

    # Budgets --------------------------------------------------------------------------------------

    @property
    def needs_delta(self) -> bool:
        """Whether its guarantee, put as an epsilon, comes with a positive delta."""
        return False

    @property
    def spends(self) -> bool:
        """Whether it has a share of the budget: what claims no privacy, and what measures nothing,
        has none, and stays as it is at other budgets.
        """
        return True

    def recalibrated(self, guarantee: AbstractGuarantee) -> AbstractMechanism:
        """A mechanism of the same kind and sensitivity with another guarantee: only its noise
        changes.

        Raises:
            MissingCapabilityError: If the class has no `calibrate`, or the sensitivity is unknown.
            InvalidInputError: If the class cannot be calibrated to this kind of guarantee.

        >>> import noisewise as nw
        >>> nw.mechanisms.Laplace(scale=1.0, sensitivity=2.0).recalibrated(nw.PureDP(8.0))
        Laplace(scale=0.25, sensitivity=2.0)
        """
        calibrate = getattr(type(self), "calibrate", None)
        if calibrate is None:
            raise MissingCapabilityError(
                f"{type(self).__name__} has no `calibrate` for another budget: {YOUR_OWN}"
            )
        parameters = inspect.signature(calibrate).parameters
        kept = {name: getattr(self, name) for name in parameters if name != "guarantee"}
        if "sensitivity" in kept and kept["sensitivity"] is None:
            raise MissingCapabilityError(
                f"This {type(self).__name__} does not know the query's sensitivity, so its scale"
                f" implies no epsilon: pass sensitivity=... to it, or {YOUR_OWN}"
            )
        made: AbstractMechanism = calibrate(**kept, guarantee=guarantee)
        return made

    def remedy(self, needed: float) -> str:
        """The line to write where it is calibrated for less than the sensitivity `needed`."""
        relation = "" if self.neighbours == REPLACE_ONE else f", neighbours={self.neighbours!r}"
        return (
            f"Write nw.mechanisms.{type(self).__name__}.calibrate(sensitivity={needed!r},"
            f" guarantee=...{relation})."
        )

    # Releases of real data ------------------------------------------------------------------------

    exact_counterpart: ClassVar[str | None] = None
    """The mechanism of whole numbers to take for a release, where this one is drawn in floating
    point.
    """

    @property
    def exact_step(self) -> float | None:
        """The step of the whole numbers that `exact_sampler` takes; None for that of the query."""
        return 1.0

    @property
    def largest_statistic(self) -> float | None:
        """The largest |s| that it can serve; None if there is no limit."""
        return None

    @property
    def is_exact(self) -> bool:
        """Whether it can be drawn without floating-point arithmetic, and so released."""
        return type(self).exact_sampler is not AbstractMechanism.exact_sampler

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        """The function by which a release draws s_dp from whole numbers, without floating point.

        Args:
            noise: The samplers of whole numbers, each of which checks the privacy it states.
            step: The spacing of the lattice of s.

        Returns:
            A function from the integers s / step to released values, a fixed function of drawn
            integers. It refuses no integers: what can be checked is checked before.

        Raises:
            MissingCapabilityError: If the mechanism can only be drawn in floating point.
        """
        raise MissingCapabilityError(f"{type(self).__name__} has no exact sampler.")

    # Files ----------------------------------------------------------------------------------------

    def to_spec(self) -> dict[str, Any]:
        """A JSON-ready description; `from_spec` reads it back to the last bit.

        Raises:
            MissingCapabilityError: If it holds something that is not a number, such as a function.
        """
        return specs.to_spec(self, AbstractMechanism, "A mechanism")


def from_spec_with(spec: Any, kinds: Mapping[str, type[AbstractMechanism]]) -> AbstractMechanism:
    """The mechanism that `to_spec` described, given the known classes by name.

    Raises:
        FileFormatError: If the class is not known, or its fields are not as they should be.
    """
    kind = specs.named_class(spec, dict(sorted(kinds.items())), "A mechanism")

    def nested(part: Any) -> Any:
        relation = isinstance(part, dict) and part.get("type") in RELATIONS
        return neighbours_from_spec(part) if relation else from_spec_with(part, kinds)

    return specs.built(kind, specs.fields_of(spec, nested))
