"""What is read from run directories, finished or not, and made anew from the journal where it is
damaged.
"""

import functools

import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from tests.inference.methods import METHODS
from tests.runs.interruptions import KEY, Interrupted, a_model, infer
from tests.runs.problems import assert_same


def test_posteriors_are_read_from_run_directories(tmp_path, interrupt):
    posterior = infer(a_model(), run_dir=tmp_path / "done")
    assert_same(nw.load_posterior(tmp_path / "done"), posterior)
    interrupt(2)
    with pytest.raises(Interrupted):
        infer(a_model(), run_dir=tmp_path / "half")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        errors.InvalidInputError,
        match=r"not finished \(smc-abc, .* simulations so far\): call infer with the same",
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
    for path, message in (
        ("nowhere", "no folder"),
        ("empty", "holds no run"),
        ("run/run.json", "is a file"),
    ):
        with pytest.raises(errors.InvalidInputError, match=message):
            nw.runs.read_run(tmp_path / path)


@pytest.mark.slow
def test_what_a_saved_posterior_lacks_is_made_anew_from_the_journal(tmp_path, simulated):
    """A finished SPLE has a likelihood, which archives of draws do not hold."""
    problem = nw.problems.gaussian_mean(1.0)
    run = functools.partial(
        METHODS["sple"].method.infer, KEY, problem.model, problem.observed, progress=False
    )
    first = run(run_dir=tmp_path / "run")
    simulated.clear()
    again = run(run_dir=tmp_path / "run")
    assert simulated == []
    assert_same(again, first)
    np.testing.assert_array_equal(again.maximum_likelihood(), first.maximum_likelihood())


def test_a_damaged_posterior_is_made_anew_from_the_journal(tmp_path, simulated):
    posterior = infer(a_model(), run_dir=tmp_path / "run")
    (tmp_path / "run" / "posterior" / "arrays.safetensors").write_bytes(b"PK")
    (tmp_path / "run" / ".run.json.0123.part").write_bytes(b"{")
    with pytest.raises(errors.FileFormatError):
        nw.load_posterior(tmp_path / "run")
    simulated.clear()
    assert_same(infer(a_model(), run_dir=tmp_path / "run"), posterior)
    assert simulated == []
    assert_same(nw.load_posterior(tmp_path / "run"), posterior)
    assert not list((tmp_path / "run").glob(".*.part"))
