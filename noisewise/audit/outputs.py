"""Which outputs an audit looks at: a scan for suprema, weighted cells for integrals and sums."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from noisewise.errors import MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.supports import AbstractSupport, Blocks, Finite, Interval, Lattice, Real

_TAILS = np.concatenate(
    [10.0 ** np.arange(-15, -1), np.linspace(0.02, 0.98, 49), 1.0 - 10.0 ** np.arange(-15, -1)[::-1]]
)
_PANELS = 4000
_NO_KINKS = np.empty(0)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclasses.dataclass(frozen=True)
class Cells:
    """Points of a one-column output with log weights: sum over points of exp(log_prob + log_weights) is total mass."""

    points: np.ndarray
    log_weights: np.ndarray


def quantiles(mechanism: AbstractMechanism, statistics: np.ndarray) -> np.ndarray:
    """Outputs at a ladder of quantiles, all uniforms equal, for each row of `statistics`: (rows, ladder, k')."""
    u = np.repeat(_TAILS[:, None], mechanism.num_uniforms(statistics.shape[-1]), axis=-1)
    return np.stack([mechanism.transport(u, s) for s in statistics])


def scan(mechanism: AbstractMechanism, statistics: np.ndarray) -> np.ndarray:
    """Outputs (rows, k') among which the privacy loss has its supremum, or comes near it.

    A ladder of joint quantiles for each statistic, and the values (or ends) of a bounded support in all columns at once.
    """
    ladder = quantiles(mechanism, statistics)
    ladder = ladder.reshape(-1, ladder.shape[-1])
    support = mechanism.support
    if isinstance(support, Blocks):
        ends = np.concatenate(
            [np.tile(_ends(part)[:, None], size) for part, size in zip(support.supports, support.widths, strict=True)],
            -1,
        )
        return np.concatenate([ladder, *(np.where(np.isfinite(row), row, ladder) for row in ends)])
    values = all_values(support)
    extra = _ends(support)[np.isfinite(_ends(support))] if values is None else values
    return np.concatenate([ladder, np.tile(extra[:, None], ladder.shape[-1])])


def cells(
    mechanism: AbstractMechanism, statistics: np.ndarray, *, reach: float = 3.0, kinks: np.ndarray = _NO_KINKS
) -> Cells:
    """Cells covering a one-column output: `reach` times the span between the extreme quantiles beyond each end.

    A continuous output gets panel edges at the statistics, where densities may have kinks, and at the `kinks` given.
    """
    support = mechanism.support
    values = all_values(support)
    if values is not None:
        return Cells(values, np.zeros(values.size))
    ladder = quantiles(mechanism, statistics)[..., 0]
    kinks = np.concatenate([statistics.ravel(), kinks])
    low, high = ladder.min(), ladder.max()
    low, high = low - reach * (high - low), high + reach * (high - low)
    if isinstance(support, Lattice):
        first = math.ceil(max(low, support.low) / support.step - 1e-9)
        last = math.floor(min(high, support.high) / support.step + 1e-9)
        return Cells(support.step * np.arange(first, last + 1), np.zeros(last - first + 1))
    if isinstance(support, Real):
        return _panels(low, high, kinks)
    if isinstance(support, Interval):
        inside = _panels(max(low, support.low), min(high, support.high), kinks)
        atoms = _ends(support)[np.isfinite(_ends(support))]
        weights = np.concatenate([np.zeros(atoms.size), inside.log_weights])
        return Cells(np.concatenate([atoms, inside.points]), weights)
    raise MissingCapabilityError(f"No cells are known for an output in {support.describe()}.")


def _panels(low: float, high: float, kinks: np.ndarray) -> Cells:
    """Gauss-Legendre panels on [low, high] with edges at the kinks."""
    inner = kinks[(kinks > low) & (kinks < high)]
    edges = np.unique(np.concatenate([np.linspace(low, high, _PANELS + 1), inner]))
    half = np.diff(edges)[:, None] / 2.0
    middle = (edges[1:] + edges[:-1])[:, None] / 2.0
    return Cells((middle + half * _NODES).ravel(), np.log(half * _NODE_WEIGHTS).ravel())


def all_values(support: AbstractSupport) -> np.ndarray | None:
    """Every value of a finite support, or None."""
    if isinstance(support, Finite):
        return np.asarray(support.values)
    if isinstance(support, Lattice) and (support.high - support.low) / support.step <= 1e6:
        return support.step * np.arange(round(support.low / support.step), round(support.high / support.step) + 1)
    return None


def _ends(support: AbstractSupport) -> np.ndarray:
    """The two ends of a support, infinite where it has none."""
    if isinstance(support, Finite):
        return np.array([min(support.values), max(support.values)])
    if isinstance(support, (Lattice, Interval)):
        return np.array([support.low, support.high])
    return np.array([-np.inf, np.inf])
