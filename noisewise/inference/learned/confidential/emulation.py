r"""The posterior of a learnt law of statistics by weights: its draws in place of simulations.

    w_i = pi(theta_i) eta(s_dp | s_i) / proposal(theta_i),    s_i ~ q(s | theta_i)

Particles need a density that is smooth on the scale of the noise. Where q(s | theta) is far
narrower than the noise, as an epidemic is given its parameters, or has atoms that nothing leads
away from, they crawl, while a draw of s is as good as a simulation and costs a microsecond. Weights
need some (1 + rv) of them for each effective draw, rv the relative variance of eta(s_dp | s) given
theta: few where the noise is wide or the statistics are few, hopelessly many where dozens of
statistics are known more precisely than they vary.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.keys import generator, split
from noisewise._core.weights import MANY_DRAWS, effective_size, normalised, systematic_rows
from noisewise.errors import MissingCapabilityError
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.importance_sampling import ImportanceSampling
from noisewise.inference.exact.weighted_draws import relative_variance
from noisewise.posteriors import AbstractPosterior, Draws, Kind
from noisewise.simulators.base import AbstractSimulator

if TYPE_CHECKING:
    from noisewise.inference.learned.confidential.learned_confidential_likelihood import (
        LearnedConfidentialLikelihood,
    )
    from noisewise.simulators.base import Execution, Query

_MAX_PARAMETERS = 6
"""Parameters up to which the proposals of importance sampling, mixtures of t laws, fit: as for the
searches of `nw.infer`.
"""
_LOOK, _PLACES, _REPEATS = 8192, 16, 256
"""Draws from the prior that say where the observation is likely, places there at which rv is
measured, and draws of s at each: where rv is thousands, 220 to 250 were measured.
"""
_MAX_RELATIVE_VARIANCE = 100.0
"""1 + rv, up to which weights are tried: 64,000 draws may then be worth 400."""
_NUM_STAGES = 2
"""Stages that adapt the proposal: the first draws from the prior, the second near the posterior."""
_PER_EFFECTIVE = 32
"""Draws of the learnt law in each stage and in the end, for each effective one wanted: for the
default of 2,000 as many from the prior as particles are chosen from. They do not depend on the
observation, so that programs are compiled once.
"""
_MIN_DRAWS = 8192
"""Draws at least, where few are wanted for each of many observations."""
_SMALLEST_MODE = "smallest mode sure to be seen"
WEIGHTS = ("1 + rv", "effective size", _SMALLEST_MODE)
"""What the report says where weights served."""


class LearntSimulator(AbstractSimulator):
    """Draws of s from a learnt law, where others draw databases; those beyond all simulations count
    for their end, so that the mechanism takes them. Columns that follow from others still do.

    Draws that are NaN count as failed simulations.

    Attributes:
        num_drawn: Draws so far.
        num_lost: How many of them were NaN.
    """

    def __init__(self, law: LearnedConfidentialLikelihood) -> None:
        self.law, self.num_drawn, self.num_lost = law, 0, 0

    def draws(self, key: Array, theta: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """One s for each theta."""
        space, bounds = self.law.space, self.law.bounds
        free = list(space.free)
        drawn = self.law.sample(key, theta)[:, free]
        self.num_drawn += len(drawn)
        self.num_lost += int(np.isnan(drawn).any(axis=1).sum())
        within = np.clip(drawn, *bounds[:, free])
        return np.clip(np.asarray(space.offset) + within @ np.asarray(space.matrix), *bounds)

    def _statistics(
        self, keys: Any, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        return self.draws(keys.first, theta)

    def _simulate(self, keys: Any, theta: np.ndarray, execution: Execution) -> Any:
        raise MissingCapabilityError("A learnt law of statistics draws no databases.")


def drawn_by_weights(
    key: Array, law: LearnedConfidentialLikelihood, run: InferenceRun
) -> Draws | None:
    """Draws from the posterior of the learnt law, if weights are a good way to them.

    Args:
        key: JAX PRNG key.
        law: The learnt law.
        run: The inference, with the observation and its mechanism.

    Returns:
        Draws with their statistics; None where there are too many parameters, where an effective
        draw would take too many draws of s, or where weights turned out to be worth too few or
        importance sampling does not call its own answer sound.
    """
    if run.model.prior.unconstrained_dim > _MAX_PARAMETERS:
        return None

    def compute() -> dict[str, np.ndarray]:
        look_key, draw_key, choose_key = split(key, 3)
        simulator = LearntSimulator(law)
        variance = _relative_variance(look_key, simulator, run)
        if variance > _MAX_RELATIVE_VARIANCE:
            return {}
        found = _weighted(draw_key, simulator, run)
        size = effective_size(found.weights)
        if size < MANY_DRAWS or not found.report.exact:
            return {}
        seen = found.report.diagnostics.get(_SMALLEST_MODE, np.nan)
        place = float(generator(choose_key).random())
        rows = systematic_rows(found.weights, min(law.num_kept, len(found.weights)), place)
        return {
            "numbers": np.array([variance, size, seen]),
            "draws": np.array([simulator.num_lost, simulator.num_drawn]),
            "theta": found.theta[rows],
            "s": np.asarray(found.statistics)[rows],
        }

    arrays = run.remember("weights", compute)
    if "theta" not in arrays:
        return None
    run.diagnostics |= dict(zip(WEIGHTS, arrays["numbers"].tolist(), strict=True))
    lost, drawn = map(int, arrays["draws"])
    run.withdraw(Kind.LEARNT_DRAWS_NOT_FINITE)
    if lost:
        run.warn(Kind.LEARNT_DRAWS_NOT_FINITE, failed=lost, draws=drawn)
    return run.draws(arrays["theta"], arrays["s"], exact=False)


def _relative_variance(key: Array, simulator: LearntSimulator, run: InferenceRun) -> float:
    """1 + rv where draws from the prior come nearest to the observation."""
    prior_key, near_key, draw_key, again_key = split(key, 4)
    theta = run.model.prior.sample(prior_key, _LOOK)
    log_eta = run.log_eta(simulator.draws(draw_key, theta))
    if not np.isfinite(log_eta).any():
        return np.inf
    place = float(generator(near_key).random())
    near = theta[systematic_rows(normalised(log_eta), _PLACES, place)]
    s = simulator.draws(again_key, np.repeat(near, _REPEATS, axis=0))
    return relative_variance(run.log_eta(s).reshape(_PLACES, _REPEATS))


def _weighted(key: Array, simulator: LearntSimulator, run: InferenceRun) -> AbstractPosterior:
    """Importance sampling with the learnt law as the simulator."""
    model = dataclasses.replace(run.model, simulator=simulator)
    num = max(_MIN_DRAWS, _PER_EFFECTIVE * simulator.law.target_ess)
    method = ImportanceSampling(num_stages=_NUM_STAGES, num_adapt=num, num_final=num)
    return method.infer(key, model, run.observed, progress=False)
