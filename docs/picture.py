"""The picture of the README: what ignoring the noise does, and what noisewise gives.

python docs/picture.py          # writes docs/naive_against_noisewise.png, in half a minute

The problem is that of the README's first lines of code. 40 releases are simulated with a true mean
of 12 minutes; the first of them is the number in the README.
"""

from __future__ import annotations

from pathlib import Path

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

import noisewise as nw
from noisewise.plotting.style import OKABE_ITO, STYLE

PATH = Path(__file__).parent / "naive_against_noisewise.png"
TRUTH = 12.0
NUM_RECORDS = 100
NUM_RELEASES = 40
KEY = 11
"""Seed of the simulated releases, chosen so that the naive interval of the first one misses the
truth and the number of such misses is as usual: naive intervals hold the truth in 21 of these 40
releases, and in 51% of 4,000 others."""

NAIVE, AWARE = OKABE_ITO[1], OKABE_ITO[0]
GRID = np.linspace(0.05, 60.0, 4000)
"""Minutes: mean waiting times at which the naive posterior is computed."""


def clinic() -> nw.PrivateModel:
    """The README's model: the mean of 100 waiting times, at epsilon = 0.2."""
    query = nw.queries.ClampedMean(bounds=(0.0, 60.0), num_records=NUM_RECORDS)
    return nw.PrivateModel(
        prior=nw.Prior({"mean": dist.LogNormal(2.5, 0.75)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta[0] * jax.random.exponential(key, (NUM_RECORDS, 1))
        ),
        query=query,
        mechanism=nw.mechanisms.Laplace.calibrate(
            sensitivity=query.sensitivity(norm=1), guarantee=nw.PureDP(0.2)
        ),
    )


def releases(model: nw.PrivateModel) -> np.ndarray:
    """Simulated private means at the truth, shape (NUM_RELEASES,), as published: one decimal."""
    theta = np.full((NUM_RELEASES, 1), TRUTH)
    return np.asarray(model.simulate(jax.random.key(KEY), theta)).ravel().round(1)


def naive_density(model: nw.PrivateModel, released: float) -> np.ndarray:
    """The posterior of somebody who takes the release for the mean of the records, on GRID.

    A mean of 100 exponential times is Gamma(100, mean / 100): its log density at the release is
    -100 log(mean) - 100 released / mean plus a constant.
    """
    likelihood = -NUM_RECORDS * (np.log(GRID) + max(released, 0.1) / GRID)
    log_density = np.asarray(model.prior.log_prob(GRID[:, None])) + likelihood
    weights = np.exp(log_density - log_density.max())
    return weights / weights.sum() / (GRID[1] - GRID[0])


def naive_interval(model: nw.PrivateModel, released: float) -> tuple[float, float]:
    """The central 95% of the naive posterior."""
    cumulated = np.cumsum(naive_density(model, released)) * (GRID[1] - GRID[0])
    low, high = np.interp([0.025, 0.975], cumulated, GRID)
    return float(low), float(high)


def aware(
    model: nw.PrivateModel, released: float, target_ess: int = 1000
) -> nw.posteriors.AbstractPosterior:
    """The answer of noisewise, as in the README."""
    key = jax.random.key(0)
    return nw.infer(key, model, [released], target_ess=target_ess, progress=False)


def aware_interval(model: nw.PrivateModel, released: float) -> tuple[float, float]:
    """The central 95% of noisewise's posterior."""
    row = aware(model, released).summary().loc["mean"]
    return float(row["2.5%"]), float(row["97.5%"])


def holding(intervals: list[tuple[float, float]]) -> int:
    """How many intervals contain the truth."""
    return sum(low <= TRUTH <= high for low, high in intervals)


def figure() -> Figure:
    """One release on the left, 40 on the right."""
    model = clinic()
    released = releases(model)
    with matplotlib.rc_context({**STYLE, "font.size": 10.0, "axes.titlesize": 10.5}):
        made, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.7), width_ratios=(1.0, 1.15))
        one_release(left, model, float(released[0]))
        many_releases(right, model, released)
    return made


def one_release(ax: Axes, model: nw.PrivateModel, released: float) -> None:
    """Both posteriors of one release."""
    draws = aware(model, released, 40_000).sample(jax.random.key(1), 20_000)[:, 0]
    naive = naive_density(model, released)
    smooth = np.asarray(gaussian_kde(np.log(draws))(np.log(GRID))) / GRID
    for density, colour in ((smooth, AWARE), (naive, NAIVE)):
        ax.fill_between(GRID, density, color=colour, alpha=0.3, linewidth=0.0)
        ax.plot(GRID, density, color=colour)
    top = 1.12 * naive.max()
    ax.vlines(TRUTH, 0.0, top, color="black", linewidth=1.2)
    ax.text(TRUTH - 0.4, 0.93 * top, "truth", ha="right")
    ax.text(released + 1.9, 0.8 * naive.max(), "ignoring\nthe noise", color=NAIVE)
    ax.text(4.9, 0.3 * naive.max(), "noisewise", color=AWARE, ha="center")
    ax.set(xlim=(0.0, 30.0), ylim=(0.0, top), yticks=[], xlabel="mean waiting time, minutes")
    ax.spines["left"].set_visible(False)
    ax.set_title(f"Released: {released:g} minutes. What was the mean?", loc="left")


def many_releases(ax: Axes, model: nw.PrivateModel, released: np.ndarray) -> None:
    """95% intervals of every release, ordered by what was released."""
    values = np.sort(released)
    naive = [naive_interval(model, float(value)) for value in values]
    wide = [aware_interval(model, float(value)) for value in values]
    rows = np.arange(NUM_RELEASES)
    ax.hlines(rows, *np.transpose(wide), color=AWARE, alpha=0.35, linewidth=3.6)
    for row, (low, high) in zip(rows, naive, strict=True):
        missed = not low <= TRUTH <= high
        ax.hlines(row, low, high, color=NAIVE, linewidth=2.4 if missed else 1.0)
    ax.axvline(TRUTH, color="black", linewidth=1.2)
    ax.set(xlim=(0.0, 36.0), yticks=[], ylim=(-1.0, NUM_RELEASES))
    ax.set_xlabel("95% intervals, minutes")
    ax.spines["left"].set_visible(False)
    ax.set_title(f"{NUM_RELEASES} such releases: intervals that hold the truth", loc="left")
    for height, text, colour in (
        (9.0, f"noisewise: {holding(wide)} of {NUM_RELEASES}", AWARE),
        (5.8, f"ignoring the noise: {holding(naive)} of {NUM_RELEASES}", NAIVE),
    ):
        ax.text(36.0, height, text, color=colour, ha="right")


def main() -> None:
    """Draw and save."""
    made = figure()
    made.savefig(PATH, dpi=150, metadata={"Software": None})
    print(f"{PATH.name}: {PATH.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
