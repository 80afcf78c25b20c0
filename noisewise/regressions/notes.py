"""What to know of a regression before it is run; none of it is an error: proper priors bear it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from noisewise.mechanisms.base import AbstractMechanism
from noisewise.posteriors import Finding, Kind
from noisewise.regressions.formulas import Design

_SEPARATES = 1e-6
"""Largest total margin of a separation that is called none: the tolerance of linear programs."""
_MANY_ROWS = 100_000
"""Rows beyond which separation is not looked for: it is next to impossible, and takes seconds."""


def groups_of_one(design: Design) -> Iterator[Finding]:
    """That groups have a single row, whose effects their common law alone tells from noise."""
    for effect in design.effects:
        sizes = np.bincount(effect.group, minlength=len(effect.labels))
        alone = np.flatnonzero(sizes == 1)
        if alone.size:
            numbers = {
                "name": effect.name,
                "num": int(alone.size),
                "groups": len(effect.labels),
                "example": effect.labels[alone[0]],
            }
            yield Finding(Kind.GROUPS_OF_ONE_ROW, numbers)


def separation(
    design: Design, mechanism: AbstractMechanism, observed: Float[np.ndarray, " n"]
) -> Iterator[Finding]:
    """That columns separate yes from no where answers have no noise: some coefficients b have
    x_i b >= 0 for all yes and <= 0 for all no, so that the likelihood rises without end along b.

    Reference: Albert and Anderson (1984), Biometrika 71, 1-10.
    """
    known = ~np.isnan(observed)
    if mechanism.unknown or len(observed) > _MANY_ROWS or not design.columns:
        return
    exact = known & (np.array(mechanism.noise_sd(len(observed)), dtype=float) == 0.0)
    if not exact.any() or (exact != known).any() or not np.isin(observed[known], (0, 1)).all():
        return
    x = np.concatenate([part.values for part in design.columns], axis=1)[exact]
    sizes = np.abs(x).max(axis=0)
    toward = (2.0 * observed[exact] - 1.0)[:, None] * (x / np.where(sizes > 0.0, sizes, 1.0))
    direction = _separating(toward)
    if direction is None:
        return
    names = [
        f"{part.name}[{label}]" if label else part.name
        for part in design.columns
        for label in (part.labels or ("",))
    ]
    chosen = [names[j] for j in np.flatnonzero(np.abs(direction) > _SEPARATES)]
    yield Finding(Kind.SEPARATION, {"names": chosen})


def _separating(toward: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " m"] | None:
    """The direction of the largest total margin among those that no row speaks against."""
    from scipy.optimize import linprog

    found = linprog(
        -toward.sum(axis=0), A_ub=-toward, b_ub=np.zeros(len(toward)), bounds=(-1.0, 1.0)
    )
    if not found.success or -found.fun < _SEPARATES * len(toward):
        return None
    return np.asarray(found.x)
