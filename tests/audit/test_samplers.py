"""Samplers against densities: correct ones pass, a 2% scale error is caught with power .99 at alpha 1e-6."""

import jax
import numpy as np
import pytest
from scipy.stats import binom, kstest

import noisewise as nw
from noisewise import errors
from noisewise import mechanisms as m
from noisewise.audit import epsilon_lower_bound, sampler_against_density

KEY = jax.random.key(5)
DRAWS = 500_000

CASES = {
    "Laplace": (m.Laplace(1.0), m.Laplace(1.02), [3.0]),
    "Gaussian": (m.Gaussian(2.0), m.Gaussian(2.04), [3.0]),
    "DiscreteLaplace": (m.DiscreteLaplace(3.0), m.DiscreteLaplace(3.06), [5.0]),
    "DiscreteGaussian": (m.DiscreteGaussian(3.0), m.DiscreteGaussian(3.06), [5.0]),
    "EuclideanLaplace": (m.EuclideanLaplace(1.0), m.EuclideanLaplace(1.02), [1.0, -2.0]),
    "Clamped": (m.Clamped(m.Laplace(1.0), low=0.0), m.Clamped(m.Laplace(1.02), low=0.0), [1.0]),
    "rounded": (m.Clamped(m.Gaussian(2.0), low=0.0, high=9.0, step=1.0),
                m.Clamped(m.Gaussian(2.04), low=0.0, high=9.0, step=1.0), [4.3]),
    "PaddedBinomial": (m.PaddedBinomial(trials=50, padding=100.0, population=1000, num_times=1),
                       m.PaddedBinomial(trials=50, padding=98.0, population=970, num_times=1), [50.0]),
    "RandomizedResponse": (m.RandomizedResponse(num_categories=4, truth_probability=0.5),
                           m.RandomizedResponse(num_categories=4, truth_probability=0.51), [2.0]),
    "ExponentialMechanism": (m.ExponentialMechanism(candidates=(1.0, 2.0, 5.0), scale=1.0),
                             m.ExponentialMechanism(candidates=(1.0, 2.0, 5.0), scale=1.02), [0.0, 2.0, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_correct_samplers_pass(name):
    mechanism, _, s = CASES[name]
    audit = sampler_against_density(KEY, mechanism, s, num_draws=DRAWS)
    assert audit.passed, audit
    assert audit.p_value > 1e-4


@pytest.mark.parametrize("name", CASES)
def test_a_two_percent_error_is_caught(name):
    """The p-value must be so far below 1e-6 that the power at this size exceeds .99: see `power_margin`."""
    mechanism, wrong, s = CASES[name]
    audit = sampler_against_density(KEY, mechanism, s, sampler=wrong.sample, num_draws=DRAWS)
    assert not audit.passed, audit


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Laplace", "Gaussian", "DiscreteLaplace", "DiscreteGaussian", "EuclideanLaplace"])
def test_power_is_above_99_percent(name):
    """100 repetitions, all caught: with power p the chance of that is p^100, so p >= .955 at 1%; and the median p-value shows more."""
    mechanism, wrong, s = CASES[name]
    audits = [
        sampler_against_density(jax.random.fold_in(KEY, i), mechanism, s, sampler=wrong.sample, num_draws=DRAWS)
        for i in range(100)
    ]
    assert all(not audit.passed for audit in audits)
    assert np.median([audit.p_value for audit in audits]) < 1e-15


def test_p_values_are_uniform_for_a_correct_sampler():
    """False alarms occur at the stated rate: KS of 100 p-values per test against the uniform law."""
    audits = [
        sampler_against_density(jax.random.fold_in(KEY, i), m.Laplace(1.0), [0.0], num_draws=5_000) for i in range(100)
    ]
    for name in audits[0].p_values:
        assert kstest([audit.p_values[name] for audit in audits], "uniform").pvalue > 1e-4


def test_a_flipped_sign_and_a_shift_are_caught():
    exponential = m.Clamped(m.Laplace(1.0), low=0.0, high=4.0)
    flipped = lambda key, s: 4.0 - exponential.sample(key, s)
    assert not sampler_against_density(KEY, exponential, [1.0], sampler=flipped, num_draws=50_000).passed
    shifted = lambda key, s: m.Laplace(1.0).sample(key, s) + 0.02
    assert not sampler_against_density(KEY, m.Laplace(1.0), [1.0], sampler=shifted, num_draws=DRAWS).passed


def test_a_forgotten_clamp_mass_is_caught():
    class Forgetful(m.Clamped):
        def _log_prob(self, s_dp, s):
            return self.mechanism._log_prob(s_dp, s)

        def _log_prob_each(self, s_dp, s):
            return self.mechanism._log_prob_each(s_dp, s)

    # a scale of 1 would hide the slip: there the Laplace tail mass equals the density
    clamped = Forgetful(m.Laplace(2.0), low=0.0, high=4.0)
    assert not sampler_against_density(KEY, clamped, [1.0], num_draws=50_000).passed


def test_a_dependent_column_is_caught_in_the_plane():
    """Independent Laplace columns are not the Euclidean law, though each is symmetric and heavy-tailed."""
    assert not sampler_against_density(
        KEY, m.EuclideanLaplace(1.0), [0.0, 0.0], sampler=m.Laplace(1.3).sample, num_draws=DRAWS
    ).passed


def test_black_box_finds_most_of_a_true_epsilon():
    bound = epsilon_lower_bound(KEY, m.Laplace(scale=1.0), [0.0], [1.0])
    assert 0.97 < bound.epsilon <= 1.0
    assert not bound.refutes(1.0)


def test_a_planted_overspend_of_five_percent_is_caught():
    """20 repetitions in the fast suite; the standard error of the bound is about .003 against a margin of .03."""
    for i in range(20):
        bound = epsilon_lower_bound(jax.random.fold_in(KEY, i), m.Laplace(scale=1 / 1.05), [0.0], [1.0])
        assert bound.refutes(1.0)
        assert bound.epsilon < 1.05


def test_the_level_is_honest():
    """At alpha = .2 a true claim may be refuted in at most 20% of repetitions: binomial bound at 1e-6."""
    refuted = sum(
        epsilon_lower_bound(
            jax.random.fold_in(KEY, i), m.Laplace(scale=1.0), [0.0], [1.0], num_draws=4000, alpha=0.2
        ).refutes(1.0)
        for i in range(200)
    )
    assert refuted <= binom.isf(1e-6, 200, 0.2)


def test_events_and_delta():
    floor = epsilon_lower_bound(KEY, m.Gaussian(1.0), [0.0], [1.0], delta=0.5, num_draws=10_000)
    assert floor.epsilon == 0.0
    given = epsilon_lower_bound(KEY, m.Laplace(1.0), [0.0], [1.0], event=lambda y: y[:, 0] < 0, num_draws=100_000)
    assert given.event == "given"
    assert 0.9 < given.epsilon < 1.0


BAD = [
    (lambda: sampler_against_density(KEY, 1.0, [0.0]), errors.InvalidTypeError, "audits a mechanism"),
    (lambda: sampler_against_density(KEY, m.Laplace(1.0), [[0.0]]), errors.InvalidInputError, "one statistic"),
    (lambda: sampler_against_density(KEY, m.Laplace(1.0), [0.0], num_draws=10), errors.InvalidInputError, "num_draws"),
    (lambda: sampler_against_density(KEY, m.Laplace(1.0), [0.0], alpha=0.0), errors.InvalidInputError, "alpha"),
    (lambda: sampler_against_density(0, m.Laplace(1.0), [0.0]), errors.InvalidTypeError, "PRNG key"),
    (lambda: sampler_against_density(KEY, m.EuclideanLaplace(1.0), [0.0] * 3), errors.MissingCapabilityError, "one or two"),
    (lambda: sampler_against_density(KEY, m.Laplace(1.0), [0.0], sampler=lambda k, s: s[:5]), errors.InvalidInputError, "shape"),
    (lambda: epsilon_lower_bound(KEY, 3, [0.0], [1.0]), errors.InvalidTypeError, "sampler"),
    (lambda: epsilon_lower_bound(KEY, m.Laplace(1.0), [0.0], [1.0, 2.0]), errors.InvalidInputError, "one shape"),
    (lambda: nw.audit.epsilon_lower_bound(KEY, m.Laplace(1.0), [0.0], [1.0], delta=1.0), errors.InvalidInputError, "delta"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
