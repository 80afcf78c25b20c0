"""Worker processes of our own: an executor like any other, but for those who die."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, wait

import numpy as np
import pytest

from noisewise import errors
from noisewise.simulators import Workers
from noisewise.simulators.workers import WorkerLostError


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as executor:
        yield executor


def test_it_runs_functions_and_closures(workers):
    two = 2
    assert list(workers.map(lambda x: two * x, range(50))) == list(range(0, 100, 2))
    assert workers.submit(pow, 2, exp=5).result() == 32


def test_it_uses_so_many_processes(workers):
    def who(_):
        time.sleep(0.05)
        return os.getpid()

    seen = set(workers.map(who, range(40)))
    assert len(seen) == 2
    assert os.getpid() not in seen


def test_errors_come_back(workers):
    with pytest.raises(ZeroDivisionError):
        workers.submit(lambda: 1 // 0).result()
    with pytest.raises(TypeError, match="pickle"):
        workers.submit(threading.Lock).result()


def test_errors_that_cannot_travel_come_back_as_text(workers):
    def fail():
        class OddError(Exception):
            def __reduce__(self):
                raise TypeError("never")

        raise OddError("odd")

    with pytest.raises(RuntimeError, match="OddError: odd"):
        workers.submit(fail).result()


def test_a_death_fails_one_task_and_is_made_good(workers):
    futures = [
        workers.submit(os._exit, 3) if i == 5 else workers.submit(lambda i=i: i) for i in range(20)
    ]
    wait(futures)
    assert [future.result() for i, future in enumerate(futures) if i != 5] == [
        i for i in range(20) if i != 5
    ]
    with pytest.raises(WorkerLostError, match="exit code 3"):
        futures[5].result()


def collected_elsewhere(process, times):
    """As where another thread, which starts a process, collects this one: for some looks its exit
    code is not known.
    """
    popen, looks = process._popen, iter(range(times))
    known = popen.poll

    def poll(*flags):
        known(*flags)
        return None if next(looks, None) is not None else popen.returncode

    popen.poll = poll


@pytest.mark.parametrize(("times", "exitcode"), [(3, 7), (10**9, None)])
def test_a_death_that_another_thread_collects_is_told(times, exitcode, monkeypatch):
    """Planted: closing the process while its code is unknown raises in the thread that waits, and
    the future is never done.
    """
    monkeypatch.setattr("noisewise.simulators.workers._EXIT_CODE_SECONDS", 0.2)
    with Workers(1) as workers:
        workers.submit(os.getpid).result(timeout=60)
        collected_elsewhere(workers._slots[0]._process, times)
        error = workers.submit(os._exit, 7).exception(timeout=30)
        assert isinstance(error, WorkerLostError)
        assert f"exit code {exitcode}" in str(error)
        assert workers.submit(abs, -3).result(timeout=60) == 3


def test_no_death_is_missed_while_other_processes_start():
    """Two workers that die again and again: while one is replaced, the other's end is collected by
    the thread that looks first.
    """
    with Workers(2) as workers:
        futures = [workers.submit(os._exit, 7) for _ in range(12)]
        assert {str(future.exception(timeout=120)) for future in futures} == {
            "its worker ended with exit code 7"
        }


def test_what_is_shut_down_takes_nothing_more():
    executor = Workers(1)
    first = executor.submit(lambda: 1)
    executor.shutdown()
    assert first.result() == 1
    with pytest.raises(errors.InvalidInputError, match="start new ones"):
        executor.submit(lambda: 2)
    executor.shutdown()


def test_an_error_in_the_body_ends_the_processes_at_once():
    futures = []

    def interrupted():
        with Workers(1) as executor:
            executor.submit(os.getpid).result()
            futures.extend(executor.submit(time.sleep, 100.0) for _ in range(2))
            while not futures[0].running():
                time.sleep(0.01)
            raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    busy, queued = futures
    assert time.monotonic() - started < 20.0
    with pytest.raises(WorkerLostError):
        busy.result()
    with pytest.raises(CancelledError):
        queued.result()
    assert not [
        child for child in multiprocessing.active_children() if child.name.startswith("noisewise")
    ]


def test_a_process_that_is_just_being_started_is_ended_too():
    started = time.monotonic()
    executor = Workers(1)
    executor.submit(time.sleep, 100.0)
    executor.kill()
    assert time.monotonic() - started < 30.0


def test_processes_end_with_their_parent(tmp_path):
    """Killed parents leave no processes behind."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\nfrom noisewise.simulators import Workers\nif __name__ == '__main__':\n   "
        " workers = Workers(1)\n    print(workers.submit(os.getpid).result(), flush=True)\n   "
        " time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        process.kill()
    for _ in range(100):
        if not _alive(child):
            break
        time.sleep(0.1)
    assert not _alive(child)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_scripts_without_a_guard_are_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import jax, numpy as np\nimport noisewise as nw\nfrom noisewise.simulators import"
        " workers\nworkers._START_ATTEMPTS = 1\ns = nw.simulators.PythonSimulator(lambda"
        " rng, theta: theta)\ns.statistics(jax.random.key(0), np.zeros((2, 1)), lambda x: x,"
        " executor=nw.simulators.Workers(1))\n"
    )
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert 'under if __name__ == "__main__":' in result.stderr


def test_arrays_of_some_size_travel(workers):
    x = np.arange(2_000_000.0)
    assert np.array_equal(workers.submit(lambda a: a[::-1], x).result(), x[::-1])


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2"])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(
        (errors.InvalidInputError, errors.InvalidTypeError),
        match="num_workers must be a whole number >= 1",
    ):
        Workers(bad)
