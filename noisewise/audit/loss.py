r"""The privacy loss that a mechanism's own density implies, computed over neighbouring statistics.

Between neighbours s and s', with p = eta(. | s) and q = eta(. | s'):

    pure loss         sup_y |log p(y) - log q(y)|
    hockey stick      delta(epsilon) = integral of max(0, p - e^epsilon q)
    Renyi divergence  D_alpha = log integral of p^alpha q^(1-alpha) / (alpha - 1)

Nothing here knows the formula of any mechanism: a wrong density, scale or sensitivity shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from noisewise._arrays import integer
from noisewise.audit.outputs import Cells, cells, scan
from noisewise.audit.verdict import AbstractVerdict
from noisewise.errors import InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.guarantees import (
    AbstractGuarantee,
    ApproximateDP,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
)

_ORDERS = (1.5, 2.0, 3.0, 4.0, 8.0, 16.0)


@dataclasses.dataclass(frozen=True, repr=False)
class PrivacyLoss(AbstractVerdict):
    """What a mechanism claims and what its density attains over the neighbours looked at.

    `attained` is of the same kind as `claimed`. `rounding` bounds the float64 error of the attained parameter, from the size of the
    logarithms that were subtracted. `neighbours` holds the pair (s, s') where the loss was largest.
    """

    claimed: AbstractGuarantee
    attained: AbstractGuarantee
    rounding: float
    neighbours: tuple[np.ndarray, np.ndarray]

    @property
    def ratio(self) -> float:
        """Attained over claimed: above 1 the claim is false, far below 1 the noise is larger than it need be."""
        return dataclasses.astuple(self.attained)[0] / dataclasses.astuple(self.claimed)[0]

    @property
    def passed(self) -> bool:
        """Whether the claim survives, up to 1e-12 and float64 rounding (1e-8 where an integral was computed)."""
        slack = 1e-12 if isinstance(self.claimed, PureDP) else 1e-8
        claimed, attained = dataclasses.astuple(self.claimed)[0], dataclasses.astuple(self.attained)[0]
        return bool(attained <= claimed * (1.0 + slack) + self.rounding)

    def describe(self) -> str:
        claimed, attained = dataclasses.astuple(self.claimed)[0], dataclasses.astuple(self.attained)[0]
        name = dataclasses.fields(self.claimed)[0].name
        return f"{type(self.claimed).__name__} {name}: claimed {claimed:.6g}, attained {attained:.6g}"


def privacy_loss(
    mechanism: AbstractMechanism,
    *,
    width: int = 1,
    neighbours: tuple[Any, Any] | None = None,
    outputs: Any = None,
) -> PrivacyLoss:
    """Compare a mechanism's claim with the loss its density attains.

    `neighbours` is a pair of arrays (pairs, k); without it the mechanism's own extreme pairs of `width` columns are
    used (`width` is ignored where the mechanism fixes it). A mechanism without a transport, such as `DensityMechanism`, needs the
    `outputs` (rows, k') to look at. Pure claims are checked for any number of columns; zCDP and GDP claims
    need an output of one column, which loses nothing for noise whose law depends on s only through the distance
    |s - s'|_2.

    >>> import noisewise as nw
    >>> privacy_loss(nw.mechanisms.Laplace(scale=0.5, sensitivity=1.0), width=3)
    PrivacyLoss(passed; PureDP epsilon: claimed 2, attained 2)
    """
    if not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(f"privacy_loss audits a mechanism, got {type(mechanism).__name__}.")
    width = mechanism.width or integer("width", at_least=1)(width)
    first, second = mechanism.neighbours(width) if neighbours is None else neighbours
    pairs = list(zip(np.atleast_2d(first), np.atleast_2d(second), strict=True))
    claimed = mechanism.guarantee
    found = [_attained(mechanism, claimed, s, other, outputs) for s, other in pairs]
    worst = max(range(len(pairs)), key=lambda i: dataclasses.astuple(found[i][0])[0])
    return PrivacyLoss(claimed, *found[worst], pairs[worst])


def _attained(
    mechanism: AbstractMechanism, claimed: AbstractGuarantee, s: np.ndarray, other: np.ndarray, outputs: Any
) -> tuple[AbstractGuarantee, float]:
    if isinstance(claimed, PureDP):
        epsilon, rounding = pure_loss(mechanism, s, other, outputs)
        return PureDP(epsilon), rounding
    if isinstance(claimed, ZeroConcentratedDP):
        divergences = renyi_divergence(mechanism, s, other, _ORDERS)
        return ZeroConcentratedDP(float(np.max(divergences / np.asarray(_ORDERS)))), 0.0
    if isinstance(claimed, GaussianDP):
        epsilons = claimed.mu * np.array([0.25, 0.5, 1.0, 2.0]) + claimed.mu**2 / 2
        deltas = hockey_stick(mechanism, s, other, epsilons)
        curve = [ApproximateDP(e, d) for e, d in zip(epsilons, deltas, strict=True) if d > 0.0]
        return GaussianDP(max((GaussianDP.from_approximate(point).mu for point in curve), default=0.0)), 0.0
    raise MissingCapabilityError(
        f"privacy_loss audits PureDP, ZeroConcentratedDP and GaussianDP claims, got {type(claimed).__name__}; "
        "use hockey_stick for one epsilon."
    )


def pure_loss(mechanism: AbstractMechanism, s: Any, other: Any, outputs: Any = None) -> tuple[float, float]:
    """The largest |log p - log q| over outputs, and a bound on its rounding error."""
    if outputs is None and Capability.TRANSPORT not in mechanism.capabilities:
        raise MissingCapabilityError(
            f"{type(mechanism).__name__} cannot be drawn, so the audit does not know where its outputs lie: pass outputs=, "
            "rows of s_dp among which the loss is largest."
        )
    outputs = scan(mechanism, np.stack([s, other])) if outputs is None else np.asarray(outputs, dtype=float)
    p, q = mechanism.log_prob(outputs, s), mechanism.log_prob(outputs, other)
    possible = (p > -np.inf) | (q > -np.inf)
    p, q = p[possible], q[possible]
    loss = np.abs(p - q)
    sizes = np.maximum(np.abs(p), np.abs(q))
    return float(loss.max()), float(8 * np.finfo(float).eps * sizes[np.isfinite(sizes)].max())


def hockey_stick(
    mechanism: AbstractMechanism, s: Any, other: Any, epsilons: Sequence[float] | np.ndarray
) -> np.ndarray:
    """delta(epsilon) between two statistics, the larger of the two directions; outputs of one column.

    >>> import noisewise as nw
    >>> gaussian = nw.mechanisms.Gaussian(scale=1.0, sensitivity=1.0)
    >>> delta = hockey_stick(gaussian, [0.0], [1.0], [1.0])[0]
    >>> round(float(delta / gaussian.guarantee.delta(1.0)), 9)
    1.0
    """
    s, other = np.asarray(s, dtype=float), np.asarray(other, dtype=float)
    return np.array(
        [max(_excess(mechanism, s, other, e), _excess(mechanism, other, s, e)) for e in np.asarray(epsilons, float)]
    )


def _excess(mechanism: AbstractMechanism, s: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """The integral of max(0, p - e^epsilon q), with panel edges where the two cross."""

    def gap(y: Any) -> np.ndarray:
        y = np.atleast_1d(y)[:, None]
        with np.errstate(invalid="ignore"):
            return mechanism.log_prob(y, s) - mechanism.log_prob(y, other) - epsilon

    grid = _cells(mechanism, s, other)
    order = np.sort(grid.points)
    signs = np.sign(gap(order))
    left = np.flatnonzero(signs[1:] * signs[:-1] < 0)
    if left.size and np.ptp(grid.log_weights) > 0:
        crossings = [brentq(lambda y: gap(y)[0], order[i], order[i + 1], xtol=1e-14, rtol=1e-14) for i in left]
        grid = _cells(mechanism, s, other, kinks=np.array(crossings))
    p, q = _masses(mechanism, grid, s), _masses(mechanism, grid, other)
    return float(np.maximum(0.0, np.exp(p) - np.exp(epsilon + q)).sum())


def renyi_divergence(mechanism: AbstractMechanism, s: Any, other: Any, orders: Sequence[float]) -> np.ndarray:
    """D_alpha between two statistics, the larger of the two directions; outputs of one column.

    >>> import noisewise as nw
    >>> gaussian = nw.mechanisms.Gaussian(scale=2.0, sensitivity=1.0)
    >>> renyi_divergence(gaussian, [0.0], [1.0], [2.0, 4.0]).round(9).tolist()
    [0.25, 0.5]
    """
    grid = _cells(mechanism, s, other, reach=2.0 + max(orders))
    p, q = _masses(mechanism, grid, s), _masses(mechanism, grid, other)
    p, q = p[np.isfinite(p) & np.isfinite(q)], q[np.isfinite(p) & np.isfinite(q)]
    both = [[logsumexp(a * x + (1.0 - a) * y) / (a - 1.0) for a in orders] for x, y in ((p, q), (q, p))]
    return np.max(both, axis=0)


def _cells(
    mechanism: AbstractMechanism, s: Any, other: Any, *, reach: float = 3.0, kinks: np.ndarray | None = None
) -> Cells:
    s, other = np.asarray(s, dtype=float), np.asarray(other, dtype=float)
    if mechanism.output_width(s.shape[-1]) != 1:
        raise MissingCapabilityError("Integrals of the privacy loss need an output of one column: audit with width=1.")
    return cells(mechanism, np.stack([s, other]), reach=reach, kinks=np.empty(0) if kinks is None else kinks)


def _masses(mechanism: AbstractMechanism, grid: Cells, s: Any) -> np.ndarray:
    """log of density times cell weight."""
    return mechanism.log_prob(grid.points[:, None], np.asarray(s, dtype=float)) + grid.log_weights
