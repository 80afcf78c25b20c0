"""Priors of numpyro programs: sampled sites become names, computed ones derived quantities."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from noisewise._core.arrays import Array, describe, in_float64
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.priors.dependent import DependentLaw

if TYPE_CHECKING:
    from noisewise.priors.prior import Prior

_SERVED = ("sample", "deterministic", "plate")


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A numpyro model with its arguments."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def trace(self, values: Mapping[str, Array]) -> dict[str, Any]:
        """What the program does where the given sites have the given values."""
        from numpyro import handlers

        seeded = handlers.seed(self.fn, jax.random.key(0))
        substituted = handlers.substitute(seeded, data=dict(values))
        trace: dict[str, Any] = handlers.trace(substituted).get_trace(*self.args, **self.kwargs)
        return trace


@dataclasses.dataclass(frozen=True)
class _SiteLaw:
    """The law of one site at values of others, found by running the program."""

    program: Program
    name: str

    def __call__(self, **values: Array) -> dist.Distribution:
        law: dist.Distribution = self.program.trace(values)[self.name]["fn"]
        return law


def prior_of(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    labels: Mapping[str, Any] | None,
) -> Prior:
    """The prior of a program.

    Args:
        fn: A numpyro model.
        args: Its arguments.
        kwargs: Its arguments by name.
        labels: Labels of entries by name.

    Raises:
        InvalidTypeError: If it is no function.
        InvalidInputError: If a site is no part of a prior.
    """
    from noisewise.priors.prior import Prior

    if not callable(fn):
        raise InvalidTypeError(
            "Prior.from_numpyro takes a numpyro model, a function that calls numpyro.sample, got"
            f" {describe(fn)}."
        )
    program = Program(fn, args, kwargs)
    with jax.enable_x64(True):
        trace = program.trace({})
        for site in trace.values():
            _check_site(site)
        latent = {name: site for name, site in trace.items() if site["type"] == "sample"}
        if not latent:
            raise InvalidInputError(
                f"The numpyro model {getattr(fn, '__name__', 'given')!r} samples nothing."
            )
        values = {name: site["value"] for name, site in latent.items()}
        laws = {name: _law(program, name, site["fn"], values) for name, site in latent.items()}
    prior = Prior(laws, labels=labels)
    computed = {name: site for name, site in trace.items() if site["type"] == "deterministic"}
    prior.derived = _derived(program, prior, computed)
    return prior


def _check_site(site: Mapping[str, Any]) -> None:
    """Refuse what is no part of a prior."""
    name, kind = site["name"], site["type"]
    if kind not in _SERVED:
        raise InvalidInputError(
            f"The site {name!r} is a numpyro.{kind}: a prior has numpyro.sample,"
            " numpyro.deterministic and numpyro.plate."
        )
    if kind == "sample" and site["is_observed"]:
        raise InvalidInputError(
            f"The site {name!r} is observed (or a numpyro.factor): a prior is what is believed"
            " before the data. Leave it out, and write the law of the data as the simulator, such"
            " as nw.simulators.JaxSimulator(fn)."
        )
    if kind == "sample" and _is_released(site["fn"]):
        raise InvalidInputError(
            f"The site {name!r} is Privatized, the law of what is released: leave the data site out"
            " of the program, or hide it, as in numpyro.handlers.block(program, hide=["
            f'"{name}"]): a prior has latent sites alone. The law of the counts is then'
            " nw.simulators.StatisticLaw(fn)."
        )
    if kind == "plate" and site["args"][0] != len(site["value"]):
        raise InvalidInputError(f"The plate {name!r} subsamples: leave out subsample_size.")
    if kind == "sample" and site.get("scale") is not None:
        raise InvalidInputError(f"The site {name!r} is scaled: leave out numpyro.handlers.scale.")


def _is_released(law: Any) -> bool:
    """Whether it is a `Privatized`, which draws what is confidential, in whatever wraps it."""
    while not hasattr(law, "confidential") and hasattr(law, "base_dist"):
        law = law.base_dist
    return hasattr(law, "confidential")


def _law(
    program: Program, name: str, law: dist.Distribution, values: Mapping[str, Array]
) -> dist.Distribution | DependentLaw:
    """The law of a site: itself, or a function of the sites that its parameters come from."""
    parents = _inputs_of(lambda given: program.trace(given)[name]["fn"], values)
    if not parents:
        return law
    later = [other for other in parents if list(values).index(other) >= list(values).index(name)]
    if later:
        raise InvalidInputError(
            f"The law of {name!r} depends on {later[0]!r}, as inside a scan: write it as one"
            " distribution, such as dist.GaussianRandomWalk or dist.MultivariateNormal."
        )
    return DependentLaw(name, parents, _SiteLaw(program, name))


def _inputs_of(
    fn: Callable[[dict[str, Array]], Any], values: Mapping[str, Array]
) -> tuple[str, ...]:
    """The names whose values the arrays in what `fn` returns are computed from."""

    def leaves(given: dict[str, Array]) -> list[Any]:
        return [leaf for leaf in jax.tree.leaves(fn(given)) if isinstance(leaf, jax.Array)]

    names = sorted(values)  # the order in which JAX flattens a dictionary
    jaxpr = jax.make_jaxpr(leaves)({name: values[name] for name in names}).jaxpr
    used = {id(out) for out in jaxpr.outvars}
    for equation in reversed(jaxpr.eqns):
        if any(id(out) in used for out in equation.outvars):
            used.update(map(id, equation.invars))
    counts = [len(jax.tree.leaves(values[name])) for name in names]
    owners = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
    found = {name for name, var in zip(owners, jaxpr.invars, strict=True) if id(var) in used}
    return tuple(name for name in values if name in found)


def _derived(
    program: Program, prior: Prior, sites: Mapping[str, Any]
) -> dict[str, Callable[[Array], Array]]:
    """A function of theta for each entry of each deterministic site."""
    derived: dict[str, Callable[[Array], Array]] = {}
    for name, site in sites.items():
        shape = jnp.shape(site["value"])
        for place in itertools.product(*map(range, shape)):
            label = f"{name}[{','.join(map(str, place))}]" if shape else name
            entry = sum(index * math.prod(shape[axis + 1 :]) for axis, index in enumerate(place))
            derived[label] = functools.partial(_value, program, prior, name, entry)
    return derived


@in_float64
def _value(program: Program, prior: Prior, name: str, entry: int, theta: Array) -> Array:
    return _values(program, prior, name, jnp.asarray(theta))[..., entry]


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _values(program: Program, prior: Prior, name: str, theta: Array) -> Array:
    """A deterministic site at each row of theta, flattened: shape (..., m)."""

    def one(row: Array) -> Array:
        return jnp.ravel(program.trace(prior.as_dict(row))[name]["value"])

    return jax.vmap(one)(theta.reshape(-1, theta.shape[-1])).reshape(*theta.shape[:-1], -1)
