"""The route that weights draws from the prior, which is enough where noise hides most of the data.

A pilot of 2,000 simulations says whether more of them would reach the target. It also shows whether
the prior hardly predicts the observation, which decides about a later route.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator

import numpy as np

from noisewise.automatic.ranking import SAFETY_FACTOR, Candidate
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.errors import SimulationError
from noisewise.inference import ImportanceSampling
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.exact.weighted_draws import ImportanceDraws, UnconstrainedPrior
from noisewise.posteriors.weighted_samples import max_pareto_k, pareto_k

_NUM_PILOT = 2000
"""Simulations of the pilot: 2% of the default budget, and enough to estimate efficiencies from
about 1 effective draw in 40.
"""

_MIN_SECONDS = 1e-3
"""Seconds that the pilot takes at least, so that rates are finite whatever the clock's resolution.
"""

_MAX_PART = 3
"""Weighted prior draws may take one part in three of the simulations left: other routes need the
rest if the pilot promised too much.
"""


def _candidates(search: Search) -> Iterator[Candidate]:
    """A pilot, and more draws from the prior if the pilot says that they reach the target."""
    pilot, run = _pilot(search)
    if not pilot.num:
        return
    if not np.isfinite(pilot.log_weights).any():
        _check_simulator(search, run, pilot)
        search.count("importance", run.num_simulations, run.num_failed, effective_size=0.0)
        return
    search.pilot = pilot
    posterior = pilot.posterior()
    search.count_posterior("importance", posterior, run.num_simulations)
    search.superseded = posterior
    yield Candidate(posterior)
    per_effective = pilot.num / max(pilot.effective_size, 1.0)
    needed = math.ceil(SAFETY_FACTOR * search.target_ess * per_effective)
    if needed <= search.budget.remaining / _MAX_PART and pareto_k(
        pilot.log_weights
    ) <= max_pareto_k(pilot.num):
        method = ImportanceSampling(num_stages=0, num_final=needed)
        search.superseded = search.run(Use.WEIGHTED_PRIOR, method)
        yield Candidate(search.superseded, replaces=posterior)


def _pilot(search: Search) -> tuple[ImportanceDraws, InferenceRun]:
    """Weighted draws from the prior, which also show whether the observation is surprising."""
    run = search.start("importance")
    pilot = ImportanceDraws(run, UnconstrainedPrior(search.model.prior))
    with run.progress(), contextlib.suppress(OutOfBudget):
        started = time.monotonic()
        pilot.add(search.key_for(Use.PILOT), _NUM_PILOT)
        search.rate = pilot.num / max(time.monotonic() - started, _MIN_SECONDS)
        run.look_at_observation(search.key_for(Use.OBSERVATION), pilot.s)
        search.observation_surprises = run.surprised
    return pilot, run


def _check_simulator(search: Search, run: InferenceRun, pilot: ImportanceDraws) -> None:
    """Refuse a simulator that failed every time."""
    if run.num_failed < run.num_simulations:
        return
    theta = search.model.prior.constrain(pilot.z[:1])[0]
    at = ", ".join(
        f"{name} = {value:.4g}" for name, value in zip(search.model.names, theta, strict=True)
    )
    raise SimulationError(
        f"All of {run.num_simulations:,} simulations failed (NaN statistics), for instance at {at}:"
        " fix the simulator."
    )


ROUTE = Route(
    name="weighted prior",
    when="any simulator; sufficient where the noise hides most of the data",
    methods="`ImportanceSampling` from the prior",
    evidence="the weights",
    applies=lambda search: True,
    candidates=_candidates,
)
