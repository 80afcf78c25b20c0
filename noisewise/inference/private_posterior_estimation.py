"""SPPE: the posterior learnt from simulated private data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._arrays import Array, as_key, integer, number
from noisewise.errors import InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.flows import neural_spline_flow
from noisewise.estimators.training import Training, ensemble, negative_log_prob, train
from noisewise.estimators.whitening import Affine, Whitening
from noisewise.inference._features import features
from noisewise.inference._simulations import Simulations, noisy_statistics
from noisewise.inference.base import AbstractMethod, AbstractSequentialMethod
from noisewise.inference.corrections import AbstractCorrection, TruncatedProposals, atomic_loss
from noisewise.inference.work import OutOfBudget, Work
from noisewise.mechanisms.base import Capability
from noisewise.mechanisms.point_sets import AbstractPointSet, ScrambledSobol
from noisewise.posteriors.learned import LearnedPosterior

_KEPT = 4000
_RESCALED = 1.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivatePosteriorEstimation(AbstractSequentialMethod):
    r"""Learn q(theta | s_dp) from simulated pairs: PPE with one round, SPPE with several.

        min over q of  1/N sum_i 1/M sum_m  -log q(theta_i | tau(v_im; s_i)),   s_i = s(x_i), x_i ~ f(. | theta_i)

    """

    slug: ClassVar[str] = "sppe"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SAMPLE})
    instead: ClassVar[str] = "Use ImportanceSampling or ExactSMC, which only need its density."

    num_rounds: int = 10
    num_simulations: int = 1000
    correction: AbstractCorrection = TruncatedProposals()
    estimator: Callable[..., Any] = neural_spline_flow
    num_members: int = 1
    num_noise: int = 8
    noise_bank: int = 128
    points: AbstractPointSet = ScrambledSobol()
    training: Training = Training()
    validation_share: float = 0.05

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        self._convert(
            num_rounds=integer("num_rounds", at_least=1),
            num_simulations=integer("num_simulations", at_least=1),
            num_members=integer("num_members", at_least=1),
            num_noise=integer("num_noise", at_least=1),
            noise_bank=integer("noise_bank", at_least=1),
            validation_share=number("validation_share", above=0.0, below=1.0),
        )
        if self.noise_bank % self.num_noise:
            raise InvalidInputError(
                f"noise_bank must be a multiple of num_noise, got {self.noise_bank} and {self.num_noise}."
            )

    def _rounds(self, key: Array, work: Work) -> Iterator[LearnedPosterior]:
        for (posterior,) in self._many([key], [work]):
            yield posterior

    def _many(self, keys: Sequence[Array], works: Sequence[Work]) -> Iterator[list[LearnedPosterior]]:
        """Rounds of several independent inferences, whose networks train side by side."""
        trials = [_Trial(self, as_key(key), work) for key, work in zip(keys, works, strict=True)]
        for number_ in range(self.num_rounds):
            try:
                for trial in trials:
                    trial.simulate(number_)
            except OutOfBudget:
                if number_ == 0:
                    raise
                return
            self._train(trials, number_)
            yield [trial.posterior(number_) for trial in trials]
            if any(trial.work.stopped != "finished" for trial in trials):
                return

    def _train(self, trials: list[_Trial], number_: int) -> None:
        for trial in trials:
            trial.prepare(number_)
        first = trials[0]
        plain = number_ == 0 or self.correction.num_atoms == 0
        loss = negative_log_prob if plain else atomic_loss
        capacity = self.num_rounds * self.num_simulations
        key = [jax.random.fold_in(trial.key, 3 * number_ + 2) for trial in trials]
        resamplers = [trial.resampler(self, capacity, plain) for trial in trials]
        rows = [trial.rows() for trial in trials]
        if len(trials) == 1:
            common: dict[str, Any] = {"train_rows": rows[0][0], "validation_rows": rows[0][1]}
            args = (key[0], first.members, resamplers[0])
        else:
            stack = lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) or isinstance(leaves[0], np.generic) else leaves[0]  # noqa: E731
            common = {"train_rows": [r[0] for r in rows], "validation_rows": [r[1] for r in rows]}
            with jax.enable_x64(True):
                args = (jnp.stack(key), jax.tree.map(stack, *[t.members for t in trials]), jax.tree.map(stack, *resamplers))
        trained = train(*args, **common, capacity=capacity, settings=self.training, loss=loss, watch=first.watch)
        for i, trial in enumerate(trials):
            pick = (lambda leaf: leaf) if len(trials) == 1 else (lambda leaf, i=i: leaf[i] if eqx.is_array(leaf) else leaf)
            losses = trained.validation_losses if len(trials) == 1 else trained.validation_losses[:, i]
            trial.learnt(jax.tree.map(pick, trained.members), losses, number_)


class _Pairs(eqx.Module):
    """What the training loop draws batches from: z, log prior, and noisy features of each simulation."""

    z: Array
    log_prior: Array
    bank: Array
    scale: Affine
    whitening: Whitening
    num_noise: int = eqx.field(static=True)
    num_atoms: int = eqx.field(static=True)

    def __call__(self, key: Array, rows: Array) -> tuple[Any, Array]:
        noise_key, atom_key = jax.random.split(key)
        nets = self.bank.shape[1] // self.num_noise
        first = jax.random.randint(noise_key, (len(rows), 1), 0, nets) * self.num_noise
        condition = self.scale(self.bank[rows[:, None], first + jnp.arange(self.num_noise)])
        if not self.num_atoms:
            standard = self.whitening.forward(self.z[rows][:, None], condition)
            return standard.astype(jnp.float32), condition.astype(jnp.float32)
        others = 1 + jax.random.permutation(atom_key, len(rows) - 1)[: self.num_atoms - 1]
        places = (jnp.arange(len(rows))[:, None] + jnp.concatenate([jnp.zeros(1, int), others])) % len(rows)
        atoms = rows[places]
        again = (atoms == rows[:, None]) & (jnp.arange(self.num_atoms) > 0)
        log_prior = jnp.where(again, jnp.inf, self.log_prior[atoms])
        condition = condition[:, None]
        standard = self.whitening.forward(self.z[atoms][:, :, None], condition)
        return (standard.astype(jnp.float32), log_prior.astype(jnp.float32)), condition.astype(jnp.float32)


class _Trial:
    """One inference under way."""

    def __init__(self, method: PrivatePosteriorEstimation, key: Array, work: Work) -> None:
        self.method, self.key, self.work = method, key, work
        self.simulations = Simulations.none(work.model)
        self.support = work.model.mechanism.support
        self.condition = features(self.support, work.observed[None])[0]
        self.bank = np.empty((0, method.noise_bank, len(self.condition)))
        self.regions: list[tuple[ConditionalDensity, float]] = []
        self.density: Any = None
        self.members: Any = None

    def log_q(self, z: np.ndarray) -> np.ndarray:
        return self.density.log_prob(z, self.condition)

    def inside(self, z: np.ndarray) -> np.ndarray:
        """Which rows of z lie in all regions so far."""
        left = np.arange(len(z))
        for density, level in reversed(self.regions):
            left = left[density.log_prob(z[left], self.condition) > level] if len(left) else left
        result = np.zeros(len(z), dtype=bool)
        result[left] = True
        return result

    def simulate(self, number_: int) -> None:
        """The simulations of one round."""
        propose_key, simulate_key, noise_key = jax.random.split(jax.random.fold_in(self.key, 3 * number_), 3)
        method, prior = self.method, self.work.model.prior
        if number_ == 0:
            z = prior.unconstrain(prior.sample(propose_key, method.num_simulations))
        else:
            z = method.correction.propose(propose_key, self, method.num_simulations)
        s = self.simulations.add(simulate_key, self.work, z, share=method.validation_share, number=number_)
        if number_ == 0:
            self.work.look_at_observation(noise_key, s)
        noisy = noisy_statistics(noise_key, self.work.model, s, method.noise_bank, method.points)
        self.bank = np.concatenate([self.bank, features(self.support, noisy)])

    def prepare(self, number_: int) -> None:
        """Standardise, and start afresh where the scale has changed much."""
        self.usable = self.method.correction.usable(self)
        z, one = self.simulations.z[self.usable], self.bank[self.usable, 0]
        scale = Affine.fit(one)
        whitening = Whitening.fit(z, scale(one))
        if self.members is not None:
            old, new = self.whitening, whitening
            change = np.abs(np.log(np.diag(old.root) / np.diag(new.root))).max()
            if change < np.log(_RESCALED):
                return
        self.scale, self.whitening = scale, whitening
        self.members = ensemble(
            jax.random.fold_in(self.key, 3 * number_ + 1),
            self.method.estimator,
            self.method.num_members,
            z.shape[1],
            one.shape[1],
        )

    def resampler(self, method: PrivatePosteriorEstimation, capacity: int, plain: bool) -> _Pairs:
        pad = lambda values: np.pad(values, ((0, capacity - len(values)),) + ((0, 0),) * (values.ndim - 1))  # noqa: E731
        z = self.simulations.z
        return _Pairs(
            pad(z),
            pad(self.work.model.prior.log_prob_unconstrained(z)),
            pad(self.bank),
            self.scale,
            self.whitening,
            method.num_noise,
            0 if plain else method.correction.num_atoms,
        )

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        validation = self.simulations.validation
        return np.flatnonzero(self.usable & ~validation), np.flatnonzero(self.usable & validation)

    def watch(self, epoch: int, loss: float, best: float) -> bool:
        try:
            self.work.check_time()
        except OutOfBudget:
            return True
        return False

    def learnt(self, members: Any, losses: np.ndarray, number_: int) -> None:
        self.members = members
        self.density = ConditionalDensity(members, self.scale, self.whitening)
        self.work.record(round=number_ + 1, epochs=len(losses), validation_loss=float(np.nanmin(losses)))

    def posterior(self, number_: int) -> LearnedPosterior:
        work = self.work
        key = jax.random.fold_in(self.key, 2**30 + number_)
        z = self.density.sample(key, self.condition, _KEPT)
        theta = work.model.prior.constrain(z)
        return LearnedPosterior(
            theta,
            work.model.names,
            work.report(exact=False),
            density=self.density,
            condition=self.condition,
            prior=work.model.prior,
            derived=work.model.derived_quantities(theta),
        )
