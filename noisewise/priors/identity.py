"""What makes two priors equal: names, kinds, parameters, and what functions do at fixed points."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from noisewise.priors.coordinates import Laws, Sites
from noisewise.priors.dependent import DependentLaw
from noisewise.priors.distributions import update

if TYPE_CHECKING:
    from noisewise.priors.prior import Prior

_SCALES = (1.0, 1.0, 1.0, 3.0, 10.0)
"""How far from 0 the points lie: an edit that changes tails alone shows at the last."""


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


def fixed_points(dim: int) -> Float[np.ndarray, "n dim"]:
    """Unconstrained points that never change, at which functions are compared."""
    rows = np.arange(len(_SCALES))[:, None] * dim
    return np.array(_SCALES)[:, None] * np.sin(1.0 + rows + np.arange(dim))


def _densities_at_fixed_points(prior: Prior) -> tuple[str, ...]:
    """The log density of z, to 8 digits: rounding differs between machines by far less."""
    z = fixed_points(prior.unconstrained_dim)
    return tuple(f"{value:.7e}" for value in np.asarray(prior.log_prob_unconstrained(z)))
