"""Laws that depend on parameters before them: functions whose arguments are names of the prior."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from noisewise._core.arrays import Array, describe
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.priors.distributions import as_law, kind
from noisewise.priors.supports import bijection

_EXAMPLE = (
    'nw.Prior({"mu": dist.Normal(0, 1), "tau": dist.HalfNormal(1), "effect": lambda mu, tau:'
    " dist.Normal(mu, tau).expand([12])})"
)
_TRACING = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class DependentLaw:
    """The law of one name given others: a function from their values to a numpyro distribution.

    It is a pytree without leaves, so that it stands in compiled programs as their code does.

    Attributes:
        name: The name whose law it is.
        parents: The names that it depends on, which stand before it.
        fn: Called with one keyword argument per parent.
    """

    name: str
    parents: tuple[str, ...]
    fn: Callable[..., dist.Distribution]

    def __call__(self, **values: Array) -> dist.Distribution:
        """The law as the function gives it."""
        return self.fn(**values)

    def given(self, values: Mapping[str, Array]) -> dist.Distribution:
        """The law at values of the parents, each of the shape of one draw; batch axes of the law
        are made part of the event.
        """
        law = self.fn(**{parent: values[parent] for parent in self.parents})
        return law.to_event(len(law.batch_shape))


Law: TypeAlias = dist.Distribution | DependentLaw
"""A distribution, or a function of values before it."""


def laws_of(distributions: Mapping[str, Any]) -> tuple[list[Law], list[dist.Distribution]]:
    """The law of each name, and an example: dependent ones at central values of their parents.

    Call under `jax.enable_x64(True)`.

    Args:
        distributions: Distributions, and functions of names before them, by name.

    Raises:
        InvalidTypeError: If a function cannot be traced, or gives no distribution.
        InvalidInputError: If an argument is no earlier name, or a law does not serve.
    """
    laws: list[Law] = []
    examples: list[dist.Distribution] = []
    centres: dict[str, Array] = {}
    names = list(distributions)
    has_functions = not all(isinstance(law, dist.Distribution) for law in distributions.values())
    for name, given in distributions.items():
        if isinstance(given, dist.Distribution):
            example = law = as_law(name, given)
        else:
            dependent = (
                given
                if isinstance(given, DependentLaw)
                else DependentLaw(name, _parents(name, given, names), given)
            )
            law, example = dependent, _example(dependent, centres)
        laws.append(law)
        examples.append(example)
        if has_functions:
            onto = bijection(example.support)
            centres[name] = onto(jnp.zeros(onto.inverse_shape(example.event_shape)))
    return laws, examples


def _parents(name: str, fn: Callable[..., Any], names: Sequence[str]) -> tuple[str, ...]:
    """The arguments of a function, each the name of an earlier entry.

    An argument that has a default and is no name keeps it.
    """
    earlier = names[: names.index(name)]
    parents = []
    for argument in _arguments(name, fn):
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            raise InvalidInputError(
                f"The function of {name!r} has an argument {argument!s}: name the parameters that"
                f" it depends on, as in {_EXAMPLE}."
            )
        if argument.name not in names and argument.default is not argument.empty:
            continue
        if argument.name not in earlier:
            raise InvalidInputError(_not_earlier(name, argument.name, names, earlier))
        if argument.kind is argument.POSITIONAL_ONLY:
            raise InvalidInputError(
                f"The function of {name!r} takes {argument.name!r} by position alone: leave out"
                " the / in its signature."
            )
        parents.append(argument.name)
    if not parents:
        raise InvalidInputError(
            f"The function of {name!r} depends on no other parameter: give the distribution"
            f" itself, or name its parents, as in {_EXAMPLE}."
        )
    return tuple(parents)


def _arguments(name: str, fn: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    try:
        return tuple(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"The arguments of the function of {name!r} cannot be read: wrap it, as in {_EXAMPLE}."
        ) from None


def _not_earlier(name: str, argument: str, names: Sequence[str], earlier: Sequence[str]) -> str:
    """Why an argument is no parent, and what to write."""
    if argument == name:
        return f"{name!r} depends on itself: its function takes other names alone."
    if argument in names:
        return (
            f"{name!r} depends on {argument!r}, which stands after it: write {argument!r} before"
            f" {name!r} in the mapping. Two that depend on each other are one joint law, such as"
            " dist.MultivariateNormal."
        )
    near = difflib.get_close_matches(argument, earlier, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(map(repr, earlier)) or "none"
    return (
        f"{name!r} depends on {argument!r}, which is no parameter: {hint}The names before it are"
        f" {listed}. A constant is an argument with a default, as in lambda mu, size=12: ..."
    )


def _example(law: DependentLaw, centres: Mapping[str, Array]) -> dist.Distribution:
    """The law at central values of its parents, checked; the function is traced too."""
    _checked_call(law, {parent: centres[parent] for parent in law.parents})
    return as_law(law.name, law.given(centres))


def _checked_call(law: DependentLaw, values: dict[str, Array]) -> None:
    given: Any = None

    def traced(values: dict[str, Array]) -> Any:
        nonlocal given
        given = law.fn(**values)
        return [leaf for leaf in jax.tree.leaves(given) if isinstance(leaf, jax.Array)]

    try:
        jax.eval_shape(traced, values)
    except _TRACING as error:
        raise InvalidTypeError(
            f"The function of {law.name!r} must be written in JAX: jnp in place of np, jnp.where in"
            f" place of if, no float() of a parameter. {type(error).__name__} was raised."
        ) from error
    except Exception as error:
        raise InvalidInputError(
            f"The function of {law.name!r} failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(given, dist.Distribution):
        got = f"the class {given.__name__}" if isinstance(given, type) else describe(given)
        raise InvalidTypeError(
            f"The function of {law.name!r} must return a numpyro distribution, as in {_EXAMPLE};"
            f" it returned {got}."
        )


def describe_law(law: Law, example: dist.Distribution) -> str:
    """The kind of a law, with what it depends on.

    >>> from noisewise.priors import Prior
    >>> Prior({"mu": dist.Normal(0, 1), "e": lambda mu: dist.Normal(mu, 1).expand([12])})
    Prior(mu: Normal, e: Normal[12] given mu)
    """
    shape = list(example.event_shape) or ""
    given = f" given {', '.join(law.parents)}" if isinstance(law, DependentLaw) else ""
    return f"{kind(example)}{shape}{given}"
