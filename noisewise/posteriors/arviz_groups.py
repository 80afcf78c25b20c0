"""A posterior as arviz takes it: groups of draws, predictions and log likelihoods, as
`InferenceData` of arviz 0.x or as the `xarray.DataTree` of arviz 1.x.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from noisewise._core.arrays import Array, as_key, as_vectors, describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import Capability

if TYPE_CHECKING:
    import xarray

    from noisewise.model.private_model import PrivateModel
    from noisewise.posteriors.base import AbstractPosterior

NUMBERS = "s_dp"
"""The variable of released numbers, in every group that has them."""
CELL = "cell"
"""Its dimension: one place per released number, whose coordinate is the name."""
_SAMPLES = ("chain", "draw")
_ENTRY = re.compile(r"([^\[\]]+)\[(.+)\]")
_ERROR_MODEL = "misspecification "
"""How the numbers begin that methods report whose error model stands in for the mechanism."""


def arviz_data(
    posterior: AbstractPosterior,
    columns: Mapping[str, Float[np.ndarray, " m"]],
    rows: Int[np.ndarray, "c n"],
    model: PrivateModel | None,
    observed: Any,
    key: Array | int,
) -> Any:
    """What `posterior.to_arviz` returns.

    Args:
        posterior: The posterior.
        columns: Its parameters and derived quantities by name.
        rows: Which of its draws, by chain.
        model: Its model, or None.
        observed: The released numbers or the release, or None.
        key: A PRNG key or a whole number, for what is drawn.
    """
    _check(posterior, model)
    groups = {"posterior": _parameters({name: values[rows] for name, values in columns.items()})}
    released = _Released(model, observed)
    if model is not None:
        groups.update(_of_model(posterior, rows, model, released, _as_key(key)))
    if released.values is not None:
        groups["observed_data"] = released.dataset(released.values)
    return _joined(groups, posterior.report.method)


class _Released:
    """Released numbers: their names, their labels, and their values where they are given."""

    def __init__(self, model: PrivateModel | None, observed: Any) -> None:
        from noisewise.disclosure import Release

        table = observed if isinstance(observed, Release) else None
        self.values: np.ndarray | None = None
        if observed is not None:
            self.values = _numbers(observed) if model is None else model.observation(observed)
        width = 0 if self.values is None else len(self.values)
        if table is not None and table.names:
            names: Sequence[str] = table.names
        elif model is not None:
            names = model.private_names
        else:
            names = [f"{NUMBERS}[{j}]" for j in range(width)]
        self.names = np.array(names, dtype=str)
        self.labels = {
            name: _as_coordinate(labels)
            for name, labels in ((table and table.labels) or {}).items()
            if name not in (*_SAMPLES, CELL, NUMBERS)
        }

    def dataset(
        self, values: np.ndarray, kept: Bool[np.ndarray, " kp"] | None = None, **facts: str
    ) -> xarray.Dataset:
        """Numbers (..., k') as a group; those of some cells only, where `kept` says which."""
        import xarray

        chosen = slice(None) if kept is None else kept
        coordinates: dict[str, Any] = {CELL: self.names[chosen]}
        coordinates |= {name: (CELL, column[chosen]) for name, column in self.labels.items()}
        samples = _samples(values) if values.ndim > 1 else {}
        variable = ((*samples, CELL), values[..., chosen])
        return xarray.Dataset({NUMBERS: variable}, {**samples, **coordinates}, facts)


def _of_model(
    posterior: AbstractPosterior,
    rows: Int[np.ndarray, "c n"],
    model: PrivateModel,
    released: _Released,
    key: Array,
) -> Iterator[tuple[str, xarray.Dataset]]:
    """The groups that need the model."""
    prior_key, simulate_key, noise_key = jax.random.split(key, 3)
    theta = model.prior.sample(prior_key, rows.size)
    drawn = dict(zip(model.names, theta.T, strict=True)) | model.derived_quantities(theta)
    yield "prior", _parameters({name: values[None] for name, values in drawn.items()})

    theta = posterior.theta[rows.ravel()]
    s = model.statistics(simulate_key, theta, faults=model.new_faults())
    if Capability.SAMPLE in model.mechanism.capabilities:
        s_dp = np.asarray(model.mechanism.sample(noise_key, s)).reshape(*rows.shape, -1)
        yield "posterior_predictive", released.dataset(s_dp)
    if released.values is not None:
        yield from _log_likelihood(posterior, rows, model, released, s)


def _log_likelihood(
    posterior: AbstractPosterior,
    rows: Int[np.ndarray, "c n"],
    model: PrivateModel,
    released: _Released,
    simulated: Float[np.ndarray, "m k"],
) -> Iterator[tuple[str, xarray.Dataset]]:
    """The group of log likelihoods, if a law is known; its attribute `given` says which it is."""
    kept = _measured(model)
    values = model.log_likelihood(posterior.theta[rows.ravel()], released.values)
    given = "theta"
    statistics = _statistics(posterior, model)
    if values is None and statistics is not None:
        given = "confidential statistics"
        values = np.asarray(
            model.mechanism.log_prob_each(released.values, statistics[rows.ravel()])
        )
        complete = simulated[np.isfinite(simulated).all(axis=1)]
        elsewhere = np.asarray(model.mechanism.log_prob_each(released.values, complete))
        kept &= np.isfinite(elsewhere).all(axis=0)
    if values is not None and kept.any():
        values = values.reshape(*rows.shape, -1)
        yield "log_likelihood", released.dataset(values, kept, given=given)


def _statistics(
    posterior: AbstractPosterior, model: PrivateModel
) -> Float[np.ndarray, "n k"] | None:
    """Confidential statistics, if they were drawn by the density of the mechanism, and released
    numbers are independent given them.
    """
    report, able, s = posterior.report, model.mechanism.capabilities, posterior.statistics
    if s is None or s.shape[1] != model.statistic_width or report.partial:
        return None
    if any(name.startswith(_ERROR_MODEL) for name in report.numbers):
        return None
    apart = Capability.CDF in able or model.private_width == 1
    return s if apart and Capability.DENSITY in able else None


def _measured(model: PrivateModel) -> Bool[np.ndarray, " kp"]:
    """Which released numbers say something."""
    return np.array(model.mechanism.measured(model.statistic_width), dtype=bool)


def _parameters(columns: Mapping[str, Float[np.ndarray, "c n"]]) -> xarray.Dataset:
    """Named draws as a group: entries "beta[0]", "beta[1]" are one variable `beta`, whose
    coordinates are what stands in brackets.
    """
    import xarray

    taken = sorted(set(columns) & set(_SAMPLES))
    if taken:
        raise InvalidInputError(
            f"arviz has a dimension {taken[0]!r} of its own: give the parameter or derived quantity"
            " of that name another one."
        )
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = _samples(next(iter(columns.values()))[..., None])
    for base, names in _by_variable(columns).items():
        entries = [match[2] for name in names if (match := _ENTRY.fullmatch(name))]
        if not entries or base in columns:
            variables |= {name: (_SAMPLES, columns[name]) for name in names}
            continue
        axes = _axes(entries)
        dimensions = [f"{base}_dim_{number}" for number in range(len(axes))]
        values = np.stack([columns[name] for name in names], axis=-1)
        shape = (*values.shape[:2], *map(len, axes))
        variables[base] = ((*_SAMPLES, *dimensions), values.reshape(shape))
        coordinates |= dict(zip(dimensions, map(_as_coordinate, axes), strict=True))
    return xarray.Dataset(variables, coordinates)


def _by_variable(names: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names by what stands before their bracket."""
    found: dict[str, list[str]] = {}
    for name in names:
        match = _ENTRY.fullmatch(name)
        found.setdefault(match[1] if match else name, []).append(name)
    return found


def _axes(entries: list[str]) -> list[list[str]]:
    """The labels along each axis of entries such as "0,1"; one axis where they fill no box.

    >>> _axes(["0,0", "0,1", "1,0", "1,1"]), _axes(["North, 2020", "South, 2021"])
    ([['0', '1'], ['0', '1']], [['North, 2020', 'South, 2021']])
    """
    parts = [entry.split(",") for entry in entries]
    if len({len(part) for part in parts}) == 1:
        axes = [list(dict.fromkeys(axis)) for axis in zip(*parts, strict=True)]
        if [list(place) for place in itertools.product(*axes)] == parts:
            return axes
    return [entries]


def _as_coordinate(labels: Sequence[Any]) -> np.ndarray:
    """Labels as an array that files can hold: numbers, or texts, empty where there is none.

    >>> _as_coordinate(["0", "1"]).dtype.kind, _as_coordinate(["North", None]).tolist()
    ('i', ['North', ''])
    """
    if all(isinstance(label, str) and re.fullmatch(r"0|[1-9]\d{0,17}", label) for label in labels):
        return np.array([int(label) for label in labels], dtype=np.int64)
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        return np.array(labels)
    return np.array(["" if label is None else str(label) for label in labels], dtype=str)


def _samples(values: Float[np.ndarray, "c n m"]) -> dict[str, np.ndarray]:
    """The coordinates of draws by chain."""
    return dict(zip(_SAMPLES, map(np.arange, values.shape[:2]), strict=True))


def _joined(groups: Mapping[str, xarray.Dataset], method: str) -> Any:
    """The groups as the arviz that is installed takes them."""
    from noisewise import __version__

    facts = {
        "inference_library": "noisewise",
        "inference_library_version": __version__,
        "method": method,
    }
    groups = {name: group.assign_attrs(facts) for name, group in groups.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
        import xarray

        container = vars(arviz).get("InferenceData")  # 1.x answers for it with a warning
        return xarray.DataTree.from_dict(groups) if container is None else container(**groups)


def _numbers(observed: Any) -> Float[np.ndarray, " kp"]:
    """Released numbers that no model checks."""
    with jax.enable_x64(True):
        values = np.asarray(as_vectors(getattr(observed, "observed", observed), "observed"))
    if values.ndim != 1:
        raise InvalidInputError(
            f"observed must have shape (k,), one entry per released number, got {values.shape}."
        )
    return values


def _check(posterior: AbstractPosterior, model: Any) -> None:
    from noisewise.model.private_model import PrivateModel

    if model is None:
        return
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            "to_arviz takes the model of the posterior, as in posterior.to_arviz(model, observed),"
            f" got {describe(model)}."
        )
    if posterior.names != model.names:
        raise InvalidInputError(
            f"The posterior has the parameters {', '.join(posterior.names)}, but the model has"
            f" {', '.join(model.names)}: pass the model that it was inferred with."
        )


def _as_key(key: Any) -> Array:
    whole = isinstance(key, int) and not isinstance(key, bool)
    return jax.random.key(key) if whole else as_key(key)
