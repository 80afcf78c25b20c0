"""Problems for learnt estimators: exact draws against independent checks, and the runner."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from scipy import special

from benchmarks.learning import __main__ as command
from benchmarks.learning import catalogue, methods, runner
from benchmarks.learning.count_problems import (
    district_effects,
    districts,
    doses,
    two_populations,
    zero_cases,
)
from benchmarks.learning.gaussian_problems import groups, linear, moons, points
from benchmarks.learning.income_problems import incomes
from benchmarks.learning.outbreak_problems import small_outbreak
from benchmarks.learning.problem import NUM_REFERENCE
from noisewise.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian

NUM = 20_000
SMALL = {
    "districts": lambda: districts("a", 1, num=3, typical=15.0, mechanism=Gaussian(scale=8.0)),
    "effects": lambda: district_effects(
        "a", 2, num=3, typical=15.0, mechanism=DiscreteGaussian(scale=8.0)
    ),
    "incomes": lambda: incomes(
        "a", 3, records=60, bins=4, top=4.0, mechanism=DiscreteLaplace(scale=5.0)
    ),
    "outbreak": lambda: small_outbreak(
        "a", 4, people=8, weeks=3, mechanism=DiscreteGaussian(scale=1.5)
    ),
    "zeros": lambda: zero_cases("a", 6, num=3, typical=6.0, mechanism=DiscreteLaplace(scale=2.0)),
    "doses": lambda: doses("a", 7, num=4, per_group=6, mechanism=DiscreteGaussian(scale=2.0)),
    "mixture": lambda: two_populations("a", 8, num=5, records=40.0, mechanism=Gaussian(scale=5.0)),
    "points": lambda: points("a", 9, truth=(0.7, -1.0, 1.0, 1.0, 0.5), noise=1.0),
    "moons": lambda: moons("a", 5, truth=(0.1, 0.2), noise=0.05),
}


def simulated_log_likelihood(problem, theta, num=NUM):
    """The mean of the mechanism's density over simulations, and its relative error."""
    s = problem.model.statistics(jax.random.key(9), np.repeat(theta[None], num, 0))
    log_weights = np.asarray(problem.model.mechanism.log_prob(problem.observed, s))
    weights = np.exp(log_weights - log_weights.max())
    mean = special.logsumexp(log_weights) - np.log(num)
    return mean, weights.std() / weights.mean() / np.sqrt(num)


@pytest.mark.parametrize("kind", SMALL)
def test_the_exact_likelihood_is_that_of_the_simulator(kind):
    problem = SMALL[kind]()
    truth = np.asarray(problem.truth, dtype=float)
    expected, error = simulated_log_likelihood(problem, truth)
    assert error < 0.05
    # four times the error of a mean of 20,000 weights
    assert abs(problem.log_likelihood(truth)[0] - expected) < 4 * error
    # planted: a tenth of a prior sd beside the truth, or more, is seen where the data say anything
    other = problem.log_likelihood(truth + 1.0)[0]
    assert not abs(other - expected) < 4 * error


def metropolis(problem, start, num, steps, seed=0):
    """Many random-walk chains on the exact posterior: the check of draws that are made without."""
    rng, theta = np.random.default_rng(seed), start.copy()
    value = problem.log_posterior(theta)
    for _ in range(steps):
        pairs = rng.permutation(num), rng.permutation(num)
        moved = theta + 0.6 * (theta[pairs[0]] - theta[pairs[1]])
        new = problem.log_posterior(moved)
        accept = np.log(rng.random(num)) < new - value
        theta, value = np.where(accept[:, None], moved, theta), np.where(accept, new, value)
    return theta


@pytest.mark.parametrize(
    "kind", [pytest.param("mixture", marks=pytest.mark.slow), "groups", "points"]
)
def test_exact_draws_stay_exact_under_metropolis(kind):
    """Chains that leave the posterior as it is move wrong draws: means and sds before and after."""
    made = {**SMALL, "groups": lambda: groups("a", 6, num=2, sd=0.5, noise=0.5)}
    problem = made[kind]()
    draws = problem.draw(3, 4000)
    mean, sd = draws.mean(0), draws.std(0)
    moved = metropolis(problem, draws, 4000, 40)
    # four times the error of two means of 4,000 draws, in sds; and of two sds, of which each has
    # sqrt(5 / 4 / n) where the kurtosis is 6
    assert (np.abs(moved.mean(0) - mean) / sd).max() < 4.0 * np.sqrt(2.0 / 4000)
    error = 4.0 * np.sqrt(2.0 * 1.25 / 4000)
    assert np.abs(moved.std(0) / sd - 1.0).max() < error
    # planted: draws that are too narrow by 30% are moved
    narrow = metropolis(problem, mean + 0.7 * (draws - mean), 4000, 40)
    assert np.abs(narrow.std(0) / (0.7 * sd) - 1.0).max() > error


def test_conjugate_draws_have_the_moments_of_importance_sampling():
    problem = linear("a", 8, dim=2, width=3, sd=0.3, noise=0.4)
    theta = np.asarray(problem.model.prior.sample(jax.random.key(1), 100_000))
    log_weights = problem.log_likelihood(theta)
    weights = np.exp(log_weights - log_weights.max())
    mean = np.average(theta, axis=0, weights=weights)
    draws = problem.draw(1, 4000)
    size = weights.sum() ** 2 / (weights**2).sum()
    error = 4.0 * draws.std(0) * np.sqrt(1.0 / 4000 + 1.0 / size)
    assert (np.abs(draws.mean(0) - mean) < error).all()


def test_the_catalogues_are_disjoint():
    assert len(catalogue.TUNED) >= 6
    assert len(catalogue.HELD_OUT) == 10
    assert not set(catalogue.TUNED) & set(catalogue.HELD_OUT)
    seeds = [
        made.keywords["seed"] for made in (*catalogue.TUNED.values(), *catalogue.HELD_OUT.values())
    ]
    assert len(set(seeds)) == len(seeds)
    assert catalogue.named("tuned") == list(catalogue.TUNED)
    with pytest.raises(SystemExit, match="No problem is named"):
        catalogue.named("nothing")


def test_exact_draws_are_kept(tmp_path):
    problem = linear("kept", 8, dim=2, width=3, sd=0.3, noise=0.4)
    first = problem.reference(tmp_path)
    (path,) = tmp_path.iterdir()
    assert first.shape == (NUM_REFERENCE, 2)
    np.savez(path, theta=first + 1.0)
    assert (problem.reference(tmp_path) == first + 1.0).all()


def test_settings_reach_fields_of_fields():
    made = methods.constructed(
        "sppe",
        10_000,
        dict(
            map(
                methods.setting,
                ["num_rounds=2", "training.max_epochs=7", "correction=AtomicProposals"],
            )
        ),
    )
    assert (made.num_rounds, made.num_simulations, made.training.max_epochs) == (2, 5000, 7)
    assert type(made.correction).__name__ == "AtomicProposals"


def exact_itself(problem, seed, simulations, settings):
    draws = problem.draw(2 + seed, 1000) + settings["off"]
    return methods.Outcome(draws, simulations, ["nothing"], {"R-hat": 1.0})


def failing(problem, seed, simulations, settings):
    raise ValueError("out of simulations")


def test_runs_are_scored_written_and_resumed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(
        catalogue.TUNED, "tiny", lambda name: linear(name, 8, dim=2, width=3, sd=0.3, noise=0.4)
    )
    here, asked = "tests.benchmarks.test_learning", []

    def in_this_process(run, *, cold, core):
        asked.append(run["seed"])
        return json.loads(json.dumps(runner.one(run)))

    monkeypatch.setattr(runner, "in_own_process", in_this_process)
    out = tmp_path / "runs.jsonl"
    given = ["--problems", "tiny", "--methods", f"{here}:exact_itself", "--set", "off=0.0"]
    command.main([*given, "--seeds", "0", "--out", str(out)])
    command.main([*given, "--seeds", "0,1", "--out", str(out)])
    assert asked == [0, 1]
    first, second = map(json.loads, out.read_text().splitlines())
    assert (first["seed"], second["seed"], first["num_simulations"]) == (0, 1, 10_000)
    # draws of one law: .5 with an sd of .011, and errors of 1,000 draws
    assert abs(first["c2st"] - 0.5) < 0.044
    assert first["shift max"] < 4.5 / np.sqrt(1000)
    assert first["findings"] == ["nothing"]

    command.main(["--problems", "tiny", "--methods", f"{here}:failing", "--out", str(out)])
    failed = json.loads(out.read_text().splitlines()[-1])
    assert failed["failed"] == "ValueError: out of simulations"
    wanted = runner.runs(["tiny"], [f"{here}:failing"], [0], 10_000, {})
    assert runner.missing(wanted, out) == wanted
    capsys.readouterr()
    command.main(["--table", str(out)])
    shown = capsys.readouterr().out
    assert "2/2" in shown
    assert "failed" in shown


def test_a_shift_is_scored():
    problem = linear("a", 8, dim=2, width=3, sd=0.3, noise=0.4)
    exact = problem.draw(1, 2000)
    from benchmarks.learning.scores import scores

    off = scores(exact, problem.draw(2, 1000) + exact.std(0))
    assert off["c2st"] > 0.6
    assert abs(off["shift rms"] - 1.0) < 0.15
    assert scores(exact, np.full((1000, 2), np.nan))["c2st"] == 1.0


def test_every_problem_states_itself():
    problem = SMALL["outbreak"]()
    assert (problem.dim, problem.width) == (2, 3)
    assert dataclasses.replace(problem).observed.tolist() == problem.observed.tolist()


def test_the_most_accurate_are_compared_with_the_most_accurate(tmp_path, capsys):
    """Means over seeds; failed runs and runs with other settings are left out."""

    def a_run(method, c2st, seconds, **more):
        return {
            "problem": "linear-8",
            "method": method,
            "settings": {},
            "c2st": c2st,
            "shift max": 0.1,
            "cpu seconds": seconds,
        } | more

    records = [
        a_run("cle", 0.50, 10.0),
        a_run("cle", 0.52, 20.0),
        a_run("cle", 0.99, 1.0, settings={"num_members": 9}),
        a_run("sple", 0.55, 5.0),
        a_run("sbi-nle", 0.53, 60.0),
        a_run("sbi-npe", 0.6, 30.0),
        a_run("sbi-npe", 0.0, 0.0, failed="out of memory"),
    ]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    command.main(["--problems", "linear-8", "--picture", str(path)])
    shown = capsys.readouterr().out
    assert "| linear-8 | .510, 15 s | .550, 5 s |  | NLE .530, 60 s | 4.0 |" in shown
    assert path.with_suffix(".png").stat().st_size > 10_000
