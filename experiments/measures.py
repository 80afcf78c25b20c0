"""The paper's four metrics against exact draws, on the paper's scale and on one that can tell posteriors apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisewise.metrics import c2st, kolmogorov_smirnov, log_median_distance, mmd, negative_log_density

METRICS = {"mmd": "MMD$^2$", "c2st": "C2ST", "nlog": "NLOG", "lmd": "LMD"}
"""How figures call them; NLOG here is of a whitened kernel estimate, `nlog_paper` of the paper's."""


def measured(problem: Any, reference: np.ndarray, draws: np.ndarray, key: Any) -> dict[str, Any]:
    """Of draws (N, d) against exact ones (N, d): distances on free coordinates, the density of the truth, the predictive distance."""
    free = list(problem.free_columns)
    exact, found = reference[:, free], draws[:, free]
    unit = problem.model.mechanism.distance_unit
    simulated = problem.model.simulate(key, draws)
    return {
        "mmd": mmd(exact, found),
        "c2st": c2st(exact, found),
        "nlog": negative_log_density(problem.truth[free], found, whiten=True),
        "nlog_paper": negative_log_density(problem.truth, draws),
        "lmd": log_median_distance(problem.observed / unit, simulated / unit),
        "ks": kolmogorov_smirnov(exact, found),
    }
