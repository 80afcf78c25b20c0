"""Effects of a prior as the blocks that samplers centre."""

from __future__ import annotations

import functools

from noisewise.priors.effects import effects_of
from noisewise.priors.prior import Prior
from noisewise.samplers.hierarchies.centring import LocationScale


@functools.lru_cache(maxsize=64)
def blocks_of(prior: Prior) -> tuple[LocationScale, ...]:
    """The effects of a prior around means with spreads, as blocks of its unconstrained coordinates.

    Args:
        prior: A prior, whose functions say what depends on what.

    Returns:
        Blocks, parents before children; the same objects for the same prior.

    >>> import numpyro.distributions as dist
    >>> prior = Prior({"mu": dist.Normal(0, 1), "e": lambda mu: dist.Normal(mu, 1).expand([2])})
    >>> [block.columns for block in blocks_of(prior)]
    [(1, 2)]
    """
    return tuple(
        LocationScale(part.columns, part.law, part.increments, part.log_density)
        for part in effects_of(prior)
    )
