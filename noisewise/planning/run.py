"""One set of simulations, many budgets."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, as_key, as_vectors, describe, in_float64, integer, number
from noisewise._core.neighbours import AbstractNeighbours, as_neighbours
from noisewise.errors import InvalidInputError, InvalidTypeError, SimulationError
from noisewise.inference.contract.run import InferenceRun
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.model.observation import pair_of
from noisewise.model.private_model import PrivateModel
from noisewise.model.sensitivity_check import check_sensitivity
from noisewise.planning.budgets import Budgets, budgets, check_capabilities
from noisewise.planning.outcome import Plan
from noisewise.planning.weighing import Learnt, SimulatedSet, learn, quantities_of
from noisewise.simulators import StatisticLaw

_LEAST_POWER = 0.1
"""The power of the noise's density that weights must bear in half of all releases, else widths are
those of another law: at .05 the spread of districts had twice the sd of its prior.
"""
_MOST_FAILED = 0.5
"""Share of failed simulations above which a plan would be about another prior."""


def plan(
    key: Array,
    model: PrivateModel | Any,
    epsilons: Budgets | None = None,
    *,
    mechanisms: Mapping[Any, AbstractMechanism] | None = None,
    neighbours: AbstractNeighbours | None = None,
    num_simulations: int = 50_000,
    num_releases: int = 100,
    truth: ArrayLike | None = None,
    level: float = 0.95,
    delta: float = 1e-6,
    executor: Executor | None = None,
    progress: bool = True,
) -> Plan:
    r"""What an analyst will learn at each privacy budget: posterior widths and coverage before
    anything is released.

        theta_i ~ pi,  s_i ~ f(. | theta_i)                         once
        s_dp,j ~ eta(. | s_j),   w_ij ∝ eta(s_dp,j | s_i)           at each budget

    Simulations do not depend on the noise, and noise costs nothing: ONE set of simulations serves
    every budget. Some of them play the part of the data; the others, weighted by the mechanism's
    density, are draws of each posterior. So posteriors are exact up to Monte Carlo error where the
    weights are worth 20 draws or more; below that, at large budgets, a local normal law completes
    them, and the table says for which share of the releases (`completed`; more simulations lower
    it).

    Releases at all budgets are of the same data, with the same random numbers.

    Args:
        key: A JAX PRNG key.
        model: Prior, simulator, query and mechanism.
        epsilons: The budgets: numbers or guarantees, for which the model's mechanism is made again.
        mechanisms: Mechanisms by label, in place of epsilons.
        neighbours: Which databases the budgets are about; None for those of the mechanisms, which
            it may not contradict.
        num_simulations: The size of the set.
        num_releases: How many of them play the part of the data.
        truth: Parameters of these, shape (d,) or (m, d), in place of draws from the prior.
        level: The probability of intervals.
        delta: The delta of Gaussian noise.
        executor: Runs the simulations, as for `infer`.
        progress: Whether to show a bar.

    Returns:
        The plan: a table, sentences and a plot.

    Raises:
        InvalidInputError: If an argument is out of range, or budgets are stated twice.
        SensitivityError: If a mechanism is calibrated for less than the query's sensitivity.
        SimulationError: If most simulations fail.

    A model whose law is known (`StatisticLaw`) is refused where weights say too little: there
    `infer` answers a release that was made up, exactly, in seconds.

    >>> import noisewise as nw
    >>> model = nw.problems.linear_regression().model
    >>> options = {"num_simulations": 5000, "num_releases": 20, "progress": False}
    >>> found = plan(jax.random.key(0), model, [0.1, 10.0], **options)
    >>> share = found.table["share of prior"]
    >>> bool(share[0.1, "beta[1]"] > 0.9 > share[10.0, "beta[1]"])
    True
    """
    key, (model, _) = as_key(key), pair_of(model, None)
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            f"plan(key, model, epsilons) needs a PrivateModel second, got {describe(model)}."
        )
    level, delta = (
        number("level", above=0.0, below=1.0)(level),
        number("delta", above=0.0, below=1.0)(delta),
    )
    num_releases = integer("num_releases", at_least=2)(num_releases)
    num_simulations = integer("num_simulations", at_least=1000)(num_simulations)
    if num_releases > num_simulations // 2:
        raise InvalidInputError(
            f"num_releases={num_releases} must be at most half of"
            f" num_simulations={num_simulations}."
        )
    made = budgets(model.mechanism, epsilons, mechanisms, delta)
    if neighbours is not None:
        relation = as_neighbours(neighbours)
        made = {label: mechanism.for_neighbours(relation) for label, mechanism in made.items()}
    for mechanism in made.values():
        check_sensitivity(mechanism, model.query)
    check_capabilities(made)
    settings = {"num_simulations": num_simulations, "num_releases": num_releases, "level": level}
    run = InferenceRun(
        "plan",
        settings,
        model,
        np.zeros(0),
        executor=executor,
        progress=progress,
        max_simulations=num_simulations,
    )
    set_key, noise_key, learn_key = jax.random.split(key, 3)
    with run.progress():
        truths, s_true, simulated = _simulations(
            set_key, run, _truths(model, truth), num_releases, num_simulations
        )
        released, learnt = {}, {}
        for label, mechanism in made.items():
            released[label] = mechanism.sample(noise_key, s_true)
            learnt[label] = learn(learn_key, simulated, mechanism, released[label], level)
    _check_known_law(model, learnt)
    return Plan(
        names=(*model.names, *model.derived),
        mechanisms=made,
        truths=truths,
        true_quantities=quantities_of(model, truths),
        prior_quantities=simulated.quantities,
        released=released,
        learnt=learnt,
        level=level,
        num_simulations=run.num_simulations,
        num_failed=run.num_failed,
        given_truth=truth is not None,
        dropped=run.dropped,
    )


def _check_known_law(model: PrivateModel, learnt: Mapping[Any, Learnt]) -> None:
    """Refuse a plan that would be about its normal completions, where exact answers are to be had
    in seconds.
    """
    if not isinstance(model.simulator, StatisticLaw):
        return
    blind = [str(label) for label, found in learnt.items() if np.median(found.power) < _LEAST_POWER]
    if blind:
        raise InvalidInputError(
            f"A plan weighs one set of simulations, and at {', '.join(blind)} hardly any comes near"
            f" the releases ({model.prior.dim} parameters, {model.statistic_width} numbers): its"
            " widths would be off by factors. The law of these numbers is known, so that a release"
            " can be made up and answered exactly in seconds: observed = model.simulate(key,"
            " theta[None])[0]; nw.infer(key, model, observed).summary()['sd'], for the model at"
            " each budget. Smaller budgets can be planned."
        )


@in_float64
def _truths(model: PrivateModel, truth: ArrayLike | None) -> np.ndarray | None:
    """The parameters that the user gave, shape (m, d); None if there are none."""
    if truth is None:
        return None
    rows = np.atleast_2d(np.asarray(as_vectors(truth, "truth", model.prior.dim)))
    if rows.ndim != 2 or not np.isfinite(model.prior.log_prob(rows)).all():
        raise InvalidInputError(
            f"truth must hold values of {', '.join(model.names)} that the prior allows, (d,) or"
            " (m, d)."
        )
    return rows


def _simulations(
    key: Array, run: InferenceRun, truth: np.ndarray | None, num_releases: int, num: int
) -> tuple[np.ndarray, np.ndarray, SimulatedSet]:
    """The truths (J, d), their statistics (J, k), and all other simulations."""
    theta_key, simulate_key = jax.random.split(key)
    theta = run.model.prior.sample(theta_key, num)
    if truth is not None:
        theta[:num_releases] = np.resize(truth, (num_releases, truth.shape[1]))
    s = run.statistics(simulate_key, theta)
    good = np.isfinite(s).all(axis=1)
    data = good[:num_releases]
    if good.mean() < 1.0 - _MOST_FAILED or data.sum() < 2:
        where = ", ".join(
            f"{name} = {value:.4g}"
            for name, value in zip(run.model.names, theta[~good][0], strict=True)
        )
        raise SimulationError(
            f"{int((~good).sum()):,} of {len(good):,} simulations failed (NaN or infinite"
            f" statistics), for instance at {where}: fix the simulator there, or give a prior that"
            " stays away."
        )
    rest = good.copy()
    rest[:num_releases] = False
    return (
        theta[:num_releases][data],
        s[:num_releases][data],
        SimulatedSet(run.model, theta[rest], s[rest]),
    )
