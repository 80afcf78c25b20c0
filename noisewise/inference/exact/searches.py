r"""Independent searches for the posterior: what several of them find was not found by luck.

Each search has draws from the prior of its own, fits a proposal to its own simulations alone, draws
from that, and so on. A part of the posterior counts as found often where the proposals of at least
five of ten searches would draw. Of a second part that is as hard to find as the first, none of the
ten would then have found anything with probability at most

    max_p P(Binomial(10, p) >= 5) (1 - p)^10  =  .0045.

All their simulations are weighed together in a `Pool`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from noisewise._core.arrays import Array
from noisewise._core.keys import fold_in, generator, split
from noisewise._core.weights import normalised, systematic_rows
from noisewise.inference.exact.pool import Part, Pool, cheapest_proposal
from noisewise.inference.exact.soundness import (
    LOG_SLACK,
    MIN_VISITS,
    Soundness,
    chance_of_noise,
    contradicted,
    log_bound,
    smallest_mode,
    weights_of,
)
from noisewise.inference.exact.weighted_draws import relative_variance
from noisewise.samplers.adaptive_importance import Defended, Proposal
from noisewise.samplers.t_mixtures import fitted_mixture

MAX_PARAMETERS = 6
"""Free parameters up to which mixtures of heavy-tailed laws fit most posteriors well: weights
degenerate quickly in more dimensions.
"""

NUM_SEARCHES = 10
"""Independent searches: the chance above is .011 with 4 of 8 and .0057 with 5 of 16."""

_ENOUGH = 5
"""Searches that must have found a part of the posterior: see the formula above."""

_COMPONENTS_OF_SEARCH = 4
"""Components of the proposal of one search: it has a few hundred draws."""

_MAX_STAGES = 6
"""Stages that searches adapt in, at most: each may contract the volume ten times."""

_MAX_REFITS = 2
"""Refits after a check that shows a weak proposal, before the search goes on exploring."""

_WORTH_COMPARING = 50.0
"""Effective draws of a stage from which improvement can be seen."""

_IMPROVEMENT = 1.3
"""Gain in effective draws, as a factor, for which another stage pays."""

_NUM_PLACES, _NUM_REPEATS = 8, 100
"""Places, and simulations at each, that show how much simulations at one place differ."""

_MANY_SIMULATIONS = 30.0
"""1 + rv, simulations that an effective draw takes at best: with more, of at most 100 measured,
searches cannot agree on anything.
"""

_NEGLIGIBLE = 1e-3
"""Weight, as a multiple of the mean weight, of draws that do not matter to what was found."""


class Searches:
    """Several searches that share nothing but the pool that their simulations are kept in.

    Args:
        pool: Where simulations are kept.
        start: What the first draws are from; None for the prior.
        prior_share: Share of prior draws in proposals.
        num: How many searches.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        start: Proposal | None = None,
        prior_share: float = 0.1,
        num: int = NUM_SEARCHES,
    ) -> None:
        self.pool, self.num, self.prior_share = pool, num, prior_share
        self.start = pool.prior if start is None else start
        self._found: list[Defended | None] = [None] * num

    def explore(self, key: Array, num: int) -> float:
        """Draws from the starting law, dealt out evenly.

        Returns:
            What these draws are worth by themselves.
        """
        return self.pool.add(
            key, [Part(self.start, size, number) for number, size in self._shares(num)]
        )

    def adapt(self, key: Array, num: int) -> float:
        """Draws from the proposal of each search, fitted to what it knows.

        Returns:
            What these draws are worth by themselves; 0 where no search found anything.
        """
        self._fit()
        parts = [
            Part(found.law, size, number)
            for number, size in self._shares(num)
            if (found := self._found[number]) is not None
        ]
        return self.pool.add(key, parts) if parts else 0.0

    def proposal(self) -> Defended:
        """A proposal fitted to all simulations; the prior if none is possible."""
        if not self.pool.effective_size:
            return Defended(self.pool.prior, self.pool.prior, self.prior_share)
        return cheapest_proposal(self.pool, self.prior_share)

    def found_by_few(self, proposal: Proposal) -> tuple[float, float]:
        """The share of the posterior that fewer than five searches found by themselves, and how
        many draws from the prior, effectively, have come upon it.

        A search has found what its own proposal covers: with at least a thirtieth of the density
        of this one.
        """
        self._fit()
        pool = self.pool
        weights = pool.weights
        rows = np.flatnonzero(weights > _NEGLIGIBLE / pool.num)
        log_density = pool.log_density(proposal, rows)
        found = [law for law in self._found if law is not None]
        covered = [pool.log_density(law, rows) >= log_density - LOG_SLACK for law in found]
        count = np.sum(covered, axis=0)
        few = rows[count < _ENOUGH]
        share = float(weights[few].sum())
        if not share:
            return 0.0, math.inf
        # N m Z / E[eta | part], the effective size of N prior draws in what is as concentrated
        log_ratio = log_density - pool.log_prior[rows]
        usual = weights[few] @ log_ratio[count < _ENOUGH] / share
        alike = rows[log_ratio > usual - 1.0]
        mass = float(weights[alike].sum())
        log_eta = logsumexp(pool.log_eta[alike], b=weights[alike]) - np.log(mass)
        return share, float(pool.num_prior * mass * np.exp(pool.log_evidence - log_eta))

    def checked(
        self, key: Array, proposal: Proposal, num: int, num_final: int, *, alone: bool = False
    ) -> Soundness:
        """What `num` fresh draws and all simulations so far say of `num_final` draws to come.

        The draws join the pool afterwards.

        Args:
            key: A PRNG key.
            proposal: What the draws are from, and those to come.
            num: How many fresh draws.
            num_final: How many draws are to come.
            alone: Whether no independent searches were made that could agree.
        """
        pool, run = self.pool, self.pool.run
        draw_key, noise_key = split(key)
        few, visits, against = 0.0, math.inf, 0.0
        if pool.effective_size:
            if not alone:
                few, visits = self.found_by_few(proposal)
            against = contradicted(pool, proposal, num_final)
        num_prior = max(1, round(self.prior_share * num))
        before = len(pool.z)
        if isinstance(proposal, Defended):
            own, prior = proposal.law, pool.prior
            pool.add(draw_key, [Part(own, num - num_prior), Part(prior, num_prior)])
        else:
            pool.add(draw_key, [Part(proposal, num)])
        z, s = pool.z[before:], pool.s[before:]
        log_weights = pool.log_prior[before:] + pool.log_eta[before:] - proposal.log_prob(z)
        seen = weights_of(log_weights)
        chance = 1.0
        if seen["effective_size"]:
            chance = chance_of_noise(noise_key, run, s, normalised(log_weights))
        if seen["effective_size"]:
            of_all = len(z) * pool.reliable_share(proposal)
            seen["reliable_size"] = min(seen["reliable_size"], of_all)
            seen["tail_size"] = len(z) * pool.tail_share(proposal)
        from_prior = pool.num_prior + self.prior_share * num_final
        return Soundness(
            num=len(z),
            num_final=num_final,
            **seen,
            found_by_few=few,
            visits=visits,
            contradicted=against,
            chance=chance,
            smallest_mode=smallest_mode(from_prior, log_bound(run), seen["log_evidence"]),
        )

    def thoroughly(
        self, key: Array, *, num_stage: int, num_final: int, most: int
    ) -> tuple[Defended, Soundness]:
        """Search until nothing suggests that a part of the posterior was missed.

        Args:
            key: A PRNG key.
            num_stage: Simulations of each stage; twice as many start the searches.
            num_final: How many draws the answer is going to take.
            most: Simulations that exploring may bring the pool to.

        Returns:
            A proposal, and what fresh draws from it show.

        Raises:
            OutOfBudget: If a budget ends before the first check.
        """
        keys = map(functools.partial(fold_in, key), itertools.count())
        self.explore(next(keys), max(2 * num_stage - self.pool.num, self.num))
        self._settle(keys, num_stage, _MAX_STAGES)
        refits = 0
        while True:
            proposal = self.proposal()
            sound = self.checked(next(keys), proposal, num_stage, num_final)
            room = most - self.pool.num - 2 * num_stage
            if sound.weak and refits < _MAX_REFITS and room > 0:
                refits += 1
                if sound.neglectful:
                    self._settle(keys, num_stage, _MAX_STAGES // 2)
                continue
            noisy = sound.poor and self._noisy(next(keys))
            if noisy:
                room -= most // 2
            more = min(self._missing(sound), room)
            settled = not sound.neglectful and (noisy or not sound.poor)
            if (sound.thorough and settled) or more < num_stage // 2:
                return proposal, sound
            self.explore(next(keys), more)
            self._settle(keys, num_stage, 1)
            refits = 0

    def _noisy(self, key: Array) -> bool:
        """Whether weights are poor because simulations at one place differ."""
        pool = self.pool
        if not pool.effective_size:
            return False
        row_key, simulate_key = split(key)
        start = generator(row_key).random()
        rows = systematic_rows(pool.weights, _NUM_PLACES, start)
        theta = pool.run.model.prior.constrain(np.repeat(pool.z[rows], _NUM_REPEATS, axis=0))
        log_eta = pool.run.log_eta(pool.run.all_statistics(simulate_key, theta))
        return relative_variance(log_eta.reshape(_NUM_PLACES, -1)) > _MANY_SIMULATIONS

    def _settle(self, keys: Iterator[Array], num: int, most: int) -> None:
        """Adapt until the searches improve no more."""
        before = 0.0
        for stage in range(most):
            size = self.adapt(next(keys), num)
            if stage and before >= _WORTH_COMPARING and size < _IMPROVEMENT * before:
                return
            before = max(before, size)

    def _missing(self, sound: Soundness) -> int:
        """Prior draws to add: as many as there are, or fewer if that makes visits enough."""
        num = self.pool.num_prior
        if sound.visits > 0.0 and math.isfinite(sound.visits):
            return min(num, math.ceil(1.05 * num * max(MIN_VISITS / sound.visits - 1.0, 0.1)))
        return num

    def _fit(self) -> None:
        for number in range(self.num):
            z, log_weights, log_density, _ = self.pool.targets(number)
            if len(z):
                most = _COMPONENTS_OF_SEARCH
                law = fitted_mixture(z, log_weights, log_density, max_components=most, daring=True)
                self._found[number] = self._defended(law)

    def _defended(self, law: Proposal) -> Defended:
        return Defended(law, self.pool.prior, self.prior_share)

    def _shares(self, num: int) -> list[tuple[int, int]]:
        """Numbers of the searches, and how many of `num` draws each makes."""
        ends = np.linspace(0, num, self.num + 1).astype(int)
        return [(number, int(size)) for number, size in enumerate(np.diff(ends)) if size]
