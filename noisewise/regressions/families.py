"""The laws of an outcome given its linear predictor."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import special

from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError

_LARGEST = 32.0
"""Logarithm of the largest mean of counts: beyond exp(32) = 8e13 whole numbers lose digits."""
_SMALLEST = -300.0
"""Logarithm of the smallest mean of counts: its gradient is still finite."""
_NO_SPREAD = 1e-8
"""Added to the squared overdispersion: counts that spread less are Poisson to float64."""


@dataclasses.dataclass(frozen=True)
class Link:
    """The mean as a function of the linear predictor.

    Attributes:
        mean: In JAX.
        mean_numpy: The same in NumPy.
    """

    mean: Callable[[Array], Array]
    mean_numpy: Callable[[np.ndarray], np.ndarray]


def _exp(eta: Array) -> Array:
    return jnp.exp(jnp.clip(eta, _SMALLEST, _LARGEST))


def _logit(eta: Array) -> Array:
    from jax.nn import sigmoid

    return sigmoid(eta)


def _probit(eta: Array) -> Array:
    from jax.scipy.special import ndtr

    return ndtr(eta)


_LINKS = {
    "logit": Link(_logit, special.expit),
    "probit": Link(_probit, special.ndtr),
    "log": Link(_exp, lambda eta: np.exp(np.clip(eta, _SMALLEST, _LARGEST))),
    "identity": Link(lambda eta: eta, lambda eta: eta),
}
Law = Callable[[Array, Link, Mapping[str, Array], Any], dist.Distribution]
"""The law of the outcome: a function of linear predictor, link, further parameters, trials."""


@dataclasses.dataclass(frozen=True)
class Family:
    """What a law of the outcome is.

    Attributes:
        name: Its name.
        links: The links that it takes, the default first.
        law: The distribution of the outcomes.
        further: Priors of parameters besides the linear predictor's, by name.
        whole: Whether outcomes are whole numbers of 0 or more.
    """

    name: str
    links: tuple[str, ...]
    law: Law
    further: Callable[[], dict[str, dist.Distribution]] = dict
    whole: bool = True

    def link(self, given: str | None) -> tuple[str, Link]:
        """The link of that name, or the default."""
        name = self.links[0] if given is None else given
        if name not in self.links:
            raise InvalidInputError(
                f"law={self.name!r} takes the links {', '.join(map(repr, self.links))}, got"
                f" {given!r}."
            )
        return name, _LINKS[name]


def _bernoulli(eta: Array, link: Link, further: Mapping[str, Array], n: Any) -> dist.Distribution:
    if link is _LINKS["logit"]:
        return dist.Bernoulli(logits=eta)
    return dist.Bernoulli(probs=link.mean(eta))


def _binomial(eta: Array, link: Link, further: Mapping[str, Array], n: Any) -> dist.Distribution:
    if link is _LINKS["logit"]:
        return dist.Binomial(total_count=n.astype(int), logits=eta)
    return dist.Binomial(total_count=n.astype(int), probs=link.mean(eta))


def _poisson(eta: Array, link: Link, further: Mapping[str, Array], n: Any) -> dist.Distribution:
    return dist.Poisson(link.mean(eta))


def _negative(eta: Array, link: Link, further: Mapping[str, Array], n: Any) -> dist.Distribution:
    spread = further["overdispersion"]
    return dist.NegativeBinomial2(link.mean(eta), 1.0 / (spread**2 + _NO_SPREAD))


def _normal(eta: Array, link: Link, further: Mapping[str, Array], n: Any) -> dist.Distribution:
    return dist.Normal(link.mean(eta), further["sigma"])


_SHARES = ("logit", "probit")
_FAMILIES = {
    family.name: family
    for family in (
        Family("bernoulli", _SHARES, _bernoulli),
        Family("binomial", _SHARES, _binomial),
        Family("poisson", ("log",), _poisson),
        Family(
            "negative binomial",
            ("log",),
            _negative,
            lambda: {"overdispersion": dist.HalfNormal(1.0)},
        ),
        Family(
            "normal",
            ("identity", "log"),
            _normal,
            lambda: {"sigma": dist.HalfNormal(5.0)},
            whole=False,
        ),
    )
}


_ELSEWHERE = {
    "logistic": "bernoulli",
    "binary": "bernoulli",
    "gaussian": "normal",
    "nbinom": "negative binomial",
    "negbin": "negative binomial",
}
"""Laws by the names that they have in other packages."""


def family_of(name: Any) -> Family:
    """The law of that name, written with spaces, underscores or hyphens.

    >>> family_of("poisson").links
    ('log',)
    """
    plain = re.sub("[_-]", " ", name).strip().lower() if isinstance(name, str) else ""
    found = _FAMILIES.get(plain)
    if found is None:
        near = difflib.get_close_matches(plain, _FAMILIES, n=1)
        meant = _ELSEWHERE.get(plain) or (near[0] if near else None)
        hint = f" Did you mean {meant!r}?" if meant else ""
        known = ", ".join(map(repr, _FAMILIES))
        why = " Categories of more than two kinds are not served yet." * (name == "categorical")
        raise InvalidInputError(f"law is one of {known}, got {name!r}.{hint}{why}")
    return found
