"""Profile intervals: the values of one parameter that some values of the others make likely."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_EXPAND = 1.5
"""Factor by which a step that does not reach the drop is lengthened."""
_FARTHEST = 60.0
"""Standard errors: a likelihood that has not dropped by then is taken not to drop at all."""
_PRECISE = 1e-4
"""Standard errors to which an end is found."""

Value = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""The log likelihood of unconstrained coordinates, and its gradient."""


@dataclasses.dataclass(frozen=True)
class Summit:
    """The highest point of a likelihood.

    Attributes:
        value: The log likelihood and its gradient.
        z: Where it is highest, shape (d,).
        information: Minus the second derivatives there.
    """

    value: Value
    z: Float[np.ndarray, " d"]
    information: Float[np.ndarray, "d d"]

    def ends(self, j: int, drop: float) -> tuple[float, float]:
        """Where the profile of coordinate j, the largest log likelihood given z_j, has dropped.

        Args:
            j: The coordinate.
            drop: By how much, in nats.

        Returns:
            The lower and the upper end; infinite where it never does.
        """
        return self._end(j, drop, -1.0), self._end(j, drop, 1.0)

    def _end(self, j: int, drop: float, side: float) -> float:
        """The signed root of the drop is about linear in z_j, so that a few steps find the end."""
        from scipy.optimize import brentq

        profile = _Profile(self, j)
        size, wanted = math.sqrt(profile.variance), math.sqrt(2.0 * drop)

        def missing(steps: float) -> float:
            return profile.root_of_drop(side * steps * size) - wanted

        low, high = 0.0, wanted
        while missing(high) < 0.0:
            low, high = high, _EXPAND * high
            if high > _FARTHEST:
                return side * math.inf
        found = brentq(missing, low, high, xtol=_PRECISE)
        return float(self.z[j] + side * found * size)


class _Profile:
    """The largest log likelihood where one coordinate is held; each search starts where the last
    one ended.
    """

    def __init__(self, summit: Summit, j: int) -> None:
        covariance = np.linalg.inv(summit.information)
        self._summit, self._j = summit, j
        self.variance = float(covariance[j, j])
        self._path = covariance[:, j] / self.variance
        self._rest = np.arange(len(summit.z)) != j
        inner = summit.information[np.ix_(self._rest, self._rest)]
        # coordinates in which the likelihood is about round
        self._round = np.linalg.inv(np.linalg.cholesky(inner)).T
        self._best = summit.value(summit.z)[0]
        self._last = np.zeros(len(summit.z) - 1)

    def root_of_drop(self, move: float) -> float:
        """The root of twice the drop, where the coordinate is moved by so much."""
        from scipy.optimize import minimize

        start = self._summit.z + move * self._path

        def falling(u: np.ndarray) -> tuple[float, np.ndarray]:
            z = start.copy()
            z[self._rest] += self._round @ u
            value, gradient = self._summit.value(z)
            if not math.isfinite(value):
                return 1e300, np.zeros_like(u)
            return self._best - value, -self._round.T @ gradient[self._rest]

        if not self._rest.any():
            return math.sqrt(max(0.0, 2.0 * falling(self._last)[0]))
        found = minimize(falling, self._last, jac=True, method="BFGS", options={"gtol": 1e-5})
        self._last = found.x if math.isfinite(found.fun) else self._last
        return math.sqrt(max(0.0, 2.0 * float(found.fun)))
