"""How the confidential statistic is summed or integrated out: by the types of law and mechanism."""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr
from jaxtyping import Float

from noisewise._core.arrays import Array, is_traced
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.laws import randomness
from noisewise.laws.closed_forms import log_mills, log_ndtri, log_normal_through_laplace
from noisewise.laws.continuous import Integral, is_of_real_noise
from noisewise.laws.counts import CountSum, Plan, is_summable, unwrapped
from noisewise.laws.deviance import ratios_of
from noisewise.laws.known_totals.multinomial import KnownTotal, total_of
from noisewise.laws.table_sums import falls_short
from noisewise.laws.tables import Table, table_for
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.law import Capability
from noisewise.mechanisms.supports import Lattice

_NO_PLAN = Plan()
_STATED = 1e-9
"""Relative to the larger of 1 and |log p|: what sums and closed forms are tested for."""


class AbstractRoute(abc.ABC):
    """log p(y) for a law and a mechanism that it serves.

    Args:
        law: The law of s, its parameters in float64 where densities are asked for.
        mechanism: The mechanism.
        plan: What is known of sizes, for sums over counts.
        table: What is known of sums over counts before the law's parameters are.
    """

    def __init__(
        self,
        law: dist.Distribution,
        mechanism: AbstractMechanism,
        plan: Plan = _NO_PLAN,
        table: Table | None = None,
    ) -> None:
        self.law, self.mechanism, self.plan, self.table = law, mechanism, plan, table

    @classmethod
    @abc.abstractmethod
    def serves(cls, law: dist.Distribution, mechanism: AbstractMechanism) -> bool:
        """Whether the types fit."""

    @abc.abstractmethod
    def log_prob(self, y: Array) -> Float[Array, "*batch"]:
        """The log density of y, of the shapes of numpyro."""

    def error(self, y: Array) -> Float[Array, "*batch"]:
        """How far that may be off: what is stated for the route, or an estimate of its own."""
        return _STATED * jnp.maximum(1.0, jnp.abs(self.log_prob(y)))

    @abc.abstractmethod
    def confidential(self, key: Array, y: Array) -> Array:
        """A draw of s given y."""

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The batch and event shape of what is released."""
        return tuple(self.law.batch_shape), tuple(self.law.event_shape)


class AbstractCellRoute(AbstractRoute):
    """Each cell by itself: the last axis of the law's batch is the mechanism's columns."""

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        shape, width = tuple(self.law.batch_shape), self.mechanism.width
        if width is None or shape[-1:] == (width,):
            return shape, ()
        if shape[-1:] in ((), (1,)):
            return (*shape[:-1], width), ()
        raise InvalidInputError(
            f"The mechanism has numbers for {width} columns, the law a batch of shape {shape}: its"
            f" last axis must be the {width} columns."
        )

    def _cells(self, y: Array) -> tuple[Array, tuple[int, ...]]:
        """y with an axis for columns, and the shape of the result."""
        shape = jnp.broadcast_shapes(y.shape, self.shapes()[0])
        y = (jnp if is_traced(y) else np).broadcast_to(y, shape)
        return (y if y.ndim else y[None]), shape


class CountRoute(AbstractCellRoute):
    """Counts: a sum over few points."""

    @classmethod
    def serves(cls, law: dist.Distribution, mechanism: AbstractMechanism) -> bool:
        return (
            not law.event_shape
            and law.support is not None
            and law.support.is_discrete
            and is_summable(_without_zeros(law))
            and _is_of_cells(mechanism)
        )

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        check_step(self.mechanism)
        return super().shapes()

    def log_prob(self, y: Array) -> Float[Array, "*batch"]:
        cells, shape = self._cells(y)
        atom = _zero_inflated(self.law)
        if atom is None:
            return self._sum(self.law, cells).log_prob().reshape(shape)
        gate, base = atom
        at_zero = self.mechanism._log_prob_each(cells, jnp.zeros_like(cells))
        rest = self._sum(base, cells).log_prob()
        both = jnp.logaddexp(jnp.log(gate) + at_zero, jnp.log1p(-gate) + rest)
        return both.reshape(shape)

    def confidential(self, key: Array, y: Array) -> Array:
        cells, shape = self._cells(y)
        atom = _zero_inflated(self.law)
        if atom is None:
            return self._sum(self.law, cells).confidential(key).reshape(shape)
        gate, base = atom
        which, rest = jax.random.split(key)
        at_zero = self.mechanism._log_prob_each(cells, jnp.zeros_like(cells)) + jnp.log(gate)
        others = self._sum(base, cells)
        odds = at_zero - (jnp.log1p(-gate) + others.log_prob())
        is_zero = randomness.bernoulli(which, jax.nn.sigmoid(odds))
        return jnp.where(is_zero, 0.0, others.confidential(rest)).reshape(shape)

    def _sum(self, law: dist.Distribution, cells: Array) -> CountSum:
        return CountSum(law, self.mechanism, cells, self.plan, table=self.table)


class NormalRoute(AbstractCellRoute):
    """A normal law with Gaussian or Laplace noise."""

    @classmethod
    def serves(cls, law: dist.Distribution, mechanism: AbstractMechanism) -> bool:
        return isinstance(_unexpanded(law), dist.Normal) and mechanism.normal_mixture is not None

    def log_prob(self, y: Array) -> Float[Array, "*batch"]:
        law, scale = _unexpanded(self.law), _scale_of(self.mechanism)
        if self.mechanism.normal_mixture == "fixed":
            return dist.Normal(law.loc, jnp.hypot(law.scale, scale)).log_prob(y)
        return log_normal_through_laplace(law.loc, law.scale, scale, y)

    def confidential(self, key: Array, y: Array) -> Array:
        law, scale = _unexpanded(self.law), _scale_of(self.mechanism)
        if self.mechanism.normal_mixture == "fixed":
            share = law.scale**2 / (law.scale**2 + scale**2)
            centre = law.loc + share * (y - law.loc)
            y = jnp.broadcast_to(y, jnp.broadcast_shapes(y.shape, self.shapes()[0]))
            return centre + jnp.sqrt(share) * scale * randomness.normal(key, y.shape)
        y = jnp.broadcast_to(y, jnp.broadcast_shapes(y.shape, self.shapes()[0]))
        return _laplace_draw(key, law.loc, law.scale, scale, y)


class ContinuousRoute(AbstractCellRoute):
    """Other continuous laws of one dimension, and other things done to their numbers."""

    @classmethod
    def serves(cls, law: dist.Distribution, mechanism: AbstractMechanism) -> bool:
        return (
            not law.event_shape
            and law.support is not None
            and not law.support.is_discrete
            and _is_of_cells(mechanism)
            and is_of_real_noise(mechanism)
        )

    def log_prob(self, y: Array) -> Float[Array, "*batch"]:
        cells, shape = self._cells(y)
        return Integral(self.law, self.mechanism, cells).log_prob().reshape(shape)

    def error(self, y: Array) -> Float[Array, "*batch"]:
        cells, shape = self._cells(y)
        return Integral(self.law, self.mechanism, cells).error().reshape(shape)

    def confidential(self, key: Array, y: Array) -> Array:
        cells, shape = self._cells(y)
        return Integral(self.law, self.mechanism, cells).confidential(key).reshape(shape)


class MultivariateNormalRoute(AbstractRoute):
    """A multivariate normal law with Gaussian noise: covariances add."""

    @classmethod
    def serves(cls, law: dist.Distribution, mechanism: AbstractMechanism) -> bool:
        fits = isinstance(_unexpanded(law), dist.MultivariateNormal)
        return fits and mechanism.normal_mixture == "fixed"

    def _noise(self) -> Array:
        width = self.law.event_shape[0]
        return jnp.broadcast_to(_scale_of(self.mechanism) ** 2, (width,))

    def log_prob(self, y: Array) -> Float[Array, "*batch"]:
        covariance = self.law.covariance_matrix + jnp.diag(self._noise())
        return dist.MultivariateNormal(self.law.mean, covariance_matrix=covariance).log_prob(y)

    def confidential(self, key: Array, y: Array) -> Array:
        covariance, mean = self.law.covariance_matrix, self.law.mean
        total = covariance + jnp.diag(self._noise())
        gain = jnp.linalg.solve(total, covariance)  # both are symmetric: total^-1 covariance
        centre = mean + jnp.einsum("...j,...jk->...k", y - mean, gain)
        rest = covariance - jnp.einsum("...ij,...jk->...ik", covariance, gain)
        z = randomness.normal(key, centre.shape)
        return centre + jnp.einsum("...ij,...j->...i", jnp.linalg.cholesky(rest), z)


class KnownTotalRoute(AbstractRoute):
    """Multinomial and Dirichlet-multinomial counts, through cells of independent noise."""

    @classmethod
    def serves(cls, law: dist.Distribution, mechanism: AbstractMechanism) -> bool:
        return isinstance(_unexpanded(law), _KNOWN_TOTALS) and _is_of_cells(mechanism)

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        total_of(_unexpanded(self.law))
        check_step(self.mechanism)
        (width,) = self.law.event_shape
        if self.mechanism.width not in (None, width):
            raise InvalidInputError(
                f"The mechanism has numbers for {self.mechanism.width} columns, the law {width}"
                " cells."
            )
        return super().shapes()

    def _sum(self, y: Array) -> KnownTotal:
        return KnownTotal(_unexpanded(self.law), self.mechanism, y, self.plan)

    def log_prob(self, y: Array) -> Float[Array, "*batch"]:
        return self._sum(y).log_prob()

    def confidential(self, key: Array, y: Array) -> Array:
        return self._sum(y).confidential(key)


class IndependentRoute(AbstractRoute):
    """A law of several independent entries: the sum over its event axis."""

    @classmethod
    def serves(cls, law: dist.Distribution, mechanism: AbstractMechanism) -> bool:
        return (
            isinstance(law, dist.Independent)
            and law.reinterpreted_batch_ndims == 1
            and not law.base_dist.event_shape
            and _route_type(law.base_dist, mechanism) is not None
        )

    def _inner(self) -> AbstractRoute:
        return route_of(self.law.base_dist, self.mechanism, self.plan, self.table)

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        cells, event = self._inner().shapes()[0], tuple(self.law.event_shape)
        if cells[-1:] != event:
            raise InvalidInputError(
                f"The law has {event[0]} numbers, the mechanism {cells[-1]} columns: give as many."
            )
        return super().shapes()

    def log_prob(self, y: Array) -> Float[Array, "*batch"]:
        return self._inner().log_prob(y).sum(-1)

    def error(self, y: Array) -> Float[Array, "*batch"]:
        return self._inner().error(y).sum(-1)

    def confidential(self, key: Array, y: Array) -> Array:
        return self._inner().confidential(key, y)


ROUTES: tuple[type[AbstractRoute], ...] = (
    NormalRoute,
    ContinuousRoute,
    MultivariateNormalRoute,
    CountRoute,
    KnownTotalRoute,
    IndependentRoute,
)
_KNOWN_TOTALS = (dist.MultinomialProbs, dist.MultinomialLogits, dist.DirichletMultinomial)


def route_of(
    law: dist.Distribution,
    mechanism: AbstractMechanism,
    plan: Plan = _NO_PLAN,
    table: Table | None = None,
) -> AbstractRoute:
    """The route of a law and a mechanism.

    Raises:
        MissingCapabilityError: If there is none; says what would serve.
    """
    found = _route_type(law, mechanism)
    if found is None:
        raise MissingCapabilityError(
            f"No sum or integral is known for {_name(law)} through {type(mechanism).__name__}:"
            " counts, with or without a known total, go through every mechanism of independent"
            " columns, continuous laws of one dimension through Gaussian and Laplace noise, cut or"
            " thresholded too, multivariate normal laws through Gaussian noise. With"
            " any law, a simulator (nw.simulators.JaxSimulator) and nw.infer serve."
        )
    return found(law, mechanism, plan, table)


def table_of(law: dist.Distribution, mechanism: AbstractMechanism, values: Array) -> Table | None:
    """What of a sum over counts is known before the law is; None where that is little.

    Args:
        law: The law, of which only the kind is looked at.
        mechanism: The mechanism.
        values: What was released, (*batch, k).
    """
    return table_for(_of_counts(law), mechanism, values)


def table_falls_short(law: dist.Distribution, table: Table) -> Array:
    """Whether a law is too far from what was released for its table."""
    kind: Any = ratios_of(law := _of_counts(law))
    return falls_short(kind, kind.parameters(law, table.back.shape), table)


def _of_counts(law: Any) -> Any:
    """The law of single counts that are no extra zeros."""
    while isinstance(law, (dist.Independent, dist.ExpandedDistribution)):
        law = law.base_dist
    return unwrapped(_without_zeros(law))


def _route_type(law: dist.Distribution, mechanism: AbstractMechanism) -> type[AbstractRoute] | None:
    return next((route for route in ROUTES if route.serves(law, mechanism)), None)


def _is_of_cells(mechanism: AbstractMechanism) -> bool:
    """Whether columns are independent, each of one number."""
    own_width = mechanism.width in (None, mechanism.output_width(mechanism.width or 1))
    return own_width and {Capability.CDF, Capability.DENSITY} <= mechanism.capabilities


def check_step(mechanism: AbstractMechanism) -> None:
    """Refuse noise in steps of which a count is no multiple."""
    step = mechanism.inner.exact_step
    if step is not None and not is_traced(step) and not Lattice(step).contains(1.0):
        raise InvalidInputError(
            f"Counts are multiples of 1, this noise takes multiples of step={step:g}: divide counts"
            " and released numbers by the step."
        )


def _scale_of(mechanism: Any) -> Array:
    return jnp.asarray(mechanism.scale, dtype=jnp.float64)


def _name(law: dist.Distribution) -> str:
    return type(_unexpanded(law)).__name__


def _unexpanded(law: Any) -> Any:
    """The law with its parameters in full shape, without the wrapper of numpyro's `expand`."""
    if not isinstance(law, dist.ExpandedDistribution):
        return law
    base = _unexpanded(law.base_dist)
    if not isinstance(base, dist.Normal):
        return base
    return dist.Normal(
        *(jnp.broadcast_to(part, law.batch_shape) for part in (base.loc, base.scale))
    )


def _zero_inflated(law: Any) -> tuple[Array, dist.Distribution] | None:
    """The probability of an extra zero and the law of the rest, where the law is of that kind."""
    law = unwrapped(law)
    gate = getattr(law, "gate", None)
    return None if gate is None else (gate, law.base_dist)


def _without_zeros(law: Any) -> Any:
    """The law itself, or that of what is no extra zero."""
    return law if _zero_inflated(law) is None else unwrapped(law).base_dist


def _laplace_draw(key: Array, mean: Array, sd: Array, scale: Array, y: Array) -> Array:
    """s given y = s + Laplace noise: a mixture of two normal laws, cut off at y."""
    side_key, draw_key = jax.random.split(key)
    d, ratio = (y - mean) / sd, sd / scale
    below = randomness.bernoulli(
        side_key, jax.nn.sigmoid(log_mills(ratio - d) - log_mills(ratio + d))
    )
    # below y the law is N(mean + sd^2/scale, sd^2) up to y, above it N(mean - sd^2/scale, sd^2)
    sign = jnp.where(below, 1.0, -1.0)
    edge = sign * d - ratio
    u = randomness.uniform(draw_key, y.shape)
    z = log_ndtri(jnp.log(u) + log_ndtr(edge))
    return mean + sd * sign * (jnp.minimum(z, edge) + ratio)
