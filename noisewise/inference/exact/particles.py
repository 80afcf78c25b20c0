r"""Particles of a tempered target, pi(theta) f(x | theta) eta(s_dp | s(x))^temperature, and the
moves that refresh them.

Both kinds have `log_eta` (N,), `theta` (N, d), `s` (N, k), and `advance`, which starts a chain at
each chosen ancestor.
"""

from __future__ import annotations

import abc
from typing import Any

import jax
import numpy as np

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise.inference.contract.run import NUM_PRIOR_CHECK, InferenceRun
from noisewise.inference.exact.pool import Pool
from noisewise.inference.exact.record_moves import RecordMoves, advanced, record_moves
from noisewise.inference.exact.record_state import TARGET_ACCEPTANCE, RecordState, Seen, Walk
from noisewise.inference.exact.searches import NUM_SEARCHES
from noisewise.inference.exact.weighted_draws import PRIOR_SHARE, UnconstrainedPrior
from noisewise.samplers.adaptive_importance import fitted_proposal
from noisewise.samplers.t_mixtures import TMixture, fitted_mixture

_WALK_SHARE = 0.5
"""Share of moves that are random walks, which work where the fit is poor; the others are draws from
the fit, which work where it is good.
"""

_MIN_STEPS, _MAX_STEPS = 4, 500
"""Moves of a chain at one temperature: at least a few whatever the acceptance, and not so many that
a model without accepted moves never ends.
"""

_MIN_ANCESTORS = 100
"""Chains at each temperature, at least: fewer would make the population depend on too few
ancestors.
"""

_SWEEPS = 5
"""Sweeps of the records at one temperature: enough to renew most records where a third are
accepted.
"""

_MAX_BYTES = 2**29
"""Memory for the records of all chains, 512 MiB: fewer chains are run where records are many."""

_MANY_RECORDS = 4_000_000
"""Records per sweep from which every sweep is followed by a look at the clock: it takes about a
second.
"""


class Particles(abc.ABC):
    """A population at one temperature. Particle i belongs to chain i modulo `num_chains`.

    Attributes:
        acceptance: The share of moves accepted at the last temperature.
    """

    acceptance: float
    """The share of moves accepted at the last temperature."""

    @property
    @abc.abstractmethod
    def z(self) -> np.ndarray:
        """Unconstrained parameters (n, p)."""

    @property
    @abc.abstractmethod
    def theta(self) -> np.ndarray:
        """Parameters (n, d)."""

    @property
    @abc.abstractmethod
    def s(self) -> np.ndarray:
        """Statistics (n, k)."""

    @property
    @abc.abstractmethod
    def log_eta(self) -> np.ndarray:
        """log eta(observed | s) (n,)."""

    @property
    @abc.abstractmethod
    def num_ancestors(self) -> int:
        """How many chains the next temperature starts."""

    @abc.abstractmethod
    def tune(self, weights: np.ndarray) -> None:
        """Shape the proposals like the particles with these normalised weights (n,)."""

    @abc.abstractmethod
    def advance(
        self, key: Array, run: InferenceRun, temperature: float, ancestors: np.ndarray
    ) -> None:
        """Replace the population by chains that start at some of its particles.

        Args:
            key: A PRNG key.
            run: The run.
            temperature: The power of eta in the target, which the chains leave invariant.
            ancestors: Rows of the particles to start at, shape (m,).
        """

    @abc.abstractmethod
    def extend(self, key: Array, run: InferenceRun) -> dict[str, np.ndarray]:
        """Continue the chains of the last `advance`, at its temperature; returns draws (steps,
        chains, ...) of theta and s.
        """

    @abc.abstractmethod
    def by_step(self) -> dict[str, np.ndarray]:
        """theta and s as (steps, chains, ...) of the last `advance`."""

    @abc.abstractmethod
    def keep(self, num: int) -> dict[str, np.ndarray]:
        """Keep `num` equally spaced chains and drop the rest; returns the kept chains' draws so
        far, by name.
        """

    @property
    @abc.abstractmethod
    def num_chains(self) -> int:
        """How many independent chains the particles are from."""

    @property
    @abc.abstractmethod
    def moved(self) -> float:
        """Accepted moves per chain at the last temperature."""


class SimulatedParticles(Particles):
    r"""Pairs (theta, s) for any simulator, moved jointly: theta' from a proposal, s' ~ f(. |
    theta'), accepted with

        pi(theta') q(theta) / (pi(theta) q(theta'))  (eta(s_dp | s') / eta(s_dp | s))^temperature.

    f cancels. Half of the moves are random walks, half are independent draws from a heavy-tailed
    fit mixed with the prior. All states of the chains are kept as particles (Dau and Chopin 2022),
    so that no simulation is wasted.

    Attributes:
        pool: The first particles and all draws from fits, weighted together. Random walks are left
            out: their laws depend on where the chains are.
    """

    def __init__(self, key: Array, run: InferenceRun, num: int) -> None:
        self._num = num
        theta, s = run.prior_draws(key, num)
        self._prior = UnconstrainedPrior(run.model.prior)
        self._z = run.model.prior.unconstrain(theta)[None]
        self._s, self._log_eta = s[None], run.log_eta(s)[None]
        self.acceptance, self._temperature = 1.0, 0.0
        self.pool = Pool(run)
        self.pool.include(self._prior, self._z[0], s, num_searches=NUM_SEARCHES)
        self._drawn: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def z(self) -> np.ndarray:
        return _flat(self._z)

    @property
    def theta(self) -> np.ndarray:
        return self._prior.prior.constrain(self.z)

    @property
    def s(self) -> np.ndarray:
        return _flat(self._s)

    @property
    def log_eta(self) -> np.ndarray:
        return _flat(self._log_eta)

    @property
    def num_steps(self) -> int:
        """Moves per chain: enough for two acceptances, at the last temperature's rate."""
        return int(np.clip(np.ceil(2.0 / max(self.acceptance, 1e-6)), _MIN_STEPS, _MAX_STEPS))

    @property
    def num_ancestors(self) -> int:
        return max(min(_MIN_ANCESTORS, self._num), self._num // self.num_steps)

    @property
    def num_chains(self) -> int:
        return self._z.shape[1]

    def tune(self, weights: np.ndarray) -> None:
        self._proposal = fitted_proposal(self.z, weights, self._prior, PRIOR_SHARE)
        spread = 2.38**2 / self.z.shape[1]
        self._root = np.linalg.cholesky(spread * weighted_covariance(self.z, weights))

    def advance(
        self, key: Array, run: InferenceRun, temperature: float, ancestors: np.ndarray
    ) -> None:
        self._temperature = temperature
        chosen = (self.z[ancestors], self.s[ancestors], self.log_eta[ancestors])
        self._z, self._s, self._log_eta = self._run(key, run, chosen, self.num_steps)
        # the last temperature may have promised too much: go on until there is one acceptance per
        # chain
        while self.moved < 1.0 and len(self._z) < _MAX_STEPS:
            steps, acceptance = len(self._z), self.acceptance
            last = (self._z[-1], self._s[-1], self._log_eta[-1])
            more = self._run(jax.random.fold_in(key, steps), run, last, steps)
            before = (self._z, self._s, self._log_eta)
            self._z, self._s, self._log_eta = (
                np.concatenate(pair) for pair in zip(before, more, strict=True)
            )
            self.acceptance = (acceptance + self.acceptance) / 2.0
        z, s = (np.concatenate(part) for part in zip(*self._drawn, strict=True))
        self.pool.include(self._proposal, z, s)
        self._drawn = []

    @property
    def moved(self) -> float:
        return self.acceptance * len(self._z)

    def keep(self, num: int) -> dict[str, np.ndarray]:
        chosen = np.linspace(0, self.num_chains - 1, min(num, self.num_chains)).astype(int)
        self._z, self._s, self._log_eta = (
            part[:, chosen] for part in (self._z, self._s, self._log_eta)
        )
        return self.by_step()

    def extend(self, key: Array, run: InferenceRun) -> dict[str, np.ndarray]:
        last = (self._z[-1], self._s[-1], self._log_eta[-1])
        self._z, self._s, self._log_eta = self._run(key, run, last, self.num_steps)
        return self.by_step()

    def by_step(self) -> dict[str, np.ndarray]:
        return {"theta": self._prior.prior.constrain(self._z), "s": self._s}

    def law(self) -> TMixture:
        """A mixture fitted to the particles, with a component for each place that chains found."""
        log_density = self._prior.log_prob(self.z) + self.log_eta
        return fitted_mixture(self.z, np.zeros(len(self.z)), log_density, daring=True)

    def _run(
        self, key: Array, run: InferenceRun, state: tuple[np.ndarray, ...], num: int
    ) -> tuple[np.ndarray, ...]:
        """States after each of `num` moves, each (num, chains, ...)."""
        states, accepted = [], []
        for number in range(num):
            state, taken = self._step(jax.random.fold_in(key, number), run, *state)
            states.append(state)
            accepted.append(taken.mean())
        self.acceptance = float(np.mean(accepted))
        return tuple(np.stack(part) for part in zip(*states, strict=True))

    def _step(
        self, key: Array, run: InferenceRun, z: np.ndarray, s: np.ndarray, log_eta: np.ndarray
    ) -> Any:
        """One move of all chains: the state after it, and who moved."""
        fit_key, simulate_key, seed_key = jax.random.split(key, 3)
        rng = generator(seed_key)
        walking = rng.random(len(z)) < _WALK_SHARE
        steps = z + rng.normal(size=z.shape) @ self._root.T
        proposed = np.where(walking[:, None], steps, self._proposal.sample(fit_key, len(z)))
        correction = np.where(
            walking, 0.0, self._proposal.log_prob(z) - self._proposal.log_prob(proposed)
        )
        log_prior = self._prior.log_prob(proposed) - self._prior.log_prob(z)
        new_s = run.all_statistics(simulate_key, run.model.prior.constrain(proposed))
        new_log_eta = run.log_eta(new_s)
        self._drawn.append((proposed[~walking], new_s[~walking]))
        with np.errstate(invalid="ignore"):
            log_ratio = log_prior + correction + self._temperature * (new_log_eta - log_eta)
        taken = (np.log1p(-rng.random(len(z))) < log_ratio) & np.isfinite(new_log_eta)
        choose = lambda new, old: np.where(taken.reshape(-1, *(1,) * (new.ndim - 1)), new, old)  # noqa: E731
        return (choose(proposed, z), choose(new_s, s), choose(new_log_eta, log_eta)), taken


class RecordParticles(Particles):
    """Parameters with all their records, moved record by record and jointly (`record_moves`). The
    last state of each chain is kept.
    """

    def __init__(self, key: Array, run: InferenceRun, num: int, num_moves: int) -> None:
        self.moves: RecordMoves = record_moves(run.model, num_moves=num_moves, joint=True)
        theta_key, record_key, look_key = jax.random.split(key, 3)
        size = run.model.simulator.num_records * (run.model.statistic_width + 8) * 8  # type: ignore[attr-defined]
        chains = int(np.clip(_MAX_BYTES // size, 16, max(16, num // _SWEEPS)))
        chains = chains if run.remaining is None else max(1, min(chains, run.remaining))
        run.spend(chains)
        self._seen = Seen(run.model.mechanism, run.observed, 0.0)
        self.state: RecordState = self.moves.start(
            record_key, run.model.prior.sample(theta_key, chains), self._seen
        )
        run.look_at_observation(look_key, self.s if chains >= NUM_PRIOR_CHECK else None)
        self._lengths = np.full(3, 2.4 / np.sqrt(self.state.z.shape[1]))
        self.acceptance = 1.0
        self._kept: dict[str, np.ndarray] = {}

    @property
    def z(self) -> np.ndarray:
        return self.state.z

    @property
    def theta(self) -> np.ndarray:
        return self.state.theta

    @property
    def s(self) -> np.ndarray:
        return self.moves.statistic(self.state.total)

    @property
    def log_eta(self) -> np.ndarray:
        return self.state.log_eta

    @property
    def num_ancestors(self) -> int:
        return len(self.state.z)

    @property
    def num_chains(self) -> int:
        return len(self.state.z)

    @property
    def moved(self) -> float:
        return self.acceptance * _SWEEPS * self.state.terms.shape[1]

    def tune(self, weights: np.ndarray) -> None:
        self._root = np.linalg.cholesky(weighted_covariance(self.z, weights))

    def advance(
        self, key: Array, run: InferenceRun, temperature: float, ancestors: np.ndarray
    ) -> None:
        self._seen = self._seen._replace(temperature=temperature)
        self.state = jax.tree.map(lambda part: part[ancestors], self.state)
        for number in range(_SWEEPS // self._block):
            self.extend(jax.random.fold_in(key, number), run)
        if temperature < 1.0:
            self._lengths = self._lengths * np.exp(self._accepted[[0, 2, 3]] - TARGET_ACCEPTANCE)

    def extend(self, key: Array, run: InferenceRun) -> dict[str, np.ndarray]:
        run.spend(self._block * self.num_chains * self.moves.databases_per_sweep)
        walk = Walk(self._root, self._lengths)
        chains = (self.moves, key, self.state, self._seen, walk, self._block)
        self.state, self._kept, self._accepted = advanced(run, *chains)
        self.acceptance = float(self._accepted[1])
        return self.by_step()

    @property
    def _block(self) -> int:
        """Sweeps per look at the clock: one where a sweep takes long."""
        records = self.num_chains * self.state.terms.shape[1] * self.moves.databases_per_sweep
        return _SWEEPS if records < _MANY_RECORDS else 1

    def by_step(self) -> dict[str, np.ndarray]:
        return {"theta": self._kept["theta"], "s": self._kept["s"]}

    def keep(self, num: int) -> dict[str, np.ndarray]:
        chosen = np.linspace(0, self.num_ancestors - 1, min(num, self.num_ancestors)).astype(int)
        self.state = jax.tree.map(lambda part: part[chosen], self.state)
        self._kept = {name: values[:, chosen] for name, values in self._kept.items()}
        return self.by_step()


def weighted_covariance(z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The covariance (p, p) of weighted draws z (n, p), with a ridge of 1e-10 of its diagonal."""
    centred = z - weights @ z
    covariance = (weights[:, None] * centred).T @ centred
    return covariance + 1e-10 * np.diag(np.maximum(np.diag(covariance), 1e-200))


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *values.shape[2:])
