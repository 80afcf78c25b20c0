"""Users' own mechanisms: what they can do, and the sentence with which they refuse the rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.mechanisms import Capability, DensityMechanism, Laplace, Product, SampledMechanism
from noisewise.mechanisms.supports import Lattice

LAPLACE = Laplace(scale=2.0, sensitivity=1.0)


def draw(key, s):
    return s + 2.0 * jax.random.laplace(key, s.shape)


def log_density(s_dp, s):
    return -jnp.abs(s_dp - s).sum() / 2.0 - s.size * jnp.log(4.0)


SAMPLED = SampledMechanism(draw, guarantee=nw.PureDP(0.5), sensitivity=1.0)
DENSITY = DensityMechanism(log_density, log_prob_bound=lambda y: -y.size * jnp.log(4.0))


def test_a_sampler_draws_in_float64_over_any_leading_axes(x64_flag):
    s = np.arange(12.0).reshape(2, 3, 2)
    draws = SAMPLED.sample(jax.random.key(0), s)
    assert draws.shape == s.shape
    assert draws.dtype == np.float64
    assert np.unique(draws - s).size == s.size  # every statistic has a key of its own


def test_draws_of_a_sampler_follow_it():
    """The mean of 40,000 draws lies within 5 standard errors, sqrt(8/40000) each."""
    draws = SAMPLED.sample(jax.random.key(1), np.full((20_000, 2), 3.0))
    assert abs(draws.mean() - 3.0) < 5 * np.sqrt(8 / 40_000)
    assert draws.var() == pytest.approx(8.0, rel=0.1)


def test_a_density_equals_the_built_in_one():
    y = np.random.default_rng(0).normal(size=(5, 3, 2))
    s = np.array([0.5, -1.0])
    np.testing.assert_allclose(DENSITY.log_prob(y, s), LAPLACE.log_prob(y, s), rtol=1e-14)
    np.testing.assert_allclose(DENSITY.log_prob_bound(y), LAPLACE.log_prob_bound(y), rtol=1e-14)
    with jax.enable_x64(True):
        gradient = jax.grad(lambda s: DENSITY.log_prob(y[0, 0], s))(s)
    np.testing.assert_allclose(gradient, np.sign(y[0, 0] - s) / 2.0)


def test_a_density_is_minus_infinity_off_its_support():
    mechanism = DensityMechanism(log_density, support=Lattice(1.0, low=0.0))
    assert mechanism.log_prob([[1.0, 2.0], [1.5, 2.0], [-1.0, 2.0]], [0.0, 0.0]).tolist()[1:] == [
        -np.inf,
        -np.inf,
    ]


def test_output_widths_may_differ():
    mechanism = SampledMechanism(
        lambda key, s: draw(key, s.sum(keepdims=True)), width=3, output_width=1
    )
    assert mechanism.sample(jax.random.key(0), np.zeros((4, 3))).shape == (4, 1)


def test_a_product_offers_what_all_blocks_offer():
    product = Product([LAPLACE, SAMPLED], widths=[1, 2])
    assert product.capabilities == {Capability.SAMPLE}
    assert product.sample(jax.random.key(0), np.zeros((4, 3))).shape == (4, 3)
    assert product.guarantee == nw.PureDP(1.0)
    with pytest.raises(errors.MissingCapabilityError, match="Product has no log_prob"):
        product.log_prob(np.zeros(3), np.zeros(3))


def numpys(shape=None):
    return np.random.laplace(size=shape)  # noqa: NPY002


FROZEN = {
    "np.random": lambda key, s: s + numpys(s.shape),
    "np.random beside the key": lambda key, s: draw(key, s) + numpys(),
    "no noise": lambda key, s: s,
}


@pytest.mark.parametrize("name", FROZEN)
def test_noise_that_does_not_come_from_the_key_is_refused(name):
    """It would be drawn once, when the function is compiled, and be the same in every release."""
    with pytest.raises(errors.InvalidInputError, match=r"must draw from its key.*np\.random"):
        SampledMechanism(FROZEN[name]).sample(jax.random.key(0), [0.0, 0.0])
    with pytest.raises(errors.InvalidInputError, match="must draw from its key"):
        Product([LAPLACE, SampledMechanism(FROZEN[name])], widths=[1, 2]).sample(
            jax.random.key(0), np.zeros(3)
        )


def test_entries_that_s_does_not_have_are_refused():
    mechanism = SampledMechanism(lambda key, s: s[3] + jax.random.laplace(key, s.shape))
    assert mechanism.sample(jax.random.key(0), np.zeros(4)).shape == (4,)
    with pytest.raises(errors.InvalidInputError, match=r"reads s\[3\], but s has 2 column"):
        mechanism.sample(jax.random.key(0), np.zeros(2))


SIGNATURES = {
    "sampler swapped": (
        lambda: SampledMechanism(lambda s, key: s),
        r"sample is called as sample\(key, s\).*swap",
    ),
    "sampler without key": (
        lambda: SampledMechanism(lambda s: s),
        r"called as sample\(key, s\).*2 positional",
    ),
    "density swapped": (
        lambda: DensityMechanism(lambda s, s_dp: 0.0),
        r"called as log_prob\(s_dp, s\).*swap",
    ),
    "density of one": (
        lambda: DensityMechanism(lambda s_dp: 0.0),
        r"called as log_prob\(s_dp, s\)",
    ),
    "bound of two": (
        lambda: DensityMechanism(log_density, log_prob_bound=log_density),
        r"called as log_prob_bound\(s_dp\).*1 positional",
    ),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_functions_called_otherwise_are_refused(name):
    attempt, text = SIGNATURES[name]
    with pytest.raises(errors.InvalidTypeError, match=text):
        attempt()


def test_functions_python_cannot_look_into_pass():
    assert SampledMechanism(max).capabilities == {Capability.SAMPLE}
    assert SampledMechanism(jax.jit(draw)).sample(jax.random.key(0), [0.0]).shape == (1,)


REFUSALS = [
    (lambda: SAMPLED.log_prob([0.0], [0.0]), "SampledMechanism has no log_prob; it offers sample"),
    (lambda: SAMPLED.transport([0.5], [0.0]), "has no transport"),
    (lambda: SAMPLED.log_cdf([0.0], [0.0]), "has no log_cdf"),
    (lambda: SAMPLED.log_prob_bound([0.0]), "has no log_prob_bound"),
    (lambda: SAMPLED.num_uniforms(3), "has no transport"),
    (lambda: SAMPLED.adjacent_pairs(3), r"choose the pairs.*neighbours=\(s, s'\).* to the audit"),
    (lambda: DENSITY.adjacent_pairs(3), r"neighbours=\(s, s'\)"),
    (lambda: SAMPLED.to_spec(), "cannot be written as JSON"),
    (
        lambda: DENSITY.sample(jax.random.key(0), [0.0]),
        "DensityMechanism has no sample; it offers log_prob, log_prob_bound",
    ),
    (lambda: DENSITY.guarantee, "states no guarantee"),
    (lambda: DENSITY.to_spec(), "cannot be written as JSON"),
    (lambda: DensityMechanism(log_density).log_prob_bound([0.0]), "has no log_prob_bound"),
    (lambda: Product([DENSITY]).guarantee, "states no guarantee"),
    (lambda: Product([LAPLACE]).norm, "norms of their own"),
]


@pytest.mark.parametrize(
    ("call", "message"), REFUSALS, ids=[message[:30] for _, message in REFUSALS]
)
def test_what_is_missing_is_refused(call, message):
    with pytest.raises(errors.MissingCapabilityError, match=message):
        call()
