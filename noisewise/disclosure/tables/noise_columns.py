"""The mechanism of a table's cells, from columns that say how each was made."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise._core.arrays import describe
from noisewise.disclosure.tables.cells import Label, as_label, rows_of
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms import Exact, PerCell, Unmeasured
from noisewise.mechanisms.base import AbstractMechanism

if TYPE_CHECKING:
    import pandas as pd

_SAME = 1e-12
"""Relative: how near the sd of calibrated noise must be to the one that was given."""
_DOUBLINGS = 200
"""Steps by which a scale is sought: enough for every float64."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """The public columns that say how each cell was made: those of `cells=` where it has them,
    since they must be known of cells whose rows are not in the frame.

    Attributes:
        frame: The published table.
        cells: The frame of public cells, or None.
        labels: For each dimension the label of each cell.
        rows: The row of the frame that holds each cell, -1 where none does.
    """

    frame: pd.DataFrame
    cells: Any
    labels: dict[str, tuple[Label, ...]]
    rows: np.ndarray

    def of(self, name: Any, role: str) -> list[Any]:
        """The entries of a column, one per cell; None where a row is not in the frame."""
        if self.cells is not None and isinstance(name, str) and name in self.cells.columns:
            return self.cells[name].tolist()
        entries = column_of(self.frame, name, role).tolist()
        return [entries[row] if row >= 0 else None for row in self.rows.tolist()]


def mechanism_of(
    mechanism: Any, given: dict[str, Any], by: Any, columns: Columns, unmeasured: np.ndarray
) -> AbstractMechanism:
    """The mechanism of all cells.

    Args:
        mechanism: One mechanism, a class, or a mapping.
        given: The columns of scales, standard deviations and variances by role, or None.
        by: The column that chooses among the mechanisms of a mapping.
        columns: The public columns.
        unmeasured: Of which cells nothing was measured.
    """
    stated = {role: name for role, name in given.items() if name is not None}
    if isinstance(mechanism, Mapping):
        if stated:
            raise InvalidInputError(
                f"{next(iter(stated))}= goes with a class of mechanisms; a mapping has mechanisms"
                " with their scales."
            )
        parts, which = _bycolumn_of(mechanism, by, columns, unmeasured)
    elif by is not None:
        raise InvalidInputError(
            f'by={by!r} chooses among mechanisms: pass a mapping, mechanism={{"key": mechanism,'
            " ...}."
        )
    elif isinstance(mechanism, type) and issubclass(mechanism, AbstractMechanism):
        parts, which = _by_scale(mechanism, stated, columns, unmeasured)
    elif not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(
            "mechanism must be one such as nw.mechanisms.Laplace(scale=3.0), its class with scale=,"
            f" sd= or variance=, or a mapping with by=, got {describe(mechanism)}."
        )
    elif stated:
        raise InvalidInputError(
            f"{next(iter(stated))}= goes with a class: write"
            f" mechanism=nw.mechanisms.{type(mechanism).__name__}, or leave it out."
        )
    else:
        parts, which = [mechanism], np.where(unmeasured, -1, 0)
        if not unmeasured.any():
            return mechanism
        if mechanism.width == len(which):  # it has numbers for the missing cells too
            parts = [mechanism.of_columns(np.flatnonzero(~unmeasured).tolist())]
    return _assembled(parts, which)


def _assembled(parts: list[AbstractMechanism], which: np.ndarray) -> AbstractMechanism:
    """The mechanism of all cells; -1 stands for those of which nothing was measured."""
    used = [number for number in range(len(parts)) if np.any(which == number)]
    kept = [parts[number] for number in used]
    if np.any(which < 0):
        kept, used = [*kept, Unmeasured()], [*used, -1]
    if len(kept) == 1:
        return kept[0]
    return PerCell(kept, [used.index(number) for number in which.tolist()])


def _bycolumn_of(
    mechanism: Mapping[Any, Any], by: Any, columns: Columns, unmeasured: np.ndarray
) -> tuple[list[AbstractMechanism], np.ndarray]:
    keys = [as_label(key) for key in mechanism]
    if not keys or not all(isinstance(part, AbstractMechanism) for part in mechanism.values()):
        raise InvalidTypeError(
            'mechanism must map the entries of a column to mechanisms, as in {"laplace":'
            " nw.mechanisms.DiscreteLaplace(scale=30.0)}."
        )
    if by is None:
        shown = ", ".join(repr(key) for key in keys[:3])
        raise InvalidInputError(
            f"mechanism is a mapping from {shown}: pass by=, the column that holds these."
        )
    entries = [as_label(entry) for entry in columns.of(by, "by")]
    which = np.full(len(entries), -1)
    for j, entry in enumerate(entries):
        if unmeasured[j]:
            continue
        if entry not in keys:
            cell = shown_cell(rows_of(columns.labels)[j])
            raise InvalidInputError(
                f"The cell {cell} has {by}={entry!r}, for which mechanism= has no entry"
                + (": give cells= a column of it." if columns.rows[j] < 0 else ".")
            )
        which[j] = keys.index(entry)
    return list(mechanism.values()), which


def _by_scale(
    kind: type[AbstractMechanism],
    stated: dict[str, Any],
    columns: Columns,
    unmeasured: np.ndarray,
) -> tuple[list[AbstractMechanism], np.ndarray]:
    """Noise of this kind with a scale per cell; a scale of 0 is a number without noise."""
    if len(stated) != 1 or "scale" not in inspect.signature(kind).parameters:
        raise InvalidInputError(
            f"mechanism={kind.__name__}, a class, needs exactly one of scale=, sd= and variance=,"
            " the column with the noise of each cell, and a class that has a scale; or pass a"
            f" mechanism such as nw.mechanisms.{kind.__name__}(...)."
        )
    role, name = next(iter(stated.items()))
    numbers = _noise(columns.of(name, role), f"{role}={name!r}", unmeasured, columns.labels)
    if role == "variance":
        numbers = np.sqrt(numbers)
    noisy, exact = ~unmeasured & (numbers > 0.0), ~unmeasured & (numbers == 0.0)
    scales = numbers if role == "scale" else _scales(kind, numbers, noisy)
    parts: list[AbstractMechanism] = [Exact()]
    which = np.where(exact, 0, np.where(noisy, 1, -1))
    if noisy.any():
        kept = scales[noisy]
        one = float(kept[0]) if np.ptp(kept) == 0.0 else kept
        parts.append(_made(kind, one))
    return parts, which


def _noise(
    entries: list[Any],
    column: str,
    unmeasured: np.ndarray,
    labels: dict[str, tuple[Label, ...]],
) -> np.ndarray:
    numbers = np.zeros(len(entries))
    for j in np.flatnonzero(~unmeasured).tolist():
        try:
            number = float(entries[j])
        except (TypeError, ValueError):
            number = math.nan
        if not (math.isfinite(number) and number >= 0.0):
            raise InvalidInputError(
                f"{column} must hold a number of 0 or more for every cell that was measured; that"
                f" of the cell {shown_cell(rows_of(labels)[j])} is {str(entries[j])[:40]!r}. Cells"
                " whose rows are not in the frame need it in a column of cells=."
            )
        numbers[j] = number
    return numbers


def _made(kind: type[AbstractMechanism], scale: Any) -> AbstractMechanism:
    make: Callable[..., AbstractMechanism] = kind
    return make(scale=scale)


def _scales(kind: type[AbstractMechanism], deviations: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    known = {sd: _scale_of(kind, sd) for sd in set(deviations[noisy].tolist())}
    return np.array([known.get(sd, 0.0) for sd in deviations.tolist()])


def _scale_of(kind: type[AbstractMechanism], sd: float) -> float:
    """The scale at which the noise has this standard deviation, by proportion or by bisection."""

    def deviation(scale: float) -> float:
        found = _made(kind, scale).noise_sd(1)[0]
        if found is None:
            raise InvalidInputError(
                f"The standard deviation of {kind.__name__} noise is not known: pass scale=."
            )
        return found

    scale = sd / deviation(1.0)
    if abs(deviation(scale) - sd) <= _SAME * sd:
        return scale
    low, high = 0.0, sd
    for _ in range(_DOUBLINGS):
        if deviation(high) >= sd:
            break
        high *= 2.0
    for _ in range(_DOUBLINGS):
        scale = 0.5 * (low + high)
        if scale in (low, high):
            break
        low, high = (scale, high) if deviation(scale) < sd else (low, scale)
    return scale


def column_of(frame: pd.DataFrame, name: Any, role: str) -> pd.Series:
    """A column of a frame, by its name."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"{role} must be the name of a column, got {describe(name)}.")
    if list(frame.columns).count(name) != 1:
        known = ", ".join(map(str, frame.columns))
        raise InvalidInputError(f"{role}={name!r} must be one of the columns: {known}.")
    return frame[name]


def shown_cell(row: tuple[Label, ...]) -> str:
    """The labels of a cell as messages show them."""
    return "(" + ", ".join(map(str, row)) + ")"
