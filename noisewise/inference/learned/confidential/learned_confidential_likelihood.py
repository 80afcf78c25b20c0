"""The law of confidential statistics, learnt: evaluated, drawn from, and turned into posteriors
under any mechanism.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, as_key, describe
from noisewise._core.json_files import require_keys
from noisewise._core.keys import fold_in, split
from noisewise._core.weights import MANY_DRAWS
from noisewise.errors import InvalidTypeError, MissingCapabilityError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.fits import (
    EACH_BY_ITSELF,
    AbstractFit,
    StoredFit,
    in_blocks,
    paired_rows,
    rows_of,
    stored_counts,
)
from noisewise.inference.learned.common.populations import Populations
from noisewise.inference.learned.common.space_files import (
    read_statistic_space,
    statistic_space_arrays,
    statistic_space_spec,
)
from noisewise.inference.learned.common.statistic_space import StatisticSpace
from noisewise.inference.learned.confidential.confidential_chains import (
    JointTarget,
    joint_sampling,
    statistics_at,
)
from noisewise.inference.learned.confidential.emulation import WEIGHTS, drawn_by_weights
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.point_sets import ScrambledSobol
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Kind, Report

INSTEAD = "Use PrivateLikelihoodEstimation or PrivatePosteriorEstimation, which only need samples."
_SLUG = "cle"
_CELL_POINTS = 16
"""Points of a cell that a probability is averaged over: scrambled Sobol points, which are even."""
_MIN_TO_COMPARE = 400
"""Simulations from which an observation is compared with them: a p-value of 1 in 200 needs a few
hundred.
"""
PARTICLES = ("effective size", "R-hat", "acceptance", "divergent")
"""What the report says where particles were moved."""
_CHAINS = ("num_chains", "num_warmup", "target_ess")


class LearnedConfidentialLikelihood(AbstractFit):
    r"""q(s | theta), fitted to simulations without noise:
    `ConfidentialLikelihoodEstimation().fit(key, model)` makes one.

    It does not depend on a mechanism, and so serves all that have a density: use it to compare
    epsilons or mechanisms from one set of simulations. It is good where simulations were: over the
    whole prior after `fit`. On a lattice q is a probability, an average over 16 points of the cell;
    columns of s that are constant or linear combinations of others are computed, not learnt, and q
    is a density in the others. `save(path)` keeps it for `LearnedConfidentialLikelihood.load(path,
    model)`.

    Args:
        model: The model it was fitted to.
        density: q(t | z), t the free columns of s and z unconstrained parameters.
        space: The map of s to its free columns.
        s: Simulated statistics, shape (n, k): where q is good.
        chains: How posteriors are drawn: num_chains, num_warmup and target_ess.
        report: How it was learnt.
        estimator: The architecture, for files; None where it is a user's own.
    """

    formula: ClassVar[str] = "q(s | theta)"
    usage: ClassVar[tuple[str, ...]] = (
        "posterior(key, observed)",
        "posterior(key, observed, mechanism)",
    )
    for_many: ClassVar[str] = EACH_BY_ITSELF
    any_mechanism: ClassVar[bool] = True

    def __init__(
        self,
        model: PrivateModel,
        density: ConditionalDensity,
        space: StatisticSpace,
        *,
        s: Float[np.ndarray, "n k"],
        chains: dict[str, int],
        report: Report,
        estimator: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.density, self.space = model, density, space
        self.report, self.estimator = report, estimator
        self._s, self._settings = s, chains

    @functools.cached_property
    def bounds(self) -> Float[np.ndarray, "2 k"]:
        """The smallest and the largest simulated statistics."""
        return np.stack([self._s.min(axis=0), self._s.max(axis=0)])

    @property
    def target_ess(self) -> int:
        """Effective draws wanted of a posterior."""
        return self._settings["target_ess"]

    @property
    def num_kept(self) -> int:
        """Draws of a posterior that are kept, at most."""
        return 4 * self.target_ess

    @property
    def num_simulations(self) -> int:
        """The number of simulations it was learnt from."""
        return len(self._s)

    def log_prob(self, s: Any, theta: Any) -> Float[np.ndarray, " n"]:
        """log q(s | theta), row by row; -inf where s is impossible.

        Args:
            s: Confidential statistics, shape (n, k) or (k,).
            theta: Parameters, shape (n, d) or (d,).

        Returns:
            Log densities, or log probabilities on a lattice and of atoms, shape (n,). Those of the
            end of a lattice or of an end that is an atom leave out what q has beyond it, a few
            percent, which draws and posteriors count to the end.
        """
        space = self.space
        s, z = paired_rows(self.model, s, "s", self.model.statistic_width, theta)
        points = np.full((1, space.dim), 0.5)
        if space.spreads:
            points = ScrambledSobol().uniforms(jax.random.key(0), 1, _CELL_POINTS, space.dim)[0]
        values = in_blocks(lambda rows, at: _log_probs(self.density, space, points, rows, at), s, z)
        values = values + space.log_cell
        return np.where(space.contains(s) & ~np.isnan(values), values, -np.inf)

    def sample(self, key: Array, theta: Any) -> Float[np.ndarray, "n k"]:
        """One confidential statistic for each parameter.

        Args:
            key: JAX PRNG key.
            theta: Parameters, shape (n, d) or (d,).

        Returns:
            s, shape (n, k).
        """
        theta = rows_of(theta, "theta", self.model.prior.dim)
        t = self.density.sample(as_key(key), self.model.prior.unconstrain(theta))
        return in_blocks(lambda rows: _statistics(self.space, rows), t)

    def posterior(
        self, key: Array, observed: Any, mechanism: AbstractMechanism | None = None
    ) -> Draws:
        """The posterior given a private statistic, by weights where draws of s serve as
        simulations, else by particles (theta, s) that start from the prior: nothing is simulated or
        trained. Mechanisms of one kind share one compiled program.

        Args:
            key: JAX PRNG key.
            observed: One observation (kp,), or a release.
            mechanism: What made it; by default that of the release, or of the model.

        Returns:
            Draws of theta, with draws of s as their `statistics`; the report warns where they
            are worth too little.

        Raises:
            MissingCapabilityError: If the mechanism has no density.
        """
        model = self._released_by(observed, mechanism)
        key, look_key = split(as_key(key))
        run = InferenceRun(_SLUG, dict(self._settings), model, self._observation(observed, model))
        run.diagnostics["simulations learnt from"] = self.num_simulations
        run.add(*self.report.findings)
        if len(self._s) >= _MIN_TO_COMPARE:
            run.look_at_observation(look_key, self._s)
        return self.draws(key, run)

    def draws(self, key: Array, run: InferenceRun, *, last: bool = True) -> Draws:
        """The posterior for the model and the observation of `run`; it warns only about the `last`
        one.
        """
        start_key, end_key, statistic_key = split(key, 3)
        model = run.model
        for name in (*WEIGHTS, *PARTICLES):  # of the round before
            run.diagnostics.pop(name, None)
        weighted = drawn_by_weights(fold_in(start_key, 2), self, run)
        if weighted is not None:
            return weighted
        target = self._target(run)
        found = Populations(joint_sampling(target, self._settings))
        look_key, prior_key = split(fold_in(start_key, 1))
        if not found.possible(look_key):
            run.warn(Kind.STATISTICS_IMPOSSIBLE)
            return run.draws(
                model.prior.sample(prior_key, self._settings["target_ess"]), exact=False
            )
        found.start(start_key, run)
        found.finish(end_key, run)
        _report_populations(run, found, target, last)
        y = found.chosen()
        z = y[:, : model.prior.unconstrained_dim]
        return run.draws(
            model.prior.constrain(z), statistics_at(statistic_key, target, y), exact=False
        )

    def precompile(self, run: InferenceRun) -> None:
        """Compile what `draws` runs."""
        target = self._target(run)
        joint_sampling(target, self._settings).precompile(target.dim)
        statistics_at(jax.random.key(0), target, np.zeros((1, target.dim)))

    def _target(self, run: InferenceRun) -> JointTarget:
        """The density of theta and s for the observation of `run`."""
        model = run.model
        return JointTarget.at(
            model.prior, self.density, self.space, model.mechanism, run.observed, self.bounds
        )

    def _released_by(self, observed: Any, mechanism: AbstractMechanism | None) -> PrivateModel:
        """The model with the mechanism that made an observation."""
        from noisewise.disclosure import Release

        if mechanism is None:
            mechanism = (
                observed.mechanism if isinstance(observed, Release) else self.model.mechanism
            )
        if not isinstance(mechanism, AbstractMechanism):
            raise InvalidTypeError(
                "mechanism must be a mechanism, such as nw.mechanisms.Laplace(scale=0.1), got"
                f" {describe(mechanism)}."
            )
        if Capability.DENSITY not in mechanism.capabilities:
            raise MissingCapabilityError(
                "A posterior from a learnt q(s | theta) needs a mechanism with"
                f" {Capability.DENSITY}, which {type(mechanism).__name__} lacks. {INSTEAD}"
            )
        return (
            self.model
            if mechanism is self.model.mechanism
            else self.model.with_mechanism(mechanism)
        )

    def _own_arrays(self) -> dict[str, np.ndarray]:
        return {"s": self._s, **statistic_space_arrays(self.space)}

    def _own_content(self) -> dict[str, Any]:
        return {"space": statistic_space_spec(self.space), "chains": dict(self._settings)}

    @classmethod
    def _read(cls, stored: StoredFit) -> Self:
        own, model = require_keys(stored.own, ("space", "chains"), "its content"), stored.model
        space = read_statistic_space(own["space"], stored.arrays, model.statistic_width)
        stored.check_dims(space.dim, model.prior.unconstrained_dim)
        return cls(
            model,
            stored.density,
            space,
            s=stored.array("s", None, model.statistic_width),
            chains=stored_counts(own["chains"], _CHAINS),
            report=stored.report,
            estimator=stored.estimator,
        )


def _report_populations(
    run: InferenceRun, found: Populations, target: JointTarget, last: bool
) -> None:
    """Put R-hat, effective size, acceptance and divergences into the report, with a warning where
    the last draws are worth too little.
    """
    measured = found.effective_size, found.r_hat, found.acceptance, found.num_divergent
    run.diagnostics |= dict(zip(PARTICLES, measured, strict=True))
    if last and not found.settled:
        numbers = {"effective_size": found.effective_size, "enough": MANY_DRAWS}
        run.warn(Kind.JOINT_CHAINS_NOT_SETTLED, **numbers, r_hat=found.r_hat, lattice=target.coarse)


@eqx.filter_jit
def _log_probs(
    density: ConditionalDensity, space: StatisticSpace, u: Array, s: Array, z: Array
) -> Array:
    """log of the average of q over the points u of each cell."""
    s = s[:, None]
    each = density.log_density(space.targets(s, u), z[:, None]) + space.log_slopes(s, u)
    return jax.scipy.special.logsumexp(each, axis=1) - jnp.log(float(len(u)))


@filter_jit_fast_compile
def _statistics(space: StatisticSpace, t: Array) -> Array:
    return space.statistics(t)
