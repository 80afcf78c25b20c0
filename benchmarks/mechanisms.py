"""Binomial quantiles for nested quasi-Monte Carlo: 320,000 of n = 1000, against scipy."""

from typing import Any

import jax
import numpy as np
from scipy.stats import binom

from benchmarks.timing import in_turns, ratios, summary
from noisewise.mechanisms import PaddedBinomial, ScrambledSobol


def run(quick: bool = False) -> dict[str, Any]:
    num = 100 if quick else 1000
    mechanism = PaddedBinomial(trials=1000, padding=1000.0, population=1_000_000, num_times=10)
    infected = np.random.default_rng(0).integers(0, 1_000_000, size=(num, 1, 10)).astype(float)
    u = ScrambledSobol().uniforms(jax.random.key(0), num, 32, 10)
    probability = (infected + 1000.0) / 1_002_000.0
    calls = {
        "noisewise": lambda: mechanism.transport(u, infected),
        "scipy": lambda: binom.ppf(u, 1000, probability),
    }
    seconds = in_turns(calls, 3)
    return {
        "quantiles": int(u.size),
        **{
            f"{name} ms": summary([1e3 * value for value in values])
            for name, values in seconds.items()
        },
        "times faster": ratios(seconds["scipy"], seconds["noisewise"]),
        "all equal": bool(np.array_equal(calls["noisewise"](), calls["scipy"]())),
    }
