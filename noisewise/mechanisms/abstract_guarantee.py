"""What all privacy guarantees share: the neighbours they are about, conversions, files."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from noisewise._core import specs
from noisewise._core.arrays import integer, number
from noisewise._core.neighbours import (
    REPLACE_ONE,
    AbstractNeighbours,
    AddRemoveOne,
    ReplaceOne,
    as_neighbours,
)
from noisewise.errors import ConversionError, InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from noisewise.mechanisms.guarantees import GaussianDP

G = TypeVar("G", bound="AbstractGuarantee")


@dataclasses.dataclass(frozen=True, repr=False)
class AbstractGuarantee(abc.ABC):
    """What a mechanism promises about every pair of neighbouring databases.

    Guarantees are frozen and compare equal by their numbers and their `neighbours`; they convert by
    `to`, add up by `compose` and imply others by `within`. None of these mixes relations.

    Attributes:
        neighbours: Which databases are neighbours; by default those of the same size that differ in
            one record. Left out of texts and files where it is the default.
    """

    neighbours: AbstractNeighbours = dataclasses.field(
        default=REPLACE_ONE, kw_only=True, metadata=specs.LEFT_OUT
    )

    promises: ClassVar[bool] = True
    """Whether it promises anything."""

    takes_delta: ClassVar[bool] = False
    """Whether `to` this kind takes a delta."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", as_neighbours(self.neighbours))

    @property
    def parameters(self) -> dict[str, float]:
        """Its numbers by name, such as {"epsilon": 1.0}."""
        names = (field.name for field in dataclasses.fields(self) if field.name != "neighbours")
        return {name: getattr(self, name) for name in names}

    def with_parameters(self, **parameters: float) -> Self:
        """The same kind of guarantee, for the same neighbours, with other numbers."""
        changes: dict[str, Any] = dict(parameters)
        return dataclasses.replace(self, **changes)

    def with_neighbours(self, neighbours: AbstractNeighbours) -> Self:
        """The same numbers for other neighbours: a claim of yours, which nothing here implies.

        >>> from noisewise.mechanisms.guarantees import PureDP
        >>> PureDP(1.0).with_neighbours(ReplaceOne(unit="household"))
        PureDP(epsilon=1.0, neighbours=ReplaceOne(unit='household'))
        """
        return dataclasses.replace(self, neighbours=neighbours)

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in self.parameters.items()]
        if self.neighbours != REPLACE_ONE:
            shown.append(f"neighbours={self.neighbours!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def to(self, kind: type[G], *, delta: float | None = None) -> G:
        """The best guarantee of another kind that this one implies, for the same neighbours.

        Args:
            kind: PureDP, ApproximateDP, ZeroConcentratedDP or GaussianDP.
            delta: The delta of an `ApproximateDP`; other kinds take none.

        Raises:
            ConversionError: If this guarantee implies none of that kind.
            InvalidInputError: If `delta` comes with a kind that has none, or is not in [0, 1).

        >>> import noisewise as nw
        >>> nw.GaussianDP(1.0).to(nw.ZeroConcentratedDP)
        ZeroConcentratedDP(rho=0.5)
        >>> round(nw.GaussianDP(1.0).to(nw.ApproximateDP, delta=1e-5).epsilon, 6)
        4.377178
        """
        if not (isinstance(kind, type) and issubclass(kind, AbstractGuarantee)):
            raise InvalidTypeError(
                "to(...) expects one of the classes PureDP, ApproximateDP, ZeroConcentratedDP,"
                f" GaussianDP, got {kind!r}."
            )
        if delta is not None:
            if not kind.takes_delta:
                raise InvalidInputError(
                    f"delta only applies to ApproximateDP, not to {kind.__name__}: leave it out."
                )
            delta = number("delta", at_least=0.0, below=1.0)(delta)
        if not kind.promises:
            return kind(neighbours=self.neighbours)
        return self._to(kind, delta).with_neighbours(self.neighbours)  # type: ignore[return-value]

    def to_gaussian(self) -> GaussianDP:
        """The Gaussian guarantee whose noise gives this one, for calibrating Gaussian noise.

        mu is sqrt(2 rho) for rho-zCDP, and for (epsilon, delta) that of
        `GaussianDP.from_approximate`. PureDP, which no Gaussian noise gives, is converted by `to`.
        """
        return self._to_gaussian().with_neighbours(self.neighbours)

    def compose(self, *others: AbstractGuarantee) -> AbstractGuarantee:
        """The guarantee of releasing all of them about the same people, by `compose`."""
        from noisewise.mechanisms.guarantees import compose

        return compose([self, *others])

    def group(self, size: int) -> Self:
        """The guarantee for databases between which `size` steps from neighbour to neighbour lie.

        epsilon and mu are multiplied by the size, rho by its square, and delta by
        1 + e^epsilon + ... + e^((size-1) epsilon).

        Args:
            size: The number of steps: of records that differ, or of units added or removed.

        Raises:
            ConversionError: If the delta of the group would be 1 or more.
        """
        return self._group(integer("size", at_least=1)(size)).with_neighbours(self.neighbours)

    def for_replacement(self) -> Self:
        """The guarantee against replacing one record that one against adding or removing it gives.

        To replace a record is to remove it and to add another: two steps, so it is that of a
        `group` of two. It must be asked for, as it is weaker than what many mechanisms give
        directly.

        Raises:
            ConversionError: If this guarantee is not for `AddRemoveOne(max_contributions=1)`.

        >>> from noisewise.mechanisms.guarantees import PureDP
        >>> PureDP(0.5, neighbours=AddRemoveOne()).for_replacement()
        PureDP(epsilon=1.0)
        """
        relation = self.neighbours
        if not isinstance(relation, AddRemoveOne) or relation.max_contributions > 1:
            raise ConversionError(
                "for_replacement() turns a guarantee for AddRemoveOne(max_contributions=1), where"
                f" one record is one unit, into one for ReplaceOne(); this one is for {relation!r}."
            )
        return self.group(2).with_neighbours(ReplaceOne(relation.unit))

    def within(self, limit: AbstractGuarantee) -> bool:
        """Whether this guarantee implies `limit`, up to a relative slack of 1e-12.

        False also where no conversion is known, and where the two are about different neighbours or
        units.

        >>> from noisewise.mechanisms.guarantees import PureDP, ZeroConcentratedDP
        >>> PureDP(1.0).within(ZeroConcentratedDP(0.5))
        True
        >>> PureDP(1.0, neighbours=AddRemoveOne()).within(PureDP(1.0))
        False
        """
        if self.neighbours != limit.neighbours:
            return False
        try:
            return limit._implied_by(self)
        except ConversionError:
            return False

    @abc.abstractmethod
    def _implied_by(self, other: AbstractGuarantee) -> bool:
        """Whether another guarantee, for the same neighbours, implies this one."""

    @abc.abstractmethod
    def _delta_at(self, epsilon: float) -> float:
        """The smallest delta for which it is known to imply (epsilon, delta)-DP."""

    @abc.abstractmethod
    def _to(self, kind: type, delta: float | None) -> AbstractGuarantee: ...

    @abc.abstractmethod
    def _to_gaussian(self) -> GaussianDP: ...

    @abc.abstractmethod
    def _group(self, size: int) -> Self: ...

    def _refuse(self, kind: type, instead: str) -> ConversionError:
        return ConversionError(f"{type(self).__name__} does not imply any {kind.__name__}{instead}")

    def to_spec(self, *, beside: AbstractNeighbours = REPLACE_ONE) -> dict[str, Any]:
        """A JSON-ready description, such as {"type": "PureDP", "epsilon": 1.0}.

        Args:
            beside: The neighbours that are said elsewhere: these are left out.
        """
        described = {"type": type(self).__name__, **self.parameters}
        if self.neighbours == beside:
            return described
        return described | {"neighbours": self.neighbours.to_spec()}
