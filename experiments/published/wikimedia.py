"""Daily readers of a Wikipedia article from Australia, noised and suppressed (Wikimedia 2024).

python -m experiments.published.wikimedia path/to/wikimedia_au_pages.csv

"Climate change" in 2024: discrete Gaussian noise of sd sqrt(10 / (2 x .01505)), and noisy numbers
below 90 are not published, so that 266 of 366 days are absent. The model is one line of
`nw.regression`: negative binomial counts with an effect of weekends and of each month. Beside it:

- the same posterior by independent integration in NumPy and SciPy: importance sampling of the four
  parameters that months share, with the months' effects on a grid and the counts summed one by one;
- what the published days alone would say, where suppressed days are dropped.

Nobody has published an inference. Files: Wikimedia's public releases.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import interpolate, special, stats

import noisewise as nw
from experiments.published import comparison

M = nw.mechanisms
PAGE, YEAR = "Climate change", 2024
SIGMA = float(np.sqrt(10 / (2 * 0.01505)))
THRESHOLD = 90
SHARED = ("Intercept", "weekend", "sd(month)", "overdispersion")
NUM_INTEGRATED = 4_000
"""Draws of the independent integration: Monte Carlo errors of some .03 sd."""
_COUNTS = np.arange(0.0, 900.0)
_LEVELS = np.arange(2.0, 6.5, 0.02)
"""Logarithms of means, in steps of a fifth of what a month's days tell it to."""
LARGEST = 0.12
"""Sds between means by chains and by integration: four Monte Carlo errors."""


def days(path: Path, page: str = PAGE, year: int | None = YEAR) -> pd.DataFrame:
    """The days of a page; suppressed ones and days without a file have no number."""
    data = pd.read_csv(path, parse_dates=["date"]).query("page == @page")
    data = data.assign(
        weekend=(data["date"].dt.day_of_week >= 5) * 1.0,
        month=data["date"].dt.strftime("%Y-%m"),
    )
    return data[(data["date"].dt.year == year) | (year is None)].reset_index(drop=True)


def analysis_of(data: pd.DataFrame, mechanism: Any) -> Any:
    """The regression: one line."""
    return nw.regression(
        "views ~ weekend + (1 | month)", data, law="negative binomial", mechanism=mechanism
    )


def integrated(data: pd.DataFrame, near: Any, seed: int = 0) -> dict[str, Any]:
    """Means and sds of what months share, and means of the months' levels.

    Args:
        data: The days.
        near: Draws of the four shared parameters, from which the proposal is shaped.
        seed: Of the proposal.
    """
    absent = data["views"].isna().to_numpy()
    kinds, kind = np.unique(np.where(absent, -1.0, data["views"]), return_inverse=True)
    # eta(y | s), all numbers one by one: discrete Gaussian masses and their sum below 90
    steps = np.arange(-400.0, 401.0)
    normaliser = np.exp(-0.5 * (steps / SIGMA) ** 2).sum()
    eta = np.exp(-0.5 * ((kinds[:, None] - _COUNTS) / SIGMA) ** 2) / normaliser
    lower = np.arange(-1000.0, THRESHOLD)
    eta[kinds < 0] = (
        np.exp(-0.5 * ((lower[:, None] - _COUNTS) / SIGMA) ** 2).sum(axis=0) / normaliser
    )
    months, month = np.unique(data["month"], return_inverse=True)
    weekend = data["weekend"].to_numpy() > 0
    tallies = [np.zeros((len(kinds), len(months))) for _ in range(2)]
    for i in range(len(data)):
        tallies[int(weekend[i])][kind[i], month[i]] += 1.0

    def log_density(z: np.ndarray) -> tuple[float, np.ndarray]:
        intercept, shift, sd, spread = z[0], z[1], np.exp(z[2]), np.exp(z[3])
        r = 1.0 / (spread**2 + 1e-8)
        p = r / (r + np.exp(_LEVELS))
        log_f = special.gammaln(_COUNTS + r) - special.gammaln(r) - special.gammaln(_COUNTS + 1)
        log_f = log_f + r * np.log(p)[:, None] + _COUNTS * np.log1p(-p)[:, None]
        logs = np.log(np.exp(log_f) @ eta.T + 1e-300)
        moved = interpolate.CubicSpline(_LEVELS, logs)(_LEVELS + shift)
        by_month = logs @ tallies[0] + moved @ tallies[1]
        by_month = by_month + stats.norm.logpdf(_LEVELS, intercept, sd)[:, None]
        top = by_month.max(axis=0)
        weights = np.exp(by_month - top)
        total = float((top + np.log(weights.sum(axis=0) * 0.02)).sum())
        total += stats.norm.logpdf(intercept, 0, 5) + stats.norm.logpdf(shift, 0, 2.5)
        total += stats.halfnorm.logpdf(sd) + z[2] + stats.halfnorm.logpdf(spread) + z[3]
        return total, (_LEVELS @ weights) / weights.sum(axis=0)

    z = np.column_stack([near[:, :2], np.log(near[:, 2:])])
    law = stats.multivariate_t(z.mean(axis=0), np.cov(z.T), df=6, seed=seed)
    points = law.rvs(NUM_INTEGRATED)
    found = [log_density(point) for point in points]
    logs = np.array([value for value, _ in found]) - law.logpdf(points)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    theta = np.column_stack([points[:, :2], np.exp(points[:, 2:])])
    mean = weights @ theta
    sd = np.sqrt(weights @ (theta - mean) ** 2)
    return {
        "effective size": float(1.0 / np.sum(weights**2)),
        "moments": {n: (float(m), float(s)) for n, m, s in zip(SHARED, mean, sd, strict=True)},
        "levels": (weights @ np.array([levels for _, levels in found])).tolist(),
    }


def levels(posterior: Any) -> np.ndarray:
    """Draws of each month's mean on working days, (n, months)."""
    months = [i for i, name in enumerate(posterior.names) if name.startswith("month[")]
    intercept = posterior.theta[:, [posterior.names.index("Intercept")]]
    return np.exp(intercept + posterior.theta[:, months])


def run(path: Path, seed: int = 0) -> dict[str, Any]:
    """The posterior beside that by integration, and beside that of published days alone."""
    data = days(path)
    noise, method = M.DiscreteGaussian(scale=SIGMA), nw.inference.MarginalNUTS()
    started = time.process_time()
    analysis = analysis_of(data, M.Thresholded(noise, above=THRESHOLD))
    posterior = method.infer(seed, analysis.model, analysis.observed, progress=False)
    seconds = time.process_time() - started
    dropped = analysis_of(data[data["status"] == "released"].reset_index(drop=True), noise)
    naive = method.infer(seed, dropped.model, dropped.observed, progress=False)
    places = [posterior.names.index(name) for name in SHARED]
    check = integrated(data, posterior.theta[:, places], seed)
    rows = comparison.compared(comparison.by_chain(posterior), check["moments"], "integrated")
    found = levels(posterior)
    close = max(abs(row["difference in sds"]) for row in rows.values()) <= LARGEST
    gap = np.abs(np.log(found).mean(axis=0) - check["levels"]) / np.log(found).std(axis=0)
    worst = comparison.worst_r_hat(posterior)
    everyone = analysis.predict(posterior)["mean"].mean()
    return {
        "days": len(data),
        "published days": int((data["status"] == "released").sum()),
        "seed": seed,
        "posterior": rows,
        "effective size of the integration": check["effective size"],
        "months' levels, largest difference in sds": float(gap.max()),
        "R-hat of all": worst,
        "CPU seconds of the regression": round(seconds, 1),
        "readers per day": float(everyone),
        "mean of published days": float(data["views"].mean()),
        "working days by month": np.exp(np.log(found).mean(axis=0)).tolist(),
        "where suppressed days are dropped": np.exp(np.log(levels(naive)).mean(axis=0)).tolist(),
        "weekend, where suppressed days are dropped": float(
            naive.theta[:, naive.names.index("weekend")].mean()
        ),
        "agrees": bool(close and gap.max() <= LARGEST and worst <= comparison.MAX_R_HAT),
        "draws": {"posterior": posterior, "dropped": naive, "data": data},
    }


def picture(result: dict[str, Any], draws: dict[str, Any], out: Path) -> None:
    """Months' levels with and without suppressed days, and what was published."""

    def paint(figure: Any) -> None:
        axes, data = figure.subplots(), draws["data"]
        place = data["date"].dt.month + (data["date"].dt.day - 16) / 31
        weekend = data["weekend"] > 0
        for which, marker, words in ((~weekend, ".", "published day"), (weekend, "x", "weekend")):
            axes.plot(place[which], data["views"][which], marker, color="#999999", label=words)
        for name, shift, color, words in (
            ("posterior", -0.08, "#1f4e79", "working days, all days in the likelihood"),
            ("dropped", 0.08, "#c0392b", "suppressed days dropped"),
        ):
            found = levels(draws[name])
            low, middle, high = np.quantile(found, [0.025, 0.5, 0.975], axis=0)
            months = np.array(
                [int(label[-3:-1]) for label in draws[name].names if "month[" in label]
            )
            error = [middle - low, high - middle]
            axes.errorbar(months + shift, middle, error, fmt="o", ms=4, color=color, label=words)
        axes.axhline(THRESHOLD, color="#555555", lw=0.8, ls=":")
        axes.text(12.6, THRESHOLD, "threshold", va="center", fontsize=7)
        axes.set_ylim(0, 200)
        axes.set_xticks(range(1, 13))
        axes.set_xlabel(f"month of {YEAR}")
        axes.set_ylabel("readers per day")
        axes.set_title(f"{PAGE}, from Australia")
        axes.legend(frameon=False, ncol=2, fontsize=7)

    comparison.draw("wikimedia", out, (8.0, 3.6), paint)


def main() -> None:
    """Run it on the file that is named."""
    started = time.process_time()
    options = comparison.arguments(__doc__, "wikimedia_au_pages.csv")
    result = run(options.path)
    draws = result.pop("draws")
    comparison.write("wikimedia", result, started, options.out)
    picture(result, draws, options.out)


if __name__ == "__main__":
    main()
