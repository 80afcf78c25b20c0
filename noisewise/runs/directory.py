"""A run directory in use: started or resumed, by one process at a time, and finished with a
posterior.

"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noisewise._core.files import PathLike, as_path, remove_parts, unwritten
from noisewise._core.regular_files import check_no_links, opened_lock
from noisewise.errors import InvalidInputError, ResumeError, StorageError
from noisewise.runs.archive import check_free
from noisewise.runs.journal import Journal
from noisewise.runs.record import (
    JOURNAL,
    POSTERIOR,
    RUN,
    RunRecord,
    differences,
    json_ready,
    read_run,
    versions,
    write_record,
)

_LOCK = ".lock"


class RunDirectory:
    """The record of a run and its journal.

    Args:
        record: What `run.json` says.
    """

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.journal = Journal(record.path / JOURNAL, record.id)

    @property
    def posterior_path(self) -> Path:
        """Where the posterior is, or will be."""
        return self.record.path / POSTERIOR

    def finish(self, posterior: Any) -> None:
        """Save the posterior and write that the run is finished.

        Args:
            posterior: What the method returned, of any class that has `save` and a report.
        """
        self.journal.flush()
        posterior.save(self.posterior_path, overwrite=True)
        done: dict[str, Any] = {
            "seconds": self.journal.seconds,
            "num_simulations": int(posterior.report.num_simulations),
        }
        self.record = dataclasses.replace(
            self.record, status="finished", posterior=type(posterior).__name__, **done
        )
        write_record(self.record)


@contextlib.contextmanager
def run_directory(path: PathLike, identity: dict[str, Any]) -> Iterator[RunDirectory]:
    """Open the folder of a run with this identity, new or resumed.

    Use it as a context manager. What its body has done is on disk afterwards, however it ends.

    Args:
        path: The folder, made where there is none.
        identity: What the run is resumed by: method, settings, key, observation and model.

    Yields:
        The `RunDirectory`.

    Raises:
        ResumeError: If the folder holds a run of another identity, or another process works in it;
            it is left alone.
        InvalidInputError: If it holds something else.
    """
    folder = as_path(path)
    identity = json_ready(identity)
    with _exclusive(folder):
        remove_parts(folder, folder / JOURNAL, folder / POSTERIOR)
        run = RunDirectory(_record(folder, identity))
        try:
            yield run
        except BaseException:
            with contextlib.suppress(StorageError, InvalidInputError):
                run.journal.flush()
            raise
        run.journal.flush()


def _record(folder: Path, identity: dict[str, Any]) -> RunRecord:
    now = versions()
    if not (folder / RUN).exists():
        record = RunRecord(folder, secrets.token_hex(8), "running", identity, now, 0.0, 0)
        write_record(record)
        return record
    record = read_run(folder)
    others = differences(record.identity, identity) + differences(record.versions, now)
    if others:
        raise ResumeError(
            f"{folder} holds a run that was started differently ({'; '.join(others)}), and was left"
            " as it is. Use the same settings to resume it, or choose another folder for a new run."
        )
    return record


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(
            f"{folder} is a file: choose another name for the folder of the run."
        )
    check_free(folder)
    check_no_links(folder, RUN, JOURNAL, POSTERIOR, _LOCK)
    taken = [name for name in (JOURNAL, POSTERIOR) if (folder / name).exists()]
    if taken and not (folder / RUN).exists():
        raise InvalidInputError(
            f"{folder} has {' and '.join(taken)} but no {RUN}: it is part of another run, and was"
            " left as it is. Choose another folder."
        )


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Lock the folder, which is made where there is none, while the body runs; the system unlocks
    it when a process dies.

    """
    _check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = opened_lock(folder / _LOCK)
    except OSError as error:
        raise unwritten(folder, error) from None
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ResumeError(
                f"Another process is at work in {folder}: wait for it, or choose another folder."
            ) from None
        except (ImportError, OSError):
            pass  # without file locks, files that exist are not written over
        yield
