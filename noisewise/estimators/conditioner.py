"""What networks see of a condition: a fitted prediction of the target, and the columns, robustly
scaled.
"""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import Array, numpy_of
from noisewise.estimators.parameter_scale import ParameterScale
from noisewise.estimators.whitening import Affine, blocks

_HEAVY = 2.5
"""Standard deviation over half the interquartile range from which a column has heavy tails: 1.5 for
a normal law, 2.0 for Laplace's, 3.0 for a log-normal one of scale 1.
"""
_ENDS = (0.005, 0.995)
"""Quantiles that stand for the ends of a column: twenty of 4,000 rows lie beyond them."""
_ONE_SIDED = 4.0
"""Ratio of the median's distances from both ends from which one tail alone is heavy, as of counts
whose rates vary by factors.
"""
_KNOTS = (0.25, 0.5, 0.75)
"""Quantiles of a column at which its contribution may bend: four pieces follow any smooth curve of
one sign of curvature to a tenth of its range.
"""
NUM_KNOTS = len(_KNOTS)
"""Knots of each column."""
_ROWS_PER_COEFFICIENT = 4
"""Rows for each coefficient below which no contribution bends: as in `Whitening`."""
_PENALTIES = (*(10.0 ** np.arange(-6.0, 2.1, 0.5)), np.inf)
"""Ridge penalties that are tried, in units of the largest eigenvalue of the columns' covariance:
from one that only settles collinear columns to one that leaves nothing.
"""
_NEGLIGIBLE = 1e-9
"""Standard deviation of a prediction, in those of its target, below which it says nothing."""


class Conditioner(eqx.Module):
    r"""A map of conditions c (..., w) to the (..., d + w) columns that networks see,

        (E(target | u), u),    u = (t(c) - mean) / sd.

    t is the identity or, for a column with heavy tails, arcsinh((c - median) / half the
    interquartile range). Where one tail alone is heavy, as of counts of many rates, the light end
    stands for the median and half its distance from the farther quartile for the width: t is then
    nearer to a logarithm. The prediction of the d targets is a sum of functions of single columns,
    linear or bent at their quartiles, by ridge regression, and has unit variance. Networks then
    need not find among many columns what least squares finds at once, and overfit less. Columns
    that do not vary become 0.

    >>> rng = np.random.default_rng(0)
    >>> c = rng.standard_cauchy(size=(1000, 2))
    >>> target = np.arcsinh(c[:, :1]) + 0.1 * rng.normal(size=(1000, 1))
    >>> seen = Conditioner.fit(c, target)(c)
    >>> seen.shape, bool(np.corrcoef(seen[:, 0], target[:, 0])[0, 1] > 0.99)
    ((1000, 3), True)
    """

    centre: Float[Array, " w"]
    """The median of columns with heavy tails, or the light end of those with one."""
    inverse_width: Float[Array, " w"]
    """One over half their interquartile range, or over half the distance from that end to the
    farther quartile; 0 for columns without heavy tails.
    """
    scale: Affine
    """Standardises t(c)."""
    knots: Float[Array, "w j"]
    """Where contributions bend, in standardised columns."""
    coefficients: Float[Array, "q d"]
    """Of 1, the columns u, and the excess of each over its knots."""

    @staticmethod
    def fit(condition: Float[np.ndarray, "n w"], target: Float[np.ndarray, "n d"]) -> Conditioner:
        """The map for conditions like these, which predicts targets like these.

        Args:
            condition: Conditions, shape (n, w).
            target: Targets, shape (n, d).

        Returns:
            The map; each target has the penalty that generalised cross-validation finds best.
        """
        centre, inverse_width = _tails(condition)
        scale = Affine.fit(_tamed(condition, centre, inverse_width))
        u = scale(_tamed(condition, centre, inverse_width))
        knots = np.quantile(u, _KNOTS, axis=0).T
        coefficients = _regression(u, knots, target)
        return Conditioner(centre, inverse_width, scale, knots, coefficients)

    @property
    def num_columns(self) -> int:
        """w, the columns of a condition."""
        return self.centre.shape[0]

    @property
    def num_seen(self) -> int:
        """d + w, the columns that networks see."""
        return self.num_columns + self.coefficients.shape[1]

    @property
    def inverse_sd(self) -> Float[Array, " w"]:
        """How fast each column changes at its centre."""
        heavy = self.inverse_width > 0.0
        return self.scale.inverse_sd * np.where(heavy, self.inverse_width, 1.0)

    def __call__(self, values: Float[Array, "*n w"]) -> Float[Array, "*n d+w"]:
        """What networks see of conditions (..., w)."""
        u = self.scale(_tamed(values, self.centre, self.inverse_width))
        xp = numpy_of(values)
        return xp.concatenate([_terms(u, self.knots) @ self.coefficients, u], axis=-1)


Scale = Affine | ParameterScale | Conditioner
"""What makes of conditions the columns that networks see."""


def _tails(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre and one over the width of columns with heavy tails, 0 for others: the median and half
    the interquartile range or, where one tail alone is heavy, the other end and half its distance
    from the farther quartile. Where half of the values are equal, the mean distance from the median
    stands in.
    """
    levels = (_ENDS[0], 0.25, 0.5, 0.75, _ENDS[1])
    start, low, centre, high, end = np.quantile(values, levels, axis=0)
    sd, width = values.std(axis=0), 0.5 * (high - low)
    width = np.where(width > 0.0, width, np.abs(values - centre).mean(axis=0))
    heavy: Bool[np.ndarray, " w"] = (sd > _HEAVY * width) & (width > 0.0)
    right = end - centre > _ONE_SIDED * (centre - start)
    left = centre - start > _ONE_SIDED * (end - centre)
    reach = 0.5 * np.select([right, left], [high - start, end - low], high - low)
    width = np.where(reach > 0.0, reach, width)
    centre = np.select([right, left], [start, end], centre)
    return centre, np.where(heavy, 1.0 / np.where(heavy, width, 1.0), 0.0)


def _tamed(values: Array, centre: Array, inverse_width: Array) -> Array:
    """The columns, those with heavy tails as an inverse hyperbolic sine."""
    xp = numpy_of(values)
    tamed: Array = xp.arcsinh((values - centre) * inverse_width)
    return xp.where(inverse_width > 0.0, tamed, values)


def _terms(u: Array, knots: Array) -> Array:
    """1, the columns u (..., w), and the excess of each over each of its knots."""
    xp = numpy_of(u)
    excess = xp.maximum(u[..., None] - knots, 0.0)
    flat = excess.reshape(*u.shape[:-1], -1)
    return xp.concatenate([xp.ones((*u.shape[:-1], 1)), u, flat], axis=-1)


def _regression(u: np.ndarray, knots: np.ndarray, target: np.ndarray) -> Float[np.ndarray, "q d"]:
    """Coefficients of a prediction with mean 0 and variance 1: linear in u, then, of what that
    leaves, bent where there are rows enough.
    """
    num, dim = len(u), target.shape[1]
    num_terms = 1 + u.shape[1] * (1 + knots.shape[1])
    moments = np.zeros((num_terms + dim, num_terms + dim))
    for block in blocks(num):
        columns = np.concatenate([_terms(u[block], knots), target[block]], axis=1)
        moments += columns.T @ columns / num
    found = np.zeros((num_terms, dim))
    linear = 1 + u.shape[1]
    for used in (linear, num_terms):
        if used == linear or _ROWS_PER_COEFFICIENT * num_terms <= num:
            away = np.concatenate([-found, np.eye(dim)])  # what is left of the targets
            found[:used] += _ridge(moments, away, used, num)
    covariance = moments - np.outer(moments[0], moments[0])
    explained = np.einsum("qd,qr,rd->d", found, covariance[:num_terms, :num_terms], found)
    total = np.diag(covariance)[num_terms:]
    says = explained > _NEGLIGIBLE**2 * total
    found[0] -= moments[0, :num_terms] @ found
    return found * np.where(says, 1.0 / np.sqrt(np.where(says, explained, 1.0)), 0.0)


def _ridge(
    moments: np.ndarray, away: np.ndarray, used: int, num: int
) -> Float[np.ndarray, "used d"]:
    """Ridge regression of targets on the first `used` terms, of which the first is 1.

        min over penalties of   residual variance / (1 - degrees of freedom / n)^2

    Args:
        moments: Mean products of all terms and targets.
        away: The targets as combinations of those, shape (q + d, d).
        used: How many terms to use.
        num: n, the number of rows they come from.
    """
    mean = moments[0]
    covariance = moments - np.outer(mean, mean)
    cross, total = covariance[1:used] @ away, np.einsum("id,ij,jd->d", away, covariance, away)
    values, vectors = np.linalg.eigh(covariance[1:used, 1:used])
    values = np.maximum(values, 0.0)
    along = vectors.T @ cross
    best, found = np.full(len(total), np.inf), np.zeros((used - 1, len(total)))
    largest = values.max(initial=0.0) or 1.0
    for penalty in _PENALTIES:
        inverse = 1.0 / (values + penalty * largest)
        freedom = 1.0 + (values * inverse).sum()
        left = total - (along**2 * (2.0 * inverse - values * inverse**2)[:, None]).sum(axis=0)
        score = left / (1.0 - freedom / num) ** 2 if freedom < num else np.full(len(total), np.inf)
        better = score < best
        best = np.where(better, score, best)
        found[:, better] = (vectors @ (inverse[:, None] * along))[:, better]
    return np.concatenate([(mean @ away - mean[1:used] @ found)[None], found])
