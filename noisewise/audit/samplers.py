r"""Does a sampler draw from the density it claims?

A draw where the density is zero fails at once. Then each column is tested twice: its probability
integral transform, and that of T = log_prob at the draw (an omnibus test of the level sets, and
nearly the best test against a wrong scale). Laws are integrated numerically from `log_prob` itself,
with atoms and lattices randomised, so a transform U is uniform exactly when sampler and density
agree. That is done at s, and with an eighth of the draws at each of some statistics around it.

Independence is tested of columns in pairs (products of moments, sums and differences), of three
columns by their signs, of all through

    Phi(sum_j Phi^-1(U_j) / sqrt k),   U_j the transform of column j's T,

which is uniform too; of the rows of one call at all lags; and of two calls with different keys.
Continuous columns must not repeat values more often than float64 does, and their bits far below the
noise must be uniform. The p-values, of the tests in `smooth_tests`, `dependence` and `low_bits`,
are combined by Bonferroni's inequality.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise.audit.numerical_laws import COARSE
from noisewise.audit.spread import noise, spread
from noisewise.audit.transforms import Block, check_blocks, transformed
from noisewise.audit.uniforms.dependence import groups, serial, sum_and_difference, three_signs
from noisewise.audit.uniforms.low_bits import low_order_bits
from noisewise.audit.uniforms.smooth_tests import (
    association,
    fine_cells,
    legendre,
    repetition,
    uniformity,
)
from noisewise.audit.verdict import AbstractVerdict
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism

Sampler = Callable[[Array, np.ndarray], Any]
"""A function of a key and statistics (n, k) that returns draws (n, k')."""

_TINY = 2.0**-53
"""The least distance of a uniform from 0 and 1 when it becomes normal: half of float64's eps."""

_PAIRS = 12
"""Pairs of columns that are tested through their sum and difference, at most: each costs as much as
two single columns.
"""

_MIN_DRAWS = 1000
"""Draws given one statistic, at least: the laws of the tests hold far out in their tails for many
draws only.
"""


@dataclasses.dataclass(frozen=True, repr=False)
class SamplerAudit(AbstractVerdict):
    """The verdict on a sampler.

    Attributes:
        p_values: The p-value of each test by name, before correction; NaN fails.
        num_draws: The number of draws given s.
        alpha: The level of all tests together.
        statistics: The other statistics, shape (m, k), of the tests named "statistic 0: ..." and so
            on.
    """

    p_values: dict[str, float]
    num_draws: int
    alpha: float
    statistics: np.ndarray | None = dataclasses.field(default=None, compare=False)

    @property
    def p_value(self) -> float:
        """The Bonferroni-corrected p-value of "the sampler has this density"."""
        smallest = self.p_values[self._worst]
        return 0.0 if math.isnan(smallest) else min(1.0, len(self.p_values) * smallest)

    @property
    def passed(self) -> bool:
        """Whether the hypothesis survives at level alpha."""
        return self.p_value >= self.alpha

    def describe(self) -> str:
        plural = "s" if len(self.p_values) > 1 else ""
        size = f"{len(self.p_values)} test{plural} on {self.num_draws:,} draws"
        found = f"p-value {self.p_value:.3g} of {size}"
        return f"{found}, smallest for {self._worst}, alpha {self.alpha:g}"

    @property
    def _worst(self) -> str:
        return min(self.p_values, key=lambda name: np.nan_to_num(self.p_values[name], nan=-1.0))


def sampler_against_density(
    key: Array,
    mechanism: AbstractMechanism,
    s: Float[Array, " k"],
    *,
    sampler: Sampler | None = None,
    statistics: Float[Array, "m k"] | None = None,
    num_draws: int = 500_000,
    alpha: float = 1e-6,
) -> SamplerAudit:
    """Test draws of s_dp given s, and given other statistics, against `mechanism.log_prob`.

    With the default size a scale that is off by 2% is caught with probability above .99 at alpha =
    1e-6. Mechanisms whose columns depend on each other are audited with one or two columns.

    The sampler is called three times with `num_draws` rows: twice with s in all rows and different
    keys, once with the rows of `statistics` in random order. A mechanism's own `sample` must return
    the same for the same key. A `sampler` need not (a release draws from the operating system and
    ignores the key), but must not return the same for different keys.

    No test of draws sees a fault at statistics that were not tried, or too rare for `num_draws` (10
    rows in a million); pseudo-random noise that its maker can recompute, and s written into bits
    under a cipher, both uniform without the key; or a sampler that behaves while it is tested.
    These tests do not look for dependence of four or more columns that leaves the sizes of their
    noise alone; dependence between one column and another's earlier rows; rows of a lattice
    repeated in random order, where equal rows are common anyway; rows and their mirror images in
    random order; or the last bits of float64, which separate s from its neighbours in every
    floating-point sampler (Mironov 2012): publish by `nw.release`.

    Args:
        key: JAX PRNG key.
        mechanism: The mechanism whose density is taken as correct.
        s: One statistic, shape (k,).
        sampler: What draws; by default the mechanism's own `sample`. Pass another to audit a
            release path.
        statistics: Other statistics to try, shape (m, k); by default 8 shifts of s by 1 to 1000
            widths of the noise. Give those that matter, such as `model.statistics(key,
            model.prior.sample(key, 20))`, or none, `np.empty((0, k))`.
        num_draws: The number of draws in each call, at least 1000, and 1000 per statistic.
        alpha: The level of all tests together (Bonferroni).

    Returns:
        The verdict: `assert audit` fails if the sampler does.

    Raises:
        InvalidInputError: If shapes do not fit, or there are too few draws.
        MissingCapabilityError: If three or more columns depend on each other.

    >>> import jax, noisewise as nw
    >>> laplace = nw.mechanisms.Laplace(scale=1.0)
    >>> wrong = nw.mechanisms.Laplace(scale=1.05)
    >>> settings = {"key": jax.random.key(0), "s": [3.0], "num_draws": 50_000}
    >>> sampler_against_density(mechanism=laplace, **settings).passed
    True
    >>> sampler_against_density(mechanism=laplace, sampler=wrong.sample, **settings).passed
    False
    >>> frozen = lambda key, s: laplace.sample(jax.random.key(7), s)
    >>> audit = sampler_against_density(mechanism=laplace, sampler=frozen, **settings)
    >>> min(audit.p_values, key=audit.p_values.get)
    'column 0 under two keys'
    """
    if not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(
            f"sampler_against_density audits a mechanism, got {type(mechanism).__name__}."
        )
    s = np.atleast_1d(np.asarray(s, dtype=float))
    if s.ndim != 1:
        raise InvalidInputError(f"s must be one statistic of shape (k,), got shape {s.shape}.")
    num_draws = integer("num_draws", at_least=_MIN_DRAWS)(num_draws)
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    check_blocks(mechanism, s.size)
    others = _others(mechanism, s, statistics, num_draws)
    draw_key, random_key, second_key, other_key = jax.random.split(as_key(key), 4)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(random_key)))
    repeated = np.broadcast_to(s, (num_draws, s.size))
    draw = _checked(sampler or mechanism.sample, (num_draws, mechanism.output_width(s.size)))
    draws = [draw(draw_key, repeated), draw(second_key, repeated)]
    if not all(_all_possible(mechanism, s, values) for values in draws):
        return SamplerAudit({"support": 0.0}, num_draws, alpha, others)
    again = draw(draw_key, repeated) if sampler is None else draws[0]
    if not np.array_equal(again, draws[0], equal_nan=True):
        return SamplerAudit({"same draws for the same key": 0.0}, num_draws, alpha, others)
    tests = _p_values(mechanism, s, draws, rng)
    if len(others):
        which = rng.permutation(num_draws) % len(others)
        mixed = draw(other_key, others[which])
        tests |= _p_values_elsewhere(mechanism, others, which, mixed, rng)
    return SamplerAudit(tests, num_draws, alpha, others)


def _others(
    mechanism: AbstractMechanism, s: np.ndarray, statistics: Any, num_draws: int
) -> np.ndarray:
    """The statistics besides s, at most one per 1,000 draws."""
    if statistics is None:
        return spread(mechanism, s)[: num_draws // _MIN_DRAWS]
    try:
        others = np.asarray(statistics, dtype=float)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"statistics must be an array of numbers (m, k), got {describe(statistics)}."
        ) from None
    if others.ndim != 2 or others.shape[1] != s.size or not np.isfinite(others).all():
        raise InvalidInputError(
            f"statistics must be finite, of shape (m, {s.size}) like s, got shape {others.shape}."
        )
    if len(others) > num_draws // _MIN_DRAWS:
        raise InvalidInputError(
            f"{len(others)} statistics need {len(others) * _MIN_DRAWS:,} draws or more, got"
            f" num_draws={num_draws}: raise it, or pass fewer."
        )
    return others


def _checked(
    sampler: Sampler, expected: tuple[int, ...]
) -> Callable[[Array, np.ndarray], np.ndarray]:
    def draw(key: Array, s: np.ndarray) -> np.ndarray:
        # A copy: a sampler may return the same array every time.
        draws = np.array(sampler(key, s), dtype=float)
        if draws.shape != expected:
            raise InvalidInputError(
                f"The sampler must return an array of shape {expected}, got {draws.shape}."
            )
        return draws

    return draw


def _all_possible(mechanism: AbstractMechanism, s: np.ndarray, draws: np.ndarray) -> bool:
    """Whether every draw lies on the support and where the density is positive. NaN does
    where it is an outcome, absent.
    """
    return bool(
        np.all(mechanism.support.contains(draws)) and np.all(mechanism.log_prob(draws, s) > -np.inf)
    )


def _p_values(
    mechanism: AbstractMechanism, s: np.ndarray, draws: list[np.ndarray], rng: np.random.Generator
) -> dict[str, float]:
    """All tests at s, on two calls with different keys."""
    size = len(draws[0])
    both = transformed(mechanism, s, np.concatenate(draws), rng)
    first = [_rows(block, slice(size)) for block in both]
    tests = _marginal(first)
    columns = [(u, i) for i, block in enumerate(both) for u in block.columns]
    polynomials = [legendre(u, 2) for u, _ in columns]
    tests |= _between_columns(first, [p[:size] for p in polynomials], rng)
    for j, (u, _) in enumerate(columns):
        tests[f"rows of column {j}"] = serial(u[:size])
        tests[f"column {j} under two keys"] = association(
            polynomials[j][:size], polynomials[j][size:]
        )
    return tests | _float_tests(mechanism, s, both)


def _p_values_elsewhere(
    mechanism: AbstractMechanism,
    others: np.ndarray,
    which: np.ndarray,
    draws: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, float]:
    """The tests of single columns given each other statistic; draw i is given others[which[i]]."""
    tests: dict[str, float] = {}
    for i, s in enumerate(others):
        given = draws[which == i]
        found = {"support": 0.0}
        if _all_possible(mechanism, s, given):
            found = _marginal(transformed(mechanism, s, given, rng, COARSE))
        tests |= {f"statistic {i}: {name}": p_value for name, p_value in found.items()}
    return tests


def _rows(block: Block, rows: slice) -> Block:
    """Some of the draws of a block."""
    return dataclasses.replace(
        block, columns=[u[rows] for u in block.columns], levels=block.levels[rows]
    )


def _marginal(blocks: list[Block]) -> dict[str, float]:
    """Each column by itself, and the log density of each block."""
    columns = [u for block in blocks for u in block.columns]
    tests = {f"column {j}": uniformity(u) for j, u in enumerate(columns)}
    start = 0
    for block in blocks:
        name = f"column {start}" if len(block.columns) == 1 else f"columns {start} and {start + 1}"
        tests[f"log density of {name}"] = uniformity(block.levels)
        start += len(block.columns)
    return tests


def _between_columns(
    blocks: list[Block], polynomials: list[np.ndarray], rng: np.random.Generator
) -> dict[str, float]:
    """Columns two by two, three by three, and all together."""
    columns = [(u, i) for i, block in enumerate(blocks) for u in block.columns]
    tests = {}
    for a, b in itertools.combinations(range(len(columns)), 2):
        together = blocks[columns[a][1]].moments if columns[a][1] == columns[b][1] else None
        tests[f"columns {a} and {b}"] = association(polynomials[a], polynomials[b], together)
    for a, b in groups(len(columns), 2, rng, _PAIRS):
        if columns[a][1] != columns[b][1]:
            p_sum, p_difference = sum_and_difference(columns[a][0], columns[b][0])
            tests[f"sum of columns {a} and {b}"] = p_sum
            tests[f"difference of columns {a} and {b}"] = p_difference
    # Blocks have at most two columns, so one of three is independent of the others, and its sign is
    # a fair coin.
    for three in groups(len(columns), 3, rng):
        name = "signs of columns {}, {} and {}".format(*three)
        tests[name] = three_signs([columns[j][0] for j in three])
    return tests | _all_together(blocks)


def _all_together(blocks: list[Block]) -> dict[str, float]:
    if len(blocks) == 1:
        return {}
    normal = sum(ndtri(np.clip(block.levels, _TINY, 1.0 - _TINY)) for block in blocks)
    together = ndtr(normal / math.sqrt(len(blocks)))
    return {"log density of all columns": uniformity(together)}


def _float_tests(
    mechanism: AbstractMechanism, s: np.ndarray, blocks: list[Block]
) -> dict[str, float]:
    """Repeated values, bits and fine cells, of continuous columns."""
    tests = {}
    ties = [item for block in blocks for item in block.ties]
    if ties:
        columns, expected = zip(*ties, strict=True)
        tests["ties"] = repetition(list(columns), sum(expected))
    start = 0
    for block in blocks:
        if len(block.columns) == 1 and block.ties:
            tests[f"fine cells of column {start}"] = fine_cells(block.columns[0])
        for j, (values, _) in enumerate(block.ties, start):
            tests |= _bit_tests(mechanism, s, j, values)
        start += len(block.columns)
    return tests


def _bit_tests(
    mechanism: AbstractMechanism, s: np.ndarray, j: int, values: np.ndarray
) -> dict[str, float]:
    """The test of the bits of column j, where its noise is known and has bits to test."""
    center, width = (part[j] for part in noise(mechanism, s))
    bits = None if np.isnan(center + width) else low_order_bits(values, center, width)
    return {} if bits is None else {f"low-order bits of column {j}": bits}
