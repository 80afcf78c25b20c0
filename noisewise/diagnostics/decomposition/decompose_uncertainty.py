"""Would more records help, wider bounds, or a larger privacy budget?"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

import jax
import numpy as np

from noisewise._core.arrays import Array, as_key, describe, integer
from noisewise.diagnostics.decomposition.decomposition import THREE, TWO, Decomposition
from noisewise.diagnostics.decomposition.regression import predicted
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.data_augmentation_mcmc import Chains, DataAugmentationMCMC
from noisewise.inference.exact.exact_smc import ExactSMC
from noisewise.inference.exact.record_moves import serves
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Kind, Report

_CHAINS = 100
"""Chains over the records: many short ones run as fast as one on vectorised hardware."""
_WARMUP = 250
"""Sweeps before the first database is taken; `settled` says afterwards whether they were enough."""
_SWEEPS = 10
"""Sweeps in a segment of the chains, after which a database may be taken: short, so that databases
lie no further apart than their dependence asks for."""
_INNER = 64
"""Draws of theta for each database: two means of 24 with a gap between them."""
_GAP = 16
"""Draws between the two means of a database, so that these are independent."""
_BLOCKS = 20
"""Blocks of the jackknife: its standard error is then itself known to 16%."""
_THINNING = (1, 4, 16, 64)
"""Steps between draws of theta that are tried in turn until they are independent."""
_INDEPENDENT = 0.05
"""Autocorrelation treated as zero: it biases the sampling part down by at most 5%."""
_FEWEST = 400
"""Databases, or effective draws: with fewer, the shares are not known to 5%."""


def decompose_uncertainty(
    key: Array,
    model: PrivateModel,
    observed: Any,
    *,
    posterior: AbstractPosterior | None = None,
    num_draws: int = 4000,
    executor: Executor | None = None,
    progress: bool = True,
) -> Decomposition:
    r"""The posterior variance in three parts, by the law of total variance given s_dp:

        Var(theta | s_dp)  =  E[Var(theta | x)]  +  E[Var(E[theta | x] | s)]  +  Var(E[theta | s])
                              sampling              clamping and summary          privacy

    `sampling` remains even with the records in hand: only more records reduce it. `clamping` is
    what the statistic loses of the records: wider bounds or another query help. `privacy` is what
    the noise hides: a larger budget helps. All are taken over x, s | s_dp.

    For a model of records (`AbstractRecordModel` with a query that is a sum), x comes from chains
    of `DataAugmentationMCMC`. Beside each database theta | x is drawn 64 times, thinned where these
    draws depend on each other, as those of models without `sample_parameters` do. The means A and B
    of the first and last 24 are independent given x, so that E[Var(theta | x)] = Var(theta) -
    Cov(A, B), and E[Var(E[theta | x] | s)] = E[(A - g)(B - g)] with g(s) = E[theta | s]. Other
    models have two parts, E[Var(theta | s)] and Var(E[theta | s]), from the draws of theta and s of
    `ExactSMC`, or of an exact `posterior` that has `statistics`, which costs no simulation. g is a
    polynomial in s (squares, products, cubes), evaluated at draws that it was not fitted to: what
    such a polynomial misses counts as clamping, never as privacy. Parts are never negative and sum
    to the total. The error of an approximate posterior is another matter: see `certify`.

    Standard errors of the shares come from a jackknife over 20
    blocks.

    Args:
        key: JAX PRNG key.
        model: The model of the release.
        observed: The observation, shape (k',), or the `Release`.
        posterior: An exact posterior with `statistics`, whose draws are then used; no simulation.
        num_draws: Databases that are drawn, 400 or more.
        executor: Where Python simulators run; None is this process.
        progress: Whether to show a progress bar.

    Returns:
        A `Decomposition`, with one row for each parameter and derived quantity.

    Raises:
        InvalidInputError: If `posterior` is approximate, lacks `statistics`, or is worth fewer than
            400 draws.

    >>> import noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=0.3)
    >>> parts = decompose_uncertainty(
    ...     jax.random.key(0), problem.model, problem.observed, num_draws=400, progress=False
    ... )
    >>> parts.shares.round(1).to_dict("index")
    {'mean': {'sampling': 0.2, 'clamping': 0.0, 'privacy': 0.8}}
    """
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            "decompose_uncertainty(key, model, observed) needs a PrivateModel second, got"
            f" {describe(model)}."
        )
    num_draws, key = integer("num_draws", at_least=_FEWEST)(num_draws), as_key(key)
    if posterior is not None:
        return _of_posterior(_checked(posterior), model)
    if serves(model):
        return _of_records(key, model, observed, num_draws, progress)
    method = ExactSMC(num_particles=num_draws)
    return _of_posterior(
        method.infer(key, model, observed, executor=executor, progress=progress), model
    )


def _of_records(
    key: Array, model: PrivateModel, observed: Any, num_draws: int, progress: bool
) -> Decomposition:
    """Three parts, from chains over the records and draws of theta given each database."""
    run_key, inner_key = jax.random.split(key)
    method = DataAugmentationMCMC(num_chains=_CHAINS, num_warmup=_WARMUP, target_ess=num_draws)
    run = method.start(model, model.observation(observed), progress=progress)
    inner, s = [], []
    with run.progress():
        sampled = method.run_chains(run_key, run, most_sweeps=_SWEEPS)
        sweeps = sampled.trace.length * _CHAINS / max(sampled.trace.effective_size, 1.0)
        for j in range(-(-num_draws // _CHAINS)):
            for _ in range(max(1, round(sweeps / sampled.chains.length))):
                last = sampled.chains.segment(run)["s"][-1]
            s.append(last)
            inner.append(_given_records(jax.random.fold_in(inner_key, j), sampled.chains, run))
            run.record(databases=len(s) * _CHAINS)
    if not sampled.trace.settled:
        run.warn(Kind.PARTS_NOT_SETTLED, r_hat=sampled.trace.r_hat)
    columns = _columns(model, np.concatenate(inner, axis=1))
    half = (_INNER - _GAP) // 2
    draws = _Draws(
        mean=columns.mean(0),
        square=(columns**2).mean(0),
        first=columns[:half].mean(0),
        last=columns[-half:].mean(0),
        s=np.concatenate(s),
        groups=np.tile(np.arange(_CHAINS), len(s)),
        weights=np.full(columns.shape[1], 1.0 / columns.shape[1]),
    )
    return _decomposed(run.report(exact=True), model, THREE, draws)


def _of_posterior(posterior: AbstractPosterior, model: PrivateModel) -> Decomposition:
    """Two parts, from draws of theta and s of an exact method."""
    columns = _columns(model, posterior.theta)
    s: Any = posterior.statistics
    draws = _Draws(
        mean=columns,
        square=columns**2,
        first=columns,
        last=columns,
        s=s,
        groups=_same(np.concatenate([posterior.theta, s], axis=1)),
        weights=posterior.weights,
    )
    return _decomposed(posterior.report, model, TWO, draws)


def _given_records(key: Array, chains: Chains, run: InferenceRun) -> np.ndarray:
    """64 draws of theta (64, C, d) given the records of each chain, thinned until those 16 apart no
    longer depend on each other.
    """
    for thinning in _THINNING:
        draws = np.asarray(
            chains.moves.parameters(key, chains.state, chains.walk, _INNER * thinning)
        )[::thinning]
        if _dependence(draws) < _INDEPENDENT:
            return draws
    run.warn(Kind.DRAWS_DEPENDENT, steps=_GAP * _THINNING[-1])
    return draws


def _dependence(draws: np.ndarray) -> float:
    """The largest autocorrelation, over parameters, of draws (n, C, d) that are `_GAP` apart,
    pooled over chains.

    Deviations are from each chain's own mean, which takes (1 - r) / n off a correlation r, or 1 / n
    where there is none: that is added.
    """
    deviation = draws - draws.mean(axis=0)
    variance = (deviation**2).mean(axis=(0, 1))
    product = (deviation[_GAP:] * deviation[:-_GAP]).mean(axis=(0, 1))
    return float(
        np.max(np.where(variance > 0.0, product / np.where(variance > 0.0, variance, 1.0), 0.0))
        + 1.0 / len(draws)
    )


def _same(rows: np.ndarray) -> np.ndarray:
    """Numbers that equal rows share, in an order that has nothing to do with the rows."""
    number = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return np.random.default_rng(0).permutation(number.max() + 1)[number]


def _checked(posterior: Any) -> AbstractPosterior:
    """Refuse a posterior whose draws cannot be decomposed."""
    if not isinstance(posterior, AbstractPosterior):
        raise InvalidTypeError(
            f"posterior must be a posterior, or None, got {describe(posterior)}."
        )
    if posterior.statistics is None or not posterior.report.exact:
        raise InvalidInputError(
            "posterior must come from an exact method that also draws s, which"
            f" {posterior.report.method} does not: leave posterior out to have these draws made."
        )
    if posterior.effective_size < _FEWEST:
        raise InvalidInputError(
            f"posterior is worth {posterior.effective_size:.0f} independent draws, and at least"
            f" {_FEWEST} are needed: raise its target_ess."
        )
    return posterior


class _Draws(NamedTuple):
    """N draws of x, or of s alone, with weights: of each quantity (N, q) its mean and mean square
    given x, and two means that are independent given x, or what stands for them.
    """

    mean: np.ndarray
    square: np.ndarray
    first: np.ndarray
    last: np.ndarray
    s: Any
    groups: np.ndarray
    weights: np.ndarray


def _decomposed(
    report: Report, model: PrivateModel, parts: tuple[str, ...], draws: _Draws
) -> Decomposition:
    """The parts from these draws, with standard errors of their shares by a jackknife.

    Args:
        report: Of the method that drew them.
        model: The model, for the names of the quantities.
        parts: Names of the parts, two or three.
        draws: Draws of each quantity, given x or s.
    """
    guess = predicted((draws.first + draws.last) / 2.0, draws.s, draws.groups, draws.weights)
    moments = np.stack(
        [
            draws.mean,
            draws.square,
            draws.first,
            draws.last,
            draws.first * draws.last,
            (draws.first - guess) * (draws.last - guess),
        ],
        axis=-1,
    )
    blocks = draws.groups % _BLOCKS
    sums = np.stack(
        [np.tensordot(draws.weights * (blocks == b), moments, axes=1) for b in range(_BLOCKS)]
    )
    masses = np.bincount(blocks, draws.weights, _BLOCKS)
    variances = _variances(sums.sum(0), len(parts))
    others = np.stack(
        [
            _shares(_variances((sums.sum(0) - part) / (1.0 - mass), len(parts)))
            for part, mass in zip(sums, masses, strict=True)
        ]
    )
    return Decomposition(
        names=(*model.names, *model.derived),
        parts=parts,
        variances=variances,
        standard_errors=np.sqrt((_BLOCKS - 1) * others.var(axis=0)),
        method=report.method,
        num_draws=len(draws.weights),
        num_simulations=report.num_simulations,
        warnings=report.warnings,
    )


def _variances(moments: np.ndarray, num_parts: int) -> np.ndarray:
    """The parts (q, parts) from mean moments (q, 6)."""
    mean, square, first, last, product, unexplained = np.moveaxis(moments, -1, 0)
    total = np.maximum(square - mean**2, 0.0)
    between = np.clip(product - first * last, 0.0, total)
    unexplained = np.clip(unexplained, 0.0, between)
    parts = (total - between, unexplained, between - unexplained)
    return np.stack(parts if num_parts == len(THREE) else parts[1:], axis=-1)


def _shares(variances: np.ndarray) -> np.ndarray:
    """Parts (..., parts) as shares of their sum; 0 where that is 0."""
    total = variances.sum(-1, keepdims=True)
    return variances / np.where(total > 0.0, total, 1.0)


def _columns(model: PrivateModel, theta: np.ndarray) -> np.ndarray:
    """Parameters and derived quantities (..., q) of theta (..., d)."""
    derived = model.derived_quantities(theta)
    return np.concatenate([theta, *(values[..., None] for values in derived.values())], axis=-1)
