"""The law of confidential statistics, learnt: evaluated, drawn from, and turned into posteriors
under any mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, as_float64, as_key, describe, in_float64
from noisewise._core.files import require_keys
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.fits import (
    EACH_BY_ITSELF,
    AbstractFit,
    Arrays,
    check_dims,
    stored,
    stored_counts,
)
from noisewise.inference.learned.common.space_files import (
    read_statistic_space,
    statistic_space_arrays,
    statistic_space_spec,
)
from noisewise.inference.learned.common.statistic_space import StatisticSpace
from noisewise.inference.learned.confidential.confidential_chains import JointChains, JointTarget
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.point_sets import ScrambledSobol
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Kind, Report

INSTEAD = "Use PrivateLikelihoodEstimation or PrivatePosteriorEstimation, which only need samples."
_SLUG = "cle"
_ROWS = 256
_CELL = 16
_LOOK = 400
_ENOUGH = 400
_CHAINS = ("num_chains", "num_warmup", "target_ess")


class LearnedConfidentialLikelihood(AbstractFit):
    r"""q(s | theta), fitted to simulations without noise:
    `ConfidentialLikelihoodEstimation().fit(key, model)` makes one.

    It knows of no mechanism, and so serves all that have a density. It is good where simulations
    were: over the whole prior after `fit`. On a lattice q is a probability, an average over 16
    points of the cell; columns of s that are constant or linear combinations of others are
    computed, not learnt, and q is a density in the others. `save(path)` keeps it for
    `LearnedConfidentialLikelihood.load(path, model)`.
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
        s: np.ndarray,
        chains: dict[str, int],
        report: Report,
        estimator: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.density, self.space = model, density, space
        self.report, self.estimator = report, estimator
        self._s, self._settings = s, chains

    @property
    def num_simulations(self) -> int:
        """From how many simulations it was learnt."""
        return len(self._s)

    def log_prob(self, s: Any, theta: Any) -> np.ndarray:
        """log q(s | theta) (N,) for s (N, k) or (k,) and theta (N, d) or (d,); -inf where s is
        impossible.
        """
        s, theta = (
            _table(s, "s", self.model.statistic_width),
            _table(theta, "theta", self.model.prior.dim),
        )
        num = max(len(s), len(theta))
        z = np.broadcast_to(
            self.model.prior.unconstrain(theta), (num, self.model.prior.unconstrained_dim)
        )
        s = np.broadcast_to(s, (num, s.shape[1]))
        points = np.full((1, self.space.dim), 0.5)
        if self.space.lattices:
            points = ScrambledSobol().uniforms(jax.random.key(0), 1, _CELL, self.space.dim)[0]
        parts = []
        with jax.enable_x64(True):
            for first in range(0, num, _ROWS):
                rows = np.minimum(np.arange(first, first + _ROWS), num - 1)
                parts.append(
                    np.asarray(_log_probs(self.density, self.space, points, s[rows], z[rows]))
                )
        values = np.concatenate(parts)[:num] + self.space.log_cell
        return np.where(self.space.contains(s) & ~np.isnan(values), values, -np.inf)

    def sample(self, key: Array, theta: Any) -> np.ndarray:
        """One s for each row of theta (N, d): (N, k)."""
        theta = _table(theta, "theta", self.model.prior.dim)
        t = self.density.sample(as_key(key), self.model.prior.unconstrain(theta))
        with jax.enable_x64(True):
            return np.asarray(self.space.statistics(jnp.asarray(t)))

    def posterior(
        self, key: Array, observed: Any, mechanism: AbstractMechanism | None = None
    ) -> Draws:
        """The posterior given a private statistic that `mechanism` made: nothing is simulated or
        trained.

        The mechanism is by default the model's, or that of a `Release`. Those of one kind share one
        compiled program.
        """
        model = self._released_by(observed, mechanism)
        key, look_key = jax.random.split(as_key(key))
        run = InferenceRun(_SLUG, dict(self._settings), model, self._observation(observed, model))
        run.diagnostics["simulations learnt from"] = self.num_simulations
        run.add(*self.report.findings)
        if len(self._s) >= _LOOK:
            run.look_at_observation(look_key, self._s)
        return self.draws(key, run)

    def draws(self, key: Array, run: InferenceRun, *, last: bool = True) -> Draws:
        """The posterior for the model and the observation of `run`; only of the `last` one does it
        warn.
        """
        start_key, end_key = jax.random.split(key)
        model, chains = run.model, self._chains(run)
        if not chains.start(start_key, run):
            run.warn(Kind.STATISTICS_IMPOSSIBLE)
            return run.draws(
                model.prior.sample(start_key, self._settings["target_ess"]), exact=False
            )
        chains.finish(end_key, run)
        _tell(run, chains, last)
        z, s = chains.draws()
        return run.draws(model.prior.constrain(z), s, num_chains=chains.num_chains, exact=False)

    def precompile(self, run: InferenceRun) -> None:
        """Compile what `draws` runs."""
        self._chains(run).precompile()

    def _chains(self, run: InferenceRun) -> JointChains:
        model, bounds = run.model, np.stack([self._s.min(axis=0), self._s.max(axis=0)])
        target = JointTarget.at(
            model.prior, self.density, self.space, model.mechanism, run.observed, bounds
        )
        return JointChains(target, **self._settings)

    def _released_by(self, observed: Any, mechanism: Any) -> PrivateModel:
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
    def _read(
        cls,
        model: PrivateModel,
        density: ConditionalDensity,
        own: Any,
        arrays: Arrays,
        common: dict[str, Any],
    ) -> Self:
        require_keys(own, ("space", "chains"), "its content")
        space = read_statistic_space(own["space"], arrays, model.statistic_width)
        check_dims(density, space.dim, model.prior.unconstrained_dim)
        s, chains = (
            stored(arrays, "s", None, model.statistic_width),
            stored_counts(own["chains"], _CHAINS),
        )
        return cls(model, density, space, s=s, chains=chains, **common)


def _tell(run: InferenceRun, chains: JointChains, last: bool) -> None:
    """R-hat, effective size, acceptance and divergences, with a warning where the last chains fall
    short.
    """
    trace = chains.trace
    trace.look()
    size, r_hat = trace.effective_size, trace.r_hat
    run.diagnostics |= {
        "effective size": size,
        "R-hat": r_hat,
        "acceptance": chains.latest.acceptance,
        "divergent": chains.num_divergent,
    }
    if last and not (size >= _ENOUGH and trace.settled):
        numbers = {"effective_size": size, "r_hat": r_hat, "enough": _ENOUGH}
        run.warn(
            Kind.JOINT_CHAINS_NOT_SETTLED, **numbers, lattice=bool(chains.target.space.lattices)
        )


@in_float64
def _table(values: Any, name: str, width: int) -> np.ndarray:
    table = np.atleast_2d(np.asarray(as_float64(values, name)))
    if table.ndim != 2 or table.shape[1] != width:
        raise InvalidInputError(
            f"{name} must have shape (N, {width}) or ({width},), got {np.shape(values)}."
        )
    return table


@eqx.filter_jit
def _log_probs(
    density: ConditionalDensity, space: StatisticSpace, u: Array, s: Array, z: Array
) -> Array:
    each = density.log_density(space.targets(s[:, None], u), z[:, None])
    return jax.scipy.special.logsumexp(each, axis=1) - jnp.log(float(len(u)))
