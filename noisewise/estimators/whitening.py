"""Standardisation of conditions and of targets: what is learnt has zero mean and unit covariance to
start with.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError

_CONSTANT = 1e-9
"""Standard deviation over mean below which a column counts as constant: rounding of float64 sums.
"""
_RIDGE = 1e-6
"""Penalty of the regression per row, where standardised columns have a variance of 1: it decides
between columns that depend on each other, and changes nothing else.
"""
_ROWS = 65_536
"""Rows taken at a time: a block of 100 columns takes 50 MB."""


class Affine(eqx.Module):
    """(x - mean) / sd in each column of a condition; columns that do not vary become 0."""

    mean: Float[Array, " w"]
    inverse_sd: Float[Array, " w"]

    @staticmethod
    def fit(values: Float[np.ndarray, "n w"]) -> Affine:
        """The standardisation of the columns of values (n, w)."""
        values = _checked(values, "values")
        mean, sd = values.mean(axis=0), np.sqrt(_variance(values))
        varies = sd > _CONSTANT * np.maximum(np.abs(mean), 1e-300)
        return Affine(mean, np.where(varies, 1.0 / np.where(varies, sd, 1.0), 0.0))

    @property
    def num_columns(self) -> int:
        """w, the columns of a condition."""
        return self.mean.shape[0]

    @property
    def num_seen(self) -> int:
        """The columns that networks see: the same."""
        return self.num_columns

    def __call__(self, values: Float[Array, "*n w"]) -> Float[Array, "*n w"]:
        """Standardised values, of the same shape (..., w)."""
        return (values - self.mean) * self.inverse_sd


class Whitening(eqx.Module):
    r"""standard = L^-1 (target - mean(condition)), a change of variables for each condition.

    The mean is a polynomial of `degree` 0, 1 or 2 in the standardised condition, fitted by least
    squares, L L' the covariance of what it leaves. A flow then starts from the best linear-Gaussian
    (or quadratic-Gaussian) description of the data, and learns the rest. The fit decides how fast
    that is, not what is learnt: the map is a bijection with constant Jacobian 1 / |det L|.

    >>> rng = np.random.default_rng(0)
    >>> c = rng.normal(size=(1000, 2))
    >>> target = 3.0 + c @ np.array([[1.0], [2.0]]) + 0.1 * rng.normal(size=(1000, 1))
    >>> whitening = Whitening.fit(target, c, degree=1)
    >>> standard = whitening.forward(target, c)
    >>> bool(abs(standard.std() - 1.0) < 1e-3)
    True
    >>> bool(np.allclose(whitening.inverse(standard, c), target))
    True
    """

    coefficients: Float[Array, "q d"]
    """Of the mean, by `num_features` polynomials q of the condition."""
    root: Float[Array, "d d"]
    """L."""
    inverse_root: Float[Array, "d d"]
    degree: int = eqx.field(static=True)

    @staticmethod
    def fit(
        target: Float[np.ndarray, "n d"], condition: Float[np.ndarray, "n w"], *, degree: int = 1
    ) -> Whitening:
        """Fit the regression of targets on conditions, and the covariance of what it leaves.

        Rows are taken in blocks, so that a fit to a million of them needs no memory of its own.

        Args:
            target: Targets, shape (n, d).
            condition: Standardised conditions, shape (n, w).
            degree: 0 for a constant mean, 1 for a linear one, 2 for a quadratic one; lower ones are
                used where there are not 4 rows per coefficient.

        Returns:
            The change of variables.

        Raises:
            InvalidInputError: If there are fewer than 2 rows, or any entry is not finite.
        """
        target, condition = _checked(target, "target"), _checked(condition, "condition")
        num = num_features(condition.shape[1], degree)
        used = next(
            (
                fewer
                for lower in range(degree, 0, -1)
                if 4 * (fewer := num_features(condition.shape[1], lower)) <= len(target)
            ),
            1,
        )
        parts = blocks(len(target))
        gram, cross = np.zeros((used, used)), np.zeros((used, target.shape[1]))
        for block in parts:
            active = _features(condition[block], degree)[:, :used]
            gram += active.T @ active
            cross += active.T @ target[block]
        gram += _RIDGE * len(target) * np.diag(np.r_[0.0, np.ones(used - 1)])
        coefficients = np.zeros((num, target.shape[1]))
        coefficients[:used] = np.linalg.lstsq(gram, cross, rcond=None)[0]

        def rest(block: slice) -> np.ndarray:
            return target[block] - _features(condition[block], degree) @ coefficients

        mean = sum(rest(block).sum(axis=0) for block in parts) / len(target)
        covariance = sum((away := rest(block) - mean).T @ away for block in parts) / len(target)
        scale = np.diag(covariance)
        floor = np.maximum(1e-8 * scale, 1e-12 * np.maximum(_variance(target), 1e-200))
        root = np.linalg.cholesky(covariance + np.diag(floor))
        return Whitening(coefficients, root, np.linalg.inv(root), degree)

    @property
    def log_det(self) -> Array:
        """log |d standard / d target|."""
        xp = np if isinstance(self.inverse_root, np.ndarray) else jnp
        return xp.sum(xp.log(xp.abs(xp.diagonal(self.inverse_root))))

    def forward(
        self, target: Float[Array, "*n d"], condition: Float[Array, "*n w"]
    ) -> Float[Array, "*n d"]:
        """Standardised targets (..., d), given standardised conditions (..., w)."""
        return (target - self._mean(condition)) @ self.inverse_root.T

    def inverse(
        self, standard: Float[Array, "*n d"], condition: Float[Array, "*n w"]
    ) -> Float[Array, "*n d"]:
        """The targets (..., d) whose standardised form is given."""
        return self._mean(condition) + standard @ self.root.T

    def widened(self, num: int) -> Whitening:
        """The same map for conditions with `num` more columns at the end, where the mean is linear
        and does not depend on them.
        """
        more = np.zeros((num, self.coefficients.shape[1]))
        return dataclasses.replace(self, coefficients=np.concatenate([self.coefficients, more]))

    def _mean(self, condition: Array) -> Array:
        return _features(condition, self.degree) @ self.coefficients


def num_features(condition_dim: int, degree: int) -> int:
    """The number of coefficients that the mean has for each target."""
    return (1, 1 + condition_dim, 1 + condition_dim + condition_dim * (condition_dim + 1) // 2)[
        degree
    ]


def _features(condition: Array, degree: int) -> Array:
    """1, then the columns, then the products of pairs of columns, up to `degree`: (..., p)."""
    xp = np if isinstance(condition, np.ndarray) else jnp
    parts = [xp.ones((*condition.shape[:-1], 1), dtype=condition.dtype)]
    if degree >= 1:
        parts.append(condition)
    if degree >= 2:
        first, second = np.triu_indices(condition.shape[-1])
        parts.append(condition[..., first] * condition[..., second])
    return xp.concatenate(parts, axis=-1)


def blocks(num: int) -> list[slice]:
    """All rows, at most 65,536 at a time."""
    return [slice(start, start + _ROWS) for start in range(0, num, _ROWS)]


def _variance(values: np.ndarray) -> np.ndarray:
    """The variance of each column of values (N, k)."""
    mean = values.mean(axis=0)
    return sum(np.square(values[block] - mean).sum(axis=0) for block in blocks(len(values))) / len(
        values
    )


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    """`values` as finite float64 rows."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or len(values) < 2:
        raise InvalidInputError(
            f"{name} must be an array (N, columns) with at least 2 rows, got shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise InvalidInputError(
            f"{name} must be finite: drop rows with NaN or infinite entries first."
        )
    return values
