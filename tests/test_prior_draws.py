"""Draws from priors: inside, by their law, independent, the same however many are made, and
accurate where they are tiny.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as st

import noisewise as nw
from noisewise.priors import coordinates
from tests.catalogue_priors import ONE

SPARSE = np.full(20, 0.01)
DRAWN = {
    "tiny": dist.Gamma(0.01),
    "beta": dist.Beta(2, 3),
    "truncated": dist.TruncatedNormal(0, 1, low=-1, high=0.3),
    "log-uniform": dist.LogUniform(0.1, 10.0),
    "p": dist.Dirichlet(SPARSE),
    "n": dist.Normal(0, 1).expand([2]),
}


@pytest.fixture(scope="module")
def drawn():
    """(prior, 10,000 draws, the same by name)."""
    prior = nw.Prior(DRAWN)
    theta = prior.sample(jax.random.key(5), 10_000)
    return prior, theta, prior.as_dict(theta)


def test_draws_lie_inside_with_finite_density(drawn):
    """LogUniform's draws in particular, whose bounds numpyro keeps in single precision."""
    prior, theta, _ = drawn
    assert theta.shape == (10_000, prior.dim)
    assert prior.support_contains(theta).all()
    assert np.isfinite(prior.log_prob(theta)).all()
    assert np.isfinite(prior.log_prob_unconstrained(prior.unconstrain(theta))).all()


@pytest.mark.parametrize("name", ["beta", "truncated", "log-uniform"], ids=str)
def test_draws_follow_the_law(drawn, name):
    """Kolmogorov-Smirnov with 10,000 draws: p > 1e-4, and below 1e-4 for draws stretched by 20%."""
    draws = drawn[2][name]
    assert st.kstest(draws, ONE[name].twin.cdf).pvalue > 1e-4
    assert st.kstest(1.2 * draws, ONE[name].twin.cdf).pvalue < 1e-4


def test_draws_of_different_parameters_are_independent(drawn):
    """Correlations of 10,000 draws have standard error .01; one key for all would give 1."""
    columns = np.stack(
        [drawn[2]["n"][:, 0], drawn[2]["n"][:, 1], drawn[2]["beta"], drawn[2]["truncated"]]
    )
    correlations = np.corrcoef(columns)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 0.04
    assert np.abs(np.corrcoef(columns[0], columns[0])[0, 1]) > 0.04


def test_draws_do_not_depend_on_how_many_are_made_and_share_a_program(drawn):
    prior, theta, _ = drawn
    before = coordinates.sample_block.num_compiled
    for num in (1, 7, 1024, 1025, 3000):
        assert np.array_equal(prior.sample(jax.random.key(5), num), theta[:num])
    assert coordinates.sample_block.num_compiled == before
    assert before > 0
    assert len(np.unique(theta[:, 1])) == len(theta)  # no block repeats another


@pytest.mark.parametrize(
    ("dim", "rows"), [(1, 1024), (1024, 1024), (1025, 512), (2**20, 1), (2**21, 1)]
)
def test_blocks_of_draws_are_bounded_by_memory(dim, rows):
    assert coordinates.block_rows(dim) == rows


def test_tiny_draws_of_gamma_stay_positive(drawn):
    """P(Gamma(.01) < 2.2e-308) = 8.3e-4: of 10,000 draws about 8 are moved up to the smallest
    normal number.
    """
    draws, tiny = drawn[2]["tiny"], np.finfo(np.float64).tiny
    assert 1 <= (draws == tiny).sum() <= 25
    assert (draws >= tiny).all()


def test_sparse_simplexes_keep_their_smallest_entries(drawn):
    """Relative accuracy for entries down to 1e-300, where numpyro's own stick-breaking loses them."""
    prior, theta, values = drawn
    assert (values["p"] < 1e-100).mean() > 0.05
    np.testing.assert_allclose(
        prior.as_dict(prior.constrain(prior.unconstrain(theta)))["p"], values["p"], rtol=1e-10
    )
    with jax.enable_x64(True):
        theirs = dist.biject_to(dist.constraints.simplex)
        back = np.asarray(theirs(theirs.inv(jnp.asarray(values["p"]))))
    assert np.abs(back / values["p"] - 1.0).max() > 1.0
