"""The sufficient statistics of linear regression, of clamped and rescaled records."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, number
from noisewise._core.neighbours import AddRemoveOne
from noisewise.errors import InvalidInputError
from noisewise.queries._converters import (
    RESOLUTION,
    Bounds,
    as_bounds,
    check_exact,
    check_width,
    count,
    set_checked,
    whole,
)
from noisewise.queries.base import AbstractMomentQuery, namespace
from noisewise.queries.domains import Box, box


@dataclasses.dataclass(frozen=True)
class RegressionMoments(AbstractMomentQuery):
    r"""Means over the records of y, x_j y, y^2, x_j and x_j x_k (j <= k), of values clamped and
    rescaled to [-1, 1].

    `x` has shape (n, p+1): p predictors, then the response. A value v becomes z = (clip(v, low,
    high) - c) / h with c and h the centre and half-length of [low, high]: v/10 inside the default
    bounds. `bounds` is one pair for all columns, or one for each. With the constant 1 as 0-th
    column of x~, s is x~'y~ / n, then y~'y~ / n, then the unique entries of x~'x~ / n row by row,
    without the (0,0) entry, which is always 1. For p = 2:

        y, x1*y, x2*y, y*y, x1, x2, x1*x1, x1*x2, x2*x2.

    Sensitivity. Let a and b in [-1,1]^d, d = p+1, be the old and the new record, rescaled. Released
    are the products of all pairs out of (1, a_1, ..., a_d), squares included, except 1*1.

    L1, exactly d (d+2)^2 / (2 (d+1) n). With e = |a - b| and m = |a + b| / 2 in each coordinate,
    m_j <= 1 - e_j/2. The change of a_j is e_j, of a_j^2 is 2 e_j m_j, and of a_j a_k at most e_j
    m_k + m_j e_k. Inserting the bound on m, with S = sum_j e_j and Q = sum_j e_j^2 >= S^2/d, all
    changes together are at most

        (d+2) S - (S^2 + Q)/2  <=  (d+2) S - S^2 (d+1)/(2d),

    whose maximum over S, at S = d(d+2)/(d+1), is the value stated. It is reached by a = (1, ..., 1)
    and b = -(1, ..., 1)/(d+1).

    L2, exactly 2 sqrt(floor((d+1)^2/4)) / n. With f = a + b and g = a - b, |f_j| + |g_j| = 2
    max(|a_j|, |b_j|) <= 2, and the squared change, times n^2, is

        F = sum_j (g_j^2 + f_j^2 g_j^2) + sum_{j<k} (f_j g_k + g_j f_k)^2 / 4.

    F is convex in each f_j, so some maximum has |f_j| = 2 - |g_j| for all j. Keep the signs and all
    but one coordinate j, and move along t = |g_j| in [0, 2]. The terms in j alone are G(t) = t^2 +
    (2-t)^2 t^2, and G(t) - 2t = t (t-1)^2 (t-2) <= 0: G lies below its chord from G(0) = 0 to G(2)
    = 4. The cross terms are squares of affine functions of t, convex, so they lie below their
    chords too. Hence F is largest at an end of the segment and, coordinate after coordinate, at
    some a, b in {-1, 1}^d. There, if m coordinates flip, the products of a flipped with an
    unflipped factor change, by 2 each, and no others. The constant counts as unflipped, so there
    are m (d+1-m) of them: F = 4 m (d+1-m) <= 4 floor((d+1)^2/4), with equality at m =
    floor((d+1)/2).

    L-infinity, exactly 2/n: every product lies in [-1, 1], and a mean of y can go from one end to
    the other.

    Where records are added or removed, n is confidential and no sensitivity of a mean is defined.

    `sensitivity_bound="paper"` makes `sensitivity(norm=1)` return (p^2 + 3p + 3)/n, for reproducing
    published noise. It is valid, but 39% larger than necessary at p = 2: it counts the off-diagonal
    entries of x~'x~ twice, though they are released once.

    With `grid`, z is rounded to the nearest multiple of `grid`, where 1/grid = R must be whole:
    every product is then a multiple of 1/R^2, and s of `step` = 1/(R^2 n). Rounded records are
    records, so no sensitivity grows.

    Attributes:
        num_records: n, public.
        num_predictors: p, the number of columns before the response.
        bounds: The public (low, high) of all columns, or one pair for each of the p+1.
        grid: The spacing to which rescaled values are rounded, for releases; None for no rounding.
        sensitivity_bound: "exact", or "paper" for the published, larger one.

    >>> import noisewise as nw
    >>> query = nw.queries.RegressionMoments(num_records=2, num_predictors=1, grid=0.1)
    >>> query([[10.0, -5.0], [3.0, 99.0]])
    array([ 0.25 , -0.1  ,  0.625,  0.65 ,  0.545])
    >>> query.names
    ('y', 'x1*y', 'y*y', 'x1', 'x1*x1')
    >>> query.integer_statistic([[10.0, -5.0], [3.0, 99.0]])
    [50, -20, 125, 130, 109]
    >>> 100 * nw.queries.RegressionMoments(num_records=100, num_predictors=2).sensitivity(norm=1)
    9.375
    """

    num_records: int
    num_predictors: int
    bounds: Bounds = (-10.0, 10.0)
    grid: float | None = None
    sensitivity_bound: str = "exact"

    def __post_init__(self) -> None:
        set_checked(self, num_records=count("num_records", self.num_records))
        set_checked(self, num_predictors=count("num_predictors", self.num_predictors))
        columns = self.num_predictors + 1
        check_width((columns + 1) * (columns + 2) // 2 - 1, "num_predictors")
        set_checked(self, bounds=as_bounds(self.bounds, columns))
        grid = number("grid", above=0.0, at_most=1.0, optional=True)(self.grid)
        set_checked(self, grid=grid)
        if self.sensitivity_bound not in ("exact", "paper"):
            raise InvalidInputError(
                f"sensitivity_bound must be 'exact' or 'paper', got {self.sensitivity_bound!r}."
            )
        if self.grid is not None:
            check_exact(self.largest_integer or 0)

    @property
    def names(self) -> tuple[str, ...]:
        labels = ["", *(f"x{j + 1}" for j in range(self.num_predictors)), "y"]
        return tuple("*".join(labels[j] for j in pair if j > 0) for pair in self._pairs)

    @functools.cached_property
    def domain(self) -> Box:
        columns = self.num_predictors + 1
        if self.grid is None:
            return box(self.bounds, columns)
        low, high = np.broadcast_to(np.asarray(self.bounds), (columns, 2)).T
        return box(self.bounds, columns, tuple((high - low) / (2 * self._resolution)))

    @property
    def divisor(self) -> float:
        return float(self.num_records)

    @property
    def unit(self) -> float | None:
        return None if self.grid is None else 1.0 / self._resolution**2

    def on_default_grid(self) -> RegressionMoments:
        """The same query with 2^12 steps from 0 to 1 in rescaled units."""
        return self if self.grid is not None else dataclasses.replace(self, grid=1.0 / RESOLUTION)

    @property
    def largest_integer(self) -> int | None:
        return None if self.grid is None else self.num_records * self._resolution**2

    def paper_sensitivity(self) -> float:
        """The published bound of the L1 sensitivity, (p^2 + 3p + 3)/n."""
        return (self.num_predictors**2 + 3 * self.num_predictors + 3) / self.num_records

    def sums_of(
        self, s: Float[Array, "*batch k"]
    ) -> tuple[Float[Array, "*batch q q"], Float[Array, "*batch q"], Float[Array, "*batch"]]:
        r"""X'X, X'y and y'y of the clamped records, in their own units.

        X has the constant 1 as first column. Since (1, v) = (1, z) B with B = [[1, c'], [0,
        diag(h)]], and s holds the entries of the matrix M of second moments of (1, z), the sums are
        the blocks of n B'M B. Also for use inside JAX programs.

        Args:
            s: Statistics, shape (..., k), of data or of a release.

        Returns:
            X'X, shape (..., p+1, p+1); X'y, shape (..., p+1); y'y, shape (...).

        >>> bounds = ((0.0, 10.0), (-20.0, 10.0))
        >>> query = RegressionMoments(num_records=2, num_predictors=1, bounds=bounds)
        >>> [part.round(9).tolist() for part in query.sums_of(query([[1.0, 2.0], [3.0, -4.0]]))]
        [[[2.0, 4.0], [4.0, 10.0]], [-2.0, -10.0], 20.0]
        """
        xp = namespace(s)
        s = xp.asarray(s)
        moments = xp.concatenate([s, xp.ones((*s.shape[:-1], 1))], axis=-1)[..., self._places]
        centre, half = self._rescaling
        back = np.diag(np.append(1.0, half))
        back[0, 1:] = centre
        sums = self.num_records * (back.T @ moments @ back)
        sums = (sums + xp.swapaxes(sums, -1, -2)) / 2
        return sums[..., :-1, :-1], sums[..., :-1, -1], sums[..., -1, -1]

    def normal_moments(
        self, mean: Float[Array, " q"], covariance: Float[Array, "q q"]
    ) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
        r"""The mean and covariance of one record's contribution t, if records are normal and none
        is clamped.

        With a and C the mean and covariance of (1, z), the constant having variance 0, and i, j, k,
        l its columns (Isserlis 1918),

            E[z_i z_j] = a_i a_j + C_ij,
            Cov(z_i z_j, z_k z_l) = C_ik C_jl + C_il C_jk + a_i a_k C_jl + a_i a_l C_jk
                                    + a_j a_k C_il + a_j a_l C_ik.

        Also for use inside JAX programs.

        Args:
            mean: The mean of a record (x, y) before rescaling, shape (p+1,).
            covariance: Its covariance, shape (p+1, p+1).

        Returns:
            The mean, shape (k,), and the covariance, shape (k, k), of t. Those of s follow by the
            central limit theorem: the mean itself, and the covariance divided by n.
        """
        xp, (centre, half) = namespace(covariance), self._rescaling
        a = xp.concatenate([xp.ones(1), (mean - centre) / half])
        C = xp.pad(covariance / np.outer(half, half), ((1, 0), (1, 0)))
        i, j = np.array(self._pairs).T
        aa = a[:, None] * a

        def paired(left: np.ndarray, right: np.ndarray) -> Array:
            """C_ik C_jl + a_i a_k C_jl + a_j a_l C_ik, with (k, l) = (left, right)."""
            first, second = C[np.ix_(i, left)], C[np.ix_(j, right)]
            return first * second + aa[np.ix_(i, left)] * second + aa[np.ix_(j, right)] * first

        return aa[i, j] + C[i, j], paired(i, j) + paired(j, i)

    @property
    def _rescaling(self) -> tuple[np.ndarray, np.ndarray]:
        """The centre and half-length of the bounds of each column."""
        low, high = np.asarray(self.domain.low), np.asarray(self.domain.high)
        return (low + high) / 2, (high - low) / 2

    @property
    def _places(self) -> np.ndarray:
        """The index in (s, 1) of each entry of the matrix of second moments of (1, x, y)."""
        places = np.full((self.num_predictors + 2,) * 2, len(self._pairs))
        for place, (i, j) in enumerate(self._pairs):
            places[i, j] = places[j, i] = place
        return places

    @property
    def _resolution(self) -> int:
        """R: the number of grid steps from 0 to 1 in rescaled units."""
        return 1 if self.grid is None else whole(1.0 / self.grid, "1/grid must be a whole number")

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """Which columns of (1, x_1, ..., x_p, y) are multiplied, in the order of s."""
        p = self.num_predictors
        with_response = [(j, p + 1) for j in range(p + 2)]
        return with_response + list(itertools.combinations_with_replacement(range(p + 1), 2))[1:]

    def _units(self, records: Array) -> Array:
        xp = namespace(records)
        low, high = np.asarray(self.domain.low), np.asarray(self.domain.high)
        rescaled = (xp.clip(records, low, high) - (low + high) / 2) / ((high - low) / 2)
        # clipped again: float64 can leave [-1, 1] for narrow bounds far from 0
        rescaled = xp.clip(rescaled, -1.0, 1.0)
        resolution = float(self._resolution)
        columns = rescaled if self.grid is None else xp.rint(rescaled * resolution)
        columns = xp.concatenate([xp.full((len(records), 1), resolution), columns], axis=1)
        left, right = (list(side) for side in zip(*self._pairs, strict=True))
        return columns[:, np.asarray(left)] * columns[:, np.asarray(right)]

    def _sensitivity(self, norm: float) -> float:
        d = self.num_predictors + 1
        if norm == 1.0 and self.sensitivity_bound == "paper":
            return self.paper_sensitivity()
        exact = {
            1.0: d * (d + 2) ** 2 / (2 * (d + 1)),
            2.0: 2.0 * math.sqrt((d + 1) ** 2 // 4),
            math.inf: 2.0,
        }
        return exact[norm] / self.num_records

    def _added(self, norm: float, neighbours: AddRemoveOne) -> float:
        raise self._needs_number()
