"""A made-up series of daily counts whose threshold of publication drops from 450 to 90 halfway.

The level never changes. Whoever leaves absent days out finds a fall that is not there: before the
change only the busiest days were published. Counting each absent day by its probability finds none.
Run it with a path to save the picture: `python examples/threshold_change.py change.png`.
"""

import sys

import jax
import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import nbinom

import noisewise as nw

NUM_DAYS, LEVEL, SHAPE, SEED = 240, 300.0, 8.0, 3
"""Days, the mean count of a day, the shape of its gamma law from day to day, and the seed."""
COUNTS = np.arange(1500.0)
LEVELS = np.geomspace(150.0, 800.0, 400)
NOISE = nw.mechanisms.DiscreteLaplace(scale=30.0)
LAWS = {
    "before": nw.mechanisms.Thresholded(NOISE, above=450.0),
    "after": nw.mechanisms.Thresholded(NOISE, above=90.0),
}


def published() -> nw.Release:
    """The series as it is published: noisy counts, absent below the threshold of their day."""
    counts = nbinom(SHAPE, SHAPE / (SHAPE + LEVEL)).rvs(NUM_DAYS, random_state=SEED)
    half = np.repeat(["before", "after"], NUM_DAYS // 2)
    frame = pd.DataFrame({"day": np.arange(NUM_DAYS), "half": half})
    keys = jax.random.split(jax.random.key(SEED), 2)
    frame["views"] = np.concatenate(
        [
            LAWS[name].sample(key, counts[half == name].astype(float))
            for name, key in zip(LAWS, keys, strict=True)
        ]
    )
    return nw.Release.from_table(
        frame, value="views", labels=["day", "half"], mechanism=LAWS, by="half"
    )


def log_likelihood(release: nw.Release, half: str, *, drop_absent: bool) -> np.ndarray:
    """The log likelihood of each of LEVELS, a sum over the counts that a day may have had."""
    part = release.select(half=half)
    values = part.observed[~np.isnan(part.observed)] if drop_absent else part.observed
    prior = nbinom.logpmf(COUNTS[:, None], SHAPE, SHAPE / (SHAPE + LEVELS))
    total = np.zeros(LEVELS.size)
    cells, repeats = np.unique(values, return_counts=True)
    for cell, times in zip(cells, repeats, strict=True):
        eta = LAWS[half].log_prob(np.full((COUNTS.size, 1), cell), COUNTS[:, None])
        total += times * logsumexp(prior + eta[:, None], axis=0)
    return total


def jump(release: nw.Release, *, drop_absent: bool) -> tuple[float, float]:
    """Mean and standard deviation of the log of the level after over that before, flat in logs."""
    moments = []
    for half in LAWS:
        log_density = log_likelihood(release, half, drop_absent=drop_absent)
        weights = np.exp(log_density - logsumexp(log_density))
        mean = weights @ np.log(LEVELS)
        moments.append((mean, weights @ (np.log(LEVELS) - mean) ** 2))
    (before, var_before), (after, var_after) = moments
    return float(after - before), float(np.sqrt(var_before + var_after))


def main() -> None:
    release = published()
    shown = release.table
    print(shown.groupby("half", sort=False)["absent"].sum().to_string())
    for drop_absent, words in ((True, "absent days left out"), (False, "absent days counted")):
        mean, sd = jump(release, drop_absent=drop_absent)
        print(f"{words:>21}: level after / before = {np.exp(mean):.2f}, log {mean:+.3f} ± {sd:.3f}")
    if len(sys.argv) > 1:
        picture(release, sys.argv[1])


def picture(release: nw.Release, path: str) -> None:
    """The published counts with both estimates of the level of each half."""
    import matplotlib.pyplot as plt

    shown, middle = release.table, NUM_DAYS // 2
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.plot(shown["day"], shown["value"], ".", color="grey", label="published")
    axes.plot(shown["day"][shown["absent"]], np.zeros(shown["absent"].sum()), "|", label="absent")
    for drop_absent, color in ((True, "C1"), (False, "C0")):
        levels = [
            LEVELS[log_likelihood(release, half, drop_absent=drop_absent).argmax()] for half in LAWS
        ]
        name = "absent days left out" if drop_absent else "absent days counted"
        axes.step(
            [0, middle, NUM_DAYS], [*levels, levels[-1]], where="post", color=color, label=name
        )
    axes.axhline(LEVEL, linestyle=":", color="black", label="the level")
    axes.set(xlabel="day", ylabel="views")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
