"""Which databases are neighbours: whom a guarantee protects, and against what comparison."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

from noisewise._core import specs
from noisewise._core.arrays import describe, integer
from noisewise._core.json_files import require_text
from noisewise.errors import InvalidInputError, InvalidTypeError

DEFAULT_UNIT = "person"
"""What one record stands for where nobody says anything else."""


@dataclasses.dataclass(frozen=True)
class AbstractNeighbours(abc.ABC):
    """A relation between databases. Guarantees promise that neighbours are hard to tell apart.

    Relations are frozen and equal by value. Guarantees, mechanisms and releases carry one; those of
    different relations do not add up.

    Attributes:
        unit: Whose privacy is protected, such as "person" or "household".
    """

    unit: str = DEFAULT_UNIT

    def __post_init__(self) -> None:
        require_text(self.unit, "unit")

    @abc.abstractmethod
    def describe(self) -> str:
        """Which databases are neighbours, in the words of a report."""

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """The short name that files of the first version and command lines use."""

    @property
    @abc.abstractmethod
    def has_public_number(self) -> bool:
        """Whether neighbours have the same number of records, which is then no secret."""

    def of_unit(self, unit: str) -> AbstractNeighbours:
        """The same relation between databases, for another unit."""
        return dataclasses.replace(self, unit=unit)

    def agrees_with(self, other: AbstractNeighbours) -> bool:
        """Whether it is the same relation, or would be if its default unit were that of `other`.

        Noise that was calibrated for one record protects whatever a record stands for, which the
        data say and the mechanism need not.

        >>> ReplaceOne().agrees_with(ReplaceOne(unit="household"))
        True
        >>> ReplaceOne(unit="school").agrees_with(ReplaceOne(unit="household"))
        False
        """
        return other in (self, self.of_unit(other.unit)) and self.unit in (other.unit, DEFAULT_UNIT)

    def to_spec(self) -> dict[str, Any]:
        """A JSON-ready description, such as {"type": "ReplaceOne", "unit": "person"}."""
        return {"type": type(self).__name__, **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class ReplaceOne(AbstractNeighbours):
    """Neighbours have the same size and differ in one record, which is replaced by another.

    The number of records is public. This is the default everywhere.

    Attributes:
        unit: What one record stands for.

    >>> print(ReplaceOne(unit="household").describe())
    databases that differ in one household, replaced by another; their number is public
    """

    def describe(self) -> str:
        return (
            f"databases that differ in one {self.unit}, replaced by another; their number is public"
        )

    @property
    def label(self) -> str:
        return "replace-one"

    @property
    def has_public_number(self) -> bool:
        return True


@dataclasses.dataclass(frozen=True)
class AddRemoveOne(AbstractNeighbours):
    """One of two neighbours has all records of one unit, the other has none of them.

    The number of records is confidential.

    Attributes:
        unit: Whose records are added or removed.
        max_contributions: The most records that one unit has. The publisher must enforce it, by
            leaving out what is beyond: no query looks at it.
        max_per_cell: The most of these that fall into one cell of a table; by default all of them.

    Raises:
        InvalidInputError: If a bound is below 1, or `max_per_cell` is above `max_contributions`.

    >>> AddRemoveOne(max_contributions=3)
    AddRemoveOne(unit='person', max_contributions=3, max_per_cell=3)
    >>> print(AddRemoveOne(max_contributions=3).describe())
    databases of which one has all records of a person, at most 3, and the other none; their number
    is confidential
    """

    max_contributions: int = 1
    max_per_cell: int = None  # type: ignore[assignment]  # max_contributions, once it is checked

    def __post_init__(self) -> None:
        AbstractNeighbours.__post_init__(self)
        most = integer("max_contributions", at_least=1)(self.max_contributions)
        cell = integer("max_per_cell", at_least=1, optional=True)(self.max_per_cell)
        if cell is not None and cell > most:
            raise InvalidInputError(
                f"max_per_cell must be at most max_contributions={most}, got {cell}: one cell holds"
                " no more records of a unit than there are."
            )
        object.__setattr__(self, "max_contributions", most)
        object.__setattr__(self, "max_per_cell", most if cell is None else cell)

    def describe(self) -> str:
        if self.max_contributions == 1:
            records = f"the record of one {self.unit}"
        else:
            cell = (
                f", at most {self.max_per_cell} of them in one cell"
                if self.max_per_cell < self.max_contributions
                else ""
            )
            records = f"all records of a {self.unit}, at most {self.max_contributions}{cell},"
        return (
            f"databases of which one has {records} and the other none; their number is confidential"
        )

    @property
    def label(self) -> str:
        return "add-remove"

    @property
    def has_public_number(self) -> bool:
        return False


REPLACE_ONE = ReplaceOne()
"""The default, one object: what is left out of files and texts."""

RELATIONS: dict[str, type[AbstractNeighbours]] = {
    kind.__name__: kind for kind in (ReplaceOne, AddRemoveOne)
}
"""The relations that files may name."""


def as_neighbours(value: Any, name: str = "neighbours") -> AbstractNeighbours:
    """A relation, checked; the default is always the same object.

    Args:
        value: What was given.
        name: The argument, as messages name it.

    Raises:
        InvalidTypeError: If it is something else, such as a class or a string.

    >>> as_neighbours(ReplaceOne()) is REPLACE_ONE
    True
    """
    if not isinstance(value, AbstractNeighbours):
        raise InvalidTypeError(
            f"{name} must be nw.ReplaceOne() or nw.AddRemoveOne(), got {describe(value)}."
        )
    return REPLACE_ONE if value == REPLACE_ONE else value


def joint_relation(
    carried: AbstractNeighbours, given: AbstractNeighbours | None, holder: str
) -> AbstractNeighbours:
    """The relation that something carries or that is given for it; the default yields to the other.

    Args:
        carried: What a guarantee or a mechanism carries.
        given: What was passed beside it, or None.
        holder: What carries it, as messages name it: "guarantee", say.

    Raises:
        InvalidInputError: If the two contradict each other.

    >>> joint_relation(ReplaceOne(), AddRemoveOne(), "guarantee")
    AddRemoveOne(unit='person', max_contributions=1, max_per_cell=1)
    """
    if given is None:
        return carried
    given = as_neighbours(given)
    if carried != REPLACE_ONE and not carried.agrees_with(given):
        raise InvalidInputError(
            f"neighbours is {given!r}, but the {holder} is for {carried!r}: leave neighbours out,"
            f" or state the {holder} for the same neighbours."
        )
    return given


def neighbours_from_spec(spec: Any) -> AbstractNeighbours:
    """The relation that `to_spec` described.

    Raises:
        FileFormatError: If `spec` is anything else.

    >>> neighbours_from_spec(AddRemoveOne(max_contributions=2).to_spec())
    AddRemoveOne(unit='person', max_contributions=2, max_per_cell=2)
    """
    kind = specs.named_class(spec, RELATIONS, "A relation of neighbours")
    fields = {name: value for name, value in spec.items() if name != "type"}
    return as_neighbours(specs.built(kind, fields))
