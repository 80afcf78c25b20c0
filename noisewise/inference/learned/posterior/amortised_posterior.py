"""A posterior learnt for every observation at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from noisewise._core.arrays import Array, as_key, stage_key
from noisewise._core.files import require_keys
from noisewise.errors import InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.surprise import p_value
from noisewise.inference.learned.common.features import features
from noisewise.inference.learned.common.fits import (
    MASS_OUTSIDE,
    AbstractFit,
    Arrays,
    check_dims,
    extrapolation,
    share_outside,
    stored,
)
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Finding, Kind
from noisewise.posteriors.base import check_num
from noisewise.posteriors.learned import LearnedPosterior, constrained_log_prob
from noisewise.posteriors.report import Report

_KEPT = 4000
_SURPRISE = 0.005


class AmortisedPosterior(AbstractFit):
    r"""q(theta | s_dp) for any s_dp that the model predicts:
    `PrivatePosteriorEstimation(num_rounds=1).fit(key, model)` makes one.

    It serves the mechanism it was trained with. `posterior(observed)` costs milliseconds;
    `sample_many` serves many observations at once, as `nw.diagnostics.calibrate` wants it.
    `save(path)` keeps it for `AmortisedPosterior.load(path, model)`.

    `conditions` (N, w) are what the network saw of simulated observations, `bounds` (2, p) the
    least and the largest of the simulated parameters, unconstrained: the report of a posterior says
    how much of it lies beyond them.
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
        conditions: np.ndarray,
        bounds: np.ndarray,
        estimator: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.density, self.report, self.estimator = model, density, report, estimator
        self._conditions, self._bounds = conditions, bounds

    def posterior(self, observed: Any) -> LearnedPosterior:
        """The posterior given an observation (k',) or a release; nothing is simulated or trained."""
        condition, prior = (
            self._condition(self._observation(observed, self.model)[None]),
            self.model.prior,
        )
        z = self.density.sample(_key_of(condition), condition[0], _KEPT)
        theta = prior.constrain(z)
        return LearnedPosterior(
            theta,
            self.model.names,
            self._looked(condition, share_outside(z, self._bounds)),
            density=self.density,
            condition=condition[0],
            prior=prior,
            estimator=self.estimator,
            derived=self.model.derived_quantities(theta),
        )

    def sample_many(self, key: Array, observed: Any, num: int) -> np.ndarray:
        """`num` draws of theta for each observation (N, k'): (N, num, d)."""
        condition, num = self._condition(self._table(observed)), check_num(num)
        z = self.density.sample(
            stage_key(as_key(key), "posterior"), np.repeat(condition, num, axis=0)
        )
        return self.model.prior.constrain(z).reshape(len(condition), num, -1)

    def log_prob(self, theta: Any, observed: Any) -> np.ndarray:
        """log q(theta_i | observed_i) (N,) for theta (N, d) and observations (N, k')."""
        theta, condition = (
            np.atleast_2d(np.asarray(theta, dtype=np.float64)),
            self._condition(self._table(observed)),
        )
        return constrained_log_prob(
            self.model.prior, lambda z: self.density.log_prob(z, condition), theta
        )

    def _table(self, observed: Any) -> np.ndarray:
        table = np.atleast_2d(np.asarray(observed, dtype=np.float64))
        if table.ndim != 2 or table.shape[1] != self.model.private_width:
            raise InvalidInputError(
                f"observed must have shape (N, {self.model.private_width}), got"
                f" {np.shape(observed)}."
            )
        return table

    def _condition(self, observed: np.ndarray) -> np.ndarray:
        return features(self.model.mechanism.support, observed)

    def _looked(self, condition: np.ndarray, outside: float) -> Report:
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
    def _read(
        cls,
        model: PrivateModel,
        density: ConditionalDensity,
        own: Any,
        arrays: Arrays,
        common: dict[str, Any],
    ) -> Self:
        require_keys(own, (), "its content")
        width, dim = (
            features(model.mechanism.support, np.zeros((1, model.private_width))).shape[1],
            model.prior.unconstrained_dim,
        )
        check_dims(density, dim, width)
        conditions, bounds = (
            stored(arrays, "conditions", None, width),
            stored(arrays, "bounds", 2, dim),
        )
        return cls(model, density, conditions=conditions, bounds=bounds, **common)


def _key_of(condition: np.ndarray) -> Array:
    """A key that depends on the observation alone."""
    import zlib

    import jax

    return jax.random.key(zlib.crc32(np.ascontiguousarray(condition).tobytes()))
