"""theta ~ pi: named numpyro distributions as one flat array, and the same array in unconstrained
coordinates.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Bool, Float

from noisewise._compile.few_sizes import with_few_sizes
from noisewise._core.arrays import (
    Array,
    as_key,
    as_vectors,
    in_float64,
    integer,
    stage_key,
)
from noisewise._core.json_files import reading
from noisewise._core.row_keys import key_words
from noisewise.errors import FileFormatError, MissingCapabilityError
from noisewise.priors import coordinates
from noisewise.priors.coordinates import Laws, Sites
from noisewise.priors.dependent import DependentLaw, Law, describe_law, laws_of
from noisewise.priors.distributions import check_mapping
from noisewise.priors.files import from_spec as law_from_spec
from noisewise.priors.files import to_spec as law_to_spec
from noisewise.priors.identity import fingerprint
from noisewise.priors.labels import Labels, checked_labels, entry_names


class Prior:
    r"""The law of theta: a mapping from names to numpyro distributions. One that depends on others
    is a function of their values, whose arguments are their names.

    theta (..., d) holds the entries of every distribution in the order given, `names` says which; z
    (..., `unconstrained_dim`) are unconstrained coordinates of the same point, and
    `log_prob_unconstrained` is the density of z,

        log pi(constrain(z)) + log |d theta / d z|,

    taken over the free coordinates where the support has equalities (a Dirichlet of size J: J
    columns of theta, J-1 of z). A distribution with batch axes stands for independent entries, with
    or without `.to_event`.

    Args:
        distributions: numpyro distributions by name. Names have no spaces, commas or brackets;
            distributions are continuous, have a density, and a support with known unconstrained
            coordinates.

    Raises:
        InvalidTypeError: If it is not a mapping from names to numpyro distributions.
        InvalidInputError: If a distribution is discrete, constant, or has no density.
        MissingCapabilityError: If no unconstrained coordinates are known.

    Computation is in float64, from the parameters numpyro keeps; those that it derives when a
    distribution is built (a Cholesky factor, the logarithms of LogUniform's bounds) have float32
    precision unless built under `jax.enable_x64(True)`. Under JAX transformations the methods
    return tracers; draws, and gradients through matrix supports, then need the caller's own
    `jax.enable_x64(True)`.

    >>> import jax, numpyro.distributions as dist
    >>> prior = Prior({"beta": dist.Normal(0, 1).expand([2]), "p": dist.Dirichlet(np.ones(3))})
    >>> prior.names
    ('beta[0]', 'beta[1]', 'p[0]', 'p[1]', 'p[2]')
    >>> theta = prior.sample(jax.random.key(0), 100)
    >>> theta.shape, prior.unconstrain(theta).shape, prior.log_prob(theta).shape
    ((100, 5), (100, 4), (100,))
    >>> prior.log_prob([[0.0, 0.0, 0.2, 0.3, 0.5], [0.0, 0.0, 0.2, 0.3, 0.6]]).round(6).tolist()
    [-1.14473, -inf]

    Districts that share a mean and a spread:

    >>> districts = Prior(
    ...     {
    ...         "mu": dist.Normal(0, 1),
    ...         "tau": dist.HalfNormal(1),
    ...         "effect": lambda mu, tau: dist.Normal(mu, tau).expand([2]),
    ...     },
    ...     labels={"effect": ["North", "South"]},
    ... )
    >>> districts.names
    ('mu', 'tau', 'effect[North]', 'effect[South]')
    >>> districts.sample(jax.random.key(0), 3).shape
    (3, 4)
    """

    def __init__(
        self,
        distributions: Mapping[str, dist.Distribution | Callable[..., dist.Distribution]],
        *,
        labels: Mapping[str, Any] | None = None,
    ) -> None:
        checked = check_mapping(distributions)
        with jax.enable_x64(True):
            laws, examples = laws_of(checked)
            self._laws: Laws = tuple(laws)
            self.sites: Sites = tuple(map(coordinates.site_of, checked, examples))
        self._kinds = tuple(map(describe_law, laws, examples))
        shapes = {site.name: site.shape for site in self.sites}
        self.labels: Mapping[str, Labels] = checked_labels(labels, shapes)
        """The labels of names that have some: a tuple for each axis."""
        names = itertools.chain.from_iterable(
            entry_names(site.name, site.shape, self.labels.get(site.name)) for site in self.sites
        )
        self.names: tuple[str, ...] = tuple(names)
        """One name per column of theta."""
        self.dim: int = len(self.names)
        """The number d of columns of theta."""
        self.derived: Mapping[str, Callable[[Array], Array]] = {}
        """Quantities that the numpyro program of `from_numpyro` computes (its deterministic sites):
        functions of theta (..., d) that return shape (...), by name.
        """
        self.unconstrained_dim: int = sum(math.prod(site.free_shape) for site in self.sites)
        """The number p of columns of z."""

    @staticmethod
    def from_numpyro(
        fn: Callable[..., Any], *args: Any, labels: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Prior:
        """The prior of a numpyro program: its latent sites, in their order, with the shapes that
        plates give them. Its deterministic sites become `derived` quantities, which models report.

        Args:
            fn: A numpyro model without observed sites.
            *args: Its arguments.
            labels: As in the class.
            **kwargs: Its arguments by name.

        Raises:
            InvalidInputError: If the program observes something, subsamples, or has sites that
                depend on themselves; the message says what to write.

        >>> import numpyro
        >>> def schools():
        ...     mu = numpyro.sample("mu", dist.Normal(0, 5))
        ...     with numpyro.plate("school", 8):
        ...         numpyro.sample("effect", dist.Normal(mu, 1))
        >>> Prior.from_numpyro(schools)
        Prior(mu: Normal, effect: Normal[8] given mu)
        """
        from noisewise.priors.numpyro_programs import prior_of

        return prior_of(fn, args, kwargs, labels)

    @property
    def bounded(self) -> Bool[np.ndarray, " p"]:
        """Which columns of z are the logit of a place between two ends, as of a uniform law."""
        return np.concatenate(
            [np.full(math.prod(site.free_shape), site.bounded) for site in self.sites]
        )

    @property
    def distributions(self) -> Mapping[str, Law]:
        """The distributions in float64, their batch axes made part of the event; `DependentLaw`s
        for those that depend on others.
        """
        return MappingProxyType(
            {site.name: law for site, law in zip(self.sites, self._laws, strict=True)}
        )

    @property
    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The names with the shapes of their entries, in the order of theta."""
        return tuple((site.name, site.shape) for site in self.sites)

    @property
    def dependent(self) -> tuple[str, ...]:
        """The names whose laws are functions of others."""
        return tuple(law.name for law in self._functions())

    @in_float64
    def sample(self, key: Array, num: int) -> Float[Array, "num d"]:
        """Draw theta from the prior.

        Draw i depends on the key and i alone, not on `num`, and one program serves every `num`.
        Draws that underflow to an edge of the support are moved inside by the smallest step.

        Args:
            key: JAX PRNG key.
            num: The number n of draws.

        Returns:
            Parameters, shape (n, d), with finite `log_prob`.
        """
        num = integer("num", at_least=1)(num)
        key = stage_key(as_key(key), "prior")
        return coordinates.sample(self.sites, self._laws, key, num)

    @in_float64
    def log_prob(self, theta: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """The log density of theta.

        Args:
            theta: Parameters, shape (..., d). A simplex may miss the sum of one by 1e-6.

        Returns:
            Shape (...): -inf off the support, for NaN, and on an edge where the density is
            infinite.
        """
        return self._by_rows(coordinates.log_prob, self._checked(theta))

    @in_float64
    def root_log_prob(self, theta: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """The log density of the entries whose laws depend on no other.

        Args:
            theta: Parameters, shape (..., d).
        """
        return self._by_rows(coordinates.root_log_prob, self._checked(theta))

    @in_float64
    def sample_rest(
        self, keys: Array, theta: Float[Array, "n m"], kept: Collection[str]
    ) -> Float[Array, "n d"]:
        """Draw the names that are not kept, given those that are.

        Args:
            keys: One JAX PRNG key per row.
            theta: Values of the kept names, in the order of the prior, shape (n, m).
            kept: The names whose values are given; they depend on no other name.

        Returns:
            All of theta, shape (n, d); row i depends on key and row i alone.
        """
        rows = jax.random.wrap_key_data(jnp.asarray(key_words(keys)[0])), jnp.asarray(theta)
        return coordinates.sample_rest(self.sites, self._laws, frozenset(kept), *rows)

    def only(self, kept: Collection[str]) -> Prior:
        """The prior of some of the names.

        Args:
            kept: Names of the prior, none of which depends on one that is left out.

        >>> prior = Prior({"mu": dist.Normal(0, 1), "e": lambda mu: dist.Normal(mu, 1).expand([9])})
        >>> prior.only(["mu"])
        Prior(mu: Normal)
        """
        from noisewise.priors.parts import part_of

        return part_of(self, kept)

    @in_float64
    def support_contains(self, theta: Float[Array, "*batch d"]) -> Bool[Array, "*batch"]:
        """Whether each row of theta lies in the support; NaN does not.

        >>> Prior({"rate": dist.Gamma(2.0, 1.0)}).support_contains([[1.0], [-1.0]]).tolist()
        [True, False]
        """
        return self._by_rows(coordinates.support_contains, self._checked(theta))

    @in_float64
    def unconstrain(self, theta: Float[Array, "*batch d"]) -> Float[Array, "*batch p"]:
        """The z with constrain(z) = theta.

        Args:
            theta: Parameters, shape (..., d).

        Returns:
            Unconstrained coordinates, shape (..., p), p = `unconstrained_dim`; NaN for the
            distributions off whose support theta lies.

        >>> Prior({"rate": dist.LogNormal(0, 1)}).unconstrain([[1.0]]).tolist()
        [[0.0]]
        """
        return self._by_rows(coordinates.unconstrain, self._checked(theta))

    @in_float64
    def constrain(self, z: Float[Array, "*batch p"]) -> Float[Array, "*batch d"]:
        """The theta of unconstrained coordinates, never on the edge of the support.

        Args:
            z: Unconstrained coordinates, shape (..., p).

        Returns:
            Parameters, shape (..., d).
        """
        return self._by_rows(coordinates.constrain, self._checked_free(z))

    @in_float64
    def log_prob_unconstrained(self, z: Float[Array, "*batch p"]) -> Float[Array, "*batch"]:
        """The log density of z, log pi(constrain(z)) + log |d theta / d z|: the target of gradient
        methods.

        Args:
            z: Unconstrained coordinates, shape (..., p).

        Returns:
            Shape (...); -inf where it is not finite.
        """
        return self._by_rows(coordinates.log_prob_unconstrained, self._checked_free(z))

    @in_float64
    def as_dict(self, theta: Float[Array, "*batch d"]) -> dict[str, Float[Array, ...]]:
        """The entries of theta by name, in the order of `names`.

        Args:
            theta: Parameters, shape (..., d).

        Returns:
            One array per distribution: the leading axes of theta, then the shape of the
            distribution.

        >>> prior = Prior({"mu": dist.Normal(0, 1), "beta": dist.Normal(0, 1).expand([2])})
        >>> {name: values.tolist() for name, values in prior.as_dict([1.0, 2.0, 3.0]).items()}
        {'mu': 1.0, 'beta': [2.0, 3.0]}
        """
        theta = self._checked(theta)
        blocks = coordinates.blocks(theta, [site.shape for site in self.sites])
        return {site.name: block for site, block in zip(self.sites, blocks, strict=True)}

    @in_float64
    def from_dict(self, values: Mapping[str, Float[Array, ...]]) -> Float[Array, "*batch d"]:
        """The inverse of `as_dict`.

        Args:
            values: One array per distribution; their leading axes broadcast.

        Returns:
            Parameters, shape (..., d).

        Raises:
            InvalidInputError: If the names or shapes are not those of the prior.
        """
        return coordinates.from_named(self.sites, values)

    def _by_rows(self, call: Callable[..., Array], rows: Array) -> Array:
        return with_few_sizes(functools.partial(call, self.sites, self._laws), rows)

    def _checked(self, theta: Array) -> Array:
        return as_vectors(theta, "theta", self.dim)

    def _checked_free(self, z: Array) -> Array:
        return as_vectors(z, "z", self.unconstrained_dim)

    def fingerprint(self) -> str:
        """The sha256 of names, kinds and parameters: equal for equal priors, in any process. Of
        functions count the names they depend on and the log density at three fixed points.

        >>> Prior({"rate": dist.Gamma(2.0, 1.0)}).fingerprint()[:8]
        '910253be'
        """
        return fingerprint(self, self.sites, self._laws)

    def to_spec(self) -> dict[str, Any]:
        """A JSON-ready description; `from_spec` reads it back to the last bit.

        Raises:
            MissingCapabilityError: If a distribution is a function, or has a part that is not
                numpyro's.
        """
        if self.dependent:
            raise MissingCapabilityError(
                f"The law of {self.dependent[0]!r} is a function, and no file holds code: keep the"
                " script that makes the prior."
            )
        return {
            site.name: law_to_spec(law) for site, law in zip(self.sites, self._laws, strict=True)
        }

    @staticmethod
    def from_spec(spec: Any) -> Prior:
        """The prior that `to_spec` described; `FileFormatError` if `spec` is anything else.

        >>> prior = Prior({"rate": dist.Gamma(2.0, 1.0), "p": dist.Dirichlet(np.ones(3))})
        >>> Prior.from_spec(prior.to_spec()) == prior
        True
        """
        with reading("The prior"), jax.enable_x64(True):
            if not isinstance(spec, dict):
                raise FileFormatError("it must be an object.")
            return Prior({name: law_from_spec(law) for name, law in spec.items()})

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Prior)
            and self._functions() == other._functions()
            and self.fingerprint() == other.fingerprint()
        )

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        pairs = zip(self.sites, self._kinds, strict=True)
        return f"Prior({', '.join(f'{site.name}: {kind}' for site, kind in pairs)})"

    def _functions(self) -> tuple[DependentLaw, ...]:
        return tuple(law for law in self._laws if isinstance(law, DependentLaw))
