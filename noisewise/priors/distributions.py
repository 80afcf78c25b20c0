"""numpyro distributions as parts of a prior: checks, float64 parameters, a stable fingerprint."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import numpyro.distributions as dist

from noisewise._core.arrays import describe
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.priors.supports import bijection, bounds

if TYPE_CHECKING:
    import hashlib

_EXAMPLE = 'nw.Prior({"rate": dist.LogNormal(0, 1)})'
_NAME = re.compile(r"[^\s\[\],]+")
_SHAPING = (dist.ExpandedDistribution, dist.Independent)
_WITHOUT_DENSITY = (dist.Delta, dist.MaskedDistribution, dist.ImproperUniform)


def check_mapping(distributions: Any) -> Mapping[str, dist.Distribution]:
    """The mapping itself, if it is a non-empty one from usable names to numpyro distributions.

    Raises:
        InvalidTypeError: If it is not a mapping, or a value is not a distribution.
        InvalidInputError: If it is empty, or a name is not usable.
    """
    if not isinstance(distributions, Mapping):
        got = describe(distributions)
        raise InvalidTypeError(
            f"A prior is a mapping from names to distributions, such as {_EXAMPLE}; got {got}."
        )
    if not distributions:
        raise InvalidInputError(
            f"A prior needs at least one parameter, such as {_EXAMPLE}; got an empty mapping."
        )
    for name, value in distributions.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"Parameter names are strings without spaces, commas or brackets, got {name!r}."
            )
        is_law = isinstance(value, dist.Distribution) or callable(value)
        if isinstance(value, type) or not is_law:
            got = describe(value)
            if isinstance(value, type):
                got = f"the class {value.__name__}: write {value.__name__}(...)"
            raise InvalidTypeError(
                f"The prior of {name!r} must be a numpyro distribution, as {_EXAMPLE}, or a"
                f" function of names before it that returns one; got {got}."
            )
    return distributions


def as_law(name: str, given: dist.Distribution) -> dist.Distribution:
    """The distribution with float64 parameters and its batch axes made part of the event.

    Call under `jax.enable_x64(True)`. Parameters are NumPy arrays, so that the law survives
    pickling.

    Args:
        name: The name of the parameter, for messages.
        given: The distribution as the user built it.

    Raises:
        InvalidInputError: If it is discrete, has no density, an empty support or NaN parameters.
        MissingCapabilityError: If its support has no known unconstrained coordinates.
    """
    what = f"The prior of {name!r}, {kind(given)},"
    if _is_or_wraps(given, _WITHOUT_DENSITY):
        raise InvalidInputError(
            f"{what} has no density: fix its value inside the simulator, or give it a spread."
        )
    support = given.support
    if support is None or support.is_discrete:
        raise InvalidInputError(
            f"{what} is discrete, and parameters are continuous: draw it inside the simulator, or"
            " relax it."
        )
    try:
        bijection(support)
    except NotImplementedError:
        raise MissingCapabilityError(
            f"{what} has the support {support!r}, for which no unconstrained coordinates are known:"
            " write it as dist.TransformedDistribution of a law on real numbers, intervals or"
            " simplexes."
        ) from None
    law = jax.tree.map(functools.partial(_leaf, what), given.to_event(len(given.batch_shape)))
    low, high = bounds(law.support)
    if low is not None and high is not None and not np.all(np.asarray(low) < np.asarray(high)):
        raise InvalidInputError(
            f"{what} has an empty support: its lower bound must be below its upper bound."
        )
    return law


def kind(law: dist.Distribution) -> str:
    """The name of the distribution, whatever its shape.

    >>> kind(dist.Normal(0, 1).expand([3]).to_event(1))
    'Normal'
    """
    return kind(law.base_dist) if isinstance(law, _SHAPING) else type(law).__name__


def update(digest: hashlib._Hash, node: Any) -> None:
    """Feed the classes, static settings and parameters of a distribution to a hash, in an order
    that does not depend on the process.
    """
    digest.update(f"{type(node).__name__};".encode())
    if isinstance(node, np.ndarray):
        digest.update(repr(node.shape).encode() + node.astype("<f8").tobytes())
    elif node is None or isinstance(node, (str, bool, int, float)):
        digest.update(f"{node!r};".encode())
    for name, part in _parts(node):
        digest.update(f"{name}=".encode())
        update(digest, part)


def fields_of(law: dist.Distribution) -> dict[str, Any]:
    """The fields of a distribution that define it, by name in alphabetical order.

    >>> fields_of(dist.Normal(0.0, 1.0))["scale"]
    1.0
    """
    names = {*type(law).gather_pytree_data_fields(), *type(law).gather_pytree_aux_fields()}
    return {name: vars(law).get(name) for name in sorted(names - {"_validate_args"})}


def _parts(node: Any) -> list[tuple[str, Any]]:
    if isinstance(node, dist.Distribution):
        return [*fields_of(node).items()]
    if isinstance(node, (dist.transforms.Transform, dist.constraints.Constraint)):
        children, (names, static) = node.tree_flatten()
        return [*zip(names, children, strict=True), *sorted(static.items())]
    entries = node if isinstance(node, (tuple, list)) else ()
    return [(str(i), part) for i, part in enumerate(entries)]


def _leaf(what: str, leaf: Any) -> np.ndarray:
    if isinstance(leaf, jax.core.Tracer):
        raise InvalidInputError(
            f"{what} was made inside a JAX transformation: build the Prior outside it."
        )
    value = np.asarray(leaf)
    if value.dtype.kind not in "fiub":
        raise InvalidTypeError(f"{what} has a parameter of dtype {value.dtype}, not real numbers.")
    if np.isnan(value).any():
        raise InvalidInputError(f"{what} has a parameter that is NaN.")
    return value.astype(np.float64)


def _is_or_wraps(law: dist.Distribution, kinds: tuple[type, ...]) -> bool:
    wraps = isinstance(law, (*_SHAPING, dist.TransformedDistribution))
    return isinstance(law, kinds) or (wraps and _is_or_wraps(law.base_dist, kinds))
