"""Exact, thresholded, rounded and tabulated cells: what is not in the laws of all mechanisms."""

import json
import math

import jax
import numpy as np
import pytest
from scipy.stats import norm

import noisewise as nw
from noisewise import errors
from noisewise.audit import privacy_loss, sampler_against_density
from noisewise.disclosure import exact_noise
from noisewise.mechanisms import (
    Capability,
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    Exact,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    Product,
    RandomizedResponse,
    Rounded,
    SampledMechanism,
    Thresholded,
    TransitionTable,
    from_spec,
)
from noisewise.mechanisms.supports import Blocks, Lattice, OrAbsent, Real

KEY = jax.random.key(3)
VALUE, TYPE = errors.InvalidInputError, errors.InvalidTypeError
MISSING = errors.MissingCapabilityError

# Thresholded --------------------------------------------------------------------------------------


def test_absent_has_the_probability_of_the_noise_below_the_threshold():
    s = np.array([[-3.0], [0.0], [5.0]])
    gaussian = Thresholded(Gaussian(scale=2.0), above=1.0)
    np.testing.assert_allclose(gaussian.log_prob([np.nan], s), norm(s[:, 0], 2.0).logcdf(1.0))
    noise = DiscreteLaplace(scale=3.0)
    below = np.arange(-400.0, 4.0)[:, None]
    for above in (3.2, 4.0):  # between lattice points, and on one
        sums = [np.exp(noise.log_prob(below, row)).sum() for row in s]
        found = np.exp(Thresholded(noise, above=above).log_prob([np.nan], s))
        np.testing.assert_allclose(found, sums, rtol=1e-12)


def test_a_threshold_in_the_clamped_interval_and_on_its_ends():
    clamped = Clamped(Gaussian(scale=2.0), low=0.0, high=4.0)
    law = norm(1.0, 2.0)
    for above, expected in ((-1.0, 0.0), (0.0, 0.0), (0.5, law.cdf(0.5)), (4.0, law.cdf(4.0))):
        found = np.exp(Thresholded(clamped, above=above).log_prob([np.nan], [1.0]))
        assert found == pytest.approx(expected, rel=1e-12)
    assert Thresholded(clamped, above=5.0).log_prob([np.nan], [1.0]) == 0.0


def test_gradients_at_absent_cells_are_finite_and_right():
    """d/ds log Phi((a - s) / sigma) = -phi / (sigma Phi)."""
    mechanism = Thresholded(Gaussian(scale=2.0), above=[1.0, 1.0, 30.0])
    s_dp, s = np.array([np.nan, 1.5, np.nan]), np.array([0.3, 0.3, -500.0])
    with jax.enable_x64(True):
        gradient = np.asarray(jax.grad(mechanism.log_prob, argnums=1)(s_dp, s))
    z = (1.0 - 0.3) / 2.0
    assert gradient[0] == pytest.approx(-norm.pdf(z) / norm.cdf(z) / 2.0, rel=1e-10)
    assert gradient[1] == pytest.approx((1.5 - 0.3) / 4.0, rel=1e-10)
    assert gradient[2] == 0.0


def test_absent_is_accepted_where_the_support_has_it_and_nowhere_else():
    both = Product([Thresholded(Laplace(1.0), above=2.0), Laplace(1.0)])
    rows = [[np.nan, 1.0], [3.0, np.nan], [1.9, 1.0]]
    assert np.isfinite(both.log_prob(rows, [2.0, 1.0])).tolist() == [True, False, False]
    assert both.support.may_be_absent(2).tolist() == [True, False]
    assert Thresholded(Laplace(1.0), above=2.0).support == OrAbsent(Real(), 2.0)


def test_supports_fill_absent_cells_with_their_thresholds():
    support = Blocks((OrAbsent(Lattice(), (2.0, 5.0)), Real()), widths=(2, 1))
    values = np.array([[np.nan, 7.0, 1.0], [3.0, np.nan, np.nan]])
    filled = support.filled(values)
    assert filled[0].tolist() == [2.0, 7.0, 1.0]
    assert filled[1, :2].tolist() == [3.0, 5.0]
    assert np.isnan(filled[1, 2])


def test_the_guarantee_is_the_inner_one_and_the_audit_keeps_below_it():
    for noise in (Laplace(2.0, sensitivity=1.0), DiscreteLaplace(2.0, sensitivity=1.0)):
        mechanism = Thresholded(noise, above=3.0)
        assert mechanism.guarantee == noise.guarantee
        audit = privacy_loss(mechanism)
        assert audit.passed
        assert audit.ratio > 0.99
    concentrated = privacy_loss(Thresholded(DiscreteGaussian(2.0, sensitivity=1.0), above=1.0))
    assert concentrated.passed


class PublishesTheTruth(Thresholded):
    """Absent reveals whether s itself reaches the threshold."""

    def _log_absent(self, s_dp, s):
        return jax.numpy.where(s < self.above, 0.0, -jax.numpy.inf)


def test_the_audit_catches_a_threshold_on_the_confidential_number():
    leaky = PublishesTheTruth(Laplace(2.0, sensitivity=1.0), above=0.5)
    assert not privacy_loss(leaky).passed


def test_samples_pass_the_audit_also_where_nearly_all_are_absent():
    mechanism = Thresholded(Laplace(scale=[2.0, 1.0]), above=[0.0, 9.0])
    audit = sampler_against_density(KEY, mechanism, [1.0, 1.0], num_draws=100_000)
    assert audit.passed, audit


def test_thresholds_in_files_text_and_budgets():
    mechanism = Thresholded(DiscreteLaplace([3.0, 4.0], sensitivity=1.0), above=[5.0, 6.0])
    again = from_spec(json.loads(json.dumps(mechanism.to_spec())))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert mechanism.width == 2
    assert "above=[5.0, 6.0]" in repr(mechanism)
    assert "thresholds from 5 to 6 are absent" in mechanism.describe()
    assert "at least 5 to 6, or absent" in mechanism.support.describe()
    assert mechanism.noise_sd(2) == mechanism.mechanism.noise_sd(2)
    louder = mechanism.recalibrated(nw.PureDP(1.0))
    assert louder.guarantee.within(nw.PureDP(1.0))
    assert louder.above.tolist() == [5.0, 6.0]


def test_exact_draws_are_published_from_the_threshold_on():
    """2,000 draws each: the share of absent ones within 5 standard errors of their probability."""
    mechanism = Thresholded(DiscreteLaplace(3.0, sensitivity=1.0), above=[4.0, 6.0])
    draw = mechanism.exact_sampler(exact_noise, 1.0)
    rows = np.array([draw([5, 5]) for _ in range(2000)])
    expected = np.exp(mechanism.log_cdf([np.nan, np.nan], [5.0, 5.0]))
    share = np.isnan(rows).mean(axis=0)
    assert np.all(np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 2000))
    assert np.all(rows[~np.isnan(rows[:, 0]), 0] >= 4.0)


def test_an_absent_cell_has_no_naive_estimate():
    mechanism = Thresholded(Laplace(1.0), above=2.0)
    assert mechanism.estimate(np.array([3.0])).tolist() == [3.0]
    with pytest.raises(MISSING, match="uses its probability"):
        mechanism.estimate(np.array([np.nan]))


# Exact, Rounded, TransitionTable ------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism", [Exact(), Rounded(), TransitionTable([[1.0]]), Thresholded(Exact(), above=5.0)]
)
def test_no_privacy_is_claimed(mechanism):
    assert mechanism.guarantee == nw.NoGuarantee()
    assert mechanism.sensitivity is None
    assert mechanism.is_exact == isinstance(mechanism.inner, Exact)  # as a declared invariant only
    together = Product([Laplace(1.0, sensitivity=1.0), mechanism])
    assert together.guarantee == nw.NoGuarantee()
    with pytest.raises(MISSING, match="claims no privacy"):
        privacy_loss(mechanism)


def test_no_guarantee_implies_nothing():
    for limit in (nw.PureDP(100.0), nw.ApproximateDP(9.0, 0.9), nw.ZeroConcentratedDP(100.0)):
        assert not nw.NoGuarantee().within(limit)
        with pytest.raises(errors.ConversionError):
            nw.NoGuarantee().to(type(limit))


def test_exact_cells_forgive_the_rounding_of_sums_only():
    total = np.cumsum([0.1] * 10)[-1]  # Python's own sum corrects rounding from 3.12 on
    assert total != 1.0
    assert Exact().log_prob([1.0], [total]) == 0.0
    assert Exact().log_prob([1.0], [1.0 + 1e-9]) == -np.inf
    assert Exact().noise_sd(2) == [0.0, 0.0]


def test_random_rounding_is_that_of_statistical_offices():
    """A count of 4: 3 with probability 2/3, 6 with 1/3; unbiased."""
    found = np.exp(Rounded(base=3).log_prob([[0.0], [3.0], [6.0]], [[4.0]] * 3))
    np.testing.assert_allclose(found, [0.0, 2 / 3, 1 / 3], rtol=1e-12)
    for base in (3, 5, 10):
        s = np.arange(-7.0, 8.0)[:, None]
        points = base * np.arange(-9.0, 9.0)[:, None, None]
        mass = np.exp(Rounded(base=base).log_prob(points, s))
        np.testing.assert_allclose((mass * points[..., 0]).sum(axis=0), s[:, 0], atol=1e-12)


def test_rounding_to_the_nearest_takes_ties_up():
    s = np.array([[14.0], [15.0], [16.0], [-15.0], [20.0]])
    nearest = Rounded(base=10, random=False)
    assert nearest.sample(KEY, s).ravel().tolist() == [10.0, 20.0, 20.0, -10.0, 20.0]
    assert nearest.log_prob([[10.0], [20.0]], [[15.0], [15.0]]).tolist() == [-np.inf, 0.0]


def test_rounded_gradients_are_no_nan():
    with jax.enable_x64(True):
        gradient = jax.grad(Rounded(base=3).log_prob, argnums=1)
        assert np.isfinite(gradient(np.array([3.0, 6.0]), np.array([3.0, 4.0]))).all()


def test_a_local_table_is_as_private_as_randomized_response():
    kept = RandomizedResponse(num_categories=3, truth_probability=0.6)
    table = TransitionTable(np.full((3, 3), 0.2) + 0.4 * np.eye(3), local=True)
    assert table.guarantee.epsilon == pytest.approx(kept.guarantee.epsilon, rel=1e-12)
    s_dp, s = np.arange(9.0)[:, None] // 3, np.arange(9.0)[:, None] % 3
    np.testing.assert_allclose(table.log_prob(s_dp, s), kept.log_prob(s_dp, s), rtol=1e-12)
    uneven = TransitionTable([[0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.3, 0.7, 0.0]], local=True)
    assert uneven.guarantee.epsilon == pytest.approx(math.log(6.0))
    for mechanism in (table, uneven):
        audit = privacy_loss(mechanism, width=2)
        assert audit.passed
        assert audit.ratio == pytest.approx(1.0)


class TwoRows(TransitionTable):
    """Compares the first two inputs only."""

    def _ratios(self):
        return np.abs(np.log(self.table[0]) - np.log(self.table[1]))


def test_the_audit_catches_a_table_that_forgets_inputs():
    leaky = TwoRows([[0.5, 0.5], [0.4, 0.6], [0.01, 0.99]], local=True)
    pairs = np.array([[0.0]]), np.array([[2.0]])
    assert not privacy_loss(leaky, neighbours=pairs).passed


def test_randomized_response_has_two_categories_by_default():
    coin = RandomizedResponse(truth_probability=5 / 6)
    assert coin == RandomizedResponse(2, 5 / 6)
    assert coin.guarantee.epsilon == pytest.approx(math.log(5.0))
    assert repr(coin) == repr(RandomizedResponse(num_categories=2, truth_probability=5 / 6))
    assert from_spec(coin.to_spec()) == coin


def test_clamped_wraps_what_has_no_noise():
    """Negative numbers removed from counts rounded at random."""
    mechanism = Clamped(Rounded(base=3), low=0.0)
    np.testing.assert_allclose(np.exp(mechanism.log_prob([0.0], [[-4.0], [1.0]])), [1.0, 2 / 3])
    exact = Clamped(Exact(), low=0.0)
    assert exact.log_prob([[0.0], [2.0]], [[-3.0], [2.0]]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("num", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_a_product_of_many_blocks(num):
    laws = [DiscreteLaplace(3.0, sensitivity=1.0)] * (num - 1)
    blocks = [Thresholded(law, above=float(j)) for j, law in enumerate(laws)]
    mechanism = Product([*blocks, Exact()])
    s = np.arange(float(num))
    s_dp = mechanism.sample(KEY, s)
    assert np.isnan(s_dp).any()
    one = Thresholded(DiscreteLaplace(3.0, sensitivity=1.0), above=s[:-1])
    assert mechanism.log_prob(s_dp, s) == pytest.approx(one.log_prob(s_dp[:-1], s[:-1]))
    assert mechanism.support.contains(s_dp).all()


BAD = {
    "threshold of a number": (lambda: Thresholded(1.0, above=2.0), TYPE, "wraps a mechanism"),
    "threshold of a threshold": (
        lambda: Thresholded(Thresholded(Laplace(1.0), above=2.0), above=3.0),
        VALUE,
        "take the larger threshold",
    ),
    "threshold of blocks": (
        lambda: Thresholded(Product([Laplace(1.0)]), above=3.0),
        VALUE,
        "give its blocks thresholds",
    ),
    "threshold without a cdf": (
        lambda: Thresholded(SampledMechanism(lambda key, s: s), above=3.0),
        MISSING,
        "probability of absent cells",
    ),
    "thresholds of another width": (
        lambda: Thresholded(Laplace([1.0, 2.0]), above=[1.0, 2.0, 3.0]),
        VALUE,
        "above has 3 numbers, but the Laplace has 2 columns",
    ),
    "infinite threshold": (
        lambda: Thresholded(Laplace(1.0), above=np.inf),
        VALUE,
        "above must be a finite number",
    ),
    "clamped threshold": (
        lambda: Clamped(Thresholded(Laplace(1.0), above=3.0), low=0.0),
        VALUE,
        r"Thresholded\(Clamped\(...\), above=...\)",
    ),
    "base of one": (lambda: Rounded(base=1), VALUE, "base must be a whole number >= 2"),
    "random as a text": (lambda: Rounded(random="no"), TYPE, "random must be True or False"),
    "rounding of proportions": (
        lambda: Rounded(base=3).sample(KEY, [0.5]),
        VALUE,
        "Rounded needs counts",
    ),
    "rows that do not sum to one": (
        lambda: TransitionTable([[0.5, 0.4]]),
        VALUE,
        "probabilities that sum to 1",
    ),
    "a negative entry": (lambda: TransitionTable([[1.5, -0.5]]), VALUE, "sum to 1"),
    "a table as a text": (lambda: TransitionTable("table"), TYPE, "rows of probabilities"),
    "inputs that do not increase": (
        lambda: TransitionTable([[1.0], [1.0]], inputs=[1.0, 0.0]),
        VALUE,
        "2 increasing numbers",
    ),
    "too few outputs": (
        lambda: TransitionTable([[0.5, 0.5]], outputs=[1.0]),
        VALUE,
        "one for each of the columns of table",
    ),
    "a local table with a zero": (
        lambda: TransitionTable([[1.0, 0.0], [0.5, 0.5]], local=True),
        VALUE,
        "table has a 0",
    ),
    "an entry that is no input": (
        lambda: TransitionTable([[1.0]], inputs=[3.0]).sample(KEY, [2.0]),
        VALUE,
        "takes one of the 1 values 3",
    ),
    "the mean of a table": (lambda: TransitionTable([[1.0]]).estimate(np.ones(1)), MISSING, "mean"),
    "a response without its probability": (
        lambda: RandomizedResponse(3),
        TYPE,
        "truth_probability must be",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_cells_are_refused(name):
    make, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        make()


def test_what_columns_can_do_is_what_the_inner_mechanism_can():
    assert Thresholded(Laplace(1.0), above=1.0).capabilities == frozenset(Capability)
    assert Thresholded(ExponentialMechanism((1.0, 2.0), 1.0), above=2.0).output_width(2) == 1
