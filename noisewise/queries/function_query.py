"""A user's own function as a query."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, describe, is_traced, number
from noisewise._core.neighbours import (
    REPLACE_ONE,
    AbstractNeighbours,
    AddRemoveOne,
    as_neighbours,
)
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.queries._converters import as_written
from noisewise.queries.base import AbstractQuery

_FARTHEST = 2**44
"""Steps from 0; values farther out are released as if they were here. Differences of float64
multiples of a step are exact to 1/256 of it there, so that a sensitivity that was measured in
float64 is not too small for the steps that are counted.
"""

_ROUNDED = Fraction(1, 2**51)
"""Relative: the most by which rounding the step, the value, and one division between them may move
a multiple such as k / n.
"""

_NORMS = (0.0, 1.0, 2.0, math.inf)


@dataclasses.dataclass(frozen=True, init=False)
class FunctionQuery(AbstractQuery):
    r"""s = fn(x), a 1-D array or one number, for whatever x the simulator makes.

    With a `JaxSimulator` fn must be written in `jax.numpy`, with a `PythonSimulator` any Python
    will do. The sensitivity and the step are your claims: noisewise cannot derive them. Check the
    first with `audit.sensitivity(query, domain=...)`, and try fn on made-up records before you
    release from real ones: `query.integer_statistic(made_up)` costs nothing.

    Args:
        fn: The function from a database to s, shape (k,), or to one number.
        names: One name per entry of s; None if the width is to be found by a run.
        sensitivity: The largest change of s between neighbours: a number (in the L1 norm),
            or a mapping from norms (0 for the number of entries that change, 1, 2, math.inf) to
            numbers. As |s|_inf <= |s|_2 <= |s|_1, a bound in a smaller norm number also serves the
            larger ones.
        step: Every entry of s is a whole multiple of this number, whatever the data. A release
            adds whole numbers of steps; without `step` it takes s to be whole numbers.
        neighbours: The databases between which the sensitivity is stated. With `AddRemoveOne` the
            function must also take databases without records.

    Raises:
        InvalidTypeError: If fn is not a function, or names are not strings.
        InvalidInputError: If names repeat, or a sensitivity is not positive.

    >>> import numpy as np
    >>> import noisewise as nw
    >>> ends = lambda x: [np.min(x), np.max(x)]
    >>> query = nw.queries.FunctionQuery(ends, names=("min", "max"), sensitivity={1: 2.0, 2: 1.5})
    >>> query(np.array([3.0, 1.0, 2.0]))
    array([1., 3.])
    >>> query.sensitivity(norm=float("inf"))
    1.5
    >>> mean = nw.queries.FunctionQuery(lambda x: [sum(x) / 4], sensitivity=0.25, step=0.25)
    >>> mean.integer_statistic([1, 0, 1])
    [2]
    """

    norms: ClassVar[tuple[float, ...]] = _NORMS
    off_lattice: ClassVar[str] = (
        "Its values are not known to lie on a lattice: state one, as in step=1.0."
    )

    fn: Callable[[Any], Any]
    names: tuple[str, ...] | None = None
    stated: tuple[tuple[float, float], ...] = ()
    """The claimed sensitivities, as pairs (norm, value)."""
    step: float | None = None
    neighbours: AbstractNeighbours = REPLACE_ONE

    def __init__(
        self,
        fn: Callable[[Any], Any],
        names: Sequence[str] | None = None,
        sensitivity: float | Mapping[float, float] | None = None,
        step: float | None = None,
        neighbours: AbstractNeighbours = REPLACE_ONE,
    ) -> None:
        if not callable(fn) or isinstance(fn, type):
            raise InvalidTypeError(f"fn must be a function x -> s, got {describe(fn)}.")
        object.__setattr__(self, "fn", fn)
        object.__setattr__(self, "names", _as_names(names))
        object.__setattr__(self, "stated", _as_stated(sensitivity))
        object.__setattr__(self, "step", number("step", above=0.0, optional=True)(step))
        object.__setattr__(self, "neighbours", as_neighbours(neighbours))

    @property
    def num_records(self) -> None:  # type: ignore[override]
        """None: a function does not say how many records it takes."""

    @property
    def domain(self) -> None:
        """None: a function does not say what a record is."""

    @property
    def expected_data(self) -> str:
        many = "one or more" if self.width is None else self.width
        return (
            f"data for which its function returns {many} finite whole multiple(s) of"
            f" {self.step or 1.0:g} (try it on made-up records: query.integer_statistic(made_up))"
        )

    @property
    def has_spec(self) -> bool:
        return False

    def on_default_grid(self) -> FunctionQuery:
        """The query itself, or with a step of 1 if it states none."""
        return self if self.step is not None else self.on_lattice(1.0)

    def on_lattice(self, step: float) -> FunctionQuery:
        """The same query with another `step`."""
        return FunctionQuery(self.fn, self.names, dict(self.stated), step, self.neighbours)

    def _statistic(self, x: Any) -> Array:
        result = self.fn(x)
        try:
            xp = jnp if is_traced(result) else np
            s = xp.asarray(result, xp.float64)
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"fn must return a 1-D array of numbers, got {describe(result)}."
            ) from None
        s = s.reshape(1) if s.ndim == 0 else s
        if s.ndim != 1 or s.shape[0] == 0:
            raise InvalidInputError(
                f"fn must return a 1-D array with at least one entry, got shape {s.shape}."
            )
        if self.width not in (None, s.shape[0]):
            raise InvalidInputError(
                f"fn returned {s.shape[0]} entries, but names has {self.width}."
            )
        return s

    def _integers(self, x: Any) -> list[int]:
        """Exact: values are compared with multiples of the step as fractions."""
        values = np.asarray(self.fn(x), dtype=object)
        if values.ndim > 1 or values.size == 0 or self.width not in (None, values.size):
            raise InvalidInputError("fn must return a 1-D array with one entry per name.")
        steps = [_whole_steps(value, self.step) for value in values.ravel().tolist()]  # type: ignore[arg-type]
        return [min(max(number, -_FARTHEST), _FARTHEST) for number in steps]

    def _sensitivity(self, norm: float) -> float:
        return self._stated_for(norm, REPLACE_ONE)

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        return self._stated_for(norm, neighbours)

    def _stated_for(self, norm: float, neighbours: AbstractNeighbours) -> float:
        if self.stated and self.neighbours.of_unit(neighbours.unit) != neighbours:
            raise MissingCapabilityError(
                f"This FunctionQuery states its sensitivity for {self.neighbours!r}, not for"
                f" {neighbours!r}: pass neighbours=..., and the sensitivity that holds for them."
            )
        usable = [value for stated, value in self.stated if stated == norm or 1.0 <= stated < norm]
        if not usable:
            key = "math.inf" if math.isinf(norm) else f"{norm:g}"
            raise MissingCapabilityError(
                f"This FunctionQuery does not state its sensitivity in the L{norm:g} norm: pass"
                f" sensitivity={{{key}: ...}}, the largest change of s when one record is replaced."
            )
        return min(usable)


def as_query(obj: Any) -> AbstractQuery:
    """A query as it is, and a bare function as a `FunctionQuery`.

    Raises:
        InvalidTypeError: If it is anything else, such as a class.

    >>> as_query(lambda x: [x.mean()]).width is None
    True
    """
    if isinstance(obj, AbstractQuery):
        return obj
    if isinstance(obj, type) or not callable(obj):
        hint = f" Make an instance: {obj.__name__}(...)." if isinstance(obj, type) else ""
        raise InvalidTypeError(
            f"query must be a query or a function x -> s, got {describe(obj)}.{hint}"
        )
    return FunctionQuery(obj)


def _whole_steps(value: Any, step: float) -> int:
    """The number of steps that a value is, exactly or up to the rounding of float64, which is less
    than 1/128 of a step.

    >>> _whole_steps(0.3, 0.1), _whole_steps(3 * 0.1, 0.1), _whole_steps(2**60, 0.5)
    (3, 3, 2305843009213693952)
    >>> _whole_steps(4321 / 7000, 1 / 7000)
    4321
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, (float, numbers.Rational)):
        raise InvalidTypeError("fn must return numbers.")
    written = as_written(plain) if isinstance(plain, float) else Fraction(plain)
    steps = written / as_written(step)
    index = round(steps)
    off = abs(Fraction(plain) - index * Fraction(step))
    near = (
        isinstance(plain, float)
        and abs(index) <= _FARTHEST
        and off <= _ROUNDED * abs(Fraction(plain))
    )
    if index != steps and not near:
        raise InvalidInputError("fn must return whole multiples of step.")
    return index


def _as_names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence):
        raise InvalidTypeError(
            f"names must be a sequence of strings, one per entry of s, got {describe(names)}."
        )
    if (
        not names
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) != len(names)
    ):
        raise InvalidInputError(
            f"names must be one or more different strings, got {list(names)!r}."
        )
    return tuple(names)


def _as_stated(sensitivity: Any) -> tuple[tuple[float, float], ...]:
    if sensitivity is None:
        return ()
    stated = sensitivity if isinstance(sensitivity, Mapping) else {1: sensitivity}
    pairs = []
    for norm, value in stated.items():
        if isinstance(norm, bool) or norm not in _NORMS:
            raise InvalidInputError(
                f"sensitivity must map norms 0, 1, 2 or math.inf to numbers, got the key {norm!r}."
            )
        pairs.append((float(norm), number("sensitivity", above=0.0)(value)))
    return tuple(sorted(pairs))
