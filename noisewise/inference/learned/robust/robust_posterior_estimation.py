"""RNPE: posterior estimation from statistics that may not be what the model says."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, describe
from noisewise._core.keys import generator, split
from noisewise.errors import InvalidTypeError
from noisewise.estimators.flows import neural_spline_flow
from noisewise.estimators.training import Training
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learning import check_factory, check_settings
from noisewise.inference.learned.common.simulations import Simulations
from noisewise.inference.learned.robust.error_models import (
    AbstractErrorModel,
    SpikeAndSlab,
    SpikeAndSlabLatent,
)
from noisewise.inference.learned.robust.latent_chains import latent_draws, look_at_cloud
from noisewise.inference.learned.robust.latent_space import LatentSpace
from noisewise.inference.learned.robust.latent_task import MarginalTask, ParametersTask, learn
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Kind

_MARGINAL = functools.partial(neural_spline_flow, num_layers=5, num_bins=8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobustPosteriorEstimation(AbstractMethod):
    r"""Learn h(s) and q(theta | s) from prior simulations of confidential statistics, then look for
    the s behind s_dp:

        s_i ~ h(s) p(s_dp | s),      theta_i ~ q(. | s_i)

    with an `error` model p(s_dp | s). `SpikeAndSlab()`, RNPE as published, takes each statistic for
    right or grossly wrong, and ignores that the law of the privacy noise is known: its answer is no
    posterior given that noise. What it is for is "misspecification" in `report.diagnostics`, the
    posterior probability for each statistic that it is wrong. `MechanismError()` puts the
    mechanism's own density in its place; the answer then is exact, up to what is wrong with h and
    q.

    Use it to criticise a model: which statistics contradict it. No noise takes part in the
    training. The report has the effective size and R-hat of the chains over s, and the share of
    draws that leave the cloud of simulations, where h and q extrapolate. Statistics on a lattice
    are spread over its cells; those without a density, as infection curves, are refused. Absent
    cells need `MechanismError()`, which uses their probability: they have no error to speak of.

    Args:
        num_simulations: Draws from the prior (the original: 50,000).
        error: `SpikeAndSlab()` or `MechanismError()`.
        estimator: Factory (key, target_dim, condition_dim) -> network for q(theta | s).
        marginal: The same for h(s), which is given nothing; a smaller flow by default.
        num_members: Networks whose average is each density.
        training: Optimiser and early stopping, see `nw.estimators.Training`.
        validation_share: Share of the simulations that decide when to stop; 5% as in the paper.
        num_chains: Chains over s, all moved at once.
        num_warmup: Iterations of each chain before the first draw.
        target_ess: Effective draws of s at which the chains end.
        max_simulations: Budget of simulations; None has no limit.
        max_minutes: Budget of time; None has no limit.

    Reference: Ward, Cannon, Beaumont, Fasiolo and Schmon (2022), Robust neural posterior estimation
    and statistical model criticism.

    >>> import functools, jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> small = functools.partial(
    ...     nw.estimators.masked_autoregressive_flow, num_layers=1, num_units=8, num_hidden=1
    ... )
    >>> quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
    >>> chains = {"num_chains": 20, "num_warmup": 30, "target_ess": 200}
    >>> settings = {"estimator": small, "marginal": small, "training": quick, **chains}
    >>> method = RobustPosteriorEstimation(num_simulations=400, **settings)
    >>> key = jax.random.key(0)
    >>> posterior = method.infer(key, problem.model, problem.observed, progress=False)
    >>> sorted(posterior.report.diagnostics)[-1], posterior.report.exact
    ('prior predictive p-value', False)
    """

    slug: ClassVar[str] = "rnpe"
    needs_noise: ClassVar[bool] = True

    num_simulations: int = 10_000
    error: AbstractErrorModel = dataclasses.field(default_factory=SpikeAndSlab)
    estimator: Callable[..., Any] = neural_spline_flow
    marginal: Callable[..., Any] = _MARGINAL
    num_members: int = 1
    training: Training = dataclasses.field(default_factory=Training)
    validation_share: float = 0.05
    num_chains: int = 100
    num_warmup: int = 100
    target_ess: int = 2000

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        check_settings(self)
        check_factory("marginal", self.marginal)
        if not isinstance(self.error, AbstractErrorModel):
            raise InvalidTypeError(
                f"error must be SpikeAndSlab() or MechanismError(), got {describe(self.error)}."
            )

    def _check(self, model: PrivateModel) -> None:
        self.error.check(model)

    def _infer(self, key: Array, run: InferenceRun) -> Draws:
        self.error.check_observation(run.model, run.observed)
        prior_key, simulate_key, look_key, spread_key, key = split(key, 5)
        marginal_key, posterior_key, chain_key, draw_key = split(key, 4)
        model, simulations = run.model, Simulations(run.model, self.num_simulations)
        z = model.prior.unconstrain(model.prior.sample(prior_key, self.num_simulations))
        s = simulations.add(simulate_key, run, z, share=self.validation_share, number=0)
        run.look_at_observation(look_key, s)
        space = LatentSpace.of(model, s)
        _warn_of_constants(run, space)
        tasks = MarginalTask(simulations, space), ParametersTask(simulations)
        marginal = learn(marginal_key, self, run, tasks[0], self.marginal)
        posterior = learn(posterior_key, self, run, tasks[1], self.estimator)
        simulated = space.spread(s, generator(spread_key).random((len(s), len(space.free))))
        latent = self.error.latent(model, run.observed, space, marginal)
        chains = {
            "num_chains": self.num_chains,
            "num_warmup": self.num_warmup,
            "target_ess": self.target_ess,
        }
        t, num_chains = latent_draws(chain_key, run, latent, simulated, **chains)
        look_at_cloud(run, latent, simulated, t)
        if isinstance(latent, SpikeAndSlabLatent):
            _look_at_errors(run, latent, t)
        with jax.enable_x64(True):
            s = np.asarray(space.full(space.nearest(t)))
        theta = model.prior.constrain(posterior.sample(draw_key, s))
        return run.draws(theta, s, num_chains=num_chains, exact=False)


def _warn_of_constants(run: InferenceRun, space: LatentSpace) -> None:
    """Name the statistics that never vary, which are not learnt."""
    names = [
        name
        for name, scale in zip(run.model.statistic_names, space.scale, strict=True)
        if not scale > 0.0
    ]
    if names:
        run.warn(Kind.STATISTICS_NOT_LEARNT, names=names)


def _look_at_errors(run: InferenceRun, latent: SpikeAndSlabLatent, t: np.ndarray) -> None:
    """The posterior probability of each indicator, and what the model of errors leaves out."""
    with jax.enable_x64(True):
        wrong = np.asarray(_slab_probabilities(latent, t)).mean(axis=0)
    for name, probability in zip(run.model.statistic_names, wrong, strict=True):
        if np.isfinite(probability):
            run.diagnostics[f"misspecification {name}"] = float(probability)
    run.warn(Kind.SPIKE_AND_SLAB)


@eqx.filter_jit
def _slab_probabilities(latent: SpikeAndSlabLatent, t: Array) -> Array:
    """P(statistic is wrong | s_dp, t) for each draw."""
    return latent.slab_probability(jnp.asarray(t))
