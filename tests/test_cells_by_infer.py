"""Posteriors given absent and exact cells, by `nw.infer`, against sums and enumeration."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm, poisson

import noisewise as nw
from noisewise.mechanisms import DiscreteGaussian, DiscreteLaplace, Exact, Product, Thresholded
from noisewise.reports import write_report

KEY, DRAW_KEY = jax.random.split(jax.random.key(1))
NUM = 2000
MOST = 0.05
"""Kolmogorov distance of 2,000 draws: that of exact independent ones exceeds .043 with probability
.001, and of those of the wrong posteriors below, the least is .1."""

# Poisson counts, one of them absent ---------------------------------------------------------------

CENTRE, WIDTH = 6.1, 0.5
COUNTS = np.array([463.0, np.nan, 455.0])
GRID = np.linspace(CENTRE - 4 * WIDTH, CENTRE + 4 * WIDTH, 801)
ABOVE = Thresholded(DiscreteLaplace(scale=30.0, sensitivity=1.0), above=450.0)


def poisson_model(mechanism, num):
    def counts(key, theta):
        return jax.random.poisson(key, jnp.exp(theta[0]), (num,)).astype(float)

    return nw.PrivateModel(
        prior=nw.Prior({"log_rate": dist.Normal(CENTRE, WIDTH)}),
        simulator=nw.simulators.JaxSimulator(counts),
        query=lambda x: x,
        mechanism=mechanism,
    )


@functools.cache
def laws_of_counts():
    n = np.arange(6000.0)
    return n, poisson.pmf(n, np.exp(GRID)[:, None])


def finite_sum(cells):
    """The distribution function of the log rate on GRID: sums over counts below 6,000, where less
    than 1e-100 is left out.
    """
    n, law = laws_of_counts()
    log_density = norm.logpdf(GRID, CENTRE, WIDTH)
    for cell in cells:
        eta = np.exp(ABOVE.log_prob(np.full((n.size, 1), cell), n[:, None]))
        log_density = log_density + np.log(law @ eta)
    cdf = np.cumsum(np.exp(log_density - log_density.max()))
    return cdf / cdf[-1]


def distance(draws, cdf):
    at = np.interp(np.sort(draws), GRID, cdf)
    steps = np.arange(len(draws) + 1) / len(draws)
    return max(np.abs(at - steps[1:]).max(), np.abs(at - steps[:-1]).max())


def test_counts_with_an_absent_cell_have_the_posterior_of_the_finite_sum():
    posterior = nw.infer(KEY, poisson_model(ABOVE, 3), COUNTS, target_ess=NUM, progress=False)
    draws = posterior.sample(DRAW_KEY, NUM)[:, 0]
    assert distance(draws, finite_sum(COUNTS)) <= MOST
    published = COUNTS[~np.isnan(COUNTS)]
    assert distance(draws, finite_sum(published)) > 0.1
    without = nw.infer(KEY, poisson_model(ABOVE, 2), published, target_ess=NUM, progress=False)
    assert distance(without.sample(DRAW_KEY, NUM)[:, 0], finite_sum(COUNTS)) > 0.1


# Two cells with an exact total --------------------------------------------------------------------

TOTAL = np.array([30.0, 80.0, 100.0])


def cells(key, theta):
    n = jnp.floor(theta)
    return jnp.array([n[0], n[1], n[0] + n[1]])


@pytest.mark.parametrize("sigma", [5.0, 12.0])
def test_two_cells_with_an_exact_total_have_the_enumerated_posterior(sigma):
    """The first cell is discrete Gaussian around 25 with variance sigma^2 / 2."""
    noise = DiscreteGaussian(scale=sigma, sensitivity=1.0)
    model = nw.PrivateModel(
        prior=nw.Prior({"cell": dist.Uniform(0.0, 101.0).expand([2]).to_event(1)}),
        simulator=nw.simulators.JaxSimulator(cells, deterministic=True),
        query=lambda x: x,
        mechanism=Product([noise, Exact()], widths=[2, 1]),
    )
    posterior = nw.infer(KEY, model, TOTAL, target_ess=NUM, progress=False)
    drawn = np.floor(posterior.sample(DRAW_KEY, NUM))
    assert np.all(drawn.sum(axis=1) == 100.0)
    first = np.arange(101.0)
    both = np.stack([first, 100.0 - first], axis=1)
    weights = np.exp(noise.log_prob(TOTAL[:2], both))
    cdf = np.cumsum(weights) / weights.sum()
    seen = (drawn[:, :1] <= first).mean(axis=0)
    assert np.abs(seen - cdf).max() <= MOST
    assert (weights @ first) / weights.sum() == pytest.approx(25.0, abs=0.05)  # 0..100 cuts a tail
    alone = np.exp(noise.log_prob(np.full((101, 1), 30.0), first[:, None]))
    assert np.abs(seen - np.cumsum(alone) / alone.sum()).max() > 0.1


def test_reports_and_predictions_show_what_is_absent(tmp_path):
    """The method is exact, and finds that the noise explains the observation."""
    model = poisson_model(ABOVE, 3)
    posterior = nw.inference.ImportanceSampling(max_simulations=20_000).infer(
        KEY, model, COUNTS, progress=False
    )
    check = nw.diagnostics.predictive_check(DRAW_KEY, posterior, model, COUNTS)
    assert check.passed
    assert "absent" in str(check)
    assert posterior.report.exact
    assert posterior.report.warnings == ()
    release = nw.Release(COUNTS, ABOVE, names=("north", "east", "south"))
    page = write_report(
        tmp_path / "r.html", posterior, title="Counts", model=model, observed=release
    )
    assert "absent" in page.read_text()
