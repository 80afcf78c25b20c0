"""Programs are kept in the user's cache folder, if nobody else can write there, and change nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noisewise._compile.on_disk import _delete_oldest
from noisewise._core.local_records import is_closed, is_own

PROGRAM = """
import jax
from jax._src import monitoring
import noisewise as nw

found = []
monitoring.register_event_listener(lambda event, **_: found.append(event))
problem = nw.problems.gaussian_mean(epsilon=1.0)
method = METHOD
posterior = method.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
print(found.count("/jax/compilation_cache/cache_hits"), posterior.theta[:20].tobytes().hex())
"""
"""Prints how many programs were found in the cache, and draws to the last bit."""
METHODS = {
    "by weights": "nw.inference.ImportanceSampling(num_stages=1, num_adapt=300, num_final=800)",
    "learnt": "nw.inference.PrivatePosteriorEstimation(num_simulations=200, num_rounds=1,"
    " training=nw.estimators.Training(max_epochs=2),"
    " estimator=nw.estimators.mixture_density_network)",
}


def run(home, program, **environment):
    """The output of a program in a process whose cache folder is in `home`."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAX_COMPILATION", "JAX_PERSISTENT", "NOISEWISE_", "XDG_"))
    }
    settings = {"XDG_CACHE_HOME": str(home), "JAX_PLATFORMS": "cpu", **environment}
    command = [sys.executable, "-W", "error::UserWarning", "-c", program]
    done = subprocess.run(
        command, env=inherited | settings, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def programs(home):
    return list((home / "noisewise" / "programs").glob("*/*")) if home.exists() else []


ONE = """
import numpy as np
from noisewise._compile.options import jit_fast_compile
print(float(jit_fast_compile(lambda x: 2.0 * x)(np.float32(1.0))))
"""


@pytest.fixture
def home(tmp_path):
    """A folder as a home is, which only the user can write to."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.mark.parametrize("name", ["by weights", pytest.param("learnt", marks=pytest.mark.slow)])
def test_the_second_process_finds_the_programs_and_gives_the_same_bits(home, name):
    program = PROGRAM.replace("METHOD", METHODS[name])
    hits, cold = run(home, program)
    assert int(hits) == 0
    assert len(programs(home)) > 10
    for folder in (home / "noisewise" / "programs", programs(home)[0].parent):
        assert folder.stat().st_mode & 0o777 == 0o700
    hits, warm = run(home, program)
    assert int(hits) > 10
    assert warm == cold


def opened(home):
    """A folder of programs that the group may write to."""
    (home / "noisewise" / "programs").mkdir(parents=True)
    (home / "noisewise" / "programs").chmod(0o770)


def linked(home):
    """Programs in a folder of somebody else's choice."""
    (home / "elsewhere").mkdir(mode=0o700)
    (home / "noisewise").mkdir()
    (home / "noisewise" / "programs").symlink_to(home / "elsewhere")


def movable(home):
    """A folder that others can put another in the place of."""
    (home / "noisewise" / "programs").mkdir(parents=True, mode=0o700)
    (home / "noisewise").chmod(0o777)


@pytest.mark.parametrize("make", [opened, linked, movable])
def test_a_folder_that_others_can_change_does_not_serve(home, make):
    make(home)
    assert run(home, ONE) == ["2.0"]
    assert not [path for path in programs(home) if path.is_file()]


def test_a_readable_folder_is_no_closed_one(home):
    """Planted: the weaker rule for records would let the group read; here it must not."""
    home.chmod(0o750)
    assert is_own(home)
    assert not is_closed(home)


def test_a_folder_named_through_a_link_is_used_by_its_own_name(home, tmp_path):
    """Whoever owns the link could point it elsewhere after the check: JAX gets the real path."""
    link = tmp_path / "link"
    link.symlink_to(home)
    (home / "own").mkdir(mode=0o700)
    assert is_closed(home / "own")
    assert not is_closed(link / "own")
    program = ONE + "import jax; print(jax.config.values['jax_compilation_cache_dir'])"
    assert Path(run(link, program)[1]).parent == home.resolve() / "noisewise" / "programs"


@pytest.mark.parametrize(
    "environment",
    [{"NOISEWISE_PROGRAMS": "off"}, {"JAX_ENABLE_COMPILATION_CACHE": "false"}],
    ids=["switched off", "JAX keeps nothing"],
)
def test_nothing_is_kept_where_that_is_wanted(home, environment):
    assert run(home, ONE, **environment) == ["2.0"]
    assert not programs(home)


def test_a_folder_that_the_user_told_jax_of_stands(home, tmp_path):
    own = tmp_path / "own"
    settings = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    program = ONE + "print(jax.config.values['jax_compilation_cache_dir'])"
    program = "import jax" + program
    assert run(home, program, JAX_COMPILATION_CACHE_DIR=str(own), **settings)[1] == str(own)
    assert not programs(home)
    assert list(own.iterdir())


def test_a_user_without_a_home_loses_only_the_time(tmp_path):
    assert run("relative", ONE, HOME=str(tmp_path / "missing" / "home")) == ["2.0"]
    assert run("/proc/nowhere", ONE) == ["2.0"]


def test_a_damaged_program_is_compiled_again(home):
    run(home, ONE)
    for path in programs(home):
        path.write_bytes(path.read_bytes()[:100])
    assert run(home, "import warnings; warnings.simplefilter('ignore')" + ONE) == ["2.0"]


def test_the_oldest_programs_are_deleted_first(tmp_path):
    now = time.time()
    for number in range(10):
        path = Path(tmp_path / str(number))
        path.write_bytes(b"x" * 100)
        os.utime(path, (now + number, now + number))
    _delete_oldest(tmp_path, 1000)
    assert len(list(tmp_path.iterdir())) == 10
    _delete_oldest(tmp_path, 900)
    assert sorted(path.name for path in tmp_path.iterdir()) == [str(n) for n in range(3, 10)]
