"""What files and people say of noise: mechanisms by their words, and whose privacy they protect."""

from __future__ import annotations

import dataclasses
from typing import Any

from noisewise import mechanisms
from noisewise._core.arrays import describe
from noisewise._core.neighbours import AbstractNeighbours, AddRemoveOne, ReplaceOne
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.readers.files import one_of

ADDITIVE: dict[str, type[AbstractMechanism]] = {
    "laplace": mechanisms.Laplace,
    "gaussian": mechanisms.Gaussian,
    "discrete-laplace": mechanisms.DiscreteLaplace,
    "discrete-gaussian": mechanisms.DiscreteGaussian,
}
"""Noise that is added, and has a scale."""
_FIXED: dict[str, type[AbstractMechanism]] = {
    "exact": mechanisms.Exact,
    "rounded": mechanisms.Rounded,
}
KNOWN = (*ADDITIVE, *_FIXED)
"""All words."""


@dataclasses.dataclass(frozen=True)
class Law:
    """A law of noise, as far as it is known.

    Attributes:
        kind: One of `KNOWN`.
        scale: Its scale; the standard deviation of Gaussian kinds.
        sensitivity: The largest change of the statistic between neighbours; None if unknown.
        threshold: The least number that is published; None where all are.
        base: What `rounded` rounds to.
        lowest: Where numbers end below, because they are stored without a sign; None for nowhere.
        highest: Where they end above.
        neighbours: The relation of neighbours that the sensitivity is for; None for the usual one.
    """

    kind: str
    scale: float | None = None
    sensitivity: Any = None
    threshold: float | None = None
    base: int | None = None
    lowest: float | None = None
    highest: float | None = None
    neighbours: AbstractNeighbours | None = None

    def mechanism(self) -> AbstractMechanism:
        """The mechanism.

        Raises:
            InvalidInputError: If what it needs is missing, or what it does not know is given.
        """
        made = self._additive() if self.kind in ADDITIVE else self._fixed()
        ends = {"low": self.lowest, "high": self.highest}
        if self.threshold is not None and (self.lowest is None or self.threshold > self.lowest):
            ends["low"] = None  # what lies at the end below is absent
        if given := {name: end for name, end in ends.items() if end is not None}:
            made = mechanisms.Clamped(made, **given)
        return made if self.threshold is None else mechanisms.Thresholded(made, self.threshold)

    def _additive(self) -> AbstractMechanism:
        if self.base is not None:
            raise InvalidInputError(f"A base belongs to rounded, and {self.kind} has none.")
        if self.scale is None:
            raise InvalidInputError(
                f"The scale of {self.kind} noise is needed: give --scale (scale=), a number or the"
                " name of a column."
            )
        relation = {} if self.neighbours is None else {"neighbours": self.neighbours}
        return ADDITIVE[self.kind](scale=self.scale, sensitivity=self.sensitivity, **relation)

    def _fixed(self) -> AbstractMechanism:
        if self.scale is not None or self.sensitivity is not None:
            raise InvalidInputError(f"{self.kind} has neither scale nor sensitivity.")
        if self.kind == "exact":
            return mechanisms.Exact()
        if self.base is None:
            raise InvalidInputError("What counts were rounded to is needed: give --base (base=).")
        return mechanisms.Rounded(base=self.base)


def kind_of(word: Any, what: str = "The mechanism") -> str:
    """One of `KNOWN`, for a word such as "discrete_laplace" or "DiscreteLaplace".

    Raises:
        InvalidInputError: If there is no such mechanism.

    >>> kind_of("DiscreteLaplace"), kind_of("geometric"), kind_of("Gaussian")
    ('discrete-laplace', 'discrete-laplace', 'gaussian')
    """
    same = str(word).lower().replace("_", "").replace("-", "").replace(" ", "")
    words = {kind.replace("-", ""): kind for kind in KNOWN} | {"geometric": "discrete-laplace"}
    return words[same] if same in words else one_of(word, KNOWN, what)


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
