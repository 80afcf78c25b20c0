"""One learnt posterior under way: simulations of all rounds so far, their noisy features, and the
density fitted to them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, placed
from noisewise._core.seeds import generator
from noisewise.errors import InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.members import ensemble, stacked, unstacked
from noisewise.estimators.training import negative_log_prob
from noisewise.estimators.whitening import Affine, Whitening
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.features import features
from noisewise.inference.learned.common.learning import (
    architecture_spec,
    check_members,
    rescaled,
    train_or_recall,
)
from noisewise.inference.learned.common.simulations import (
    Rows,
    Simulations,
    noisy_statistics,
    one_net,
)
from noisewise.inference.learned.posterior.corrections import Region, atomic_loss
from noisewise.posteriors import Kind

if TYPE_CHECKING:
    from noisewise.inference.learned.posterior.private_posterior_estimation import (
        PrivatePosteriorEstimation,
    )

_VALIDATION_NOISE = 16


class NoisyPairs(eqx.Module):
    """What the training loop draws from: z, its log prior, and noisy features of each simulation,
    of which a random net is taken each time.

    With atoms, targets are (B, A, M, p) standardised z with log priors (B, A): first the row's own,
    then those of others in the batch.
    """

    z: Array
    log_prior: Array
    bank: Array
    scale: Affine
    whitening: Whitening
    num_noise: int = eqx.field(static=True)
    num_atoms: int = eqx.field(static=True)

    def __call__(self, key: Array, rows: Array) -> tuple[Any, Array]:
        noise_key, atom_key = jax.random.split(key)
        condition = self.scale(one_net(noise_key, self.bank, rows, self.num_noise))
        if not self.num_atoms:
            standard = self.whitening.forward(self.z[rows][:, None], condition)
            return standard.astype(jnp.float32), condition.astype(jnp.float32)
        atoms = self._atoms(atom_key, rows)
        condition = condition[:, None]
        standard = self.whitening.forward(self.z[atoms][:, :, None], condition)
        # a parameter that stands twice in a batch is no atom of its own
        again = (self.z[atoms] == self.z[rows][:, None]).all(axis=-1) & (
            jnp.arange(atoms.shape[1]) > 0
        )
        log_prior = jnp.where(again, jnp.inf, self.log_prior[atoms])
        return (standard.astype(jnp.float32), log_prior.astype(jnp.float32)), condition.astype(
            jnp.float32
        )

    def _atoms(self, key: Array, rows: Array) -> Array:
        """Row numbers (B, A): each row, and the rows A - 1 random distances further in the batch;
        fewer where the batch has no more.
        """
        num = len(rows)
        distances = jnp.concatenate([jnp.zeros(1, int), 1 + jax.random.permutation(key, num - 1)])[
            : self.num_atoms
        ]
        return rows[(jnp.arange(num)[:, None] + distances) % num]


class PosteriorLearner:
    """One inference; `train_together` fits several at once."""

    def __init__(
        self,
        method: PrivatePosteriorEstimation,
        key: Array,
        run: InferenceRun,
        observed: np.ndarray | None,
    ) -> None:
        self.method, self.key, self.run = method, key, run
        self.capacity = method.num_rounds * method.num_simulations
        self.simulations = Simulations(run.model, self.capacity)
        self.condition: Any = None if observed is None else self.features(observed[None])[0]
        self._bank: Rows
        self.regions: list[Region] = []
        self._within, self._num_asked = np.empty(0, dtype=bool), 0
        self.density: Any = None
        self.members: Any = None
        self.scale: Affine
        self.whitening: Whitening
        self.usable: np.ndarray

    def features(self, s_dp: np.ndarray) -> np.ndarray:
        """What the network sees of private statistics (..., k'): (..., w)."""
        return features(self.run.model.mechanism.support, s_dp)

    @property
    def bank(self) -> np.ndarray:
        """Noisy features of each simulation (N, B, w)."""
        return self._bank.values

    def log_q(self, z: np.ndarray) -> np.ndarray:
        """The log of the current density at z (N, p)."""
        return self.density.log_prob(z, self.condition)

    def inside(self, z: np.ndarray) -> np.ndarray:
        """Which rows of z lie in all regions so far; the last, being the smallest, is asked first."""
        result = np.ones(len(z), dtype=bool)
        for region in reversed(self.regions):
            if result.any():
                result[result] = region.contains(z[result])
        return result

    def within(self) -> np.ndarray:
        """Which simulations lie in all regions so far: new ones are asked about all, those known
        from before about new regions.
        """
        z, num = self.simulations.z, len(self._within)
        known = np.flatnonzero(self._within)
        for region in self.regions[self._num_asked :]:
            known = known[region.contains(z[known])]
        result = np.zeros(len(z), dtype=bool)
        result[known] = True
        result[num:] = self.inside(z[num:])
        self._within, self._num_asked = result, len(self.regions)
        return result

    def outside(self, z: np.ndarray) -> float:
        """The share of draws z (N, p) outside the range of simulated ones, outside any region, or
        where q is below its least value at the parameters of the last round.
        """
        seen = self.simulations.z
        beyond = ((z < seen.min(axis=0)) | (z > seen.max(axis=0))).any(axis=1)
        if self.regions:
            return float(np.mean(beyond | ~self.inside(z)))
        last = seen[self.simulations.round == self.simulations.round.max()]
        return float(np.mean(beyond | (self.log_q(z) < self.log_q(last).min())))

    def simulate(self, index: int) -> None:
        """The simulations of one round, as many as the budgets allow."""
        propose_key, simulate_key, noise_key, look_key = jax.random.split(self._key(index, 0), 4)
        method, prior = self.method, self.run.model.prior
        if index == 0:
            _check_names(method.proposal, self.run.model.names)
            z = prior.unconstrain(
                (method.proposal or prior).sample(propose_key, method.num_simulations)
            )
        else:
            z = method.correction.propose(propose_key, self, method.num_simulations)
        s = self.simulations.add(
            simulate_key, self.run, z, share=method.validation_share, number=index
        )
        if index == 0 and self.condition is not None:
            self.run.look_at_observation(look_key, s if method.proposal is None else None)
        noisy = noisy_statistics(noise_key, self.run.model, s, method.noise_bank, method.points)
        new = self.features(noisy)
        if index == 0:
            self._bank = Rows(self.capacity, *new.shape[1:])
        self._bank.add(new)

    def prepare(self, index: int) -> None:
        """Standardise; where the scale has changed by more than half, do so anew and start from new
        weights.
        """
        self.usable = self.method.correction.usable(self)
        z, noisy = self.simulations.z[self.usable], self.bank[self.usable, 0]
        self._check_features(noisy)
        scale = Affine.fit(noisy)
        noisy -= scale.mean  # as scale(noisy), without another copy of all of them
        noisy *= scale.inverse_sd
        whitening = Whitening.fit(z, noisy)
        if self.members is not None:
            scales = self.scale.inverse_sd, scale.inverse_sd
            if not rescaled(scales, (np.diag(self.whitening.root), np.diag(whitening.root))):
                return
        self.scale, self.whitening = scale, whitening
        dims = z.shape[1], noisy.shape[1]
        made = ensemble(self._key(index, 1), self.method.estimator, self.method.num_members, *dims)
        self.members = check_members("estimator", made, *dims)

    def pairs(self, num_atoms: int, num_noise: int) -> NoisyPairs:
        """All simulations so far, in arrays of one size for all rounds, where the program finds
        them; log priors only for atoms.
        """
        z, _ = self.simulations.whole()
        log_prior = self.run.model.prior.log_prob_unconstrained(z) if num_atoms else np.zeros(0)
        with jax.enable_x64(True):
            arrays = placed(z), placed(log_prior), placed(self._bank.whole)
        return NoisyPairs(*arrays, self.scale, self.whitening, num_noise, num_atoms)

    def precompile(self) -> None:
        """Compile what will be asked of the density, with its members as they are before they are
        trained.
        """
        density = ConditionalDensity(self.members, self.scale, self.whitening)
        density.log_prob(self.simulations.z[:1], self.condition)
        density.sample(self.key, self.condition, 1)

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows to train on and to validate on; one of the first where chance left none for the
        second.
        """
        validation = self.simulations.validation
        train_rows, validation_rows = (
            np.flatnonzero(self.usable & role) for role in (~validation, validation)
        )
        # atoms are neighbours in a batch, and must not be all of one round
        validation_rows = generator(self.key).permutation(validation_rows)
        return (
            (train_rows, validation_rows)
            if len(validation_rows)
            else (train_rows[1:], train_rows[:1])
        )

    def adopt(self, members: Any, losses: np.ndarray, index: int, *, atoms: int = 0) -> None:
        """Take over trained members, given their validation losses (epochs, E)."""
        self.members = members
        self.density = ConditionalDensity(members, self.scale, self.whitening)
        found = np.isfinite(losses)
        best = float(np.where(found, losses, np.inf).min(axis=0).mean())
        if not np.isfinite(best):
            self.run.warn(Kind.LOSS_NEVER_FINITE)
        if len(losses) >= self.method.training.max_epochs:
            self.run.warn(Kind.TRAINING_CUT_SHORT, epochs=len(losses))
        loss = (
            {"atomic_loss": best}
            if atoms
            else {"validation_loss": best - float(self.whitening.log_det)}
        )
        self.run.record(round=index + 1, epochs=int(found.any(axis=-1).sum()), **loss)

    def estimator_spec(self) -> dict[str, Any] | None:
        """The architecture, as files describe it; None where it is a user's own."""
        return architecture_spec(self.method.estimator, self.density, self.method.num_members)

    def _key(self, index: int, purpose: int) -> Array:
        return jax.random.fold_in(jax.random.fold_in(self.key, index), purpose)

    def _check_features(self, noisy: np.ndarray) -> None:
        varies = np.ptp(noisy, axis=0) > 0.0
        if not varies.any():
            raise InvalidInputError(
                f"No statistic varies over {len(noisy):,} simulations: they tell nothing of"
                f" {', '.join(self.run.model.names)}. Check the query."
            )
        if not varies.all() and noisy.shape[1] == len(self.run.model.private_names):
            names = [
                name
                for name, kept in zip(self.run.model.private_names, varies, strict=True)
                if not kept
            ]
            self.run.warn(Kind.STATISTICS_LEFT_OUT, names=names)


def train_together(learners: list[PosteriorLearner], index: int) -> None:
    """Fit the densities of several learners of one method in one program."""
    method = learners[0].method
    for learner in learners:
        learner.prepare(index)
    from_prior = index == 0 and method.proposal is None
    atoms = 0 if from_prior else method.correction.num_atoms
    keys = [learner._key(index, 2) for learner in learners]
    data = [learner.pairs(atoms, method.num_noise) for learner in learners]
    steady = (
        max(method.num_noise, min(_VALIDATION_NOISE, method.noise_bank))
        if not atoms
        else method.num_noise
    )
    train_rows, validation_rows = zip(*(learner.rows() for learner in learners), strict=True)
    lone = len(learners) == 1
    each = list(zip(keys, [learner.members for learner in learners], data, strict=True))
    key, members, resample = each[0] if lone else stacked(each)
    trained = train_or_recall(
        learners[0].run,
        key,
        members,
        resample,
        train_rows=train_rows[0] if lone else train_rows,
        validation_rows=validation_rows[0] if lone else validation_rows,
        capacity=learners[0].capacity,
        settings=method.training,
        warm_up=learners[0].precompile
        if index == 0 and learners[0].condition is not None
        else None,
        loss=atomic_loss if atoms else negative_log_prob,
        validation=dataclasses.replace(resample, num_noise=steady),
    )
    members = [trained.members] if lone else unstacked(trained.members, len(learners))
    losses = trained.validation_losses[:, None] if lone else trained.validation_losses
    for i, learner in enumerate(learners):
        learner.adopt(members[i], losses[:, i], index, atoms=atoms)
        if atoms and learner.run.num_failed:
            learner.run.warn(Kind.FAILURES_UNSEEN, instead="TruncatedProposals")


def _check_names(proposal: Any, names: tuple[str, ...]) -> None:
    if proposal is not None and proposal.names != names:
        raise InvalidInputError(
            f"proposal must be a posterior of {', '.join(names)}, got one of"
            f" {', '.join(proposal.names)}."
        )
