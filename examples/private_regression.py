"""Regression coefficients from nine noisy moments: the exact posterior beside the one that ignores
the noise.

A curator released nine moments of 100 records (x1, x2, y), clamped to [-10, 10], with Laplace noise
for epsilon = 10. The analyst knows the mechanism. Data augmentation draws the coefficients together
with databases that could have led to the release.
"""

import jax
import pandas as pd
from rich.console import Console
from rich.table import Table

import noisewise as nw


def main() -> None:
    console = Console(highlight=False)
    problem = nw.problems.linear_regression(epsilon=10.0)
    released = dict(zip(problem.model.private_names, problem.observed, strict=True))
    console.print(
        "[bold]What was released[/]: "
        + ", ".join(f"{name} {value:.3f}" for name, value in released.items())
    )
    console.print(f"Noise: Laplace of scale {problem.model.mechanism.scale:.3g}\n")

    key = jax.random.key(0)
    exact = nw.inference.DataAugmentationMCMC().infer(key, problem.model, problem.observed)
    naive = nw.inference.NaivePlugIn().infer(key, problem.model, problem.observed, progress=False)
    curator = nw.inference.ConfidentialPosterior(data=problem.confidential)
    confidential = curator.infer(key, problem.model, problem.observed, progress=False)

    table = Table(title="Posterior mean and 95% interval", title_justify="left")
    for column in ("", "truth", "exact", "naive", "no privacy"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    summaries = [posterior.summary() for posterior in (exact, naive, confidential)]
    for name, truth in zip(problem.model.names, problem.truth, strict=True):
        table.add_row(name, f"{truth:.1f}", *(interval(summary.loc[name]) for summary in summaries))
    console.print(table)
    console.print(str(exact.report))
    console.print(
        "\nThe naive posterior takes the noise for signal: it is narrow and far off. The exact one"
        " is as wide as the noise makes it, and holds the truth. The last column is what the"
        " curator, who has the data, would find."
    )


def interval(row: pd.Series) -> str:
    return f"{row['mean']:.1f} ({row['2.5%']:.1f}, {row['97.5%']:.1f})"


if __name__ == "__main__":
    main()
