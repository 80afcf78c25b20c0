r"""Does a sampler draw from the density it claims?

Each column is tested twice: its probability integral transform, and that of T = log_prob at the draw (an omnibus test of the
level sets, and nearly the best test against a wrong scale). Laws are integrated numerically from `log_prob` itself, with atoms
and lattices randomised, so a transform U is uniform exactly when sampler and density agree. Uniformity is tested by
Neyman's smooth statistic

    n sum_{j=1..6} (mean of phi_j(U))^2  ~  chi^2_6,       phi_j the normalised Legendre polynomials on (0,1),

and the p-values are combined by Bonferroni's inequality.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.special import eval_legendre
from scipy.stats import chi2

from noisewise._arrays import Array, as_key, integer, number
from noisewise.audit.outputs import all_values, quantiles
from noisewise.audit.verdict import AbstractVerdict
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.supports import AbstractSupport, Blocks, Interval, Lattice

Sampler = Callable[[Array, np.ndarray], Any]

_ORDER = 6
_GRID = 400_000
_PLANE = 1600


@dataclasses.dataclass(frozen=True, repr=False)
class SamplerAudit(AbstractVerdict):
    """The verdict, with each test's p-value before correction."""

    p_values: dict[str, float]
    num_draws: int
    alpha: float

    @property
    def p_value(self) -> float:
        """The Bonferroni-corrected p-value of "the sampler has this density"."""
        return min(1.0, len(self.p_values) * min(self.p_values.values()))

    @property
    def passed(self) -> bool:
        """Whether the hypothesis survives at level alpha."""
        return self.p_value >= self.alpha

    def describe(self) -> str:
        return f"p-value {self.p_value:.3g} of {len(self.p_values)} tests on {self.num_draws:,} draws, alpha {self.alpha:g}"


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
    draw_key, random_key = jax.random.split(as_key(key))
    repeated = np.broadcast_to(s, (num_draws, s.size))
    draws = np.asarray((sampler or mechanism.sample)(draw_key, repeated), dtype=float)
    expected = (num_draws, mechanism.output_width(s.size))
    if draws.shape != expected:
        raise InvalidInputError(f"The sampler must return an array of shape {expected}, got {draws.shape}.")
    rng = np.random.default_rng(np.asarray(jax.random.key_data(random_key)))
    if Capability.CDF in mechanism.capabilities or draws.shape[-1] == 1:
        tests = _column_tests(mechanism, s, draws, rng)
    else:
        tests = _plane_tests(mechanism, s, draws, rng)
    return SamplerAudit({name: _neyman(u) for name, u in tests.items()}, num_draws, alpha)


@dataclasses.dataclass(frozen=True)
class _Law:
    """A law on the line: atoms, and cells that start at `points`, with their masses and log densities (`levels`)."""

    points: np.ndarray
    masses: np.ndarray
    levels: np.ndarray
    discrete: np.ndarray

    def transform(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """F(v-) + V (F(v) - F(v-)): uniform when `values` follow the law; off-support values go to 0."""
        total = np.concatenate([[0.0], np.cumsum(self.masses)])
        total /= total[-1]
        index = np.clip(np.searchsorted(self.points, values, side="right") - 1, 0, self.points.size - 1)
        exact = self.discrete[index]
        width = np.append(np.diff(self.points), 0.0)[index]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(width > 0, (values - self.points[index]) / width, 1.0)
        share = np.where(exact, rng.random(values.size), np.clip(share, 0.0, 1.0))
        return np.where(values < self.points[0], 0.0, total[index] + share * (total[index + 1] - total[index]))


def _column_tests(
    mechanism: AbstractMechanism, s: np.ndarray, draws: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Columns are independent: the density of one, others held at a typical value, is its law up to a constant."""
    ladder = quantiles(mechanism, s[None])[0]
    typical = ladder[len(ladder) // 2]
    supports = _per_column(mechanism.support, draws.shape[-1])
    tests = {}
    for j, support in enumerate(supports):

        def log_density(values: np.ndarray, j: int = j) -> np.ndarray:
            outputs = np.tile(typical, (values.size, 1))
            outputs[:, j] = values
            return mechanism.log_prob(outputs, s)

        center = s[j : j + 1] if s.size == draws.shape[-1] else np.empty(0)
        law = _law(support, log_density, ladder[:, j], center)
        values = _snapped(support, draws[:, j])
        tests[f"column {j}"] = law.transform(values, rng)
        tests[f"log density of column {j}"] = _ranked(law.levels, law.masses, log_density(values), rng)
    return tests


def _law(support: AbstractSupport, log_density: Any, ladder: np.ndarray, center: np.ndarray) -> _Law:
    values = all_values(support)
    low, high = ladder.min(), ladder.max()
    if values is None and isinstance(support, Lattice):
        first, last = round(max(low, support.low) / support.step), round(min(high, support.high) / support.step)
        values = support.step * np.arange(first, last + 1)
    if values is not None:
        points = np.sort(values)
        levels = log_density(points)
        return _Law(points, np.exp(levels), levels, np.ones(points.size, dtype=bool))
    ends = (support.low, support.high) if isinstance(support, Interval) else (-np.inf, np.inf)
    low, high = max(low, ends[0]), min(high, ends[1])
    edges = np.unique(np.concatenate([np.linspace(low, high, _GRID + 1), center[(center > low) & (center < high)]]))
    levels = log_density((edges[1:] + edges[:-1]) / 2.0)
    masses = np.exp(levels) * np.diff(edges)
    points, discrete = edges[:-1], np.zeros(levels.size, dtype=bool)
    if np.isfinite(ends[0]):
        # the atom takes the end itself, so the first cell starts just above it
        points = np.maximum(points, np.nextafter(ends[0], np.inf))
    atoms = np.array([end for end in ends if np.isfinite(end)])
    at_atoms = log_density(atoms) if atoms.size else atoms
    points, levels = np.concatenate([points, atoms]), np.concatenate([levels, at_atoms])
    masses, discrete = np.concatenate([masses, np.exp(at_atoms)]), np.concatenate([discrete, atoms == atoms])
    if not np.isfinite(ends[1]):
        points, levels = np.append(points, high), np.append(levels, -np.inf)
        masses, discrete = np.append(masses, 0.0), np.append(discrete, False)
    order = np.argsort(points)
    return _Law(points[order], masses[order], levels[order], discrete[order])


def _ranked(levels: np.ndarray, masses: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """P(T < t) + V P(T = t), with T on finitely many levels; ties share their mass at random."""
    order = np.argsort(levels)
    total = np.concatenate([[0.0], np.cumsum(masses[order])]) / masses.sum()
    slack = 1e-9
    below = total[np.searchsorted(levels[order], values - slack, side="left")]
    upto = total[np.searchsorted(levels[order], values + slack, side="right")]
    return below + rng.random(values.size) * (upto - below)


def _plane_tests(
    mechanism: AbstractMechanism, s: np.ndarray, draws: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Two dependent columns: their joint density on a square grid gives both margins and the law of T."""
    if draws.shape[-1] != 2:
        raise MissingCapabilityError(
            f"The columns of {type(mechanism).__name__} depend on each other: audit it with one or two columns, "
            f"not {draws.shape[-1]}."
        )
    reach = 1.5 * np.abs(_reach(mechanism, s))
    offsets = np.linspace(-reach, reach, _PLANE + 1)
    middle = (offsets[1:] + offsets[:-1]) / 2.0
    grid = np.stack(np.meshgrid(s[0] + middle, s[1] + middle, indexing="ij"), axis=-1)
    levels = mechanism.log_prob(grid, s)
    masses = np.exp(levels) * (offsets[1] - offsets[0]) ** 2
    tests = {
        f"column {j}": _Law(
            s[j] + offsets, np.append(masses.sum(1 - j), 0.0), offsets, np.zeros(offsets.size, dtype=bool)
        ).transform(draws[:, j], rng)
        for j in range(2)
    }
    tests["log density"] = _ranked(levels.ravel(), masses.ravel(), mechanism.log_prob(draws, s), rng)
    return tests


def _reach(mechanism: AbstractMechanism, s: np.ndarray) -> float:
    """How far from s the extreme quantiles of a mechanism reach."""
    return float(np.max(np.abs(quantiles(mechanism, s[None])[0] - s)))


def _per_column(support: AbstractSupport, width: int) -> list[AbstractSupport]:
    if isinstance(support, Blocks):
        return [part for part, size in zip(support.supports, support.widths, strict=True) for _ in range(size)]
    return [support] * width


def _snapped(support: AbstractSupport, values: np.ndarray) -> np.ndarray:
    """Lattice values to the floats the law is tabulated at."""
    return support.step * np.round(values / support.step) if isinstance(support, Lattice) else values


def _neyman(u: np.ndarray) -> float:
    """The p-value of Neyman's smooth test of uniformity."""
    means = [np.sqrt(2 * j + 1) * eval_legendre(j, 2.0 * u - 1.0).mean() for j in range(1, _ORDER + 1)]
    return float(chi2.sf(u.size * np.sum(np.square(means)), _ORDER))
