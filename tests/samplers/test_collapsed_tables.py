"""The collapsed sampler: against enumeration, the exact table, and importance sampling; planted
bugs are seen.
"""

import itertools

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import noisewise as nw
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.samplers import collapsed_tables as module
from noisewise.samplers.collapsed_tables import absolute_error_weights, collapsed_tables

PAPER = (32.7540, 45.2008, 58.6172, 18.2683, 12.9260, 8.5805, 12.8789, 9.5372)
FREE = [0, 2, 4, 6, 8]
MEANS, SDS = (
    np.array([0.425, 0.747, 0.578, 0.569, 0.768]),
    np.array([0.0544, 0.0481, 0.0957, 0.0963, 0.0414]),
)


def paper(seed, num):
    return collapsed_tables(
        jax.random.key(seed),
        num,
        absolute_error_weights(PAPER, 0.4, 100),
        num_classes=2,
        num_values=(2, 2),
    )


def test_posterior_is_that_of_the_exact_table():
    """100,000 independent draws and a table rounded to its last digit: the gate's .05 sd and 5%
    many times over.
    """
    draws = paper(0, 100_000)
    theta = draws.theta[:, FREE]
    assert np.all(np.abs(theta.mean(0) - MEANS) < 4 * SDS / np.sqrt(100_000) + 0.0005)
    assert np.all(np.abs(theta.std(0) - SDS) < 4 * SDS / np.sqrt(200_000) + 0.0006)
    assert np.all(np.abs(theta.mean(0) - MEANS) < 0.05 * SDS)
    nw.simulators.LogLinear(100, 2, (2, 2)).check_parameters(draws.theta)


# Enumeration of all tables of few records ---------------------------------------------------------

SIZES = [(2, (2, 2), 4), (3, (2, 3), 3), (2, (4,), 4)]


def compositions(total, parts):
    return [c for c in itertools.product(range(total + 1), repeat=parts) if sum(c) == total]


def log_weights(classes, values, n, seed=0):
    return -np.random.default_rng(seed).exponential(1.5, size=(classes * sum(values), n + 1))


def enumerated(classes, values, n, alpha, weights):
    """log p(counts) for every possible vector of counts, by scipy's Dirichlet-multinomial law."""
    dm = stats.dirichlet_multinomial.logpmf
    law = {}
    for sizes in compositions(n, classes):
        rows = [compositions(size, count) for size in sizes for count in values]
        totals = [(size, count) for size in sizes for count in values]
        for choice in itertools.product(*rows):
            counts = tuple(itertools.chain(*choice))
            value = (
                dm(np.array(sizes), [alpha] * classes, n)
                + weights[np.arange(len(counts)), counts].sum()
            )
            for row, (size, count) in zip(choice, totals, strict=True):
                value += dm(np.array(row), [alpha] * count, size) if size else 0.0
            law[counts] = value
    return law


def p_value(draws, law):
    """Chi-square of the drawn counts against the law, with fewer than 5 expected pooled."""
    total = logsumexp(list(law.values()))
    rows, found = np.unique(draws.counts, axis=0, return_counts=True)
    observed = dict(zip(map(tuple, rows.tolist()), found, strict=True))
    expected = len(draws.counts) * np.exp(np.array(list(law.values())) - total)
    seen = np.array([observed.get(counts, 0) for counts in law])
    assert seen.sum() == len(draws.counts)
    rare = expected < 5.0
    seen, expected = (
        np.append(seen[~rare], seen[rare].sum()),
        np.append(expected[~rare], expected[rare].sum()),
    )
    return stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue


@pytest.fixture(scope="module", params=SIZES, ids=str)
def small(request):
    classes, values, n = request.param
    weights = log_weights(classes, values, n)
    law = enumerated(classes, values, n, 1.3, weights)
    settings = {"num_classes": classes, "num_values": values, "concentration": 1.3}
    return (weights, settings), law


def test_counts_follow_the_enumerated_law(small):
    """50,000 draws: chi-square p > .001; the sum of all weights to 12 digits."""
    (weights, settings), law = small
    draws = collapsed_tables(jax.random.key(1), 50_000, weights, **settings)
    assert draws.log_evidence == pytest.approx(logsumexp(list(law.values())), abs=1e-12)
    assert p_value(draws, law) > 1e-3


def test_probabilities_are_dirichlet_given_the_counts(small):
    """E[theta] by enumeration, within 4.5 standard errors of 50,000 draws for every column."""
    (weights, settings), law = small
    classes, values, alpha = settings["num_classes"], settings["num_values"], 1.3
    draws = collapsed_tables(jax.random.key(2), 50_000, weights, **settings)
    counts, weight = (
        np.array(list(law)),
        np.exp(np.array(list(law.values())) - logsumexp(list(law.values()))),
    )
    parts = np.split(counts, np.cumsum(values * classes)[:-1], axis=1)
    sizes = np.stack([part.sum(1) for part in parts[:: len(values)]], axis=1)
    means = [(alpha + part) / (alpha + part).sum(1, keepdims=True) for part in [*parts, sizes]]
    error = draws.theta.std(0) / np.sqrt(50_000)
    assert np.all(
        np.abs(draws.theta.mean(0) - weight @ np.concatenate(means, axis=1)) < 4.5 * error
    )


@pytest.mark.parametrize(
    "bug", ["constant of a row forgotten", "draws ignore what was drawn before"]
)
def test_planted_bugs_are_seen(bug, small, monkeypatch):
    (weights, settings), law = small
    if bug.startswith("constant"):
        monkeypatch.setattr(module, "_log_c", lambda alpha, parts, n: np.zeros(n + 1))
    else:
        right = module._split_totals
        shuffled = lambda rng, sums, terms, totals: right(
            rng, [np.zeros_like(part) for part in sums], terms, totals
        )
        monkeypatch.setattr(module, "_split_totals", shuffled)
    assert p_value(collapsed_tables(jax.random.key(1), 50_000, weights, **settings), law) < 1e-6


@pytest.mark.slow
def test_importance_sampling_agrees():
    """A second route by the package's own prior law, simulator, query and mechanism at epsilon .5,
    three classes.

    Weighted means of theta and of the counts within 4.5 standard errors of both. Planted: a scale
    1.5 times too large.
    """
    classes, values, n, scale = 3, (2, 3), 40, 8.0
    rng = np.random.default_rng(0)
    model, query = (
        nw.simulators.LogLinear(n, classes, values),
        nw.queries.CategoryProportions(classes, values, n),
    )
    vectors = [count for _ in range(classes) for count in values] + [classes]
    theta = np.concatenate(
        [rng.dirichlet(np.full(count, 2.0), 100_000) for count in vectors], axis=1
    )
    s = model.statistics(jax.random.key(0), theta, query)
    observed = n * s[0] + rng.laplace(scale=scale, size=s.shape[1])
    log_weight = nw.mechanisms.Laplace(scale=scale / n).log_prob(observed / n, s)
    weights = np.exp(log_weight - log_weight.max())
    weights /= weights.sum()
    assert 1.0 / (weights**2).sum() > 2000

    def worst(scale):
        errors = absolute_error_weights(observed, scale, n)
        draws = collapsed_tables(
            jax.random.key(1), 50_000, errors, num_classes=classes, num_values=values
        )
        scores = []
        for ours, theirs in ((draws.theta, theta), (draws.counts, n * s)):
            mean = weights @ theirs
            error = np.sqrt(weights**2 @ (theirs - mean) ** 2 + ours.var(0) / 50_000)
            scores.append(np.abs(ours.mean(0) - mean) / error)
        return np.concatenate(scores).max()

    assert worst(scale) < 4.5
    assert worst(1.5 * scale) > 6.0


def test_draws_depend_on_the_key_only():
    assert np.array_equal(paper(0, 50).theta, paper(0, 50).theta)
    assert np.all(paper(0, 50).theta != paper(1, 50).theta)


def test_tiny_concentration_does_not_underflow():
    weights = np.zeros((8, 4))
    draws = collapsed_tables(
        jax.random.key(0), 500, weights, num_classes=2, num_values=(2, 2), concentration=1e-3
    )
    np.testing.assert_allclose(draws.theta.reshape(500, 5, 2).sum(2), 1.0, atol=1e-12)


def test_impossible_counts_never_come():
    """Two classes of one feature: the first cell must hold 1 record, the last an even number."""
    weights = np.zeros((4, 6))
    weights[0, [0, 2, 3, 4, 5]] = -np.inf
    weights[3, 1::2] = -np.inf
    draws = collapsed_tables(jax.random.key(0), 2000, weights, num_classes=2, num_values=(2,))
    assert np.all(draws.counts[:, 0] == 1)
    assert np.all(draws.counts[:, 3] % 2 == 0)
    assert np.all(draws.counts.sum(1) == 5)


def test_bad_input_is_refused():
    good = absolute_error_weights(PAPER, 0.4, 100)
    call = lambda weights=good, **changes: collapsed_tables(
        jax.random.key(0), 5, weights, **{"num_classes": 2, "num_values": (2, 2), **changes}
    )
    with pytest.raises(InvalidInputError, match=r"shape \(10, n\+1\)"):
        call(num_values=(2, 3))
    with pytest.raises(InvalidInputError, match="each of num_values"):
        call(num_values=(4, 1))
    with pytest.raises(InvalidInputError, match="No tables of 100 records"):
        call(np.full_like(good, -np.inf))
    with pytest.raises(InvalidInputError, match="below infinity"):
        call(np.full_like(good, np.nan))
    with pytest.raises(InvalidInputError, match="at most 20000, got 30000"):
        call(np.zeros((8, 30_001)))
    with pytest.raises(InvalidInputError, match="concentration"):
        call(concentration=0.0)
    with pytest.raises(InvalidInputError, match="scale"):
        absolute_error_weights(PAPER, 0.0, 100)
    with pytest.raises(InvalidInputError, match="finite"):
        absolute_error_weights([np.nan], 1.0, 100)
    with pytest.raises(InvalidTypeError, match="observed"):
        absolute_error_weights("abc", 1.0, 100)
