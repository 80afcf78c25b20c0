"""Who cheated in a dice game, asked by four survey designs (Hoeglinger and Jann 2018).

python -m experiments.published.mechanical_turk path/to/mturk_dice_rr.csv

3,070 people; the design, and its probabilities, differ from row to row. The share of cheaters of
each design has a uniform prior. What people really did is known: two intervals do not hold it,
because people do not follow the device. Published intervals are by independent code. File: dataset
of the R package GLMMRR (GPL-3).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist
import pandas as pd
from scipy import special

import noisewise as nw
from experiments.published import comparison
from noisewise.samplers.chain_diagnostics import effective_draws, r_hat

M = nw.mechanisms
DESIGNS = ("DQ", "UQM", "Crosswise", "Forced")
WORDS = ("direct question", "unrelated question", "crosswise", "forced response")
PUBLISHED = {
    "DQ": (0.024, 0.064),
    "UQM": (0.024, 0.089),
    "Crosswise": (0.101, 0.181),
    "Forced": (0.000, 0.031),
}
"""95% intervals of the share of cheaters."""
LARGEST = 0.002
LEAST_SIZE = 5_000


def analysis_of(path: Path) -> Any:
    """The regression: one line, with the design of each row."""
    data = pd.read_csv(path)
    rows = {name: data[data["design"] == name] for name in DESIGNS}
    mechanism = M.PerCell(
        [
            M.DirectQuestion(),
            M.UnrelatedQuestion(rows["UQM"]["p1"].to_numpy(), rows["UQM"]["p2"].to_numpy()),
            M.Crosswise(rows["Crosswise"]["p1"].to_numpy()),
            M.ForcedResponse(truth=3 / 4, yes=1 / 6),
        ],
        data["design"].map(DESIGNS.index).tolist(),
    )
    return nw.regression(
        "resp ~ 0 + design",
        data,
        law="bernoulli",
        mechanism=mechanism,
        prior={"design": dist.Logistic(0.0, 1.0)},  # a uniform share
    )


def run(path: Path, seed: int = 0) -> dict[str, Any]:
    """The intervals beside the published ones, and what people did."""
    analysis = analysis_of(path)
    method = nw.inference.MarginalNUTS(target_ess=8_000, num_chains=8)
    posterior = method.infer(seed, analysis.model, analysis.observed, progress=False)
    drawn, data = comparison.by_chain(posterior), pd.read_csv(path)
    rows = {}
    for name in DESIGNS:
        column = f"design[{name}]"
        share = special.expit(posterior.theta[:, posterior.names.index(column)])
        low, high = np.quantile(share, [0.025, 0.975])
        rows[name] = {
            "mean": float(share.mean()),
            "sd": float(share.std()),
            "2.5%": float(low),
            "97.5%": float(high),
            "published 2.5%": PUBLISHED[name][0],
            "published 97.5%": PUBLISHED[name][1],
            "what people did": float(data.loc[data["design"] == name, "truth"].mean()),
            "effective size": float(effective_draws(drawn[column])),
            "tail size": float(effective_draws(drawn[column], kind="tail")),
            "R-hat": float(r_hat(drawn[column])),
        }
    worst = max(
        abs(row[end] - row[f"published {end}"])
        for row in rows.values()
        for end in ("2.5%", "97.5%")
    )
    fine = worst <= LARGEST and all(
        row["R-hat"] <= comparison.MAX_R_HAT and row["effective size"] >= LEAST_SIZE
        for row in rows.values()
    )
    result = {"people": len(data), "seed": seed, "posterior": rows, "largest difference": worst}
    return result | {"agrees": bool(fine)}


def picture(result: dict[str, Any], out: Path) -> None:
    """Intervals by design beside what people did."""

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for place, (name, words) in enumerate(zip(DESIGNS, WORDS, strict=True)):
            row = result["posterior"][name]
            y = len(DESIGNS) - place
            axes.plot([row["2.5%"], row["97.5%"]], [y, y], color="#1f4e79", lw=2)
            axes.plot(row["mean"], y, "o", color="#1f4e79", label="posterior" if y == 1 else None)
            axes.plot(
                [row["published 2.5%"], row["published 97.5%"]],
                [y - 0.2] * 2,
                color="#999999",
                label="published" if y == 1 else None,
            )
            axes.plot(
                row["what people did"],
                y,
                "x",
                color="#c0392b",
                label="what people did" if y == 1 else None,
            )
            axes.text(-0.005, y, words, ha="right", va="center")
        axes.set_yticks([])
        axes.set_xlim(0.0, 0.2)
        axes.set_xlabel("share of cheaters, 95% intervals")
        axes.spines["left"].set_visible(False)
        axes.legend(frameon=False, loc="upper right")

    comparison.draw("mechanical_turk", out, (7.0, 2.6), paint)


def main() -> None:
    """Run it on the file that is named."""
    started = time.process_time()
    options = comparison.arguments(__doc__, "mturk_dice_rr.csv")
    result = run(options.path)
    comparison.write("mechanical_turk", result, started, options.out)
    picture(result, options.out)


if __name__ == "__main__":
    main()
