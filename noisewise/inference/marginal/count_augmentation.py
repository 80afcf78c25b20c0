"""Markov chains on parameters and whole cells, for released sums that share cells."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array, describe, integer
from noisewise.errors import InvalidInputError, NoisewiseError
from noisewise.inference.contract.base import AbstractMethod
from noisewise.inference.contract.chains import Trace, finished_draws
from noisewise.inference.contract.effects import blocks_of
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.inference.marginal.count_chains import (
    CHUNK,
    DRAWING,
    STEPPING,
    TUNING,
    CountState,
    compiled_advanced,
    compiled_begun,
)
from noisewise.inference.marginal.count_starts import starts
from noisewise.inference.marginal.count_target import SMALL, CountTarget
from noisewise.laws.cells import CellLaw, cells_of
from noisewise.laws.routes import check_step
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, StopKind
from noisewise.samplers.hierarchies.centring import as_pytree_blocks
from noisewise.samplers.lattices.directions import Directions, directions_for
from noisewise.simulators import StatisticLaw

_POOL = 256
"""Prior draws per chain, from which its start is chosen."""
_FOR_SPREADS = 64
"""Prior draws that tell where cells lie."""
_SEGMENT = 250
"""Draws of each chain between looks at R-hat and effective sizes."""
_MOST_STATISTICS = 20_000_000
"""Confidential numbers that are kept with theta: 160 MB."""


@dataclasses.dataclass(frozen=True)
class CountAugmentationMCMC(AbstractMethod):
    r"""Draws from p(theta, cells | s_dp) where released numbers are overlapping sums of counts.

        p(theta, cells | s_dp)  ~  pi(theta) f(cells | theta) prod_q eta_q(s_dp_q | (A cells)_q)

    The model's simulator is a `StatisticLaw` with `sums=A`, fn a law of counts: independent ones,
    multinomial or Dirichlet-multinomial ones. Cells stay whole numbers that the law allows. They
    move in windows, each drawn in proportion to its exact conditional probability; sums that were
    published without noise (`Exact`), and a known total, stay what they are, as cells move in pairs
    (nested sums) or in 2 x 2 swaps (rows and columns of a table). Theta moves given the cells, and
    together with them where no sum is exact.

    Chains go on until each parameter has `target_ess` effective draws, the sums that move most
    slowly have 100, and R-hat of all these is at most 1.01 (1.02 with 50 effective draws per
    chain), or `max_draws` or the budget of minutes is spent.
    `posterior.confidential_statistics` are the sums A cells.

    Args:
        num_chains: Chains that run side by side.
        num_warmup: Sweeps that tune the chains, and are dropped.
        target_ess: Effective draws of every parameter at which the chains stop.
        max_draws: Draws of each chain, at most.
        moves: Directions of whole numbers in which cells move, an array (n, c), where exact sums
            are of another pattern: they change no exact sum, and all tables can be reached by them.
        max_simulations: Not used: nothing is simulated.
        max_minutes: Budget of minutes; None for no limit.

    >>> import numpyro.distributions as dist
    >>> import noisewise as nw
    >>> law = nw.simulators.StatisticLaw(
    ...     lambda theta: dist.Poisson(theta["rate"]), sums=[[1, 0], [0, 1], [1, 1]]
    ... )
    >>> noise = nw.mechanisms.DiscreteGaussian(scale=4.0)
    >>> total = nw.mechanisms.Exact()
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"rate": dist.LogNormal(3.0, 1.0).expand([2])}),
    ...     simulator=law,
    ...     mechanism=nw.mechanisms.Product([noise, total], widths=[2, 1]),
    ... )
    >>> posterior = nw.inference.CountAugmentationMCMC().infer(
    ...     0, model, [30.0, 80.0, 100.0], progress=False
    ... )
    >>> set(posterior.confidential_statistics[:, 2].tolist())
    {100.0}
    """

    slug: ClassVar[str] = "counts"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.DENSITY})
    instead: ClassVar[str] = "Use nw.infer, whose routes include mechanisms without a density."

    num_chains: int = 4
    num_warmup: int = 500
    target_ess: int = 1000
    max_draws: int = 10_000
    moves: Int[np.ndarray, "n c"] | None = None

    def __post_init__(self) -> None:
        AbstractMethod.__post_init__(self)
        self._convert(
            num_chains=integer("num_chains", at_least=2),
            num_warmup=integer("num_warmup", at_least=2 * CHUNK),
            target_ess=integer("target_ess", at_least=1),
            max_draws=integer("max_draws", at_least=_SEGMENT),
        )
        if self.moves is not None:
            object.__setattr__(self, "moves", _as_moves(self.moves))

    def _refusal(self, model: PrivateModel) -> str | None:
        if not isinstance(model.simulator, StatisticLaw):
            return (
                "CountAugmentationMCMC needs the law of the cells that released numbers add up:"
                " write nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta['rate']),"
                " sums=release.sums()). Where it can only be simulated, nw.infer serves."
            )
        mechanism, width = model.mechanism, model.private_width
        by_column = width == 1 or Capability.CDF in mechanism.capabilities
        if not by_column or mechanism.output_width(width) != width:
            return (
                "CountAugmentationMCMC needs noise that is independent from number to number, and"
                f" {type(mechanism).__name__} ties them to each other: nw.infer serves."
            )
        try:
            check_step(mechanism)
            _Table.of(model, np.zeros(width), self.moves)
        except NoisewiseError as error:
            return str(error)
        return None

    def _infer(self, key: Array, run: InferenceRun) -> AbstractPosterior:
        table = _Table.of(run.model, run.observed, self.moves)
        chains = _Chains(key, run, table, self)
        trace = Trace(self.target_ess)
        while True:
            trace.add(**chains.segment())
            complete = trace.complete()
            run.record(
                draws=trace.length * self.num_chains,
                effective_size=trace.effective_size,
                r_hat=trace.r_hat,
            )
            if complete or run.out_of_time():
                break
            if trace.length >= self.max_draws:
                run.end(StopKind.DRAWS_MADE, limit=self.max_draws)
                break
        run.diagnostics |= chains.acceptance | chains.of_sums(trace)
        without = None if chains.keeps else lambda theta: None
        return finished_draws(run, trace, settled=True, statistics=without)


_WATCHED, _AMONG = 5, 32
"""Sums that must have settled, and how many they are chosen from where draws of sums are not kept.
"""
_MOSTLY = 0.95
"""The share of equal draws from which a sum counts as known: of its mixing little depends."""


@dataclasses.dataclass(frozen=True)
class _Table:
    """What the released numbers add up: A, which of them are exact, and the moves of the cells."""

    sums: Int[np.ndarray, "k c"]
    noisy: np.ndarray
    fixed: Int[np.ndarray, "e c"]
    totals: Float[np.ndarray, " e"]
    still: np.ndarray
    directions: Directions

    @staticmethod
    def of(model: PrivateModel, observed: np.ndarray, moves: np.ndarray | None) -> _Table:
        assert isinstance(model.simulator, StatisticLaw)
        width = model.private_width
        given = model.simulator.sums
        sums = np.eye(width, dtype=np.int64) if given is None else given
        law, variances = _law_at(model, sums.shape[1])
        deviations = np.array(model.mechanism.noise_sd(width), dtype=float)
        exact, measured = deviations == 0.0, model.mechanism.measured(width)
        fixed, totals = sums[exact], observed[exact]
        if law.total is not None:
            fixed = np.concatenate([fixed, np.ones_like(sums[:1])])
            totals = np.append(totals, law.total)
        noisy = np.flatnonzero(~exact & measured)
        several = sums[noisy][(sums[noisy] > 0).sum(axis=1) > 1]
        ends = np.broadcast_to(np.asarray(law.bounds[1], float), variances.shape)
        bounded = law.total is None and bool(np.isfinite(ends).any())
        if moves is not None:
            _check_moves(moves, fixed, sums.shape[1])
        still = variances == 0.0
        directions = directions_for(fixed, several, still=still, bounded=bounded, moves=moves)
        return _Table(sums, noisy, fixed, totals, still, directions)

    @property
    def free(self) -> bool:
        """Whether no sum is exact."""
        return not len(self.fixed)


def _law_at(model: PrivateModel, num: int) -> tuple[CellLaw, np.ndarray]:
    """The law of the cells at a draw of the prior, and the largest of some variances of each."""
    theta = model.prior.sample(jax.random.key(0), 4)
    with jax.enable_x64(True):
        laws = [cells_of(model.simulator.law(jnp.asarray(row))) for row in theta]  # type: ignore[attr-defined]
        spreads = [np.broadcast_to(np.asarray(law.moments[1]), (num,)) for law in laws]
        return laws[0], np.max(spreads, axis=0)


class _Chains:
    """Chains that are moved segment by segment, each recorded in the journal."""

    def __init__(
        self, key: Array, run: InferenceRun, table: _Table, method: CountAugmentationMCMC
    ) -> None:
        start_key, self._key = jax.random.split(key)
        self._run, self._table, self._method = run, table, method
        self._prior, self._begun = run.model.prior, False
        noisy = table.noisy
        mechanism = run.model.mechanism.of_columns(noisy.tolist())
        width = len(run.observed)
        self.keeps = method.max_draws * method.num_chains * width <= _MOST_STATISTICS
        with jax.enable_x64(True):
            target = CountTarget.of(
                self._prior,
                run.model.simulator,  # type: ignore[arg-type]
                mechanism,
                run.observed[noisy],
                table.sums[noisy],
                table.directions,
                free=table.free,
            )
            pool, cells = self._starts(start_key, target)
            self._target = dataclasses.replace(target, few=_few(cells)).as_arrays()
            self._blocks = as_pytree_blocks(blocks_of(self._prior))
            self._state: CountState = compiled_begun(
                start_key, self._target, self._blocks, pool, jnp.asarray(cells)
            )
        self._acceptance: list[np.ndarray] = []
        some = np.linspace(0, len(noisy) - 1, min(len(noisy), _AMONG)).astype(int)
        self._rows = np.arange(width) if self.keeps else noisy[some]
        self._watched = np.zeros(0, int)

    def _starts(self, key: Array, target: CountTarget) -> tuple[Array, np.ndarray]:
        pool_key, cells_key = jax.random.split(key)
        num, table = self._method.num_chains, self._table
        pool = np.asarray(self._prior.unconstrain(self._prior.sample(pool_key, _POOL * num)))
        cells = starts(
            cells_key,
            target,
            table.sums[table.noisy],
            pool[:_FOR_SPREADS],
            table.fixed,
            table.totals,
            num,
            table.still,
        )
        return jnp.asarray(pool), cells

    @property
    def acceptance(self) -> dict[str, float]:
        """Of theta given cells, and of theta with its cells where these move together."""
        first, second = np.concatenate(self._acceptance).mean(axis=0).tolist()
        joint = {"acceptance with cells": second} if self._table.free else {}
        return {"acceptance given cells": first} | joint

    def of_sums(self, trace: Trace) -> dict[str, float]:
        """The effective size of the sum that moves most slowly, if one moves."""
        size = trace.watched_size
        return {"effective size of sums": size} if np.isfinite(size) else {}

    def segment(self) -> dict[str, np.ndarray]:
        """The next draws, as a segment of a `Trace`; before the first ones the warm-up."""
        self._state, found = self._run.advance("chains", self._state, self._moved)
        if not len(found["z"]):
            raise OutOfBudget
        if not self._begun:
            self._begun = True
            self._target = dataclasses.replace(self._target, few=jnp.asarray(found["few"]))
            self._check()
            self._watched = _slowest(found["s"], np.isin(self._rows, self._table.noisy))
        self._acceptance.append(found["acceptance"])
        draws = {"z": found["z"], "theta": self._prior.constrain(found["z"])}
        draws["watched"] = found["s"][:, :, self._watched]
        return draws | ({"s": found["s"]} if self.keeps else {})

    def _check(self) -> None:
        """Refuse a release that the model rules out wherever the chains have been."""
        table, state = self._table, self._state
        with jax.enable_x64(True):
            sums, z, cells = (jnp.asarray(part) for part in (state.sums, state.z, state.cells))
            possible = np.asarray(self._target.noise.possible(sums)).all(axis=0)
            allowed = np.isfinite(np.asarray(jax.vmap(self._target.given_cells)(z, cells)))
        if not possible.all():
            column = int(table.noisy[np.argmin(possible)])
            raise InvalidInputError(
                f"Number {column} of the release, {self._run.observed[column]:g}, is not possible"
                f" beside the others: chains found no whole cells with the sum {column} of `sums`"
                " from which its noise leads there. Look at the mechanism, at `sums` and at the"
                " order of the numbers; if they are right, give a larger num_warmup."
            )
        if not allowed.all():
            raise InvalidInputError(
                "The law of the cells rules out all cells that chains found with the exact sums:"
                " look at these, and at cells of which the law allows one number only, such as"
                " structural zeros."
            )

    def _moved(self) -> tuple[CountState, dict[str, np.ndarray]]:
        state, parts, target = self._state, [], self._target
        tuned = state.cells
        with jax.enable_x64(True):
            for phase in self._phases():
                if self._run.out_of_time():
                    break
                if phase == STEPPING:
                    target = dataclasses.replace(target, few=jnp.asarray(_few(tuned)))
                given = (self._key, target, self._blocks, state, jnp.asarray(phase))
                state, draws = compiled_advanced(*given)
                if phase == TUNING:
                    tuned = draws.cells
                if phase == DRAWING:
                    parts.append([np.asarray(part) for part in draws])
            state = jax.tree.map(np.asarray, state)
        shapes = (state.z.shape, state.cells.shape, (2,))
        empty = [np.zeros((0, *shape)) for shape in shapes]
        z, cells, acceptance = (
            np.concatenate([none, *some]) for none, *some in zip(empty, *parts, strict=True)
        )
        s = cells @ self._table.sums[self._rows].T.astype(float)
        return state, {"z": z, "s": s, "acceptance": acceptance, "few": np.asarray(target.few)}

    def _phases(self) -> list[int]:
        drawing = [DRAWING] * (_SEGMENT // CHUNK)
        if self._begun:
            return drawing
        num = self._method.num_warmup // CHUNK
        tuning = max(1, num * 3 // 5)
        return [TUNING] * tuning + [STEPPING] * (num - tuning) + drawing


def _slowest(s: Float[np.ndarray, "m n k"], noisy: np.ndarray) -> Int[np.ndarray, " w"]:
    """Which sums to watch: noisy ones that move, of the largest autocorrelation from draw to draw,
    which counts differences between chains.
    """
    moves = noisy & ((s == np.median(s, axis=(0, 1))).mean(axis=(0, 1)) < _MOSTLY)
    off = s - s.mean(axis=(0, 1))
    variances = np.where(moves, np.mean(off**2, axis=(0, 1)), np.inf)
    lagged = np.mean(off[1:] * off[:-1], axis=(0, 1)) / variances
    found: np.ndarray = np.argsort(np.where(moves, -lagged, np.inf))[:_WATCHED]
    return found[moves[found]]


def _few(cells: Array | np.ndarray) -> np.ndarray:
    """Which cells were small counts, everywhere."""
    found: np.ndarray = np.asarray(cells).reshape(-1, cells.shape[-1]).max(axis=0) < SMALL
    return found


def _as_moves(moves: Any) -> Int[np.ndarray, "n c"]:
    given = np.asarray(moves)
    if given.ndim != 2 or 0 in given.shape or (given != np.round(given)).any():
        raise InvalidInputError(
            "moves must be an array with a direction of whole numbers in each row, one number for"
            f" each cell, got {describe(moves)}."
        )
    found = given.astype(np.int64)
    found.setflags(write=False)
    return found


def _check_moves(moves: np.ndarray, fixed: np.ndarray, num: int) -> None:
    """Refuse directions that change an exact sum, or are too few."""
    if moves.shape[1] != num:
        raise InvalidInputError(f"moves has {moves.shape[1]} columns, but there are {num} cells.")
    changed = np.flatnonzero((moves @ fixed.T).any(axis=1))
    if changed.size:
        raise InvalidInputError(
            f"Row {changed[0]} of moves changes an exact sum: its numbers must add up to 0 within"
            " each of these."
        )
    needed = num - (np.linalg.matrix_rank(fixed) if len(fixed) else 0)
    if np.linalg.matrix_rank(moves) < needed:
        raise InvalidInputError(
            f"moves leads in {np.linalg.matrix_rank(moves)} independent directions, but tables with"
            f" these exact sums differ in {needed}: give more of them."
        )
