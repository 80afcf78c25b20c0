"""How far draws are from exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np

SEED = 7
"""Which of the exact draws are compared: the same for all."""


def scores(exact: np.ndarray, draws: np.ndarray) -> dict[str, Any]:
    """C2ST against as many exact draws; moments against all of them, in exact posterior sds.

    The means of 1,000 draws have an error of .03 sd each, the sds of 2 percent.
    """
    from noisewise.metrics import c2st

    if not np.isfinite(draws).all():
        return {"c2st": 1.0, "shift max": None, "shift rms": None, "sd ratio": None}
    sd = exact.std(0)
    shift = (draws.mean(0) - exact.mean(0)) / sd
    chosen = np.random.default_rng(SEED).permutation(len(exact))[: len(draws)]
    return {
        "c2st": round(float(c2st(exact[chosen], draws)), 4),
        "shift max": round(float(np.abs(shift).max()), 3),
        "shift rms": round(float(np.sqrt(np.mean(shift**2))), 3),
        "sd ratio": [round(float(ratio), 3) for ratio in draws.std(0) / sd],
    }
