"""The spaces in which densities are learnt, to and from JSON-ready descriptions and arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from noisewise._core.json_files import require_keys
from noisewise.errors import FileFormatError
from noisewise.inference.learned.common.atoms import Atoms
from noisewise.inference.learned.common.bends import Bend
from noisewise.inference.learned.common.fits import stored_array
from noisewise.inference.learned.common.statistic_space import StatisticSpace
from noisewise.inference.learned.likelihood.target_space import (
    AbstractSpread,
    AsItIs,
    Choices,
    Counts,
    MassAtEnds,
    OutOfTotal,
    Steps,
    TargetSpace,
)

_SPREADS: dict[str, type[AbstractSpread]] = {
    kind.__name__: kind for kind in (AsItIs, Choices, Counts, MassAtEnds, OutOfTotal, Steps)
}


def target_space_spec(space: TargetSpace) -> dict[str, Any]:
    """What the arrays of a space of private statistics leave open."""
    kinds = [type(spread).__name__ for spread in space.spreads]
    return {"spreads": kinds, "widths": list(space.widths), "kept": list(space.kept)}


def target_space_arrays(space: TargetSpace) -> dict[str, np.ndarray]:
    """The numbers of each of its spreads and of its bend, as vectors."""
    return _bend_arrays(space.bend) | {
        f"space.{i}.{field.name}": np.atleast_1d(
            np.asarray(getattr(spread, field.name), dtype=np.float64)
        )
        for i, spread in enumerate(space.spreads)
        for field in dataclasses.fields(spread)
    }


def read_target_space(spec: Any, arrays: Mapping[str, np.ndarray], width: int) -> TargetSpace:
    """The space of private statistics that a file describes.

    Args:
        spec: What `target_space_spec` made.
        arrays: What `target_space_arrays` made; others are ignored.
        width: The number of private statistics of the model.

    Raises:
        FileFormatError: If anything does not fit.
    """
    require_keys(spec, ("spreads", "widths", "kept"), "its space")
    kinds, widths = _checked_spreads(spec["spreads"], spec["widths"], width)
    spreads = tuple(_read_spread(i, _SPREADS[kind], arrays) for i, kind in enumerate(kinds))
    kept = _columns(spec["kept"], width)
    return TargetSpace(spreads, _read_bend(arrays, len(kept)), tuple(widths), kept)


def _bend_arrays(bend: Bend) -> dict[str, np.ndarray]:
    """The numbers of a bend."""
    return {
        "space.bend.centre": np.asarray(bend.centre, dtype=np.float64),
        "space.bend.scale": np.asarray(bend.scale, dtype=np.float64),
    }


def _read_bend(arrays: Mapping[str, np.ndarray], dim: int) -> Bend:
    """The bend of a space; files from before there were any have none."""
    if "space.bend.scale" not in arrays:
        return Bend.none(dim)
    centre, scale = (
        stored_array(arrays, f"space.bend.{name}", dim) for name in ("centre", "scale")
    )
    if (scale < 0.0).any():
        raise FileFormatError("the scales of its bend must not be negative.")
    return Bend(centre, scale)


def _checked_spreads(kinds: Any, widths: Any, width: int) -> tuple[list[str], list[int]]:
    """The names of spreads, and the columns of each, `width` in all."""
    if not isinstance(kinds, list) or not all(
        isinstance(kind, str) and kind in _SPREADS for kind in kinds
    ):
        raise FileFormatError(f"its spreads must be some of {', '.join(_SPREADS)}.")
    if (
        not isinstance(widths, list)
        or not all(type(w) is int and w > 0 for w in widths)
        or sum(widths) != width
    ):
        raise FileFormatError(f"its columns must be {width} in all.")
    if len(kinds) != len(widths):
        raise FileFormatError(
            "it is inconsistent (one spread per block of columns expected): get an unaltered copy."
        )
    return kinds, widths


def statistic_space_spec(space: StatisticSpace) -> dict[str, Any]:
    """What the arrays of a space of confidential statistics leave open."""
    return {"free": list(space.free), "lattices": list(space.lattices)}


def statistic_space_arrays(space: StatisticSpace) -> dict[str, np.ndarray]:
    """Its numbers."""
    names = ("offset", "matrix", "origin", "step", "low", "high")
    numbers = {name: np.asarray(getattr(space, name), dtype=np.float64) for name in names}
    if space.atoms.any:
        numbers |= {f"atoms.{name}": getattr(space.atoms, name) for name in ("at", "width")}
    return _bend_arrays(space.bend) | {f"space.{name}": value for name, value in numbers.items()}


def read_statistic_space(spec: Any, arrays: Mapping[str, np.ndarray], width: int) -> StatisticSpace:
    """The space of confidential statistics that a file describes.

    Args:
        spec: What `statistic_space_spec` made.
        arrays: What `statistic_space_arrays` made; others are ignored.
        width: The number of confidential statistics of the model.

    Raises:
        FileFormatError: If anything does not fit.
    """
    require_keys(spec, ("free", "lattices"), "its space")
    free = _columns(spec["free"], width)
    dim = len(free)
    offset, matrix = (
        stored_array(arrays, "space.offset", width),
        stored_array(arrays, "space.matrix", dim, width),
    )
    origin, step = (stored_array(arrays, f"space.{name}", dim) for name in ("origin", "step"))
    low, high = (
        stored_array(arrays, f"space.{name}", dim, finite=False) for name in ("low", "high")
    )
    lattices = _columns(spec["lattices"], dim, some=False)
    if lattices != tuple(np.flatnonzero(step).tolist()) or (step < 0.0).any():
        raise FileFormatError("its lattices must be the columns with a step.")
    numbers = offset, matrix, origin, step, low, high
    maps = _read_atoms(arrays, step), _read_bend(arrays, dim)
    return StatisticSpace(*numbers, *maps, free, lattices)


def _read_atoms(arrays: Mapping[str, np.ndarray], step: np.ndarray) -> Atoms:
    """The atoms of a space; files from before there were any have none."""
    if "space.atoms.at" not in arrays:
        return Atoms.none(step)
    at = stored_array(arrays, "space.atoms.at", None, len(step), finite=False)
    width = stored_array(arrays, "space.atoms.width", len(at), len(step))
    exists = np.isfinite(at)
    ordered = ((at[1:] > at[:-1]) | ~exists[1:]).all()
    if not ordered or ((width > 0.0) != exists).any() or (at == -np.inf).any():
        raise FileFormatError("its atoms must be in order, each with a width.")
    return Atoms(at, width, step)


def _read_spread(
    i: int, kind: type[AbstractSpread], arrays: Mapping[str, np.ndarray]
) -> AbstractSpread:
    """The spread of block i of columns."""
    size = None if kind is Choices else 1
    values = [
        stored_array(arrays, f"space.{i}.{field.name}", size, finite=False)
        for field in dataclasses.fields(kind)
    ]
    return kind(*(value if kind is Choices else value.reshape(()) for value in values))


def _columns(value: Any, width: int, *, some: bool = True) -> tuple[int, ...]:
    """Increasing numbers of columns, at least one where there must be `some`."""
    whole = isinstance(value, list) and all(type(j) is int and 0 <= j < width for j in value)
    if not whole or value != sorted(set(value)) or (some and not value):
        raise FileFormatError("numbers of columns must be whole, different and increasing.")
    return tuple(value)
