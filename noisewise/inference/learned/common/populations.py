r"""Draws of a density that costs no simulation, by populations of particles that start from the
prior.

    estimate = sum_g W_g m_g / sum_g W_g,     W_g the evidence that population g found, m_g its mean

Modes weigh what their evidence is, wherever particles started. Leaving out one population after
another (the jackknife) gives the error of an estimate, hence how many independent draws it is
worth, also where no particle ever goes from mode to mode. Where moves add nothing any more, as
between modes, new populations are drawn.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm, rankdata

from noisewise._core.arrays import Array
from noisewise._core.json_files import reading
from noisewise._core.keys import fold_in, split
from noisewise._core.weights import MANY_DRAWS, normalised, systematic_rows
from noisewise.errors import FileFormatError
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.learned.common.sampling import Sampling
from noisewise.samplers.densities import log_densities
from noisewise.samplers.hamiltonian import Tuning
from noisewise.samplers.tempered import SHORTEST_FULL_STEP, TemperedDraws, tempered

_THIN = 2
"""Moves per draw: neighbours are correlated, and half of them say as much in half the memory."""
_ROUGH_WARMUP = 5
"""Moves before the draws that shares are taken from: enough to tune the step, as particles arrive
by weights and medians need no more.
"""
_MAX_RUNS = 24
"""Runs of the particles, new ones or longer ones, after which what is known is reported."""
_MAX_FRESH = 6
"""Sets of new populations among these, at most: with the first they divide the error by 2.6."""
_MAX_STALLS = 2
"""Runs without such growth after which particles count as staying in their modes: one may be
chance, as 16 populations know their error to a factor of 1.2 only.
"""
_WORTH_GOING_ON = 1.3
"""Growth of the effective size from one run to as many again that shows that moves help; it is 2
for independent draws, and 1 where particles stay in their modes.
"""

_FORGOTTEN = 0.3
"""Correlation, over particles, of the last draw with the first, at the column where it is largest,
below which evidence no longer matters: what it would correct is the mean's distance from the truth
when the particles arrive, and that shrinks by the square of this before the draws begin. Evidences
of particles in dozens of dimensions differ by factors, and would leave one population in sixteen.
"""
_STUCK = 0.8
"""The same correlation, above which moves count as gaining nothing: particles stay in their modes,
whose shares only new populations know better.
"""
_COMPARABLE = 10.0
"""Nats by which the largest evidence may then lie above the median: what chance does in dozens of
dimensions, less than what a mode does that one population alone has found.
"""
_OUTLIER = 6.0
"""The same in median distances from the median: 4 standard deviations of a normal law."""
_ALL = 1e-12
"""Weight of all populations but one, below which nothing is left to compare this one with."""


class Populations:
    """Populations of particles and their draws so far.

    Attributes:
        effective_size: Independent draws that averages are worth, at the worst coordinate, when
            last measured.
        num_divergent: Trajectories at lambda = 1 that ended where the density vanishes.
        acceptance: The mean acceptance of the last move.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self.effective_size, self.num_divergent, self.acceptance = 0.0, 0, 0.0
        self._memory = self._newest_memory = 1.0
        self._runs: list[TemperedDraws] = []

    @property
    def r_hat(self) -> float:
        """The nested R-hat of the populations, sqrt(1 + between / within), as measured."""
        size, num = max(self.effective_size, 1e-9), sum(here.sum() for here in self._counted)
        return float(np.sqrt(1.0 + num / size))

    @property
    def settled(self) -> bool:
        """Whether averages are known to a twentieth of a posterior sd."""
        return self.effective_size >= MANY_DRAWS

    def possible(self, key: Array) -> bool:
        """Whether the density is above zero for any draw of the reference law."""
        sampling = self.sampling
        z = sampling.draw(key, sampling.num_starts)
        return bool(np.isfinite(log_densities(sampling.reference, z, sampling.target)[1]).any())

    def start(
        self,
        key: Array,
        run: InferenceRun,
        *,
        num_warmup: int | None = None,
        finds_shares: bool = True,
    ) -> None:
        """New populations from the reference law, and their first draws. Effects around means first
        move at shares of 1/2, whose draws find the shares, and then by these.

        Args:
            key: JAX PRNG key.
            run: The inference.
            num_warmup: Replaces that of the settings.
            finds_shares: Whether to look for shares that are not yet known; they stay 1/2 if not.
        """
        draw_key, move_key = split(key)
        start = self.sampling.draw(draw_key, self.sampling.num_starts)
        num = self.sampling.num_warmup if num_warmup is None else num_warmup
        if not (finds_shares and self.sampling.lacks_shares):
            self._runs.append(self._advanced(run, move_key, start, None, num))
            return
        rough_key = fold_in(move_key, 1)
        rough = self._advanced(run, rough_key, start, None, min(num, _ROUGH_WARMUP))
        self.sampling = self.sampling.with_shares_at(rough.draws)
        if rough.power < 1.0:
            self._runs.append(self._advanced(run, move_key, start, None, num))
        else:
            self._runs.append(self._by_shares(run, move_key, rough, num))

    def _by_shares(
        self, run: InferenceRun, key: Array, rough: TemperedDraws, num_warmup: int
    ) -> TemperedDraws:
        """The same particles in the coordinates that they have shown to be better."""
        start = rough.draws[-1].reshape(-1, rough.draws.shape[-1])
        tuning = Tuning(rough.tuning.step_size, self.sampling.covariance_of(start))
        found = self._advanced(run, key, start, tuning, num_warmup)
        return dataclasses.replace(
            found, log_evidence=rough.log_evidence, num_temperatures=rough.num_temperatures
        )

    def go_on(self, key: Array, run: InferenceRun) -> None:
        """As many draws again of the newest populations."""
        last = self._runs[-1]
        start = last.draws[-1].reshape(-1, last.draws.shape[-1])
        more = self._advanced(run, key, start, last.tuning)
        self._runs[-1] = dataclasses.replace(
            more,
            draws=np.concatenate([last.draws, more.draws]),
            log_evidence=last.log_evidence,
            power=last.power,
        )

    def finish(self, key: Array, run: InferenceRun) -> None:
        """Go on, and then anew where that adds nothing, until the effective size is as wanted or
        the time is up. Where moves crawl or gain nothing, `MANY_DRAWS` are enough.
        """
        self.look()
        stalls, num_fresh, in_time = 0, 0, True
        for number in range(_MAX_RUNS):
            arrived = self._runs[-1].power >= 1.0
            helps = arrived and stalls < _MAX_STALLS and self._newest_memory < _STUCK
            easy = helps and self._runs[-1].tuning.step_size >= SHORTEST_FULL_STEP
            enough = self.sampling.target_ess
            enough = enough if easy else min(enough, MANY_DRAWS)
            if not in_time or num_fresh >= _MAX_FRESH or self.effective_size >= enough:
                break
            before = self.effective_size
            num_fresh += not helps
            in_time = self._lengthen(fold_in(key, number), run, anew=not helps)
            self.look()
            grew = self.effective_size > 0.0 and self.effective_size >= _WORTH_GOING_ON * before
            stalls = 0 if grew and helps else stalls + 1

    def _lengthen(self, key: Array, run: InferenceRun, *, anew: bool) -> bool:
        """New populations, or as many draws again of the newest; False if the time is up."""
        steps = 1 if anew else -(-len(self._runs[-1].draws) // self.sampling.length)
        try:
            for step in range(steps):
                run.check_time()
                (self.start if anew else self.go_on)(fold_in(key, step), run)
        except OutOfBudget:
            return False
        return True

    def look(self) -> None:
        """Measure the effective size: of the values, their ranks and the squares of both
        directions from the mean, whichever is smallest.
        """
        counted = self._counted
        values = [
            found.draws[:, here].swapaxes(0, 1)
            for found, here in zip(self._runs, counted, strict=True)
            if here.any()
        ]
        flat = np.concatenate([part.reshape(-1, part.shape[-1]) for part in values])
        columns = _told(flat)
        memories = _memories(columns, [part.shape for part in values])
        self._memory = max(memories)
        self._newest_memory = memories[-1] if counted[-1].any() else 1.0
        weights = self._weights()[np.concatenate(counted)]
        ends = np.cumsum([part[..., 0].size for part in values])[:-1]
        halves = []
        for part, told in zip(values, np.split(columns, ends), strict=True):
            told = told.reshape(*part.shape[:2], -1, told.shape[-1])
            middle = max(1, told.shape[1] // 2)
            halves.append(
                np.stack([told[:, :middle].mean((1, 2)), told[:, -middle:].mean((1, 2))], axis=1)
            )
        groups = np.concatenate(halves)
        mean, error = _jackknife(groups.mean(axis=1), weights)
        drift, drift_error = _jackknife(groups[:, 1] - groups[:, 0], weights)
        error = error + np.maximum(drift**2 - drift_error, 0.0) / 4.0
        variance = _variance(np.split(columns, ends), [len(part) for part in values], mean, weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = np.where(variance > 0.0, variance / error, np.inf)
        num = sum(part[..., 0].size for part in values)
        arrived = any(found.power >= 1.0 for found in self._runs)
        self.effective_size = float(min(np.nan_to_num(sizes, nan=0.0).min(), num)) * arrived

    def chosen(self, num: int | None = None) -> Float[np.ndarray, "n d"]:
        """Draws in proportion to the evidence of their populations, population by population.

        Args:
            num: How many; by default four for each effective one wanted, or as many as there are.
        """
        rows, shares = [], []
        weights = np.split(
            self._weights(), np.cumsum([len(found.log_evidence) for found in self._runs])[:-1]
        )
        for found, of_groups in zip(self._runs, weights, strict=True):
            draws = np.moveaxis(found.draws, 0, 2)  # particle by particle, its draws in order
            rows.append(draws.reshape(-1, draws.shape[-1]))
            each = draws.shape[1] * draws.shape[2]
            shares.append(np.repeat(of_groups / each, each))
        z, share = np.concatenate(rows), np.concatenate(shares)
        if num is None:
            num = min(len(z), self.sampling.num_kept)
        return z[systematic_rows(share, num, 0.5)]

    @property
    def _counted(self) -> list[Bool[np.ndarray, " g"]]:
        """Which populations of each run count: those that had a possible start, of runs that
        arrived; all of them where there are none.
        """
        arrived = any(found.power >= 1.0 for found in self._runs)
        there = [
            np.isfinite(found.log_evidence) & (found.power >= 1.0 or not arrived)
            for found in self._runs
        ]
        return there if np.concatenate(there).any() else [~here for here in there]

    def _weights(self) -> Float[np.ndarray, " g"]:
        """What each population counts for: its evidence or, where moves have made particles forget
        where they started and evidences are comparable, all the same.
        """
        arrived = any(found.power >= 1.0 for found in self._runs)
        there = np.concatenate(self._counted)
        log_evidence = np.concatenate([found.log_evidence for found in self._runs])
        if not np.isfinite(log_evidence[there]).any():
            return np.full(len(there), 1.0 / len(there))
        log_evidence = np.where(there, log_evidence, -np.inf)
        away = log_evidence[there] - np.median(log_evidence[there])
        comparable = away.max() <= min(_COMPARABLE, _OUTLIER * np.median(np.abs(away)))
        if arrived and self._memory <= _FORGOTTEN and comparable:
            return there / there.sum()
        return normalised(log_evidence)

    def _advanced(
        self,
        run: InferenceRun,
        key: Array,
        start: np.ndarray,
        tuning: Tuning | None,
        num_warmup: int = 0,
    ) -> TemperedDraws:
        """One run of `tempered`, recorded in the journal."""
        sampling = self.sampling

        def compute() -> dict[str, np.ndarray]:
            drawn = tempered(
                key,
                *sampling.densities,
                sampling.to_moved(start),
                num_particles=sampling.num_particles,
                num_populations=sampling.num_populations,
                num_warmup=num_warmup,
                num_draws=sampling.length,
                thin=_THIN,
                tuning=tuning,
            )
            return {
                "draws": sampling.from_moved(drawn.draws),
                "log evidence": drawn.log_evidence,
                "numbers": np.array(
                    [drawn.power, drawn.num_temperatures, drawn.acceptance, drawn.num_divergent]
                ),
                "step size": np.asarray(drawn.tuning.step_size),
                "covariance": np.asarray(drawn.tuning.covariance),
            }

        found = run.remember("particles", compute)
        with reading("The particles in the journal"):
            size = sampling.num_particles // sampling.num_populations
            shape = sampling.length, sampling.num_populations, size, start.shape[1]
            if found["draws"].shape != shape:
                raise FileFormatError("they have another shape.")
            power, temperatures, acceptance, divergent = found["numbers"]
        self.acceptance = float(acceptance)
        self.num_divergent += int(divergent)
        return TemperedDraws(
            found["draws"],
            found["log evidence"],
            float(power),
            int(temperatures),
            float(acceptance),
            int(divergent),
            Tuning(found["step size"], found["covariance"]),
        )


def _told(flat: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n q"]:
    """What must be known of draws: values, normal scores, and squared distances from the mean."""
    scores = norm.ppf((rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25))
    return np.concatenate([flat, scores, (flat - flat.mean(axis=0)) ** 2], axis=1)


def _variance(
    parts: list[np.ndarray], groups: list[int], mean: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The variance of each column of the runs' draws over all populations, run by run."""
    squares = [
        ((part - mean) ** 2).reshape(num, -1, part.shape[1]).mean(axis=1)
        for part, num in zip(parts, groups, strict=True)
    ]
    return weights @ np.concatenate(squares)


def _memories(columns: Float[np.ndarray, "n q"], shapes: list[tuple[int, ...]]) -> list[float]:
    """The largest correlation of a column's first and last draws over the particles, for each run;
    1 where there is one draw.

    Args:
        columns: `_told` of all draws, run by run, each by population, draw and particle.
        shapes: Populations, draws, particles and dimensions of each run.
    """
    found, start = [], 0
    for groups, num, size, _ in shapes:
        told = columns[start : start + groups * num * size].reshape(groups, num, size, -1)
        start += groups * num * size
        ends = [told[:, at].reshape(groups * size, -1) for at in (0, -1)]
        first, last = (part - part.mean(axis=0) for part in ends)
        scale = np.sqrt((first**2).mean(axis=0) * (last**2).mean(axis=0))
        together = np.abs((first * last).mean(axis=0))
        largest = float(np.max(together / np.maximum(scale, 1e-300)))
        found.append(largest if num > 1 else 1.0)
    return found


def _jackknife(
    values: Float[np.ndarray, "g q"], weights: Float[np.ndarray, " g"]
) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """The weighted mean, and its squared error from leaving out one row at a time."""
    total, num = weights @ values, len(weights)
    if weights.max() > 1.0 - _ALL:
        return total, np.full(values.shape[1], np.inf)
    others = np.maximum(1.0 - weights, 1e-300)[:, None]
    without = (total - weights[:, None] * values) / others
    return total, (num - 1) / num * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
