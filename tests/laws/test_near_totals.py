"""Tables for counts with a known total near their released numbers: enumeration, convolutions, and
draws of the counts.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from noisewise.laws.known_totals.near_draws import draw_counts
from noisewise.laws.known_totals.near_totals import log_shares_of, near_total
from noisewise.mechanisms import DiscreteGaussian, DiscreteLaplace, Thresholded
from tests.laws import known_totals, reference

SHARES = np.array([0.2, 0.5, 0.05, 0.25])
FEW = {
    "Laplace": (7, DiscreteLaplace(scale=2.0), reference.discrete_laplace(2.0), (2, 4, 0, 3)),
    "one person": (1, DiscreteLaplace(scale=20.0), reference.discrete_laplace(20.0), (9, -7, 0, 4)),
    "no person seen": (5, DiscreteGaussian(scale=3.0), reference.discrete_gaussian(3.0), [0] * 4),
}


def tables(total, mechanism, y):
    law = dist.Multinomial(total, np.full(len(y), 1.0 / len(y)))
    return near_total(law, mechanism, np.asarray(y, dtype=float))


def found(near, shares):
    with jax.enable_x64(True):
        near = jax.tree.map(jnp.asarray, near)
        return jax.value_and_grad(near.log_prob)(jnp.log(jnp.asarray(shares)))


@pytest.mark.parametrize("name", FEW)
def test_log_probabilities_of_few_and_their_derivatives(name):
    total, mechanism, log_eta, y = FEW[name]
    exact = known_totals.enumerated(known_totals.multinomial(SHARES), [log_eta] * 4, total, y)
    log_prob = float(reference.log_sum(exact[1]))
    means = np.exp((exact[1] - log_prob).astype(float)) @ exact[0]
    value, slope = found(tables(total, mechanism, y), SHARES)
    assert abs(float(value) - log_prob) <= 1e-9 * max(1.0, abs(log_prob))
    assert np.abs(np.asarray(slope) - (means - total * SHARES)).max() < 1e-8
    planted = float(found(tables(total + 1, mechanism, y), SHARES)[0])
    assert abs(planted - log_prob) > 1e-3, "a total that is one off is caught"


@pytest.mark.parametrize(
    ("cells", "total", "mechanism", "log_eta"),
    [
        (8, 2_000, DiscreteLaplace(scale=20.0), reference.discrete_laplace(20.0)),
        pytest.param(
            24,
            1_000_000,
            DiscreteGaussian(scale=50.0),
            reference.discrete_gaussian(50.0),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            3,
            1_000_000,
            DiscreteLaplace(scale=10.0),
            reference.discrete_laplace(10.0),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_log_probabilities_of_many(cells, total, mechanism, log_eta):
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(cells, 2.0))
    y = np.asarray(mechanism.sample(1, rng.multinomial(total, shares).astype(float)))
    exact = float(known_totals.by_poisson(shares, [log_eta] * cells, total, y))
    assert abs(float(found(tables(total, mechanism, y), shares)[0]) - exact) <= 1e-8 * abs(exact)


def test_tables_say_where_they_do_not_reach():
    """A cell that expects 900 and was released as 100 with noise of sd 3."""
    near = tables(1_000, DiscreteLaplace(scale=2.0), (100, 900))
    with jax.enable_x64(True):
        near = jax.tree.map(jnp.asarray, near)
        beyond = [float(near.beyond(jnp.log(jnp.array(p)))) for p in ([0.1, 0.9], [0.9, 0.1])]
    assert beyond[0] < -20.0 < beyond[1]


def test_other_laws_and_absent_numbers_have_no_tables():
    noise = DiscreteLaplace(scale=2.0)
    assert near_total(dist.Poisson(3.0), noise, np.array([3.0])) is None
    assert tables(9, Thresholded(noise, above=4.0), (np.nan, 5.0, 6.0)) is None
    assert tables(0, noise, (1.0, -1.0)) is None


def test_impossible_cells_have_finite_logs_and_derivatives():
    law = dist.Multinomial(5, np.array([0.0, 0.4, 0.6]), validate_args=False)
    with jax.enable_x64(True):
        logs = np.asarray(log_shares_of(law))
    assert logs[0] < -600.0
    value, slope = found(tables(5, DiscreteLaplace(scale=1.0), (1.0, 2.0, 2.0)), np.exp(logs))
    assert np.isfinite(value)
    assert np.isfinite(np.asarray(slope)).all()


NUM_DRAWS = 4000


@pytest.mark.parametrize("name", ["Laplace", "no person seen"])
def test_draws_of_tables(name):
    """Frequencies of whole tables, chi-squared over those expected at least ten times."""
    total, mechanism, log_eta, y = FEW[name]
    counts, logs = known_totals.enumerated(
        known_totals.multinomial(SHARES), [log_eta] * 4, total, y
    )
    masses = np.exp((logs - reference.log_sum(logs)).astype(float))
    rows = np.tile(np.log(SHARES), (NUM_DRAWS, 1))
    near = tables(total, mechanism, y)
    drawn = draw_counts(jax.random.key(3), near, mechanism, np.asarray(y, dtype=float), rows)
    assert (drawn.sum(axis=1) == total).all()
    places = {tuple(row): i for i, row in enumerate(counts.tolist())}
    seen = np.bincount(
        [places[tuple(row)] for row in drawn.astype(int).tolist()], None, len(counts)
    )
    kept = NUM_DRAWS * masses >= 10.0

    def statistic(masses):
        expected = NUM_DRAWS * masses
        pooled_seen = np.append(seen[kept], seen[~kept].sum())
        pooled = np.append(expected[kept], expected[~kept].sum())
        return ((pooled_seen - pooled) ** 2 / pooled).sum()

    degrees = kept.sum()
    # 4.5 sds above the mean of chi-squared, of which large values are likelier than normal ones
    limit = degrees + 4.5 * np.sqrt(2.0 * degrees) + 8.0
    assert statistic(masses) < limit
    tilted = masses * 1.2 ** counts[:, 0]
    assert statistic(tilted / tilted.sum()) > limit, "planted: a share a fifth too large"
