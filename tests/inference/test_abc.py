"""What rejection and sequential ABC share: distances, tolerances and batches, an end to every run,
and what they refuse.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.inference.abc import proposals
from noisewise.inference.abc.distances import Euclidean, Ruler, Weighted
from noisewise.inference.abc.rejection_abc import RejectionABC
from noisewise.inference.abc.smc_abc import SMCABC
from noisewise.inference.abc.tolerances import GeometricDecay, QuantileDecay
from noisewise.model.private_model import PrivateModel
from tests.inference.known_abc import KEY, infer, norm_log_prob

pytestmark = pytest.mark.usefixtures("own_cache")

# Distances, tolerances, batches -------------------------------------------------------------------


def test_counts_are_compared_as_proportions():
    padded = nw.mechanisms.PaddedBinomial(trials=200, padding=1.0, population=1000, num_times=2)
    assert padded.distance_unit == 200.0
    mixed = nw.mechanisms.Product(
        [nw.mechanisms.Laplace(scale=1.0), nw.mechanisms.Clamped(padded, low=10.0)], widths=[1, 2]
    )
    np.testing.assert_array_equal(mixed.distance_unit, [1.0, 200.0, 200.0])
    s = np.array([[0.0, 1000.0], [np.nan, np.nan]])
    observed = np.array([20.0, 160.0])
    ruler = Ruler.fitted(KEY, Euclidean(), padded, observed, s)
    distances = ruler.distances(KEY, s, 4)
    assert distances.shape == (2, 4)
    np.testing.assert_allclose(distances[0], np.hypot(0.1, 0.2), atol=0.1)
    assert np.all(np.isinf(distances[1]))


def test_weighted_columns_count_alike():
    """Scales are median absolute deviations, and serve where columns differ a thousandfold."""
    s = np.random.default_rng(0).normal(size=(4000, 2)) * [1.0, 1000.0]
    ruler = Ruler.fitted(KEY, Weighted(), nw.mechanisms.Laplace(scale=1e-9), np.zeros(2), s)
    np.testing.assert_allclose(ruler.scales, 0.6745 * np.array([1.0, 1000.0]), rtol=0.05)
    constant = Weighted().scales(np.zeros((10, 2)), np.array([1.0, 7.0]))
    np.testing.assert_array_equal(constant, [1.0, 7.0])


def test_batches_accept_in_the_order_of_proposals():
    """Whatever the sizes of batches, the first so many acceptable proposals are taken, and all are
    counted.
    """
    made = []

    def attempt(key, num):
        start = sum(made)
        made.append(num)
        proposals = np.arange(start, start + num)
        return proposals % 7 == 0, (proposals,)

    harvest = proposals.collect(KEY, attempt, 1000)
    np.testing.assert_array_equal(harvest.columns()[0], 7 * np.arange(1000))
    assert harvest.num_tried == sum(made) < 9000
    assert len(set(made)) > 2


def test_every_simulation_is_counted(monkeypatch):
    simulated = []
    right = PrivateModel.statistics
    counted = lambda model, key, theta, **more: (
        simulated.append(len(theta)),
        right(model, key, theta, **more),
    )[1]
    problem = nw.problems.gaussian_mean(1.0)
    monkeypatch.setattr(PrivateModel, "statistics", counted)
    for method in (RejectionABC(num_draws=50), SMCABC(num_particles=50, num_rounds=3)):
        simulated.clear()
        assert infer(method, problem).report.num_simulations == sum(simulated)


# Ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda **budget: RejectionABC(**budget),
        lambda **budget: RejectionABC(tolerance=0.1, **budget),
        lambda **budget: RejectionABC(quantile=0.5, **budget),
        lambda **budget: SMCABC(**budget),
        lambda **budget: SMCABC(tolerance=GeometricDecay(0.01, 0.5), **budget),
    ],
)
def test_budgets_end_the_work_with_what_there_is(make):
    problem = nw.problems.gaussian_mean(1.0)
    tiny = infer(make(max_simulations=10), problem)
    assert tiny.report.num_simulations == 10
    assert "budget of 10 simulations" in tiny.report.stopped
    assert np.isfinite(tiny.summary().filter(regex="^(?!.*mcse)").to_numpy()).all()
    assert tiny.report.warnings


def test_time_ends_the_work():
    problem = nw.problems.gaussian_mean(1.0)
    infer(RejectionABC(max_simulations=10), problem)  # compiled before the clock starts
    for method in (
        RejectionABC(max_minutes=5e-3, max_simulations=None, num_draws=10_000_000),
        SMCABC(max_minutes=5e-3, max_simulations=None),
    ):
        posterior = infer(method, problem)
        assert "time budget" in posterior.report.stopped
        assert posterior.report.seconds < 30


def test_an_unattainable_tolerance_ends_with_the_reason_and_the_nearest_draws():
    problem = nw.problems.gaussian_mean(1.0)
    sequential = infer(SMCABC(tolerance=GeometricDecay(0.0, 0.5)), problem)
    assert "acceptance fell below min_acceptance=0.001" in sequential.report.stopped
    rejection = infer(RejectionABC(tolerance=0.0, max_simulations=20_000), problem)
    for posterior in (sequential, rejection):
        assert any("None of" in text for text in posterior.report.warnings)
        assert posterior.report.num_simulations <= 30_000
        assert len(posterior.theta) == 100
        assert 0 < posterior.report.diagnostics["tolerance"] < 0.1


def test_a_round_that_cannot_be_completed_gives_the_round_before():
    problem = nw.problems.gaussian_mean(1.0)
    method = SMCABC(num_particles=100, tolerance=GeometricDecay(1.0, 1e-4), min_acceptance=0.05)
    posteriors = list(
        SMCABC(num_particles=100, tolerance=GeometricDecay(2e3, 1e-3), min_acceptance=0.05).rounds(
            KEY, problem.model, problem.observed, progress=False
        )
    )
    first, last = posteriors
    np.testing.assert_array_equal(first.theta, last.theta)
    assert first.report.stopped == "finished"
    assert "min_acceptance" in last.report.stopped
    assert last.report.diagnostics["tolerance"] == 2.0
    few = infer(method, problem)
    assert any("None of" in text or "Only" in text for text in few.report.warnings)


def test_an_impossible_observation_is_flagged_and_ends():
    problem = nw.problems.gaussian_mean(1.0)
    for method in (
        RejectionABC(max_simulations=5000),
        SMCABC(num_particles=100, max_simulations=20_000),
    ):
        posterior = infer(method, problem, observed=[9.0])
        assert any("outside what the prior predicts" in text for text in posterior.report.warnings)
        assert posterior.report.stopped != "finished"


def test_failed_simulations_are_never_near():
    def simulate(key, theta):
        x = theta + 0.1 * jax.random.normal(key, (1,))
        return jnp.where(theta[0] > 0, jnp.nan, x)

    model = nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(simulate),
        query=nw.queries.FunctionQuery(lambda x: x),
        mechanism=nw.mechanisms.Laplace(scale=0.1),
    )
    problem = types.SimpleNamespace(model=model, observed=np.array([0.3]))
    methods = (
        RejectionABC(num_draws=50),
        RejectionABC(num_draws=50, quantile=0.2),
        SMCABC(num_particles=50, num_rounds=3),
    )
    for method in methods:
        posterior = infer(method, problem)
        assert posterior.theta.max() <= 0
        assert posterior.report.num_failed > 0


def test_the_same_key_gives_the_same_posterior_and_is_saved(tmp_path):
    problem = nw.problems.gaussian_mean(1.0)
    for number, method in enumerate(
        (RejectionABC(num_draws=50), SMCABC(num_particles=50, num_rounds=3, num_noise=2))
    ):
        path = tmp_path / str(number)
        first = method.infer(KEY, problem.model, problem.observed, progress=False, run_dir=path)
        np.testing.assert_array_equal(first.theta, infer(method, problem).theta)
        np.testing.assert_array_equal(first.theta, nw.load_posterior(path).theta)
        assert not np.array_equal(first.theta, infer(method, problem, key=jax.random.key(6)).theta)


BAD = [
    (lambda p: RejectionABC(tolerance=-0.1), errors.InvalidInputError, "tolerance"),
    (lambda p: RejectionABC(quantile=1.0), errors.InvalidInputError, "quantile"),
    (lambda p: RejectionABC(tolerance=0.1, quantile=0.1), errors.InvalidInputError, "not both"),
    (lambda p: RejectionABC(max_simulations=None), errors.InvalidInputError, "never end"),
    (lambda p: RejectionABC(num_draws=0), errors.InvalidInputError, "num_draws"),
    (lambda p: RejectionABC(distance="euclidean"), errors.InvalidTypeError, "Euclidean()"),
    (lambda p: SMCABC(tolerance=0.1), errors.InvalidTypeError, "QuantileDecay(0.5)"),
    (lambda p: SMCABC(num_particles=1), errors.InvalidInputError, "num_particles"),
    (lambda p: SMCABC(num_rounds=0), errors.InvalidInputError, "num_rounds"),
    (lambda p: SMCABC(final_tolerance=-1.0), errors.InvalidInputError, "final_tolerance"),
    (lambda p: SMCABC(num_noise=0), errors.InvalidInputError, "num_noise"),
    (lambda p: SMCABC(min_acceptance=0.0), errors.InvalidInputError, "min_acceptance"),
    (lambda p: SMCABC(distance=Euclidean), errors.InvalidTypeError, "Weighted()"),
    (lambda p: SMCABC(max_minutes=-1), errors.InvalidInputError, "max_minutes"),
    (lambda p: GeometricDecay(0.5, 1.0), errors.InvalidInputError, "factor"),
    (lambda p: GeometricDecay(-0.5, 0.7), errors.InvalidInputError, "start"),
    (lambda p: QuantileDecay(0.0), errors.InvalidInputError, "quantile"),
    (lambda p: SMCABC().infer(True, p.model, p.observed), errors.InvalidTypeError, "PRNG key"),
    (
        lambda p: SMCABC().infer(KEY, p.observed, p.model),
        errors.InvalidTypeError,
        "PrivateModel second",
    ),
    (lambda p: RejectionABC().infer(KEY, p.model, [np.nan]), errors.InvalidInputError, ""),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input(number):
    call, kind, message = BAD[number]
    with pytest.raises(kind) as caught:
        call(nw.problems.gaussian_mean(1.0))
    assert message in str(caught.value)


def test_a_mechanism_without_samples_is_refused_with_what_would_work():
    problem = nw.problems.gaussian_mean(1.0)
    model = problem.model.with_mechanism(
        nw.mechanisms.DensityMechanism(lambda s_dp, s: norm_log_prob(s_dp - s))
    )
    for method in (RejectionABC(), RejectionABC(tolerance=0.1), SMCABC()):
        with pytest.raises(errors.MissingCapabilityError, match="ImportanceSampling"):
            method.infer(KEY, model, [0.1])
