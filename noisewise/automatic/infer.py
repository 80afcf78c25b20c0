"""One call for analysts who do not want to choose a method."""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise.automatic.budget import Budget
from noisewise.automatic.ranking import better, num_exact_draws
from noisewise.automatic.routes import candidates
from noisewise.automatic.search import Search
from noisewise.automatic.summary import summarised
from noisewise.diagnostics.stated_mechanism import mechanism_findings
from noisewise.errors import InvalidTypeError
from noisewise.inference.contract.base import prior_only
from noisewise.inference.contract.recorded import identity_of, recorded
from noisewise.inference.contract.run import InferenceRun
from noisewise.model.observation import pair_of
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior
from noisewise.posteriors.findings import with_finding
from noisewise.runs import Journal

if TYPE_CHECKING:
    from noisewise.disclosure import Release


def infer(
    key: Array,
    model: PrivateModel | Any,
    observed: ArrayLike | Release | None = None,
    *,
    target_ess: int = 1000,
    max_simulations: int = 100_000,
    max_minutes: float | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> AbstractPosterior:
    """Infer theta from the private statistic `observed`, by the cheapest method that can show how
    good its answer is.

    These routes are tried in order. The search ends with the first answer that reaches the target,
    or with the best one when a budget is spent.

    1. known law: the simulator is a `StatisticLaw` whose sum with the noise is known, or of cells
       that released numbers add up. Runs `MarginalNUTS`, or `CountAugmentationMCMC` with `sums=`;
       evidence: R-hat, effective size and divergences.
    2. no density: the mechanism has no density. Runs `PrivatePosteriorEstimation`; evidence:
       none, `report.exact` is False.
    3. known records: records are independent and the query sums over them. Runs
       `DataAugmentationMCMC`, else `ExactSMC`; evidence: R-hat and effective size.
    4. weighted prior: any simulator; sufficient where the noise hides most of the data. Runs
       `ImportanceSampling` from the prior; evidence: the weights.
    5. adapted importance: at most 6 free parameters. Runs independent searches, then
       `ImportanceSampling` from a law fitted to what they found; evidence: separate weighted draws,
       and what the searches agree on.
    6. particles alone: the mechanism's noise cannot be simulated. Runs `ExactSMC`; evidence:
       R-hat and effective size.
    7. particles first: the prior hardly predicts the observation. Runs `ExactSMC`, with a third
       of the simulations left; evidence: R-hat and effective size.
    8. learnt and corrected: any other simulator. Runs rounds of `PrivatePosteriorEstimation`,
       until simulations drawn from it and weighted reach the target; evidence: `certify`.

    `posterior.report` says what was done and what the answer is worth. Read `report.exact` and
    `report.warnings` first; programs use `report.findings`, which have kinds.

    Args:
        key: A JAX PRNG key. The same key gives the same posterior.
        model: The model: prior, simulator, query and mechanism; or what holds a model and its
            observation, such as the `Analysis` of `nw.regression`.
        observed: The private statistic, shape (k',), or the `Release` that holds it; left out where
            the second argument holds it.
        target_ess: Independent draws from the exact posterior that the answer should be worth.
        max_simulations: Simulations that may be run, by all methods together.
        max_minutes: Minutes that may pass. Without it time is unlimited.
        run_dir: A folder that keeps all work. The same call with the same folder resumes an
            interrupted run, and ends with the same posterior to the last bit.
        executor: Runs simulators that are written in Python.
        progress: Whether to show progress bars on a terminal.

    Returns:
        The posterior. Its report covers all methods that were run.

    Raises:
        InvalidTypeError: If `model` is not a `PrivateModel`, or `key` is not a key.
        InvalidInputError: If `observed` does not fit the model, or a budget is not positive.
        SimulationError: If every simulation from the prior fails.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> posterior = nw.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.report.exact, posterior.report.diagnostics["route"]
    (True, 'da-mcmc')
    """
    model, observed = pair_of(model, observed)
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            f"infer(key, model, observed) needs a PrivateModel second, got {describe(model)}."
        )
    key, checked = as_key(key), model.observation(observed)
    settings = {
        "target_ess": integer("target_ess", at_least=1)(target_ess),
        "max_simulations": integer("max_simulations", at_least=1)(max_simulations),
        "max_minutes": number("max_minutes", above=0.0, optional=True)(max_minutes),
    }
    options = {"executor": executor, "progress": progress, "faults": model.new_faults()}

    def search(journal: Journal | None = None) -> AbstractPosterior:
        budget = Budget(settings["max_simulations"], settings["max_minutes"], journal)
        journalled = options if journal is None else {**options, "journal": journal}
        found = Search(key, model, checked, settings["target_ess"], budget, journalled)
        return _believable(summarised(found, _best(found), settings), model, checked)

    if run_dir is None:
        return search()
    return recorded(run_dir, identity_of("infer", settings, key, model, checked), search)


def _believable(
    posterior: AbstractPosterior, model: PrivateModel, observed: np.ndarray
) -> AbstractPosterior:
    """The posterior, whose report says what speaks against the stated mechanism."""
    report = posterior.report
    for finding in mechanism_findings(posterior, model, observed):
        found = with_finding(report.findings, finding)
        report = dataclasses.replace(report, findings=found)
    return posterior.with_report(report)


def _best(search: Search) -> AbstractPosterior:
    """The first posterior that reaches the target, or the best of those that routes offer."""
    best: AbstractPosterior | None = None
    for offered in candidates(search):
        best = better(best, offered)
        reached = num_exact_draws(best) >= search.target_ess
        if reached or (search.budget.is_spent() and best.report.exact):
            break
    if best is None:
        empty: dict[str, Any] = {}
        best = prior_only(search.key, InferenceRun("infer", empty, search.model, search.observed))
    return best
