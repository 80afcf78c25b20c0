"""What a ready problem is: a model, an observation, the truth where it is known, and draws from the
exact posterior.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from noisewise._core.arrays import Array, as_key, describe, integer
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.model.private_model import PrivateModel
from noisewise.problems._cache import cached_draws

Reference = Callable[[Array, int], np.ndarray]
"""(key, num) -> exact posterior draws (num, d)."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A private-data problem with its answer.

    `settings` are JSON-ready and, with `observed`, determine the exact posterior. `references` maps
    the name of each exact route to its sampler; the first is the default. `confidential` is the
    stored confidential statistic, where there is one. `notes` say what a reader of results should
    know.
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

    @property
    def free_columns(self) -> tuple[int, ...]:
        """The columns of theta that determine the others: all, but one of each simplex."""
        return self.free if self.free is not None else tuple(range(self.model.prior.dim))

    def reference(self, key: Array, num: int, *, route: str | None = None) -> np.ndarray:
        """`num` draws (num, d) from the exact posterior given `observed`, cached on disk.

        The first call may take from a fraction of a second to a minute; later ones read
        `~/.cache/noisewise/references` (or `$NOISEWISE_CACHE_DIR`), which may be deleted at any
        time. `route` names one of `references` where several independent ones exist.
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

    def observe(self, key: Array, *, theta: Any = None, epsilon: float | None = None) -> np.ndarray:
        """A fresh private statistic (k',): the stored confidential statistic with new noise, or, if
        there is none or `theta` is given, one simulated at `theta` (the truth by default).
        `epsilon` changes the privacy budget.
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
