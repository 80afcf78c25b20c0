"""SPPE's task: unconstrained parameters given the features of private statistics."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from noisewise._core.arrays import Array, placed
from noisewise._core.keys import generator, split
from noisewise.estimators.conditioner import Conditioner, Scale
from noisewise.estimators.training import Loss, negative_log_prob
from noisewise.estimators.whitening import Whitening, blocks
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.features import features
from noisewise.inference.learned.common.learner import (
    VALIDATION_NOISE,
    AbstractTask,
    Columns,
    TrainingSummary,
)
from noisewise.inference.learned.common.simulations import (
    NoisyBank,
    Simulations,
    nothing_varies,
    one_point_set,
)
from noisewise.inference.learned.posterior.corrections import atomic_loss
from noisewise.inference.learned.posterior.regions import Regions
from noisewise.posteriors import Kind

if TYPE_CHECKING:
    from noisewise.inference.learned.posterior.private_posterior_estimation import (
        PrivatePosteriorEstimation,
    )


class NoisyPairs(eqx.Module):
    """What the training loop draws from: z, its log prior, and noisy features of each simulation,
    of which a random point set is taken each time.

    With atoms, targets are (b, a, m, p) standardised z with log priors (b, a): first the row's own,
    then those of others in the batch.
    """

    z: Float[Array, "n p"]
    log_prior: Float[Array, " n"]
    bank: Float[Array, "n B w"]
    scale: Scale
    whitening: Whitening
    num_noise: int = eqx.field(static=True)
    num_atoms: int = eqx.field(static=True)

    def __call__(
        self, key: Array, rows: Int[Array, " b"]
    ) -> tuple[Float[Array, "b m p"] | tuple[Array, Array], Float[Array, "b ... w"]]:
        noise_key, atom_key = split(key)
        condition = self.scale(one_point_set(noise_key, self.bank, rows, self.num_noise))
        if not self.num_atoms:
            standard = self.whitening.forward(self.z[rows][:, None], condition)
            return standard.astype(jnp.float32), condition.astype(jnp.float32)
        atoms = self._atoms(atom_key, rows)
        condition = condition[:, None]
        standard = self.whitening.forward(self.z[atoms][:, :, None], condition)
        # atoms of the same parameter as the row itself do not count
        again = (self.z[atoms] == self.z[rows][:, None]).all(axis=-1) & (
            jnp.arange(atoms.shape[1]) > 0
        )
        log_prior = jnp.where(again, jnp.inf, self.log_prior[atoms])
        return (standard.astype(jnp.float32), log_prior.astype(jnp.float32)), condition.astype(
            jnp.float32
        )

    def _atoms(self, key: Array, rows: Int[Array, " b"]) -> Int[Array, "b a"]:
        """Row numbers (b, a): each row, and the rows at a - 1 random distances from it in the
        batch; fewer where the batch has no more.
        """
        num = len(rows)
        distances = jnp.concatenate([jnp.zeros(1, int), 1 + jax.random.permutation(key, num - 1)])[
            : self.num_atoms
        ]
        return rows[(jnp.arange(num)[:, None] + distances) % num]


class PosteriorTask(AbstractTask[None]):
    """q(z | features of s_dp), learnt from the simulations that the correction finds usable."""

    degree = 1

    def __init__(self, method: PrivatePosteriorEstimation, key: Array, run: InferenceRun) -> None:
        self.method, self.key, self.run = method, key, run
        self.simulations = Simulations(run.model, method.num_rounds * method.num_simulations)
        self.regions = Regions()
        self.bank = NoisyBank(
            run.model,
            self.simulations.capacity,
            size=method.noise_bank,
            points=method.points,
            encode=self.features,
        )
        self._usable: Bool[np.ndarray, " n"]

    def features(self, s_dp: Float[np.ndarray, "*n kp"]) -> Float[np.ndarray, "*n w"]:
        """What the network sees of private statistics."""
        return features(self.run.model.mechanism.support, s_dp)

    def extend(self, key: Array, s: np.ndarray) -> None:
        self.bank.add(key, s)

    def columns(self, key: Array, *, first: bool) -> Columns[None]:
        z = self.simulations.z
        self._usable = self.method.correction.usable(self.regions, z)
        noisy = self.bank.values[self._usable, 0]
        self._check(noisy)
        return Columns(z[self._usable], noisy, None)

    def standardisation(
        self, condition: Float[np.ndarray, "n w"], target: Float[np.ndarray, "n ... p"]
    ) -> tuple[Scale, Whitening]:
        if self.method.embedding is None:
            return super().standardisation(condition, target)
        conditioner = Conditioner.fit(condition, target)
        predictions = np.concatenate(
            [conditioner(condition[rows])[:, : target.shape[1]] for rows in blocks(len(target))]
        )
        whitening = Whitening.fit(target, predictions, degree=self.degree)
        return conditioner, whitening.widened(conditioner.num_columns)

    @property
    def num_atoms(self) -> int:
        """The number of parameters that the loss chooses among; 0 for the plain loss, as long as
        all simulations come from the prior.
        """
        from_prior = self.method.proposal is None and not self.simulations.round.any()
        return 0 if from_prior else self.method.correction.num_atoms

    @property
    def loss(self) -> Loss:
        return atomic_loss if self.num_atoms else negative_log_prob

    def pairs(self, key: Array, space: None, scale: Scale, whitening: Whitening) -> NoisyPairs:
        """All simulations so far, in arrays of one size for all rounds, where the program finds
        them; log priors only for atoms.
        """
        z, _ = self.simulations.whole()
        prior = self.run.model.prior
        log_prior = prior.log_prob_unconstrained(z) if self.num_atoms else np.zeros(0)
        with jax.enable_x64(True):
            arrays = placed(z), placed(log_prior), placed(self.bank.whole)
        return NoisyPairs(*arrays, scale, whitening, self.method.num_noise, self.num_atoms)

    def validation_pairs(self, pairs: NoisyPairs) -> NoisyPairs:
        num = self.method.num_noise
        steady = max(num, min(VALIDATION_NOISE, self.method.noise_bank))
        return dataclasses.replace(pairs, num_noise=num if self.num_atoms else steady)

    def rows(self) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " v"]]:
        """Usable rows; one of the training rows is for validation where chance left none."""
        train, validation = (
            np.flatnonzero(self._usable & role)
            for role in (~self.simulations.validation, self.simulations.validation)
        )
        # atoms are neighbours in a batch, and must not be all of one round
        validation = generator(self.key).permutation(validation)
        return (train, validation) if len(validation) else (train[1:], train[:1])

    def held_out(self) -> Int[np.ndarray, " v"]:
        """Rows that no network was trained on: usable ones for validation."""
        return np.flatnonzero(self._usable & self.simulations.validation)

    def warn(self, summary: TrainingSummary) -> None:
        if not np.isfinite(summary.best):
            self.run.warn(Kind.LOSS_NEVER_FINITE)
        if summary.epochs >= self.method.training.max_epochs:
            self.run.warn(Kind.TRAINING_CUT_SHORT, epochs=summary.epochs)
        if self.num_atoms and self.run.num_failed:
            self.run.warn(Kind.FAILURES_UNSEEN, instead="TruncatedProposals")

    def losses(self, best: float, whitening: Whitening) -> dict[str, float]:
        if self.num_atoms:
            return {"atomic_loss": best}
        return super().losses(best, whitening)

    def _check(self, noisy: np.ndarray) -> None:
        """Refuse features that never vary; where only some do not, the report names them."""
        varies, model = np.ptp(noisy, axis=0) > 0.0, self.run.model
        if not varies.any():
            raise nothing_varies(len(noisy), model.names)
        if not varies.all() and noisy.shape[1] == len(model.private_names):
            pairs = zip(model.private_names, varies, strict=True)
            names = [name for name, kept in pairs if not kept]
            self.run.warn(Kind.STATISTICS_LEFT_OUT, names=names)
