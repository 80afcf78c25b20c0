"""What makes two priors equal: names, kinds, parameters, and what functions do at fixed points."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from noisewise.priors.coordinates import Laws, Sites
from noisewise.priors.dependent import DependentLaw
from noisewise.priors.distributions import update

if TYPE_CHECKING:
    from noisewise.priors.prior import Prior

_NUM_POINTS = 3
"""An edit that leaves the density as it is at three scattered points is hardly an accident."""


def fingerprint(prior: Prior, sites: Sites, laws: Laws) -> str:
    """The sha256 of a prior, the same in any process.

    Args:
        prior: The prior.
        sites: The places of its names.
        laws: Their laws.
    """
    digest = hashlib.sha256()
    for site, law in zip(sites, laws, strict=True):
        digest.update(repr((site.name, site.shape, site.free_shape)).encode())
        if isinstance(law, DependentLaw):
            digest.update(repr(law.parents).encode())
        else:
            update(digest, law)
    if prior.dependent:
        digest.update(repr(_densities_at_fixed_points(prior)).encode())
    if prior.labels:
        digest.update(repr(prior.names).encode())
    return digest.hexdigest()


def _densities_at_fixed_points(prior: Prior) -> tuple[str, ...]:
    """The log density of z, to 8 digits: rounding differs between machines by far less."""
    rows = np.arange(_NUM_POINTS)[:, None] * prior.unconstrained_dim
    z = np.sin(1.0 + rows + np.arange(prior.unconstrained_dim))
    return tuple(f"{value:.7e}" for value in np.asarray(prior.log_prob_unconstrained(z)))
