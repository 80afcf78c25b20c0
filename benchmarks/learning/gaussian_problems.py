"""Kinds with Gaussian noise: linear, four points with bent covariance, two moons, a hierarchy."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

import noisewise as nw
from benchmarks.learning.exact_draws import from_table, grid_draws
from benchmarks.learning.problem import Problem, normals, uniforms

ANGLES = 400
"""Nodes of the moon's angle: two thirds of the narrowest noise apart at its radius."""


def linear(name: str, seed: int, *, dim: int, width: int, sd: float, noise: float) -> Problem:
    """s = A theta + N(0, sd^2), theta ~ N(0, I); conjugate."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(width, dim)) / np.sqrt(dim)
    variance = sd**2 + noise**2

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        covariance = np.linalg.inv(np.eye(dim) + design.T @ design / variance)
        mean = covariance @ design.T @ observed / variance

        def log_likelihood(theta: np.ndarray) -> np.ndarray:
            return stats.norm.logpdf(observed, theta @ design.T, np.sqrt(variance)).sum(-1)

        return log_likelihood, lambda rng, num: rng.multivariate_normal(mean, covariance, num)

    return Problem(
        name=name,
        kind="Gaussian linear",
        how="conjugate: independent draws",
        columns=normals(*[(0.0, 1.0)] * dim),
        simulate=lambda key, t: jnp.asarray(design) @ t + sd * jax.random.normal(key, (width,)),
        mechanism=nw.mechanisms.Gaussian(scale=noise),
        truth=rng.normal(size=dim),
        seed=seed,
        exact=exact,
    )


def points(name: str, seed: int, *, truth: tuple[float, ...], noise: float) -> Problem:
    """Four points in the plane from N((t1, t2), S), S of sds t3^2 and t4^2, correlation tanh t5."""

    def simulate(key, theta):
        normal = jax.random.normal(key, (4, 2))
        first, second, bend = theta[2] ** 2, theta[3] ** 2, jnp.tanh(theta[4])
        x = theta[0] + first * normal[:, 0]
        y = theta[1] + second * (bend * normal[:, 0] + jnp.sqrt(1.0 - bend**2) * normal[:, 1])
        return jnp.stack([x, y], -1).ravel()

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        z = observed.reshape(4, 2)
        center, scatter = z.mean(0), (z - z.mean(0)).T @ (z - z.mean(0))

        def covariance(bent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            first, second = bent[:, 0] ** 2, bent[:, 1] ** 2
            return (
                first**2 + noise**2,
                second**2 + noise**2,
                first * second * np.tanh(bent[:, 2]),
            )

        def log_shape(bent: np.ndarray) -> np.ndarray:
            """The likelihood with the mean at the centre, at (t3, t4, t5)."""
            a, b, c = covariance(bent)
            det = a * b - c * c
            trace = (scatter[0, 0] * b + scatter[1, 1] * a - 2.0 * scatter[0, 1] * c) / det
            return -4.0 * np.log(2.0 * np.pi) - 2.0 * np.log(det) - 0.5 * trace

        def log_likelihood(theta: np.ndarray) -> np.ndarray:
            a, b, c = covariance(theta[:, 2:])
            u, v = (theta[:, :2] - center).T
            square = (u * u * b + v * v * a - 2.0 * u * v * c) / (a * b - c * c)
            return log_shape(theta[:, 2:]) - 2.0 * square

        def log_marginal(bent: np.ndarray) -> np.ndarray:
            """The mean integrated out over the plane: times det^(1/2), up to a constant."""
            a, b, c = covariance(bent)
            return log_shape(bent) + 0.5 * np.log(a * b - c * c)

        def draw(rng: np.random.Generator, num: int) -> np.ndarray:
            kept: list[np.ndarray] = []
            while sum(map(len, kept)) < num:
                low, high = np.array([0.0, 0.0, -3.0]), np.array([3.0, 3.0, 3.0])
                bent = grid_draws(log_marginal, low, high, 70, rng, num)
                a, b, c = (part / 4.0 for part in covariance(bent))
                x = center[0] + np.sqrt(a) * rng.normal(size=num)
                y = center[1] + (c / a) * (x - center[0])
                y = y + np.sqrt(b - c * c / a) * rng.normal(size=num)
                bent[:, :2] *= rng.choice([-1.0, 1.0], size=(num, 2))
                inside = (np.abs(x) < 3.0) & (np.abs(y) < 3.0)
                kept.append(np.column_stack([x, y, bent])[inside])
            return np.concatenate(kept)[:num]

        return log_likelihood, draw

    return Problem(
        name=name,
        kind="four points with bent covariance",
        how="grid and rejection for three, the mean given these, both signs at random",
        columns=uniforms(*[(-3.0, 3.0)] * 5),
        simulate=simulate,
        mechanism=nw.mechanisms.Gaussian(scale=noise),
        truth=np.array(truth),
        seed=seed,
        exact=exact,
    )


def moons(name: str, seed: int, *, truth: tuple[float, float], noise: float) -> Problem:
    """A crescent of radius N(.1, .01^2), moved by -|t1 + t2| / sqrt 2 and (t2 - t1) / sqrt 2."""

    def moved(theta, np):
        total, difference = theta[..., 0] + theta[..., 1], theta[..., 1] - theta[..., 0]
        return np.stack([0.25 - np.abs(total) / 2**0.5, difference / 2**0.5], -1)

    def simulate(key, theta):
        first, second = jax.random.split(key)
        angle = jax.random.uniform(first, (), minval=-jnp.pi / 2, maxval=jnp.pi / 2)
        radius = 0.1 + 0.01 * jax.random.normal(second)
        return moved(theta, jnp) + radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        angles = (np.arange(ANGLES) + 0.5) * np.pi / ANGLES - np.pi / 2

        def log_likelihood(theta: np.ndarray) -> np.ndarray:
            u, v = (observed - moved(theta, np)).T[:, :, None]
            along = u * np.cos(angles) + v * np.sin(angles) - 0.1
            across = v * np.cos(angles) - u * np.sin(angles)
            terms = stats.norm.logpdf(along, 0.0, np.hypot(noise, 0.01))
            terms = terms + stats.norm.logpdf(across, 0.0, noise)
            return special.logsumexp(terms, axis=1) - np.log(ANGLES)

        low, high = np.array([-1.0, -1.0]), np.array([1.0, 1.0])
        return log_likelihood, lambda rng, num: grid_draws(log_likelihood, low, high, 250, rng, num)

    return Problem(
        name=name,
        kind="two moons",
        how="quadrature over the angle, grid and rejection",
        columns=uniforms((-1.0, 1.0), (-1.0, 1.0)),
        simulate=simulate,
        mechanism=nw.mechanisms.Gaussian(scale=noise),
        truth=np.array(truth),
        seed=seed,
        exact=exact,
    )


def groups(name: str, seed: int, *, num: int, sd: float, noise: float) -> Problem:
    """s_i = m + tau z_i + N(0, sd^2); parameters m, log tau and z_1, ..., z_num: a funnel."""
    total = sd**2 + noise**2

    def simulate(key, theta):
        return theta[0] + jnp.exp(theta[1]) * theta[2:] + sd * jax.random.normal(key, (num,))

    def exact(observed: np.ndarray) -> tuple[Callable, Callable]:
        def log_likelihood(theta: np.ndarray) -> np.ndarray:
            mean = theta[:, :1] + np.exp(theta[:, 1:2]) * theta[:, 2:]
            return stats.norm.logpdf(observed, mean, np.sqrt(total)).sum(-1)

        def design(log_tau: float) -> np.ndarray:
            return np.column_stack([2.0 * np.ones(num), np.exp(log_tau) * np.eye(num)])

        def draw(rng: np.random.Generator, count: int) -> np.ndarray:
            nodes = np.linspace(-6.0, 6.0, 6001)
            log_mass = stats.norm.logpdf(nodes, -0.5, 1.0)
            for i, log_tau in enumerate(nodes):
                a = design(log_tau)
                law = stats.multivariate_normal(np.zeros(num), a @ a.T + total * np.eye(num))
                log_mass[i] += law.logpdf(observed)
            log_tau = from_table(rng, nodes, np.broadcast_to(log_mass, (count, len(nodes))))
            theta = np.empty((count, num + 2))
            for i, value in enumerate(log_tau):
                a = design(value)
                covariance = np.linalg.inv(np.eye(num + 1) + a.T @ a / total)
                root = np.linalg.cholesky(covariance)
                given = covariance @ a.T @ observed / total + root @ rng.normal(size=num + 1)
                theta[i] = np.concatenate([[2.0 * given[0], value], given[1:]])
            return theta

        return log_likelihood, draw

    rng = np.random.default_rng(seed)
    return Problem(
        name=name,
        kind="group means of unknown spread",
        how="one-dimensional quadrature over log tau, conjugate given it",
        columns=normals((0.0, 2.0), (-0.5, 1.0), *[(0.0, 1.0)] * num),
        simulate=simulate,
        mechanism=nw.mechanisms.Gaussian(scale=noise),
        truth=np.concatenate([[1.0, -0.3], rng.normal(size=num)]),
        seed=seed,
        exact=exact,
    )
