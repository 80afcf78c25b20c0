"""A ban on minarets, asked by the stochastic lie detector (Moshagen, Musch and Erdfelder 2012).

python -m experiments.published.minarets path/to/minarets_sld.csv

1,256 people were asked with a device; those in favour of the ban are honest with a probability t
that nobody knows, which two groups with different devices tell:

    P(yes) = t q + (1 - q) (1 - p),  p = 1/6 or 5/6,  q = logit^-1(x beta)

The published maximum likelihood is that of Heck and Moshagen (2018), J. Stat. Softw. 85(2). The
posterior, beta ~ N(0, 2.5^2) and t uniform, is checked by importance sampling in NumPy that shares
no code with the package. The likelihood is skewed: means lie far from its highest point. File:
dataset minarets of the R package RRreg (GPL-3).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist
import pandas as pd
from scipy import special, stats

import noisewise as nw
from experiments.published import comparison

NAMES = ("Intercept", "age_c", "left_right_c", "age_c:left_right_c", "t")
ESTIMATES = (1.89659, 0.01364, 0.62442, -0.02039, 0.65170)
LOG_LIKELIHOOD = -821.084
SLOPE_SD = 2.5
TOLERANCES = (1e-3, 1e-2)
"""Of estimates, and of the log likelihood."""
NUM_INTEGRATED = 60_000
"""Draws of the independent integration: Monte Carlo errors of .01 sd."""


def analysis_of(path: Path) -> Any:
    """The regression: one line."""
    data = pd.read_csv(path).query("condition > 0").reset_index(drop=True)
    slopes = dict.fromkeys(NAMES[:-1], dist.Normal(0.0, SLOPE_SD))
    p = data["p_nonneg"].round(9).replace({0.166666667: 1 / 6, 0.833333333: 5 / 6}).to_numpy()
    return nw.regression(
        "resp ~ age_c * left_right_c",
        data,
        law="bernoulli",
        mechanism=lambda theta: nw.mechanisms.StochasticLieDetector(truth=theta["t"], p=p),
        prior={"t": dist.Uniform(0.0, 1.0), **slopes},
    )


def integrated(path: Path, seed: int = 0) -> dict[str, Any]:
    """Means and sds by adaptive importance sampling with Student t proposals, in NumPy."""
    data = pd.read_csv(path).query("condition > 0")
    age, side = data["age_c"].to_numpy(), data["left_right_c"].to_numpy()
    x = np.column_stack([np.ones(len(age)), age, side, age * side])
    yes, p = data["resp"].to_numpy() == 1, np.where(data["condition"] == 1, 1 / 6, 5 / 6)
    # columns of very different sizes
    unit = np.append(1.0 / x.std(axis=0).clip(1.0), 1.0)

    def log_density(points: np.ndarray) -> np.ndarray:
        found = []
        for block in np.array_split(points, max(1, len(points) // 2000)):
            beta, t = block[:, :4], special.expit(block[:, 4])
            q = special.expit(beta @ x.T)
            says_yes = t[:, None] * q + (1.0 - p) * (1.0 - q)
            likelihood = np.log(np.where(yes, says_yes, 1.0 - says_yes)).sum(axis=1)
            prior = stats.norm.logpdf(beta, 0.0, SLOPE_SD).sum(axis=1)
            found.append(likelihood + prior + np.log(t) + np.log1p(-t))
        return np.concatenate(found)

    rng = np.random.default_rng(seed)
    centre = np.append(ESTIMATES[:4], special.logit(ESTIMATES[4]))
    law = stats.multivariate_t(centre, np.diag((0.5 * unit) ** 2), df=4, seed=rng)
    for num in (4_000, 8_000, 8_000, NUM_INTEGRATED):
        points = law.rvs(num)
        logs = log_density(points) - law.logpdf(points)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        mean = weights @ points
        shape = np.cov(points.T, aweights=weights) + 1e-6 * np.diag(unit**2)
        law = stats.multivariate_t(mean, shape, df=4, seed=rng)
    theta = np.column_stack([points[:, :4], special.expit(points[:, 4])])
    mean = weights @ theta
    sd = np.sqrt(weights @ (theta - mean) ** 2)
    return {
        "effective size": float(1.0 / np.sum(weights**2)),
        "moments": {name: (float(m), float(s)) for name, m, s in zip(NAMES, mean, sd, strict=True)},
    }


def run(path: Path, seed: int = 0) -> dict[str, Any]:
    """Maximum likelihood beside the published one; the posterior beside the integration."""
    analysis = analysis_of(path)
    best = nw.maximum_likelihood(analysis)
    estimate = [float(best.estimate[name]) for name in NAMES]
    errors = np.abs(np.subtract(estimate, ESTIMATES))
    method = nw.inference.MarginalNUTS(target_ess=2000)
    posterior = method.infer(seed, analysis.model, analysis.observed, progress=False)
    check = integrated(path, seed)
    rows = comparison.compared(comparison.by_chain(posterior), check["moments"], "integrated")
    close = errors.max() <= TOLERANCES[0]
    close &= abs(best.log_likelihood - LOG_LIKELIHOOD) <= TOLERANCES[1]
    return {
        "people": len(analysis.observed),
        "seed": seed,
        "maximum likelihood": dict(zip(NAMES, estimate, strict=True)),
        "published": dict(zip(NAMES, ESTIMATES, strict=True)),
        "log likelihood": [best.log_likelihood, LOG_LIKELIHOOD],
        "posterior": rows,
        "effective size of the integration": check["effective size"],
        "R-hat of all": comparison.worst_r_hat(posterior),
        "agrees": bool(close) and comparison.agrees(rows),
        "draws": posterior,
    }


def picture(result: dict[str, Any], draws: Any, out: Path) -> None:
    """The posterior of each parameter, its mean, and the highest point of the likelihood."""

    def paint(figure: Any) -> None:
        for axes, name in zip(figure.subplots(1, 5), NAMES, strict=True):
            values = draws.theta[:, draws.names.index(name)]
            low, high = np.quantile(values, [0.002, 0.998])
            axes.hist(values, bins=50, range=(low, high), density=True, color="#9db8d2")
            axes.axvline(values.mean(), color="#1f4e79", label="posterior mean")
            axes.axvline(
                result["published"][name], color="#c0392b", ls="--", label="maximum likelihood"
            )
            axes.set_title(name)
            axes.set_yticks([])
        figure.axes[0].legend(loc="upper right", fontsize=7, frameon=False)

    comparison.draw("minarets", out, (11.0, 2.4), paint)


def main() -> None:
    """Run it on the file that is named."""
    started = time.process_time()
    options = comparison.arguments(__doc__, "minarets_sld.csv")
    result = run(options.path)
    draws = result.pop("draws")
    comparison.write("minarets", result, started, options.out)
    picture(result, draws, options.out)


if __name__ == "__main__":
    main()
