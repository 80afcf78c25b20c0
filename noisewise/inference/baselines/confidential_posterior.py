"""The posterior that the curator could compute."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from noisewise._core.arrays import Array, describe, integer
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.inference.baselines.conjugate import (
    conjugate_draws,
    conjugate_refusal,
    record_draws,
)
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.run import InferenceRun
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Kind
from noisewise.simulators import LogLinear

_ROUNDING = 1e-6
"""How far counts may be from whole numbers, in units of n: float64 rounding stays far below, noise
lies far above.
"""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ConfidentialPosterior(AbstractMethod):
    r"""What the data say without privacy, theta ~ p(theta | x): for the curator, and for tables.

    `data` are the records x (n, columns) as they are, not clamped, or the confidential statistic s
    (k,). The models are those of `NaivePlugIn`. Given records the posterior is exact. Given s it
    is that of unclamped records with this statistic: exact for `LogLinear`, and for the others if
    no record was clamped or rounded, which s does not show.

    The private observation that `infer` takes is checked and not used. The report leaves `data`
    out and messages never show it, but the posterior itself reveals it: it is not private, and
    must not be published.

    Args:
        data: The records, shape (n, columns), or the confidential statistic, shape (k,).
        num_draws: Independent draws wanted.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.linear_regression(epsilon=10.0)
    >>> method = nw.inference.ConfidentialPosterior(data=problem.confidential)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.summary()["mean"].round(1).tolist()
    [-2.1, -2.8, -0.8]
    """

    slug: ClassVar[str] = "confidential"

    data: Any = dataclasses.field(repr=False)
    num_draws: int = 4000

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        object.__setattr__(self, "num_draws", integer("num_draws", at_least=1)(self.num_draws))
        object.__setattr__(self, "data", _as_data(self.data))

    def _refusal(self, model: PrivateModel) -> str | None:
        return conjugate_refusal(model, type(self).__name__)

    def _check(self, model: PrivateModel) -> None:
        if self._is_statistic(model):
            _check_tables(model, self.data)
        else:
            self._records(model)

    def _infer(self, key: Array, run: InferenceRun) -> Draws:
        exact = not self._is_statistic(run.model) or isinstance(run.model.simulator, LogLinear)
        if self._is_statistic(run.model):
            theta = conjugate_draws(key, run.model, self.data, self.num_draws)
        else:
            theta = record_draws(key, run.model, self._records(run.model), self.num_draws)
        run.warn(Kind.CONFIDENTIAL)
        if not exact:
            run.warn(Kind.CLAMPING_IGNORED)
        return run.draws(theta, exact=exact)

    def _is_statistic(self, model: PrivateModel) -> bool:
        return bool(self.data.shape == (model.statistic_width,))

    def _records(self, model: PrivateModel) -> np.ndarray:
        """The data as (n, columns), checked."""
        domain, n, width = model.query.domain, model.query.num_records, model.statistic_width
        if domain is None or self.data.shape not in (
            (n, domain.width),
            (n,) if domain.width == 1 else None,
        ):
            columns = 1 if domain is None else domain.width
            raise InvalidInputError(
                f"data must be the records, shape ({n}, {columns}), or the statistic, shape"
                f" ({width},); got shape {self.data.shape}."
            )
        return np.asarray(domain.records(self.data, n))


def _as_data(value: Any) -> np.ndarray:
    try:
        data = np.array(value)
    except (TypeError, ValueError):
        data = np.array(None)
    if data.dtype.kind not in "fiub":
        raise InvalidTypeError(
            "data must be the records or the confidential statistic, an array of numbers; got"
            f" {describe(value)}."
        )
    if not np.isfinite(data).all():
        raise InvalidInputError(
            "data must be finite: remove or fill missing and infinite values first."
        )
    data.flags.writeable = False
    return data


def _check_tables(model: PrivateModel, s: np.ndarray) -> None:
    """Refuse proportions that no tables have, such as those with noise added."""
    if not isinstance(model.simulator, LogLinear):
        return
    n = model.simulator.num_records
    counts = (n * s).reshape(model.simulator.num_classes, -1)
    starts = np.cumsum((0, *model.simulator.num_values))[:-1]
    classes = np.add.reduceat(counts, starts, axis=1)
    whole = np.abs(counts - np.rint(counts)).max() <= _ROUNDING * n
    agree = (
        np.abs(classes - classes[:, :1]).max() <= _ROUNDING * n
        and abs(classes[:, 0].sum() - n) <= _ROUNDING * n
    )
    if counts.min() < 0.0 or not whole or not agree:
        raise InvalidInputError(
            f"data must be proportions out of {n} records that agree between features; these have"
            " noise in them or are of other records."
        )
