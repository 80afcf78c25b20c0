"""What learnt objects that serve many observations share: their text, their files, and what they
say about extrapolation.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_float64, describe, in_float64
from noisewise._core.files import as_path
from noisewise._core.json_files import reading, require_keys
from noisewise._core.text import printable
from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
)
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.files import FACTORIES, density_arrays, read_density
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Finding, Kind, Report
from noisewise.runs import read_archive, write_archive

_ROWS = 256
"""Rows evaluated at a time: each is spread over the points of its cell, up to 16 of them."""
MASS_OUTSIDE = "mass where nothing was simulated"
EACH_BY_ITSELF = (
    "[fit.posterior(k, row) for k, row in zip(jax.random.split(key, len(observed)), observed)]"
)
MOST_OUTSIDE = 0.05
"""Share of the mass where nothing was simulated from which a reader is warned: a few percent of a
tail may lie there by chance.
"""
NUM_DRAWS = 4000
"""Draws that a learnt posterior keeps for summaries: quantiles have a Monte Carlo error of about
1/40 of a standard deviation.
"""
_SHOWN = 6
"""Names listed before the rest is counted: they fit on a line."""
_ORIGIN = ("names", "statistics", "prior", "mechanism")
Arrays = dict[str, np.ndarray]
_CONTENT = ("model", "estimator", "degree", "report", "own")


@dataclasses.dataclass(frozen=True)
class StoredFit:
    """What a file holds of a fit: what all kinds have, and `own` JSON and `arrays` of one kind."""

    model: PrivateModel
    density: ConditionalDensity
    report: Report
    estimator: Mapping[str, Any]
    own: Any
    arrays: Arrays

    def array(self, name: str, *shape: int | None, finite: bool = True) -> Float[np.ndarray, ...]:
        """One array of the file, which must be float64.

        Args:
            name: Its name.
            shape: Its shape, in which None stands for any positive size.
            finite: Whether all entries must be finite.

        Raises:
            FileFormatError: If it has another shape or other entries.
        """
        return stored_array(self.arrays, name, *shape, finite=finite)

    def check_dims(self, target_dim: int, condition_dim: int) -> None:
        """Refuse a density that does not fit the rest."""
        if self.density.dims != (target_dim, condition_dim):
            raise FileFormatError("its density does not fit its parameters and statistics.")


class AbstractFit(abc.ABC):
    """A density learnt from simulations of a model, for observations to come.

    `report` says how it was learnt; `estimator` describes the architecture, for files, and is None
    where that is a user's own. A file holds numbers, while a model is code: `load` takes the model,
    and refuses one that differs in what a file records of it.
    """

    formula: ClassVar[str]
    """What is learnt."""
    usage: ClassVar[tuple[str, ...]]
    """Calls that a user makes next, a posterior first."""
    for_many: ClassVar[str]
    """The call that serves many observations."""
    any_mechanism: ClassVar[bool] = False
    """Whether it was learnt from s, not from s_dp."""

    model: PrivateModel
    density: ConditionalDensity
    report: Report
    estimator: Mapping[str, Any] | None

    def save(self, path: Any, *, overwrite: bool = False) -> None:
        """Write a folder of arrays and JSON, without pickled objects; what `load` reads from it has
        the same `log_prob` to the last bit.

        Args:
            path: The folder to write.
            overwrite: Whether an archive that is already there may be replaced.

        Raises:
            InvalidInputError: If the architecture is a user's own, or there is an archive already.
        """
        if self.estimator is None:
            raise InvalidInputError(
                f"Only networks made by {', '.join(FACTORIES)}, or by functools.partial of one of"
                " them, can be saved: a file holds numbers, no code. Save posteriors instead."
            )
        content = {
            "model": self._origin(self.model),
            "estimator": dict(self.estimator),
            "degree": self.density.whitening.degree,
            "report": self.report.to_spec(),
            "own": self._own_content(),
        }
        arrays = {**self._own_arrays(), **density_arrays(self.density)}
        write_archive(path, type(self).__name__, content, arrays, overwrite=overwrite)

    @classmethod
    def load(cls, path: Any, model: PrivateModel) -> Self:
        """Read what `save` wrote.

        Args:
            path: The folder.
            model: The model it was fitted to, which files cannot hold.

        Returns:
            The fit, with the report of its training.

        Raises:
            FileFormatError: If files were altered, or hold something else.
            InvalidInputError: If the model differs from the one of the fit.
        """
        if not isinstance(model, PrivateModel):
            raise InvalidTypeError(
                f"{cls.__name__}.load(path, model) needs the PrivateModel it was fitted to, got"
                f" {describe(model)}."
            )
        _, content, arrays = read_archive(path, (cls.__name__,))
        what = f"The {cls.__name__} in {as_path(path).name}"
        require_keys(content, _CONTENT, what)
        cls._check_origin(require_keys(content["model"], _ORIGIN, what), model, what)
        with reading(what):
            density = read_density(content["estimator"], content["degree"], arrays)
            report = Report.from_spec(content["report"])
            stored = StoredFit(model, density, report, content["estimator"], content["own"], arrays)
            return cls._read(stored)

    def _observation(self, observed: Any, model: PrivateModel) -> Float[np.ndarray, " kp"]:
        """One observation (kp,); where several came, the error says which call serves them."""
        shape, width = _shape(observed), model.private_width
        if len(shape) == 2 and shape[0] != 1 and shape[1] == width:
            raise InvalidInputError(
                f"{self.usage[0]} takes one observation, of shape ({width},), got {shape}: for many"
                f" write {self.for_many}."
            )
        return model.observation(observed)

    def __repr__(self) -> str:
        statistics = "s" if self.any_mechanism else "s_dp"
        last = self.report.rounds[-1] if self.report.rounds else {}
        losses = {
            name.replace("_", " "): last.get(name) for name in ("validation_loss", "atomic_loss")
        }
        learnt = [f"{last['epochs']} epochs"] if "epochs" in last else []
        learnt += [
            f"{name} {value:.4g}" for name, value in losses.items() if isinstance(value, float)
        ]
        lines = [
            (
                f"{type(self).__name__}: {self.formula}, theta = {_listed(self.model.names)}, "
                f"{statistics} = {_listed(self._statistics(self.model))}"
            ),
            ", ".join([f"learnt from {self.report.num_simulations:,} simulations", *learnt]),
            *(f"warning: {text}" for text in self.report.warnings),
            f"next: {', '.join(self.usage)}, save(path)",
        ]
        return printable("\n  ".join(lines))

    @abc.abstractmethod
    def _own_arrays(self) -> Arrays:
        """The arrays that this kind alone puts into files."""

    @abc.abstractmethod
    def _own_content(self) -> dict[str, Any]:
        """The JSON that this kind alone puts into files."""

    @classmethod
    @abc.abstractmethod
    def _read(cls, stored: StoredFit) -> Self:
        """The object of a file; whatever this raises becomes a `FileFormatError`."""

    @classmethod
    def _statistics(cls, model: PrivateModel) -> tuple[str, ...]:
        """The names of the statistics that were learnt."""
        return model.statistic_names if cls.any_mechanism else model.private_names

    @classmethod
    def _origin(cls, model: PrivateModel) -> dict[str, Any]:
        """What a file records of a model; nothing about a mechanism that is a user's own."""
        try:
            mechanism = None if cls.any_mechanism else model.mechanism.to_spec()
        except MissingCapabilityError:
            mechanism = None
        return {
            "names": list(model.names),
            "statistics": list(cls._statistics(model)),
            "prior": model.prior.fingerprint(),
            "mechanism": mechanism,
        }

    @classmethod
    def _check_origin(cls, found: dict[str, Any], model: PrivateModel, what: str) -> None:
        """Refuse a model that differs from what a file records."""
        expected = cls._origin(model)
        for name, noun in (("names", "parameters"), ("statistics", "statistics")):
            if not isinstance(found[name], list) or not all(
                isinstance(item, str) for item in found[name]
            ):
                raise FileFormatError(f"{what} must name its {noun} by a list of strings.")
            if found[name] != expected[name]:
                raise InvalidInputError(
                    f"{what} was fitted to a model with the {noun} {_listed(found[name])}, but this"
                    f" one has {_listed(expected[name])}."
                )
        if found["prior"] != expected["prior"]:
            raise InvalidInputError(
                f"{what} was fitted to a model with another prior: load it with the same one."
            )
        if found["mechanism"] != expected["mechanism"]:
            raise InvalidInputError(
                f"{what} serves the mechanism it was trained with, but that of the model,"
                f" {model.mechanism!r}, is another: write model.with_mechanism(...) with the one of"
                " the fit, or fit again."
            )


def share_outside(z: Float[np.ndarray, "n p"], bounds: Float[np.ndarray, "2 p"]) -> float:
    """The share of draws z outside the range of simulated parameters, the rows of `bounds`."""
    return float(np.mean(((z < bounds[0]) | (z > bounds[1])).any(axis=1)))


def extrapolation(share: float) -> tuple[Finding, ...]:
    """The finding, if any, for a share of a posterior beyond all simulated parameters."""
    return (Finding(Kind.EXTRAPOLATION, {"share": share}),) * (share > MOST_OUTSIDE)


def stored_array(
    arrays: Mapping[str, np.ndarray], name: str, *shape: int | None, finite: bool = True
) -> np.ndarray:
    """The float64 array `name` of a file, of this shape, in which None stands for any positive
    size.
    """
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        size > 0 if wanted is None else size == wanted
        for size, wanted in zip(array.shape, shape, strict=True)
    )
    valid = fits and array.dtype == np.float64 and not np.isnan(array).any()
    if not valid or (finite and not np.isfinite(array).all()):
        raise FileFormatError(
            f"the array {name!r} has another shape or other entries than it should."
        )
    return array


def stored_counts(value: Any, names: tuple[str, ...]) -> dict[str, int]:
    """Positive whole numbers of a file, by name."""
    require_keys(value, names, "the settings of chains")
    if not all(type(count) is int and count > 0 for count in value.values()):
        raise FileFormatError(f"{', '.join(names)} must be positive whole numbers.")
    return dict(value)


def paired_rows(
    model: PrivateModel, values: Any, name: str, width: int, theta: Any
) -> tuple[Float[np.ndarray, "n w"], Float[np.ndarray, "n p"]]:
    """Statistics and parameters as arrays of the same number of rows.

    Args:
        model: The model, whose prior theta belongs to.
        values: Statistics, shape (n, width) or (width,).
        name: Their name, for messages.
        width: The number of their columns.
        theta: Parameters, shape (n, d) or (d,).

    Returns:
        Statistics, shape (n, width), and unconstrained parameters, shape (n, p).

    Raises:
        InvalidInputError: If a shape does not fit.
    """
    values, theta = rows_of(values, name, width), rows_of(theta, "theta", model.prior.dim)
    num = max(len(values), len(theta))
    z = np.broadcast_to(model.prior.unconstrain(theta), (num, model.prior.unconstrained_dim))
    return np.broadcast_to(values, (num, width)), z


@in_float64
def rows_of(values: Any, name: str, width: int) -> Float[np.ndarray, "n w"]:
    """`values` as a table of this width; one row may be given as a vector."""
    table = np.atleast_2d(np.asarray(as_float64(values, name)))
    if table.ndim != 2 or table.shape[1] != width:
        raise InvalidInputError(
            f"{name} must have shape (N, {width}) or ({width},), got {np.shape(values)}."
        )
    return table


def in_blocks(
    function: Callable[..., Array], *columns: Float[np.ndarray, "n w"]
) -> Float[np.ndarray, " n"]:
    """function(*columns), row by row, in blocks of 256 rows of which the last is filled up: one
    program serves every number of rows.
    """
    num = len(columns[0])
    with jax.enable_x64(True):
        parts = [
            np.asarray(function(*(column[rows] for column in columns)))
            for first in range(0, num, _ROWS)
            for rows in [np.minimum(np.arange(first, first + _ROWS), num - 1)]
        ]
    return np.concatenate(parts)[:num]


def _shape(observed: Any) -> tuple[int, ...]:
    """The shape of what a user gave, () where it has none."""
    try:
        return np.shape(observed)
    except ValueError:  # rows of several lengths: the model will say what is wrong
        return ()


def _listed(names: Any) -> str:
    """Names in parentheses; the first ones where there are many."""
    shown = ", ".join(map(str, names[:_SHOWN]))
    return f"({shown})" if len(names) <= _SHOWN else f"({shown}, ... {len(names)} in all)"
