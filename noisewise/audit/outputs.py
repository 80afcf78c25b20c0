"""The outputs that an audit evaluates: a scan for suprema, weighted cells for integrals."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
from jaxtyping import Float

from noisewise.errors import MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.supports import (
    AbstractSupport,
    Finite,
    Interval,
    Lattice,
    OrAbsent,
    Real,
)

_TAILS = np.concatenate(
    [
        10.0 ** np.arange(-15, -1),
        np.linspace(0.02, 0.98, 49),
        1.0 - 10.0 ** np.arange(-15, -1)[::-1],
    ]
)
"""Levels of the ladder of quantiles: every second percent, and powers of ten down to 1e-15 in each
tail, near the end of what a float64 uniform can be.
"""
_MIRRORS = 32
"""Combinations of mirrored uniforms: all for up to 6 uniforms, a random choice for more."""
_PANELS = 4000
"""Panels of an integral: with 8 points each, its error is far below a verdict's slack of 1e-8."""
_NO_KINKS = np.empty(0)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
"""Gauss-Legendre points of a panel on [-1, 1]."""
_ON_LATTICE = 1e-9
"""Steps by which an end may miss a lattice point and still count as on it."""
_MAX_VALUES = 1e6
"""Values of a bounded lattice that are listed one by one: 8 MB of them."""
_LOG2_MIN_ROWS = 8
"""Rows are padded to powers of two from 2^8 on, so that few sizes of programs are compiled."""


@dataclasses.dataclass(frozen=True)
class Cells:
    """Cells of a one-column output: the sum of exp(log_prob(points) + log_weights) is the total
    mass.

    Attributes:
        points: One point per cell.
        log_weights: The logs of widths for a density, 0 for a probability.

    >>> from noisewise.mechanisms import Laplace
    >>> laplace, s = Laplace(scale=1.0), np.zeros((1, 1))
    >>> grid = cells(laplace, s)
    >>> mass = np.exp(laplace.log_prob(grid.points[:, None], s[0]) + grid.log_weights).sum()
    >>> round(float(mass), 9)
    1.0
    """

    points: np.ndarray
    log_weights: np.ndarray


def independent_blocks(mechanism: AbstractMechanism, k: int) -> list[slice]:
    """The columns of an output in groups that are independent of each other: single columns, where
    a mechanism allows.

    Args:
        mechanism: The mechanism, possibly composed of blocks.
        k: The number of columns of s.

    >>> from noisewise.mechanisms import EuclideanLaplace, Laplace, Product
    >>> both = Product([Laplace(1.0), EuclideanLaplace(1.0)], widths=[2, 3])
    >>> [(block.start, block.stop) for block in independent_blocks(both, 5)]
    [(0, 1), (1, 2), (2, 5)]
    """
    if mechanism.is_composed:
        parts = list(zip(mechanism.blocks, mechanism.block_widths(k), strict=True))
        starts = np.cumsum([0, *(part.output_width(width) for part, width in parts)])
        return [
            slice(int(start) + block.start, int(start) + block.stop)
            for start, (part, width) in zip(starts[:-1], parts, strict=True)
            for block in independent_blocks(part, width)
        ]
    width = mechanism.output_width(k)
    size = 1 if Capability.CDF in mechanism.capabilities else width
    return [slice(start, start + size) for start in range(0, width, size)]


def quantiles(
    mechanism: AbstractMechanism, statistics: Float[np.ndarray, "rows k"]
) -> Float[np.ndarray, "rows ladder kp"]:
    """Outputs at a ladder of levels t, for each row of `statistics`.

    All uniforms equal t. A mechanism with more uniforms than columns uses some for directions: its
    uniforms are t or 1 - t, in all combinations or some, so that every column is seen on both
    sides.
    """
    k = statistics.shape[-1]
    mirrored = _mirrored(mechanism.num_uniforms(k), mechanism.output_width(k))
    levels = _TAILS[None, :, None]
    u = np.where(mirrored[:, None, :], 1.0 - levels, levels).reshape(-1, mirrored.shape[-1])
    return np.stack([mechanism.transport(u, s) for s in statistics])


def typical(ladder: Float[np.ndarray, "rows kp"]) -> Float[np.ndarray, " kp"]:
    """The row of a ladder where all uniforms are one half."""
    return ladder[_TAILS.size // 2]


def _mirrored(num_uniforms: int, width: int) -> np.ndarray:
    """Which uniforms are 1 - t while the first is t, shape (combinations, num_uniforms)."""
    if num_uniforms <= width:
        return np.zeros((1, num_uniforms), dtype=bool)
    if 2 ** (num_uniforms - 1) <= _MIRRORS:
        return np.array(
            [(False, *rest) for rest in itertools.product([False, True], repeat=num_uniforms - 1)]
        )
    some = np.random.default_rng(0).integers(0, 2, (_MIRRORS, num_uniforms)).astype(bool)
    some[0] = False
    return some


def scan(
    mechanism: AbstractMechanism, s: Float[np.ndarray, " k"], other: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "rows kp"]:
    """Outputs among which |log p - log q| has its supremum, or is near it.

    log p - log q is a sum over independent blocks of columns. The largest and the smallest term of
    each block is searched for on a ladder of quantiles, at the statistics themselves and, for
    single columns, at the values or ends of the support and far beyond the ladder. The two outputs
    made of these terms are the last rows, after the ladder itself.
    """
    statistics = np.stack([s, other])
    ladder = np.concatenate(quantiles(mechanism, statistics))
    if ladder.shape[-1] == s.size:
        ladder = np.concatenate([ladder, statistics])
    supports = mechanism.support.columns(ladder.shape[-1])
    base = typical(ladder)
    extremes = np.tile(base, (2, 1))
    for block in independent_blocks(mechanism, s.size):
        trials = ladder[:, block]
        if block.stop - block.start == 1:
            further = _further(supports[block.start], trials[:, 0])
            trials = np.concatenate([trials, further[:, None]])
        trials = _padded(trials)
        outputs = np.tile(base, (len(trials), 1))
        outputs[:, block] = trials
        p, q = mechanism.log_prob(outputs, s), mechanism.log_prob(outputs, other)
        for row, (this, that) in enumerate(((p, q), (q, p))):
            possible = np.flatnonzero(this > -np.inf)
            if possible.size:
                extremes[row, block] = trials[possible[np.argmax(this[possible] - that[possible])]]
    return _padded(np.concatenate([ladder, extremes]))


def _padded(rows: np.ndarray) -> np.ndarray:
    """Rows, padded by the first one up to a power of two."""
    return np.concatenate([rows, np.repeat(rows[:1], _power_of_two(len(rows)) - len(rows), axis=0)])


def _power_of_two(size: int) -> int:
    return 2 ** max(_LOG2_MIN_ROWS, math.ceil(math.log2(size)))


def _further(support: AbstractSupport, ladder: np.ndarray) -> np.ndarray:
    """Values of one column besides the ladder: all of a finite support, else its ends and one span
    beyond the ladder.
    """
    values = all_values(support)
    if values is not None:
        return values
    if isinstance(support, OrAbsent):
        published = np.append(ladder[~np.isnan(ladder)], support.above)
        further = np.append(_further(support.present, published), [support.above, np.nan])
        return further[support.contains(further)]
    low, high = ladder.min(), ladder.max()
    beyond = np.array([2.0 * low - high, 2.0 * high - low])
    if isinstance(support, Lattice):
        beyond = support.step * np.round(beyond / support.step)
    ends = _ends(support)
    return np.concatenate([ends[np.isfinite(ends)], np.clip(beyond, *ends)])


def cells(
    mechanism: AbstractMechanism,
    statistics: np.ndarray,
    *,
    reach: float = 3.0,
    tilt: float = 0.0,
    kinks: np.ndarray = _NO_KINKS,
) -> Cells:
    """Cells that cover a one-column output.

    A continuous output gets panel edges at the statistics, where densities may have kinks.

    Args:
        mechanism: The mechanism, with a transport and a density.
        statistics: The statistics whose laws must be covered, shape (rows, k).
        reach: How far cells go beyond each extreme quantile, in spans between the quantiles.
        tilt: How much farther, in distances between the statistics: for Gaussian noise p^alpha
            q^(1-alpha) lies alpha of them out.
        kinks: Further points that become panel edges.

    Raises:
        MissingCapabilityError: If no cells are known for the support.
    """
    support = mechanism.support
    values = all_values(support)
    if values is not None:
        return Cells(values, np.zeros(values.size))
    ladder = support.filled(quantiles(mechanism, statistics))[..., 0]
    kinks = np.concatenate([statistics.ravel(), kinks])
    low, high = ladder.min(), ladder.max()
    margin = reach * (high - low) + tilt * float(np.ptp(statistics, axis=0).max())
    return _cells(support, low - margin, high + margin, kinks)


def _cells(support: AbstractSupport, low: float, high: float, kinks: np.ndarray) -> Cells:
    """Cells of a support between two ends."""
    if isinstance(support, OrAbsent):
        least, present = float(support.least()), support.present
        span = present.step if isinstance(present, Lattice) else 1.0
        published = _cells(present, max(low, least), max(high, least + span), kinks)
        kept = published.points >= least
        points = np.append(published.points[kept], np.nan)
        return Cells(points, np.append(published.log_weights[kept], 0.0))
    if isinstance(support, Lattice):
        return _lattice_cells(support, low, high)
    if isinstance(support, Real):
        return _panels(low, high, kinks)
    if isinstance(support, Interval):
        inside = _panels(max(low, support.low), min(high, support.high), kinks)
        atoms = _ends(support)[np.isfinite(_ends(support))]
        weights = np.concatenate([np.zeros(atoms.size), inside.log_weights])
        return Cells(np.concatenate([atoms, inside.points]), weights)
    raise MissingCapabilityError(f"No cells are known for an output in {support.describe()}.")


def _lattice_cells(support: Lattice, low: float, high: float) -> Cells:
    """The lattice points of [low, high]. An end that is free moves until their number is a power of
    two.
    """
    first = math.ceil(max(low, support.low) / support.step - _ON_LATTICE)
    last = math.floor(min(high, support.high) / support.step + _ON_LATTICE)
    spare = _power_of_two(last - first + 1) - (last - first + 1)
    if math.isinf(support.high):
        last += spare
    elif math.isinf(support.low):
        first -= spare
    return Cells(support.step * np.arange(first, last + 1), np.zeros(last - first + 1))


def _panels(low: float, high: float, kinks: np.ndarray) -> Cells:
    """Gauss-Legendre panels on [low, high] with edges at the kinks; their number does not depend on
    the kinks.
    """
    inner = np.unique(kinks[(kinks > low) & (kinks < high)])
    regular = np.linspace(low, high, max(2, _PANELS + 1 - inner.size))
    edges = np.sort(np.concatenate([regular, inner]))
    # A panel between a kink and an edge that coincide has no width, and no weight.
    half = np.maximum(np.diff(edges)[:, None], np.finfo(float).tiny) / 2.0
    middle = (edges[1:] + edges[:-1])[:, None] / 2.0
    return Cells((middle + half * _NODES).ravel(), np.log(half * _NODE_WEIGHTS).ravel())


def all_values(support: AbstractSupport) -> Float[np.ndarray, " values"] | None:
    """Every value of a finite support, or of a lattice of up to a million points; else None.

    >>> all_values(Lattice(step=0.5, low=0.0, high=1.0)).tolist()
    [0.0, 0.5, 1.0]
    """
    if isinstance(support, OrAbsent):
        present = all_values(support.present)
        values = None if present is None else np.append(present, np.nan)
        return None if values is None else values[support.contains(values)]
    if isinstance(support, Finite):
        return np.asarray(support.values)
    if isinstance(support, Lattice) and (support.high - support.low) / support.step <= _MAX_VALUES:
        first, last = round(support.low / support.step), round(support.high / support.step)
        return support.step * np.arange(first, last + 1)
    return None


def _ends(support: AbstractSupport) -> np.ndarray:
    """The two ends of a support, infinite where it has none."""
    if isinstance(support, Finite):
        return np.array([min(support.values), max(support.values)])
    if isinstance(support, (Lattice, Interval)):
        return np.array([support.low, support.high])
    return np.array([-np.inf, np.inf])
