"""What the tests of epidemic laws share: exact distributions of small epidemics and comparisons of
samples.
"""

import functools
import math

import numpy as np
from scipy.linalg import expm
from scipy.stats import chi2, ks_2samp

VECTORS = (
    (-0.5, -3.0),
    (math.log(0.4), math.log(0.125)),
    (0.0, -1.0),
    (math.log(0.3), math.log(0.25)),
    (-1.5, -4.0),
)
"""(log beta, log gamma): the paper's truth, its prior mean, fast, nearly critical, slow."""

TIMES = (5.0, 10.0, 17.0, 25.0, 34.0, 51.0, 85.0, 119.0, 153.0)


@functools.cache
def exact_laws(beta, gamma, population, times):
    """P(I(t) = 0..K) at each time from one infected, by the matrix exponential of the chain of (S,
    I).
    """
    states = [(s, i) for s in range(population + 1) for i in range(population + 1 - s)]
    place = {state: index for index, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))
    for (s, i), index in place.items():
        moves = [((s - 1, i + 1), beta * s * i / population), ((s, i - 1), gamma * i)]
        for state, rate in moves:
            if rate > 0:
                generator[index, place[state]] += rate
                generator[index, index] -= rate
    infected = np.array([i for _, i in states])
    start = place[population - 1, 1]
    laws = [expm(generator * t)[start] for t in times]
    return [np.bincount(infected, weights=law, minlength=population + 1) for law in laws]


def chi_square_p_value(values, law):
    """Of whole values against P(0), P(1), ...; values that expect fewer than 10 are joined."""
    expected = law * len(values)
    observed = np.bincount(values.astype(int), minlength=len(law))
    common = expected >= 10
    expected, observed = (np.append(x[common], x[~common].sum()) for x in (expected, observed))
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1e-300)).sum()
    return chi2.sf(statistic, len(expected) - 1)


def smallest_p_value(first, second):
    """The smallest Kolmogorov-Smirnov p-value over columns (times), times their number
    (Bonferroni).

    Counts have ties, under which the statistic is stochastically smaller than for continuous laws:
    the test is conservative, and its power is shown by planted errors.
    """
    p_values = [
        ks_2samp(a, b, method="asymp").pvalue for a, b in zip(first.T, second.T, strict=True)
    ]
    return min(p_values) * len(p_values)
