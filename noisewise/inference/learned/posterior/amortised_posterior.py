"""A posterior learnt for every observation at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key, stage_key
from noisewise._core.json_files import require_keys
from noisewise.errors import InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.surprise import p_value
from noisewise.inference.learned.common.features import features
from noisewise.inference.learned.common.fits import (
    MASS_OUTSIDE,
    NUM_DRAWS,
    AbstractFit,
    StoredFit,
    extrapolation,
    share_outside,
)
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Finding, Kind
from noisewise.posteriors.base import check_num
from noisewise.posteriors.learned import LearnedPosterior, constrained_log_prob
from noisewise.posteriors.report import Report

_SURPRISE = 0.005
"""The p-value below which an observation counts as unusual: 1 in 200, as in `InferenceRun`."""


class AmortisedPosterior(AbstractFit):
    r"""q(theta | s_dp) for any s_dp that the model predicts:
    `PrivatePosteriorEstimation(num_rounds=1).fit(key, model)` makes one.

    Use it for many observations of one model and one mechanism: `posterior(observed)` costs
    milliseconds, and `sample_many` serves a table of observations at once, as
    `nw.diagnostics.calibrate` needs. `save(path)` keeps it for `AmortisedPosterior.load(path,
    model)`.

    Args:
        model: The model it was fitted to.
        density: q(z | features of s_dp), z unconstrained.
        report: How it was learnt.
        conditions: What the network saw of simulated observations, shape (n, w): the report of a
            posterior says how unusual its observation is among them.
        bounds: The least and the largest simulated z, shape (2, p): the report says how much of a
            posterior lies beyond them.
        estimator: The architecture, for files; None where it is a user's own.

    >>> import functools, jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> small = functools.partial(
    ...     nw.estimators.mixture_density_network, num_components=2, num_units=16, num_hidden=1
    ... )
    >>> quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
    >>> settings = {"estimator": small, "training": quick, "num_noise": 2, "noise_bank": 8}
    >>> method = nw.inference.PrivatePosteriorEstimation(
    ...     num_rounds=1, num_simulations=100, **settings
    ... )
    >>> fit = method.fit(jax.random.key(0), problem.model, progress=False)
    >>> fit.sample_many(jax.random.key(1), problem.observed, 5).shape
    (1, 5, 1)
    """

    formula: ClassVar[str] = "q(theta | s_dp)"
    usage: ClassVar[tuple[str, ...]] = ("posterior(observed)", "sample_many(key, observed, num)")
    for_many: ClassVar[str] = "fit.sample_many(key, observed, num)"

    def __init__(
        self,
        model: PrivateModel,
        density: ConditionalDensity,
        report: Report,
        *,
        conditions: Float[np.ndarray, "n w"],
        bounds: Float[np.ndarray, "2 p"],
        estimator: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.density, self.report, self.estimator = model, density, report, estimator
        self._conditions, self._bounds = conditions, bounds

    def posterior(self, observed: Any) -> LearnedPosterior:
        """The posterior given one observation; nothing is simulated or trained.

        Args:
            observed: One observation (kp,), or a release.

        Returns:
            The posterior; its report says whether the observation is unlike the simulated ones.
        """
        condition, prior = (
            self._condition(self._observation(observed, self.model)[None]),
            self.model.prior,
        )
        z = self.density.sample(_key_of(condition), condition[0], NUM_DRAWS)
        theta = prior.constrain(z)
        return LearnedPosterior(
            theta,
            self.model.names,
            self._report_of(condition, share_outside(z, self._bounds)),
            density=self.density,
            condition=condition[0],
            prior=prior,
            estimator=self.estimator,
            **self.model.beside_draws(theta),
        )

    def sample_many(self, key: Array, observed: Any, num: int) -> Float[np.ndarray, "n num d"]:
        """Draws from the posteriors of many observations.

        Args:
            key: JAX PRNG key.
            observed: Observations, shape (n, kp), or one of them.
            num: The number of draws from each posterior.

        Returns:
            theta, shape (n, num, d).
        """
        condition, num = self._condition(self._table(observed)), check_num(num)
        z = self.density.sample(
            stage_key(as_key(key), "posterior"), np.repeat(condition, num, axis=0)
        )
        return self.model.prior.constrain(z).reshape(len(condition), num, -1)

    def log_prob(self, theta: Any, observed: Any) -> Float[np.ndarray, " n"]:
        """log q(theta_i | observed_i), row by row.

        Args:
            theta: Parameters, shape (n, d).
            observed: Observations, shape (n, kp).

        Returns:
            Log densities over the free coordinates of theta, shape (n,).
        """
        theta, condition = (
            np.atleast_2d(np.asarray(theta, dtype=np.float64)),
            self._condition(self._table(observed)),
        )
        return constrained_log_prob(
            self.model.prior, lambda z: self.density.log_prob(z, condition), theta
        )

    def _table(self, observed: Any) -> Float[np.ndarray, "n kp"]:
        """Observations as rows."""
        table = np.atleast_2d(np.asarray(observed, dtype=np.float64))
        if table.ndim != 2 or table.shape[1] != self.model.private_width:
            raise InvalidInputError(
                f"observed must have shape (N, {self.model.private_width}), got"
                f" {np.shape(observed)}."
            )
        return table

    def _condition(self, observed: Float[np.ndarray, "n kp"]) -> Float[np.ndarray, "n w"]:
        """What the network sees of them."""
        return features(self.model.mechanism.support, observed)

    def _report_of(self, condition: Float[np.ndarray, "1 w"], outside: float) -> Report:
        """The report of the fit, with how unusual this observation is among the simulated ones, and
        how much of its posterior.
        """
        rank = p_value(self._conditions, condition[0])
        findings = self.report.findings
        if rank < _SURPRISE:
            findings += (Finding(Kind.OBSERVATION_UNLIKE_TRAINING, {"p": rank}),)
        numbers = {**self.report.numbers, "prior predictive p-value": rank, MASS_OUTSIDE: outside}
        return dataclasses.replace(
            self.report, numbers=numbers, findings=findings + extrapolation(outside)
        )

    def _own_arrays(self) -> dict[str, np.ndarray]:
        return {"conditions": self._conditions, "bounds": self._bounds}

    def _own_content(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _read(cls, stored: StoredFit) -> Self:
        require_keys(stored.own, (), "its content")
        model = stored.model
        nothing = np.zeros((1, model.private_width))
        width = features(model.mechanism.support, nothing).shape[1]
        dim = model.prior.unconstrained_dim
        stored.check_dims(dim, width)
        return cls(
            model,
            stored.density,
            stored.report,
            conditions=stored.array("conditions", None, width),
            bounds=stored.array("bounds", 2, dim),
            estimator=stored.estimator,
        )


def _key_of(condition: np.ndarray) -> Array:
    """A key that depends on the observation alone."""
    import zlib

    import jax

    return jax.random.key(zlib.crc32(np.ascontiguousarray(condition).tobytes()))
