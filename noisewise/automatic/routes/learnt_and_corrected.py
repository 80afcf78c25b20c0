"""The route for any simulator: learn the posterior, then weight draws from it.

A network learns the posterior in rounds. After a round a short certificate says how many weighted
draws the target would take. They are made when both budgets allow them, or when more learning
would not pay.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import jax

from noisewise._core.arrays import Array
from noisewise.assessment.judging import CERTIFYING_SIZE
from noisewise.automatic.ranking import MIN_ESS_TO_EXTRAPOLATE, SAFETY_FACTOR, Candidate
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.inference import PrivatePosteriorEstimation
from noisewise.posteriors import AbstractPosterior, WeightedSamples

_NUM_CHECK = 4000
"""Simulations of the short certificate after a round: 4% of the default budget; the effective size
of a good approximation is then known to a few percent.
"""

MIN_BATCH = 1000
"""Simulations of the smallest certificate: `certify` refuses fewer."""

_NUM_ROUNDS, _PER_ROUND = 10, 1000
"""Rounds and their simulations: small ones, for after each it may be good enough to be weighed."""

_FIRST_CHECKED_ROUND = 2
"""Round after which the first check comes: the first network has only seen prior draws."""

GOOD_EFFICIENCY = 0.6
"""Efficiency of weighted draws, as a share of a perfect approximation's, at which more learning
cannot pay: simulations are better spent on weighing.
"""

_MIN_SECONDS = 1e-3
"""Seconds that a check takes at least, so that rates are finite whatever the clock's resolution."""


class _Correction:
    """Sets of weighted draws from the rounds of a learnt posterior. The last one counts, so that
    none is picked for its luck.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._rate: float | None = None
        self._num_sets = 0
        self._last: WeightedSamples | None = None

    def check(self, key: Array, learnt: AbstractPosterior) -> tuple[int, bool]:
        """A short certificate of a learnt posterior.

        Args:
            key: A PRNG key.
            learnt: The posterior after a round.

        Returns:
            How many simulations the target would take by it, and whether it is as good as it needs
            to be. If too few simulations are left to check: 0, and True.
        """
        if self._affordable() < _NUM_CHECK:
            return 0, True
        started = time.monotonic()
        certificate = self._search.certify(key, learnt, _NUM_CHECK)
        self._rate = _NUM_CHECK / max(time.monotonic() - started, _MIN_SECONDS)
        per_effective = _NUM_CHECK / max(certificate.effective_size, 1.0)
        needed = SAFETY_FACTOR * max(self._search.target_ess, CERTIFYING_SIZE) * per_effective
        good = (
            certificate.effective_size >= MIN_ESS_TO_EXTRAPOLATE
            and certificate.efficiency >= GOOD_EFFICIENCY
        )
        return max(MIN_BATCH, math.ceil(needed)), good

    def weigh(
        self, key: Array, learnt: AbstractPosterior, needed: int, *, settled: bool
    ) -> Iterator[Candidate]:
        """Sets of weighted draws, each larger than the one before.

        Args:
            key: A PRNG key; each set takes its own part.
            learnt: The posterior that the draws come from, mixed with the prior.
            needed: Simulations that the target would take.
            settled: Whether learning is over. If not, one set is made, and only if the budgets
                allow all that is needed; if so, sets follow until nothing is missing or left.
        """
        while needed >= MIN_BATCH and (needed <= self._affordable() or settled):
            num = min(needed, self._affordable())
            if num < MIN_BATCH:
                return
            set_key = jax.random.fold_in(key, self._num_sets)
            self._num_sets += 1
            before, self._last = self._last, self._search.certify(set_key, learnt, num).corrected
            yield Candidate(self._last, replaces=before)
            if not settled or self._last.effective_size >= self._search.target_ess:
                return
            missing = self._search.target_ess / max(self._last.effective_size, 1.0)
            needed = math.ceil(SAFETY_FACTOR * num * missing)

    def _affordable(self) -> int:
        return self._search.budget.affordable(self._rate)


def _applies(search: Search) -> bool:
    serves = PrivatePosteriorEstimation().supports(search.model)
    return serves and search.budget.can_spend(MIN_BATCH + _NUM_CHECK)


def _candidates(search: Search) -> Iterator[Candidate]:
    """Learnt rounds, corrected, as long as certificates say another round is worth it; then the
    last round uncorrected.
    """
    method = PrivatePosteriorEstimation(
        num_rounds=_NUM_ROUNDS, num_simulations=_PER_ROUND, num_noise=1, **search.budget.left()
    )
    keys = jax.random.split(search.key_for(Use.LEARNING), method.num_rounds + 1)
    correction = _Correction(search)
    learnt: AbstractPosterior | None = None
    run = method.start(search.model, search.observed, **search.options)
    for number, learnt in enumerate(
        search.counted_rounds(method.slug, method.rounds_of(keys[0], run)), start=1
    ):
        is_last = number == method.num_rounds
        if number >= _FIRST_CHECKED_ROUND or is_last:
            check_key, weigh_key = jax.random.split(keys[number])
            needed, good = correction.check(check_key, learnt)
            settled = good or is_last
            yield from correction.weigh(weigh_key, learnt, needed, settled=settled)
            if settled:
                break
        if search.budget.remaining < method.num_simulations + _NUM_CHECK:
            break
    if learnt is not None:
        yield Candidate(learnt)


ROUTE = Route(
    name="learnt and corrected",
    when="any other simulator",
    methods=(
        "rounds of `PrivatePosteriorEstimation`, until simulations drawn from it and weighted"
        " reach the target"
    ),
    evidence="`certify`",
    applies=_applies,
    candidates=_candidates,
)
