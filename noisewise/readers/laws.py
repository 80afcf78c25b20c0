"""Mechanisms by the words that files and command lines use for them."""

from __future__ import annotations

import dataclasses
from typing import Any

from noisewise import mechanisms
from noisewise._core.neighbours import AbstractNeighbours
from noisewise.errors import InvalidInputError
from noisewise.mechanisms import AbstractMechanism
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
