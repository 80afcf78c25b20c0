"""The prior of some of the names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from noisewise.errors import InvalidInputError
from noisewise.priors.dependent import DependentLaw, Law
from noisewise.priors.prior import Prior

if TYPE_CHECKING:
    from noisewise.priors.labels import Labels


def part_of(prior: Prior, kept: Collection[str]) -> Prior:
    """The prior of the names in `kept`, in the order of the prior.

    Args:
        prior: The prior of all names.
        kept: Some of its names.

    Raises:
        InvalidInputError: If a name is unknown, or depends on one that is left out.
    """
    laws = prior.distributions
    unknown = [name for name in kept if name not in laws]
    if unknown or not kept:
        raise InvalidInputError(
            f"Expected some of the names {', '.join(map(repr, laws))}, got"
            f" {', '.join(map(repr, unknown)) or 'none'}."
        )
    for name in kept:
        above = ancestors(laws, name)
        missing = [other for other in laws if other in above and other not in kept]
        if missing:
            raise InvalidInputError(
                f"{name!r} depends on {missing[0]!r}, which is left out, so that its own law is not"
                f" known: keep {missing[0]!r} too."
            )
    labels = {name: _as_given(axes) for name, axes in prior.labels.items() if name in kept}
    return Prior({name: law for name, law in laws.items() if name in kept}, labels=labels)


def ancestors(laws: Mapping[str, Law], name: str) -> frozenset[str]:
    """The names that the law of `name` depends on, directly or through others.

    >>> import numpyro.distributions as dist
    >>> prior = Prior({"a": dist.Normal(0, 1), "b": lambda a: dist.Normal(a, 1)})
    >>> sorted(ancestors(prior.distributions, "b"))
    ['a']
    """
    law = laws[name]
    parents = law.parents if isinstance(law, DependentLaw) else ()
    return frozenset(parents).union(*(ancestors(laws, parent) for parent in parents))


def _as_given(axes: Labels) -> object:
    return axes if len(axes) > 1 else axes[0]
