"""A run that was interrupted goes on where it stopped, bit by bit, within its budgets, and nothing
of it is done twice.
"""

import functools
import json

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.inference.contract.run import InferenceRun
from noisewise.runs import journal as journals
from noisewise.runs.journal import Journal
from tests.inference.methods import METHODS
from tests.runs.interruptions import KEY, SMC, Interrupted, a_model, infer, interrupted
from tests.runs.problems import assert_same

# Bit by bit ---------------------------------------------------------------------------------------

LONG = {
    "exact-smc",
    "rnpe",
    "rnpe with the mechanism's density",
    "pseudo-marginal",
    "cle",
    "sppe with atoms",
    "sple",
    "da-mcmc",
    "gibbs-ss",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in METHODS],
)
def test_every_method_resumes_bit_by_bit(name, tmp_path, interrupt, simulated):
    """Planted, and caught: the training of another round; chains whose state does not come back;
    keys of another row.
    """
    case = METHODS[name]
    problem = case.make_problem()
    run = functools.partial(case.method.infer, KEY, problem.model, problem.observed, progress=False)
    expected = run()
    needed = sum(simulated)
    simulated.clear()
    posterior, sittings = interrupted(interrupt, functools.partial(run, run_dir=tmp_path / "run"))
    assert_same(posterior, expected)
    assert sum(simulated) == needed
    assert sittings > 1 or not case.simulates or name == "naive"
    assert_same(run(run_dir=tmp_path / "run"), posterior)
    assert sum(simulated) == needed


def test_chains_whose_state_is_behind_their_draws_are_swept_again(tmp_path, interrupt, monkeypatch):
    """The state is written seldom: sweeps after the last one that is on disk are made again, from
    it.
    """
    monkeypatch.setattr(journals, "_STATE_SHARE", 1e-9)
    problem = nw.problems.gaussian_mean(1.0)
    method = METHODS["da-mcmc"].method
    run = functools.partial(method.infer, KEY, problem.model, problem.observed, progress=False)
    posterior, sittings = interrupted(interrupt, functools.partial(run, run_dir=tmp_path / "run"))
    assert sittings > 1
    assert_same(posterior, run())


@pytest.mark.parametrize(
    "lost", [0, *(pytest.param(lost, marks=pytest.mark.slow) for lost in (1, 2))]
)
def test_a_damaged_file_costs_what_it_held(lost, tmp_path, interrupt, simulated):
    """Of chains too: where draws before the state are missing, the state is of no use, and they
    start anew.
    """
    problem = nw.problems.gaussian_mean(1.0)
    for name in ("smc-abc", "da-mcmc"):
        run = functools.partial(
            METHODS[name].method.infer, KEY, problem.model, problem.observed, progress=False
        )
        folder = tmp_path / name
        interrupt(5)
        with pytest.raises(Interrupted):
            run(run_dir=folder)
        path = folder / "journal" / f"{lost:06d}.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        assert nw.runs.read_run(folder).damaged == (path.name,)
        simulated.clear()
        interrupt(0)
        posterior = run(run_dir=folder)
        again = sum(simulated)
        assert_same(posterior, run())
        assert again < posterior.report.num_simulations
        assert nw.runs.read_run(folder).damaged == ()
        assert path.with_suffix(".damaged").exists()


def test_rounds_resume(tmp_path, interrupt, simulated):
    run = functools.partial(SMC.rounds, KEY, a_model(), [0.7], progress=False)
    expected = list(run())
    needed = sum(simulated)
    simulated.clear()
    rounds, sittings = interrupted(interrupt, lambda: list(run(run_dir=tmp_path / "run")))
    assert sittings > 1
    assert sum(simulated) == needed
    assert len(rounds) == len(expected) == 3
    for one, other in zip(rounds, expected, strict=True):
        assert_same(one, other)
    assert_same(infer(a_model(), run_dir=tmp_path / "run"), expected[-1])


def test_rounds_that_are_left_early_go_on_later(tmp_path, simulated, monkeypatch):
    """One file for each round, of several batches. Planted, and caught: rows taken from the start
    of their file.
    """
    monkeypatch.setattr(journals, "_SECONDS", 1e9)
    first = next(iter(SMC.rounds(KEY, a_model(), [0.7], run_dir=tmp_path / "run", progress=False)))
    assert (
        nw.runs.read_run(tmp_path / "run").num_simulations
        == sum(simulated)
        == first.report.num_simulations
    )
    simulated.clear()
    posterior = infer(a_model(), run_dir=tmp_path / "run")
    assert sum(simulated) == posterior.report.num_simulations - first.report.num_simulations
    assert_same(posterior, infer(a_model()))


def jax_model(scale, spread=1.0):
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + spread * jax.random.normal(key, (1,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=scale),
    )


def test_the_automatic_choice_resumes(tmp_path, interrupt, simulated):
    run = functools.partial(
        nw.infer, KEY, jax_model(0.1, 0.3), [1.5], target_ess=500, progress=False
    )
    expected = run()
    needed = sum(simulated)
    simulated.clear()
    posterior, sittings = interrupted(interrupt, functools.partial(run, run_dir=tmp_path / "run"))
    assert sittings > 1
    assert sum(simulated) == needed
    assert_same(posterior, expected)
    assert nw.runs.read_run(tmp_path / "run").method == "infer"
    with pytest.raises(errors.ResumeError, match="target_ess: 500 there, 400 now"):
        nw.infer(
            KEY,
            jax_model(0.1, 0.3),
            [1.5],
            target_ess=400,
            progress=False,
            run_dir=tmp_path / "run",
        )


@pytest.mark.slow
def test_learning_and_certifying_within_the_automatic_choice_resume(
    tmp_path, interrupt, simulated, monkeypatch
):
    monkeypatch.setattr("noisewise.automatic.routes.adapted_importance.MAX_PARAMETERS", 0)
    settings = {
        "target_ess": 2000,
        "max_simulations": 30_000,
        "max_minutes": 60.0,
        "progress": False,
    }
    run = functools.partial(nw.infer, KEY, jax_model(0.02, 0.02), [1.5], **settings)
    expected = run()
    needed = sum(simulated)
    assert {stage["stage"] for stage in expected.report.rounds} >= {"sppe", "certify"}
    simulated.clear()
    posterior, sittings = interrupted(interrupt, functools.partial(run, run_dir=tmp_path / "run"))
    assert sittings > 1
    assert sum(simulated) == needed
    assert_same(posterior, expected)


# Budgets ------------------------------------------------------------------------------------------


def test_minutes_count_earlier_sittings_and_are_up_at_the_same_step(
    tmp_path, interrupt, monkeypatch
):
    """A clock that goes on by 3 s with each simulated batch: .2 minutes last for 4 batches, in one
    sitting or in several.

    Planted, and caught: minutes that begin anew with each sitting; a clock that decides again where
    time was up.
    """
    from noisewise.inference.contract import reporting, run

    clock = [0.0]
    original = InferenceRun._simulated

    def slow(self, keys, theta):
        clock[0] += 3.0
        return original(self, keys, theta)

    class Clock:
        monotonic = staticmethod(lambda: clock[0])

    monkeypatch.setattr(InferenceRun, "_simulated", slow)
    for module in (run, reporting):
        monkeypatch.setattr(module, "time", Clock)
    monkeypatch.setattr(journals, "time", Clock)
    method = nw.inference.RejectionABC(tolerance=0.01, num_draws=1000, max_minutes=0.2)
    whole = infer(a_model(), method, run_dir=tmp_path / "whole")
    assert whole.report.stopped == "the time budget is spent"
    assert whole.report.seconds == pytest.approx(12.0)
    interrupt(2)
    with pytest.raises(Interrupted):
        infer(a_model(), method, run_dir=tmp_path / "parts")
    assert nw.runs.read_run(tmp_path / "parts").seconds == pytest.approx(6.0)
    parts = infer(a_model(), method, run_dir=tmp_path / "parts")
    assert parts.report.stopped == "the time budget is spent"
    assert parts.report.seconds == pytest.approx(12.0)
    assert clock[0] == pytest.approx(12.0 + 6.0 + 6.0)
    clock[0] = 0.0
    (tmp_path / "parts" / "run.json").write_text(
        _unfinished((tmp_path / "parts" / "run.json").read_text())
    )
    assert_same(infer(a_model(), method, run_dir=tmp_path / "parts"), parts)


def _unfinished(text):
    from noisewise._core.json_files import sealed

    return json.dumps(sealed({**json.loads(text), "status": "running"}))


def test_slow_simulators_are_recorded_every_few_seconds(tmp_path, monkeypatch):
    """A simulation takes a second by this clock: batches of 8 before that is known, then of 3."""
    from noisewise.inference.contract import reporting, run

    clock, sizes = [0.0], []
    original = InferenceRun._simulated

    class Clock:
        monotonic = staticmethod(lambda: clock[0])

    def slow(self, keys, theta, **options):
        clock[0] += len(theta)
        sizes.append(len(theta))
        return np.ones((len(theta), 1))

    for module in (run, reporting):
        monkeypatch.setattr(module, "time", Clock)
    inference_run = InferenceRun(
        "test", {}, a_model(), np.zeros(1), journal=Journal(tmp_path, "test")
    )
    monkeypatch.setattr(nw.PrivateModel, "statistics", slow)
    assert original is InferenceRun._simulated
    assert inference_run.statistics(KEY, np.zeros((20, 1))).shape == (20, 1)
    assert sizes == [8, 3, 3, 3, 3]
