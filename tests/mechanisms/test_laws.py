"""Every mechanism of the catalogue obeys the laws, and so do products of products."""

import json
import math

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.mechanisms import (
    Capability,
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    IndependentUniforms,
    Laplace,
    PaddedBinomial,
    Product,
    from_spec,
    law,
)
from tests.catalogue import MECHANISMS
from tests.mechanisms import laws
from tests.mechanisms.laws import POINTS

DEPENDENT = [name for name in MECHANISMS if name.startswith("EuclideanLaplace k=")]
COLUMNWISE = [name for name in MECHANISMS if name not in DEPENDENT]
WITH_CDF = [
    name for name, case in MECHANISMS.items() if Capability.CDF in case.mechanism.capabilities
]
FREE_WIDTH = [name for name in WITH_CDF if MECHANISMS[name].mechanism.width is None]
ONE_COLUMN = [name for name, case in MECHANISMS.items() if case.output_width == 1]
CALIBRATED = [name for name, case in MECHANISMS.items() if case.settings is not None]
CONTINUOUS = [name for name, case in MECHANISMS.items() if case.continuous]
BOUNDED_ATTAINED = [name for name, case in MECHANISMS.items() if case.best is not None]

REPEATED = {
    "Laplace k=3",
    "Gaussian k=3",
    "DiscreteLaplace k=3",
    "DiscreteGaussian k=3",
    "Clamped Laplace k=3",
}
"""Three columns alike, which the fast suite leaves to three columns with a scale each: the same
formulas in programs of their own.
"""


def each(names):
    return pytest.mark.parametrize(
        "name",
        [pytest.param(name, marks=[pytest.mark.slow] * (name in REPEATED)) for name in names],
    )


catalogue = each(MECHANISMS)


def under_points(names):
    """Every mechanism under every kind of points; the fast suite has one mechanism under them all."""
    first, *others = POINTS
    return [
        pytest.param(
            name,
            points,
            marks=[pytest.mark.slow]
            * (name in REPEATED or (points in others and name != names[0])),
        )
        for name in names
        for points in (first, *others)
    ]


def pair(name):
    return MECHANISMS[name].mechanism, MECHANISMS[name].s


def tiled(s, rows=laws.ROWS):
    return np.tile(s, (rows, 1))


def outputs(name):
    """ROWS private statistics from everywhere in the law."""
    mechanism, s = pair(name)
    u = IndependentUniforms().uniforms(
        jax.random.key(1), 1, laws.ROWS, mechanism.num_uniforms(s.size)
    )[0]
    u[:3] = np.array([0.37, 0.001, 0.999])[:, None]
    return mechanism.transport(u, tiled(s))


# The law ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "points"), under_points(COLUMNWISE))
def test_transport_has_the_law_of_log_prob(name, points):
    laws.transport_has_law_of_log_prob(*pair(name), POINTS[points])


@pytest.mark.parametrize(("name", "points"), under_points(DEPENDENT))
def test_transport_of_dependent_columns(name, points):
    laws.euclidean_transport_has_its_law(*pair(name), POINTS[points])


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_density_has_mass_one(name):
    laws.density_has_mass_one(*pair(name))


@each(FREE_WIDTH)
def test_the_density_of_three_columns_is_the_product_of_three(name):
    """With `test_density_has_mass_one`, the density of any number of columns has mass one."""
    mechanism, s = pair(name)
    s_dp = np.concatenate([np.roll(outputs(name), shift, axis=0) for shift in range(3)], axis=-1)[
        :, :3
    ]
    laws.log_prob_adds_up_over_columns(mechanism, s_dp, tiled(np.resize(s, 3)))


@pytest.mark.parametrize("name", WITH_CDF)
def test_log_prob_is_the_sum_over_columns(name):
    mechanism, s = pair(name)
    s_dp = outputs(name)
    each = mechanism.log_prob_each(s_dp, tiled(s))
    assert each.shape == s_dp.shape
    np.testing.assert_allclose(each.sum(axis=-1), mechanism.log_prob(s_dp, tiled(s)), rtol=1e-12)
    off = laws.off_support(mechanism, s_dp[0], s.size)
    padded = tiled(s_dp[0])
    padded[: len(off)] = off
    impossible = mechanism.log_prob_each(padded, tiled(s))[: len(off)] == -np.inf
    np.testing.assert_array_equal(impossible, ~mechanism.support.contains(padded)[: len(off)])


@pytest.mark.parametrize("name", DEPENDENT)
def test_joint_density_has_mass_one(name):
    laws.radial_density_has_mass_one(*pair(name))


@each(WITH_CDF)
def test_log_cdf_is_the_sum_of_the_density(name):
    laws.cdf_is_the_sum_of_the_density(*pair(name))


@catalogue
def test_samples_lie_on_the_support_and_log_prob_ends_there(name):
    mechanism, s = pair(name)
    sample = mechanism.sample(jax.random.key(2), tiled(s))
    assert sample.shape == (laws.ROWS, mechanism.output_width(s.size))
    assert np.all(mechanism.support.contains(sample))
    assert np.all(mechanism.log_prob(sample, tiled(s)) > -np.inf)
    off = laws.off_support(mechanism, sample[0], s.size)
    padded = tiled(sample[0])
    padded[: len(off)] = off
    assert np.all(mechanism.log_prob(padded, tiled(s))[: len(off)] == -np.inf)
    assert np.all(mechanism.log_prob_bound(padded)[: len(off)] == -np.inf)


@catalogue
def test_log_prob_bound_dominates(name):
    case = MECHANISMS[name]
    statistics = case.statistics(np.random.default_rng(3), laws.NODES)
    for s_dp in outputs(name)[:8]:
        bound = case.mechanism.log_prob_bound(tiled(s_dp))[0]
        reached = case.mechanism.log_prob(tiled(s_dp, laws.NODES), statistics)
        assert np.all(reached <= bound + 1e-12 * abs(bound))


@each(BOUNDED_ATTAINED)
def test_log_prob_bound_is_attained(name):
    case = MECHANISMS[name]
    s_dp = outputs(name)
    best = np.array([case.best(row) for row in s_dp])
    bound = case.mechanism.log_prob_bound(s_dp)
    np.testing.assert_allclose(case.mechanism.log_prob(s_dp, best), bound, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("points", POINTS)
def test_products_of_products_obey_the_law_of_transport(points):
    inner = Product([Laplace(scale=1.0), ExponentialMechanism((3.0, -1.0), 0.5)])
    nested = Product([inner, DiscreteLaplace(scale=2.0)])
    s = np.array([0.3, 0.0, 0.3, 5.0])
    laws.transport_has_law_of_log_prob(nested, s, POINTS[points])
    assert len(laws.column_supports(nested, 4)) == 3


# Guarantees and files -----------------------------------------------------------------------------


@each(CALIBRATED)
def test_calibrate_inverts_guarantee(name):
    case = MECHANISMS[name]
    again = type(case.mechanism).calibrate(**case.settings, guarantee=case.mechanism.guarantee)
    assert again.guarantee.within(case.mechanism.guarantee)
    wanted, got = (
        list(case.mechanism.guarantee.parameters.values()),
        list(again.guarantee.parameters.values()),
    )
    assert got == pytest.approx(wanted, rel=1e-12)
    leaves = jax.tree.leaves(again), jax.tree.leaves(case.mechanism)
    assert leaves[0] == pytest.approx(leaves[1], rel=1e-12)


@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian])
@pytest.mark.parametrize(
    "guarantee",
    [nw.ZeroConcentratedDP(0.3), nw.ApproximateDP(0.7, 1e-6), nw.ApproximateDP(9.0, 1e-3)],
)
def test_gaussian_noise_is_calibrated_to_other_kinds(kind, guarantee):
    mechanism = kind.calibrate(sensitivity=3.0, guarantee=guarantee)
    assert mechanism.guarantee.within(guarantee)
    louder = kind(scale=mechanism.scale * (1 - 1e-6), sensitivity=3.0)
    assert not louder.guarantee.within(guarantee)


def test_padded_binomial_guarantee_is_tighter_than_the_papers():
    mechanism = PaddedBinomial(trials=100, padding=100.0, population=1000, num_times=10)
    assert mechanism.guarantee.epsilon == pytest.approx(1000 * math.log(1.01), rel=1e-15)
    assert mechanism.paper_epsilon == 10.0
    y = np.full((1, 10), 100.0)
    s, other = mechanism.adjacent_pairs(10)
    ratios = np.abs(mechanism.log_prob(y, s) - mechanism.log_prob(y, other))
    assert ratios[0] == pytest.approx(mechanism.guarantee.epsilon, rel=1e-12)


@catalogue
def test_adjacent_pairs_keep_to_the_sensitivity(name):
    mechanism, s = pair(name)
    if mechanism.guarantee == nw.NoGuarantee():
        with pytest.raises(nw.errors.MissingCapabilityError, match="claims no privacy"):
            mechanism.adjacent_pairs(s.size)
        return
    first, second = mechanism.adjacent_pairs(s.size)
    assert first.shape == second.shape == (len(first), s.size)
    if mechanism.sensitivity is None:
        return
    change = second - first
    size = (
        np.count_nonzero(change, axis=-1)
        if mechanism.norm == 0
        else np.linalg.norm(change, mechanism.norm, axis=-1)
    )
    assert np.all(size == pytest.approx(mechanism.total_sensitivity, rel=1e-9))


@catalogue
def test_json_round_trip_is_exact(name):
    mechanism, s = pair(name)
    spec = mechanism.to_spec()
    again = from_spec(json.loads(json.dumps(spec, allow_nan=False)))
    assert type(again) is type(mechanism)
    assert again.to_spec() == spec
    s_dp = outputs(name)
    assert np.array_equal(again.log_prob(s_dp, tiled(s)), mechanism.log_prob(s_dp, tiled(s)))
    if "sensitivity" not in spec or spec["sensitivity"] is not None:
        assert again.guarantee == mechanism.guarantee


# Transformations and precision --------------------------------------------------------------------


@jax.jit
def _transformed(mechanism, s_dp, s):
    return mechanism.log_prob(s_dp, s), jax.vmap(mechanism.log_prob, (0, None))(s_dp, s[0])


_gradients = jax.jit(
    jax.vmap(
        jax.grad(lambda mechanism, s_dp, s: mechanism.log_prob(s_dp, s), argnums=2), (None, 0, None)
    )
)


@catalogue
def test_jit_is_eager_and_vmap_is_a_loop(name):
    mechanism, s = pair(name)
    s_dp = outputs(name)
    eager = mechanism.log_prob(s_dp, tiled(s))
    with jax.enable_x64(True):
        jitted, mapped = _transformed(mechanism, s_dp, tiled(s))
    np.testing.assert_allclose(jitted, eager, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(mapped, eager, rtol=1e-13, atol=1e-13)
    loop = [mechanism.log_prob(tiled(row), tiled(s))[0] for row in s_dp[:5]]
    np.testing.assert_allclose(loop, eager[:5], rtol=1e-13, atol=1e-13)


@each(CONTINUOUS)
def test_gradients_are_finite_differences(name):
    """Central differences with step 1e-6 max(1, |s|): truncation and rounding are below 1e-5 of the
    gradient.
    """
    case = MECHANISMS[name]
    s = case.statistics(np.random.default_rng(4), 8).mean(0)
    s_dp = outputs(name)[:3]
    with jax.enable_x64(True):
        gradients = np.asarray(_gradients(case.mechanism, s_dp, s))
    steps = 1e-6 * np.diag(np.maximum(1.0, np.abs(s)))
    moved = np.concatenate([s + steps, s - steps])
    batch = tiled(s)
    batch[: len(moved)] = moved
    for row, gradient in zip(s_dp, gradients, strict=True):
        values = case.mechanism.log_prob(tiled(row), batch)[: len(moved)].reshape(2, -1)
        differences = (values[0] - values[1]) / (2 * np.diag(steps))
        np.testing.assert_allclose(
            gradient, differences, rtol=1e-5, atol=1e-5 * np.abs(gradient).max() + 1e-12
        )


@each([name for name in CONTINUOUS if MECHANISMS[name].output_width == MECHANISMS[name].k])
def test_gradients_are_finite_where_private_and_confidential_meet(name):
    mechanism, _ = pair(name)
    s_dp = outputs(name)[:3]
    with jax.enable_x64(True):
        for row in mechanism.support.filled(s_dp):
            assert np.all(
                np.isfinite(
                    _gradients(mechanism, s_dp, np.maximum(row, 0.0) if "Padded" in name else row)
                )
            )


def test_gradient_of_an_end_mass_where_the_statistic_sits_on_the_end():
    """d/ds log P(Y <= 0 | s) at s = 0 is -1/b for Laplace noise: |z| must not hide its one-sided
    slope.
    """
    mechanism = Clamped(Laplace(scale=2.0), low=0.0, high=4.0)
    with jax.enable_x64(True):
        gradients = _gradients(mechanism, np.array([[0.0], [4.0], [1.0]]), np.array([0.0]))
    np.testing.assert_allclose(np.ravel(gradients), [-0.5, 0.5, 0.5])


@catalogue
def test_a_new_epsilon_does_not_recompile(name):
    mechanism, s = pair(name)
    s_dp = outputs(name)
    mechanism.log_prob(s_dp, tiled(s))
    programs = law._log_prob.num_compiled, law._transport.num_compiled
    other = jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, int) else leaf * (1.0 + 1e-9), mechanism
    )
    other.log_prob(s_dp, tiled(s))
    other.transport(np.full((laws.ROWS, mechanism.num_uniforms(s.size)), 0.3), tiled(s))
    assert (law._log_prob.num_compiled, law._transport.num_compiled) == programs
    assert min(programs) > 0


_under_both_flags = {}


@catalogue
def test_float64_out_whatever_the_flag(name, x64_flag):
    mechanism, s = pair(name)
    s_dp = outputs(name)
    results = [
        s_dp,
        mechanism.sample(jax.random.key(5), tiled(s)),
        mechanism.log_prob(s_dp, tiled(s)),
    ]
    results += [mechanism.log_prob_bound(s_dp)]
    results += (
        [mechanism.log_cdf(tiled(s_dp[0], laws.KNOTS), s)]
        if Capability.CDF in mechanism.capabilities
        else []
    )
    assert all(type(result) is np.ndarray and result.dtype == np.float64 for result in results)
    other = _under_both_flags.setdefault(name, results)
    pairs = zip(results, other, strict=True)
    assert all(np.array_equal(result, same, equal_nan=True) for result, same in pairs)


@pytest.mark.parametrize(
    "name",
    [
        "Laplace k=3",
        "DiscreteGaussian k=3",
        "PaddedBinomial k=3",
        "RandomizedResponse k=3",
        "Exact k=3",
        "Thresholded Laplace k=3",
        "Rounded k=3",
        "TransitionTable k=3",
    ],
)
def test_nan_statistics_give_nan_outputs_and_no_probability(name):
    """NaN stands for a failed simulation: it passes through and has no likelihood."""
    mechanism, s = pair(name)
    failed = tiled(s)
    failed[0] = np.nan
    sample = mechanism.sample(jax.random.key(6), failed)
    assert np.all(np.isnan(sample[0]))
    assert np.all(mechanism.support.contains(sample[1:]))
    assert mechanism.log_prob(tiled(sample[-1]), failed)[0] == -np.inf


@pytest.mark.parametrize(
    "name",
    ["DiscreteLaplace k=3", "DiscreteGaussian k=3", "PaddedBinomial k=3", "RandomizedResponse k=3"],
)
def test_impossible_statistics_have_no_probability_under_jit(name):
    mechanism, s = pair(name)
    s_dp = outputs(name)
    with jax.enable_x64(True):
        assert np.all(_transformed(mechanism, s_dp, tiled(s - 0.25))[0] == -np.inf)
