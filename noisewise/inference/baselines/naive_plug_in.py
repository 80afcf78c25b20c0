"""The private statistic treated as the confidential one."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import ClassVar

from noisewise._core.arrays import Array, integer
from noisewise._core.keys import split
from noisewise.inference.baselines.conjugate import conjugate_draws, conjugate_refusal
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Kind


@dataclasses.dataclass(frozen=True, kw_only=True)
class NaivePlugIn(AbstractMethod):
    r"""The conjugate posterior as if no noise had been added and no record clamped.

        theta ~ p(theta | s = s_dp)

    Use it to see what ignoring the mechanism does. Do not use it as an answer: on the paper's
    regression at epsilon 10 it lies some five posterior standard deviations off, with intervals a
    quarter as wide as they should be. It serves

    - `LinearRegression` with `RegressionMoments`: the sums X'X and X'y that s_dp stands for,
      refused where no data can have them,
    - `LogLinear` with `CategoryProportions`: counts max(0, n s_dp) added to the Dirichlet
      parameters, those of the classes being the means over the features,
    - `NormalRecords` with `ClampedMean` of one column,

    under their conjugate priors. Draws are independent.

    Args:
        num_draws: Independent draws wanted.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.linear_regression(epsilon=10.0)
    >>> method = nw.inference.NaivePlugIn()
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.summary()["mean"].round(1).tolist(), posterior.report.exact
    ([-4.6, -6.2, -5.1], False)
    """

    slug: ClassVar[str] = "naive"

    num_draws: int = 4000

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        object.__setattr__(self, "num_draws", integer("num_draws", at_least=1)(self.num_draws))

    def _refusal(self, model: PrivateModel) -> str | None:
        return conjugate_refusal(model, type(self).__name__)

    def _infer(self, key: Array, run: InferenceRun) -> Draws:
        draw_key, look_key = split(key)
        theta = conjugate_draws(draw_key, run.model, run.observed, self.num_draws)
        with contextlib.suppress(OutOfBudget):
            run.look_at_observation(look_key)
        run.warn(Kind.NOISE_IGNORED)
        return run.draws(theta, exact=False)
