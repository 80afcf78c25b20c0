"""Parameters by name inside a user's function."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterator
from typing import Any

from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError

Layout = tuple[tuple[str, tuple[int, ...]], ...]
"""The names of parameters with the shapes of their entries, in the order of theta."""


class NamedTheta:
    """One parameter vector that is read by name: `theta["rate"]` has the shape of "rate" in the
    prior, and `theta.array` is the vector itself.

    >>> import numpy as np
    >>> theta = NamedTheta(np.arange(3.0), (("mu", ()), ("rate", (2,))))
    >>> float(theta["mu"]), theta["rate"].tolist(), list(theta)
    (0.0, [1.0, 2.0], ['mu', 'rate'])
    """

    def __init__(self, array: Any, layout: Layout) -> None:
        self.array = array
        self._layout = dict(layout)

    def __getitem__(self, name: str) -> Any:
        start = 0
        for known, shape in self._layout.items():
            size = math.prod(shape)
            if known == name:
                part = self.array[start : start + size]
                return part.reshape(shape)
            start += size
        raise InvalidInputError(unknown_name(name, self._layout))

    def __getattr__(self, name: str) -> Any:
        known = () if name.startswith("_") else self._layout
        hint = f': write theta["{name}"]' if name in known else ""
        raise AttributeError(f"Parameters are read by name, and there is no theta.{name}{hint}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout)

    def __len__(self) -> int:
        return len(self._layout)

    def __repr__(self) -> str:
        return f"NamedTheta({', '.join(self._layout)})"


def unknown_name(name: Any, known: Any) -> str:
    """What is wrong with a name that a function reads, with a near one."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    read = "by name, as theta['mu']; theta.array is the vector"
    if not isinstance(name, str):
        return f"Parameters are read {read}. They are {', '.join(map(repr, known))}."
    return f"theta has no parameter {name!r}. It has {', '.join(map(repr, known))}.{hint}"


@dataclasses.dataclass(frozen=True)
class ByName:
    """A function of (source, named theta) as one of (source, vector).

    Attributes:
        fn: The user's function.
        layout: The names, which a model knows from its prior; None before.
    """

    fn: Callable[[Any, NamedTheta], Any]
    layout: Layout | None = None

    def __call__(self, source: Any, theta: Array) -> Any:
        return self.fn(source, named(theta, self.layout))


def named(theta: Array, layout: Layout | None) -> NamedTheta:
    """The named view of a vector.

    Raises:
        InvalidInputError: If no model has told the names yet.
    """
    if layout is None:
        raise InvalidInputError(
            "This simulator reads parameters by name, and the prior names them: use it through a"
            " nw.PrivateModel, as model.simulator."
        )
    return NamedTheta(theta, layout)
