"""Whose privacy a table protects: what a file says of it, and what has to be said by hand."""

from __future__ import annotations

from typing import Any

from noisewise._core.arrays import describe
from noisewise._core.neighbours import AbstractNeighbours, AddRemoveOne, ReplaceOne
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.guarantees import AbstractGuarantee


def require_privacy(sensitivity: Any, guarantee: Any) -> None:
    """Refuse noise of which neither the sensitivity nor a guarantee is given.

    Raises:
        InvalidInputError: If neither is, or both are.
        InvalidTypeError: If the guarantee is none.
    """
    if guarantee is not None and not isinstance(guarantee, AbstractGuarantee):
        raise InvalidTypeError(
            f"guarantee must be one such as nw.PureDP(1.0), got {describe(guarantee)}."
        )
    if (sensitivity is None) == (guarantee is None):
        raise InvalidInputError(
            "The file has the noise, but not the sensitivity: give --sensitivity (sensitivity=), or"
            " what the publisher states, --epsilon or --rho (guarantee=), and not both."
        )


def relation_or_given(
    relation: str | None, contributions: int | None, given: Any, guarantee: Any
) -> AbstractNeighbours | None:
    """The relation of neighbours that a file says, completed by what is given.

    Args:
        relation: "add-remove" or "replace-one" where the file says it.
        contributions: In how many records neighbours differ, where the file says it.
        given: The relation as it is given; None for none.
        guarantee: A stated guarantee, which carries a relation.

    Returns:
        The relation; None where that of the guarantee holds.

    Raises:
        InvalidTypeError: If what is given is no relation.
        InvalidInputError: If it contradicts the file, or the file does not say enough.
    """
    if given is not None:
        _check_given(relation, contributions, given)
        return given
    if guarantee is not None:
        return None
    if relation == "replace-one" and contributions in (None, 1):
        return ReplaceOne()
    if relation == "add-remove" and contributions is not None:
        return AddRemoveOne(max_contributions=contributions)
    if relation == "add-remove":
        raise InvalidInputError(
            "Neighbours add or remove records, but the file does not say how many one person has:"
            " give --neighbours add-remove --max-contributions N"
            " (neighbours=nw.AddRemoveOne(max_contributions=N))."
        )
    raise InvalidInputError(
        "The file does not say which databases are neighbours: give --neighbours add-remove or"
        " replace-one (neighbours=nw.AddRemoveOne(...) or nw.ReplaceOne())."
    )


def _check_given(relation: str | None, contributions: int | None, given: Any) -> None:
    if not isinstance(given, AbstractNeighbours):
        raise InvalidTypeError(
            "neighbours must be a relation such as nw.AddRemoveOne(max_contributions=1), got"
            f" {describe(given)}."
        )
    if relation not in (None, given.label):
        raise InvalidInputError(
            f"The file says that neighbours are {relation}, not {given.label}: leave out"
            " --neighbours (neighbours=), or read another file."
        )
    stated = getattr(given, "max_contributions", contributions)
    if contributions not in (None, stated):
        raise InvalidInputError(
            f"The file says that neighbours differ in {contributions} records, not {stated}: leave"
            " out --max-contributions."
        )
