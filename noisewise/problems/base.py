"""What a ready problem is: a model, an observation, the truth where known, and exact draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key, describe, integer
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.model.private_model import PrivateModel
from noisewise.problems._cache import cached_draws

Reference = Callable[[Array, int], np.ndarray]
"""(key, num) -> exact posterior draws (num, d)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limit:
    """A reference that is exact in a limit only, with its error where that was measured.

    Attributes:
        of: What grows without bound in the limit.
        mean_error: Largest difference of a posterior mean that was found, in posterior sds; None
            where nothing was measured.
        sd_error: The same of a posterior sd, as a share of it.
        monte_carlo_error: The standard error of these two numbers.
    """

    of: str
    mean_error: float | None = None
    sd_error: float | None = None
    monte_carlo_error: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A private-data problem with its answer.

    Attributes:
        name: Name of the problem.
        model: Prior, simulator, query and mechanism.
        observed: The private statistic s_dp, shape (k',).
        truth: The parameter behind the observation, shape (d,); None for real data.
        settings: JSON-ready; with `observed` they determine the exact posterior.
        references: Samplers of the exact posterior by the name of their route, the default first.
        limits: Routes that are exact in a limit only, with their errors; the others are exact for
            the simulator, up to Monte Carlo error.
        at_epsilon: The same problem at another privacy budget.
        confidential: The confidential statistic s, shape (k,), where there is one.
        free: Columns of theta that determine the others; None for all.
        notes: What a reader of results should know.

    Example:
        >>> import noisewise as nw
        >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
        >>> problem.name, problem.truth.tolist(), list(problem.references)
        ('gaussian_mean', [0.7], ['quadrature'])
    """

    name: str
    model: PrivateModel
    observed: np.ndarray
    truth: np.ndarray | None
    settings: Mapping[str, Any]
    references: Mapping[str, Reference]
    at_epsilon: Callable[[float], Problem]
    confidential: np.ndarray | None = None
    free: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    limits: Mapping[str, Limit] = dataclasses.field(default_factory=dict)

    @property
    def free_columns(self) -> tuple[int, ...]:
        """The columns of theta that determine the others: all, but one of each simplex.

        C2ST and Kolmogorov-Smirnov distances are taken on these.
        """
        return self.free if self.free is not None else tuple(range(self.model.prior.dim))

    def reference(
        self, key: Array, num: int, *, route: str | None = None
    ) -> Float[np.ndarray, "n d"]:
        """Draws from the exact posterior given `observed`, cached on disk.

        Routes that are named in `limits` are exact in a limit only, such as the default route of
        `sir`, whose error is stated there.

        The first call may take from a fraction of a second to a minute. Later ones read
        `~/.cache/noisewise/references` (or `$NOISEWISE_CACHE_DIR`), which may be deleted at any
        time.

        Args:
            key: One JAX PRNG key.
            num: Number of draws.
            route: One of `references`, where several independent ones exist; the first by default.

        Returns:
            Draws, shape (num, d).

        Raises:
            MissingCapabilityError: If no exact posterior is known.
            InvalidInputError: If there is no such route.
        """
        if not self.references:
            raise MissingCapabilityError(f"No exact posterior is known for {self.name}.")
        route = route or next(iter(self.references))
        if route not in self.references:
            raise InvalidInputError(
                f"{self.name} has the routes {', '.join(self.references)}, got {route!r}."
            )
        num = integer("num", at_least=1)(num)
        identity = {
            "problem": self.name,
            "route": route,
            "settings": dict(self.settings),
            "observed": np.asarray(self.observed).tolist(),
            "key": np.asarray(jax.random.key_data(as_key(key))).tolist(),
            "num": num,
        }
        return cached_draws(
            identity, lambda: self.references[route](key, num), (num, self.model.prior.dim)
        )

    def observe(
        self,
        key: Array,
        *,
        theta: Float[Array, " d"] | None = None,
        epsilon: float | None = None,
    ) -> Float[np.ndarray, " kp"]:
        """A fresh private statistic, to repeat an analysis with new noise or at another truth.

        Where the problem has a confidential statistic and `theta` is not given, that statistic gets
        new noise. Else one is simulated at `theta`.

        Args:
            key: One JAX PRNG key.
            theta: Parameters, shape (d,); the truth by default.
            epsilon: Another privacy budget; that of the problem by default.

        Returns:
            A private statistic, shape (k',).

        Raises:
            InvalidInputError: If theta has a wrong shape, or is needed and not given.
        """
        model = self.model if epsilon is None else self.at_epsilon(epsilon).model
        if theta is None and self.confidential is not None:
            return model.mechanism.sample(as_key(key), self.confidential)
        if theta is None and self.truth is None:
            raise InvalidInputError(
                f"{self.name} has no known truth: pass theta=, one value per parameter."
            )
        theta = np.asarray(self.truth if theta is None else theta, dtype=float)
        if theta.shape != (model.prior.dim,):
            raise InvalidInputError(
                f"theta must have shape ({model.prior.dim},), one value for each of"
                f" {', '.join(model.names)}; got {describe(theta)}."
            )
        return model.simulate(key, theta[None])[0]
