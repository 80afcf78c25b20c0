"""What learnt objects that serve many observations share: how they look, their files, and what they
say of extrapolation.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from noisewise._core.arrays import describe
from noisewise._core.files import as_path, reading, require_keys
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

MASS_OUTSIDE = "mass where nothing was simulated"
EACH_BY_ITSELF = (
    "[fit.posterior(k, row) for k, row in zip(jax.random.split(key, len(observed)), observed)]"
)
_MOST_OUTSIDE = 0.05
_SHOWN = 6
_ORIGIN = ("names", "statistics", "prior", "mechanism")
Arrays = dict[str, np.ndarray]
_CONTENT = ("model", "estimator", "degree", "report", "own")


class AbstractFit(abc.ABC):
    """A density learnt from simulations of a model, for observations to come.

    `report` says how it was learnt; `estimator` describes the architecture, for files, and is None
    where that is a user's own. A file holds numbers, and a model code: `load` takes the model, and
    refuses one that differs in what a file can tell.
    """

    formula: ClassVar[str]
    """What is learnt."""
    usage: ClassVar[tuple[str, ...]]
    """Calls that make something of it, a posterior first."""
    for_many: ClassVar[str]
    """What serves many observations."""
    any_mechanism: ClassVar[bool] = False
    """Whether it was learnt from s, not from s_dp."""

    model: PrivateModel
    density: ConditionalDensity
    report: Report
    estimator: Mapping[str, Any] | None

    def save(self, path: Any, *, overwrite: bool = False) -> None:
        """Write a folder of arrays and JSON, without pickled objects; `load` reads it, with a
        `log_prob` equal to the last bit.
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
        """Read what `save` wrote. Altered or foreign files give a `FileFormatError`, another model
        an `InvalidInputError`.
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
            common = {
                "report": Report.from_spec(content["report"]),
                "estimator": content["estimator"],
            }
            return cls._read(model, density, content["own"], arrays, common)

    def _observation(self, observed: Any, model: PrivateModel) -> np.ndarray:
        """One observation (k',); where several came, the error says what serves them."""
        shape, width = _shape(observed), model.private_width
        if len(shape) == 2 and shape[0] != 1 and shape[1] == width:
            raise InvalidInputError(
                f"{self.usage[0]} takes one observation, of shape ({width},), got {shape}: for many"
                f" write {self.for_many}."
            )
        return model.observation(observed)

    def __repr__(self) -> str:
        statistics = "s" if self.any_mechanism else "s_dp"
        told = self.report.rounds[-1] if self.report.rounds else {}
        losses = {
            name.replace("_", " "): told.get(name) for name in ("validation_loss", "atomic_loss")
        }
        learnt = [f"{told['epochs']} epochs"] if "epochs" in told else []
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
    def _own_arrays(self) -> dict[str, np.ndarray]: ...

    @abc.abstractmethod
    def _own_content(self) -> dict[str, Any]: ...

    @classmethod
    @abc.abstractmethod
    def _read(
        cls,
        model: PrivateModel,
        density: ConditionalDensity,
        own: Any,
        arrays: Arrays,
        common: dict[str, Any],
    ) -> Self:
        """The object of a file, with what all have in `common`; whatever it raises becomes a
        `FileFormatError`.
        """

    @classmethod
    def _statistics(cls, model: PrivateModel) -> tuple[str, ...]:
        return model.statistic_names if cls.any_mechanism else model.private_names

    @classmethod
    def _origin(cls, model: PrivateModel) -> dict[str, Any]:
        """What a file tells of a model; nothing of a mechanism that is a user's own."""
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
    def _check_origin(cls, told: dict[str, Any], model: PrivateModel, what: str) -> None:
        expected = cls._origin(model)
        for name, noun in (("names", "parameters"), ("statistics", "statistics")):
            if not isinstance(told[name], list) or not all(
                isinstance(item, str) for item in told[name]
            ):
                raise FileFormatError(f"{what} must name its {noun} by a list of strings.")
            if told[name] != expected[name]:
                raise InvalidInputError(
                    f"{what} was fitted to a model with the {noun} {_listed(told[name])}, but this"
                    f" one has {_listed(expected[name])}."
                )
        if told["prior"] != expected["prior"]:
            raise InvalidInputError(
                f"{what} was fitted to a model with another prior: load it with the same one."
            )
        if told["mechanism"] != expected["mechanism"]:
            raise InvalidInputError(
                f"{what} serves the mechanism it was trained with, but that of the model,"
                f" {model.mechanism!r}, is another: write model.with_mechanism(...) with the one of"
                " the fit, or fit anew."
            )


def share_outside(z: np.ndarray, bounds: np.ndarray) -> float:
    """The share of draws z (N, p) outside the ranges [bounds[0], bounds[1]], each (p,), of
    simulated parameters.
    """
    return float(np.mean(((z < bounds[0]) | (z > bounds[1])).any(axis=1)))


def extrapolation(share: float) -> tuple[Finding, ...]:
    """What to say where a share of a posterior lies beyond all simulated parameters."""
    return (Finding(Kind.EXTRAPOLATION, {"share": share}),) * (share > _MOST_OUTSIDE)


def stored(
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


def check_dims(density: ConditionalDensity, target_dim: int, condition_dim: int) -> None:
    """Refuse a density of a file that does not fit the rest."""
    if density.dims != (target_dim, condition_dim):
        raise FileFormatError("its density does not fit its parameters and statistics.")


def _shape(observed: Any) -> tuple[int, ...]:
    try:
        return np.shape(observed)
    except ValueError:  # rows of several lengths, of which the model will say what is wrong
        return ()


def _listed(names: Any) -> str:
    shown = ", ".join(map(str, names[:_SHOWN]))
    return f"({shown})" if len(names) <= _SHOWN else f"({shown}, ... {len(names)} in all)"
