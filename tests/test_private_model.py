"""PrivateModel: composes the four stages, keeps noise apart from simulation, refuses what does not
fit.
"""

import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.simulators import AbstractRecordModel, JaxSimulator, PythonSimulator
from tests.mean_model import KEY, MEAN, PRIOR, THETA, draw, model

M, Q = nw.mechanisms, nw.queries

COUNTS = Q.Histogram(edges=(-5.0, 0.0, 5.0))


def draw_in_python(rng, theta):
    return rng.normal(theta[0], theta[1], size=(50, 1))


# What it does -------------------------------------------------------------------------------------


def test_statistics_are_the_simulators():
    assert np.array_equal(
        model().statistics(KEY, THETA), JaxSimulator(draw).statistics(KEY, THETA, MEAN)
    )
    assert model().names == ("mu", "sd")


def test_private_statistics_add_noise_that_is_independent_of_the_simulation():
    """With 4000 pairs, var(s_dp) = var(s) + 2 b^2 within 5 standard errors of about 4%; doubled
    noise is caught.
    """
    theta = np.tile([[0.0, 1.0]], (4000, 1))
    scale = 0.2
    s_dp = model(mechanism=M.Laplace(scale=scale)).simulate(KEY, theta)
    expected = 1.0 / 50 + 2 * scale**2
    error = 5 * expected * math.sqrt(5.0 / 4000)
    assert s_dp.shape == (4000, 1)
    assert abs(s_dp.var() - expected) < error
    doubled = model(mechanism=M.Laplace(scale=2 * scale)).simulate(KEY, theta)
    assert abs(doubled.var() - expected) > error
    louder = model(mechanism=M.Laplace(scale=1e-9)).simulate(KEY, theta)
    assert abs(np.corrcoef((s_dp - louder)[:, 0], louder[:, 0])[0, 1]) < 5 / math.sqrt(4000)


def test_the_same_key_gives_the_same_databases_under_any_mechanism():
    """So simulations of s can be used again: noise has a key of its own."""
    quiet = model(mechanism=M.Laplace(scale=1e-12)).simulate(KEY, THETA)
    other = model(mechanism=M.Gaussian(scale=1e-12)).simulate(KEY, THETA)
    np.testing.assert_allclose(quiet, other, atol=1e-9)


def test_python_simulators_and_bare_functions_serve():
    both = model(
        simulator=PythonSimulator(draw_in_python),
        query=lambda x: [x.mean(), x.std()],
        mechanism=M.Laplace(0.1),
    )
    assert isinstance(both.query, Q.FunctionQuery)
    assert both.statistics(KEY, THETA, batch_size=2).shape == (3, 2)
    assert both.simulate(KEY, THETA).shape == (3, 2)


def test_failed_simulations_stay_nan():
    broken = JaxSimulator(lambda key, theta: jnp.where(theta[0] > 0.5, jnp.nan, draw(key, theta)))
    s_dp = model(simulator=broken).simulate(KEY, THETA)
    assert np.isnan(s_dp[:, 0]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "simulator", [JaxSimulator(draw), PythonSimulator(draw_in_python)], ids=["jax", "python"]
)
def test_names_of_statistics(simulator):
    known = model(simulator=simulator)
    assert known.statistic_names == known.private_names == MEAN.names
    unknown = model(simulator=simulator, query=lambda x: x[:2, 0], mechanism=M.Laplace(0.1))
    assert unknown.statistic_names == unknown.private_names == ("s[0]", "s[1]")
    assert (unknown.statistic_width, unknown.private_width) == (2, 2)


def test_names_where_the_mechanism_changes_the_width():
    candidates = (-1.0, 0.0, 1.0)
    median = model(
        query=Q.Median(candidates, num_records=50),
        mechanism=M.ExponentialMechanism(candidates, scale=2.0),
    )
    assert median.statistic_width == 3
    assert median.private_names == ("s_dp[0]",)
    assert set(median.simulate(KEY, THETA).ravel()) <= set(candidates)


def test_the_width_is_found_once():
    calls = []

    def counted(rng, theta):
        calls.append(1)
        return theta

    known = model(simulator=PythonSimulator(counted), query=lambda x: x, mechanism=M.Laplace(0.1))
    assert [known.statistic_width for _ in range(3)] == [2, 2, 2]
    assert len(calls) == 1


def test_derived_quantities():
    derived = {
        "ratio": lambda theta: theta[..., 0] / theta[..., 1],
        "sum": lambda theta: jnp.sum(theta, axis=-1),
    }
    made = model(derived=derived)
    values = made.derived_quantities(THETA)
    np.testing.assert_allclose(values["ratio"], [0.0, 2.0, -1.0])
    np.testing.assert_allclose(values["sum"], [1.0, 1.5, 0.0])
    assert values["sum"].dtype == np.float64
    assert made.derived_quantities(np.tile(THETA, (2, 4, 1)).reshape(2, 12, 2))["sum"].shape == (
        2,
        12,
    )
    assert model().derived == {}
    assert model().derived_quantities(THETA) == {}


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_row_taken_for_a_column_is_caught(rows):
    """With as many rows as columns theta[0] has the right shape, and would be silently wrong."""
    made = model(derived={"mu2": lambda theta: theta[0] ** 2})
    with pytest.raises(errors.InvalidInputError, match=r"theta\[\.\.\., 0\]"):
        made.derived_quantities(THETA[:rows])


def test_with_mechanism_changes_only_that():
    made = model(derived={"var": lambda theta: theta[..., 1] ** 2})
    other = made.with_mechanism(M.Gaussian(scale=3.0, sensitivity=0.2))
    assert (other.prior, other.simulator, other.query, other.derived) == (
        made.prior,
        made.simulator,
        made.query,
        made.derived,
    )
    assert isinstance(other.mechanism, M.Gaussian)
    with pytest.raises(errors.SensitivityError):
        made.with_mechanism(M.Gaussian(scale=3.0, sensitivity=0.1))


def test_survives_pickling():
    made = model(simulator=PythonSimulator(draw_in_python))
    again = pickle.loads(pickle.dumps(made))
    assert np.array_equal(again.simulate(KEY, THETA), made.simulate(KEY, THETA))


# One key in several places ------------------------------------------------------------------------


def without_stages(monkeypatch):
    """The planted bug: every stage divides the caller's key itself."""
    for module in (
        "noisewise.priors.prior",
        "noisewise.simulators._keys",
        "noisewise.mechanisms.law",
    ):
        monkeypatch.setattr(f"{module}.stage_key", lambda key, stage: key)


def correlation_of_parameters_and_noise():
    """Between 1000 draws of the prior and the noise of the first simulation, both with the same
    key.
    """
    prior = nw.Prior({"mu": dist.Normal(0, 1)})
    simulator = JaxSimulator(
        lambda key, theta: jax.random.normal(jax.random.split(key)[0], (1000,)) + 0 * theta
    )
    theta = prior.sample(KEY, 1000)
    return np.corrcoef(theta[:, 0], simulator.simulate(KEY, theta[:1])[0])[0, 1]


def test_prior_and_simulator_may_share_a_key(monkeypatch):
    """split(key, n)[i] is fold_in(key, i): without a domain for each, the draws of one are the
    noise of the other.

    The correlation of 1000 independent pairs has standard error 1/sqrt(1000).
    """
    assert abs(correlation_of_parameters_and_noise()) < 4 / math.sqrt(1000)
    without_stages(monkeypatch)
    assert correlation_of_parameters_and_noise() > 0.99


def correlation_of_noise_and_points():
    """Between 1000 draws of a mechanism and 1000 uniforms of a point set, both with the same key."""
    noise = M.Laplace(scale=1.0).sample(KEY, np.zeros((1000, 1)))
    uniforms = M.IndependentUniforms().uniforms(KEY, 1000, 1, 1)
    return np.corrcoef(noise[:, 0], uniforms[:, 0, 0])[0, 1]


def test_mechanism_and_points_may_share_a_key(monkeypatch):
    assert abs(correlation_of_noise_and_points()) < 4 / math.sqrt(1000)
    without_stages(monkeypatch)
    monkeypatch.setattr("noisewise.mechanisms.point_sets.stage_key", lambda key, stage: key)
    assert correlation_of_noise_and_points() > 0.9


# Sensitivity --------------------------------------------------------------------------------------

BOTH = Q.Joint([MEAN, COUNTS])
L1, L2 = MEAN.sensitivity(norm=1), COUNTS.sensitivity(norm=2)


def product(first, second, widths=(1, 2)):
    return M.Product([M.Laplace(1.0, first), M.Gaussian(1.0, second)], widths=widths)


ENOUGH = {
    "exactly": (MEAN, M.Laplace(1.0, L1)),
    "up to rounding": (MEAN, M.Laplace(1.0, L1 * (1 - 1e-10))),
    "more": (MEAN, M.Laplace(1.0, 2 * L1)),
    "unknown to the mechanism": (MEAN, M.Laplace(1.0)),
    "unknown to the query": (lambda x: x[:1, 0], M.Laplace(1.0, 1e-6)),
    "stated by the user": (
        Q.FunctionQuery(lambda x: x[:1, 0], sensitivity=0.5),
        M.Laplace(1.0, 0.5),
    ),
    "another norm unknown": (
        Q.FunctionQuery(lambda x: x[:1, 0], sensitivity={2: 0.5}),
        M.Laplace(1.0, 1e-6),
    ),
    "the L2 norm": (COUNTS, M.Gaussian(1.0, math.sqrt(2.0))),
    "a clamped mechanism": (MEAN, M.Clamped(M.Laplace(1.0, L1), low=-5.0)),
    "blocks": (BOTH, product(L1, L2)),
    "blocks that do not match": (BOTH, product(COUNTS.sensitivity(norm=1), 1.0, widths=(2, 1))),
    "one mechanism for all": (BOTH, M.Laplace(1.0, BOTH.sensitivity(norm=1))),
    "the median": (
        Q.Median((0.0, 1.0), num_records=50),
        M.ExponentialMechanism((0.0, 1.0), scale=1.0),
    ),
    "an epidemic": (
        Q.InfectionCurve(100, 3),
        M.PaddedBinomial(trials=10, padding=5, population=100, num_times=3),
    ),
    "a user's mechanism": (MEAN, M.SampledMechanism(lambda key, s: s, sensitivity=L1)),
}
SHORT = {
    "a little": (
        MEAN,
        M.Laplace(1.0, L1 * 0.99),
        r"0\.198 in the L1 norm.* 0\.2,.*Laplace\.calibrate\(sensitivity=0\.2",
    ),
    "stated by the user": (
        Q.FunctionQuery(lambda x: x, sensitivity=0.5),
        M.Laplace(1.0, 0.4),
        "FunctionQuery is 0.5",
    ),
    "a bound in another norm": (
        Q.FunctionQuery(lambda x: x, sensitivity=0.5),
        M.Gaussian(1.0, 0.4),
        "L2 norm",
    ),
    "the L2 norm": (COUNTS, M.Gaussian(1.0, 1.0), r"1\.41421"),
    "a clamped mechanism": (
        MEAN,
        M.Clamped(M.Laplace(1.0, 0.1), low=-5.0),
        "Laplace is calibrated for",
    ),
    "the first block": (BOTH, product(0.9 * L1, L2), "ClampedMean"),
    "the second block": (BOTH, product(L1, 0.9 * L2), "Histogram"),
    "a clamped block": (
        BOTH,
        M.Product([M.Clamped(M.Laplace(1.0, 0.1), low=0.0), M.Gaussian(1.0, L2)], widths=(1, 2)),
        "ClampedMean",
    ),
    "all blocks together": (
        COUNTS,
        M.Product([M.Laplace(1.0, 0.9), M.Laplace(1.0, 0.9)]),
        "Laplace is calibrated .* 0.9 in the L1 norm, .* is 1,",
    ),
    "all L2 blocks together": (
        COUNTS,
        M.Product([M.Gaussian(1.0, 0.9), M.Gaussian(1.0, 0.9)]),
        "L2 norm",
    ),
    "mixed blocks": (
        COUNTS,
        M.Product([M.Laplace(1.0, 1.0), M.Gaussian(1.0, 0.9)]),
        "Gaussian is .* L2 norm",
    ),
    "one block for another": (
        COUNTS,
        M.Product([M.Laplace(0.01, 1e-6), M.Laplace(10.0, 2.0)]),
        "1e-06 in the L1 norm",
    ),
    "a user's mechanism": (
        MEAN,
        M.SampledMechanism(lambda key, s: s, sensitivity=0.1),
        "pass sensitivity=0.2",
    ),
}


@pytest.mark.parametrize("name", ENOUGH, ids=str)
def test_enough_noise_is_accepted(name):
    query, mechanism = ENOUGH[name]
    assert model(query=query, mechanism=mechanism).mechanism is mechanism


@pytest.mark.parametrize("name", SHORT, ids=str)
def test_too_little_noise_is_refused_with_both_numbers(name):
    query, mechanism, text = SHORT[name]
    with pytest.raises(errors.SensitivityError, match=text):
        model(query=query, mechanism=mechanism)


# Bad input ----------------------------------------------------------------------------------------


class Records(AbstractRecordModel):
    num_records = 40

    def record_noise(self, key):
        return jax.random.normal(key, (1,))

    def record(self, u, theta):
        return theta[0] + u

    def log_prob_record(self, x_i, theta):
        return jax.scipy.stats.norm.logpdf(x_i, theta[0]).sum()


def sevenfold(theta):
    raise OverflowError("too much")


BAD = {
    "a dictionary as prior": (lambda: model(prior={"mu": dist.Normal(0, 1)}), errors.InvalidTypeError, r"nw\.Prior"),
    "a distribution as prior": (lambda: model(prior=dist.Normal(0, 1)), errors.InvalidTypeError, r"nw\.Prior"),
    "bare simulator": (lambda: model(simulator=draw), errors.InvalidTypeError, r"JaxSimulator\(fn\).*PythonSimulator\(fn\)"),
    "simulator class": (lambda: model(simulator=JaxSimulator), errors.InvalidTypeError, r"write JaxSimulator\(\.\.\.\)"),
    "no simulator": (lambda: model(simulator=None), errors.InvalidTypeError, "simulator must be"),
    "query class": (lambda: model(query=Q.ClampedMean), errors.InvalidTypeError, r"write ClampedMean\(\.\.\.\)"),
    "no query": (lambda: model(query=None), errors.InvalidTypeError, "query must be"),
    "mechanism as query": (lambda: model(query=M.Laplace(1.0)), errors.InvalidTypeError, "swapped"),
    "query as mechanism": (lambda: model(mechanism=MEAN), errors.InvalidTypeError, "got a query"),
    "simulator as query": (lambda: model(query=JaxSimulator(draw)), errors.InvalidTypeError, "got a simulator"),
    "prior as mechanism": (lambda: model(mechanism=PRIOR), errors.InvalidTypeError, "got a prior"),
    "guarantee as mechanism": (lambda: model(mechanism=nw.PureDP(1.0)), errors.InvalidTypeError, "calibrate"),
    "number as mechanism": (lambda: model(mechanism=1.0), errors.InvalidTypeError, "mechanism must be"),
    "mechanism class": (lambda: model(mechanism=M.Laplace), errors.InvalidTypeError, r"write Laplace\(\.\.\.\)"),
    "positional": (lambda: nw.PrivateModel(PRIOR, JaxSimulator(draw), MEAN, M.Laplace(1.0)), TypeError, "positional"),
    "widths": (
        lambda: model(mechanism=M.Product([M.Laplace(1.0), M.Laplace(1.0)])), errors.InvalidInputError, "gives 1 .* takes 2",
    ),
    "records": (lambda: model(simulator=Records()), errors.InvalidInputError, "40 records.* 50"),
    "derived list": (lambda: model(derived=[sevenfold]), errors.InvalidTypeError, "names to functions"),
    "derived number": (lambda: model(derived={"R0": 3.0}), errors.InvalidTypeError, "'R0'"),
    "derived without name": (lambda: model(derived={" ": sevenfold}), errors.InvalidInputError, "non-empty"),
    "derived with a parameter's name": (lambda: model(derived={"mu": sevenfold}), errors.InvalidInputError, "choose another"),
    "derived that fails": (
        lambda: model(derived={"R0": sevenfold}).derived_quantities(THETA), errors.InvalidInputError, "'R0' failed",
    ),
    "derived of wrong theta": (lambda: model().derived_quantities(THETA[:, :1]), errors.InvalidInputError, r"\(\.\.\., 2\)"),
    "too few columns": (lambda: model().statistics(KEY, THETA[:, :1]), errors.InvalidInputError, "2 columns, mu, sd"),
    "one vector": (lambda: model().simulate(KEY, THETA[0]), errors.InvalidInputError, r"theta\[None\]"),
    "no key": (lambda: model().simulate(3.0, THETA), errors.InvalidTypeError, "PRNG key"),
    "swapped arguments": (lambda: model().statistics(THETA, KEY), errors.InvalidTypeError, "swapped"),
    "width unknown until now": (
        lambda: model(query=lambda x: x[:3, 0], mechanism=M.Product([M.Laplace(1.0)] * 2)).simulate(KEY, THETA),
        errors.InvalidInputError, r"\(\.\.\., 2\)",
    ),
    "no sampler": (
        lambda: model(mechanism=M.DensityMechanism(lambda s_dp, s: 0.0)).simulate(KEY, THETA),
        errors.MissingCapabilityError, "no sample",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD, ids=str)
def test_bad_input_is_refused_with_a_reason(name):
    attempt, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        attempt()
