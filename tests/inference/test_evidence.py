"""The log evidence and its standard error: (estimate - truth) / error must be a standard score.

The sd of 50 scores has a Monte Carlo error of .10 and their mean one of .14; the issue asks for an
sd within [.8, 1.25], and means are allowed 3 of their errors.
"""

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

import noisewise as nw
from noisewise._core.weights import normalised
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact import exact_smc
from noisewise.inference.exact.evidence import NUM_POPULATIONS, Evidence
from tests.inference.closed_evidence import PROBLEMS

NUM_RUNS = 50


def judged(scores):
    """What is wrong with standard scores; empty if nothing is."""
    scores = np.asarray(scores)
    mean, sd = scores.mean(), scores.std(ddof=1)
    found = {"mean": mean} if not abs(mean) < 3 / np.sqrt(len(scores)) else {}
    return found if 0.8 <= sd <= 1.25 else {**found, "sd": sd}


# Populations -------------------------------------------------------------------------------------

STEPS, CHAINS = 5, 160


def sticky(rng, spread=1.0):
    """Log weights (STEPS * CHAINS,) of chains that stay where they are: log E[w] = 0."""
    return np.tile(rng.normal(-0.5 * spread**2, spread, CHAINS), STEPS)


def evidence_of(*log_weights, num_chains=CHAINS):
    evidence = Evidence(len(log_weights[0]), num_chains)
    for part in log_weights:
        evidence.add(part, num_chains)
    return evidence


def scores_of(estimate):
    rng = np.random.default_rng(0)
    return [value / error for value, error in (estimate(sticky(rng)) for _ in range(300))]


def by_populations(log_weights):
    evidence = evidence_of(log_weights)
    return evidence.log_evidence, evidence.standard_error


def as_if_independent(log_weights):
    """Planted: every state of every chain counts as a draw of its own."""
    value = logsumexp(log_weights) - np.log(len(log_weights))
    size = 1.0 / np.sum(normalised(log_weights) ** 2)
    return value, np.sqrt(1.0 / size - 1.0 / len(log_weights))


def test_errors_are_right_although_chains_stand_still():
    """300 scores: their sd has a Monte Carlo error of .05."""
    assert judged(scores_of(by_populations)) == {}
    assert judged(scores_of(as_if_independent))["sd"] > 1.8


def test_estimates_of_several_powers_multiply_within_a_population():
    first, second = (np.random.default_rng(seed).normal(size=800) for seed in (0, 1))
    evidence = evidence_of(first, second)
    each = [
        np.mean(np.exp(first[r::NUM_POPULATIONS])) * np.mean(np.exp(second[r::NUM_POPULATIONS]))
        for r in range(NUM_POPULATIONS)
    ]
    assert evidence.log_evidence == pytest.approx(np.log(np.mean(each)))
    assert evidence.num_temperatures == 2


def test_populations_do_not_meet():
    rng = np.random.default_rng(0)
    evidence = evidence_of(3.0 * rng.normal(size=800))
    rows = evidence.ancestors(96, rng)
    assert (rows % CHAINS % NUM_POPULATIONS == np.arange(96) % NUM_POPULATIONS).all()


def test_a_population_that_died_counts_as_zero_and_goes_on_from_the_others():
    log_weights = np.zeros(800)
    log_weights[3::NUM_POPULATIONS] = -np.inf
    evidence = evidence_of(log_weights)
    assert evidence.log_evidence == pytest.approx(np.log(15 / 16))
    rows = evidence.ancestors(96, np.random.default_rng(0))
    assert np.isfinite(log_weights[rows]).all()
    assert np.isneginf(evidence_of(log_weights, np.zeros(800)).log_each[3])


def test_the_error_is_never_zero():
    """Equal weights: what occurs once in 800 simulations may still have been missed."""
    assert evidence_of(np.zeros(800)).standard_error == 1 / 800


def one_population_has_it_all():
    log_weights = np.zeros(800)
    log_weights[::NUM_POPULATIONS] = 20.0
    return evidence_of(log_weights)


def chains_without_moves():
    evidence = evidence_of(sticky(np.random.default_rng(0)))
    evidence.acceptance = 0.01
    return evidence


@pytest.mark.parametrize(
    "evidence",
    [
        one_population_has_it_all,
        chains_without_moves,
        lambda: evidence_of(np.zeros(45), num_chains=15),
    ],
)
def test_an_error_that_cannot_be_known_is_infinite(evidence):
    assert np.isinf(evidence().standard_error)


# Methods -----------------------------------------------------------------------------------------


def reported(method):
    """The log evidence and its error of (key, model, observed), as a method reports them."""

    def estimate(key, model, observed):
        report = method.infer(key, model, observed, progress=False).report
        return report.numbers["log evidence"], report.numbers["log evidence se"]

    return estimate


def tempering(key, model, observed):
    """By tempering alone, without the importance draws that may follow."""
    first_key, key = jax.random.split(key)
    method, run = nw.inference.ExactSMC(num_particles=2000), InferenceRun("", {}, model, observed)
    particles, power = method._first_particles(first_key, run), 0.0
    evidence = Evidence(len(particles.z), particles.num_chains)
    while power < 1.0:
        step_key = jax.random.fold_in(key, evidence.num_temperatures)
        power = method._raise(step_key, run, particles, power, evidence)
    return evidence.log_evidence, evidence.standard_error


METHODS = {
    "tempering": tempering,
    "ExactSMC": reported(nw.inference.ExactSMC(num_particles=2000, target_ess=1000)),
    "ImportanceSampling": reported(
        nw.inference.ImportanceSampling(num_adapt=4000, num_final=30_000)
    ),
}


def scores(method, problem, num):
    """The scores of the runs that give an error."""
    model, observed, exact = PROBLEMS[problem]()
    estimates = [METHODS[method](jax.random.key(k), model, observed) for k in range(num)]
    return [(value - exact) / error for value, error in estimates if np.isfinite(error)]


@pytest.mark.slow
@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name != "normal, 4"])
@pytest.mark.parametrize("method", METHODS)
def test_evidences_are_as_far_off_as_they_say(method, problem):
    found = scores(method, problem, NUM_RUNS)
    # runs whose separate draws show poor weights state no error
    assert len(found) >= (NUM_RUNS // 2 if method == "ImportanceSampling" else NUM_RUNS)
    assert judged(found) == {}


@pytest.mark.slow
def test_tempering_that_accepts_one_move_in_a_hundred_gives_no_error():
    """Four parameters: with the error of the spread, scores had a mean of -1.1 and an sd of 1.8."""
    assert scores("tempering", "normal, 4", 10) == []


@pytest.mark.parametrize("problem", ["normal, 2", pytest.param("records", marks=pytest.mark.slow)])
def test_evidences_of_a_few_runs_are_within_four_errors(problem):
    """On the problem of records the populations give the error, on the other importance draws."""
    found = scores("ExactSMC", problem, 3)
    assert len(found) == 3
    assert np.abs(found).max() < 4.0


class PoorDraws:
    """Importance draws that reached the target although a few weights decide."""

    effective_size, num = 60.0, 500

    def __init__(self, *, exact):
        error = 0.01 if exact else np.inf
        numbers = {"log evidence": -3.0, "log evidence se": error, "Pareto k": 0.9}
        report = nw.posteriors.Report("exact-smc", numbers=numbers, exact=exact)
        self._posterior = nw.posteriors.Draws(np.zeros((500, 1)), ("theta",), report)

    def posterior(self, sound):
        return self._posterior


def test_poor_weights_leave_the_error_of_tempering():
    """Weights that are not trusted with the posterior are not trusted with the evidence either."""
    tempered = evidence_of(sticky(np.random.default_rng(0)))
    poor = exact_smc.by_importance(PoorDraws(exact=False), None, tempered).report.numbers
    assert poor == {"Pareto k": 0.9, **tempered.numbers()}
    tempered.acceptance = 0.01
    unknown = exact_smc.by_importance(PoorDraws(exact=False), None, tempered).report.numbers
    assert unknown == {"Pareto k": 0.9, "log evidence": -3.0, "log evidence se": np.inf}
    good = exact_smc.by_importance(PoorDraws(exact=True), None, tempered).report.numbers
    assert good["log evidence"] == -3.0
