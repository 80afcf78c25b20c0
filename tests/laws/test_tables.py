"""Sums over Poisson counts by a table of what does not depend on the rate, against sums without."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.laws import tables
from noisewise.laws.counts import CountSum, plan_for
from tests.laws.catalogue import GROUPS, NAN, SMALL_SCALES, array

M = nw.mechanisms
RATES = array(3.0, 40.0, 70.0, 20.0, 1e-8)
CASES = {
    "discrete Gaussian": (M.DiscreteGaussian(scale=5.0), (1.0, 47.0, 60.0, 15.0, -3.0)),
    "Laplace, by column": (M.Laplace(scale=[1.0, 2.0, 3.0, 4.0, 0.5]), (5.5, 41.0, 66.0, 9.0, 0.2)),
    "thresholded": (
        M.Thresholded(M.DiscreteLaplace(scale=2.0), above=10.0),
        (NAN, 44, 71, 12, NAN),
    ),
    "rounded": (M.Rounded(base=3), (3.0, 42.0, 69.0, 18.0, 0.0)),
    "exact": (M.Exact(), (4.0, 44.0, 68.0, 12.0, 0.0)),
}


def sums(mechanism, y, table):
    y = np.asarray(y, dtype=float)

    def log_prob(rate):
        plan = plan_for(mechanism, y)
        law = dist.Poisson(rate, validate_args=False)
        return CountSum(law, mechanism, jnp.asarray(y), plan, table=table).log_prob()

    return log_prob


def table_of(mechanism, y):
    return tables.table_for(dist.Poisson(1.0), mechanism, np.asarray(y, dtype=float))


FAST = ("discrete Gaussian", "rounded")


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_tables_give_what_sums_without_them_give(name):
    """At rates near and far, where the table falls short, for two rows at once."""
    mechanism, y = CASES[name]
    table = table_of(mechanism, y)
    assert table is not None
    rates = np.stack([RATES, 30.0 * RATES])

    def both(table):
        log_prob = sums(mechanism, y, table)
        slopes = jax.vmap(jax.grad(lambda rate: log_prob(rate).sum()))
        return jax.jit(lambda rates: (jax.vmap(log_prob)(rates), slopes(rates)))(rates)

    with jax.enable_x64(True):
        found, exact = both(table), both(None)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "name",
    [
        "Poisson, discrete Gaussian",
        pytest.param("Poisson, discrete Laplace", marks=pytest.mark.slow),
    ],
)
def test_tables_against_sums_term_by_term(name):
    """Gaussian noise 20 sds away too."""
    group, kept = GROUPS[name], [0, 1, 2] if "Laplace" in name else [0, 1, 2, 3, 5]
    mechanism, y = type(group.mechanism)(scale=SMALL_SCALES[kept]), group.y[kept]
    table = table_of(mechanism, y)
    assert table is not None
    with jax.enable_x64(True):
        rates = jnp.asarray(group.parameters[0][kept])
        found = np.asarray(sums(mechanism, y, table)(rates))
    exact = group.references().astype(float)[kept]
    assert (np.abs(found - exact) <= 1e-9 * np.maximum(1.0, np.abs(exact))).all()


def test_second_derivatives():
    """d^2 log p / d rate^2 by forward over reverse, against differences of first ones."""
    mechanism, y = CASES["discrete Gaussian"]
    with jax.enable_x64(True):
        log_prob = sums(mechanism, y, table_of(mechanism, y))
        slope = jax.jit(jax.grad(lambda rate: log_prob(rate).sum()))
        rates, step = jnp.asarray([*RATES[:4].tolist(), 1.0]), 1e-4
        curved = jax.jvp(slope, (rates,), (jnp.ones(5),))[1]
        differences = (slope(rates + step) - slope(rates - step)) / (2.0 * step)
        np.testing.assert_allclose(curved, differences, rtol=1e-6, atol=1e-7)


def test_a_table_that_ends_too_soon_is_caught(monkeypatch):
    """Planted: far rates are believed to the table."""
    mechanism, y = CASES["discrete Gaussian"]
    table = table_of(mechanism, y)
    monkeypatch.setattr(tables, "_ENOUGH", -np.inf)
    with jax.enable_x64(True):
        rates = 30.0 * jnp.asarray(RATES)
        wrong, right = (sums(mechanism, y, some)(rates) for some in (table, None))
    assert np.abs(wrong - right).max() > 1e-3


def test_long_likelihoods_have_no_table():
    for mechanism in (
        M.DiscreteLaplace(scale=1000.0),
        M.Unmeasured(),
        M.Clamped(M.Laplace(1.0), high=9.0),
    ):
        assert table_of(mechanism, [5.0, 9.0]) is None


def test_privatized_laws_take_it_under_jit(x64_flag, monkeypatch):
    """In event dimensions and with extra zeros as well."""
    taken = []
    real = tables.log_sum
    monkeypatch.setattr(tables, "log_sum", lambda *args: taken.append(1) or real(*args))
    num = 3 + x64_flag  # so that nothing is compiled yet
    y, noise, rates = np.full(num, 41.0), M.DiscreteGaussian(scale=4.9), np.full(num, 45.0)
    start = jnp.zeros(1), jnp.zeros((1, num))
    for law in (
        lambda rate: dist.Poisson(rate),
        lambda rate: dist.Poisson(rate).to_event(1),
        lambda rate: dist.ZeroInflatedPoisson(0.1, rate),
    ):
        eager = nw.Privatized(law(rates), noise).log_prob(y)
        assert not taken

        def total(rate, law=law):
            return nw.Privatized(law(rate), noise).log_prob(y).sum()

        # chains side by side in a loop, as numpyro's samplers run
        found, slope = jax.jit(
            lambda rates, total=total: jax.lax.fori_loop(
                0, 1, lambda i, state: jax.vmap(jax.value_and_grad(total))(rates), start
            )
        )(jnp.asarray(rates)[None])
        np.testing.assert_allclose(found, eager.sum(), rtol=1e-10 if x64_flag else 1e-6)
        assert np.isfinite(slope).all()
        assert taken
        taken.clear()
