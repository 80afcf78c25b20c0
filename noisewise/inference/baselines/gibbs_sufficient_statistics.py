"""Gibbs sampling of parameters and sufficient statistics."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from noisewise._core.arrays import Array, integer
from noisewise._core.weights import MANY_DRAWS
from noisewise.inference.baselines.conjugate import conjugate_prior_refusal
from noisewise.inference.baselines.statistic_moves import Kernel, StatisticTarget, sweeps
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.chains import MAX_R_HAT
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Draws, Kind
from noisewise.queries.base import AbstractMomentQuery
from noisewise.simulators import LinearRegression

_FIRST_SEGMENT = 64
"""Sweeps before their speed is known: they take milliseconds."""

_SEGMENT_SECONDS = 1.0
"""Seconds of sweeps between looks at the clock."""

_MAX_CLAMPED = 0.05
"""Share of clamped records above which the report warns: below, the bias on the paper's regression
is small compared with the posterior sd.
"""

_MAX_CLIPPED = 0.01
"""Share of sweeps with a clipped X'X above which the report warns: rarer ones change no summary."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GibbsSufficientStatistics(AbstractMethod):
    r"""Gibbs-SS (Bernstein and Sheldon 2019) for `LinearRegression` with `RegressionMoments`,
    Laplace or Gaussian noise.

    The confidential statistic is treated as normal, with the mean and covariance of the mean of n
    unclamped contributions, and Laplace noise as a scale mixture of normals, w_k ~ Exponential
    with mean 2 b^2. One sweep draws

        s | theta, w:    N(mu + V G^-1 (s_dp - mu), V - V G^-1 V)
        beta | s:        N(P^-1 X'y/sigma^2, P^-1)
        1/w_k | s:       inverse Gaussian, mean 1/(b |s_dp,k - s_k|), shape 1/b^2

    with mu = E[t | theta], V = Cov[t | theta]/n, G = V + diag(w) and P = X'X/sigma^2 + I/tau^2,
    where the sums X'X and X'y are computed back from s. Gaussian noise has w_k = scale^2
    throughout.

    No record is simulated, so a sweep costs the same whatever n. The price is that the answer is
    not exact: clamping is ignored (the report warns when it matters), s is not quite normal, and
    beta | s comes from the model of the records, not from that normal law, so that the first two
    conditionals do not belong to one joint law. On the paper's regression all three are small.

    Each of `num_chains` chains starts at a draw from the prior, leaves out `num_warmup` sweeps,
    and then keeps `num_draws` states of (theta, s), `thin` sweeps apart. Neighbouring sweeps are
    strongly correlated where the noise is large.

    Args:
        num_chains: Chains that run side by side.
        num_draws: States kept of each chain.
        num_warmup: Sweeps dropped at the start of each chain.
        thin: Sweeps from one state kept to the next.
        max_simulations: Budget of simulations; None for no limit.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.linear_regression(epsilon=10.0)
    >>> method = nw.inference.GibbsSufficientStatistics(num_draws=100, thin=20)
    >>> posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> posterior.theta.shape, posterior.statistics.shape, posterior.report.exact
    ((1600, 3), (1600, 9), False)
    """

    slug: ClassVar[str] = "gibbs-ss"

    num_chains: int = 16
    num_draws: int = 1000
    num_warmup: int = 2000
    thin: int = 40

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        for name in ("num_chains", "num_draws", "num_warmup", "thin"):
            lowest = 0 if name == "num_warmup" else 1
            object.__setattr__(self, name, integer(name, at_least=lowest)(getattr(self, name)))

    def _refusal(self, model: PrivateModel) -> str | None:
        simulator, query, mechanism = model.simulator, model.query, model.mechanism
        if not isinstance(simulator, LinearRegression) or not isinstance(
            query, AbstractMomentQuery
        ):
            return (
                "GibbsSufficientStatistics needs LinearRegression with RegressionMoments, whose"
                f" moments have a closed form, not {type(simulator).__name__} with"
                f" {type(query).__name__}. Use DataAugmentationMCMC for other models of records,"
                " ImportanceSampling for any simulator."
            )
        if simulator.num_predictors != query.num_predictors or query.grid is not None:
            return (
                "GibbsSufficientStatistics needs RegressionMoments of the"
                f" {simulator.num_predictors} predictors of its simulator, without grid. Use"
                " DataAugmentationMCMC, which takes any additive query."
            )
        if mechanism.normal_mixture is None:
            return (
                "GibbsSufficientStatistics needs Laplace or Gaussian noise, which are mixtures of"
                f" normals, not {type(mechanism).__name__}. Use DataAugmentationMCMC, which takes"
                " any mechanism with a density."
            )
        return conjugate_prior_refusal(model, type(self).__name__)

    def _infer(self, key: Array, run: InferenceRun) -> Draws:
        look_key, run_key = jax.random.split(key)
        with contextlib.suppress(OutOfBudget):
            run.look_at_observation(look_key)
        theta, s = self._run(run_key, run)
        _look_at_clamping(run, theta)
        _look_at_chains(run, run.draws(theta, s, num_chains=self.num_chains, exact=False))
        return run.draws(theta, s, num_chains=self.num_chains, exact=False)

    def _run(self, key: Array, run: InferenceRun) -> tuple[np.ndarray, np.ndarray]:
        """The states kept, theta (C N, d) and s (C N, k), chain by chain."""
        start_key, sweep_key = jax.random.split(key)
        # `_refusal` has seen to their kinds
        simulator: Any = run.model.simulator
        query: Any = run.model.query
        mechanism: Any = run.model.mechanism
        kernel = Kernel(simulator, query, mechanism.normal_mixture == "exponential")
        last = 0
        with jax.enable_x64(True):
            target = StatisticTarget(
                jnp.asarray(run.observed), jnp.asarray(mechanism.scale, dtype=float)
            )
            state = kernel.start(
                target, jnp.asarray(run.model.prior.sample(start_key, self.num_chains))
            )
            kept = tuple(
                jnp.zeros((self.num_draws, *part.shape)) for part in (state.theta, state.s)
            )
            carry = (state, kept, jnp.zeros(2, int))
            for first, last in _segments(run, self.num_warmup + self.num_draws * self.thin):
                ends = (first, last, self.num_warmup, self.thin)
                carry = _made(
                    run, carry, functools.partial(sweeps, kernel, sweep_key, target, carry, *ends)
                )
        _look_at_sweeps(run, *(np.asarray(carry[2]) / (last * self.num_chains)))
        if last < self.num_warmup + self.thin:
            run.warn(Kind.WARM_UP_STATES)
        rows = max(1, (last - self.num_warmup) // self.thin)
        theta, s = (
            np.asarray(part)[:rows].swapaxes(0, 1).reshape(-1, part.shape[2]) for part in carry[1]
        )
        return theta, s


def _made(run: InferenceRun, carry: Any, sweep: Callable[[], Any]) -> Any:
    """The carry after some sweeps, which are recorded in the journal and not made again."""
    carry, _ = run.advance("sweeps", carry, lambda: (jax.block_until_ready(sweep()), {}))
    return jax.tree.map(jnp.asarray, carry)


def _segments(run: InferenceRun, total: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of sweeps, about a second's work each, until all are done or the time
    is up.
    """
    first, size = 0, _FIRST_SEGMENT
    while first < total:
        try:
            if first > 0:
                run.check_time()
        except OutOfBudget:
            return
        end = np.asarray(min(total, first + size))
        last = int(run.remember("segment", functools.partial(dict, last=end))["last"])
        started = time.monotonic()
        yield first, last
        speed = (last - first) / max(time.monotonic() - started, 1e-9)
        size = int(np.clip(speed * _SEGMENT_SECONDS, _FIRST_SEGMENT, 8 * size))
        for tenth in range(10 * first // total, 10 * last // total):
            run.record(sweeps=(tenth + 1) * total // 10)
        first = last


# What the report says -----------------------------------------------------------------------------


def _look_at_sweeps(run: InferenceRun, clipped: float, stuck: float) -> None:
    run.diagnostics["X'X clipped"] = float(clipped)
    if clipped > _MAX_CLIPPED:
        run.warn(Kind.MATRIX_CLIPPED, share=clipped)
    if stuck > 0.0:
        run.warn(Kind.CHAINS_HELD_BACK, share=stuck)


def _look_at_clamping(run: InferenceRun, theta: np.ndarray) -> None:
    """Warn if normal records would often be clamped: the chance per column, added up and averaged
    over the draws.
    """
    domain: Any = run.model.query.domain
    with jax.enable_x64(True):
        mean, covariance = map(np.asarray, _record_moments(run.model.simulator, theta))
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    outside = ndtr((np.asarray(domain.low) - mean) / sd) + ndtr(
        (mean - np.asarray(domain.high)) / sd
    )
    share = float(np.minimum(outside.sum(1), 1.0).mean())
    run.diagnostics["records clamped"] = share
    if share > _MAX_CLAMPED:
        run.warn(Kind.RECORDS_CLAMPED, share=share)


@functools.partial(jax.jit, static_argnums=0)
def _record_moments(simulator: Any, theta: Array) -> tuple[Array, Array]:
    return jax.vmap(simulator.record_moments)(theta)


def _look_at_chains(run: InferenceRun, posterior: Draws) -> None:
    """R-hat and effective size at the worst parameter, if there are enough draws, and a warning."""
    r_hat, size = np.nan, np.nan
    if len(posterior.theta) >= 4 * posterior.num_chains:
        table = posterior.diagnostics()
        r_hat, size = float(table["r_hat"].max()), float(table["ess_bulk"].min())
    found = {"R-hat": r_hat, "effective size": size}
    run.diagnostics |= {name: value for name, value in found.items() if np.isfinite(value)}
    if not (r_hat <= MAX_R_HAT and size >= MANY_DRAWS):
        run.warn(Kind.CHAINS_NOT_MIXED, r_hat=r_hat, effective_size=size)
