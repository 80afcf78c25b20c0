"""Binomial quantiles for nested quasi-Monte Carlo: 320,000 of n = 1000, against scipy."""

import jax
import numpy as np
from scipy.stats import binom

from benchmarks.timing import median_seconds
from noisewise.mechanisms import PaddedBinomial, ScrambledSobol


def run() -> list[dict[str, object]]:
    mechanism = PaddedBinomial(trials=1000, padding=1000.0, population=1_000_000, num_times=10)
    infected = np.random.default_rng(0).integers(0, 1_000_000, size=(1000, 1, 10)).astype(float)
    u = ScrambledSobol().uniforms(jax.random.key(0), 1000, 32, 10)
    probability = (infected + 1000.0) / 1_002_000.0
    ours = median_seconds(lambda: mechanism.transport(u, infected))
    scipy = median_seconds(lambda: binom.ppf(u, 1000, probability), 3)
    equal = bool(np.array_equal(mechanism.transport(u, infected), binom.ppf(u, 1000, probability)))
    return [
        {
            "noisewise seconds": round(ours, 4),
            "scipy seconds": round(scipy, 4),
            "times faster": round(scipy / ours, 1),
            "all equal": equal,
        }
    ]
