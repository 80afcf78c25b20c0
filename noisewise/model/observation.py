"""The published numbers that a model is conditioned on, checked against that model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from noisewise import queries
from noisewise._compile.options import with_values
from noisewise._core.arrays import Array, as_float64, describe, in_float64, is_traced
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.model.cell_order import check_cells, same_noise_in_another_order, warn_of_labels
from noisewise.queries import AbstractQuery, FunctionQuery

if TYPE_CHECKING:
    from noisewise.disclosure import Release
    from noisewise.mechanisms.base import AbstractMechanism
    from noisewise.model.private_model import PrivateModel
    from noisewise.priors.prior import Prior


def cells_themselves(x: Any) -> Any:
    """The statistic of a simulator that draws the cells of a table: x is s."""
    return x


def statistic_of(release: Release, query: Any, prior: Prior) -> Any:
    """The query of the model of a release: the one that is given, else the one that the release
    names, else, where it is a table, its cells, which the simulator must draw; a prior with the
    labels of the cells in another order is warned of.

    Raises:
        InvalidInputError: If there is none of these.
    """
    from noisewise.disclosure import Release

    if query is None and isinstance(release, Release) and release.query is None and release.labels:
        warn_of_labels(prior, release.labels)
        return FunctionQuery(cells_themselves, names=release.names)
    return query_of(release) if query is None else query


def query_of(release: Release) -> AbstractQuery:
    """The query that a release describes.

    Raises:
        InvalidTypeError: If it is not a release.
        InvalidInputError: If the release does not name its query.
    """
    from noisewise.disclosure import Release

    if not isinstance(release, Release):
        expected = "a release, such as nw.Release.load(path) or nw.Release(values, mechanism)"
        raise InvalidTypeError(f"from_release takes {expected}, got {describe(release)}.")
    if release.query is None:
        raise InvalidInputError(
            "This release does not name its query: write nw.PrivateModel(prior=...,"
            " simulator=..., query=..., mechanism=release.mechanism) with the query as the curator"
            " describes it."
        )
    return queries.from_spec(dict(release.query))


def pair_of(model: Any, observed: Any) -> tuple[Any, Any]:
    """Model and observation, where one object may hold both: an `Analysis`, or a ready problem.

    Args:
        model: A model, or an object that holds `model` and `observed`.
        observed: The observation; None where the object holds it.
    """
    from noisewise.model.private_model import PrivateModel

    if isinstance(model, PrivateModel) or not isinstance(
        getattr(model, "model", None), PrivateModel
    ):
        return model, observed
    return model.model, model.observed if observed is None else observed


def checked(
    model: PrivateModel, observed: Release | Float[Array, " kp"]
) -> Float[np.ndarray, " kp"]:
    """The observation as an array, checked against the model.

    Args:
        model: The model that should have made it.
        observed: A release, or the released numbers.

    Returns:
        float64 numbers, shape (k',), all on the support of the mechanism; NaN where a cell is
        absent.

    Raises:
        InvalidInputError: If a release is of another mechanism or query, of other cells, or of
            them in another order, or a number is missing that the mechanism always publishes, or
            off the support.
        InvalidTypeError: If it is a tracer, or does not hold numbers.
    """
    from noisewise.disclosure import Release

    if isinstance(observed, Release):
        _check_origin(model, observed)
        observed = observed.observed
    if is_traced(observed):
        raise InvalidTypeError(
            "observed must have values, got a tracer: call observation outside jit, vmap and grad."
        )
    with with_values():  # s may be a tracer of the caller; the observation is not
        values = _as_array(observed)
        _check_entries(model, values)
        _check_support(model, values)
    return values


def _check_origin(model: PrivateModel, release: Release) -> None:
    """Refuse a release that another mechanism or query made."""
    if model.mechanism.unknown:
        raise InvalidInputError(
            "The mechanism of the model has unknown parameters, that of the release has none: pass"
            " release.observed, or write model.with_mechanism(release.mechanism)."
        )
    if not model.query.has_spec:
        own = getattr(model.query, "fn", None) is cells_themselves
        check_cells(model.query.names or (), release, are_labels=own)
    if not _same_description(model.mechanism, release.mechanism):
        if same_noise_in_another_order(model.mechanism, release.mechanism):
            raise InvalidInputError(
                "The release and the model have the same noise of each cell, but their cells are"
                " in another order: give nw.Release.from_table the rows in the model's order, or"
                " make the model from this release, with a law of the cells in its order."
            )
        raise InvalidInputError(
            f"The release was made by {release.mechanism!r}, but the mechanism of the model is"
            f" {model.mechanism!r}: write model.with_mechanism(release.mechanism), or build the"
            " model by nw.PrivateModel.from_release."
        )
    query = None if release.query is None else query_of(release)
    if query is not None and not _same_description(model.query, query):
        raise InvalidInputError(
            f"The release is of {query!r}, but the query of the model is"
            f" {model.query!r}: build the model by nw.PrivateModel.from_release. If both are the"
            " same statistic, pass release.observed."
        )


def _same_description(
    mine: AbstractQuery | AbstractMechanism, theirs: AbstractQuery | AbstractMechanism
) -> bool:
    """Whether two parts have the same description.

    One that holds a Python function has none: a query may then be the same, a mechanism is only if
    it is the same object.
    """
    try:
        return bool(mine.to_spec() == theirs.to_spec())
    except MissingCapabilityError:
        return isinstance(mine, AbstractQuery) or mine is theirs


@in_float64
def _as_array(observed: Any) -> Float[Array, " kp"]:
    return as_float64(observed, "observed")


def _check_entries(model: PrivateModel, values: np.ndarray) -> None:
    width, names = model.private_width, model.private_names
    if values.shape != (width,):
        fix = ": write observed[0]" if values.shape == (1, width) else ""
        raise InvalidInputError(
            f"observed must have shape ({width},), one number for each of {', '.join(names)}; got"
            f" {values.shape}{fix}."
        )
    possible = model.mechanism.support.may_be_absent(width)
    missing = [names[j] for j in np.flatnonzero(np.isnan(values) & ~possible)]
    if missing:
        raise InvalidInputError(
            f"observed must be numbers, but it is NaN for {', '.join(missing)}: if numbers below a"
            " threshold were not published, that is nw.mechanisms.Thresholded(mechanism,"
            " above=...); leave what was never measured out of the query and the mechanism."
        )


def _check_support(model: PrivateModel, values: np.ndarray) -> None:
    outside = np.flatnonzero(~model.mechanism.support.contains(values))
    if outside.size:
        name, value = model.private_names[outside[0]], float(values[outside[0]])
        raise InvalidInputError(
            f"The {type(model.mechanism).__name__} of the model releases"
            f" {model.mechanism.support.describe()}, but {name} is {value!r}: take the numbers as"
            " published and the mechanism that made them. If they were rounded or clipped after"
            " the noise, that is nw.mechanisms.Clamped(mechanism, low=..., high=..., step=...)."
        )
