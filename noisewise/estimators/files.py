"""Estimators to and from a JSON-ready description and plain arrays, without pickle.

A description names the factory and records every setting, defaults included:

    {"kind": "neural_spline_flow", "target_dim": 3, "condition_dim": 9, "num_members": 4,
     "settings": {"num_layers": 8, ...}}

An estimator behind an `Embedding` has one more entry, "embedding", with its sizes.

Reading runs the factory for the structure and puts the arrays in its place, after their names,
shapes and types have been compared with what the factory would make.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import describe, integer
from noisewise._core.json_files import reading, require_keys
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.conditioner import NUM_KNOTS, Conditioner, Scale
from noisewise.estimators.coordinate_mixtures import autoregressive_mixture
from noisewise.estimators.embedding import Embedding, embedded
from noisewise.estimators.flows import masked_autoregressive_flow, neural_spline_flow
from noisewise.estimators.mixture_density import mixture_density_network
from noisewise.estimators.parameter_scale import ParameterScale
from noisewise.estimators.whitening import Affine, Whitening, num_features

FACTORIES: dict[str, Callable[..., Any]] = {
    factory.__name__: factory
    for factory in (
        neural_spline_flow,
        masked_autoregressive_flow,
        mixture_density_network,
        autoregressive_mixture,
    )
}
_KEYS = ("kind", "target_dim", "condition_dim", "num_members", "settings")
_EMBEDDING = ("num_columns", "num_units", "num_hidden")
_CONDITIONER = ("centre", "inverse_width", "knots", "coefficients")
_BOUNDED = "scale.bounded"
"""1 for parameters that networks see by their place between two ends."""
_LARGEST = 4096
"""The largest whole number that a description may hold."""


def to_spec(
    factory: Callable[..., Any],
    target_dim: int,
    condition_dim: int | None,
    *,
    num_members: int | None = None,
) -> dict[str, Any]:
    """The description of what `factory(key, target_dim, condition_dim)` makes.

    Args:
        factory: A key of `FACTORIES` by value, or a `functools.partial` of one.
        target_dim: Columns of a target.
        condition_dim: Columns of a condition, or None.
        num_members: The size of an ensemble; None for a single estimator.

    Returns:
        The description, JSON-ready, with every setting.

    Raises:
        InvalidInputError: If the factory is a user's own, or has no such setting.

    >>> to_spec(functools.partial(mixture_density_network, num_units=20), 2, 3)["settings"]
    {'num_components': 8, 'num_units': 20, 'num_hidden': 2}
    """
    factory, settings = _unwrapped(factory)
    if factory is embedded:
        inner = to_spec(settings["inner"], target_dim, condition_dim, num_members=num_members)
        sizes = dataclasses.asdict(settings["embedding"].sized(target_dim))
        return {**inner, "embedding": sizes}
    kind = next((name for name, known in FACTORIES.items() if known is factory), None)
    if kind is None:
        raise InvalidInputError(
            f"Only estimators made by {', '.join(FACTORIES)}, or by functools.partial of one of"
            " them, can be saved: a file holds numbers, no code, and cannot rebuild"
            f" {getattr(factory, '__name__', describe(factory))!r}."
        )
    defaults = _defaults(kind)
    unknown = sorted(set(settings) - set(defaults))
    if unknown:
        raise InvalidInputError(
            f"{kind} has no setting {', '.join(unknown)}: its settings are {', '.join(defaults)}."
        )
    spec = {
        "kind": kind,
        "target_dim": integer("target_dim", at_least=1)(target_dim),
        "condition_dim": integer("condition_dim", at_least=0, optional=True)(condition_dim),
        "num_members": integer("num_members", at_least=1, optional=True)(num_members),
        "settings": {
            name: type(default)(settings.get(name, default)) for name, default in defaults.items()
        },
    }
    _check_sizes(spec)
    return spec


def to_arrays(estimator: Any) -> dict[str, np.ndarray]:
    """Every array of an estimator, or of an ensemble, by its place in it."""
    return {name: np.asarray(leaf) for name, leaf in _named_arrays(estimator)}


def from_spec(spec: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The estimator, or ensemble, of a description and its arrays.

    Args:
        spec: What `to_spec` made.
        arrays: What `to_arrays` made.

    Returns:
        An estimator with the same densities to the last bit.

    Raises:
        FileFormatError: If anything does not fit.

    >>> flow = neural_spline_flow(jax.random.key(0), 2, 3, num_layers=2)
    >>> spec = to_spec(functools.partial(neural_spline_flow, num_layers=2), 2, 3)
    >>> again = from_spec(spec, to_arrays(flow))
    >>> bool(again.log_prob(jnp.ones(2), jnp.ones(3)) == flow.log_prob(jnp.ones(2), jnp.ones(3)))
    True
    """
    with reading("The estimator"), jax.enable_x64(False):
        build = _builder(spec)
        if spec["settings"]["num_hidden"] > len(arrays):
            raise FileFormatError("it has fewer arrays than hidden layers.")
        _check_arrays(build, spec["num_members"], arrays)
        skeleton = build(jax.random.key(0))
        leaves, structure = jax.tree.flatten(skeleton)
        names = iter([name for name, _ in _named_arrays(skeleton)])
        filled = [
            jnp.asarray(arrays[next(names)]) if eqx.is_array(leaf) else leaf for leaf in leaves
        ]
        return jax.tree.unflatten(structure, filled)


def density_arrays(density: ConditionalDensity) -> dict[str, np.ndarray]:
    """Every array of a density: its members' and its standardisation's."""
    parts = {f"members.{name}": array for name, array in to_arrays(density.members).items()}
    whitening = density.whitening
    standardisation = _scale_arrays(density.condition_scale) | {
        "whitening.coefficients": whitening.coefficients,
        "whitening.root": whitening.root,
        "whitening.inverse_root": whitening.inverse_root,
    }
    return parts | {
        name: np.asarray(array, dtype=np.float64) for name, array in standardisation.items()
    }


def read_density(spec: Any, degree: Any, arrays: Mapping[str, np.ndarray]) -> ConditionalDensity:
    """The density of `density_arrays`.

    Args:
        spec: The description of its members.
        degree: Of the polynomial mean of its whitening.
        arrays: What `density_arrays` made; others are ignored.

    Raises:
        FileFormatError: If anything does not fit.
    """
    prefix = "members."
    members = from_spec(
        spec,
        {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)},
    )
    with reading("The density"):
        coefficients, root, inverse_root = (
            arrays[f"whitening.{n}"] for n in ("coefficients", "root", "inverse_root")
        )
        target_dim, condition_dim = spec["target_dim"], spec["condition_dim"] or 0
        if type(degree) is not int or degree not in (0, 1, 2) or spec["num_members"] is None:
            raise FileFormatError(
                "the degree of its mean must be 0, 1 or 2, and its members an ensemble."
            )
        expected = _scale_shapes(spec, arrays) | {
            "whitening.coefficients": (num_features(condition_dim, degree), target_dim),
            "whitening.root": (target_dim, target_dim),
            "whitening.inverse_root": (target_dim, target_dim),
        }
        for name, shape in expected.items():
            if (
                arrays[name].shape != shape
                or arrays[name].dtype != np.float64
                or not np.isfinite(arrays[name]).all()
            ):
                raise FileFormatError(
                    f"the array {name!r} must be finite, float64 and of shape {shape}."
                )
        if not (np.diag(root) > 0.0).all():
            raise FileFormatError("the root of its covariance must have a positive diagonal.")
        whitening = Whitening(coefficients, root, inverse_root, degree)
        return ConditionalDensity(members, _scale(arrays, "embedding" in spec), whitening)


def _scale_arrays(scale: Scale) -> dict[str, Any]:
    """The arrays of the map of conditions."""
    if isinstance(scale, Affine):
        return {"scale.mean": scale.mean, "scale.inverse_sd": scale.inverse_sd}
    if isinstance(scale, ParameterScale):
        return {**_scale_arrays(scale.affine), _BOUNDED: scale.bounded}
    own = {f"conditioner.{name}": getattr(scale, name) for name in _CONDITIONER}
    return {**_scale_arrays(scale.scale), **own}


def _scale_shapes(
    spec: dict[str, Any], arrays: Mapping[str, np.ndarray]
) -> dict[str, tuple[int, ...]]:
    """The shapes that they must have."""
    target_dim, width = spec["target_dim"], spec["condition_dim"] or 0
    if "embedding" not in spec:
        names = ("scale.mean", "scale.inverse_sd", *[_BOUNDED] * (_BOUNDED in arrays))
        return dict.fromkeys(names, (width,))
    width -= target_dim
    columns = ("scale.mean", "scale.inverse_sd", "conditioner.centre", "conditioner.inverse_width")
    return dict.fromkeys(columns, (width,)) | {
        "conditioner.knots": (width, NUM_KNOTS),
        "conditioner.coefficients": (1 + width * (1 + NUM_KNOTS), target_dim),
    }


def _scale(arrays: Mapping[str, np.ndarray], embedding: bool) -> Scale:
    """The map of conditions from its arrays."""
    affine = Affine(arrays["scale.mean"], arrays["scale.inverse_sd"])
    if not embedding:
        bounded = arrays.get(_BOUNDED)  # files from before there were any have none
        return affine if bounded is None else ParameterScale(affine, bounded > 0.0)
    return Conditioner(
        scale=affine, **{name: arrays[f"conditioner.{name}"] for name in _CONDITIONER}
    )


def _unwrapped(factory: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function of a factory, and the settings bound to it."""
    if not callable(factory):
        raise InvalidTypeError(
            f"factory must be a function such as neural_spline_flow, got {describe(factory)}."
        )
    if not isinstance(factory, functools.partial):
        return factory, {}
    # functools flattens nested partials, later settings over earlier ones
    if factory.args:
        raise InvalidInputError(
            "Give the settings of a factory by name: functools.partial(factory, num_units=100)."
        )
    return factory.func, dict(factory.keywords)


def _defaults(kind: str) -> dict[str, Any]:
    """The settings of a factory with their defaults."""
    parameters = inspect.signature(FACTORIES[kind]).parameters.values()
    return {part.name: part.default for part in parameters if part.kind is part.KEYWORD_ONLY}


def _builder(spec: Any) -> Callable[..., Any]:
    """What makes the estimator of a description, which is checked."""
    behind = isinstance(spec, dict) and "embedding" in spec
    require_keys(spec, (*_KEYS, "embedding") if behind else _KEYS, "The description")
    kind, settings = spec["kind"], spec["settings"]
    if not isinstance(kind, str) or kind not in FACTORIES:
        raise FileFormatError(f"its kind must be one of {', '.join(FACTORIES)}.")
    defaults = _defaults(kind)
    require_keys(settings, defaults, "The settings")
    for name, default in defaults.items():
        if type(settings[name]) is not type(default):
            raise FileFormatError(f"{name} must be a number of type {type(default).__name__}.")
    sizes = {name: spec[name] for name in ("target_dim", "condition_dim", "num_members")}
    if any(
        type(size) is not int
        for name, size in sizes.items()
        if size is not None or name == "target_dim"
    ):
        raise FileFormatError(f"{', '.join(sizes)} must be whole numbers.")
    integer("num_members", at_least=1, optional=True)(spec["num_members"])
    embedding = _embedding(spec["embedding"]) if behind else None
    _check_sizes(spec)
    factory, target_dim, condition_dim = FACTORIES[kind], spec["target_dim"], spec["condition_dim"]
    if embedding is None:
        return lambda key: factory(key, target_dim, condition_dim, **settings)
    return lambda key: embedded(
        key,
        target_dim,
        condition_dim,
        inner=functools.partial(factory, **settings),
        embedding=embedding,
    )


def _embedding(sizes: Any) -> Embedding:
    """The embedding of a description."""
    require_keys(sizes, _EMBEDDING, "The embedding")
    if any(type(size) is not int for size in sizes.values()):
        raise FileFormatError(f"{', '.join(_EMBEDDING)} must be whole numbers.")
    return Embedding(**sizes)


def _check_sizes(spec: dict[str, Any]) -> None:
    """Refuse sizes that would take all memory."""
    for name, size in {**spec, **spec["settings"], **spec.get("embedding", {})}.items():
        if isinstance(size, int) and size > _LARGEST:
            raise InvalidInputError(f"{name} must be at most {_LARGEST} in a file, got {size}.")


def _check_arrays(
    build: Callable[..., Any], num_members: int | None, arrays: Mapping[str, np.ndarray]
) -> None:
    """Compare with what the factory would make, before it allocates anything."""
    lead = () if num_members is None else (num_members,)
    expected = dict(_named_arrays(eqx.filter_eval_shape(build, jax.random.key(0))))
    if set(arrays) != set(expected):
        raise FileFormatError(
            f"it must have {len(expected)} arrays with the names its settings imply."
        )
    for name, leaf in expected.items():
        array = arrays[name]
        shape = (*lead, *leaf.shape)
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != leaf.dtype:
            raise FileFormatError(
                f"the array {name!r} must be {leaf.dtype} of shape {shape}, got {describe(array)}."
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FileFormatError(f"the array {name!r} has entries that are not finite.")


def _named_arrays(estimator: Any) -> list[tuple[str, Any]]:
    """Every array of an estimator, or its shape, with its place as a name."""
    leaves = jax.tree_util.tree_leaves_with_path(estimator)
    return [
        (jax.tree_util.keystr(path, simple=True, separator="."), leaf)
        for path, leaf in leaves
        if eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
    ]
