r"""Does a sampler draw from the density it claims?

A draw where the density has none fails at once. Then each column is tested twice: its probability integral transform, and
that of T = log_prob at the draw (an omnibus test of the level sets, and nearly the best test against a wrong scale). Laws are
integrated numerically from `log_prob` itself, with atoms and lattices randomised, so a transform U is uniform exactly when
sampler and density agree. Columns are tested for independence in pairs, and all together through

    Phi(sum_j Phi^-1(U_j) / sqrt k),   U_j the transform of column j's T,

which is uniform too. Continuous columns must not repeat values more often than float64 does. The p-values, of the tests in
`smooth_tests`, are combined by Bonferroni's inequality.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.special import ndtr, ndtri

from noisewise._arrays import Array, as_key, integer, number
from noisewise.audit.numerical_laws import LogDensity, column_law, plane_law, ranked
from noisewise.audit.outputs import column_supports, independent_blocks, quantiles, typical
from noisewise.audit.smooth_tests import association, legendre, repetition, uniformity
from noisewise.audit.verdict import AbstractVerdict
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.supports import AbstractSupport, Lattice, Real

Sampler = Callable[[Array, np.ndarray], Any]

_TINY = 2.0**-53


@dataclasses.dataclass(frozen=True, repr=False)
class SamplerAudit(AbstractVerdict):
    """The verdict, with each test's p-value before correction; one that is NaN fails."""

    p_values: dict[str, float]
    num_draws: int
    alpha: float

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
        size = f"{len(self.p_values)} test{'s' if len(self.p_values) > 1 else ''} on {self.num_draws:,} draws"
        return f"p-value {self.p_value:.3g} of {size}, smallest for {self._worst}, alpha {self.alpha:g}"

    @property
    def _worst(self) -> str:
        return min(self.p_values, key=lambda name: np.nan_to_num(self.p_values[name], nan=-1.0))


def sampler_against_density(
    key: Array,
    mechanism: AbstractMechanism,
    s: Any,
    *,
    sampler: Sampler | None = None,
    num_draws: int = 500_000,
    alpha: float = 1e-6,
) -> SamplerAudit:
    """Test draws of s_dp given one statistic `s (k,)` against `mechanism.log_prob`.

    `sampler(key, s (N, k)) -> (N, k')` defaults to the mechanism's own; pass another to audit a release path. With the default
    size a scale that is off by 2% is caught with probability above .99 at alpha = 1e-6. Mechanisms whose columns
    depend on each other are audited with one or two columns.

    >>> import jax, noisewise as nw
    >>> laplace = nw.mechanisms.Laplace(scale=1.0)
    >>> wrong = nw.mechanisms.Laplace(scale=1.02)
    >>> sampler_against_density(jax.random.key(0), laplace, [3.0]).passed
    True
    >>> sampler_against_density(jax.random.key(0), laplace, [3.0], sampler=wrong.sample).passed
    False
    """
    if not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(f"sampler_against_density audits a mechanism, got {type(mechanism).__name__}.")
    s = np.atleast_1d(np.asarray(s, dtype=float))
    if s.ndim != 1:
        raise InvalidInputError(f"s must be one statistic of shape (k,), got shape {s.shape}.")
    num_draws = integer("num_draws", at_least=1000)(num_draws)
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    _check_blocks(mechanism, s.size)
    draw_key, random_key = jax.random.split(as_key(key))
    repeated = np.broadcast_to(s, (num_draws, s.size))
    draws = np.asarray((sampler or mechanism.sample)(draw_key, repeated), dtype=float)
    expected = (num_draws, mechanism.output_width(s.size))
    if draws.shape != expected:
        raise InvalidInputError(f"The sampler must return an array of shape {expected}, got {draws.shape}.")
    if not _possible(mechanism, s, draws):
        return SamplerAudit({"support": 0.0}, num_draws, alpha)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(random_key)))
    return SamplerAudit(_p_values(mechanism, s, draws, rng), num_draws, alpha)


def _possible(mechanism: AbstractMechanism, s: np.ndarray, draws: np.ndarray) -> bool:
    """Whether every draw lies on the support and where the density is positive; NaN does not."""
    return bool(np.all(mechanism.support.contains(draws)) and np.all(mechanism.log_prob(draws, s) > -np.inf))


@dataclasses.dataclass(frozen=True)
class _Block:
    """Transforms of the draws of columns that may depend on each other: of each by itself, and of their log density.

    `ties` holds the continuous values of each column and how many equal pairs float64 explains; `moments` are those of
    `PlaneLaw.cross_moments`.
    """

    columns: list[np.ndarray]
    levels: np.ndarray
    ties: list[tuple[np.ndarray, float]]
    moments: tuple[np.ndarray, np.ndarray] | None = None


def _p_values(
    mechanism: AbstractMechanism, s: np.ndarray, draws: np.ndarray, rng: np.random.Generator
) -> dict[str, float]:
    slices = independent_blocks(mechanism, s.size)
    blocks = [_transformed(mechanism, s, draws, block, rng) for block in slices]
    columns = [(u, i) for i, block in enumerate(blocks) for u in block.columns]
    tests = {f"column {j}": uniformity(u) for j, (u, _) in enumerate(columns)}
    for block, where in zip(blocks, slices, strict=True):
        name = f"column {where.start}" if len(block.columns) == 1 else f"columns {where.start} and {where.start + 1}"
        tests[f"log density of {name}"] = uniformity(block.levels)
    polynomials = [legendre(u, 2) for u, _ in columns]
    for a, b in itertools.combinations(range(len(columns)), 2):
        together = blocks[columns[a][1]].moments if columns[a][1] == columns[b][1] else None
        tests[f"columns {a} and {b}"] = association(polynomials[a], polynomials[b], together)
    if len(blocks) > 1:
        normal = sum(ndtri(np.clip(block.levels, _TINY, 1.0 - _TINY)) for block in blocks)
        tests["log density of all columns"] = uniformity(ndtr(normal / math.sqrt(len(blocks))))
    ties = [item for block in blocks for item in block.ties]
    if ties:
        tests["ties"] = repetition([values for values, _ in ties], sum(expected for _, expected in ties))
    return tests


def _transformed(
    mechanism: AbstractMechanism, s: np.ndarray, draws: np.ndarray, where: slice, rng: np.random.Generator
) -> _Block:
    """Blocks are independent: the density of one, the others held at a typical value, is its law up to a constant."""
    ladder = quantiles(mechanism, s[None])[0]

    def log_density(values: np.ndarray) -> np.ndarray:
        outputs = np.tile(typical(ladder), (len(values), 1))
        outputs[:, where] = values
        return mechanism.log_prob(outputs, s)

    supports = column_supports(mechanism.support, draws.shape[-1])[where]
    if len(supports) == 1:
        center = s[where] if s.size == draws.shape[-1] else np.empty(0)
        return _line(supports[0], log_density, ladder[:, where.start], center, draws[:, where.start], rng)
    return _plane(log_density, ladder[:, where], draws[:, where], rng)


def _check_blocks(mechanism: AbstractMechanism, k: int) -> None:
    supports = column_supports(mechanism.support, mechanism.output_width(k))
    for block in independent_blocks(mechanism, k):
        size, real = block.stop - block.start, all(isinstance(support, Real) for support in supports[block])
        if size > 2 or (size == 2 and not real):
            raise MissingCapabilityError(
                f"The columns of {type(mechanism).__name__} depend on each other: audit it with one or two columns "
                f"that do (on the whole line if two), not {size}."
            )


def _line(
    support: AbstractSupport,
    log_density: LogDensity,
    ladder: np.ndarray,
    center: np.ndarray,
    values: np.ndarray,
    rng: np.random.Generator,
) -> _Block:
    law = column_law(support, log_density, ladder, center)
    if isinstance(support, Lattice):
        # To the floats the law is tabulated at.
        values = support.step * np.round(values / support.step)
    u, levels = law.transform(values, rng), ranked(law, log_density(values[:, None]), rng)
    inside = values[~np.isin(values, law.points[law.discrete])]
    return _Block([u], levels, [] if law.discrete.all() else [(inside, law.expected_ties(values.size))])


def _plane(log_density: LogDensity, ladder: np.ndarray, draws: np.ndarray, rng: np.random.Generator) -> _Block:
    """Two dependent columns: their joint density on a square grid gives both margins, their association and T."""
    law = plane_law(log_density, ladder)
    margins = [law.margin(j) for j in range(2)]
    columns = [margin.transform(draws[:, j], rng) for j, margin in enumerate(margins)]
    ties = [(draws[:, j], margin.expected_ties(len(draws))) for j, margin in enumerate(margins)]
    return _Block(columns, ranked(law, log_density(draws), rng), ties, law.cross_moments())
