"""Laws of the cells of a table, cell by cell."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.errors import MissingCapabilityError
from noisewise.laws.counts import bounds_of, unwrapped
from noisewise.laws.deviance import log_pmf
from noisewise.laws.known_totals.multinomial import independent, total_of

_KNOWN_TOTALS = (dist.MultinomialProbs, dist.MultinomialLogits, dist.DirichletMultinomial)


@dataclasses.dataclass(frozen=True)
class CellLaw:
    """Independent counts, or independent counts given their total.

    Attributes:
        each: The law of each cell by itself, batch shape (c,).
        total: The total that is known; None where there is none.
        whole: The law of that total.
    """

    each: dist.Distribution
    total: int | None = None
    whole: dist.Distribution | None = None

    def log_prob(self, cells: Float[Array, " c"]) -> Float[Array, ""]:
        """The log probability of cells, which have that total; -inf off the support."""
        found = jnp.sum(self.log_each(cells))
        return found if self.whole is None else found - log_pmf(self.whole, self.total)

    def log_each(self, cells: Float[Array, "*n c"]) -> Float[Array, "*n c"]:
        """Log probabilities cell by cell, -inf off the support."""
        low, high = self.bounds
        inside = (cells >= low) & (cells <= high)
        values = log_pmf(self.each, jnp.clip(cells, low, high))
        return jnp.where(inside & ~jnp.isnan(values), values, -jnp.inf)

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The least and the largest count of each cell."""
        return bounds_of(self.each.support)

    @property
    def moments(self) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
        """Mean and variance of each cell by itself; where there is none, 0 and 1 + mean^2."""
        mean, variance = jnp.nan_to_num(self.each.mean), self.each.variance
        return mean, jnp.where(jnp.isfinite(variance), variance, 1.0 + mean**2)


def cells_of(law: Any) -> CellLaw:
    """The law of counts, cell by cell.

    Raises:
        MissingCapabilityError: If it is no law of counts that are independent, or are given their
            total; says what would serve.

    >>> found = cells_of(dist.Multinomial(10, jnp.array([0.5, 0.25, 0.25])))
    >>> found.total, found.each.rate.tolist()
    (10, [5.0, 2.5, 2.5])
    """
    law = unwrapped(law)
    if isinstance(law, dist.Independent) and law.reinterpreted_batch_ndims == 1:
        law = law.base_dist
    if isinstance(unwrapped(law), _KNOWN_TOTALS):
        law = unwrapped(law)
        total = total_of(law)
        each, whole = independent(law, max(float(total), 0.5))
        return CellLaw(each, total, whole)
    is_count = law.support is not None and law.support.is_discrete
    if law.event_shape or not is_count or jnp.ndim(bounds_of(law.support)[0]) > 1:
        raise MissingCapabilityError(
            f"Moves of cells need counts, independent or with a known total, and"
            f" {type(unwrapped(law)).__name__} is no such law. Sums of normal cells are normal:"
            " give their own law, dist.MultivariateNormal(A @ mean, A @ covariance @ A.T), in place"
            " of sums=A. With any law, nw.infer simulates."
        )
    return CellLaw(law)
