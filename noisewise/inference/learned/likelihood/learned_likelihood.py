"""The likelihood of private statistics, learnt: a density that can be evaluated, drawn from,
maximised and turned into posteriors.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, as_float64, as_key, in_float64, number
from noisewise._core.files import require_keys
from noisewise.errors import InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.fits import (
    EACH_BY_ITSELF,
    MASS_OUTSIDE,
    AbstractFit,
    Arrays,
    check_dims,
    extrapolation,
    share_outside,
    stored,
    stored_counts,
)
from noisewise.inference.learned.common.space_files import (
    read_target_space,
    target_space_arrays,
    target_space_spec,
)
from noisewise.inference.learned.likelihood.likelihood_chains import LikelihoodChains, LogLikelihood
from noisewise.inference.learned.likelihood.target_space import TargetSpace
from noisewise.mechanisms.point_sets import ScrambledSobol
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Kind, Report
from noisewise.samplers.densities import log_densities

_ROWS = 256
_CELL = 8
_STARTS = 16
_STEPS = 400
_ENOUGH = 400
_SEGMENT = 20
_EDGE = 1e-6
_CHAINS = ("num_chains", "num_warmup", "length", "target_ess")


class LearnedLikelihood(AbstractFit):
    r"""q(s_dp | theta), fitted to simulations of a model: `PrivateLikelihoodEstimation().fit(key,
    model)` makes one.

    It is good for the mechanism it was trained with, and where simulations were: over the whole
    prior after `fit`, near one observation after `infer`. On a lattice q is the probability of
    s_dp, an average over 8 points of its cell. Columns of s_dp that tell nothing of theta are left
    out of q. `save(path)` keeps it for `LearnedLikelihood.load(path, model)`.
    """

    formula: ClassVar[str] = "q(s_dp | theta)"
    usage: ClassVar[tuple[str, ...]] = ("posterior(key, observed)", "maximum_likelihood(observed)")
    for_many: ClassVar[str] = EACH_BY_ITSELF

    def __init__(
        self,
        model: PrivateModel,
        density: ConditionalDensity,
        space: TargetSpace,
        *,
        z: np.ndarray,
        s: np.ndarray,
        chains: dict[str, int],
        report: Report,
        estimator: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.density, self.space = model, density, space
        self.report, self.estimator = report, estimator
        self.bounds = np.stack([z.min(axis=0), z.max(axis=0)])
        self._z, self._typical, self._settings = z, s[0], chains

    def log_prob(self, s_dp: Any, theta: Any) -> np.ndarray:
        """log q(s_dp | theta) (N,) for s_dp (N, k') or (k',) and theta (N, d) or (d,)."""
        s_dp, theta = (
            _table(s_dp, "s_dp", self.model.private_width),
            _table(theta, "theta", self.model.prior.dim),
        )
        num = max(len(s_dp), len(theta))
        z = np.broadcast_to(
            self.model.prior.unconstrain(theta), (num, self.model.prior.unconstrained_dim)
        )
        s_dp = np.broadcast_to(s_dp, (num, s_dp.shape[1]))
        parts = []
        with jax.enable_x64(True):
            for first in range(0, num, _ROWS):
                rows = np.minimum(np.arange(first, first + _ROWS), num - 1)
                parts.append(
                    _log_probs(
                        self.density, self.space, _cell_points(self.space), s_dp[rows], z[rows]
                    )
                )
        values = np.concatenate([np.asarray(part) for part in parts])[:num]
        possible = self.model.mechanism.support.contains(s_dp).all(axis=1)
        return np.where(possible & ~np.isnan(values), values, -np.inf)

    def sample(self, key: Array, theta: Any) -> np.ndarray:
        """One s_dp for each row of theta (N, d): (N, k')."""
        theta = _table(theta, "theta", self.model.prior.dim)
        draw_key, other_key = jax.random.split(as_key(key))
        t = self.density.sample(draw_key, self.model.prior.unconstrain(theta))
        others = self.model.mechanism.sample(
            other_key, np.repeat(self._typical[None], len(theta), axis=0)
        )
        with jax.enable_x64(True):
            return np.asarray(self.space.inverse(jnp.asarray(t), jnp.asarray(others)))

    def at(self, observed: Any) -> LogLikelihood:
        """The likelihood of one observation, as a function of unconstrained parameters z (p,)."""
        observed = self.model.observation(observed)
        with jax.enable_x64(True):
            places, log_weights = self.space(
                jnp.asarray(observed), jnp.asarray(_cell_points(self.space))
            )
            return LogLikelihood(self.density, places, log_weights)

    def posterior(
        self, key: Array, observed: Any, *, max_minutes: float | None = None
    ) -> LikelihoodDraws:
        """The posterior given an observation, by Hamiltonian chains: nothing is simulated or
        trained.

        Chains go on until they have settled, in at most 40 segments or `max_minutes`; where they
        have not, the report says so.
        """
        observation = self._observation(observed, self.model)
        max_minutes = number("max_minutes", above=0.0, optional=True)(max_minutes)
        run = InferenceRun(
            "sple", dict(self._settings), self.model, observation, max_minutes=max_minutes
        )
        run.add(*self.report.findings)
        length = min(self._settings["length"], _SEGMENT)
        chains = LikelihoodChains(self.model.prior, **{**self._settings, "length": length})
        move_key, end_key = jax.random.split(as_key(key))
        chains.move(move_key, self.at(observed), run)
        chains.finish(end_key, run)
        return posterior_of(run, self, chains, last=True)

    def maximum_likelihood(self, observed: Any) -> np.ndarray:
        r"""The theta (d,) that maximises q(observed | theta), within the range of the simulated
        ones in every coordinate.

        Gradient ascent (Adam with decreasing steps) in unconstrained coordinates, from the 16 best
        simulated parameters at once. Warns where it ends at the edge of that range, beyond which
        the maximum may lie.
        """
        likelihood = self.at(observed)
        values = log_densities(likelihood, self._z)
        start = self._z[np.argsort(-values)[:_STARTS]]
        weights = np.exp(np.maximum(values - values.max(), -700.0))
        spread = np.sqrt(weights @ (self._z - start[0]) ** 2 / weights.sum())
        scale = np.maximum(spread, 1e-3 * self._z.std(axis=0) + 1e-12)
        with jax.enable_x64(True):
            ends, value = _ascend(
                likelihood, jnp.asarray(start), jnp.asarray(scale), jnp.asarray(self.bounds)
            )
        z = np.asarray(ends)[int(np.argmax(value))]
        low, high = self.bounds + _EDGE * np.ptp(self.bounds, axis=0) * np.array([[1.0], [-1.0]])
        if ((z <= low) | (z >= high)).any():
            warnings.warn(
                "The maximum lies at the edge of the simulated parameters: the likelihood may be"
                " larger beyond it, where nothing was learnt. Take a wider prior, or check the"
                " observation.",
                stacklevel=2,
            )
        return self.model.prior.constrain(z)

    def _own_arrays(self) -> dict[str, np.ndarray]:
        return {"z": self._z, "typical": self._typical, **target_space_arrays(self.space)}

    def _own_content(self) -> dict[str, Any]:
        return {"space": target_space_spec(self.space), "chains": dict(self._settings)}

    @classmethod
    def _read(
        cls,
        model: PrivateModel,
        density: ConditionalDensity,
        own: Any,
        arrays: Arrays,
        common: dict[str, Any],
    ) -> Self:
        require_keys(own, ("space", "chains"), "its content")
        space, dim = (
            read_target_space(own["space"], arrays, model.private_width),
            model.prior.unconstrained_dim,
        )
        check_dims(density, space.dim, dim)
        z, s = (
            stored(arrays, "z", None, dim),
            stored(arrays, "typical", model.statistic_width)[None],
        )
        chains = stored_counts(own["chains"], _CHAINS)
        return cls(model, density, space, z=z, s=s, chains=chains, **common)


class LikelihoodDraws(Draws):
    """Draws of chains on a learnt `likelihood`. A saved posterior keeps the draws, not the
    likelihood.
    """

    def __init__(
        self, *args: Any, likelihood: LearnedLikelihood, observed: np.ndarray, **more: Any
    ) -> None:
        Draws.__init__(self, *args, **more)
        self.likelihood, self._observed, self._more = likelihood, observed, more

    def maximum_likelihood(self) -> np.ndarray:
        """The theta (d,) at which the learnt likelihood of the observation is largest; the prior
        has no part in it.
        """
        return self.likelihood.maximum_likelihood(self._observed)

    def save(self, path: Any, *, overwrite: bool = False) -> None:
        """Write the draws and the report; `nw.load_posterior` reads them."""
        Draws(self.theta, self.names, self.report, **self._more).save(path, overwrite=overwrite)


def posterior_of(
    run: InferenceRun, likelihood: LearnedLikelihood, chains: LikelihoodChains, *, last: bool
) -> LikelihoodDraws:
    """What the chains have drawn so far; R-hat, effective size and the mass beyond all simulated
    parameters go into the report, with a warning where the `last` fall short.
    """
    trace = chains.trace
    trace.look()
    size, r_hat = trace.effective_size, trace.r_hat
    run.diagnostics |= {
        "effective size": size,
        "R-hat": r_hat,
        "divergent": chains.latest.num_divergent,
    }
    if last and not (size >= _ENOUGH and trace.settled):
        numbers = {"effective_size": size, "r_hat": r_hat, "enough": _ENOUGH}
        run.warn(Kind.LIKELIHOOD_CHAINS_NOT_SETTLED, **numbers, finished=run.stop.finished)
    z = trace.by_chain("theta", trace.stride())
    run.diagnostics[MASS_OUTSIDE] = outside = share_outside(z, likelihood.bounds)
    if last:
        run.add(*extrapolation(outside))
    theta = run.model.prior.constrain(z)
    return LikelihoodDraws(
        theta,
        run.model.names,
        run.report(exact=False),
        likelihood=likelihood,
        observed=run.observed,
        num_chains=trace.num_chains,
        derived=run.model.derived_quantities(theta),
    )


@in_float64
def _table(values: Any, name: str, width: int) -> np.ndarray:
    table = np.atleast_2d(np.asarray(as_float64(values, name)))
    if table.ndim != 2 or table.shape[1] != width:
        raise InvalidInputError(
            f"{name} must have shape (N, {width}) or ({width},), got {np.shape(values)}."
        )
    return table


def _cell_points(space: TargetSpace) -> np.ndarray:
    """Fixed points (J, num_uniforms) in a cell; one where there are no cells."""
    if not space.num_uniforms:
        return np.full((1, 0), 0.5)
    return ScrambledSobol().uniforms(jax.random.key(0), 1, _CELL, space.num_uniforms)[0]


@eqx.filter_jit
def _log_probs(
    density: ConditionalDensity, space: TargetSpace, u: Array, s_dp: Array, z: Array
) -> Array:
    t, log_w = space(s_dp[:, None], u)
    each = density.log_density(t, z[:, None]) + log_w
    return jax.scipy.special.logsumexp(each, axis=1) - jnp.log(float(len(u)))


@filter_jit_fast_compile
def _ascend(
    likelihood: LogLikelihood, start: Array, scale: Array, bounds: Array
) -> tuple[Array, Array]:
    """The best points (S, p) on the way from each start, and their values."""
    optimiser = optax.adam(optax.cosine_decay_schedule(0.2, _STEPS))
    gradient = jax.vmap(jax.value_and_grad(lambda y: -likelihood(y * scale)))

    def step(_: int, state: Any) -> Any:
        y, moments, best, least = state
        value, slope = gradient(y)
        better = value < least
        best, least = jnp.where(better[:, None], y, best), jnp.where(better, value, least)
        updates, moments = optimiser.update(jnp.nan_to_num(slope), moments)
        return jnp.clip(y + updates, *(bounds / scale)), moments, best, least

    y = start / scale
    state = (y, optimiser.init(y), y, jnp.full(len(y), jnp.inf))
    _, _, best, least = jax.lax.fori_loop(0, _STEPS, step, state)
    return best * scale, -least
