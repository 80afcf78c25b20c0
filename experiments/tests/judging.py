"""Claims judged by results of five trials."""

import numpy as np

from experiments import claims as item

SPREAD = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])
"""Five trials; the standard error of their mean is sd / sqrt(5) = .0158 / 2.236 = .0071."""


def judge(text, result):
    (claim,) = [claim for claim in item.CLAIMS if claim.text == text]
    return claim.judge(result)


def trials(row, wobble=0.1, seed=0):
    """Five trials (5, R) around a curve: the same order of seeds in each round, times `wobble`;
    other seeds are other orders.
    """
    order = np.random.default_rng(seed).permutation(5)
    return (np.array(row) + wobble * SPREAD[order, None]).tolist()


def method(row, wobble=0.1, seed=0):
    """MMD^2 falls below .1 where C2ST falls below .7."""
    c2st = trials(row, wobble, seed)
    return {"c2st": c2st, "mmd": [[0.05 if v < 0.7 else 0.5 for v in trial] for trial in c2st]}


def panel(layers=8, **methods):
    return {"layers": layers, "methods": methods}
