r"""Linear regression when only noisy sums of clamped products of its records are seen.

    p(beta, x, y | t)  ~  N(beta; 0, tau^2 I)
                          prod_i N(x_i; m, Sigma) N(y_i; (1, x_i) beta, sigma^2)
                          exp(-|t - T(x, y)|_1 / b)

with T the sums over the records of y, x_j y, y^2, x_j and x_j x_k, of values clamped to bounds and
rescaled to [-1, 1].

One sweep is data augmentation (Ju, Awan, Gong and Rao 2022), beta given the records and then each
record in turn by a fresh proposal from its law, interwoven (Yu and Meng 2011) with moves that are
not centred: beta is proposed while predictors and residuals stand still. The first alone forgets
slower the larger b is, since n records hold beta in place; the second moves freely just then.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import math
import os
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise._core.keys import generator
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.samplers.chain_diagnostics import effective_draws

if TYPE_CHECKING:
    from noisewise.samplers._regression_kernel import RegressionTarget

_PILOT = 2**11
"""Draws of each chain in the first pilot run, doubled until it is long enough."""
_LONGEST_PILOT = 2**16
"""Draws of each chain in the longest pilot run: a limit for targets that mix slowly."""
_ENOUGH = 400.0
"""Effective draws that an autocorrelation time is estimated from, to about 10%."""


@dataclasses.dataclass(frozen=True)
class RegressionChains:
    """Draws of beta by several chains with the sums T of each, and how each chain went."""

    draws: Float[np.ndarray, "c n p+1"]
    totals: Float[np.ndarray, "c n k"]
    record_acceptance: Float[np.ndarray, " c"]
    """Share of the proposed records that were accepted."""
    move_acceptance: Float[np.ndarray, " c"]
    """Share of the moves that were accepted."""
    step: Float[np.ndarray, " c"]
    """The adapted step of the moves."""
    thin: int

    def effective_sizes(self) -> Float[np.ndarray, " p+1"]:
        """The bulk effective sample size of each coefficient (p+1,), by arviz."""
        return np.array([effective_draws(column) for column in np.moveaxis(self.draws, 2, 0)])

    def autocorrelation_times(self) -> Float[np.ndarray, " p+1"]:
        """Draws per effective draw (p+1,)."""
        return self.draws.shape[0] * self.draws.shape[1] / self.effective_sizes()

    def pooled(self, num: int | None = None) -> Float[np.ndarray, "n p+1"]:
        """The draws of all chains (C N, p+1), neighbours from different chains; the first `num` if
        that is given.
        """
        return self.draws.transpose(1, 0, 2).reshape(-1, self.draws.shape[2])[:num]


@dataclasses.dataclass(frozen=True)
class AugmentedRegression:
    r"""The posterior of beta given `observed` = t (k,), in the order of the module's first lines:
    for p = 2

        y, x1*y, x2*y, y*y, x1, x2, x1*x1, x1*x2, x2*x2,

    as SUMS over the `num_records` records, with `scale` = b on the same footing. `bounds` is one
    pair (low, high) for all columns or one for each of x_1, ..., x_p, y.

    >>> target = AugmentedRegression(
    ...     observed=(-38.2, -6.7, 3.2, 27.2, 9.9, -13.9, 2.2, -2.3, 3.4),
    ...     scale=1.3,
    ...     num_records=100,
    ...     predictor_mean=(0.9, -1.17),
    ... )
    >>> chains = target.chains(jax.random.key(0), num_chains=2, num_draws=500)
    >>> chains.draws.shape, chains.totals.shape
    ((2, 500, 3), (2, 500, 9))
    >>> chains.record_acceptance.round(1).tolist()
    [0.8, 0.8]
    """

    observed: tuple[float, ...]
    scale: float
    num_records: int
    predictor_mean: tuple[float, ...]
    predictor_covariance: tuple[tuple[float, ...], ...] | None = None
    noise_variance: float = 2.0
    prior_variance: float = 1.0
    bounds: tuple[Any, ...] = (-10.0, 10.0)

    def __post_init__(self) -> None:
        integer("num_records", at_least=1)(self.num_records)
        for name in ("scale", "noise_variance", "prior_variance"):
            number(name, above=0.0)(getattr(self, name))
        p = len(_vector("predictor_mean", self.predictor_mean, None))
        _vector("observed", self.observed, (p + 1) * (p + 4) // 2)
        self._root()
        low, high = self._bounds()
        if not (low < high).all():
            raise InvalidInputError(
                f"bounds must have low < high in every column, got {self.bounds!r}."
            )

    def chains(
        self,
        key: Array,
        *,
        num_chains: int = 16,
        num_draws: int = 1000,
        num_warmup: int = 1000,
        thin: int = 1,
        num_moves: int = 10,
        num_threads: int | None = None,
    ) -> RegressionChains:
        """Independent chains.

        Chain c draws from its own generator, a function of the key and c, so results do not depend
        on the threads.

        Args:
            key: JAX PRNG key.
            num_chains: The number of chains.
            num_draws: Draws of each chain.
            num_warmup: Sweeps before the first draw, in which the step of the moves is adapted.
            thin: Sweeps per draw.
            num_moves: Moves that are not centred at the end of each sweep; 0 leaves plain data
                augmentation.
            num_threads: Threads; by default one per core.

        Returns:
            The draws of beta, with the sums of each.
        """
        from noisewise.samplers import _regression_kernel

        sizes = {"num_chains": num_chains, "num_draws": num_draws, "thin": thin}
        num_chains, num_draws, thin = (
            integer(name, at_least=1)(value) for name, value in sizes.items()
        )
        num_moves = integer("num_moves", at_least=0)(num_moves)
        num_warmup = integer("num_warmup", at_least=0)(num_warmup)
        threads = integer("num_threads", at_least=1, optional=True)(num_threads) or os.cpu_count()
        target, size, width = self._target(), len(self.predictor_mean) + 1, len(self.observed)
        draws, totals = (
            np.empty((num_chains, num_draws, size)),
            np.empty((num_chains, num_draws, width)),
        )
        generators = [generator(key, chain) for chain in range(num_chains)]

        def one(chain: int) -> tuple[float, float, float]:
            shapes = ((size,), (self.num_records, size), (self.num_records, size), (width,))
            state = _regression_kernel.RegressionState(*(np.empty(shape) for shape in shapes))
            settings = (self._move_root(), num_moves, num_warmup, thin, draws[chain], totals[chain])
            return _regression_kernel.run_chain(generators[chain], target, state, *settings)

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            records, moves, steps = np.array(list(pool.map(one, range(num_chains)))).T
        return RegressionChains(draws, totals, records, moves, steps, thin)

    def near_independent(self, key: Array, num: int, *, num_chains: int = 16) -> RegressionChains:
        """Chains whose draws are so far apart that they are nearly independent.

        A pilot run finds the autocorrelation time; twice that number of sweeps lies between draws,
        which leaves a correlation of about exp(-4) between neighbours.

        Args:
            key: JAX PRNG key.
            num: The least number of draws in all.
            num_chains: The number of chains.

        Returns:
            The draws of beta, with the sums of each.
        """
        num = integer("num", at_least=1)(num)
        pilot_key, main_key = jax.random.split(as_key(key))
        length = _PILOT
        pilot = self.chains(pilot_key, num_chains=num_chains, num_draws=length)
        while pilot.effective_sizes().min() < _ENOUGH and length < _LONGEST_PILOT:
            length *= 2
            pilot = self.chains(pilot_key, num_chains=num_chains, num_draws=length)
        thin = math.ceil(2.0 * pilot.autocorrelation_times().max())
        return self.chains(
            main_key, num_chains=num_chains, num_draws=max(4, -(-num // num_chains)), thin=thin
        )

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of all columns, each (p+1,)."""
        columns = len(self.predictor_mean) + 1
        array = np.asarray(self.bounds, dtype=np.float64)
        if array.shape not in ((2,), (columns, 2)) or not np.isfinite(array).all():
            raise InvalidInputError(
                f"bounds must be a pair (low, high) or {columns} of them, got {self.bounds!r}."
            )
        low, high = np.broadcast_to(array, (columns, 2)).T
        return low, high

    def _covariance(self) -> np.ndarray:
        if self.predictor_covariance is None:
            return np.eye(len(self.predictor_mean))
        return np.asarray(self.predictor_covariance, dtype=np.float64)

    def _root(self) -> np.ndarray:
        """The Cholesky factor of the covariance of the predictors."""
        covariance, p = self._covariance(), len(self.predictor_mean)
        if covariance.shape != (p, p) or not np.allclose(
            covariance, covariance.T, rtol=1e-12, atol=0.0
        ):
            raise InvalidInputError(
                f"predictor_covariance must be a symmetric ({p}, {p}) matrix, got"
                f" {covariance.shape}."
            )
        try:
            return np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise InvalidInputError("predictor_covariance must be positive definite.") from None

    def _target(self) -> RegressionTarget:
        """What the compiled sampler needs."""
        from noisewise.samplers import _regression_kernel

        low, high = self._bounds()
        return _regression_kernel.RegressionTarget(
            observed=np.array(self.observed, dtype=np.float64),
            scale=float(self.scale),
            mean=np.array(self.predictor_mean, dtype=np.float64),
            root=np.ascontiguousarray(self._root()),
            noise_sd=math.sqrt(self.noise_variance),
            prior_sd=math.sqrt(self.prior_variance),
            centre=(low + high) / 2,
            half=(high - low) / 2,
        )

    def _move_root(self) -> np.ndarray:
        """C with C C' = (I/tau^2 + G'G/(2 b^2))^-1, G the expected change of the first p+1 sums
        with beta, unclamped.

        2 b^2 is the variance of an error: the moves are long where the observed sums say little.
        """
        target, mean = self._target(), np.append(1.0, self.predictor_mean)
        moments = np.outer(mean, mean)
        moments[1:, 1:] += self._covariance()
        rescaled = np.vstack(
            [mean, (moments[1:] - target.centre[:-1, None] * mean) / target.half[:-1, None]]
        )
        gradient = self.num_records * rescaled / target.half[-1]
        precision = np.eye(len(mean)) / self.prior_variance + gradient.T @ gradient / (
            2.0 * self.scale**2
        )
        return np.ascontiguousarray(np.linalg.cholesky(np.linalg.inv(precision)))


def _vector(name: str, value: Any, length: int | None) -> np.ndarray:
    """A vector of finite numbers, of this length if one is given."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{name} must be a sequence of numbers, got {describe(value)}."
        ) from None
    if (
        array.ndim != 1
        or len(array) == 0
        or not np.isfinite(array).all()
        or length not in (None, len(array))
    ):
        raise InvalidInputError(
            f"{name} must be {length or 'one or more'} finite numbers, got shape {array.shape}."
        )
    return array
