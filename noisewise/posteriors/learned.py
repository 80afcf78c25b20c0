"""A posterior with a learnt density."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, stage_key
from noisewise.errors import InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.files import density_arrays
from noisewise.posteriors.base import AbstractPosterior, check_num
from noisewise.posteriors.draws import Draws
from noisewise.posteriors.findings import Finding, with_finding
from noisewise.posteriors.kinds import Kind
from noisewise.posteriors.report import Report
from noisewise.priors.prior import Prior


class LearnedPosterior(AbstractPosterior):
    r"""A posterior with a learnt density: q(theta | s_dp) = q(z | c) |dz / dtheta| at one condition
    c, with z the unconstrained coordinates of theta.

    Draws are independent, and fresh with every key; `theta` holds some of them for summaries. All
    lie inside the prior's support. `log_prob` is a density over the free coordinates of theta, as
    `Prior.log_prob` is.

    Args:
        theta: Draws for summaries, shape (n, d).
        names: Names of the d parameters.
        report: How the posterior came about.
        density: q(z | c).
        condition: c, shape (k',).
        prior: The prior, which gives the coordinates.
        estimator: Describes the architecture, for files. Without it, as for architectures of a
            user's own, `save` writes the draws alone.
        **more: What else `AbstractPosterior` takes.
    """

    def __init__(
        self,
        theta: Float[np.ndarray, "n d"],
        names: tuple[str, ...],
        report: Report,
        *,
        density: ConditionalDensity,
        condition: np.ndarray,
        prior: Prior,
        estimator: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(theta, names, report, **more)
        self.density, self.prior, self.estimator = density, prior, estimator
        self.condition = np.asarray(condition, dtype=np.float64)

    @property
    def weights(self) -> np.ndarray:
        return np.full(len(self.theta), 1.0 / len(self.theta))

    @property
    def effective_size(self) -> float:
        return float(len(self.theta))

    def sample(self, key: Array, num: int) -> Float[np.ndarray, "num d"]:
        return self.prior.constrain(self.sample_unconstrained(key, num))

    def sample_unconstrained(self, key: Array, num: int) -> Float[np.ndarray, "num p"]:
        """Draws in unconstrained coordinates, shape (num, p): those of `sample`."""
        return self.density.sample(stage_key(key, "posterior"), self.condition, check_num(num))

    def log_prob(self, theta: ArrayLike) -> Float[np.ndarray, " n"]:
        """The log density of theta (n, d), shape (n,); -inf off the prior's support."""
        theta = np.atleast_2d(np.asarray(theta, dtype=np.float64))
        if theta.shape[-1] != len(self.names):
            raise InvalidInputError(
                f"theta must have shape (N, {len(self.names)}), got {theta.shape}."
            )
        return constrained_log_prob(self.prior, self.log_prob_unconstrained, theta)

    def log_prob_unconstrained(self, z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """The log density of unconstrained coordinates z (n, p), shape (n,)."""
        return self.density.log_prob(z, self.condition)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a folder that `nw.load_posterior` reads. The `log_prob` of what it reads is the
        same to the last bit. Where the prior has functions, which no file holds, it writes the
        draws alone, with draws of the prior.
        """
        if self.estimator is not None and not self.prior.dependent:
            AbstractPosterior.save(self, path, overwrite=overwrite)
            return
        kind = Kind.DENSITY_NEEDS_PRIOR if self.estimator else Kind.DENSITY_NOT_SAVED
        report = dataclasses.replace(
            self.report, findings=with_finding(self.report.findings, Finding(kind))
        )
        more: dict[str, Any] = {"derived": self.derived, "prior_draws": self.prior_draws}
        Draws(self.theta, self.names, report, **more).save(path, overwrite=overwrite)

    def _own_arrays(self) -> dict[str, np.ndarray]:
        return {"condition": self.condition, **density_arrays(self.density)}

    def _own_content(self) -> dict[str, Any]:
        spec = dict(self.estimator or {})
        return {
            "estimator": spec,
            "prior": self.prior.to_spec(),
            "degree": self.density.whitening.degree,
        }


def constrained_log_prob(
    prior: Prior, log_prob: Callable[[np.ndarray], np.ndarray], theta: np.ndarray
) -> np.ndarray:
    """The log density of theta from that of z: log q(z) - log |dtheta / dz|.

    Args:
        prior: Gives the coordinates.
        log_prob: The log density of z (n, p).
        theta: Parameters, shape (n, d).

    Returns:
        Log densities, shape (n,); -inf off the support.
    """
    z = prior.unconstrain(theta)
    inside = np.isfinite(z).all(axis=-1)
    z = np.where(inside[:, None], z, 0.0)
    log_jacobian = prior.log_prob_unconstrained(z) - prior.log_prob(prior.constrain(z))
    return np.where(inside, log_prob(z) - log_jacobian, -np.inf)
