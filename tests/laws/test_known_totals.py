"""Multinomial and Dirichlet-multinomial counts with a known total: enumeration of all counts, and
convolutions in long double.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.laws.known_totals import multinomial
from noisewise.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exact,
    PerCell,
    Thresholded,
    Unmeasured,
)
from tests.laws import known_totals, reference
from tests.laws.catalogue import NAN, array

SHARES = array(0.2, 0.5, 0.05, 0.25)
KINDS = {
    "multinomial": (
        lambda p, n: dist.MultinomialProbs(p, total_count=n),
        SHARES,
        known_totals.multinomial,
        known_totals.by_poisson,
    ),
    "Dirichlet-multinomial": (
        lambda a, n: dist.DirichletMultinomial(a, total_count=n),
        6.0 * SHARES,
        known_totals.dirichlet_multinomial,
        known_totals.by_negative_binomial,
    ),
}
SLOW_KIND = [
    "multinomial",
    pytest.param("Dirichlet-multinomial", marks=pytest.mark.slow),
]
MIXED = PerCell(
    [
        Thresholded(DiscreteLaplace(scale=2.0), above=4.0),
        Exact(),
        Unmeasured(),
        DiscreteGaussian(scale=1.0),
    ],
    [0, 1, 2, 3],
)
CASES = {
    "at ease": (
        12,
        DiscreteLaplace(scale=2.0),
        [reference.discrete_laplace(2.0)] * 4,
        (3, 5, 2, 4),
    ),
    "far away": (
        12,
        DiscreteLaplace(scale=2.0),
        [reference.discrete_laplace(2.0)] * 4,
        (30, -50, 20, 4),
    ),
    "far more noise than counts": (
        6,
        DiscreteGaussian(scale=40.0),
        [reference.discrete_gaussian(40.0)] * 4,
        (60, -50, 20, 4),
    ),
    "cells of many kinds": (
        10,
        MIXED,
        [
            reference.absent(reference.below(2.0, "laplace"), 4.0),
            reference.exact(),
            reference.unmeasured(),
            reference.discrete_gaussian(1.0),
        ],
        (NAN, 5, NAN, 2),
    ),
}


def found(kind, theta, n, mechanism, y):
    with jax.enable_x64(True):
        law = nw.Privatized(KINDS[kind][0](theta, n), mechanism)
        return law.log_prob(np.asarray(y, dtype=float))


def enumeration(kind, case, y=None):
    n, _, log_etas, own = CASES[case]
    _, theta, exact, _ = KINDS[kind]
    return known_totals.enumerated(exact(theta), log_etas, n, own if y is None else y)


@pytest.mark.parametrize(
    "case", ["at ease", *(pytest.param(c, marks=pytest.mark.slow) for c in list(CASES)[1:])]
)
@pytest.mark.parametrize("kind", SLOW_KIND)
def test_log_probabilities_of_few(kind, case):
    n, mechanism, _, y = CASES[case]
    exact = float(reference.log_sum(enumeration(kind, case)[1]))
    assert abs(float(found(kind, KINDS[kind][1], n, mechanism, y)) - exact) <= 1e-9 * abs(exact)


def test_a_total_that_is_one_off_is_caught():
    """Planted: the tolerance tells n from n + 1."""
    n, mechanism, _, y = CASES["at ease"]
    exact = float(reference.log_sum(enumeration("multinomial", "at ease")[1]))
    assert abs(float(found("multinomial", SHARES, n + 1, mechanism, y)) - exact) > 1e-3


LARGE = [
    (24, 2_000, DiscreteLaplace(scale=2.0), reference.discrete_laplace(2.0)),
    (24, 1_000_000, DiscreteLaplace(scale=20.0), reference.discrete_laplace(20.0)),
    (24, 1_000_000, DiscreteGaussian(scale=5.0), reference.discrete_gaussian(5.0)),
    (3, 1_000_000, DiscreteLaplace(scale=10.0), reference.discrete_laplace(10.0)),
    (2, 5_000, DiscreteGaussian(scale=300.0), reference.discrete_gaussian(300.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", range(len(LARGE)))
def test_log_probabilities_of_many(kind, case):
    k, n, mechanism, log_eta = LARGE[case]
    rng = np.random.default_rng(case)
    p = rng.dirichlet(np.full(k, 2.0))
    y = np.asarray(mechanism.sample(case, rng.multinomial(n, p).astype(float)))
    theta = p if kind == "multinomial" else 50.0 * p
    exact = float(KINDS[kind][3](theta, [log_eta] * k, n, y))
    assert abs(float(found(kind, theta, n, mechanism, y)) - exact) <= 1e-9 * abs(exact)


@pytest.mark.parametrize("kind", SLOW_KIND)
def test_derivatives(kind):
    """Against differences of enumerations, along the simplex for shares, with the flag off."""
    _, mechanism, log_etas, y = CASES["at ease"]
    n, (make, theta, exact, _) = 5, KINDS[kind]
    direction, step = array(0.1, -0.2, 0.07, 0.03), 1e-3

    def log_prob(t):
        law = make(jnp.asarray(theta, jnp.float32) + t * direction, n)
        return nw.Privatized(law, mechanism).log_prob(np.asarray(y, dtype=float))

    def exactly(t):
        logs = known_totals.enumerated(exact(theta + t * direction), log_etas, n, y)[1]
        return float(reference.log_sum(logs))

    near, far = (exactly(k * step) - exactly(-k * step) for k in (1, 2))
    slope = (8.0 * near - far) / (12.0 * step)
    assert abs(float(jax.jit(jax.grad(log_prob))(0.0)) - slope) < 1e-4 * max(1.0, abs(slope))


NUM_DRAWS = 2000


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["at ease", "far away", "cells of many kinds"])
def test_draws(kind, case):
    """Frequencies of whole tables, chi-squared over those expected at least ten times."""
    n, mechanism, _, y = CASES[case]
    counts, logs = enumeration(kind, case)
    masses = np.exp((logs - reference.log_sum(logs)).astype(float))
    with jax.enable_x64(True):
        law = nw.Privatized(KINDS[kind][0](KINDS[kind][1], n), mechanism)
        keys = jax.random.split(jax.random.key(3), NUM_DRAWS)
        y = np.asarray(y, dtype=float)
        drawn = np.asarray(jax.jit(jax.vmap(lambda key: law.confidential(key, y)))(keys))
    assert (drawn.sum(axis=1) == n).all()
    places = {tuple(row): i for i, row in enumerate(counts.tolist())}
    seen = np.bincount(
        [places[tuple(row)] for row in drawn.astype(int).tolist()], minlength=len(counts)
    )
    expected = NUM_DRAWS * masses
    kept = expected >= 10.0
    pooled_seen = np.append(seen[kept], seen[~kept].sum())
    pooled = np.append(expected[kept], expected[~kept].sum())
    used = pooled > 1.0
    statistic = ((pooled_seen - pooled)[used] ** 2 / pooled[used]).sum()
    degrees = used.sum() - 1
    # 4.5 sds above the mean of chi-squared, of which large values are likelier than normal ones
    assert statistic < degrees + 4.5 * np.sqrt(2.0 * degrees) + 8.0


def test_totals_that_are_no_number_are_refused():
    law = dist.MultinomialProbs(SHARES, total_count=jnp.array([3, 4]))
    with pytest.raises(nw.errors.InvalidInputError, match="write total_count=int"):
        nw.Privatized(law, DiscreteLaplace(scale=1.0))


def test_a_sum_over_choices_is_that_of_all_choices():
    """With its derivatives, which are probabilities given the total."""
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(3, 4))
    counts = known_totals.compositions(5, 3)
    counts = counts[(counts < 4).all(axis=1)]
    terms = np.exp(logs[0, counts[:, 0]] + logs[1, counts[:, 1]] + logs[2, counts[:, 2]])
    with jax.enable_x64(True):
        points = jnp.tile(jnp.arange(4.0), (3, 1))
        value, slope = jax.value_and_grad(multinomial.log_of_total)(jnp.asarray(logs), points, 5.0)
    assert abs(float(value) - np.log(terms.sum())) < 1e-12
    exact = [[terms[counts[:, j] == s].sum() / terms.sum() for s in range(4)] for j in range(3)]
    assert np.abs(np.asarray(slope) - exact).max() < 1e-12


@pytest.mark.slow
def test_draws_of_what_is_impossible_end():
    """Two exact counts that exceed the total leave nothing for the third."""
    law = dist.MultinomialProbs(jnp.array([0.3, 0.3, 0.4]), total_count=5)
    mixed = PerCell([Exact(), DiscreteLaplace(scale=2.0)], [0, 0, 1])
    private = nw.Privatized(law, mixed)
    assert np.isnan(private.confidential(jax.random.key(0), np.array([4.0, 3.0, 1.0]))).all()
