"""Exact methods against exact posteriors: the gate that all of them must pass, at three privacy
budgets.

C2ST at most .54 with 2000 draws each on free coordinates (its null sd is .008), means within .1 sd
and sds within 7% of 20,000 reference draws (4000 effective draws: standard errors of .017 sd and
1.2%). The standard error of an sd is sqrt((kurtosis - 1) / 4n). Only the mean at epsilon .1 has a
kurtosis far above 3: 10.4, which makes it 2.4% with 4000 draws and 1.1% with 20,000. There the
draws are as many as keep 7% above 4 standard errors.
"""

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.metrics import c2st

KEY = jax.random.key(11)
I = nw.inference

ANY = ("ExactSMC", "ImportanceSampling", "PseudoMarginalMCMC")
SERVES = {
    "gaussian_mean": (*ANY, "DataAugmentationMCMC", "RejectionABC"),
    "linear_regression": (*ANY, "DataAugmentationMCMC"),
    "sir": ANY,
    "log_linear": ("ExactSMC", "DataAugmentationMCMC"),
}
SETTINGS = {"ImportanceSampling": {"num_final": 100_000}, "RejectionABC": {"num_draws": 4000}}
HEAVY = {  # settings on the mean at epsilon .1
    "DataAugmentationMCMC": {"target_ess": 12_000},
    "ExactSMC": {"target_ess": 12_000},
    "PseudoMarginalMCMC": {"target_ess": 12_000},
    "RejectionABC": {"num_draws": 12_000},
}
NUM_REFERENCE, NUM_REFERENCE_HEAVY = 20_000, 200_000
CASES = [
    (problem, epsilon, method)
    for problem, methods in SERVES.items()
    for epsilon in (10.0, 1.0, 0.1)
    for method in methods
]


def is_heavy(problem):
    return problem.name == "gaussian_mean" and problem.settings["epsilon"] == 0.1


def disagreements(problem, posterior):
    """What the gate says against a posterior, by the name of the test it fails; empty if nothing."""
    free = list(problem.free_columns)
    num = NUM_REFERENCE_HEAVY if is_heavy(problem) else NUM_REFERENCE
    exact = problem.reference(jax.random.key(1), num)[:, free]
    table = posterior.summary().iloc[free]
    shift = np.abs(table["mean"].to_numpy() - exact.mean(0)) / exact.std(0)
    ratio = table["sd"].to_numpy() / exact.std(0)
    accuracy = c2st(
        problem.reference(jax.random.key(2), 2000)[:, free], posterior.sample(KEY, 2000)[:, free]
    )
    failed = {
        "c2st": (accuracy, accuracy > 0.54),
        "shift": (shift.max(), shift.max() > 0.1),
        "narrow": (ratio.min(), ratio.min() < 0.93),
        "wide": (ratio.max(), ratio.max() > 1.07),
    }
    return {name: float(value) for name, (value, fails) in failed.items() if fails}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "epsilon", "method"), CASES)
def test_exact_methods_agree_with_the_exact_posterior(name, epsilon, method):
    problem = getattr(nw.problems, name)(epsilon)
    settings = SETTINGS.get(method, {}) | (HEAVY.get(method, {}) if is_heavy(problem) else {})
    posterior = getattr(I, method)(**settings).infer(
        KEY, problem.model, problem.observed, progress=False
    )
    assert disagreements(problem, posterior) == {}, str(posterior.report)
    assert posterior.report.exact


@pytest.mark.parametrize(
    "method",
    [
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("ExactSMC", "DataAugmentationMCMC")
        ),
        "ImportanceSampling",
    ],
)
def test_exact_methods_agree_on_the_quickest_problem(method):
    problem = nw.problems.gaussian_mean(1.0)
    posterior = getattr(I, method)().infer(KEY, problem.model, problem.observed, progress=False)
    assert disagreements(problem, posterior) == {}, str(posterior.report)


def test_the_gate_catches_narrow_noise_and_a_shift():
    """Planted: the mechanism's scale is taken a quarter too small, and separately the answer is
    moved by .2 sd.
    """
    problem = nw.problems.gaussian_mean(0.1)
    narrow = problem.model.with_mechanism(
        nw.mechanisms.Laplace(scale=0.75 * problem.model.mechanism.scale)
    )
    assert "narrow" in disagreements(
        problem, I.ImportanceSampling().infer(KEY, narrow, problem.observed, progress=False)
    )
    right = I.ImportanceSampling().infer(KEY, problem.model, problem.observed, progress=False)
    assert disagreements(problem, right) == {}
    right.theta[:] += 0.2 * right.summary()["sd"].iloc[0]
    assert "shift" in disagreements(problem, right)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["PseudoMarginalMCMC", "ImportanceSampling"])
def test_hopeless_cases_end_on_their_budget_and_say_so(method):
    """One effective draw per million simulations even from a perfect proposal: no answer may pass
    for a good one.
    """
    problem = nw.problems.log_linear(10.0)
    method = getattr(I, method)(max_simulations=300_000)
    posterior = method.infer(KEY, problem.model, problem.observed, progress=False)
    told = posterior.report.diagnostics
    assert posterior.report.num_simulations <= 300_000
    assert told["effective size"] < 400
    assert told["1 + rv"] > 100
    assert posterior.report.warnings
    assert not posterior.report.exact


@pytest.mark.slow
def test_log_evidence_is_the_integral():
    """Against quadrature over a grid; the standard error is the method's own, which for chains is
    optimistic: 5 of them.
    """
    problem = nw.problems.gaussian_mean(1.0)
    from noisewise.problems.gaussian_mean import log_likelihood

    grid = np.linspace(-12.0, 12.0, 4001)
    terms = log_likelihood(problem.model, problem.observed, grid) + problem.model.prior.log_prob(
        grid[:, None]
    )
    exact = np.log(np.sum(np.exp(terms - terms.max())) * (grid[1] - grid[0])) + terms.max()
    told = (
        I.ExactSMC().infer(KEY, problem.model, problem.observed, progress=False).report.diagnostics
    )
    assert abs(told["log evidence"] - exact) < 5 * told["log evidence se"]
    assert told["log evidence se"] < 0.1
    weighted = (
        I.ImportanceSampling()
        .infer(KEY, problem.model, problem.observed, progress=False)
        .report.diagnostics
    )
    assert abs(weighted["log evidence"] - exact) < 4 * weighted["log evidence se"]


def normal_product(dim, sd, scale):
    """theta ~ N(0, I), s = theta + sd N(0, I), Laplace noise: the evidence is a product of
    one-dimensional integrals.
    """
    import numpyro.distributions as dist

    return nw.PrivateModel(
        prior=nw.Prior({"theta": dist.Normal(0.0, 1.0).expand([dim]).to_event(1)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + sd * jax.random.normal(key, theta.shape)
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Laplace(scale=scale),
    )


@pytest.mark.slow
def test_evidence_without_moves_is_not_told_as_known():
    """Six dimensions with noise far below the spread of s: hardly any move is accepted, and the
    report says so.
    """
    model, observed = normal_product(6, 0.5, 0.02), np.array([0.5, -1.0, 0.2, 1.5, 0.0, -0.3])
    report = (
        I.ExactSMC(num_particles=500, target_ess=50, max_simulations=100_000)
        .infer(KEY, model, observed, progress=False)
        .report
    )
    assert not report.exact
    assert report.warnings


@pytest.mark.slow
def test_evidence_tells_recovery_from_none_on_influenza():
    """Boys left their beds, so SIR explains the curve and SI cannot: the log Bayes factor is large
    and of that sign.
    """
    import numpyro.distributions as dist

    problem = nw.problems.outbreak("influenza")
    simulator = problem.model.simulator
    without = nw.PrivateModel(
        prior=nw.Prior({"log_beta": dist.Normal(-2.0, 1.0)}),
        simulator=nw.simulators.SIR(
            simulator.population, simulator.times, variant="si", method="gillespie"
        ),
        query=problem.model.query,
        mechanism=problem.model.mechanism,
    )
    logs = [
        I.ExactSMC(num_particles=1000, target_ess=500)
        .infer(KEY, model, problem.observed, progress=False)
        .report.diagnostics["log evidence"]
        for model in (problem.model, without)
    ]
    assert logs[0] - logs[1] > 10.0
