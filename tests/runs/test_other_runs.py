"""Other runs than the one in a folder are refused, with the difference, and the folder is left
alone.
"""

import dataclasses

import jax
import pytest

import noisewise as nw
from noisewise import errors
from tests.runs.interruptions import KEY, SMC, Interrupted, a_model, infer

OTHERS = {
    "the key": (lambda p: infer(a_model(), key=jax.random.key(4), run_dir=p), "key: another one"),
    "the kind of key": (
        lambda p: infer(a_model(), key=jax.random.PRNGKey(3), run_dir=p),
        "key: another one",
    ),
    "a setting": (
        lambda p: infer(a_model(), dataclasses.replace(SMC, num_particles=70), run_dir=p),
        "num_particles: 60 there, 70 now",
    ),
    "a budget": (
        lambda p: infer(a_model(), dataclasses.replace(SMC, max_minutes=1.0), run_dir=p),
        "max_minutes: null there",
    ),
    "a setting inside a setting": (
        lambda p: infer(
            a_model(),
            dataclasses.replace(SMC, tolerance=nw.inference.QuantileDecay(0.6)),
            run_dir=p,
        ),
        "tolerance",
    ),
    "the method": (
        lambda p: infer(a_model(), nw.inference.ExactSMC(), run_dir=p),
        'method: "smc-abc" there, "exact-smc" now',
    ),
    "the observation": (
        lambda p: infer(a_model(), observed=[0.8], run_dir=p),
        r"observed: \[0.7\] there, \[0.8\] now",
    ),
    "the prior": (lambda p: infer(a_model(sd=2.0), run_dir=p), "model prior: another one"),
    "the parameters": (lambda p: infer(a_model(parameter="b"), run_dir=p), "model names"),
    "the statistics": (lambda p: infer(a_model(names=("t",)), run_dir=p), "model statistics"),
    "the mechanism": (
        lambda p: infer(a_model(scale=0.4), run_dir=p),
        "model mechanism scale: 0.3 there, 0.4 now",
    ),
    "the simulator": (
        lambda p: infer(a_model(shift=0.1), run_dir=p),
        "no longer simulates the numbers",
    ),
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
    for name, message in (
        ("file", "is a file"),
        ("part", "no run.json"),
        ("archive", "holds an archive"),
    ):
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
