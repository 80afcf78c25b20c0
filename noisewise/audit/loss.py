r"""The privacy loss that a mechanism's own density implies, computed over neighbouring statistics.

Between neighbours s and s', with p = eta(. | s) and q = eta(. | s'):

    pure loss         sup_y |log p(y) - log q(y)|
    hockey stick      delta(epsilon) = integral of max(0, p - e^epsilon q)
    Renyi divergence  D_alpha = log(integral of p^alpha q^(1-alpha)) / (alpha - 1),
                      D_1 = integral of p log(p/q)

Nothing here knows the formula of any mechanism, so that a wrong density, scale or sensitivity
shows. An output that s allows and s' does not makes the pure loss and every D_alpha infinite.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from noisewise._core.arrays import Array, integer
from noisewise.audit.outputs import Cells, cells, scan
from noisewise.audit.verdict import AbstractVerdict
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.guarantees import (
    AbstractGuarantee,
    ApproximateDP,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
)

_ORDERS = (1.0, 1.05, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0)
"""The alphas at which zCDP is compared: dense near 1, where D_alpha is the mean loss, and some far
out, where it sees rare large losses.
"""
_NEAR = np.array([0.0, 0.05, 0.2])
_FAR = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0])
"""Epsilons at which GaussianDP(mu) is compared, in units of mu: near ones from 0 on, where delta is
the total variation distance; far ones from mu^2/2 on, where each unit is a standard deviation of
the loss. 8 of them see noise that was cut off wherever float64 draws can show it.
"""
_BATCH = 64
"""Crossings are padded to multiples of this number, so that few sizes of programs are compiled."""
_HALVINGS = 50
"""Bisections of an interval between two cells: they leave 2^-50 of it, near float64's limit."""
_ABOVE_LEVEL = 1e-10
"""Added to a level, so that rounding errors do not cross it where a loss stays on it, as that of
Laplace noise does.
"""
_SLACK_OF_SUPREMUM, _SLACK_OF_INTEGRAL = 1e-12, 1e-8
"""Relative: the numerical errors of a pure loss, beyond its stated rounding, and of an integral."""
_ULPS = 8  # units in the last place by which a computed log density may be off


@dataclasses.dataclass(frozen=True, repr=False)
class PrivacyLoss(AbstractVerdict):
    """What a mechanism claims, and what its density attains over some neighbours.

    Attributes:
        claimed: The guarantee of the mechanism.
        attained: The loss, in the claim's own parameter (epsilon, rho or mu); infinite if no
            parameter would do.
        rounding: A bound on its float64 error, from the size of the logarithms that were
            subtracted.
        neighbours: The pair (s, s') where the loss was largest.
    """

    claimed: AbstractGuarantee
    attained: float
    rounding: float
    neighbours: tuple[np.ndarray, np.ndarray]

    @property
    def ratio(self) -> float:
        """Attained over claimed: above 1 the claim is false, far below 1 the noise is larger than
        necessary.
        """
        return self.attained / self._parameter if self._parameter > 0.0 else math.nan

    @property
    def passed(self) -> bool:
        """Whether the claim survives, up to 1e-12 and float64 rounding (1e-8 where an integral was
        computed).
        """
        pure = isinstance(self.claimed, PureDP)
        slack = _SLACK_OF_SUPREMUM if pure else _SLACK_OF_INTEGRAL
        return bool(self.attained <= self._parameter * (1.0 + slack) + self.rounding)

    def describe(self) -> str:
        name = next(iter(self.claimed.parameters))
        return (
            f"{type(self.claimed).__name__} {name}: claimed {self._parameter:.6g}, attained"
            f" {self.attained:.6g}"
        )

    @property
    def _parameter(self) -> float:
        return float(next(iter(self.claimed.parameters.values())))


def privacy_loss(
    mechanism: AbstractMechanism,
    *,
    width: int = 1,
    neighbours: tuple[Float[Array, "pairs k"], Float[Array, "pairs k"]] | None = None,
    outputs: Float[Array, "rows kp"] | None = None,
) -> PrivacyLoss:
    """Compare a mechanism's claim with the loss that its density attains.

    Pure claims are checked for any number of columns; zCDP and GDP claims need an output of one
    column, which loses nothing for noise whose law depends on s only through the distance
    |s - s'|_2.

    Args:
        mechanism: The mechanism, with a density and a guarantee.
        width: The number of columns of s, ignored where the mechanism fixes it.
        neighbours: Pairs (s, s') to compare, two arrays of shape (pairs, k); by default the
            mechanism's own extreme pairs.
        outputs: Rows of s_dp among which the loss is largest, shape (rows, k'). Only a mechanism
            without a transport, such as `DensityMechanism`, needs them.

    Raises:
        MissingCapabilityError: If the claim is of another kind, or outputs are needed.
        InvalidInputError: If no output is possible under either statistic.

    >>> import noisewise as nw
    >>> privacy_loss(nw.mechanisms.Laplace(scale=0.5, sensitivity=1.0), width=3)
    PrivacyLoss(passed; PureDP epsilon: claimed 2, attained 2)
    """
    if not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(f"privacy_loss audits a mechanism, got {type(mechanism).__name__}.")
    width = mechanism.width or integer("width", at_least=1)(width)
    first, second = mechanism.adjacent_pairs(width) if neighbours is None else neighbours
    pairs = list(zip(np.atleast_2d(first), np.atleast_2d(second), strict=True))
    claimed = mechanism.guarantee
    found = [_attained(mechanism, claimed, s, other, outputs) for s, other in pairs]
    worst = max(range(len(pairs)), key=lambda i: found[i][0])
    return PrivacyLoss(claimed, *found[worst], pairs[worst])


def _attained(
    mechanism: AbstractMechanism,
    claimed: AbstractGuarantee,
    s: np.ndarray,
    other: np.ndarray,
    outputs: Any,
) -> tuple[float, float]:
    """The claim's parameter between two statistics, and a bound on its rounding error."""
    if isinstance(claimed, PureDP):
        return pure_loss(mechanism, s, other, outputs)
    if isinstance(claimed, ZeroConcentratedDP):
        losses = renyi_divergence(mechanism, s, other, _ORDERS) / np.asarray(_ORDERS)
        return float(np.max(losses)), 0.0
    if isinstance(claimed, GaussianDP):
        epsilons = np.concatenate([claimed.mu * _NEAR, claimed.mu * _FAR + claimed.mu**2 / 2])
        return max(map(_mu, epsilons, hockey_stick(mechanism, s, other, epsilons))), 0.0
    raise MissingCapabilityError(
        "privacy_loss audits PureDP, ZeroConcentratedDP and GaussianDP claims, got"
        f" {type(claimed).__name__}; use hockey_stick for one epsilon."
    )


def _mu(epsilon: float, delta: float) -> float:
    """The mu whose curve passes through (epsilon, delta)."""
    if delta <= 0.0:
        return 0.0
    if delta >= 1.0:
        return math.inf
    return GaussianDP.from_approximate(ApproximateDP(epsilon, delta)).mu


def pure_loss(
    mechanism: AbstractMechanism,
    s: Float[Array, " k"],
    other: Float[Array, " k"],
    outputs: Float[Array, "rows kp"] | None = None,
) -> tuple[float, float]:
    """The largest |log p - log q| over outputs, and a bound on its rounding error.

    Args:
        mechanism: The mechanism, with a density.
        s: One statistic, shape (k,).
        other: Its neighbour, shape (k,).
        outputs: Where to compare, shape (rows, k'); by default a scan finds the supremum.

    >>> import noisewise as nw
    >>> attained, rounding = pure_loss(nw.mechanisms.Laplace(scale=0.5), [0.0], [1.0])
    >>> round(attained, 9), rounding < 1e-12
    (2.0, True)
    """
    s, other = np.asarray(s, dtype=float), np.asarray(other, dtype=float)
    if outputs is None and Capability.TRANSPORT not in mechanism.capabilities:
        raise MissingCapabilityError(
            f"{type(mechanism).__name__} cannot be drawn, so the audit does not know where its"
            " outputs lie: pass outputs=, rows of s_dp among which the loss is largest."
        )
    outputs = scan(mechanism, s, other) if outputs is None else np.asarray(outputs, dtype=float)
    p, q = mechanism.log_prob(outputs, s), mechanism.log_prob(outputs, other)
    possible = (p > -np.inf) | (q > -np.inf)
    if not possible.any():
        raise InvalidInputError(
            "None of the outputs is possible under either statistic: pass outputs= on the support."
        )
    p, q = p[possible], q[possible]
    sizes = np.maximum(np.abs(p), np.abs(q))
    rounding = _ULPS * np.finfo(float).eps * sizes[np.isfinite(sizes)].max(initial=0.0)
    return float(np.abs(p - q).max()), float(rounding)


def hockey_stick(
    mechanism: AbstractMechanism,
    s: Float[Array, " k"],
    other: Float[Array, " k"],
    epsilons: Sequence[float] | Float[np.ndarray, " m"],
) -> Float[np.ndarray, " m"]:
    """delta(epsilon) between two statistics, the larger of the two directions.

    Args:
        mechanism: The mechanism, with a density and an output of one column.
        s: One statistic, shape (k,).
        other: Its neighbour, shape (k,).
        epsilons: Where delta is asked for.

    Returns:
        One delta per epsilon.

    Raises:
        MissingCapabilityError: If the output has several columns.

    >>> import noisewise as nw
    >>> gaussian = nw.mechanisms.Gaussian(scale=1.0, sensitivity=1.0)
    >>> delta = hockey_stick(gaussian, [0.0], [1.0], [1.0])[0]
    >>> round(float(delta / gaussian.guarantee.delta(1.0)), 9)
    1.0
    """
    epsilons = np.asarray(epsilons, dtype=float)
    grid = _cells(mechanism, s, other)
    if np.ptp(grid.log_weights) > 0:
        kinks = _crossings(mechanism, s, other, np.sort(grid.points), epsilons)
        grid = _cells(mechanism, s, other, kinks=kinks)
    p, q = _masses(mechanism, grid, s), _masses(mechanism, grid, other)
    with np.errstate(over="ignore"):
        return np.array(
            [max(_excess(p, q, epsilon), _excess(q, p, epsilon)) for epsilon in epsilons]
        )


def _excess(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(0.0, np.exp(p) - np.exp(epsilon + q)).sum())


def _crossings(
    mechanism: AbstractMechanism, s: Array, other: Array, points: np.ndarray, epsilons: np.ndarray
) -> np.ndarray:
    """The outputs where log p - log q passes epsilon or -epsilon, by bisection: the integrands of
    the hockey stick bend there.
    """

    def loss(y: np.ndarray) -> np.ndarray:
        p, q = mechanism.log_prob(y[:, None], s), mechanism.log_prob(y[:, None], other)
        return np.subtract(p, q, out=np.zeros_like(p), where=(p > -np.inf) | (q > -np.inf))

    levels = np.unique(np.concatenate([epsilons, -epsilons]))[:, None] + _ABOVE_LEVEL
    above = loss(points) > levels
    which, index = np.nonzero(above[:, 1:] != above[:, :-1])
    rises, level = above[which, index + 1], levels[which, 0]
    low, high = points[index], points[index + 1]
    padding = np.full(-index.size % _BATCH, points[0])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        beyond = (loss(np.concatenate([middle, padding]))[: index.size] > level) == rises
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return high


def renyi_divergence(
    mechanism: AbstractMechanism,
    s: Float[Array, " k"],
    other: Float[Array, " k"],
    orders: Sequence[float],
) -> Float[np.ndarray, " m"]:
    """D_alpha between two statistics, the larger of the two directions.

    Args:
        mechanism: The mechanism, with a density and an output of one column.
        s: One statistic, shape (k,).
        other: Its neighbour, shape (k,).
        orders: The alphas, at least 1.

    Returns:
        One divergence per order; infinite where an output is possible under one statistic only.

    Raises:
        InvalidInputError: If an order is below 1.
        MissingCapabilityError: If the output has several columns.

    >>> import noisewise as nw
    >>> gaussian = nw.mechanisms.Gaussian(scale=2.0, sensitivity=1.0)
    >>> renyi_divergence(gaussian, [0.0], [1.0], [1.0, 2.0, 4.0]).round(9).tolist()
    [0.125, 0.25, 0.5]
    """
    if min(orders) < 1.0:
        raise InvalidInputError(f"orders must be at least 1, got {min(orders):g}.")
    grid = _cells(mechanism, s, other, tilt=max(orders))
    p, q = _masses(mechanism, grid, s), _masses(mechanism, grid, other)
    return np.max(
        [[_divergence(a, b, order) for order in orders] for a, b in ((p, q), (q, p))], axis=0
    )


def _divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """D_alpha from the logs of the cells' masses."""
    p, q = p[p > -np.inf], q[p > -np.inf]
    if np.any(q == -np.inf):
        return math.inf
    if order == 1.0:
        return float(np.sum(np.exp(p) * (p - q)))
    return float(logsumexp(order * p + (1.0 - order) * q) / (order - 1.0))


def _cells(
    mechanism: AbstractMechanism,
    s: Array,
    other: Array,
    *,
    tilt: float = 0.0,
    kinks: np.ndarray | None = None,
) -> Cells:
    s, other = np.asarray(s, dtype=float), np.asarray(other, dtype=float)
    if mechanism.output_width(s.shape[-1]) != 1:
        raise MissingCapabilityError(
            "Integrals of the privacy loss need an output of one column: audit with width=1."
        )
    return cells(
        mechanism, np.stack([s, other]), tilt=tilt, kinks=np.empty(0) if kinks is None else kinks
    )


def _masses(mechanism: AbstractMechanism, grid: Cells, s: Array) -> np.ndarray:
    """The log of density times cell weight, one per cell."""
    return mechanism.log_prob(grid.points[:, None], np.asarray(s, dtype=float)) + grid.log_weights
