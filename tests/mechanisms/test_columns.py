"""A scale, and a sensitivity, for each column: the law, the guarantee and how it looks."""

import json
import math

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.audit import privacy_loss
from noisewise.disclosure import exact_noise
from noisewise.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    from_spec,
    law,
)

KINDS = [Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian]
SCALES = [3.0, 0.7, 8.0]
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_columns_have_the_laws_of_single_columns(kind):
    together = kind(scale=SCALES)
    rng = np.random.default_rng(0)
    s, s_dp = rng.integers(-9, 9, (2, 8, 3)).astype(float)
    single = [kind(scale=scale) for scale in SCALES]
    parts = [(s_dp[:, j : j + 1], s[:, j : j + 1]) for j in range(3)]
    for name in ("log_cdf", "log_prob"):
        each = [getattr(one, name)(*part) for one, part in zip(single, parts, strict=True)]
        expected = np.sum(each, axis=0) if name == "log_prob" else np.concatenate(each, axis=1)
        np.testing.assert_allclose(getattr(together, name)(s_dp, s), expected, rtol=1e-13)
    u = rng.uniform(0.01, 0.99, (8, 3))
    moved = [one.transport(u[:, [j]], s[:, [j]]) for j, one in enumerate(single)]
    np.testing.assert_allclose(together.transport(u, s), np.concatenate(moved, axis=1))
    assert together.noise_sd(3) == pytest.approx([one.noise_sd(1)[0] for one in single])


@kinds
def test_the_loss_is_the_largest_over_neighbours(kind):
    """Random neighbours within the changes of each column: none beyond the claim, and the claim is
    the loss of those that change all columns by as much.
    """
    changes, norm = np.array([1.0, 2.0, 4.0]), kind.norm
    found = np.random.default_rng(1).uniform(-1, 1, (1000, 3)) * changes / SCALES
    losses = np.linalg.norm(found, norm, axis=1)
    largest = np.linalg.norm(changes / SCALES, norm)
    claim = {1: nw.PureDP(largest), 2: nw.GaussianDP(largest)}[norm]
    claim = nw.ZeroConcentratedDP(largest**2 / 2) if kind is DiscreteGaussian else claim
    made = kind(scale=SCALES, sensitivity=changes).guarantee
    assert made.within(claim)
    assert claim.within(made)
    assert losses.max() <= largest
    bound = kind(scale=SCALES, sensitivity=math.hypot(*changes) if norm == 2 else 7.0)
    assert made.within(bound.guarantee)


@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace])
@pytest.mark.parametrize("sensitivity", [3.0, [1.0, 2.0, 4.0]])
def test_the_audit_attains_the_claim(kind, sensitivity):
    audit = privacy_loss(kind(scale=SCALES, sensitivity=sensitivity))
    assert audit.passed
    assert audit.ratio >= 0.999


class ForgetsTheSmallest(Laplace):
    """Divides the sensitivity by the mean of the scales."""

    @property
    def guarantee(self):
        return nw.PureDP(float(self.sensitivity / np.mean(self.scale)))


def test_the_audit_catches_a_mean_of_scales():
    assert not privacy_loss(ForgetsTheSmallest(scale=SCALES, sensitivity=1.0)).passed


@kinds
def test_equality_hash_text_and_file(kind):
    mechanism = kind(scale=SCALES, sensitivity=[1.0, 1.0, 2.0])
    same = kind(scale=np.array(SCALES), sensitivity=(1.0, 1.0, 2.0))
    other = kind(scale=[3.0, 0.7, 8.1], sensitivity=[1.0, 1.0, 2.0])
    assert mechanism == same
    assert hash(mechanism) == hash(same)
    assert mechanism != other
    assert hash(mechanism) != hash(other)
    assert "scale=[3.0, 0.7, 8.0], sensitivity=[1.0, 1.0, 2.0]" in repr(mechanism)
    assert mechanism.to_spec()["scale"] == SCALES
    assert from_spec(json.loads(json.dumps(mechanism.to_spec()))) == mechanism
    assert "from 0.7 to 8" in mechanism.describe()


@kinds
def test_one_number_looks_and_hashes_as_ever(kind):
    mechanism = kind(scale=2.0, sensitivity=1.0)
    assert repr(mechanism) == f"{kind.__name__}(scale=2.0, sensitivity=1.0)"
    assert hash(mechanism) == hash(tuple(jax.tree.leaves(mechanism)))
    assert mechanism.to_spec()["scale"] == 2.0
    assert mechanism.width is None


@kinds
def test_recalibrated_scales_keep_their_ratios(kind):
    for sensitivity in (1.0, [1.0, 1.0, 2.0]):
        mechanism = kind(scale=SCALES, sensitivity=sensitivity)
        half = kind(scale=2 * np.array(SCALES), sensitivity=sensitivity).guarantee
        again = mechanism.recalibrated(half)
        np.testing.assert_allclose(again.scale, 2 * np.array(SCALES), rtol=1e-12)
        assert again.guarantee.within(half)


@kinds
def test_calibrate_takes_a_change_per_column(kind):
    wanted = nw.PureDP(0.5) if kind.norm == 1 else nw.ZeroConcentratedDP(0.2)
    mechanism = kind.calibrate(sensitivity=[1.0, 2.0], guarantee=wanted)
    assert np.ndim(mechanism.scale) == 0
    assert mechanism.width == 2
    assert mechanism.guarantee.within(wanted.to_gaussian() if kind is Gaussian else wanted)


def test_other_scales_do_not_recompile():
    s = np.zeros((4, 3))
    Laplace(scale=SCALES).log_prob(s, s)
    before = law._log_prob.num_compiled
    Laplace(scale=[1.0, 2.0, 3.0]).log_prob(s, s)
    assert law._log_prob.num_compiled == before


BAD = {
    "another width of s": (
        lambda: Laplace(scale=SCALES).log_prob([1.0, 2.0], [1.0, 2.0]),
        errors.InvalidInputError,
        r"s must have shape \(..., 3\)",
    ),
    "two lengths": (
        lambda: Laplace(scale=SCALES, sensitivity=[1.0, 2.0]),
        errors.InvalidInputError,
        "3 for scale and 2 for sensitivity",
    ),
    "one of them negative": (
        lambda: Gaussian(scale=[1.0, -2.0]),
        errors.InvalidInputError,
        "Each scale must be a finite number > 0, got -2",
    ),
    "one of an array infinite": (
        lambda: Gaussian(scale=np.array([1.0, np.inf, 2.0])),
        errors.InvalidInputError,
        "Each scale must be a finite number > 0, got inf",
    ),
    "one of an array zero": (
        lambda: Gaussian(scale=np.array([1, 0, 2])),
        errors.InvalidInputError,
        "Each scale must be a finite number > 0, got 0",
    ),
    "truth values": (
        lambda: Gaussian(scale=np.array([True, True])),
        errors.InvalidTypeError,
        "Each scale must be",
    ),
    "one of them a text": (
        lambda: Gaussian(scale=[1.0, "2"]),
        errors.InvalidTypeError,
        "Each scale must be",
    ),
    "none": (lambda: Gaussian(scale=[]), errors.InvalidInputError, "one per column, got none"),
    "a table": (
        lambda: Gaussian(scale=np.ones((2, 2))),
        errors.InvalidTypeError,
        "scale must be a finite number",
    ),
    "ragged": (
        lambda: Gaussian(scale=[[1.0], [1.0, 2.0]]),
        errors.InvalidTypeError,
        "one number per column",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_columns_are_refused(name):
    make, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        make()


HISTOGRAM = nw.queries.Histogram(edges=(0.0, 1.0, 2.0, 3.0))


def test_a_model_refuses_changes_below_the_query():
    prior = nw.Prior({"rate": dist.Normal(0.0, 1.0)})
    simulator = nw.simulators.JaxSimulator(lambda key, theta: jax.numpy.zeros(4))
    settings = {"prior": prior, "simulator": simulator, "query": HISTOGRAM}
    nw.PrivateModel(**settings, mechanism=DiscreteLaplace(SCALES, sensitivity=[1.0, 1.0, 1.0]))
    with pytest.raises(errors.SensitivityError, match=r"calibrated for a sensitivity of 1.5"):
        nw.PrivateModel(**settings, mechanism=DiscreteLaplace(SCALES, sensitivity=[0.5] * 3))


@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_each_column_is_drawn_exactly_with_its_scale(kind):
    """Exact draws of columns with scales 0.05 and 30: the first never moves (the probability of a
    step is below 1e-8), the second has its standard deviation, to 5 standard errors of 2,000 draws.
    """
    noise = kind(scale=[0.05, 30.0], sensitivity=1.0)
    draw = noise.exact_sampler(exact_noise, 1.0)
    rows = np.array([draw([5, 7]) for _ in range(2000)])
    assert set(rows[:, 0]) == {5.0}
    expected = noise.noise_sd(2)[1]
    kurtosis = 5.0 if kind is DiscreteLaplace else 2.0
    assert abs(rows[:, 1].std() / expected - 1) < 5 * math.sqrt(kurtosis / 4 / 2000)


def test_a_release_takes_changes_per_column_that_the_query_proves():
    data = np.array([0.5, 1.5, 1.7, 2.2])
    release = nw.release(
        data, HISTOGRAM, mechanism=DiscreteLaplace([4.0, 4.0, 9.0], sensitivity=[1.0, 1.0, 1.0])
    )
    assert release.guarantee == nw.PureDP(0.25 + 0.25 + 1 / 9)
    with pytest.raises(errors.SensitivityError, match=r"change by 0\.5 or more each"):
        nw.release(data, HISTOGRAM, mechanism=DiscreteLaplace(4.0, sensitivity=[2.0, 2.0, 0.5]))
