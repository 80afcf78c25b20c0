"""The pictures of this folder, from ready problems, their exact posteriors and small runs: `python
docs/gallery/make.py [name ...]`.

All take about five minutes on two cores. Nothing is made up; settings are here and in the captions
of README.md.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import noisewise as nw
from noisewise.plotting import named_draws
from noisewise.plotting.style import STYLE
from noisewise.posteriors import AbstractPosterior, Draws, Report

HERE = Path(__file__).parent
KEY = jax.random.key(0)
NUM = 2000
DPI = 150

SMALL_NETWORK = functools.partial(
    nw.estimators.mixture_density_network, num_components=4, num_units=32, num_hidden=2
)


@functools.cache
def epidemic() -> tuple[Any, AbstractPosterior]:
    """A deterministic epidemic under strong privacy, and its exact posterior."""
    problem = nw.problems.sir(epsilon=0.02, dynamics="ode", trials=100)
    return problem, named_draws(problem.model, problem.reference(KEY, NUM))


@functools.cache
def methods() -> dict[str, AbstractPosterior]:
    """Four posteriors of the same private regression."""
    problem = nw.problems.linear_regression(epsilon=10.0)
    inference = {
        "PPE": nw.inference.PrivatePosteriorEstimation(
            num_rounds=1, num_simulations=2000, estimator=SMALL_NETWORK
        ),
        "SMC-ABC": nw.inference.SMCABC(num_particles=1000, max_simulations=200_000),
        "naive plug-in": nw.inference.NaivePlugIn(),
    }
    exact = Draws(problem.reference(KEY, NUM), problem.model.names, Report("exact"))
    made = {
        name: method.infer(KEY, problem.model, problem.observed, progress=False)
        for name, method in inference.items()
    }
    return {"exact": exact, **made}


@functools.cache
def sequential() -> dict[str, list[list[AbstractPosterior]]]:
    """Five trials of six rounds of 200 simulations, for two methods."""
    problem, _ = epidemic()
    settings: dict[str, Any] = {"num_rounds": 6, "num_simulations": 200, "estimator": SMALL_NETWORK}
    kinds = {
        "SPPE": nw.inference.PrivatePosteriorEstimation,
        "SPLE": nw.inference.PrivateLikelihoodEstimation,
    }
    return {
        name: [
            list(
                kind(**settings).rounds(
                    jax.random.key(trial), problem.model, problem.observed, progress=False
                )
            )
            for trial in range(5)
        ]
        for name, kind in kinds.items()
    }


class NormalMean:
    """The posterior of a mean with a normal prior, with or without the noise's variance."""

    def __init__(self, prior_variance: float, variance: float) -> None:
        self.precision = 1.0 / prior_variance + 1.0 / variance
        self.variance = variance

    def sample_many(self, key: Any, observed: np.ndarray, num: int) -> np.ndarray:
        """`num` draws for each observation."""
        noise = np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(
            size=(len(observed), num, 1)
        )
        return observed[:, None] / self.variance / self.precision + noise / np.sqrt(self.precision)


@functools.cache
def calibrations() -> dict[str, Any]:
    """500 trials of the right posterior of a mean, and of the one that takes the noisy statistic
    for the true one.
    """
    problem = nw.problems.gaussian_mean(epsilon=1.0, noise="gaussian", bounds=None)
    model, sampling = problem.model, 1.0 / problem.settings["num_records"]
    noise = float(model.mechanism.scale) ** 2
    made = {
        "noise-aware": NormalMean(4.0, sampling + noise),
        "naive plug-in": NormalMean(4.0, sampling),
    }
    return {
        name: nw.diagnostics.calibrate(KEY, posterior, model, 500)
        for name, posterior in made.items()
    }


def pair_plot() -> Any:
    """R0 appears like a parameter."""
    problem, exact = epidemic()
    return nw.plotting.pair_plot(exact, prior=problem.model, truth=problem)


def marginals() -> Any:
    """Regression coefficients at three budgets."""
    problems = {f"$\\epsilon = {e:g}$": nw.problems.linear_regression(e) for e in (10.0, 1.0, 0.1)}
    problem = nw.problems.linear_regression()
    draws = {name: each.reference(KEY, 4000) for name, each in problems.items()}
    return nw.plotting.marginals(
        draws, names=problem.model.names, prior=problem.model, truth=problem
    )


def forest() -> Any:
    """Four methods."""
    return nw.plotting.forest(methods(), truth=nw.problems.linear_regression())


def ks_heatmap() -> Any:
    """The same four, compared two by two."""
    return nw.plotting.ks_heatmap(nw.diagnostics.compare(methods()))


def convergence() -> Any:
    """C2ST against 1000 exact draws."""
    problem, _ = epidemic()
    return nw.plotting.convergence(sequential(), reference=problem.reference(KEY, 1000), floor=0.5)


def rank_ecdf() -> Any:
    """Right posteriors, and those that ignore the noise."""
    return nw.plotting.rank_ecdf(calibrations())


def coverage_curve() -> Any:
    """The same as coverage."""
    return nw.plotting.coverage_curve(calibrations())


def predictive_check() -> Any:
    """Regression statistics, one of which was moved by .08, to where the model does not put it."""
    problem = nw.problems.linear_regression(epsilon=10.0)
    exact = Draws(problem.reference(KEY, NUM), problem.model.names, Report("exact"))
    observed = problem.observed.copy()
    observed[4] += 0.08
    return nw.plotting.predictive_check(
        nw.diagnostics.predictive_check(KEY, exact, problem.model, observed)
    )


class FreshNoise(eqx.Module):
    """Standardised pairs (theta, s_dp) of stored (theta, s), with fresh privacy noise whenever
    rows are asked for.
    """

    theta: jax.Array
    s: jax.Array
    scale: jax.Array

    def __call__(self, key: Any, rows: Any) -> tuple[jax.Array, jax.Array]:
        """Targets and conditions of the rows."""
        noisy = self.s[rows] + self.scale * jax.random.laplace(key, self.s[rows].shape)
        return self.theta[rows].astype(jnp.float32), noisy.astype(jnp.float32)


def trained() -> Any:
    """Three networks that learn the coefficients of the regression from 2000 noisy statistics."""
    model = nw.problems.linear_regression(epsilon=10.0).model
    theta = model.prior.sample(KEY, 2000)
    s = model.statistics(KEY, theta)
    noise = float(np.asarray(model.mechanism.scale))
    unit = s.std(axis=0) + noise
    pairs = FreshNoise(jnp.asarray(theta), jnp.asarray(s / unit), jnp.asarray(noise / unit))
    members = nw.estimators.ensemble(KEY, SMALL_NETWORK, 3, theta.shape[1], s.shape[1])
    rows = np.arange(2000)
    return nw.estimators.train(
        KEY, members, pairs, train_rows=rows[200:], validation_rows=rows[:200], capacity=2000
    )


def loss_curves() -> Any:
    """Over the epochs of one training, and over the rounds of three trials of SPPE from
    `convergence`.
    """
    with matplotlib.rc_context(STYLE):
        _, axes = plt.subplots(1, 2, figsize=(6.4, 2.6))
    nw.plotting.loss_curves(trained(), ax=axes[0])
    rounds = {f"trial {i + 1}": trial[-1] for i, trial in enumerate(sequential()["SPPE"][:3])}
    nw.plotting.loss_curves(rounds, ax=axes[1])
    return axes


def infection_fan() -> Any:
    """The same epidemic as in the pair plot: curves of the exact posterior."""
    problem, exact = epidemic()
    return nw.plotting.infection_fan(
        exact,
        model=problem.model,
        observed=problem.observed,
        truth=problem.truth,
        xlabel="time (days)",
    )


def privacy_utility() -> Any:
    """The mean of 100 records under two mechanisms."""
    budgets = (0.1, 0.3, 1.0, 3.0, 10.0)
    draws = {
        noise: {
            e: nw.problems.gaussian_mean(e, noise=noise.lower()).reference(KEY, NUM)
            for e in budgets
        }
        for noise in ("Laplace", "Gaussian")
    }
    problem = nw.problems.gaussian_mean(epsilon=1e4, bounds=(-8.0, 8.0))
    return nw.plotting.privacy_utility(
        draws, names=["mu"], confidential=problem.reference(KEY, NUM), truth=problem.truth
    )


def uncertainty_bars() -> Any:
    """What part of the posterior variance of a mean, clamped to [-1, 1], is left by sampling,
    clamping and Laplace noise.
    """
    parts = {}
    for epsilon in (10.0, 3.0, 1.0, 0.3, 0.1):
        problem = nw.problems.gaussian_mean(epsilon, bounds=(-1.0, 1.0))
        parts[epsilon] = nw.diagnostics.decompose_uncertainty(
            KEY, problem.model, problem.observed, progress=False
        )
    return nw.plotting.uncertainty_bars(parts)


PICTURES = (
    pair_plot,
    infection_fan,
    marginals,
    forest,
    ks_heatmap,
    predictive_check,
    convergence,
    loss_curves,
    rank_ecdf,
    coverage_curve,
    privacy_utility,
    uncertainty_bars,
)


def main(chosen: list[str]) -> None:
    """Draw the chosen pictures, or all."""
    for picture in PICTURES:
        if not chosen or picture.__name__ in chosen:
            ax: Axes = np.asarray(picture(), dtype=object).flat[0]
            path = HERE / f"{picture.__name__}.png"
            ax.figure.savefig(path, dpi=DPI, metadata={"Software": None})
            plt.close("all")
            print(picture.__name__, f"{path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
