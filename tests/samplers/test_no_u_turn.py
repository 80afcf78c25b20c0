"""No-U-turn chains: exact laws of hierarchies, a planted bug that shows, runs that go on."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from noisewise import errors
from noisewise.samplers import LocationScale, nuts

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SD = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
RUBIN = LocationScale(range(2, 10), lambda z: (z[0], jnp.exp(z[1])))
FOUR = LocationScale(range(2, 6), lambda z: (z[0], jnp.exp(z[1])))
START = np.random.default_rng(0).normal(size=(4, 10))
TRACES = []


class Hierarchy(eqx.Module):
    """Effects measured with known sds, mean ~ N(0, 10), spread half-Cauchy(5) in its log, whose
    Jacobian may be forgotten.
    """

    effects: np.ndarray
    sd: np.ndarray
    block: LocationScale
    jacobian: float = 1.0

    def __call__(self, z):
        TRACES.append(z)
        e = self.block.take(z)
        data = -0.5 * jnp.sum(((self.effects - e) / self.sd) ** 2)
        spread = self.jacobian * z[1] - jnp.log1p(jnp.exp(2.0 * z[1]) / 25.0)
        return data + self.block.log_law(e, z) - 0.005 * z[0] ** 2 + spread


def cdfs(effects, sd):
    """Grids of mean and log spread, and their posterior CDFs by quadrature, effects integrated out."""
    mean, log_tau = np.linspace(-40.0, 50.0, 901), np.linspace(-9.0, 6.0, 901)
    variance = sd**2 + np.exp(2.0 * log_tau)[:, None]
    log = np.stack(
        [-0.5 * np.sum((effects - m) ** 2 / variance + np.log(variance), axis=1) for m in mean]
    )
    log += -0.005 * mean[:, None] ** 2 + log_tau - np.log1p(np.exp(2.0 * log_tau) / 25.0)
    mass = np.exp(log - logsumexp(log))
    return [(mean, np.cumsum(mass.sum(axis=1))), (log_tau, np.cumsum(mass.sum(axis=0)))]


def distances(run, exact):
    """Kolmogorov-Smirnov distances of mean and log spread, times the root of the effective size."""
    found = []
    for column, (grid, cdf) in enumerate(exact):
        draws = np.sort(run.draws[:, :, column].ravel())
        at = np.interp(draws, grid, cdf)
        distance = np.abs(at - (np.arange(len(at)) + 0.5) / len(at)).max()
        size = min(run.bulk_size[column], run.tail_size[column])
        found.append(distance * np.sqrt(size))
    return found


SCHOOLS = Hierarchy(EFFECTS, SD, RUBIN)
QUADRATURE = cdfs(EFFECTS, SD)
LEVEL = 1.95
"""The root of n times the distance is above this once in a thousand, if draws are independent."""


@pytest.fixture(scope="module")
def run():
    return nuts(jax.random.key(1), SCHOOLS, START, blocks=[RUBIN])


def test_eight_schools_against_quadrature(run):
    """Mean and log spread at level .001; chains agree, all coordinates are worth 400 draws."""
    assert run.draws.shape == (1000, 4, 10)
    assert max(distances(run, QUADRATURE)) < LEVEL
    assert run.r_hat.max() < 1.02
    assert min(run.bulk_size.min(), run.tail_size.min()) > 400
    assert run.num_divergent < 40
    assert 0.7 < run.acceptance < 0.95
    assert run.state.shares[0].max() < 0.5


def test_a_forgotten_jacobian_shows_and_compiles_nothing(run):
    before = len(TRACES)
    wrong = nuts(jax.random.key(1), Hierarchy(EFFECTS, SD, RUBIN, 0.5), START, blocks=[RUBIN])
    assert max(distances(wrong, QUADRATURE)) > 2.0 * LEVEL
    assert len(TRACES) == before


def test_log_densities_are_those_of_the_draws(run):
    with jax.enable_x64(True):
        values = jax.jit(jax.vmap(SCHOOLS))(run.draws[-1])
    assert np.allclose(run.log_density[-1], values, rtol=0, atol=1e-9)


def test_a_run_goes_on_to_the_last_bit():
    """100 draws and 60 more are 160; a caller who stops keeps what there is, and goes on from it."""
    key, settings = jax.random.key(2), {"blocks": [RUBIN], "num_warmup": 60}
    whole = nuts(key, SCHOOLS, START, num_draws=160, **settings)
    told = []

    def enough(done, total):
        told.append((done, total))
        return done >= 130

    first = nuts(key, SCHOOLS, START, num_draws=160, progress=enough, **settings)
    rest = nuts(key, SCHOOLS, first.state, num_draws=60, blocks=[RUBIN])
    assert told[-1] == (160, 220)
    assert np.array_equal(np.concatenate([first.draws, rest.draws]), whole.draws)
    assert np.array_equal(rest.state.position, whole.state.position)
    assert whole.num_gradients == first.num_gradients + rest.num_gradients
    assert rest.num_warmup_gradients == 0


def test_a_stop_in_the_warmup_leaves_nothing():
    stopped = nuts(jax.random.key(2), SCHOOLS, START, blocks=[RUBIN], progress=lambda *_: True)
    assert stopped.state is None
    assert stopped.draws.shape == (0, 4, 10)
    assert stopped.num_warmup_gradients > 0


@pytest.mark.parametrize(
    ("start", "settings", "part"),
    [
        (START, {"num_warmup": 10}, "num_warmup"),
        (START[:, :5], {"blocks": [RUBIN]}, "start has 5 columns"),
        (np.full((2, 10), 1e200), {"blocks": [RUBIN]}, "vanishes at all 2 starts"),
        (START, {"blocks": [RUBIN], "shares": 2.0}, r"\[0, 1\]"),
    ],
)
def test_mistakes_are_refused(start, settings, part):
    with pytest.raises(errors.InvalidInputError, match=part):
        nuts(jax.random.key(0), SCHOOLS, start, **settings)


@pytest.mark.slow
def test_six_parameters_against_quadrature_in_many_runs():
    """Twenty data sets: distances in units of their standard error have the mean of Kolmogorov's
    law, .87, to .15 (4 standard errors of 40 values with sd .26).
    """
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        effects, sd = 5.0 + 8.0 * rng.normal(size=4), np.array([1.0, 3.0, 9.0, 27.0])
        target = Hierarchy(effects, sd, FOUR)
        draws = nuts(jax.random.key(seed), target, rng.normal(size=(4, 6)), blocks=[FOUR])
        found += distances(draws, cdfs(effects, sd))
    assert abs(np.mean(found) - 0.87) < 0.17


@pytest.mark.slow
def test_rows_of_the_benchmark():
    """At least 400 effective draws of every parameter of the two models; by shares never below .8
    of the better form on the ten data sets.
    """
    from benchmarks import hierarchies

    found = hierarchies.run()
    for name, forms in found.items():
        ours = forms["by shares"]
        if name.startswith("information"):
            assert ours["against the better"] >= 0.8, name
        else:
            worst = min(ours["mean"], ours["log spread"], ours["worst effect"], ours["worst tail"])
            assert worst >= 400.0, name
