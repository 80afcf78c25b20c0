"""Samplers against densities: correct ones pass, a 2% scale error is caught with power .99 at alpha
1e-6.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest, ncx2

import noisewise as nw
from noisewise import errors
from noisewise import mechanisms as m
from noisewise.audit import SamplerAudit, epsilon_lower_bound, sampler_against_density
from noisewise.audit.uniforms.smooth_tests import ORDER
from noisewise.mechanisms import IndependentUniforms

KEY = jax.random.key(5)
DRAWS, ERROR = 500_000, 0.02
"""Draws with which an error of this share is caught."""
FEWER, WIDER = 100_000, 0.02 * math.sqrt(5.0)
"""What the fast suite does: the noncentrality of every test, draws times the squared error, is that
of 2% with 500,000 draws, and the programs of a fifth of the rows are those of other tests.
"""
SIZES = [(FEWER, WIDER), pytest.param(DRAWS, ERROR, marks=pytest.mark.slow)]
NONE = np.empty((0, 1))
"""No statistics besides s."""

CASES = {
    "Laplace": (lambda e: m.Laplace(1.0 + e), [3.0]),
    "Gaussian": (lambda e: m.Gaussian(2.0 * (1.0 + e)), [3.0]),
    "DiscreteLaplace": (lambda e: m.DiscreteLaplace(3.0 * (1.0 + e)), [5.0]),
    "DiscreteGaussian": (lambda e: m.DiscreteGaussian(3.0 * (1.0 + e)), [5.0]),
    "EuclideanLaplace": (lambda e: m.EuclideanLaplace(1.0 + e), [1.0, -2.0]),
    "EuclideanLaplace k=1": (lambda e: m.EuclideanLaplace(1.0 + e), [3.0]),
    "Clamped": (lambda e: m.Clamped(m.Laplace(1.0 + e), low=0.0), [1.0]),
    "rounded": (lambda e: m.Clamped(m.Gaussian(2.0 * (1.0 + e)), low=0.0, high=9.0, step=1.0), [4.3]),
    "Thresholded": (lambda e: m.Thresholded(m.Laplace(1.0 + e), above=2.5), [3.0]),
    "Thresholded lattice": (lambda e: m.Thresholded(m.DiscreteLaplace(3.0 * (1.0 + e)), above=4.0), [5.0]),
    "Rounded": (lambda e: m.TransitionTable([[(2.0 - 2.0 * e) / 3.0, (1.0 + 2.0 * e) / 3.0]], inputs=[4.0],
                                            outputs=[3.0, 6.0]) if e else m.Rounded(base=3), [4.0]),
    "TransitionTable": (lambda e: m.TransitionTable([[0.5 - 0.5 * e, 0.3 + 0.5 * e, 0.2], [0.1, 0.2, 0.7]]), [0.0]),
    "PaddedBinomial": (lambda e: m.PaddedBinomial(trials=50, padding=100.0 * (1.0 - e), num_times=1,
                                                  population=round(1000.0 * (1.0 - 1.5 * e))), [50.0]),
    "RandomizedResponse": (lambda e: m.RandomizedResponse(num_categories=4, truth_probability=0.5 + 0.5 * e), [2.0]),
    "ExponentialMechanism": (lambda e: m.ExponentialMechanism(candidates=(1.0, 2.0, 5.0), scale=1.0 + e),
                             [0.0, 2.0, 1.0]),
}  # fmt: skip
"""Mechanisms as functions of an error in a parameter, and a statistic."""


each_case = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "EuclideanLaplace k=1" else [])
        for name in CASES
    ],
)


@pytest.mark.parametrize("num_draws", [FEWER, pytest.param(DRAWS, marks=pytest.mark.slow)])
@each_case
def test_correct_samplers_pass(name, num_draws):
    law, s = CASES[name]
    mechanism = law(0.0)
    audit = sampler_against_density(KEY, mechanism, s, num_draws=num_draws)
    assert audit.passed, audit
    assert audit.p_value > 1e-4


@each_case
@pytest.mark.parametrize(("num_draws", "error"), SIZES)
def test_a_small_error_is_caught(name, num_draws, error):
    """By the tests at s alone, and at an alpha that makes up for those at other statistics, of which
    there are fewer than nine times as many.
    """
    law, s = CASES[name]
    audit = sampler_against_density(
        KEY,
        law(0.0),
        s,
        sampler=law(error).sample,
        statistics=np.empty((0, len(s))),
        num_draws=num_draws,
        alpha=1e-7,
    )
    assert not audit.passed, audit


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["Laplace", "Gaussian", "DiscreteLaplace", "DiscreteGaussian", "EuclideanLaplace"]
)
def test_power_is_above_99_percent(name):
    """Under an error the smooth statistic is chi^2_6 with a noncentrality, estimated by its mean
    over repetitions less 6.

    The power of the best of the tests at the Bonferroni level is a lower bound of the audit's. It
    is taken at the estimate less 5 of its standard errors.
    """
    law, s = CASES[name]
    mechanism, wrong = law(0.0), law(ERROR)
    audits = [
        sampler_against_density(
            jax.random.fold_in(KEY, i), mechanism, s, sampler=wrong.sample, num_draws=DRAWS
        )
        for i in range(20)
    ]
    assert all(not audit.passed for audit in audits)
    tests = [test for test in audits[0].p_values if test.startswith(("column 0", "log density"))]
    statistics = chi2.isf([[audit.p_values[test] for audit in audits] for test in tests], ORDER)
    noncentrality = (
        statistics.mean(1) - ORDER - 5.0 * statistics.std(1, ddof=1) / math.sqrt(len(audits))
    )
    critical = chi2.isf(audits[0].alpha / len(audits[0].p_values), ORDER)
    assert ncx2.sf(critical, ORDER, noncentrality.max()) >= 0.99


@pytest.mark.parametrize(
    ("mechanism", "s", "repetitions"),
    [(m.Laplace(1.0), [0.0], 50), (m.DiscreteLaplace(2.0), [0.0, 4.0, -1.0], 200)],
    ids=["one column", "three columns"],
)
@pytest.mark.slow
def test_p_values_are_uniform_for_a_correct_sampler(mechanism, s, repetitions):
    """False alarms occur at the stated rate: KS of the p-values of each test against the uniform
    law.
    """
    keys = jax.random.split(jax.random.key(77), repetitions)
    audits = [sampler_against_density(key, mechanism, s, num_draws=5_000) for key in keys]
    assert all(audit.p_values.get("ties", 1.0) == 1.0 for audit in audits)
    for name in set(audits[0].p_values) - {"ties"}:
        assert kstest([audit.p_values[name] for audit in audits], "uniform").pvalue > 1e-4


def test_a_flipped_sign_and_a_shift_are_caught():
    exponential = m.Clamped(m.Laplace(1.0), low=0.0, high=4.0)
    flipped = lambda key, s: 4.0 - exponential.sample(key, s)
    assert not sampler_against_density(
        KEY, exponential, [1.0], sampler=flipped, num_draws=50_000
    ).passed
    shifted = lambda key, s: m.Laplace(1.0).sample(key, s) + WIDER
    assert not sampler_against_density(
        KEY, m.Laplace(1.0), [1.0], sampler=shifted, num_draws=FEWER
    ).passed


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
    """Independent Laplace columns are not the Euclidean law, though each is symmetric and
    heavy-tailed.
    """
    assert not sampler_against_density(
        KEY,
        m.EuclideanLaplace(1.0),
        [0.0, 0.0],
        sampler=m.Laplace(1.3).sample,
        statistics=np.empty((0, 2)),
        num_draws=FEWER,
    ).passed


def tilted(key, s):
    """Euclidean noise with a correlation of .067: same margins, nearly the same lengths."""
    z = m.EuclideanLaplace(1.0).sample(key, np.zeros(s.shape))
    return s + z @ np.linalg.cholesky([[1.0, 0.067], [0.067, 1.0]]).T


def test_a_wrong_association_is_caught_in_the_plane():
    audit = sampler_against_density(
        KEY,
        m.EuclideanLaplace(1.0),
        [1.0, -2.0],
        sampler=tilted,
        statistics=np.empty((0, 2)),
        num_draws=FEWER,
    )
    assert not audit.passed
    assert min(audit.p_values, key=audit.p_values.get) == "columns 0 and 1"


# Independent columns ------------------------------------------------------------------------------

COLUMNS = {
    "Laplace": (m.Laplace(1.0), [3.0, 0.0, -2.0]),
    "DiscreteGaussian": (m.DiscreteGaussian(3.0), [5.0, 0.0, 1.0]),
    "Clamped": (m.Clamped(m.Laplace(2.0), low=0.0, high=4.0), [1.0, 3.0, -1.0]),
    "RandomizedResponse": (
        m.RandomizedResponse(num_categories=4, truth_probability=0.5),
        [2.0, 0.0, 2.0],
    ),
}


def one_uniform(mechanism):
    """A sampler that spends one uniform on all columns: every margin is right."""

    def sampler(key, s):
        u = IndependentUniforms().uniforms(key, 1, len(s), 1)[0]
        return mechanism.transport(np.repeat(u, s.shape[-1], axis=-1), s)

    return sampler


@pytest.mark.parametrize(
    "name",
    [
        "RandomizedResponse",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("Laplace", "DiscreteGaussian", "Clamped")
        ),
    ],
)
def test_one_uniform_for_all_columns_is_caught(name):
    mechanism, s = COLUMNS[name]
    assert sampler_against_density(KEY, mechanism, s, num_draws=20_000).p_value > 1e-4
    audit = sampler_against_density(
        KEY, mechanism, s, sampler=one_uniform(mechanism), num_draws=20_000
    )
    assert not audit.passed
    assert all(audit.p_values[f"column {j}"] > 1e-4 for j in range(3))
    assert max(audit.p_values[f"columns {a} and {b}"] for a, b in ((0, 1), (0, 2), (1, 2))) < 1e-6


def test_dependence_of_three_columns_without_any_pair_is_caught():
    """The sign of the product of three Laplace columns is always +: all pairs are independent."""

    def sampler(key, s):
        z = m.Laplace(1.0).sample(key, np.zeros(s.shape))
        small = np.abs(z) < np.log(2.0)
        even = small.sum(-1) % 2 == 0
        # |Z| given its half of the law is moved to the other half, column 0 only, so that small
        # ones come in odd numbers
        level = 1.0 - np.exp(-np.abs(z[:, 0]))
        moved = -np.log1p(-((level + 0.5) % 1.0))
        z[:, 0] = np.where(even, np.sign(z[:, 0]) * moved, z[:, 0])
        return s + z

    audit = sampler_against_density(
        KEY, m.Laplace(1.0), [0.0, 0.0, 0.0], sampler=sampler, num_draws=20_000
    )
    assert not audit.passed
    smallest = min(audit.p_values, key=audit.p_values.get)
    assert smallest == "log density of all columns"
    assert min(value for name, value in audit.p_values.items() if name != smallest) > 1e-4


# Blocks -------------------------------------------------------------------------------------------

NESTED = m.Product(
    [
        m.Product([m.Laplace(1.0), m.ExponentialMechanism(candidates=(1.0, 2.0, 5.0), scale=1.0)]),
        m.Product([m.EuclideanLaplace(1.0), m.DiscreteLaplace(2.0)], widths=[2, 1]),
    ]
)
NESTED_S = [0.5, 0.0, 2.0, 1.0, 1.0, -2.0, 4.0]


@pytest.mark.slow
def test_products_of_products_are_audited_column_by_column():
    audit = sampler_against_density(KEY, NESTED, NESTED_S, num_draws=50_000)
    assert audit.p_value > 1e-4
    assert {f"column {j}" for j in range(5)} < set(audit.p_values)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(0, marks=pytest.mark.slow),
        1,
        *(pytest.param(column, marks=pytest.mark.slow) for column in (2, 3, 4)),
    ],
)
def test_a_wrong_column_of_a_nested_product_is_caught(column):
    """Scales 10% too wide, and a candidate too likely."""

    def sampler(key, s):
        y, center = NESTED.sample(key, s), np.array([0.5, 0.0, 1.0, -2.0, 4.0])
        if column == 1:
            y[::20, 1] = 5.0
        elif column == 4:
            y[::10, 4] = y[::10, 4] + np.sign(y[::10, 4] - 4.0)
        else:
            y[:, column] = center[column] + 1.1 * (y[:, column] - center[column])
        return y

    audit = sampler_against_density(
        KEY, NESTED, NESTED_S, sampler=sampler, statistics=np.empty((0, 7)), num_draws=30_000
    )
    assert not audit.passed
    assert audit.p_values[f"column {column}"] < 1e-6


def test_a_p_value_that_is_not_a_number_fails():
    for p_values in ({"a": 0.5, "b": math.nan}, {"a": math.nan, "b": 0.5}):
        audit = SamplerAudit(p_values, num_draws=1000, alpha=1e-6)
        assert not audit.passed
        assert audit.p_value == 0.0
        assert "smallest for" in repr(audit)


# Draws that cannot be, and draws that come twice --------------------------------------------------


def spoiled(mechanism, rows, value):
    """A sampler whose rows `rows` are `value(y, s)` instead."""

    def sampler(key, s):
        y = mechanism.sample(key, s)
        y[rows] = value(y[rows], s[rows])
        return y

    return sampler


IMPOSSIBLE = {
    "between lattice points": (m.DiscreteLaplace(3.0), [5.0], slice(None), lambda y, s: y + 0.4),
    "one draw between": (
        m.DiscreteGaussian(3.0),
        [5.0, 1.0],
        7,
        lambda y, s: np.add(y, [0.0, 0.4]),
    ),
    "no such category": (m.RandomizedResponse(4, 0.5), [2.0], 7, lambda y, s: 4.0),
    "no such candidate": (m.ExponentialMechanism((1.0, 2.0), 1.0), [0.0, 2.0], 7, lambda y, s: 1.5),
    "outside the ends": (m.Clamped(m.Laplace(1.0), low=0.0), [1.0], 7, lambda y, s: -1e-9),
    "NaN": (m.Laplace(1.0), [2.0], 7, lambda y, s: np.nan),
    "infinite": (m.Gaussian(1.0), [2.0, 3.0], 7, lambda y, s: np.inf),
    "nested": (NESTED, NESTED_S, 7, lambda y, s: np.add(y, [0.0, 0.5, 0.0, 0.0, 0.0])),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_draws_off_the_support_fail_at_once(name):
    mechanism, s, rows, value = IMPOSSIBLE[name]
    audit = sampler_against_density(
        KEY, mechanism, s, sampler=spoiled(mechanism, rows, value), num_draws=20_000
    )
    assert audit.p_values == {"support": 0.0}
    assert not audit.passed


def test_draws_where_the_density_is_zero_fail_at_once():
    class Positive(m.Laplace):
        def _noise_log_prob(self, z):
            return jnp.where(z < -3.0, -jnp.inf, m.Laplace._noise_log_prob(self, z))

    assert sampler_against_density(KEY, Positive(1.0), [0.0], num_draws=20_000).p_values == {
        "support": 0.0
    }


@pytest.mark.parametrize(
    "mechanism",
    [
        m.Laplace(1.0),
        pytest.param(m.EuclideanLaplace(1.0), marks=pytest.mark.slow),
        pytest.param(m.Clamped(m.Laplace(1.0), 0.0, 4.0), marks=pytest.mark.slow),
    ],
)
def test_a_sampler_that_forgets_its_noise_now_and_then_is_caught(mechanism):
    """One draw in a thousand is s itself: 100 of 100,000, which the smooth tests do not see."""
    sampler = spoiled(mechanism, slice(None, None, 1000), lambda y, s: s)
    audit = sampler_against_density(
        KEY, mechanism, [2.0], sampler=sampler, statistics=NONE, num_draws=FEWER
    )
    assert not audit.passed
    assert audit.p_values["ties"] < 1e-12
    others = [
        value
        for name, value in audit.p_values.items()
        if name != "ties" and not name.startswith("fine cells")
    ]
    assert min(others) > 1e-6


def test_noise_of_single_precision_is_caught_and_coarse_statistics_are_not():
    single = lambda key, s: (
        s + np.asarray(jax.random.laplace(key, s.shape, dtype=np.float32), dtype=float)
    )
    assert (
        sampler_against_density(
            KEY, m.Laplace(1.0), [2.0], sampler=single, num_draws=FEWER
        ).p_values["ties"]
        < 1e-12
    )
    far = sampler_against_density(KEY, m.Laplace(1.0), [1e9], num_draws=FEWER)
    assert far.p_value > 1e-4, "float64 repeats values there"


# Black boxes --------------------------------------------------------------------------------------


def test_black_box_finds_most_of_a_true_epsilon():
    bound = epsilon_lower_bound(KEY, m.Laplace(scale=1.0), [0.0], [1.0])
    assert 0.97 < bound.epsilon <= 1.0
    assert not bound.refutes(1.0)


@pytest.mark.parametrize("repetitions", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_planted_overspend_of_five_percent_is_caught(repetitions):
    """The standard error of the bound is about .003 against a margin of .03."""
    for i in range(repetitions):
        bound = epsilon_lower_bound(
            jax.random.fold_in(KEY, i), m.Laplace(scale=1 / 1.05), [0.0], [1.0]
        )
        assert bound.refutes(1.0)
        assert bound.epsilon < 1.05


@pytest.mark.slow
def test_the_level_is_honest():
    """At alpha = .2 a true claim may be refuted in at most 20% of repetitions: binomial bound at
    1e-6.
    """
    refuted = sum(
        epsilon_lower_bound(
            jax.random.fold_in(KEY, i),
            m.Laplace(scale=1.0),
            [0.0],
            [1.0],
            num_draws=4000,
            alpha=0.2,
        ).refutes(1.0)
        for i in range(200)
    )
    assert refuted <= binom.isf(1e-6, 200, 0.2)


def test_events_and_delta():
    floor = epsilon_lower_bound(KEY, m.Gaussian(1.0), [0.0], [1.0], delta=0.5, num_draws=10_000)
    assert floor.epsilon == 0.0
    given = epsilon_lower_bound(
        KEY, m.Laplace(1.0), [0.0], [1.0], event=lambda y: y[:, 0] < 0, num_draws=100_000
    )
    assert given.event == "given"
    assert 0.9 < given.epsilon < 1.0


@pytest.mark.parametrize(("value", "text"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_outputs_that_are_not_numbers_are_events_too(value, text):
    """Laplace noise of scale 1, but at s' three draws in ten are not numbers: an infinite loss."""

    def sampler(key, s):
        y = m.Laplace(1.0).sample(key, s)
        broken = np.asarray(jax.random.uniform(jax.random.fold_in(key, 1), len(s))) < 0.3 * (
            s[:, 0] == 1.0
        )
        y[broken, 0] = value
        return y

    bound = epsilon_lower_bound(KEY, sampler, [0.0, 0.0], [1.0, 0.0], num_draws=20_000)
    assert bound.event == f"column 0 is {text}"
    assert bound.counts[1] == 0
    assert bound.epsilon > 4.0


def test_a_few_nans_do_not_hide_a_threshold():
    def sampler(key, s):
        y = m.Laplace(scale=0.5).sample(key, s)
        y[:3], y[3, 0], y[4, 0] = np.nan, np.inf, -np.inf
        return y

    bound = epsilon_lower_bound(KEY, sampler, [0.0, 0.0], [1.0, 0.0], num_draws=50_000)
    assert bound.event.startswith("column 0 ")
    assert 1.8 < bound.epsilon <= 2.0


def test_draws_that_are_all_nan_prove_nothing():
    bound = epsilon_lower_bound(
        KEY, lambda key, s: np.full(s.shape, np.nan), [0.0, 0.0], [1.0, 0.0], num_draws=1000
    )
    assert bound.epsilon == 0.0


BAD = [
    (lambda: sampler_against_density(KEY, 1.0, [0.0]), errors.InvalidTypeError, "audits a mechanism"),
    (lambda: sampler_against_density(KEY, m.Laplace(1.0), [[0.0]]), errors.InvalidInputError, "one statistic"),
    (lambda: sampler_against_density(KEY, m.Laplace(1.0), [0.0], num_draws=10), errors.InvalidInputError, "num_draws"),
    (lambda: sampler_against_density(KEY, m.Laplace(1.0), [0.0], alpha=0.0), errors.InvalidInputError, "alpha"),
    (lambda: sampler_against_density(True, m.Laplace(1.0), [0.0]), errors.InvalidTypeError, "PRNG key"),
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
