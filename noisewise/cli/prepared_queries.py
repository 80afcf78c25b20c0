"""What `noisewise release` publishes: a query, its data, and what its numbers are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noisewise.disclosure.tables.cells import RESERVED, names_of
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    from noisewise.queries import AbstractQuery


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A query, and how to read the confidential cells that it needs.

    Attributes:
        query: The statistic.
        read: Returns the cells, as the query takes them.
        refusal: What the cells must be, in words that depend on public facts alone.
        names: Names of the values, where the query's own would not say what was counted.
        labels: For each dimension of a table the label of each value; None for what is no table.
    """

    query: AbstractQuery
    read: Callable[[], Any]
    refusal: str
    names: tuple[str, ...] | None = None
    labels: dict[str, tuple[str, ...]] | None = None

    def with_labels(self, given: dict[str, tuple[str, ...]]) -> Prepared:
        """The same with labels that are given, in place of those of the same dimensions.

        Raises:
            InvalidInputError: If there is not one for each value.
        """
        if not given:
            return self
        names = self.query.private_names
        for dimension, each in given.items():
            if names is not None and len(each) != len(names):
                raise InvalidInputError(
                    f"--label {dimension} has {len(each)} labels, but {len(names)} numbers are"
                    " published: give one for each, in their order."
                )
        labels = {**(self.labels or {}), **given}
        return dataclasses.replace(self, labels=labels, names=self.names or names_of(labels))

    def labelled(self, labels: dict[str, tuple[str, ...]]) -> Prepared:
        """The same with labels of cells, by column; unless a column has a name that tables of
        releases use.
        """
        return self if set(labels) & set(RESERVED) else dataclasses.replace(self, labels=labels)
