"""Sums over counts by a table of what does not depend on the law's parameters, against sums without
and sums term by term.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import noisewise as nw
from noisewise.laws import deviance, table_sums, tables
from noisewise.laws.counts import CountSum, plan_for
from tests.laws import reference
from tests.laws.catalogue import GROUPS, NAN, SMALL_SCALES, array

M = nw.mechanisms
SUPPRESSED = M.Thresholded(M.DiscreteLaplace(scale=30.0), above=450.0)
RATES = array(3.0, 40.0, 70.0, 20.0, 1e-8)
NOISE = M.DiscreteLaplace(scale=2.0)
CASES = {
    "discrete Gaussian": (M.DiscreteGaussian(scale=5.0), (1.0, 47.0, 60.0, 15.0, -3.0)),
    "Laplace, by column": (M.Laplace(scale=[1.0, 2.0, 3.0, 4.0, 0.5]), (5.5, 41.0, 66.0, 9.0, 0.2)),
    "thresholded": (M.Thresholded(NOISE, above=10.0), (NAN, 44, 71, 12, NAN)),
    "rounded": (M.Rounded(base=3), (3.0, 42.0, 69.0, 18.0, 0.0)),
    "exact": (M.Exact(), (4.0, 44.0, 68.0, 12.0, 0.0)),
    "mixed": (
        M.PerCell(
            [
                M.Thresholded(NOISE, above=10.0),
                M.Unmeasured(),
                M.Thresholded(M.DiscreteGaussian(scale=[30.0, 5.0]), above=[60.0, 4.0]),
            ],
            [0, 1, 2, 0, 2],
        ),
        (NAN, NAN, 71.0, 12.0, NAN),
    ),
}
CHANCES = RATES / 80.0
LAWS = {
    "Poisson": (lambda rates: dist.Poisson(rates, validate_args=False), RATES),
    "negative binomial": (
        lambda rates: dist.NegativeBinomial2(rates, jnp.array([2.5]), validate_args=False),
        RATES,
    ),
    "a shape for each cell": (
        lambda rates: dist.NegativeBinomial2(rates, 0.5 + 0.1 * rates, validate_args=False),
        RATES,
    ),
    "binomial": (
        lambda p: dist.BinomialProbs(p, np.full(p.shape, 150.0), validate_args=False),
        CHANCES,
    ),
    "binomial of logits": (
        lambda a: dist.BinomialLogits(a, np.full(a.shape, 150.0), validate_args=False),
        np.log(CHANCES / (1.0 - CHANCES)),
    ),
}


def sums(mechanism, y, table, law="Poisson"):
    y = np.asarray(y, dtype=float)

    def log_prob(parameters):
        plan = plan_for(mechanism, y)
        made = LAWS[law][0](parameters)
        return CountSum(made, mechanism, jnp.asarray(y), plan, table=table).log_prob()

    return log_prob


def table_of(mechanism, y, law="Poisson"):
    make, parameters = LAWS[law]
    return tables.table_for(make(parameters), mechanism, np.asarray(y, dtype=float))


FAST = {("Poisson", "discrete Gaussian"), ("negative binomial", "rounded")}
PAIRS = [
    pytest.param(law, name, marks=() if (law, name) in FAST else pytest.mark.slow)
    for law in LAWS
    for name in CASES
]


@pytest.mark.parametrize(("law", "name"), PAIRS)
def test_tables_give_what_sums_without_them_give(law, name):
    """At parameters near and far, where the table falls short, for two rows at once."""
    mechanism, y = CASES[name]
    table = table_of(mechanism, y, law)
    assert table is not None
    near = LAWS[law][1]
    far = 0.01 * near if law == "binomial" else near - 4.0 if "logits" in law else 30.0 * near
    parameters = np.stack([near, far])

    def both(table):
        log_prob = sums(mechanism, y, table, law)
        slopes = jax.vmap(jax.grad(lambda each: log_prob(each).sum()))
        return jax.jit(lambda rows: (jax.vmap(log_prob)(rows), slopes(rows)))(parameters)

    with jax.enable_x64(True):
        found, exact = both(table), both(None)
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-10, atol=1e-10)
    # sums without a table take the deviance of 1 from that of 1 - p, whose slope in p is right to
    # some roundings of 1 over p: 1e-5 at 1e-10, where the table has the limit to 1e-10
    size = 1.0 / (1.0 + np.exp(-parameters)) if "logits" in law else parameters
    rounding = 10.0 * np.finfo(float).eps / size
    assert (np.abs(found[1] - exact[1]) <= 1e-9 * np.abs(exact[1]) + 1e-8 + rounding).all()


EXACT = {
    "negative binomial": lambda rate: reference.negative_binomial_of_mean(rate, 2.5),
    "binomial of logits": lambda a: reference.binomial_of_logits(150, a),
    "Poisson": reference.poisson,
}
ETA = (
    reference.absent(reference.below(2.0, "laplace"), 10),
    reference.unmeasured(),
    reference.discrete_gaussian(30.0),
    reference.discrete_laplace(2.0),
    reference.absent(reference.below(5.0, "gaussian"), 4),
)


@pytest.mark.slow
@pytest.mark.parametrize("law", EXACT)
def test_mixed_mechanisms_against_sums_term_by_term(law):
    """An absent cell, one without a measurement, and two kinds of noise, to 1e-9 of log p."""
    mechanism, y = CASES["mixed"]
    parameters = LAWS[law][1]
    with jax.enable_x64(True):
        table = table_of(mechanism, y, law)
        assert len(table.parts) > 1
        found = np.asarray(sums(mechanism, y, table, law)(jnp.asarray(parameters)))
    near = np.nan_to_num(np.asarray(y), nan=2.0)
    exact = np.array(
        [
            float(reference.Sum(EXACT[law](parameters[j]), ETA[j], near[j], near[j]).log_prob())
            for j in range(5)
        ]
    )
    assert (np.abs(found - exact) <= 1e-9 * np.maximum(1.0, np.abs(exact))).all()


@pytest.mark.slow
@pytest.mark.parametrize("law", ["negative binomial", "binomial of logits"])
def test_slopes_against_differences(law):
    """In what differs between cells, and in what they share."""
    mechanism, y = CASES["mixed"]

    def log_prob(point):
        shared, cells = point[0], point[1:]
        if law == "negative binomial":
            made = dist.NegativeBinomial2(jnp.exp(cells), shared[None], validate_args=False)
        else:
            made = LAWS[law][0](cells + 0.1 * shared)
        plan = plan_for(mechanism, np.asarray(y))
        return CountSum(made, mechanism, jnp.asarray(y), plan, table=table).log_prob().sum()

    with jax.enable_x64(True):
        table = table_of(mechanism, y, law)
        start = np.log(np.maximum(RATES, 0.5)) if law == "negative binomial" else LAWS[law][1]
        point, step = jnp.asarray(np.append(2.5, start)), 1e-5
        slope = jax.jit(jax.grad(log_prob))(point)
        value = jax.jit(log_prob)
        differences = [
            (value(point.at[i].add(step)) - value(point.at[i].add(-step))) / (2.0 * step)
            for i in range(len(point))
        ]
    np.testing.assert_allclose(slope, differences, rtol=1e-6, atol=1e-7)


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
    monkeypatch.setattr(table_sums, "_ENOUGH", -np.inf)
    with jax.enable_x64(True):
        rates = 30.0 * jnp.asarray(RATES)
        wrong, right = (sums(mechanism, y, some)(rates) for some in (table, None))
    assert np.abs(wrong - right).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["r + 1 for r", "cells in another order", "absent is 12"])
def test_planted_bugs_are_caught(planted, monkeypatch):
    mechanism, y = CASES["mixed"]
    law, rates = "negative binomial", LAWS["negative binomial"][1]
    with jax.enable_x64(True):
        table = table_of(mechanism, y, law)
        right = np.asarray(sums(mechanism, y, table, law)(jnp.asarray(rates)))
        if planted == "cells in another order":
            table = table._replace(back=table.back[::-1])
        elif planted == "absent is 12":
            table = table_of(mechanism, np.where([1, 0, 0, 0, 1], 12.0, y), law)
        else:
            real = deviance.NegativeBinomial.each
            monkeypatch.setattr(
                deviance.NegativeBinomial,
                "each",
                lambda self, given, s: real(self, (given[0] + 1.0, given[1]), s),
            )
        wrong = np.asarray(sums(mechanism, y, table, law)(jnp.asarray(rates)))
    assert np.abs(wrong - right).max() > 1e-3


@pytest.mark.slow
def test_tables_end_where_floating_point_does():
    """An absent cell below a high threshold: e^975 lies between the terms of its 2,000 numbers, so
    that the table ends sooner, and what it cannot hold is summed without it. Planted: a table that
    ends at 700, of which nothing is asked.
    """
    mechanism, y = M.Thresholded(M.DiscreteLaplace(scale=30.0), above=450.0), (NAN, 600.0)
    table = table_of(mechanism, y)
    (part,) = table.parts
    assert part.high[0] < 1500.0
    assert len(part.terms) < 1500
    ended = part._replace(terms=part.terms[:704], last=np.full(2, -np.inf))
    short = tables.Table((ended,), table.back)
    with jax.enable_x64(True):
        rates = [jnp.array(pair) for pair in ([300.0, 500.0], [1000.0, 700.0], [1600.0, 300.0])]
        exact = [sums(mechanism, y, None)(rate) for rate in rates]
        found = [sums(mechanism, y, table)(rate) for rate in rates]
        np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-11)
        assert abs(sums(mechanism, y, short)(rates[1]) - exact[1])[0] > 1e-3


def test_long_likelihoods_have_no_table():
    for mechanism in (
        M.DiscreteLaplace(scale=1000.0),  # 50 scales on both sides
        M.Unmeasured(),
        M.Clamped(M.Laplace(1.0), high=9.0),
    ):
        assert table_of(mechanism, [5.0, 9.0]) is None


@pytest.mark.slow
def test_negative_binomial_laws_take_it_under_jit(x64_flag):
    """Whatever JAX's flag says, in chains side by side."""
    y, noise, rates = np.full(3, 41.0), M.DiscreteGaussian(scale=4.9), np.full(3, 45.0)

    def total(rate):
        return nw.Privatized(dist.NegativeBinomial2(rate, 3.0), noise).log_prob(y).sum()

    found, slope = jax.jit(jax.vmap(jax.value_and_grad(total)))(jnp.asarray(rates)[None])
    np.testing.assert_allclose(found, total(rates), rtol=1e-10 if x64_flag else 1e-6)
    assert np.isfinite(slope).all()


def test_privatized_laws_take_it_under_jit(x64_flag, monkeypatch):
    """In event dimensions and with extra zeros as well."""
    taken = []
    real = table_sums.log_sum
    monkeypatch.setattr(table_sums, "log_sum", lambda *args: taken.append(1) or real(*args))
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


def test_draws_where_terms_are_small():
    """e^480 lies between the sum and its first number: weights by themselves overflow there, and
    draws ended too soon. To five standard errors of 1,000 draws.
    """
    mechanism, y, rate = SUPPRESSED, np.array([NAN]), 1000.0
    table = tables.table_for(dist.Poisson(1.0), mechanism, y)
    kind = deviance.ratios_of(dist.Poisson(1.0))
    with jax.enable_x64(True):
        rates = (jnp.array([rate]),)
        keys = jax.random.split(jax.random.key(0), 1000)
        drawn = np.asarray(
            jax.vmap(lambda key: table_sums.draw(key, kind, rates, table, None))(keys)
        )
    grid = np.arange(2500.0)
    log_eta = mechanism.log_prob(np.full((2500, 1), NAN), grid[:, None])
    weights = stats.poisson.pmf(grid, rate) * np.exp(log_eta - log_eta.max())
    weights = weights / weights.sum()
    mean = weights @ grid
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    assert abs(float(drawn.mean()) - mean) < 5.0 * sd / np.sqrt(1000.0)
    assert float(drawn.std()) == pytest.approx(sd, rel=0.15)


def test_sums_near_overflow_are_not_believed_unseen(monkeypatch):
    """Where it is e^480 times its first number, a sum ends within its table, and is near where
    tables alone end.
    """
    table = tables.table_for(dist.Poisson(1.0), SUPPRESSED, np.array([NAN]))
    kind = deviance.ratios_of(dist.Poisson(1.0))
    with jax.enable_x64(True):
        near, far = (jnp.array([rate]) for rate in (1000.0, 500.0))
        assert bool(table_sums.falls_short(kind, (near,), table))
        assert not bool(table_sums.falls_short(kind, (far,), table))
        monkeypatch.setattr(table_sums, "_ROOM", np.inf)  # planted
        assert not bool(table_sums.falls_short(kind, (near,), table))


def test_no_table_where_it_would_fall_short_at_what_was_released(monkeypatch):
    """1,000 with noise of sd 200: terms span more than floating point holds. Rounded numbers end by
    themselves. Planted: tables that are made whatever they are worth.
    """
    wide = M.DiscreteGaussian(scale=200.0), np.array([1000.0])
    assert tables.table_for(dist.Poisson(1.0), *wide) is None
    (part,) = tables.table_for(dist.Poisson(1.0), M.Rounded(base=3), np.array([600.0])).parts
    assert np.isneginf(part.last).all()
    monkeypatch.setattr(tables, "_ROOM", np.inf)
    monkeypatch.setattr(tables, "_FALL", 0.0)
    assert tables.table_for(dist.Poisson(1.0), *wide) is not None
