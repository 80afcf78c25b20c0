"""What every inference method promises, whatever it does inside."""

import dataclasses
import re
import time

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.inference import AbstractMethod, AbstractSequentialMethod
from tests.inference.methods import METHODS

pytestmark = pytest.mark.usefixtures("own_cache")

KEY = jax.random.key(3)


def infer(case, method=None, observed=None, **more):
    problem = case.make_problem()
    observed = problem.observed if observed is None else observed
    return (method or case.method).infer(KEY, problem.model, observed, progress=False, **more)


def test_every_method_has_a_row():
    """A method that is exported and not tested here would promise nothing."""
    values = [getattr(nw.inference, name) for name in nw.inference.__all__]
    exported = {value for value in values if isinstance(value, type)}
    concrete = {
        kind
        for kind in exported
        if issubclass(kind, AbstractMethod) and not kind.__abstractmethods__
    }
    assert concrete == {type(case.method) for case in METHODS.values()}
    assert {name.split()[0] for name in METHODS} == {kind.slug for kind in concrete}


LONG = {"exact-smc", "nuts", "rnpe", "rnpe with the mechanism's density", "pseudo-marginal"}
"""Methods that take above 10 s, most of it to compile."""
MORE = {"sppe with atoms"}
"""Variants of methods that are in the fast suite themselves."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LONG | MORE else name
        for name in METHODS
    ],
)
def test_a_posterior_is_complete_repeats_and_is_saved(name, tmp_path):
    case = METHODS[name]
    model = case.make_problem().model
    posterior = infer(case, run_dir=tmp_path / "run")
    assert posterior.names == model.names
    assert posterior.sample(KEY, 7).shape == (7, model.prior.dim)
    assert np.isfinite(posterior.theta[posterior.weights > 0]).all()
    assert list(posterior.summary().index) == [*model.names, *model.derived]
    assert posterior.report.method == case.method.slug == name.split()[0]
    assert posterior.report.exact == case.exact
    assert posterior.report.stopped
    assert (posterior.report.num_simulations > 0) or not case.simulates
    assert posterior.to_arviz().posterior.sizes["draw"] > 0
    if case.exact and case.simulates:
        assert posterior.statistics.shape == (len(posterior.theta), model.statistic_width)
    again = infer(case)
    np.testing.assert_array_equal(posterior.theta, again.theta)
    np.testing.assert_array_equal(posterior.weights, nw.load_posterior(tmp_path / "run").weights)


@pytest.mark.parametrize("name", [name for name, case in METHODS.items() if case.simulates])
def test_a_budget_of_ten_simulations_is_kept_and_told(name):
    case = METHODS[name]
    posterior = infer(case, dataclasses.replace(case.method, max_simulations=10))
    assert posterior.report.num_simulations <= 10
    assert "10 simulations" in posterior.report.stopped
    assert len(posterior.theta) >= 1
    assert posterior.report.warnings


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in METHODS]
)
def test_a_budget_of_time_is_kept_and_told(name):
    """A hundredth of a second, plus what compiling takes: far less than a minute."""
    case = METHODS[name]
    started = time.monotonic()
    posterior = infer(case, dataclasses.replace(case.method, max_minutes=1e-4 / 0.6))
    assert time.monotonic() - started < 60
    assert posterior.report.stopped == "the time budget is spent" or not case.simulates


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in LONG | MORE))
        for name, case in METHODS.items()
        if case.simulates
    ],
)
def test_an_impossible_observation_ends_with_a_warning(name):
    """Far outside everything the prior predicts: flagged, and never hung on."""
    case = METHODS[name]
    problem = case.make_problem()
    far = problem.observed + 1000.0
    posterior = infer(case, dataclasses.replace(case.method, max_simulations=20_000), observed=far)
    assert any("outside what the prior predicts" in text for text in posterior.report.warnings)


@pytest.mark.parametrize("name", METHODS)
def test_bad_observations_are_refused_before_any_work(name):
    case = METHODS[name]
    width = case.make_problem().model.private_width
    for observed in (np.full(width, np.nan), np.zeros(width + 1), "release"):
        with pytest.raises((errors.InvalidInputError, errors.InvalidTypeError)):
            infer(case, observed=observed)


@pytest.mark.parametrize("name", METHODS)
def test_an_observation_off_the_lattice_is_refused(name):
    case = METHODS[name]
    problem = nw.problems.sir(10.0)
    with pytest.raises(errors.NoisewiseError):
        case.method.infer(KEY, problem.model, problem.observed + 0.5, progress=False)


SEQUENTIAL = [
    name for name, case in METHODS.items() if isinstance(case.method, AbstractSequentialMethod)
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in SEQUENTIAL]
)
def test_the_last_round_is_what_infer_returns(name):
    case = METHODS[name]
    problem = case.make_problem()
    *_, last = case.method.rounds(KEY, problem.model, problem.observed, progress=False)
    np.testing.assert_array_equal(last.theta, infer(case).theta)


@pytest.mark.parametrize("name", METHODS)
def test_bad_budgets_are_refused(name):
    for bad in ({"max_simulations": 0}, {"max_minutes": -1.0}, {"max_simulations": 1.5}):
        with pytest.raises((errors.InvalidInputError, errors.InvalidTypeError)):
            dataclasses.replace(METHODS[name].method, **bad)


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_refuses_is_asked_without_an_error(name):
    """Noise without a density, noise that cannot be drawn, and a simulator without records."""
    method = METHODS[name].method
    without_density = nw.mechanisms.SampledMechanism(lambda key, s: s)
    for mechanism in (without_density, nw.mechanisms.Gaussian(scale=1.0)):
        model = nw.PrivateModel(
            prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
            simulator=nw.simulators.JaxSimulator(lambda key, theta: theta),
            query=lambda x: x,
            mechanism=mechanism,
        )
        refusal = method.refusal(model)
        assert method.supports(model) == (refusal is None)
        if refusal is not None:
            with pytest.raises(errors.MissingCapabilityError, match=re.escape(refusal)):
                method.check(model)
        missing = method.needs - mechanism.capabilities
        assert not (missing and method.supports(model))
    assert method.supports(METHODS[name].make_problem().model)
