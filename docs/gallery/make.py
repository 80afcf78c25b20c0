"""The pictures of this folder, from ready problems and their exact posteriors: `python docs/gallery/make.py [name ...]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import noisewise as nw
from noisewise.plotting import named_draws, named_truth

HERE = Path(__file__).parent
KEY = jax.random.key(0)
NUM = 1000
RNG = np.random.default_rng


def pair_plot() -> Any:
    """The epidemic, with R0 among the parameters."""
    problem = nw.problems.sir(epsilon=10.0)
    return nw.plotting.pair_plot(
        named_draws(problem.model, problem.reference(KEY, NUM)),
        prior=named_draws(problem.model, problem.model.prior.sample(KEY, 4000)),
        truth=named_truth(problem.model, problem.truth),
    )


def marginals() -> Any:
    """Regression coefficients at three budgets."""
    problems = {f"$\\epsilon = {e:g}$": nw.problems.linear_regression(e) for e in (10.0, 1.0, 0.1)}
    model = nw.problems.linear_regression().model
    return nw.plotting.marginals(
        {name: problem.reference(KEY, NUM) for name, problem in problems.items()},
        names=model.names,
        prior=model.prior.sample(KEY, 4000),
        truth=nw.problems.linear_regression().truth,
    )


def methods() -> dict[str, np.ndarray]:
    """Exact draws, and distortions of them that stand for what approximate methods get wrong."""
    exact = nw.problems.linear_regression().reference(KEY, NUM)
    other = nw.problems.linear_regression().reference(jax.random.key(1), NUM)
    centre = exact.mean(axis=0)
    return {
        "exact": exact,
        "exact, again": other,
        "narrow": centre + 0.6 * (other - centre),
        "biased": other + np.array([0.5, 0.0, -0.3]),
    }


def forest() -> Any:
    """Intervals of four sets of draws."""
    problem = nw.problems.linear_regression()
    return nw.plotting.forest(methods(), names=problem.model.names, truth=problem.truth)


def ks_heatmap() -> Any:
    """The same four sets, compared two by two."""
    return nw.plotting.ks_heatmap(methods(), names=nw.problems.linear_regression().model.names)


def convergence() -> Any:
    """Made-up accuracies of two methods, 20 trials each."""
    rng, rounds = RNG(0), np.arange(1, 11)
    fast = 0.52 + 0.4 * np.exp(-rounds / 1.8) + 0.02 * rng.gamma(1.5, size=(20, 10))
    slow = 0.53 + 0.45 * np.exp(-rounds / 3.0) + 0.03 * rng.gamma(1.5, size=(20, 10))
    return nw.plotting.convergence({"SPPE": fast, "SPLE": slow}, floor=0.5)


def calibration() -> np.ndarray:
    """Ranks of the true mean among exact draws, with and without the privacy noise in the posterior."""
    problem, rng = nw.problems.gaussian_mean(epsilon=1.0, noise="gaussian", bounds=None), RNG(0)
    scale, n = float(problem.model.mechanism.scale), problem.settings["num_records"]
    theta = 2.0 * rng.normal(size=500)
    observed = theta + rng.normal(size=500) / np.sqrt(n) + scale * rng.normal(size=500)
    ranks = []
    for variance in (1.0 / n + scale**2, 1.0 / n):
        mean, sd = observed / (1.0 + variance / 4.0), np.sqrt(1.0 / (1.0 / 4.0 + 1.0 / variance))
        draws = mean[:, None] + sd[None, None] * rng.normal(size=(500, 199))
        ranks.append(((draws < theta[:, None]).sum(axis=1) + rng.random(500)) / 200.0)
    return np.stack(ranks, axis=1)


def rank_ecdf() -> Any:
    """Right posteriors, and those that ignore the noise."""
    return nw.plotting.rank_ecdf(calibration(), names=["noise-aware", "naive plug-in"])


def coverage_curve() -> Any:
    """The same as coverage."""
    return nw.plotting.coverage_curve(calibration(), names=["noise-aware", "naive plug-in"])


def predictive_check() -> Any:
    """Regression statistics, one of which was replaced by a value that the model does not predict."""
    problem = nw.problems.linear_regression(epsilon=10.0)
    simulated = problem.model.simulate(KEY, problem.reference(KEY, NUM))
    observed = problem.observed.copy()
    observed[4] += 0.08
    return nw.plotting.predictive_check(simulated, observed, names=problem.model.private_names)


def loss_curves() -> Any:
    """Made-up losses of three members, which stop at different epochs."""
    rng, epochs = RNG(0), np.arange(1, 81)[:, None]
    train = 1.1 + 2.0 * np.exp(-epochs / 12.0) + 0.02 * rng.normal(size=(80, 3))
    validation = (
        1.25 + 1.9 * np.exp(-epochs / 12.0) + 0.002 * np.maximum(epochs - 45, 0) + 0.03 * rng.normal(size=(80, 3))
    )
    for member, stop in enumerate((80, 66, 74)):
        train[stop:, member] = validation[stop:, member] = np.nan
    return nw.plotting.loss_curves({"training": train, "validation": validation})


def infection_fan() -> Any:
    """Infection curves given a private one, brought to the scale of people by inverting the mean of the mechanism."""
    problem = nw.problems.sir(epsilon=0.1, dynamics="ode")
    mechanism: Any = problem.model.mechanism
    simulator: Any = problem.model.simulator
    times = np.linspace(0.0, simulator.times[-1], 154)
    fine = nw.simulators.SIR(simulator.population, times=tuple(times), dynamics="ode")
    curves = fine.simulate(KEY, problem.reference(KEY, NUM))
    total, padding = simulator.population, mechanism.padding
    people = problem.observed / mechanism.trials * (total + 2.0 * padding) - padding
    return nw.plotting.infection_fan(
        100.0 * curves / total,
        times=times,
        observed=100.0 * people / total,
        observed_times=simulator.times,
        truth=100.0 * fine.simulate(KEY, problem.truth[None])[0] / total,
        xlabel="time (days)",
        ylabel="infected (% of the population)",
    )


def privacy_utility() -> Any:
    """The mean of 100 records under two mechanisms."""
    budgets = (0.1, 0.3, 1.0, 3.0, 10.0)
    draws = {
        noise: {e: nw.problems.gaussian_mean(e, noise=noise.lower()).reference(KEY, NUM) for e in budgets}
        for noise in ("Laplace", "Gaussian")
    }
    problem = nw.problems.gaussian_mean(epsilon=1e4, bounds=(-8.0, 8.0))
    return nw.plotting.privacy_utility(
        draws, names=["mu"], confidential=problem.reference(KEY, NUM), truth=problem.truth
    )


def uncertainty_bars() -> Any:
    """What clamping to [-1, 1] and Laplace noise add to the posterior variance of a mean, at the observation of each budget."""

    def variance(epsilon: float, bound: float) -> float:
        return float(nw.problems.gaussian_mean(epsilon, bounds=(-bound, bound)).reference(KEY, 50_000).var())

    budgets, sampling, clamped = (10.0, 3.0, 1.0, 0.3, 0.1), variance(1e4, 8.0), variance(1e4, 1.0)
    private = np.array([variance(e, 1.0) for e in budgets])
    parts = {
        "sampling": np.full(len(budgets), sampling),
        "clamping": np.full(len(budgets), max(0.0, clamped - sampling)),
        "privacy": np.maximum(0.0, private - clamped),
    }
    return nw.plotting.uncertainty_bars(parts, names=[f"$\\epsilon$ = {e:g}" for e in budgets])


PICTURES = (
    pair_plot,
    marginals,
    forest,
    ks_heatmap,
    convergence,
    rank_ecdf,
    coverage_curve,
    predictive_check,
    loss_curves,
    infection_fan,
    privacy_utility,
    uncertainty_bars,
)


def main(chosen: list[str]) -> None:
    """Draw the chosen pictures, or all."""
    for picture in PICTURES:
        if not chosen or picture.__name__ in chosen:
            axes = picture()
            ax: Axes = np.asarray(axes, dtype=object).flat[0]
            ax.figure.savefig(HERE / f"{picture.__name__}.png", dpi=100)  # type: ignore[union-attr]
            plt.close("all")
            print(picture.__name__, f"{(HERE / f'{picture.__name__}.png').stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
