"""A run that was interrupted goes on where it stopped, and nothing of it is done twice; other runs are refused and left alone."""

import dataclasses
import errno
import functools
import itertools
import json
import os
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.inference.work import Work
from noisewise.runs import journal as journals
from noisewise.runs.journal import Journal
from tests.inference.methods import METHODS
from tests.runs.problems import assert_same

KEY = jax.random.key(3)
SMC = nw.inference.SMCABC(num_particles=60, num_rounds=3)


class Interrupted(Exception):  # noqa: N818
    pass


def a_model(*, sd=1.0, scale=0.3, shift=0.0, names=("s",), parameter="a"):
    """theta ~ N(0, sd^2), s = theta + N(0, .2^2) + shift, in plain Python."""
    return nw.PrivateModel(
        prior=nw.Prior({parameter: dist.Normal(0.0, sd)}),
        simulator=nw.simulators.PythonSimulator(lambda rng, theta: theta + 0.2 * rng.normal(size=1) + shift),
        query=nw.queries.FunctionQuery(lambda x: x, names=names),
        mechanism=nw.mechanisms.Gaussian(scale=scale),
    )


@pytest.fixture
def interrupt(monkeypatch):
    """`interrupt(n)` raises after the n-th file that a journal writes from now on, which it does at every step."""
    monkeypatch.setattr(journals, "_SECONDS", 0.0)
    write, left = journals.write_tensors, [0]

    def written(*args, **more):
        write(*args, **more)
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted

    monkeypatch.setattr(journals, "write_tensors", written)
    return functools.partial(left.__setitem__, 0)


@pytest.fixture
def simulated(monkeypatch):
    """The sizes of batches that were simulated."""
    sizes, original = [], Work._simulated

    def counted(self, keys, theta):
        sizes.append(len(theta))
        return original(self, keys, theta)

    monkeypatch.setattr(Work, "_simulated", counted)
    return sizes


def infer(model, method=SMC, observed=(0.7,), key=KEY, **more):
    return method.infer(key, model, np.asarray(observed), progress=False, **more)


def interrupted(interrupt, call):
    """What `call` returns in the end, and in how many sittings, of which the first get one file further than the one before."""
    for sitting in range(1, 80):
        interrupt(max(1, sitting - 6))
        try:
            result = call()
        except Interrupted:
            continue
        interrupt(0)
        return result, sitting
    raise AssertionError("it never ends")


# Bit by bit ----------------------------------------------------------------------------------------------------------

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
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in METHODS]
)
def test_every_method_resumes_bit_by_bit(name, tmp_path, interrupt, simulated):
    """Planted, and caught: the training of another round; chains whose state does not come back; keys of another row."""
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
    """The state is written seldom: sweeps after the last one that is on disk are made again, from it."""
    monkeypatch.setattr(journals, "_STATE_SHARE", 1e-9)
    problem = nw.problems.gaussian_mean(1.0)
    method = METHODS["da-mcmc"].method
    run = functools.partial(method.infer, KEY, problem.model, problem.observed, progress=False)
    posterior, sittings = interrupted(interrupt, functools.partial(run, run_dir=tmp_path / "run"))
    assert sittings > 1
    assert_same(posterior, run())


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_damaged_file_costs_what_it_held(lost, tmp_path, interrupt, simulated):
    """Of chains too: where draws before the state are missing, the state is of no use, and they start anew."""
    problem = nw.problems.gaussian_mean(1.0)
    for name in ("smc-abc", "da-mcmc"):
        run = functools.partial(METHODS[name].method.infer, KEY, problem.model, problem.observed, progress=False)
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
    """One file for each round, of several batches. Planted, and caught: rows taken from the start of their file."""
    monkeypatch.setattr(journals, "_SECONDS", 1e9)
    first = next(iter(SMC.rounds(KEY, a_model(), [0.7], run_dir=tmp_path / "run", progress=False)))
    assert nw.runs.read_run(tmp_path / "run").num_simulations == sum(simulated) == first.report.num_simulations
    simulated.clear()
    posterior = infer(a_model(), run_dir=tmp_path / "run")
    assert sum(simulated) == posterior.report.num_simulations - first.report.num_simulations
    assert_same(posterior, infer(a_model()))


def jax_model(scale, spread=1.0):
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(lambda key, theta: theta + spread * jax.random.normal(key, (1,))),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=scale),
    )


def test_the_automatic_choice_resumes(tmp_path, interrupt, simulated):
    run = functools.partial(nw.infer, KEY, jax_model(0.1, 0.3), [1.5], target_ess=500, progress=False)
    expected = run()
    needed = sum(simulated)
    simulated.clear()
    posterior, sittings = interrupted(interrupt, functools.partial(run, run_dir=tmp_path / "run"))
    assert sittings > 1
    assert sum(simulated) == needed
    assert_same(posterior, expected)
    assert nw.runs.read_run(tmp_path / "run").method == "infer"
    with pytest.raises(errors.ResumeError, match="target_ess: 500 there, 400 now"):
        nw.infer(KEY, jax_model(0.1, 0.3), [1.5], target_ess=400, progress=False, run_dir=tmp_path / "run")


@pytest.mark.slow
def test_learning_and_certifying_within_the_automatic_choice_resume(tmp_path, interrupt, simulated, monkeypatch):
    monkeypatch.setattr("noisewise.automatic._FEW_PARAMETERS", 0)
    settings = {"target_ess": 2000, "max_simulations": 30_000, "max_minutes": 60.0, "progress": False}
    run = functools.partial(nw.infer, KEY, jax_model(0.02, 0.02), [1.5], **settings)
    expected = run()
    needed = sum(simulated)
    assert {stage["stage"] for stage in expected.report.rounds} >= {"sppe", "certify"}
    simulated.clear()
    posterior, sittings = interrupted(interrupt, functools.partial(run, run_dir=tmp_path / "run"))
    assert sittings > 1
    assert sum(simulated) == needed
    assert_same(posterior, expected)


# Budgets -------------------------------------------------------------------------------------------------------------


def test_minutes_count_earlier_sittings_and_are_up_at_the_same_step(tmp_path, interrupt, monkeypatch):
    """A clock that goes on by 3 s with each simulated batch: .2 minutes last for 4 batches, in one sitting or in several.

    Planted, and caught: minutes that begin anew with each sitting; a clock that decides again where time was up.
    """
    from noisewise.inference import work as module

    clock = [0.0]
    original = Work._simulated

    def slow(self, keys, theta):
        clock[0] += 3.0
        return original(self, keys, theta)

    class Clock:
        monotonic = staticmethod(lambda: clock[0])

    monkeypatch.setattr(Work, "_simulated", slow)
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
    (tmp_path / "parts" / "run.json").write_text(_unfinished((tmp_path / "parts" / "run.json").read_text()))
    assert_same(infer(a_model(), method, run_dir=tmp_path / "parts"), parts)


def _unfinished(text):
    from noisewise._files import sealed

    return json.dumps(sealed({**json.loads(text), "status": "running"}))


def test_slow_simulators_are_recorded_every_few_seconds(tmp_path, monkeypatch):
    """A simulation takes a second by this clock: batches of 8 before that is known, then of 3."""
    from noisewise.inference import work as module

    clock, sizes = [0.0], []
    original = Work._simulated

    class Clock:
        monotonic = staticmethod(lambda: clock[0])

    def slow(self, keys, theta, **options):
        clock[0] += len(theta)
        sizes.append(len(theta))
        return np.ones((len(theta), 1))

    monkeypatch.setattr(module, "time", Clock)
    work = Work("test", {}, a_model(), np.zeros(1), journal=Journal(tmp_path, "test"))
    monkeypatch.setattr(nw.PrivateModel, "statistics", slow)
    assert original is Work._simulated
    assert work.statistics(KEY, np.zeros((20, 1))).shape == (20, 1)
    assert sizes == [8, 3, 3, 3, 3]


# What is refused -----------------------------------------------------------------------------------------------------

OTHERS = {
    "the key": (lambda p: infer(a_model(), key=jax.random.key(4), run_dir=p), "key: another one"),
    "the kind of key": (lambda p: infer(a_model(), key=jax.random.PRNGKey(3), run_dir=p), "key: another one"),
    "a setting": (
        lambda p: infer(a_model(), dataclasses.replace(SMC, num_particles=70), run_dir=p),
        "num_particles: 60 there, 70 now",
    ),
    "a budget": (
        lambda p: infer(a_model(), dataclasses.replace(SMC, max_minutes=1.0), run_dir=p),
        "max_minutes: null there",
    ),
    "a setting inside a setting": (
        lambda p: infer(a_model(), dataclasses.replace(SMC, tolerance=nw.inference.QuantileDecay(0.6)), run_dir=p),
        "tolerance",
    ),
    "the method": (
        lambda p: infer(a_model(), nw.inference.ExactSMC(), run_dir=p),
        'method: "smc-abc" there, "exact-smc" now',
    ),
    "the observation": (lambda p: infer(a_model(), observed=[0.8], run_dir=p), r"observed: \[0.7\] there, \[0.8\] now"),
    "the prior": (lambda p: infer(a_model(sd=2.0), run_dir=p), "model prior: another one"),
    "the parameters": (lambda p: infer(a_model(parameter="b"), run_dir=p), "model names"),
    "the statistics": (lambda p: infer(a_model(names=("t",)), run_dir=p), "model statistics"),
    "the mechanism": (lambda p: infer(a_model(scale=0.4), run_dir=p), "model mechanism scale: 0.3 there, 0.4 now"),
    "the simulator": (lambda p: infer(a_model(shift=0.1), run_dir=p), "simulates other numbers"),
}


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", OTHERS)
def test_another_run_is_refused_with_the_difference_and_left_alone(name, tmp_path, interrupt):
    """Planted, and caught: an identity without the prior; rows that are not compared."""
    call, message = OTHERS[name]
    interrupt(3)
    with pytest.raises(Interrupted):
        infer(a_model(), run_dir=tmp_path / "run")
    before = files_of(tmp_path)
    with pytest.raises(errors.ResumeError, match=message) as caught:
        call(tmp_path / "run")
    assert "left as it is" in str(caught.value)
    assert "another folder" in str(caught.value)
    assert files_of(tmp_path) == before
    infer(a_model(), run_dir=tmp_path / "run")


@pytest.mark.parametrize("package", ["noisewise", "jax", "numpy", "device"])
def test_another_installation_is_refused(package, tmp_path, monkeypatch):
    from noisewise.runs import directory, record

    infer(a_model(), run_dir=tmp_path / "run")
    before = files_of(tmp_path)
    changed = {**record.versions(), package: "99.1"}
    monkeypatch.setattr(directory, "versions", lambda: changed)
    monkeypatch.setattr(record, "versions", lambda: changed)
    with pytest.raises(errors.ResumeError, match=f'{package}: "[a-z0-9.]+" there, "99.1" now'):
        infer(a_model(), run_dir=tmp_path / "run")
    assert files_of(tmp_path) == before
    told = nw.runs.read_run(tmp_path / "run")
    assert any("99.1 now" in text.replace('"', "") for text in told.differences)


def test_other_data_of_a_method_are_another_run(tmp_path):
    problem = nw.problems.gaussian_mean(1.0)
    run = lambda data: nw.inference.ConfidentialPosterior(data=data, num_draws=50).infer(
        KEY, problem.model, problem.observed, run_dir=tmp_path / "run", progress=False
    )
    run([0.5])
    with pytest.raises(errors.ResumeError, match="data data: another one"):
        run([0.6])
    quick = nw.inference.ImportanceSampling(num_stages=0, num_final=300)
    rough, other = (infer(a_model(), quick, key=jax.random.key(i)) for i in (1, 2))
    from_proposal = lambda proposal: infer(
        a_model(), dataclasses.replace(quick, proposal=proposal), run_dir=tmp_path / "proposal"
    )
    from_proposal(rough)
    with pytest.raises(errors.ResumeError, match="data proposal: another one"):
        from_proposal(other)


def test_folders_of_something_else_are_refused(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "part" / "journal").mkdir(parents=True)
    infer(a_model()).save(tmp_path / "archive")
    before = files_of(tmp_path)
    for name, message in (("file", "is a file"), ("part", "no run.json"), ("archive", "holds an archive")):
        with pytest.raises(errors.InvalidInputError, match=message):
            infer(a_model(), run_dir=tmp_path / name)
    with pytest.raises(errors.InvalidTypeError, match="path"):
        infer(a_model(), run_dir=3)
    assert files_of(tmp_path) == before


def test_two_at_once_are_refused(tmp_path):
    rounds = SMC.rounds(KEY, a_model(), [0.7], run_dir=tmp_path / "run", progress=False)
    next(rounds)
    with pytest.raises(errors.ResumeError, match="Another process is at work"):
        infer(a_model(), run_dir=tmp_path / "run")
    rounds.close()
    infer(a_model(), run_dir=tmp_path / "run")


# Reading -------------------------------------------------------------------------------------------------------------


def test_posteriors_are_read_from_run_directories(tmp_path, interrupt):
    posterior = infer(a_model(), run_dir=tmp_path / "done")
    assert_same(nw.load_posterior(tmp_path / "done"), posterior)
    interrupt(2)
    with pytest.raises(Interrupted):
        infer(a_model(), run_dir=tmp_path / "half")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        errors.InvalidInputError, match=r"not finished \(smc-abc, .* simulations so far\): call infer with the same"
    ):
        nw.load_posterior(tmp_path / "half")
    with pytest.raises(errors.InvalidInputError, match="is empty"):
        nw.load_posterior(tmp_path / "empty")
    with pytest.raises(errors.InvalidInputError, match="no folder"):
        nw.load_posterior(tmp_path / "nowhere")


def test_a_record_tells_what_a_run_has_done(tmp_path, interrupt):
    interrupt(2)
    with pytest.raises(Interrupted):
        infer(a_model(), run_dir=tmp_path / "run")
    half = nw.runs.read_run(tmp_path / "run")
    assert (half.status, half.finished, half.method, half.settings["num_particles"]) == (
        "running",
        False,
        "smc-abc",
        60,
    )
    posterior = infer(a_model(), run_dir=tmp_path / "run")
    done = nw.runs.read_run(str(tmp_path / "run"))
    assert done.finished
    assert 0 < half.num_simulations < done.num_simulations == posterior.report.num_simulations
    assert 0.0 < half.seconds < done.seconds
    assert done.differences == ()
    assert done.versions["noisewise"] == nw.__version__
    assert "finished" in str(done)
    (tmp_path / "empty").mkdir()
    for path, message in (("nowhere", "no folder"), ("empty", "holds no run"), ("run/run.json", "is a file")):
        with pytest.raises(errors.InvalidInputError, match=message):
            nw.runs.read_run(tmp_path / path)


@pytest.mark.slow
def test_what_a_saved_posterior_lacks_is_made_anew_from_the_journal(tmp_path, simulated):
    """A finished SPLE has a likelihood, which archives of draws do not hold."""
    problem = nw.problems.gaussian_mean(1.0)
    run = functools.partial(METHODS["sple"].method.infer, KEY, problem.model, problem.observed, progress=False)
    first = run(run_dir=tmp_path / "run")
    simulated.clear()
    again = run(run_dir=tmp_path / "run")
    assert simulated == []
    assert_same(again, first)
    np.testing.assert_array_equal(again.maximum_likelihood(), first.maximum_likelihood())


def test_a_damaged_posterior_is_made_anew_from_the_journal(tmp_path, simulated):
    posterior = infer(a_model(), run_dir=tmp_path / "run")
    (tmp_path / "run" / "posterior" / "arrays.npz").write_bytes(b"PK")
    (tmp_path / "run" / ".run.json.0123.part").write_bytes(b"{")
    with pytest.raises(errors.FileFormatError):
        nw.load_posterior(tmp_path / "run")
    simulated.clear()
    assert_same(infer(a_model(), run_dir=tmp_path / "run"), posterior)
    assert simulated == []
    assert_same(nw.load_posterior(tmp_path / "run"), posterior)
    assert not list((tmp_path / "run").glob(".*.part"))


# Trouble -------------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_keeps_all_that_was_simulated(tmp_path, monkeypatch):
    """Ctrl-C in the middle of a round: every batch before it is on disk."""
    original, sizes = Work._simulated, []

    def pressed(self, keys, theta):
        if len(sizes) == 4:
            raise KeyboardInterrupt
        sizes.append(len(theta))
        return original(self, keys, theta)

    monkeypatch.setattr(Work, "_simulated", pressed)
    with pytest.raises(KeyboardInterrupt):
        infer(a_model(), run_dir=tmp_path / "run")
    assert nw.runs.read_run(tmp_path / "run").num_simulations == sum(sizes)


def test_a_failing_simulator_loses_its_batch_alone(tmp_path, simulated, monkeypatch):
    """The thirtieth simulation fails, and fails again; once the simulator is mended, what was simulated before is not simulated again."""
    monkeypatch.setattr("noisewise.inference.work._BATCH_SECONDS", 1e-3)
    broken, calls = [True], itertools.count(1)

    def simulator(rng, theta):
        if broken[0] and next(calls) >= 30:
            raise ZeroDivisionError("no such parameter")
        return theta + 0.2 * rng.normal(size=1)

    model = dataclasses.replace(a_model(), simulator=nw.simulators.PythonSimulator(simulator, max_failed=0.0))
    method = nw.inference.ImportanceSampling(num_stages=0, num_final=1000)
    with pytest.raises(errors.SimulationError, match="no such parameter"):
        infer(model, method, run_dir=tmp_path / "run")
    done = nw.runs.read_run(tmp_path / "run").num_simulations
    assert done == sum(simulated[:-1]) > 0
    broken[0] = False
    simulated.clear()
    posterior = infer(model, method, run_dir=tmp_path / "run")
    assert sum(simulated) == posterior.report.num_simulations - done
    assert_same(posterior, infer(a_model(), method))


def test_a_full_disk_is_told_and_leaves_the_last_good_state(tmp_path, monkeypatch, simulated):
    """The file system has room for so many files of the run, and no more."""
    monkeypatch.setattr(journals, "_SECONDS", 0.0)
    fsync, left = os.fsync, [0]

    def full(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    run = functools.partial(infer, a_model(), run_dir=tmp_path / "run")
    done, told = 0, 0
    for _ in range(20):
        left[0] = 6
        simulated.clear()
        try:
            posterior = run()
            break
        except errors.StorageError as error:
            assert "the disk is full. What was written before is intact: free some space" in str(error)  # noqa: PT017
            told += 1
        record = nw.runs.read_run(tmp_path / "run")
        assert record.damaged == ()
        assert record.num_simulations >= done
        done = record.num_simulations
    assert told >= 3
    assert sum(simulated) == posterior.report.num_simulations - done
    assert_same(posterior, infer(a_model()))
    assert isinstance(errors.StorageError("full"), OSError)


def test_a_small_file_system_that_runs_full(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs needs the rights of an administrator")
    try:
        method = dataclasses.replace(SMC, num_particles=500)
        with pytest.raises(errors.StorageError, match="the disk is full"):
            infer(a_model(), method, run_dir=folder / "run")
        assert nw.runs.read_run(folder / "run").damaged == ()
        subprocess.run(["mount", "-o", "remount,size=16m", str(folder)], check=True)
        assert_same(infer(a_model(), method, run_dir=folder / "run"), infer(a_model(), method))
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_arrays_of_every_kind_come_back(tmp_path):
    from noisewise.runs.tensors import read_tensors, write_tensors

    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
    arrays = {kind: np.arange(6).reshape(2, 3).astype(kind) for kind in kinds} | {
        "empty": np.zeros((0, 2)),
        "one": np.array(3.5),
    }
    arrays["special"] = np.array([np.nan, np.inf, -0.0, 5e-324])
    write_tensors(tmp_path / "a.safetensors", {"text": "é", "number": 0.1}, arrays)
    content, again = read_tensors(tmp_path / "a.safetensors")
    assert content == {"text": "é", "number": 0.1}
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        assert again[name].shape == array.shape
        assert again[name].tobytes() == array.tobytes()
    with pytest.raises(errors.InvalidInputError, match="not stored"):
        write_tensors(tmp_path / "b.safetensors", {}, {"a": np.array(["text"])})
    with pytest.raises(errors.InvalidInputError, match="exists"):
        write_tensors(tmp_path / "a.safetensors", {}, {})


def test_a_state_of_jax_arrays_and_a_journal_of_another_run(tmp_path):
    journal = Journal(tmp_path, "one")
    journal.begin()
    journal.recall_move("sweeps")
    journal.keep("sweeps", journals.Result({"a": np.ones(2)}, "finished"), state=[jnp.arange(3)])
    journal.flush()
    again = Journal(tmp_path, "one")
    again.begin()
    result, state = again.recall_move("sweeps")
    np.testing.assert_array_equal(result.arrays["a"], 1.0)
    np.testing.assert_array_equal(state[0], [0, 1, 2])
    foreign = Journal(tmp_path, "other")
    foreign.begin()
    assert foreign.recall_move("sweeps") is None
    assert foreign.dropped == ["000000.safetensors", "state.safetensors"]
