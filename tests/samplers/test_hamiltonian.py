"""Hamiltonian chains: right moments on a skewed target, a planted bug that shows, no visits where
the density is NaN.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import polygamma
from scipy.stats import norm

from noisewise import errors
from noisewise.samplers.densities import log_densities
from noisewise.samplers.hamiltonian import hamiltonian, resample_start

KEY = jax.random.key(5)
ROOT = np.array([[1.0, 0.0, 0.0], [0.6, 1.0, 0.0], [-0.5, 0.9, 1.0]])
START = np.random.default_rng(0).normal(size=(64, 3))
TRACES = []


class Skewed(eqx.Module):
    """y = R z with exp(y0) ~ Gamma(shape), y1 | y0 ~ N(.3 y0^2, 1), y2 ~ N(0, 1); exp(y0) has the
    Jacobian exp(y0).
    """

    root: np.ndarray
    shape: float
    jacobian: float = 1.0

    def __call__(self, z):
        TRACES.append(z)
        y = self.root @ z
        gamma = (self.shape - 1.0 + self.jacobian) * y[0] - jnp.exp(y[0])
        return gamma - 0.5 * (y[1] - 0.3 * y[0] ** 2) ** 2 - 0.5 * y[2] ** 2


class HalfSpace(eqx.Module):
    """A standard normal whose log density is NaN for z0 < -1."""

    width: float = 1.0

    def __call__(self, z):
        nothing = jnp.log(z[0] + self.width)
        return -0.5 * jnp.sum(z**2) + nothing - nothing


def worst(draws, exact):
    """The largest deviation of means from `exact`, in Monte Carlo standard errors."""
    import arviz

    columns = np.moveaxis(draws, 2, 0)
    sizes = [arviz.ess(np.ascontiguousarray(column.T)) for column in columns]
    errors_ = [column.std() / np.sqrt(size) for column, size in zip(columns, sizes, strict=True)]
    return max(abs(c.mean() - e) / s for c, e, s in zip(columns, exact, errors_, strict=True))


def moments_of(run):
    """y0, y1, y2 and the squares of their deviations from the exact means, (draws, chains, 6), and
    the exact means of all six.
    """
    mean, variance, third, fourth = (float(polygamma(order, 2.0)) for order in range(4))
    exact = np.array([mean, 0.3 * (variance + mean**2), 0.0])
    square = (
        4 * mean**2 * variance + 4 * mean * third + fourth + 2 * variance**2
    )  # the variance of y0^2
    y = run.draws @ ROOT.T
    return np.concatenate([y, (y - exact) ** 2], axis=2), [
        *exact,
        variance,
        1.0 + 0.09 * square,
        1.0,
    ]


def test_moments_of_a_skewed_target_and_a_forgotten_jacobian():
    """Six moments within 4 standard errors; without the Jacobian the mean of y0 is off by 1."""
    run = hamiltonian(KEY, Skewed(ROOT, 2.0), START, num_warmup=200, num_draws=300)
    assert worst(*moments_of(run)) < 4.0
    assert run.effective_size > 3000
    assert run.r_hat < 1.03
    assert 0.7 < run.acceptance < 0.9
    assert run.draws.shape == (300, 64, 3)
    np.testing.assert_allclose(
        run.log_density[-1], log_densities(Skewed(ROOT, 2.0), run.draws[-1]), rtol=1e-12
    )
    traces = len(TRACES)
    wrong = hamiltonian(KEY, Skewed(ROOT, 2.0, jacobian=0.0), START, num_warmup=200, num_draws=300)
    assert worst(*moments_of(wrong)) > 20.0
    assert len(TRACES) == traces, "another target of the same form must not be compiled again"


def test_the_same_key_gives_the_same_draws_and_chains_continue():
    run = hamiltonian(KEY, Skewed(ROOT, 2.0), START, num_warmup=100, num_draws=300)
    again = hamiltonian(KEY, Skewed(ROOT, 2.0), START, num_warmup=100, num_draws=300)
    np.testing.assert_array_equal(run.draws, again.draws)
    more = hamiltonian(
        KEY,
        Skewed(ROOT, 2.0),
        run.draws[-1],
        num_warmup=0,
        num_draws=300,
        thin=2,
        tuning=run.tuning,
    )
    assert more.step_size == run.step_size
    assert worst(*moments_of(more)) < 4.0
    assert more.effective_size > 3000


def test_places_without_density_are_never_visited():
    """The half-normal's mean within 4 standard errors, no draw beyond its edge, rejections counted,
    bad starts replaced.
    """
    start = np.random.default_rng(1).normal(size=(64, 2))
    assert (start[:, 0] < -1).any()
    run = hamiltonian(KEY, HalfSpace(), start, num_draws=200)
    assert run.draws[..., 0].min() > -1.0
    assert np.isfinite(run.log_density).all()
    assert run.num_divergent > 0
    assert worst(run.draws, [norm.pdf(-1.0) / norm.cdf(1.0), 0.0]) < 4.0


def test_starts_follow_the_target_and_the_proposal_counts():
    """Candidates N(0, 2^2), target N(1, .5^2): mean within 4 standard errors of the 200 kept;
    without the proposal it is off by 3/17.
    """
    z = 2.0 * np.random.default_rng(2).normal(size=(20_000, 2))
    target = lambda z: -0.5 * jnp.sum(((z - 1.0) / 0.5) ** 2)
    start = resample_start(KEY, target, z, -0.125 * (z**2).sum(axis=1), 200)
    assert start.shape == (200, 2)
    assert np.all(abs(start.mean(axis=0) - 1.0) < 4 * 0.5 / np.sqrt(200))
    assert np.all(abs(start.std(axis=0) - 0.5) < 4 * 0.5 / np.sqrt(400))
    spike = resample_start(KEY, lambda z: -1e6 * jnp.sum(z**2), z, num=200)
    assert len(np.unique(spike[:, 0])) >= 10


BAD = [
    (lambda: hamiltonian(True, HalfSpace(), START), errors.InvalidTypeError, "PRNG key"),
    (lambda: hamiltonian(KEY, 3.0, START), errors.InvalidTypeError, "log_density"),
    (lambda: hamiltonian(KEY, HalfSpace(), START[0]), errors.InvalidInputError, "start"),
    (lambda: hamiltonian(KEY, HalfSpace(), START * np.nan), errors.InvalidInputError, "start"),
    (
        lambda: hamiltonian(KEY, HalfSpace(), START[:, :2] * 0.0 - 2.0),
        errors.InvalidInputError,
        "resample_start",
    ),
    (
        lambda: hamiltonian(KEY, HalfSpace(), START, num_draws=0),
        errors.InvalidInputError,
        "num_draws",
    ),
    (lambda: hamiltonian(KEY, lambda z: z, START), errors.InvalidInputError, "single number"),
    (
        lambda: resample_start(KEY, HalfSpace(), START[:, :2] * 0.0 - 2.0),
        errors.InvalidInputError,
        "candidates",
    ),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input(number):
    call, kind, message = BAD[number]
    with pytest.raises(kind, match=message):
        call()
