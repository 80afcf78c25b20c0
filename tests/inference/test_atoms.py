"""Atoms of a column become intervals, and intervals atoms again; CLE on clamped statistics."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import noisewise as nw
from noisewise import errors
from noisewise.inference.learned.common.atoms import Atoms
from noisewise.inference.learned.common.statistic_space import StatisticSpace

RNG = np.random.default_rng(0)
CLAMPED = np.clip(RNG.normal(size=2000), -1.0, 1.5)
INFLATED = np.where(RNG.random(2000) < 0.4, 0.0, RNG.poisson(40_000.0, 2000))
KEY = jax.random.key(0)
CLE = nw.inference.ConfidentialLikelihoodEstimation


@pytest.fixture
def atoms():
    """A column clamped at both ends, one without atoms, a lattice whose cells are wide enough, and
    one with far more zeros than a cell can hold.
    """
    columns = [CLAMPED, RNG.normal(size=2000), RNG.poisson(0.2, 2000), INFLATED]
    return Atoms.of(np.stack(columns, axis=1), np.array([0.0, 0.0, 1.0, 1.0]))


def test_values_taken_again_and_again_are_found(atoms):
    """The shares are P(z < -1) = .159 and P(z > 1.5) = .067, within 4 errors of sqrt(p / n)."""
    assert atoms.at[:, 0].tolist() == [-1.0, 1.5]
    others = CLAMPED[CLAMPED > -1.0]
    scale = np.subtract(*np.quantile(others, [0.75, 0.25])) / 1.349
    shares = np.asarray(atoms.width[:, 0]) / (2.5 * scale)
    np.testing.assert_allclose(shares, [0.1587, 0.0668], atol=4 * np.sqrt(0.16 / 2000))
    assert np.isinf(atoms.at[:, 1:3]).all()
    assert not atoms.width[:, 1:3].any()
    assert atoms.at[:, 3].tolist() == [0.0, np.inf]


@pytest.mark.parametrize("x64", [True, False])
def test_atoms_are_spread_and_joined_again(atoms, x64):
    """In NumPy, whatever JAX's flag, and in JAX."""
    columns = [CLAMPED, np.sinh(CLAMPED), np.round(CLAMPED), INFLATED]
    s = np.stack(columns, axis=1)
    u = RNG.random(s.shape)
    with jax.enable_x64(x64):
        r = atoms.spread(s, u)
        again = np.asarray(atoms.joined(r))
        traced = np.asarray(atoms.joined(jnp.asarray(r))) if x64 else again
    cells = np.array([0.0, 0.0, 0.5, 0.5])
    assert (np.abs(again - s) <= cells + 1e-9).all()
    np.testing.assert_allclose(traced, again, atol=1e-12)
    assert ((again[:, 0] == -1.0) == (CLAMPED == -1.0)).all()
    assert len(np.unique(r[:, 0])) == len(r)
    for j in (0, 3):
        ordered = np.argsort(s[:, j], kind="stable")
        ahead = np.diff(s[ordered, j]) > 0.0
        assert (np.diff(r[ordered, j])[ahead] > 0.0).all()


def test_an_interval_holds_the_probability(atoms):
    """With r uniform on an interval its density is 1 over the length: w for an atom, 1 + w for a
    cell of width 1, whose own length `log_cell` counts. Off the atoms nothing is added.
    """
    s = np.array([[-1.0, 0.3, 0.0, 0.0], [0.2, 0.3, 0.0, 380.0]])
    expected = np.zeros((2, 4))
    expected[0, [0, 3]] = np.log(atoms.width[0, 0]), np.log1p(atoms.width[0, 3])
    np.testing.assert_allclose(atoms.log_width(s), expected)


def test_heavy_tails_do_not_decide_what_an_atom_is():
    """Counts of 15 on average with 40% zeros and a tail up to thousands: a cell is a fifteenth of
    what is usual, and wide enough for the zeros. As real numbers they are an atom, and its interval
    is as wide as the usual counts are, not as their standard deviation of hundreds.
    """
    counts = np.where(RNG.random(2000) < 0.4, 0.0, RNG.poisson(15.0, 2000) + 1.0)
    counts[:40] = 5000.0
    assert not Atoms.of(counts[:, None], np.ones(1)).any
    assert Atoms.of(counts[:, None] * 1.0, np.zeros(1)).width[0, 0] < 10.0


def test_the_slope_of_a_space_counts_atoms():
    """In hundredths, so that no width is near 1."""
    s = 100.0 * np.array([[-1.0], [0.2], [1.5]])
    space = StatisticSpace.of(100.0 * CLAMPED[:, None])
    low, high = np.log(space.atoms.width[:, 0])
    np.testing.assert_allclose(space.log_slopes(s, np.full((3, 1), 0.3)), [low, 0.0, high])


def test_an_atom_inside_is_met_exactly():
    """Rounding must not turn zeros into 1e-17."""
    values = np.where(RNG.random(2000) < 0.3, 0.1, RNG.normal(size=2000))[:, None]
    atoms = Atoms.of(values, np.zeros(1))
    joined = atoms.joined(atoms.spread(values, RNG.random(values.shape)))
    np.testing.assert_array_equal(joined == 0.1, values == 0.1)


def test_columns_without_atoms_stay_as_they_are():
    none = Atoms.of(RNG.normal(size=(500, 2)), np.zeros(2))
    assert not none.any
    s = RNG.normal(size=(3, 2))
    np.testing.assert_array_equal(none.spread(s, 0.5), s)
    assert none.joined(s) is s


def test_rounding_does_not_split_an_atom():
    """.7, summed up in another order in half of the rows."""
    values = np.where(RNG.random(2000) < 0.6, RNG.normal(size=2000), 0.7)
    values[::2] = (values[::2] + 5.3) - 5.3
    atoms = Atoms.of(values[:, None], np.zeros(1))
    assert atoms.at.shape == (1, 1)
    assert abs(float(atoms.at[0, 0]) - 0.7) < 1e-12
    assert atoms.here(values[:, None]).sum() == (np.abs(values - 0.7) < 1e-9).sum()


def test_a_clamped_column_ends_there_in_any_precision():
    """Float32 values share a lattice of one unit in the last place, which is no lattice to go by:
    the atoms count, and nothing lies beyond them.
    """
    for values in (CLAMPED, CLAMPED.astype(np.float32).astype(float)):
        space = StatisticSpace.of(values[:, None])
        assert space.atoms.any
        np.testing.assert_allclose([space.low[0], space.high[0]], [-1.0, 1.5])
        with jax.enable_x64(True):
            beyond = space.statistics(jnp.array([[-9.0], [9.0]]))
        np.testing.assert_allclose(beyond[:, 0], [-1.0, 1.5])


def clamped_model(noise):
    """Four values max(N(theta, .7^2), 0) with Laplace noise, theta ~ N(0, 1)."""
    return nw.PrivateModel(
        prior=nw.Prior({"theta": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: jnp.maximum(theta + 0.7 * jax.random.normal(key, (4,)), 0.0)
        ),
        query=nw.queries.FunctionQuery(lambda s: s),
        mechanism=nw.mechanisms.Laplace(scale=noise),
    )


def test_a_clamped_statistic_is_learnt():
    """The posterior by quadrature has mean -.534 and sd .687 (trapezoids of 4,000 points). Within
    .15 sd, that is 3 times .04 by training (10 seeds) and .03 by 1,000 draws; an interval that
    counts as density, or is never joined, is off by .5 and more.
    """
    observed = np.array([0.1, -0.3, 0.6, 0.25])
    theta, x = np.linspace(-4.0, 4.0, 801)[:, None], np.linspace(0.0, 8.0, 4001)
    laplace = lambda away: np.exp(-np.abs(away) / 0.3)
    log_density = norm.logpdf(theta[:, 0])
    for value in observed:
        inside = norm.pdf(x, theta, 0.7) * laplace(value - x)
        log_density += np.log(
            norm.cdf(0.0, theta[:, 0], 0.7) * laplace(value) + inside.sum(axis=1) * x[1]
        )
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ theta[:, 0]
    sd = np.sqrt(weights @ (theta[:, 0] - mean) ** 2)
    model = clamped_model(0.3)
    likelihood = CLE(num_simulations=4000, num_members=1, target_ess=1000).fit(
        KEY, model, progress=False
    )
    posterior = likelihood.posterior(KEY, observed)
    draws = posterior.sample(KEY, 2000)[:, 0]
    assert abs(draws.mean() - mean) < 0.15 * sd
    assert abs(draws.std() / sd - 1.0) < 0.15
    assert (posterior.statistics >= 0.0).all()
    drawn = likelihood.sample(KEY, np.full((4000, 1), -0.5))
    assert (drawn >= 0.0).all()
    assert abs(np.mean(drawn == 0.0) - norm.cdf(0.5 / 0.7)) < 0.08


def test_a_clamped_function_of_the_parameters_is_refused():
    """Atoms spread by chance are no dimension: the other rows are a line."""
    model = nw.PrivateModel(
        prior=nw.Prior({"theta": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: jnp.maximum(theta, 0.3), deterministic=True
        ),
        query=nw.queries.FunctionQuery(lambda s: s),
        mechanism=nw.mechanisms.Laplace(scale=0.3),
    )
    with pytest.raises(errors.MissingCapabilityError, match="dimensions given"):
        CLE(num_simulations=1000).fit(KEY, model, progress=False)
