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
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, as_key, number
from noisewise._core.json_files import require_keys
from noisewise._core.keys import split
from noisewise._core.weights import MANY_DRAWS
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.fits import (
    EACH_BY_ITSELF,
    MASS_OUTSIDE,
    AbstractFit,
    StoredFit,
    extrapolation,
    in_blocks,
    paired_rows,
    rows_of,
    share_outside,
    stored_counts,
)
from noisewise.inference.learned.common.populations import Populations
from noisewise.inference.learned.common.space_files import (
    read_target_space,
    target_space_arrays,
    target_space_spec,
)
from noisewise.inference.learned.likelihood.likelihood_chains import (
    LogLikelihood,
    posterior_sampling,
)
from noisewise.inference.learned.likelihood.target_space import TargetSpace
from noisewise.mechanisms.point_sets import ScrambledSobol
from noisewise.mechanisms.supports import coded
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Kind, Report
from noisewise.samplers.densities import log_densities

_CELL_POINTS = 8
"""Points of a cell that a probability is averaged over: scrambled Sobol points, which are even."""
_NARROW_CELL = 0.5
"""Width of a cell, in standard deviations of the target given theta, below which its middle stands
for it: a normal density is then off by at most .5^2 / 24, 1%, where it is largest.
"""
_NUM_STARTS = 16
"""Simulated parameters that the ascent starts from: several, for a likelihood with several modes.
"""
_NUM_STEPS = 400
"""Steps of the ascent, whose size decreases to 0: more do not change its end."""
_FIRST_STEP = 0.2
"""Size of the first steps of the ascent, in standard deviations of the likelihood."""
_EDGE = 1e-6
"""Share of the range of simulated parameters within which a maximum counts as lying at its edge."""
_CHAINS = ("num_chains", "num_warmup", "length", "target_ess")


class LearnedLikelihood(AbstractFit):
    r"""q(s_dp | theta), fitted to simulations of a model: `PrivateLikelihoodEstimation().fit(key,
    model)` makes one.

    It serves the mechanism it was trained with, and is good where simulations were: over the whole
    prior after `fit`, near one observation after `infer`. On a lattice q is the probability of
    s_dp, an average over 8 points of its cell. Columns of s_dp that say nothing about theta are
    left out of q. `save(path)` keeps it for `LearnedLikelihood.load(path, model)`.

    Args:
        model: The model it was fitted to.
        density: q(t | z), t targets in `space` and z unconstrained parameters.
        space: The map of s_dp to targets.
        z: Simulated parameters, shape (n, p): where q is good, and where ascents start.
        s: A simulated statistic, shape (1, k), for the columns that are left out.
        chains: How posteriors are drawn: num_chains, num_warmup, length and target_ess.
        report: How it was learnt.
        estimator: The architecture, for files; None where it is a user's own.
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
        z: Float[np.ndarray, "n p"],
        s: Float[np.ndarray, "n k"],
        chains: dict[str, int],
        report: Report,
        estimator: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.density, self.space = model, density, space
        self.report, self.estimator = report, estimator
        self.bounds = np.stack([z.min(axis=0), z.max(axis=0)])
        self._z, self._typical, self._settings = z, s[0], chains

    @property
    def _codes(self) -> Float[np.ndarray, " kp"]:
        """The numbers that stand for absent cells in `space`, NaN where there are none."""
        return coded(self.model.mechanism.support, self.model.private_width)[1]

    def log_prob(self, s_dp: Any, theta: Any) -> Float[np.ndarray, " n"]:
        """log q(s_dp | theta), row by row; -inf where s_dp is impossible.

        Args:
            s_dp: Private statistics, shape (n, kp) or (kp,).
            theta: Parameters, shape (n, d) or (d,).

        Returns:
            Log densities, or log probabilities on a lattice, shape (n,).
        """
        model, space = self.model, self.space
        s_dp, z = paired_rows(model, s_dp, "s_dp", model.private_width, theta)
        points = _cell_points(space)
        values = in_blocks(
            lambda rows, at: _log_probs(self.density, space, points, rows, at),
            np.where(np.isnan(s_dp), self._codes, s_dp),
            z,
        )
        possible = model.mechanism.support.contains(s_dp).all(axis=1)
        return np.where(possible & ~np.isnan(values), values, -np.inf)

    def sample(self, key: Array, theta: Any) -> Float[np.ndarray, "n kp"]:
        """One private statistic for each parameter.

        Args:
            key: JAX PRNG key.
            theta: Parameters, shape (n, d) or (d,).

        Returns:
            s_dp, shape (n, kp).
        """
        theta = rows_of(theta, "theta", self.model.prior.dim)
        draw_key, other_key = split(as_key(key))
        t = self.density.sample(draw_key, self.model.prior.unconstrain(theta))
        others = self.model.mechanism.sample(
            other_key, np.repeat(self._typical[None], len(theta), axis=0)
        )
        with jax.enable_x64(True):
            values = np.asarray(self.space.inverse(jnp.asarray(t), jnp.asarray(others)))
        return np.where(np.isclose(values, self._codes), np.nan, values)

    def at(self, observed: Any) -> LogLikelihood:
        """The likelihood of one observation, as a function of unconstrained parameters z (p,)."""
        observed, points = self.model.observation(observed), _cell_points(self.space)
        observed = np.where(np.isnan(observed), self._codes, observed)
        corners = np.array([[0.01], [0.99], [0.5]]) * np.ones(points.shape[1])
        with jax.enable_x64(True):
            found = _in_cell(self.space, observed[None], np.concatenate([corners, points]))
        places, log_weights = map(np.asarray, found)
        width = np.asarray(self.density.whitening.inverse_root) @ (places[1] - places[0])
        kept = slice(2, 3) if np.abs(width).max() < _NARROW_CELL else slice(3, None)
        return LogLikelihood(self.density, places[kept], log_weights[kept])

    def posterior(
        self, key: Array, observed: Any, *, max_minutes: float | None = None
    ) -> LikelihoodDraws:
        """The posterior given an observation, by particles led from the prior to it: nothing is
        simulated or trained.

        Args:
            key: JAX PRNG key.
            observed: One observation (kp,), or a release.
            max_minutes: Budget of time; None has no limit.

        Returns:
            Draws; the report warns where they are worth too little.
        """
        observation = self._observation(observed, self.model)
        max_minutes = number("max_minutes", above=0.0, optional=True)(max_minutes)
        run = InferenceRun(
            "sple", dict(self._settings), self.model, observation, max_minutes=max_minutes
        )
        run.add(*self.report.findings)
        start_key, end_key = split(as_key(key))
        found = self.populations(observed)
        found.start(start_key, run)
        found.finish(end_key, run)
        return posterior_of(run, self, found, last=True)

    def populations(self, observed: Any) -> Populations:
        """Particles for the posterior of one observation, not yet started."""
        return Populations(posterior_sampling(self.model.prior, self.at(observed), self._settings))

    def precompile(self, observed: Any) -> None:
        """Compile what `posterior` runs."""
        self.populations(observed).sampling.precompile(self.model.prior.unconstrained_dim)

    def maximum_likelihood(self, observed: Any) -> Float[np.ndarray, " d"]:
        r"""The theta (d,) that maximises q(observed | theta), within the range of the simulated
        ones in every coordinate.

        Gradient ascent (Adam with decreasing steps) in unconstrained coordinates, from the 16 best
        simulated parameters at once. Warns where it ends at the edge of that range, beyond which
        the maximum may lie.

        Args:
            observed: One observation (kp,), or a release.

        Returns:
            theta, shape (d,).
        """
        likelihood = self.at(observed)
        values = log_densities(likelihood, self._z)
        start = self._z[np.argsort(-values)[:_NUM_STARTS]]
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
    def _read(cls, stored: StoredFit) -> Self:
        own, model = require_keys(stored.own, ("space", "chains"), "its content"), stored.model
        space = read_target_space(own["space"], stored.arrays, model.private_width)
        dim = model.prior.unconstrained_dim
        stored.check_dims(space.dim, dim)
        return cls(
            model,
            stored.density,
            space,
            z=stored.array("z", None, dim),
            s=stored.array("typical", model.statistic_width)[None],
            chains=stored_counts(own["chains"], _CHAINS),
            report=stored.report,
            estimator=stored.estimator,
        )


class LikelihoodDraws(Draws):
    """Draws of chains on a learnt `likelihood`. A saved posterior keeps the draws, not the
    likelihood.
    """

    def __init__(
        self, *args: Any, likelihood: LearnedLikelihood, observed: np.ndarray, **more: Any
    ) -> None:
        Draws.__init__(self, *args, **more)
        self.likelihood, self._observed, self._more = likelihood, observed, more

    def maximum_likelihood(self) -> Float[np.ndarray, " d"]:
        """The theta (d,) at which the learnt likelihood of the observation is largest; the prior
        has no part in it.
        """
        return self.likelihood.maximum_likelihood(self._observed)

    def save(self, path: Any, *, overwrite: bool = False) -> None:
        """Write the draws and the report; `nw.load_posterior` reads them."""
        Draws(self.theta, self.names, self.report, **self._more).save(path, overwrite=overwrite)


def posterior_of(
    run: InferenceRun, likelihood: LearnedLikelihood, found: Populations, *, last: bool
) -> LikelihoodDraws:
    """What the particles have drawn so far; R-hat, effective size and the mass beyond all simulated
    parameters go into the report, with a warning where the `last` fall short.
    """
    found.look()
    run.diagnostics |= {
        "effective size": found.effective_size,
        "R-hat": found.r_hat,
        "divergent": found.num_divergent,
    }
    if last and not found.settled:
        numbers = {"effective_size": found.effective_size, "enough": MANY_DRAWS}
        run.warn(
            Kind.LIKELIHOOD_CHAINS_NOT_SETTLED,
            **numbers,
            r_hat=found.r_hat,
            finished=run.stop.finished,
        )
    z = found.chosen()
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
        **run.model.beside_draws(theta),
    )


def _cell_points(space: TargetSpace) -> Float[np.ndarray, "j u"]:
    """Fixed points in a cell, by `num_uniforms` coordinates; one where there are no cells."""
    if not space.num_uniforms:
        return np.full((1, 0), 0.5)
    return ScrambledSobol().uniforms(jax.random.key(0), 1, _CELL_POINTS, space.num_uniforms)[0]


@eqx.filter_jit
def _log_probs(
    density: ConditionalDensity, space: TargetSpace, u: Array, s_dp: Array, z: Array
) -> Array:
    """log q of each row, averaged over the points u of its cell."""
    t, log_w = space(s_dp[:, None], u)
    each = density.log_density(t, z[:, None]) + log_w
    return jax.scipy.special.logsumexp(each, axis=1) - jnp.log(float(len(u)))


@filter_jit_fast_compile
def _in_cell(space: TargetSpace, s_dp: Array, u: Array) -> tuple[Array, Array]:
    """Targets and log weights of s_dp at several points of its cell."""
    t, log_weights = space(s_dp, u)
    lead = (len(u),)
    return jnp.broadcast_to(t, (*lead, t.shape[-1])), jnp.broadcast_to(log_weights, lead)


@filter_jit_fast_compile
def _ascend(
    likelihood: LogLikelihood,
    start: Float[Array, "s p"],
    scale: Float[Array, " p"],
    bounds: Float[Array, "2 p"],
) -> tuple[Float[Array, "s p"], Float[Array, " s"]]:
    """The best points on the way from each start, and their values."""
    optimiser = optax.adam(optax.cosine_decay_schedule(_FIRST_STEP, _NUM_STEPS))
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
    _, _, best, least = jax.lax.fori_loop(0, _NUM_STEPS, step, state)
    return best * scale, -least
