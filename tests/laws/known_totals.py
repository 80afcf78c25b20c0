"""Counts with a known total: sums over all of them, and convolutions in long double."""

import numpy as np

from tests.laws import reference

LONG = np.longdouble


def compositions(n, k):
    """All k whole numbers that sum to n, one per row."""
    if k == 1:
        return np.array([[n]])
    rows = [
        np.column_stack([np.full(len(rest), first), rest])
        for first in range(n + 1)
        for rest in [compositions(n - first, k - 1)]
    ]
    return np.concatenate(rows)


def enumerated(log_law, log_etas, n, y):
    """All counts and the logs of their terms."""
    counts = compositions(n, len(y))
    logs = np.array([float(log_law(row)) for row in counts], LONG)
    for j, log_eta in enumerate(log_etas):
        logs = logs + log_eta(LONG(y[j]), counts[:, j].astype(LONG))
    return counts, logs


def multinomial(p):
    """log probability of counts, by log-gamma of 50 digits."""
    logs = [reference.Decimal(float(x)).ln() for x in p]

    def log_law(counts):
        n = int(sum(counts))
        terms = (
            int(s) * log - reference.log_gamma(int(s) + 1)
            for s, log in zip(counts, logs, strict=True)
        )
        return reference.log_gamma(n + 1) + sum(terms)

    return log_law


def dirichlet_multinomial(a):
    a = [reference.Decimal(float(x)) for x in a]

    def log_law(counts):
        n = int(sum(counts))
        value = reference.log_gamma(n + 1) + reference.log_gamma(sum(a))
        value -= reference.log_gamma(sum(a) + n)
        for s, x in zip(counts, a, strict=True):
            value += reference.log_gamma(x + int(s)) - reference.log_gamma(int(s) + 1)
            value -= reference.log_gamma(x)
        return value

    return log_law


def convolved(laws, whole, log_etas, n, y):
    """log p(y) by convolving the terms of the cells, whose laws have the law `whole` of their sum.

    Every cell is cut at e^-60 of its largest term.
    """
    total, first, scale = np.ones(1, LONG), 0, LONG(0)
    for law, log_eta, value in zip(laws, log_etas, y, strict=True):
        s, logs = reference.Sum(law, log_eta, value, float(np.clip(value, 0, n))).terms()
        kept = np.flatnonzero(logs > logs.max() - 60.0)
        s, logs = s[kept[0] : kept[-1] + 1], logs[kept[0] : kept[-1] + 1]
        scale += logs.max()
        total = np.convolve(total, np.exp(logs - logs.max()))
        first += int(s[0])
        peak = total.max()
        total, scale = total / peak, scale + np.log(peak)
    return scale + np.log(total[n - first]) - LONG(str(whole.at(n)))


def by_poisson(p, log_etas, n, y):
    """Multinomial counts."""
    laws = [reference.poisson(n * x) for x in p]
    return convolved(laws, reference.poisson(float(np.sum(n * np.asarray(p)))), log_etas, n, y)


def by_negative_binomial(a, log_etas, n, y):
    """Dirichlet-multinomial counts."""
    rate = float(np.sum(a)) / n
    laws = [reference.negative_binomial(x, rate) for x in a]
    whole = reference.negative_binomial(float(np.sum(a)), rate)
    return convolved(laws, whole, log_etas, n, y)
