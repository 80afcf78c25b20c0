"""A problem: a private model, what was observed, and exact draws made without noisewise."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats

import noisewise as nw

CACHE = Path(".cache") / "learning"
NUM_REFERENCE = 10_000
"""Exact draws kept of each problem: ten times what is scored."""

LogDensity = Callable[[np.ndarray], np.ndarray]
"""theta (n, d) -> (n,)."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Independent parameters, all normal (first, second = mean, sd) or all uniform (low, high).

    One description serves noisewise, SciPy and torch.
    """

    law: str
    first: np.ndarray
    second: np.ndarray

    @property
    def prior(self) -> nw.Prior:
        """For noisewise: one site of length d."""
        law = dist.Normal if self.law == "normal" else dist.Uniform
        return nw.Prior({"theta": law(jnp.asarray(self.first), jnp.asarray(self.second))})

    def log_prob(self, theta: np.ndarray) -> np.ndarray:
        """The log density by SciPy, (n,)."""
        width = self.second if self.law == "normal" else self.second - self.first
        law = stats.norm if self.law == "normal" else stats.uniform
        return law.logpdf(theta, self.first, width).sum(-1)

    def box(self, sds: float = 6.0) -> tuple[np.ndarray, np.ndarray]:
        """Corners of a box that holds all of the mass: normals up to `sds` sds."""
        if self.law == "normal":
            return self.first - sds * self.second, self.first + sds * self.second
        return self.first, self.second


def normals(*pairs: tuple[float, float]) -> Columns:
    """Normal parameters from pairs (mean, sd)."""
    return Columns("normal", *np.array(pairs, dtype=float).T)


def uniforms(*pairs: tuple[float, float]) -> Columns:
    """Uniform parameters from pairs (low, high)."""
    return Columns("uniform", *np.array(pairs, dtype=float).T)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What a method is given, and what it is judged by.

    Args:
        name: The name on the command line and of the cached draws.
        kind: What is modelled, in a few words.
        how: How the exact draws are made, in a few words.
        columns: The law of the parameters.
        simulate: fn(key, theta) -> s (k,), in JAX.
        mechanism: The privacy noise.
        truth: The parameters behind the observation.
        seed: Seed of the observation.
        exact: fn(observed) -> (log likelihood, sampler); the sampler takes a NumPy generator and a
            number, and returns independent exact draws.
        step: Spacing of the lattice on which s lies, if on one.
    """

    name: str
    kind: str
    how: str
    columns: Columns
    simulate: Callable[[Any, Any], Any]
    mechanism: Any
    truth: np.ndarray
    seed: int
    exact: Callable[[np.ndarray], tuple[LogDensity, Callable[..., np.ndarray]]]
    step: float | None = None

    def __post_init__(self) -> None:
        query = nw.queries.FunctionQuery(lambda s: s, step=self.step)
        simulator = nw.simulators.JaxSimulator(self.simulate)
        model = nw.PrivateModel(
            prior=self.columns.prior, simulator=simulator, query=query, mechanism=self.mechanism
        )
        truth = np.asarray(self.truth, dtype=float)[None]
        observed = np.asarray(model.simulate(jax.random.key(self.seed), truth))[0]
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "observed", observed)

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.columns.first)

    @property
    def width(self) -> int:
        """Number of statistics."""
        return len(self.observed)

    def log_likelihood(self, theta: np.ndarray) -> np.ndarray:
        """log p(s_dp | theta), (n,), by NumPy and SciPy alone."""
        return self.exact(self.observed)[0](np.atleast_2d(theta))

    def log_posterior(self, theta: np.ndarray) -> np.ndarray:
        """The same plus the log prior density."""
        inside = self.columns.log_prob(np.atleast_2d(theta))
        return np.where(np.isfinite(inside), self.log_likelihood(theta), 0.0) + inside

    def draw(self, seed: int, num: int) -> np.ndarray:
        """Independent draws from the exact posterior, (num, d)."""
        return self.exact(self.observed)[1](np.random.default_rng(seed), num)

    def reference(self, cache: Path = CACHE) -> np.ndarray:
        """The exact draws (10,000, d), made once and kept under the observation they belong to."""
        digest = hashlib.sha256(self.observed.tobytes()).hexdigest()[:12]
        path = cache / f"{self.name}-{digest}.npz"
        if path.exists():
            with np.load(path) as file:
                return file["theta"]
        theta = self.draw(1, NUM_REFERENCE)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, theta=theta)
        return theta


Catalogue = Mapping[str, Callable[[], Problem]]
