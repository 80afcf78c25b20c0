"""What the scripts of this folder share: chains of a numpyro program, and numbers beside published
ones.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
Published = Mapping[str, tuple[float, float]]
"""Posterior mean and sd of each number."""
MAX_R_HAT = 1.01
"""R-hat up to which chains have settled (Vehtari et al. 2021)."""
NUM_CHAINS = 4
LARGEST = 0.1
"""Posterior sds by which a mean may differ from the published one."""


def arguments(description: str | None, file: str) -> argparse.Namespace:
    """The path of the file, and where results go."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, help=f"{file}, which is not part of this repository")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    return parser.parse_args()


def columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file with a header: numbers where all are, else texts."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    found = {}
    for name, values in zip(header, zip(*rows, strict=True), strict=True):
        try:
            found[name] = np.array([float(value) for value in values])
        except ValueError:
            found[name] = np.array(values)
    return found


def chains(
    program: Callable[..., Any], seed: int, num_warmup: int, num_draws: int, *, dense: bool = False
) -> Any:
    """A numpyro run of four no-U-turn chains side by side; a dense metric for parameters that are
    far from independent.
    """
    import jax
    from numpyro.infer import MCMC, NUTS

    mcmc = MCMC(
        NUTS(program, dense_mass=dense),
        num_warmup=num_warmup,
        num_samples=num_draws,
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed), extra_fields=("diverging",))
    return mcmc


def by_chain(posterior: Any) -> dict[str, np.ndarray]:
    """Draws of a posterior by name, each (chains, n)."""
    columns = posterior.theta.reshape(posterior.num_chains, -1, len(posterior.names))
    return dict(zip(posterior.names, np.moveaxis(columns, 2, 0), strict=True))


def worst_r_hat(posterior: Any) -> float:
    """The largest R-hat of all parameters."""
    from noisewise.samplers.chain_diagnostics import r_hat

    return max(float(r_hat(values)) for values in by_chain(posterior).values())


def compared(
    draws: Mapping[str, np.ndarray], published: Published, beside: str = "published"
) -> dict[str, Any]:
    """Each number beside the published one, or beside what else is named; `draws` are
    (chains, n).
    """
    from noisewise.samplers.chain_diagnostics import effective_draws, r_hat

    rows = {}
    for name, (mean, sd) in published.items():
        values = np.asarray(draws[name], dtype=float)
        rows[name] = {
            "mean": float(values.mean()),
            "sd": float(values.std()),
            f"{beside} mean": mean,
            f"{beside} sd": sd,
            "difference in sds": float((values.mean() - mean) / sd),
            "effective size": float(effective_draws(values)),
            "R-hat": float(r_hat(values)),
        }
    return rows


def agrees(rows: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether all means are within .1 sd, and the chains have settled."""
    return all(
        abs(row["difference in sds"]) <= LARGEST and row["R-hat"] <= MAX_R_HAT
        for row in rows.values()
    )


def write(name: str, result: dict[str, Any], started: float, out: Path) -> None:
    """Print and keep what was found."""
    versions = {part: importlib.metadata.version(part) for part in ("jax", "numpyro")}
    result = result | {"CPU seconds": round(time.process_time() - started, 1)} | versions
    for row, numbers in result.get("posterior", {}).items():
        shown = ", ".join(f"{key} {value:.4g}" for key, value in numbers.items())
        print(f"{row:>16}: {shown}")
    print({key: value for key, value in result.items() if key != "posterior"})
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")


def draw(name: str, out: Path, size: tuple[float, float], paint: Callable[[Any], None]) -> None:
    """A picture: `paint` gets an empty figure of this size in inches."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = plt.figure(figsize=size, layout="constrained")
        paint(figure)
        out.mkdir(parents=True, exist_ok=True)
        figure.savefig(out / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)
