"""Linear regression with random predictors."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, as_float64, describe, in_float64, integer, number
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.simulators.record_model import AbstractRecordModel

UNKNOWN = ("predictor_mean", "predictor_sd", "noise_sd")
"""What may be a parameter besides the coefficients, in the order of the columns of theta."""


@dataclasses.dataclass(frozen=True)
class LinearRegression(AbstractRecordModel):
    """Records (x_1, ..., x_p, y), independent, with

        x ~ N(m, Sigma),    y | x ~ N(beta_0 + beta_1 x_1 + ... + beta_p x_p, sigma^2).

    theta is beta (p+1 columns, the intercept first) and then whatever is `unknown`, always in this
    order: "predictor_mean" m (p columns), "predictor_sd" (p columns, positive: Sigma keeps the
    correlations of `predictor_covariance`), "noise_sd" sigma (one column, positive). What is not
    unknown is a public constant.

    As a function of noise, a record is m + L z and its response adds sigma e, with (z, e) p+1
    standard normals and L L' = Sigma. With the prior beta ~ N(0, tau^2 I), tau^2 =
    `prior_variance`, and nothing else unknown, beta given the records is normal: precision P =
    X'X/sigma^2 + I/tau^2 and mean P^-1 X'y/sigma^2, X = (1, x). That needs the records as they are,
    not clamped.

    Args:
        num_records: Number n of records.
        num_predictors: Number p of predictors.
        noise_variance: sigma^2, used while "noise_sd" is not unknown.
        predictor_mean: m, shape (p,); 0 by default.
        predictor_covariance: Sigma, shape (p, p); the identity by default.
        prior_variance: tau^2 of the prior under which `sample_parameters` draws.
        unknown: What else is a parameter: names among "predictor_mean", "predictor_sd",
            "noise_sd".

    Raises:
        InvalidInputError: If a number is out of range, a shape does not fit, the covariance is not
            positive definite, or a name in `unknown` is not known.

    Example:
        >>> import jax, numpy as np
        >>> import noisewise as nw
        >>> model = nw.simulators.LinearRegression(num_records=100, predictor_mean=(0.9, -1.17))
        >>> x = model.simulate(jax.random.key(0), np.array([[-1.79, -2.89, -0.66]]))
        >>> x.shape
        (1, 100, 3)
        >>> mean, covariance = model.conjugate_posterior(*model.sums(x[0]))
        >>> mean.round(2).tolist()
        [-1.77, -2.78, -0.68]
        >>> wider = nw.simulators.LinearRegression(unknown=("noise_sd", "predictor_mean"))
        >>> wider.parameter_names[3:]
        ('predictor_mean[0]', 'predictor_mean[1]', 'noise_sd')
    """

    num_records: int = 100
    num_predictors: int = 2
    noise_variance: float = 2.0
    predictor_mean: tuple[float, ...] | None = None
    predictor_covariance: tuple[tuple[float, ...], ...] | None = None
    prior_variance: float = 1.0
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_field = functools.partial(object.__setattr__, self)
        set_field("num_records", integer("num_records", at_least=1)(self.num_records))
        p = integer("num_predictors", at_least=1)(self.num_predictors)
        set_field("num_predictors", p)
        set_field("noise_variance", number("noise_variance", above=0.0)(self.noise_variance))
        set_field("prior_variance", number("prior_variance", above=0.0)(self.prior_variance))
        mean = np.zeros(p) if self.predictor_mean is None else self.predictor_mean
        covariance = np.eye(p) if self.predictor_covariance is None else self.predictor_covariance
        set_field("predictor_mean", tuple(_numbers("predictor_mean", mean, (p,)).tolist()))
        covariance = _numbers("predictor_covariance", covariance, (p, p))
        _check_covariance(covariance)
        set_field("predictor_covariance", tuple(map(tuple, covariance.tolist())))
        set_field("unknown", _as_unknown(self.unknown))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """One name per column of theta."""
        p = self.num_predictors
        sizes = {"beta": p + 1, "predictor_mean": p, "predictor_sd": p}
        vectors = (name for name in ("beta", *self.unknown) if name in sizes)
        names = (f"{name}[{j}]" for name in vectors for j in range(sizes[name]))
        return (*names, *(name for name in self.unknown if name == "noise_sd"))

    @property
    def can_sample_parameters(self) -> bool:
        """Whether nothing but beta is unknown."""
        return not self.unknown

    def check_parameters(self, theta: np.ndarray) -> None:
        width = len(self.parameter_names)
        if theta.shape[1] != width:
            raise InvalidInputError(
                f"theta must have {width} columns, {', '.join(self.parameter_names)}, got"
                f" {theta.shape[1]}."
            )
        names = enumerate(self.parameter_names)
        spreads = [j for j, name in names if name.startswith(("predictor_sd", "noise_sd"))]
        if not (theta[:, spreads] > 0.0).all():
            raise InvalidInputError(
                "theta must have positive standard deviations in the columns predictor_sd and"
                " noise_sd."
            )

    def record_noise(self, key: Array) -> Array:
        return jax.random.normal(key, (self.num_predictors + 1,), dtype=float)

    def record(self, u: Array, theta: Array) -> Array:
        beta, mean, root, noise_sd = self._parts(theta)
        x = mean + root @ u[:-1]
        return jnp.append(x, beta[0] + x @ beta[1:] + noise_sd * u[-1])

    def noise_of_record(self, key: Array, x_i: Array, theta: Array) -> Array:
        """The u_i with record(u_i, theta) = x_i: a function of the record and theta; the key is
        unused.
        """
        beta, mean, root, noise_sd = self._parts(theta)
        # root is a diagonal of sds times a constant, whose inverse is much faster than a triangular
        # system per record
        sd = jnp.diagonal(root) / np.diagonal(self._correlation_root)
        z = np.linalg.inv(self._correlation_root) @ ((x_i[:-1] - mean) / sd)
        return jnp.append(z, (x_i[-1] - beta[0] - x_i[:-1] @ beta[1:]) / noise_sd)

    def log_prob_record(self, x_i: Array, theta: Array) -> Array:
        _, _, root, noise_sd = self._parts(theta)
        u = self.noise_of_record(None, x_i, theta)
        volume = jnp.log(jnp.diagonal(root)).sum() + jnp.log(noise_sd)
        return -0.5 * (u @ u + len(u) * math.log(2.0 * math.pi)) - volume

    def sample_parameters(self, key: Array, records: Array, theta: Array) -> Array:
        if self.unknown:
            raise MissingCapabilityError(
                "LinearRegression draws beta given the records only while nothing else is unknown,"
                f" but {', '.join(self.unknown)} is. Fix it, or use a method that does not need"
                " sample_parameters."
            )
        design = jnp.concatenate([jnp.ones((len(records), 1)), records[:, :-1]], axis=1)
        precision = (
            design.T @ design / self.noise_variance + jnp.eye(design.shape[1]) / self.prior_variance
        )
        root = jnp.linalg.cholesky(precision)
        solve = functools.partial(jax.scipy.linalg.solve_triangular, root, lower=True)
        whitened = solve(design.T @ records[:, -1] / self.noise_variance)
        return solve(whitened + jax.random.normal(key, whitened.shape, whitened.dtype), trans=1)

    def log_prob_conjugate_prior(self, theta: Array) -> Array:
        return -0.5 * (theta**2).sum() / self.prior_variance

    def record_moments(
        self, theta: Float[Array, " d"]
    ) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
        """The mean and covariance of a record (x, y), for use inside JAX programs.

        Args:
            theta: Parameters, shape (d,).

        Returns:
            The mean, shape (p+1,), and the covariance, shape (p+1, p+1); the response comes last.
        """
        beta, mean, root, noise_sd = self._parts(theta)
        loadings = jnp.concatenate([root, beta[None, 1:] @ root])
        covariance = (loadings @ loadings.T).at[-1, -1].add(noise_sd**2)
        return jnp.append(mean, beta[0] + mean @ beta[1:]), covariance

    @in_float64
    def sums(
        self, records: Float[Array, "n q"]
    ) -> tuple[Float[np.ndarray, "q q"], Float[np.ndarray, " q"]]:
        """X'X and X'y of records, with the constant 1 as first column of X.

        Args:
            records: Records (x, y), shape (n, p+1).

        Returns:
            X'X, shape (p+1, p+1), and X'y, shape (p+1,).

        Raises:
            InvalidInputError: If the records do not have p+1 columns.
        """
        records = as_float64(records, "records")
        if records.ndim != 2 or records.shape[1] != self.num_predictors + 1:
            raise InvalidInputError(
                f"records must have shape (n, {self.num_predictors + 1}), got {records.shape}."
            )
        design = jnp.concatenate([jnp.ones((len(records), 1)), records[:, :-1]], axis=1)
        return design.T @ design, design.T @ records[:, -1]  # type: ignore[return-value]

    def conjugate_posterior(
        self, gram: Float[Array, "q q"], cross: Float[Array, " q"]
    ) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, "q q"]]:
        """Mean and covariance of beta given the sums X'X and X'y of the records.

        Use it for the confidential posterior, or to see what plugging in noisy sums would give.
        Sums with noise added may belong to no data at all: they are refused if the posterior
        precision is not positive definite.

        Args:
            gram: X'X, shape (p+1, p+1), symmetric.
            cross: X'y, shape (p+1,).

        Returns:
            The mean, shape (p+1,), and the covariance, shape (p+1, p+1).

        Raises:
            MissingCapabilityError: If anything but beta is unknown.
            InvalidInputError: If `gram` is not symmetric, or there is no posterior.
        """
        if self.unknown:
            raise MissingCapabilityError(
                "The posterior is normal only while nothing but beta is unknown, not"
                f" {self.unknown}."
            )
        size = self.num_predictors + 1
        gram, cross = _numbers("gram", gram, (size, size)), _numbers("cross", cross, (size,))
        if not np.allclose(gram, gram.T, rtol=1e-9, atol=0.0):
            raise InvalidInputError("gram must be symmetric: it is X'X.")
        precision = gram / self.noise_variance + np.eye(size) / self.prior_variance
        smallest = np.linalg.eigvalsh(precision)[0]
        if not smallest > 0.0:
            raise InvalidInputError(
                "There is no posterior: gram/noise_variance + I/prior_variance must be positive"
                f" definite, and its smallest eigenvalue is {smallest:.4g}. No data have such sums"
                " X'X: noise has been added to them. Use a method that knows the noise."
            )
        covariance = np.linalg.inv(precision)
        return covariance @ cross / self.noise_variance, (covariance + covariance.T) / 2

    @functools.cached_property
    def _correlation_root(self) -> np.ndarray:
        covariance = np.asarray(self.predictor_covariance)
        sd = np.sqrt(np.diagonal(covariance))
        return np.linalg.cholesky(covariance / np.outer(sd, sd))

    def _parts(self, theta: Array) -> tuple[Array, Array, Array, Array]:
        """beta, m, L and sigma."""
        p = self.num_predictors
        beta, rest = theta[: p + 1], theta[p + 1 :]
        mean = np.asarray(self.predictor_mean)
        sd = np.sqrt(np.diagonal(np.asarray(self.predictor_covariance)))
        noise_sd: Array = math.sqrt(self.noise_variance)
        if "predictor_mean" in self.unknown:
            mean, rest = rest[:p], rest[p:]
        if "predictor_sd" in self.unknown:
            sd, rest = rest[:p], rest[p:]
        if "noise_sd" in self.unknown:
            noise_sd = rest[0]
        return beta, mean, sd[:, None] * self._correlation_root, noise_sd


def _numbers(name: str, value: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{name} must be numbers of shape {shape}, got {describe(value)}."
        ) from None
    if array.shape != shape or not np.isfinite(array).all():
        raise InvalidInputError(
            f"{name} must be finite numbers of shape {shape}, got shape {array.shape}."
        )
    return array


def _check_covariance(covariance: np.ndarray) -> None:
    symmetric = np.allclose(covariance, covariance.T, rtol=1e-12, atol=0.0)
    if not symmetric or np.linalg.eigvalsh(covariance)[0] <= 0.0:
        raise InvalidInputError("predictor_covariance must be symmetric and positive definite.")


def _as_unknown(value: str | Iterable[str]) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    others = [name for name in names if name not in UNKNOWN]
    if others:
        raise InvalidInputError(f"unknown must be among {', '.join(UNKNOWN)}, got {others[0]!r}.")
    return tuple(name for name in UNKNOWN if name in names)
