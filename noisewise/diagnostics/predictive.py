"""Observations against simulated ones: does the model, before or after inference, make data like
these?
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import Executor
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise._core.draws import filled_below
from noisewise.assessment import sentences
from noisewise.assessment.evidence import PredictionFacts
from noisewise.diagnostics.observations import simulated_observations
from noisewise.diagnostics.posterior_checks import check_posterior
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.inference.contract.surprise import p_value
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior

_DEFAULT = 1000
"""Simulations unless more statistics need more: p-values are then known to .3% at .01."""
_FEWEST = 100
"""Finite simulations: the smallest p-value of 100 is .02, and fewer could refuse nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictiveCheck:
    """Simulated private statistics next to the observed ones.

    Attributes:
        names: The private statistics.
        observed: The observation, shape (k',).
        simulated: Simulated ones, shape (n, k'), without failed simulations.
        num_failed: Simulations that failed (NaN) and were left out.
        source: "prior" or "posterior".
        p_value: The rank of the observation's distance from the centre of the simulated ones, over
            all statistics; small is surprising.
        alpha: The check fails at p-values up to this.
    """

    names: tuple[str, ...]
    observed: Float[np.ndarray, " kp"] = dataclasses.field(repr=False)
    simulated: Float[np.ndarray, "n kp"] = dataclasses.field(repr=False)
    num_failed: int
    source: str
    p_value: float
    alpha: float

    @property
    def passed(self) -> bool:
        """Whether the observation looks like the simulated ones."""
        return self.p_value > self.alpha

    @property
    def p_values(self) -> dict[str, float]:
        """Two-sided, statistic by statistic: twice the smaller tail, ties counted half."""
        return dict(
            zip(self.names, two_sided_p_values(self.simulated, self.observed).tolist(), strict=True)
        )

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        facts = self.facts
        return sentences.prediction(
            self.source, facts.passed, facts.p_value, facts.worst_name, facts.worst_p_value
        )

    @property
    def facts(self) -> PredictionFacts:
        """What `noisewise.assessment.judge` needs to know of this check."""
        worst, p = min(self.p_values.items(), key=lambda item: item[1])
        return PredictionFacts(
            passed=self.passed, p_value=self.p_value, worst_name=worst, worst_p_value=p
        )

    def __str__(self) -> str:
        ends = _central(self.simulated)
        rows = [
            f"  {name:<16} {_shown(seen):>12}   95% of simulated ones in [{_shown(low)},"
            f" {_shown(high)}]   p = {p:.2g}"
            for (name, p), seen, low, high in zip(
                self.p_values.items(), self.observed, *ends, strict=True
            )
        ]
        failed = (
            [f"  {self.num_failed:,} simulations failed (NaN) and were left out"]
            if self.num_failed
            else []
        )
        return "\n".join(
            [("passed. " if self.passed else "failed. ") + self.sentence, *rows, *failed]
        )


def _central(simulated: Float[np.ndarray, "n kp"]) -> Float[np.ndarray, "2 kp"]:
    """The quantiles 2.5% and 97.5% of each column, NaN where that is absent."""
    filled = filled_below(simulated)
    ends = np.quantile(filled, [0.025, 0.975], axis=0)
    partly = np.isnan(simulated).any(axis=0)
    least = np.where(np.isnan(simulated), np.inf, simulated).min(axis=0)
    return np.where(partly & (ends < least), np.nan, ends)


def _shown(value: float) -> str:
    return "absent" if np.isnan(value) else f"{value:.5g}"


def two_sided_p_values(
    simulated: Float[np.ndarray, "n k"], observed: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """Twice the smaller tail of each observed statistic (k,) among simulated ones (n, k), ties
    counted half. NaN, which is absent, counts as less than every number.
    """
    rows = filled_below(np.concatenate([observed[None], simulated]))
    observed, simulated = rows[0], rows[1:]
    ties = (simulated == observed).sum(axis=0)
    below = ((simulated < observed).sum(axis=0) + 0.5 * ties + 0.5) / (len(simulated) + 1)
    return np.asarray(2.0 * np.minimum(below, 1.0 - below))


def misspecification(
    key: Array,
    model: PrivateModel,
    observed: Any,
    num_simulations: int | None = None,
    *,
    alpha: float = 0.01,
    executor: Executor | None = None,
) -> PredictiveCheck:
    r"""The observation against the prior predictive law of s_dp: is it plausible under the prior
    and the model together?

    The observation is ranked among `num_simulations` simulated ones in two ways: by the mean
    squared deviation of all statistics, and by how deep it lies between the least and the largest
    of each. `p_value` is twice the smaller rank, so that an observation from the model fails with
    probability at most `alpha`, whatever the laws. It needs 2 / alpha simulations or more; with 4 /
    alpha for each statistic, the default (or 1000, if that is more), any observation outside the
    range of simulated ones fails.

    Args:
        key: JAX PRNG key.
        model: The model to check; its mechanism must be one that can be sampled.
        observed: The observation, shape (k',), or the `Release`.
        num_simulations: Simulations from the prior, 2 / alpha or more.
        alpha: Probability that an observation from the model fails.
        executor: Where Python simulators run; None is this process.

    Returns:
        A `PredictiveCheck`; `passed` says whether the observation is plausible under prior and
            model.

    Raises:
        MissingCapabilityError: If the mechanism cannot be sampled.

    >>> import noisewise as nw
    >>> problem = nw.problems.gaussian_mean(1.0)
    >>> misspecification(jax.random.key(0), problem.model, problem.observed).passed
    True
    >>> misspecification(jax.random.key(0), problem.model, problem.observed + 100.0).passed
    False
    """
    theta_key, simulate_key = jax.random.split(as_key(key))
    num = _checked(model, num_simulations, alpha, optional=True)
    return _check(
        simulate_key, model, observed, model.prior.sample(theta_key, num), "prior", alpha, executor
    )


def predictive_check(
    key: Array,
    posterior: AbstractPosterior,
    model: PrivateModel,
    observed: Any,
    num_simulations: int = 1000,
    *,
    alpha: float = 0.01,
    executor: Executor | None = None,
) -> PredictiveCheck:
    r"""The observation against the posterior predictive law of s_dp, simulated at draws of the
    posterior.

    The data are used twice, to fit and to check, so that p-values are too large, not too small: a
    failure means what it says, a pass means little. The ranks are those of `misspecification`.

    Args:
        key: JAX PRNG key.
        posterior: The posterior to predict from.
        model: The model it was inferred with.
        observed: The observation, shape (k',), or the `Release`.
        num_simulations: Simulations, 2 / alpha or more.
        alpha: The check fails at p-values up to this.
        executor: Where Python simulators run; None is this process.

    Returns:
        A `PredictiveCheck`; `passed` says whether the posterior makes data like the observation.

    Raises:
        MissingCapabilityError: If the mechanism cannot be sampled.

    >>> import noisewise as nw
    >>> problem = nw.problems.gaussian_mean(1.0)
    >>> draws = problem.reference(jax.random.key(0), 1000)
    >>> report = nw.posteriors.Report("exact")
    >>> exact = nw.posteriors.Draws(draws, problem.model.names, report)
    >>> predictive_check(jax.random.key(1), exact, problem.model, problem.observed).passed
    True
    """
    theta_key, simulate_key = jax.random.split(as_key(key))
    num = _checked(model, num_simulations, alpha)
    check_posterior(posterior, "posterior, the second argument,", model)
    return _check(
        simulate_key,
        model,
        observed,
        posterior.sample(theta_key, num),
        "posterior",
        alpha,
        executor,
    )


def _checked(model: Any, num: Any, alpha: Any, *, optional: bool = False) -> int:
    """The number of simulations, after the arguments that both checks share are checked."""
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(f"A PrivateModel is needed to simulate from, got {describe(model)}.")
    if Capability.SAMPLE not in model.mechanism.capabilities:
        raise MissingCapabilityError(
            f"{type(model.mechanism).__name__} cannot be sampled, so that nothing can be predicted."
        )
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    if optional and num is None:
        return max(_DEFAULT, int(np.ceil(4.0 * model.private_width / alpha)))
    return integer("num_simulations", at_least=max(_FEWEST, int(np.ceil(2.0 / alpha))))(num)


def _check(
    key: Array,
    model: PrivateModel,
    observed: Any,
    theta: Float[np.ndarray, "n d"],
    source: str,
    alpha: float,
    executor: Any,
) -> PredictiveCheck:
    """Simulate at theta (n, d), and rank the observation among what is finite.

    Args:
        key: JAX PRNG key.
        model: The model to simulate from.
        observed: The observation, shape (k',), or the `Release`.
        theta: Where to simulate, shape (n, d).
        source: "prior" or "posterior", where theta comes from.
        alpha: The check fails at p-values up to this.
        executor: Where Python simulators run; None is this process.
    """
    seen = model.observation(observed)
    simulated, good = simulated_observations(key, model, theta, executor)
    if good.sum() < _FEWEST:
        raise InvalidInputError(
            f"Of {len(good):,} simulations {good.sum():,} are finite: at least {_FEWEST} are"
            " needed."
        )
    return PredictiveCheck(
        names=model.private_names,
        observed=seen,
        simulated=simulated[good],
        num_failed=int((~good).sum()),
        source=source,
        p_value=p_value(simulated[good], seen),
        alpha=alpha,
    )
