"""Samplers whose every draw looks right and that hide nothing, or too little; correct ones pass at
the stated rate.
"""

import jax
import numpy as np
import pytest
from scipy.stats import binom, kstest

from noisewise import errors
from noisewise import mechanisms as m
from noisewise.audit import epsilon_lower_bound, sampler_against_density
from noisewise.audit.spread import spread
from noisewise.audit.uniforms.dependence import serial, three_signs
from noisewise.audit.uniforms.low_bits import low_order_bits
from noisewise.audit.uniforms.smooth_tests import fine_cells, uniformity

KEY = jax.random.key(11)
LAPLACE = m.Laplace(1.0)
LATTICE = m.DiscreteLaplace(2.0)
DRAWS = 20_000


def ignores_its_key(mechanism):
    return lambda key, s: mechanism.sample(jax.random.key(3), s)


def repeats(mechanism, arrange):
    """Half of the rows, twice, in the order `arrange` makes of their indices 0..N/2-1."""

    def sampler(key, s):
        half = len(s) // 2
        return (
            mechanism.sample(key, s[:half])[arrange(half)]
            if (s == s[0]).all()
            else mechanism.sample(key, s)
        )

    return sampler


def antithetic(mechanism):
    """Row 2i + 1 is the mirror image of row 2i."""

    def sampler(key, s):
        noise = mechanism.sample(key, np.zeros(s.shape))
        noise[1::2] = -noise[::2]
        return s + noise

    return sampler


def sign_of_a_product(key, s):
    """The third column has the sign of the product of the first two: every pair is independent."""
    noise = LAPLACE.sample(key, np.zeros(s.shape))
    noise[:, 2] = np.abs(noise[:, 2]) * np.sign(noise[:, 0] * noise[:, 1])
    return s + noise


def small_beyond_5(key, s):
    """Noise a thousand times smaller where s > 5."""
    noise = LAPLACE.sample(key, np.zeros(s.shape))
    return s + np.where(s > 5.0, 1e-3, 1.0) * noise


def hidden(bits):
    """Draws on multiples of 2^-40, with s below."""
    return lambda key, s: (
        np.rint(LAPLACE.sample(key, s) * 2.0**40) / 2.0**40 + (s % 8.0) * 2.0**-bits
    )


def hidden_under_random_bits(key, s):
    """s in four bits, random bits above and below it."""
    y = LAPLACE.sample(key, s)
    return np.floor(y * 2.0**40) / 2.0**40 + (s % 16.0) * 2.0**-44 + (y * 2.0**40 % 1.0) * 2.0**-44


TWICE, CYCLE = (
    (lambda half: np.repeat(np.arange(half), 2)),
    (lambda half: np.tile(np.arange(half), 2)),
)

BROKEN = {
    "key ignored": (LAPLACE, ignores_its_key(LAPLACE), [3.0], "column 0 under two keys"),
    "key ignored on a lattice": (
        LATTICE,
        ignores_its_key(LATTICE),
        [3.0],
        "column 0 under two keys",
    ),
    "rows twice": (LAPLACE, repeats(LAPLACE, TWICE), [3.0, 0.0], "rows of column 0"),
    "rows twice on a lattice": (LATTICE, repeats(LATTICE, TWICE), [3.0], "rows of column 0"),
    "rows in a cycle on a lattice": (LATTICE, repeats(LATTICE, CYCLE), [3.0], "rows of column 0"),
    "antithetic": (LAPLACE, antithetic(LAPLACE), [3.0, 0.0], "rows of column 1"),
    "antithetic on a lattice": (LATTICE, antithetic(LATTICE), [3.0], "rows of column 0"),
    "sign of a product": (
        LAPLACE,
        sign_of_a_product,
        [3.0, 0.0, -2.0],
        "signs of columns 0, 1 and 2",
    ),
    "small beyond 5": (LAPLACE, small_beyond_5, [0.0], "statistic 0: column 0"),
    "hidden at 2^-43": (LAPLACE, hidden(43), [3.0], "low-order bits of column 0"),
    "hidden at 2^-47": (LAPLACE, hidden(47), [3.0], "low-order bits of column 0"),
    "hidden under random bits": (
        LAPLACE,
        hidden_under_random_bits,
        [3.0],
        "low-order bits of column 0",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_test_that_looks_for_it_catches_it(name):
    mechanism, sampler, s, test = BROKEN[name]
    audit = sampler_against_density(KEY, mechanism, s, sampler=sampler, num_draws=DRAWS)
    assert not audit.passed
    assert audit.p_values[test] < 1e-12
    # What every draw by itself shows is right.
    assert all(audit.p_values[f"column {j}"] > 1e-4 for j in range(len(s)))
    assert all(audit.p_values[f"log density of column {j}"] > 1e-4 for j in range(len(s)))


def test_a_fixed_bank_of_rows_in_another_order_for_every_key_is_caught():
    """Continuous rows: the same values come under both keys."""

    def sampler(key, s):
        order = np.asarray(jax.random.permutation(key, len(s)))
        return s + LAPLACE.sample(jax.random.key(3), np.zeros(s.shape))[order]

    audit = sampler_against_density(KEY, LAPLACE, [3.0], sampler=sampler, num_draws=DRAWS)
    assert not audit.passed
    assert audit.p_values["ties"] < 1e-12


def test_statistics_can_be_given():
    """Noise that is too small between 50 and 51 alone: no default is there."""

    def sampler(key, s):
        return s + np.where((s > 50.0) & (s < 51.0), 0.9, 1.0) * LAPLACE.sample(
            key, np.zeros(s.shape)
        )

    assert sampler_against_density(KEY, LAPLACE, [0.0], sampler=sampler, num_draws=DRAWS).passed
    audit = sampler_against_density(
        KEY, LAPLACE, [0.0], sampler=sampler, statistics=[[1.0], [50.5]], num_draws=DRAWS
    )
    assert not audit.passed
    assert min(audit.p_values, key=audit.p_values.get).startswith("statistic 1: ")
    np.testing.assert_array_equal(audit.statistics, [[1.0], [50.5]])


def test_a_mechanism_whose_sample_is_no_function_of_its_key_is_caught():
    rng = np.random.default_rng(0)

    class Careless(m.Laplace):
        def sample(self, key, s):
            return s + rng.laplace(size=np.shape(s))

    assert sampler_against_density(KEY, Careless(1.0), [0.0], num_draws=DRAWS).p_values == {
        "same draws for the same key": 0.0
    }
    # A release has no key: as a sampler it may do as it likes.
    assert sampler_against_density(
        KEY, LAPLACE, [0.0], sampler=Careless(1.0).sample, num_draws=DRAWS
    ).passed


@pytest.mark.parametrize(
    ("mechanism", "s", "expected"),
    [
        (LAPLACE, [0.0, 0.0], 8),
        (LATTICE, [5.0], 8),
        (m.PaddedBinomial(trials=50, padding=100.0, population=1000, num_times=1), [50.0], 5),
        (m.Clamped(LAPLACE, low=0.0, high=4.0), [1.0], 4),
        (m.RandomizedResponse(num_categories=4, truth_probability=0.5), [2.0], 2),
        (
            m.Product([LAPLACE, m.ExponentialMechanism(candidates=(1.0, 2.0), scale=1.0)]),
            [0.0, 1.0, 2.0],
            8,
        ),
    ],
)
def test_the_spread_is_made_of_statistics_that_the_mechanism_takes(mechanism, s, expected):
    others = spread(mechanism, np.array(s))
    assert len(others) == expected
    assert len(np.unique(others, axis=0)) == expected
    assert not np.any(np.all(others == s, axis=1))
    assert np.isfinite(mechanism.sample(KEY, others)).all()


# Black boxes --------------------------------------------------------------------------------------


def spread_out(sampler):
    """Nothing wrong with it but its rows."""
    return sampler, [3.0, 0.0], [4.0, 0.0]


DEPENDENT = {
    "key ignored": (*spread_out(ignores_its_key(LAPLACE)), "every key"),
    "key ignored on a lattice": (*spread_out(ignores_its_key(LATTICE)), "every key"),
    "rows twice": (*spread_out(repeats(LAPLACE, TWICE)), "independent"),
    "rows in a cycle": (*spread_out(repeats(LATTICE, CYCLE)), "independent"),
    "antithetic": (*spread_out(antithetic(LAPLACE)), "independent"),
    "antithetic on a lattice": (*spread_out(antithetic(LATTICE)), "independent"),
}


@pytest.mark.parametrize("given", [None, lambda y: y[:, 0] > 4.0])
@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_depend_on_each_other_prove_nothing(name, given):
    sampler, s, other, message = DEPENDENT[name]
    with pytest.raises(errors.InvalidInputError, match=message):
        epsilon_lower_bound(KEY, sampler, s, other, event=given, num_draws=DRAWS)


LEAKING = {
    "sign of a product": (
        sign_of_a_product,
        [0.0, 0.0, 0.0],
        [0.5, 0.5, 0.0],
        1.0,
        "product of signs",
    ),
    "small beyond 5": (small_beyond_5, [4.5], [5.5], 1.0, "distance of column 0"),
    "hidden at 2^-43": (hidden(43), [0.0], [1.0], 1.0, "modulo 16"),
    "hidden at 2^-47": (hidden(47), [0.0], [1.0], 1.0, "modulo 16"),
    "hidden under random bits": (hidden_under_random_bits, [0.0], [1.0], 1.0, "modulo 16"),
    "difference": (
        lambda key, s: LAPLACE.sample(key, s)[:, :1] + np.array([0.0, 1e-3]) * s * [[0.0, 1.0]],
        [0.0, 0.0],
        [0.0, 1.0],
        1.0,
        "difference of columns 0 and 1",
    ),
}


@pytest.mark.parametrize("name", LEAKING)
def test_claims_are_refuted_by_the_event_that_looks_for_it(name):
    """Each claims epsilon = |s - s'|_1 / 1 = 1."""
    sampler, s, other, claim, event = LEAKING[name]
    bound = epsilon_lower_bound(KEY, sampler, s, other, num_draws=2 * DRAWS)
    assert bound.refutes(claim)
    assert bound.epsilon > 3.0
    assert event in bound.event


def test_low_order_bits_are_events_one_can_read():
    bound = epsilon_lower_bound(KEY, hidden(43), [0.0], [1.0], num_draws=2 * DRAWS)
    assert bound.event in (
        "column 0 is 1 times 2^-43 modulo 16",
        "column 0 is 9 times 2^-43 modulo 16",
    )
    assert bound.counts[0] * bound.counts[1] == 0


def under_a_cipher(key, s):
    """s in the low-order bits, added to a pad that who knows the formula computes from the bits
    above.
    """
    y = LAPLACE.sample(key, np.zeros(s.shape))
    top = np.floor(y * 2.0**40)
    pad = np.floor(1e6 * np.abs(np.sin(1e4 * top * 2.0**-40 + 0.5))) % 16.0
    return top / 2.0**40 + ((s + pad) % 16.0) * 2.0**-44 + (y * 2.0**40 % 1.0) * 2.0**-44 + s


def test_what_is_listed_as_invisible_passes():
    """Who knows the pad reads s off every draw; the audits, which do not, see a correct sampler."""
    assert sampler_against_density(
        KEY, LAPLACE, [3.0], sampler=under_a_cipher, num_draws=DRAWS
    ).passed
    assert not epsilon_lower_bound(KEY, under_a_cipher, [0.0], [1.0], num_draws=2 * DRAWS).refutes(
        1.0
    )
    noise = under_a_cipher(KEY, np.full((1000, 1), 3.0)) - 3.0
    top = np.floor(noise * 2.0**40)
    pad = np.floor(1e6 * np.abs(np.sin(1e4 * top * 2.0**-40 + 0.5))) % 16.0
    read = (np.floor((noise * 2.0**40 - top) * 16.0) - pad) % 16.0
    assert np.mean(read == 3.0) > 0.9


# False alarms -------------------------------------------------------------------------------------

CORRECT = {
    "Laplace": (m.Laplace(1.0), [3.0, 0.0, -2.0]),
    "far away": (m.Laplace(1.0), [1e9]),
    "Gaussian": (m.Gaussian(2.0), [0.3]),
    "DiscreteLaplace": (m.DiscreteLaplace(2.0), [0.0, 4.0, -1.0]),
    "Clamped": (m.Clamped(m.Laplace(2.0), low=0.0, high=4.0), [1.0]),
}


def alarms(name, repetitions, alpha, num_draws):
    mechanism, s = CORRECT[name]
    keys = jax.random.split(jax.random.key(len(name)), repetitions)
    return sum(
        not sampler_against_density(key, mechanism, s, num_draws=num_draws, alpha=alpha).passed
        for key in keys
    )


@pytest.mark.parametrize(
    "name",
    [
        "Laplace",
        "far away",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("Gaussian", "DiscreteLaplace", "Clamped")
        ),
    ],
)
def test_correct_samplers_pass(name):
    """5 audits at alpha = 1e-4: a false alarm has probability 5e-4 at most."""
    assert alarms(name, 5, 1e-4, 2000) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CORRECT)
def test_false_alarms_occur_at_the_stated_rate(name):
    """200 audits at alpha = .1: at most 20 are expected; more than the binomial quantile at 1e-5
    has probability 1e-5.
    """
    assert alarms(name, 200, 0.1, 5000) <= binom.isf(1e-5, 200, 0.1)


NEIGHBOURS = {
    "three columns": (m.Laplace(1.0, sensitivity=3.0), [3.0, 0.0, -2.0]),
    "wide": (m.Laplace(50.0, sensitivity=1.0), [0.0]),
    "far away": (m.Laplace(1.0, sensitivity=1.0), [1e9]),
    "lattice": (m.DiscreteLaplace(2.0, sensitivity=2.0), [0.0, 4.0]),
}


def refuted(name, repetitions, alpha):
    """How often a true claim is refuted, between s and s + 1 in every column."""
    mechanism, s = NEIGHBOURS[name]
    return sum(
        epsilon_lower_bound(key, mechanism, s, np.add(s, 1.0), num_draws=2000, alpha=alpha).refutes(
            mechanism.guarantee
        )
        for key in jax.random.split(KEY, repetitions)
    )


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_true_claims_stand(name):
    """5 bounds at alpha = 1e-4: a refutation has probability 5e-4 at most."""
    assert refuted(name, 5, 1e-4) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_level_of_bounds_is_honest(name):
    """200 bounds at alpha = .2: true claims are refuted in at most 20%, up to the binomial quantile
    at 1e-6.
    """
    assert refuted(name, 200, 0.2) <= binom.isf(1e-6, 200, 0.2)


@pytest.mark.slow
def test_the_new_p_values_are_uniform():
    """1000 samples of 2000 uniforms: the share below .01 is .01 within 5 standard errors (.016)."""
    rng = np.random.default_rng(5)
    kinds = {
        "rows": lambda: serial(rng.random(2000)),
        "signs": lambda: three_signs(rng.random((3, 2000))),
        "bits": lambda: low_order_bits(rng.laplace(size=2000) + 3.0, 3.0, 1.8),
        "uniformity": lambda: uniformity(rng.random(2000)),
    }
    for p_value in kinds.values():
        assert np.mean([p_value() < 0.01 for _ in range(1000)]) <= 0.01 + 0.016


@pytest.mark.parametrize("bit", [-5, -6, -8, -10, -12, -13])
def test_s_in_any_bit_of_the_noise_is_seen(bit):
    """The parity of s in one bit of the draws, from those that smooth tests see to those below the
    noise.
    """
    unit, laplace = 2.0**bit, m.Laplace(1.0)

    def parity(key, s):
        y = laplace.sample(key, s)
        return np.where(np.floor(y / unit) % 2 == np.round(s) % 2, y, y - unit)

    audit = sampler_against_density(
        KEY, laplace, [3.0], sampler=parity, statistics=np.empty((0, 1)), num_draws=200_000
    )
    assert not audit.passed


def test_fine_cells_have_their_law():
    """200 repetitions: uniform p-values, by Kolmogorov and Smirnov at 1e-4."""
    rng = np.random.default_rng(0)
    assert kstest([fine_cells(rng.random(3000)) for _ in range(200)], "uniform").pvalue > 1e-4
    assert fine_cells(np.floor(rng.random(3000) * 50) / 50) < 1e-12
