"""No-U-turn chains on the exact law of what was released."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, integer
from noisewise._core.keys import generator
from noisewise.errors import MissingCapabilityError
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.chains import Trace, finished_draws
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.marginal.chains import SEGMENT, Chains
from noisewise.inference.marginal.distinct_rows import distinct_rows
from noisewise.laws.counts import Plan, plan_for
from noisewise.laws.known_totals.near_draws import draw_counts, is_narrow
from noisewise.laws.known_totals.near_totals import NearTotal, log_shares_of, near_total
from noisewise.laws.privatized import Privatized
from noisewise.laws.routes import AbstractRoute, route_of, table_falls_short, table_of
from noisewise.laws.tables import Table
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Kind, Stop, StopKind
from noisewise.priors.prior import Prior
from noisewise.samplers.densities import as_pytree
from noisewise.simulators import StatisticLaw

_STARTS_PER_CHAIN = 256
"""Prior draws from which each chain's start is taken: chains start apart, but none where the data
are impossible.
"""
_MOST_CELLS = 2_000_000
"""Cells times prior draws that are looked at for starts: some seconds."""
_MAX_DIVERGENT = 0.001
"""Share of divergent trajectories that is reported: single ones are usual in warm posteriors."""
_MOST_DIVERGENT = 0.02
"""Share of divergent trajectories above which draws are not called exact."""
_FEW_NAMES = 3
"""Names that a warning lists."""
_MOST_STATISTICS = 20_000_000
"""Confidential numbers that are drawn with theta: 160 MB."""
_LOOKED_AT = 128
"""Draws at which it is looked whether tables reach far enough."""
_NOTHING_BEYOND = -20.0
"""Log of a share of a cell that tables may leave out: 2e-9."""
_ROWS = 16
"""Draws of theta whose statistics are drawn, or whose likelihoods tables give, at once."""
_WARMUP, _WARMUP_WITH_EFFECTS = 250, 500
"""Iterations of the warm-up: the metric of some dozen parameters is known after 200 draws of four
chains, shares of effects are found before that.
"""
_START_NATS = 10.0
"""Spread of the log likelihoods of starts, in nats: the likelihood is raised to the power that
gives the better half of all draws this spread, so that starts are not all the best draw.
"""


@dataclasses.dataclass(frozen=True)
class MarginalNUTS(AbstractMethod):
    r"""Draws from p(theta | s_dp) where the law of s given theta is known: no simulations.

        p(theta | s_dp)  ~  pi(theta) sum_s f(s | theta) eta(s_dp | s)

    The sum is `Privatized`'s, exact to float64, and its derivatives drive no-U-turn chains. Effects
    around a mean with a spread (`nw.Prior` with functions) are centred each by its own share. The
    model's simulator is a `StatisticLaw`; its mechanism one that `Privatized` knows.

    Chains start at prior draws that the data do not rule out. They go on until each parameter has
    `target_ess` effective draws and R-hat is at most 1.01 (1.02 with 50 effective draws per chain),
    or `max_draws` or the budget of minutes is spent. Confidential statistics are drawn with theta.

    Args:
        num_chains: Chains that run side by side.
        num_warmup: Iterations that tune the chains, and are dropped; None for 500 where the prior
            has effects, whose shares are learnt too, else 250.
        target_ess: Effective draws of every parameter at which the chains stop.
        max_draws: Draws of each chain, at most.
        max_simulations: Not used: nothing is simulated.
        max_minutes: Budget of minutes; None for no limit.

    >>> import jax, numpyro.distributions as dist
    >>> import noisewise as nw
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"rate": dist.LogNormal(3.0, 1.0).expand([2])}),
    ...     simulator=nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta["rate"])),
    ...     mechanism=nw.mechanisms.DiscreteLaplace(scale=2.0),
    ... )
    >>> posterior = nw.inference.MarginalNUTS().infer(0, model, [12.0, 40.0], progress=False)
    >>> means = posterior.summary()["mean"]
    >>> posterior.report.exact, bool((abs(means - [12.3, 39.2]) < 1.0).all())
    (True, True)
    """

    slug: ClassVar[str] = "nuts"
    serves_unknown_parameters: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.DENSITY})
    instead: ClassVar[str] = "Use nw.infer, whose routes include mechanisms without a density."

    num_chains: int = 4
    num_warmup: int | None = None
    target_ess: int = 1000
    max_draws: int = 10_000

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        self._convert(
            num_chains=integer("num_chains", at_least=2),
            num_warmup=integer("num_warmup", at_least=60, optional=True),
            target_ess=integer("target_ess", at_least=1),
            max_draws=integer("max_draws", at_least=SEGMENT),
        )

    def _refusal(self, model: PrivateModel) -> str | None:
        simulator = model.simulator
        if not isinstance(simulator, StatisticLaw):
            return (
                "MarginalNUTS needs the law of the confidential statistic: write"
                " nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta['rate'])), or the law"
                " at hand. Where it can only be simulated, nw.infer serves."
            )
        if simulator.sums is not None:
            return (
                "MarginalNUTS sums each number out by itself, and here they are sums of the same"
                " cells: use nw.inference.CountAugmentationMCMC, or nw.infer."
            )
        try:
            with jax.enable_x64(True):
                dim = jax.ShapeDtypeStruct((model.prior.dim,), jnp.float64)
                jax.eval_shape(functools.partial(_released_law, model), dim)
        except MissingCapabilityError as error:
            return str(error)
        return None

    def _infer(self, key: Array, run: InferenceRun) -> AbstractPosterior:
        start_key, chain_key, statistic_key = jax.random.split(key, 3)
        density = MarginalDensity.of_distinct_rows(run.model, run.observed).by_tables_alone(True)
        starts, holds = _starts(start_key, density, self.num_chains)
        if holds:
            chains, trace = self._moved(run, chain_key, density, starts)
            holds = density.holds(trace.pooled("theta"))
        if not holds:
            density = dataclasses.replace(density, near=None).by_tables_alone(False)
            starts, _ = _starts(start_key, density, self.num_chains)
            run.stop = Stop()  # that of the chains before is none
            chains, trace = self._moved(run, chain_key, density, starts)
        if density.counts is not None:
            density = MarginalDensity.of(run.model, run.observed).by_tables_alone(holds)
        self._warn_of_totals(run)
        total = trace.length * self.num_chains
        run.diagnostics |= {
            "divergent": chains.divergent,
            "gradients per draw": chains.gradients / total,
        }
        if chains.divergent > _MAX_DIVERGENT * total:
            run.warn(Kind.CHAINS_DIVERGED, divergent=chains.divergent, draws=total)
        statistics = functools.partial(density.statistics, statistic_key)
        sound = chains.divergent <= _MOST_DIVERGENT * total
        return finished_draws(run, trace, settled=True, sound=sound, statistics=statistics)

    def _moved(
        self, run: InferenceRun, chain_key: Array, density: MarginalDensity, starts: np.ndarray
    ) -> tuple[Chains, Trace]:
        """Chains until they are done, or a budget is."""
        chains = Chains(run, chain_key, density, density.prior, starts)
        trace = Trace(self.target_ess)
        usual = _WARMUP_WITH_EFFECTS if chains.has_effects else _WARMUP
        num_warmup = self.num_warmup or usual
        segment = chains.tuned(num_warmup)
        while True:
            trace.add(**segment)
            complete = trace.complete()
            run.record(
                draws=trace.length * self.num_chains,
                effective_size=trace.effective_size,
                r_hat=trace.r_hat,
            )
            if complete or run.out_of_time():
                return chains, trace
            if trace.length >= self.max_draws:
                run.end(StopKind.DRAWS_MADE, limit=self.max_draws)
                return chains, trace
            segment = chains.segment(num_warmup)

    @staticmethod
    def _warn_of_totals(run: InferenceRun) -> None:
        """Say that numbers without noise beside noisy ones are taken as independent of these."""
        mechanism = run.model.mechanism
        deviations = np.array(mechanism.noise_sd(run.model.statistic_width), dtype=float)
        exact = (deviations == 0.0) & (mechanism.input_bounds[1] > 1.0)  # an answer is no total
        if exact.any() and not exact.all():
            names = [run.model.private_names[j] for j in np.flatnonzero(exact)[:_FEW_NAMES]]
            more = ["..."] if exact.sum() > len(names) else []
            run.warn(Kind.EXACT_NUMBERS_INDEPENDENT, names=", ".join([*names, *more]))


class MarginalDensity(eqx.Module):
    """log pi(theta) + log |d theta / dz| + log p(s_dp | theta) of unconstrained coordinates z.

    Attributes:
        mechanism: The mechanism; its numbers are arguments of compiled programs.
        observed: What was released, shape (k,).
        prior: The prior.
        simulator: The law of s given theta.
        plan: What is known of sizes.
        unknown: The columns of theta that the mechanism reads.
        table: What is known of sums over counts before the law's parameters are.
        near: Tables for counts with a known total near their released numbers; None for others.
        counts: How many rows are like each; None where each is one.
    """

    mechanism: AbstractMechanism
    observed: Array
    table: Table | None
    prior: Prior = eqx.field(static=True)
    simulator: StatisticLaw = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)
    unknown: tuple[int, ...] = eqx.field(static=True, default=())
    near: NearTotal | None = None
    counts: Array | None = None

    @staticmethod
    def of(model: PrivateModel, observed: Float[np.ndarray, " k"]) -> MarginalDensity:
        """The density of a model whose simulator is a `StatisticLaw`."""
        assert isinstance(model.simulator, StatisticLaw)
        plan = plan_for(model.mechanism, observed)
        unknown = tuple(model.unknown_columns.tolist())
        law = None if unknown else _kind_of_law(model.simulator, model.prior.dim)
        table = None if unknown else table_of(law, model.mechanism, observed)
        near = None if unknown else near_total(law, model.mechanism, observed)
        return MarginalDensity(
            model.mechanism, observed, table, model.prior, model.simulator, plan, unknown, near
        )

    @staticmethod
    def of_distinct_rows(model: PrivateModel, observed: Float[np.ndarray, " k"]) -> MarginalDensity:
        """The same density, with rows that are alike computed once and others left out, where the
        model tells them. It has no `statistics`.
        """
        some = distinct_rows(model, observed)
        if some is None:
            return MarginalDensity.of(model, observed)
        law = _kind_of_law(some.simulator, model.prior.dim)
        return MarginalDensity(
            some.mechanism,
            some.observed,
            table_of(law, some.mechanism, some.observed),
            model.prior,
            some.simulator,
            plan_for(some.mechanism, some.observed),
            counts=some.counts,
        )

    def __call__(self, z: Array) -> Array:
        theta = self.prior.constrain(z)
        return self.prior.log_prob_unconstrained(z) + self.log_likelihood(theta)

    def log_likelihood(self, theta: Array) -> Array:
        """log p(s_dp | theta), a scalar."""
        if self.near is not None:
            return self.near.log_prob(log_shares_of(self.simulator.law(theta)))
        route = self._route(theta)
        each = route.log_prob(self._values(route))
        return jnp.sum(each if self.counts is None else each * self.counts)

    def holds(self, theta: Float[np.ndarray, "*n d"]) -> bool:
        """Whether tables, if there are any, reach far enough at some of these parameters."""
        if self.near is None and (self.table is None or not self.plan.by_table_alone):
            return True
        rows = theta.reshape(-1, theta.shape[-1])
        rows = rows[np.linspace(0, len(rows) - 1, _LOOKED_AT).astype(int)]
        with jax.enable_x64(True):
            beyond = np.asarray(_beyond(self._as_arrays(), jnp.asarray(rows)))
        return bool((beyond < _NOTHING_BEYOND).all())

    def beyond(self, theta: Array) -> Array:
        """The log of what tables leave out, a scalar."""
        law = self.simulator.law(theta)
        if self.near is not None:
            return self.near.beyond(log_shares_of(law))
        assert self.table is not None
        return jnp.where(table_falls_short(law, self.table), 0.0, -jnp.inf)

    def by_tables_alone(self, alone: bool) -> MarginalDensity:
        """The same where sums that do not end within their table are cut, or taken in full."""
        plan = dataclasses.replace(self.plan, by_table_alone=alone and self.table is not None)
        return dataclasses.replace(self, plan=plan)

    def statistics(self, key: Array, theta: Float[np.ndarray, "n d"]) -> np.ndarray | None:
        """Draws of s given each theta and what was released, (n, k); None where they are too many
        to keep.
        """
        if len(theta) * len(self.observed) > _MOST_STATISTICS:
            return None
        with jax.enable_x64(True):
            rows = jnp.asarray(theta)
            if self.near is not None and is_narrow(self.near):
                log_shares = np.asarray(_log_shares(self._as_arrays(), rows))
                return draw_counts(key, self.near, self.mechanism, self.observed, log_shares)
            keys = jax.random.split(key, len(rows))
            return np.asarray(_statistics(self._as_arrays(), keys, rows))

    def one_statistic(self, key: Array, theta: Array) -> Array:
        """A draw of s given theta and what was released, shape (k,), as the mechanism takes it."""
        route = self._route(theta)
        s = route.confidential(key, self._values(route)).reshape(-1)
        return jnp.concatenate([s, self._read(theta)]) if self.unknown else s

    def _route(self, theta: Array) -> AbstractRoute:
        mechanism = self.mechanism.at(self._read(theta))
        return route_of(self.simulator.law(theta), mechanism, self.plan, self.table)

    def _read(self, theta: Array) -> Array:
        """The values of the mechanism's unknown parameters."""
        return theta[np.array(self.unknown, dtype=int)]

    def _values(self, route: AbstractRoute) -> Array:
        batch, event = route.shapes()
        return jnp.asarray(self.observed).reshape((*batch, *event))

    def _as_arrays(self) -> MarginalDensity:
        return as_pytree(self)


def _kind_of_law(simulator: StatisticLaw, dim: int) -> Any:
    """A law of the simulator, whose parameters are not to be read."""
    found: list[Any] = []

    def traced(theta: Array) -> Array:
        found.append(simulator.law(theta))
        return theta

    with jax.enable_x64(True):
        jax.eval_shape(traced, jax.ShapeDtypeStruct((dim,), jnp.float64))
    return found[0]


def _released_law(model: PrivateModel, theta: Array) -> Array:
    """Refuse a law and a mechanism without a route."""
    Privatized(model.simulator.law(theta), model.mechanism_at(theta))  # type: ignore[attr-defined]
    return theta


@filter_jit_fast_compile
def _statistics(density: MarginalDensity, keys: Array, theta: Array) -> Array:
    return jax.lax.map(lambda row: density.one_statistic(*row), (keys, theta), batch_size=_ROWS)


@filter_jit_fast_compile
def _log_shares(density: MarginalDensity, theta: Array) -> Array:
    return jax.vmap(lambda row: log_shares_of(density.simulator.law(row)))(theta)


@filter_jit_fast_compile
def _beyond(density: MarginalDensity, theta: Array) -> Array:
    return jax.vmap(density.beyond)(theta)


@filter_jit_fast_compile
def _log_likelihoods(density: MarginalDensity, theta: Array) -> Array:
    batch_size = None if density.near is None else _ROWS  # one product with tables for all of them
    return jax.lax.map(density.log_likelihood, theta, batch_size=batch_size)


def _starts(
    key: Array, density: MarginalDensity, num_chains: int
) -> tuple[Float[np.ndarray, "c p"], bool]:
    """Distinct draws of the prior, those that the data do not rule out before others; and whether
    there are as many of these as chains.
    """
    prior_key, choice_key = jax.random.split(key)
    most = _STARTS_PER_CHAIN * num_chains
    num = int(np.clip(_MOST_CELLS // len(density.observed), 4 * num_chains, most))
    theta = density.prior.sample(prior_key, num)
    with jax.enable_x64(True):
        values = np.asarray(_log_likelihoods(density._as_arrays(), jnp.asarray(theta)))
    values = np.where(np.isfinite(values), values, -np.inf)
    finite = values[np.isfinite(values)]
    if finite.size:
        power = min(1.0, _START_NATS / max(np.ptp(finite[finite >= np.median(finite)]), 1e-9))
        values = power * values
    order = np.argsort(-(values + generator(choice_key).gumbel(size=num)))
    starts = np.asarray(density.prior.unconstrain(theta[order[:num_chains]]))
    return starts, finite.size >= num_chains
