"""1000 independent randomisations of a 32 x 10 net, and how fast their errors fall."""

from typing import Any

import jax
import numpy as np
from scipy.stats import qmc

from benchmarks.timing import in_turns, ratios, summary
from noisewise.mechanisms import IndependentUniforms, ScrambledSobol

SIZES = 2 ** np.arange(3, 13)
DIM, REPETITIONS = 10, 200


def run(quick: bool = False) -> dict[str, Any]:
    key = jax.random.key(1)
    seconds = in_turns(
        {
            "noisewise": lambda: ScrambledSobol().uniforms(key, 1000, 32, DIM),
            "scipy": lambda: [qmc.Sobol(DIM).random_base2(5) for _ in range(1000)],
        },
        3 if quick else 11,
    )
    throughput = {
        **{
            f"{name} ms": summary([1e3 * value for value in values])
            for name, values in seconds.items()
        },
        "times faster": ratios(seconds["scipy"], seconds["noisewise"]),
        "target": 50,
    }
    slopes = [
        {"points": type(points).__name__, "integrand": integrand, "RMSE slope": round(slope, 3)}
        for points in (() if quick else (ScrambledSobol(), IndependentUniforms()))
        for integrand, slope in rmse_slopes(points).items()
    ]
    return {"throughput": throughput, "slopes": slopes}


def rmse_slopes(points: ScrambledSobol | IndependentUniforms) -> dict[str, float]:
    weights = {
        "prod(1+(u_j-1/2)/j^2)": np.arange(1, DIM + 1) ** -2.0,
        "prod(1+(u_j-1/2))": np.ones(DIM),
    }
    rmse: dict[str, list[float]] = {name: [] for name in weights}
    for i, size in enumerate(SIZES):
        u = points.uniforms(jax.random.key(i), REPETITIONS, int(size), DIM)
        for name, weight in weights.items():
            means = np.prod(1.0 + (u - 0.5) * weight, axis=-1).mean(-1)
            rmse[name].append(float(np.sqrt(np.mean((means - 1.0) ** 2))))
    return {
        name: float(np.polyfit(np.log2(SIZES), np.log2(values), 1)[0])
        for name, values in rmse.items()
    }
