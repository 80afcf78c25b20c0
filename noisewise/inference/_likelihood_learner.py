"""Simulations of all rounds so far, and the density of private statistics fitted to them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._arrays import Array
from noisewise.errors import InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.members import ensemble
from noisewise.estimators.training import train
from noisewise.estimators.whitening import Affine, Whitening
from noisewise.inference._learning import check_members, failures_bias, rescaled
from noisewise.inference._simulations import Simulations, noisy_statistics
from noisewise.inference._target_space import TargetSpace
from noisewise.inference.learned_likelihood import LearnedLikelihood
from noisewise.inference.work import Work
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.point_sets import AbstractPointSet

_VALIDATION_NOISE = 16
_SCALE_NOISE = 4


class NoisyPairs(eqx.Module):
    """What the training loop draws from: rows of (z, s) become standardised (t, z), with fresh noise each time."""

    z: Array
    s: Array
    mechanism: AbstractMechanism
    space: TargetSpace
    scale: Affine
    whitening: Whitening
    points: AbstractPointSet = eqx.field(static=True)
    num_noise: int = eqx.field(static=True)

    def __call__(self, key: Array, rows: Array) -> tuple[Array, Array]:
        s, condition = self.s[rows][:, None], self.scale(self.z[rows])[:, None]
        t, _ = self.space(*self._noisy(key, s))
        return self.whitening.forward(t, condition).astype(jnp.float32), condition.astype(jnp.float32)

    def _noisy(self, key: Array, s: Array) -> tuple[Array, Array]:
        """s_dp (B, M, k') and the uniforms that spread it, from one net per row where the mechanism has a transport map."""
        num, _, width = s.shape
        spread = self.space.num_uniforms
        if Capability.TRANSPORT in self.mechanism.capabilities:
            own = self.mechanism.num_uniforms(width)
            u = self.points.uniforms(key, num, self.num_noise, own + spread)
            return self.mechanism.transport(u[..., :own], s), u[..., own:]
        noise_key, spread_key = jax.random.split(key)
        s_dp = self.mechanism.sample(noise_key, jnp.repeat(s, self.num_noise, axis=1))
        return s_dp, self.points.uniforms(spread_key, num, self.num_noise, max(spread, 1))[..., :spread]


class LikelihoodLearner:
    """One training after another, each on the simulations of all rounds so far."""

    def __init__(self, method: Any, work: Work) -> None:
        self.method, self.work = method, work
        self.capacity: int = method.num_rounds * method.num_simulations
        self.simulations = Simulations.none(work.model)
        self.space: TargetSpace
        self.scale: Affine
        self.whitening: Whitening
        self.members: Any = None

    def simulate(self, key: Array, z: np.ndarray, number: int) -> np.ndarray:
        """The simulations of one round, at z (n, p) or as many of its rows as the budgets allow: their statistics s."""
        return self.simulations.add(key, self.work, z, share=self.method.validation_share, number=number)

    def learn(self, key: Array, number: int) -> LearnedLikelihood:
        """Fit the density to all simulations so far."""
        prepare_key, build_key, train_key = jax.random.split(key, 3)
        self._prepare(prepare_key, build_key)
        method, validation = self.method, self.simulations.validation
        trained = train(
            train_key,
            self.members,
            self._pairs(method.num_noise),
            train_rows=np.flatnonzero(~validation),
            validation_rows=np.flatnonzero(validation),
            capacity=self.capacity,
            settings=method.training,
            validation=self._pairs(max(_VALIDATION_NOISE, method.num_noise)),
            watch=self.work.late,
        )
        self.members = trained.members
        best = float(np.nanmin(trained.validation_losses)) - float(self.whitening.log_det)
        if self.work.num_failed:
            self.work.warn(failures_bias("PrivatePosteriorEstimation"))
        self.work.record(round=number + 1, epochs=trained.num_epochs, validation_loss=best)
        density = ConditionalDensity(trained.members, self.scale, self.whitening)
        z, s = self.simulations.z, self.simulations.s
        return LearnedLikelihood(self.work.model, density, self.space, z=z, s=s, chains=method.chain_settings)

    def _prepare(self, key: Array, build_key: Array) -> None:
        """Standardise; where the scale has changed by more than half, do so anew and start from new weights."""
        method, model, z = self.method, self.work.model, self.simulations.z
        noise_key, spread_key = jax.random.split(key)
        s_dp = noisy_statistics(noise_key, model, self.simulations.s, _SCALE_NOISE, method.points)
        s_dp = s_dp.reshape(-1, s_dp.shape[-1])
        space = TargetSpace.of(model.mechanism.support, s_dp, self._kept(s_dp))
        with jax.enable_x64(True):
            u = jax.random.uniform(spread_key, (len(s_dp), space.num_uniforms), minval=1e-9)
            t = np.asarray(space(jnp.asarray(s_dp), u)[0])
        scale = Affine.fit(z)
        whitening = Whitening.fit(t, np.repeat(scale(z), _SCALE_NOISE, axis=0), degree=2)
        if self.members is not None and space.kept == self.space.kept:
            scales = self.scale.inverse_sd, scale.inverse_sd
            if not rescaled(scales, (np.diag(self.whitening.root), np.diag(whitening.root))):
                return
        self.space, self.scale, self.whitening = space, scale, whitening
        dims = space.dim, z.shape[1]
        self.members = check_members(
            "estimator", ensemble(build_key, method.estimator, method.num_members, *dims), *dims
        )

    def _kept(self, s_dp: np.ndarray) -> np.ndarray:
        """The columns to learn: not those that never vary, nor noise around a statistic that never does."""
        model, s = self.work.model, self.simulations.s
        varies = np.ptp(s_dp, axis=0) > 0
        if Capability.CDF in model.mechanism.capabilities and s_dp.shape[1] == s.shape[1]:
            varies &= np.ptp(s, axis=0) > 0
        if not varies.any():
            raise InvalidInputError(
                f"No statistic varies over {len(s):,} simulations: they tell nothing of {', '.join(model.names)}. Check the query."
            )
        names = [name for name, kept in zip(model.private_names, varies, strict=True) if not kept]
        if names:
            self.work.warn(f"The same in all simulations, and left out: {', '.join(names)}.")
        return np.flatnonzero(varies)

    def _pairs(self, num_noise: int) -> NoisyPairs:
        pad = lambda values: np.pad(values, ((0, self.capacity - len(values)), (0, 0)))  # noqa: E731
        return NoisyPairs(
            pad(self.simulations.z),
            pad(self.simulations.s),
            self.work.model.mechanism,
            self.space,
            self.scale,
            self.whitening,
            self.method.points,
            num_noise,
        )
