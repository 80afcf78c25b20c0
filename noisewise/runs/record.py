"""What a run directory says of itself.

    path/run.json       schema, identity, versions of packages, "running" or "finished"
    path/journal/       what was simulated and computed so far
    path/posterior/     the posterior, as `posterior.save` writes it, once the run is finished

The identity is the method, its settings, the key, the observation and the model.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

from noisewise import __version__
from noisewise._core.files import PathLike, as_path, write_atomically
from noisewise._core.json_files import (
    check_seal,
    dump_json,
    json_line,
    read_json,
    require_keys,
    require_schema,
    sealed,
)
from noisewise._core.json_values import as_text, jsonable
from noisewise._core.regular_files import check_no_links
from noisewise._core.text import printable
from noisewise.errors import FileFormatError, InvalidInputError, NoisewiseError
from noisewise.runs.journal_files import journal_files, read_contents

SCHEMA, VERSION = "noisewise.run", 1
RUN, JOURNAL, POSTERIOR = "run.json", "journal", "posterior"
_FIELDS = ("id", "status", "identity", "versions", "seconds", "num_simulations", "posterior")
_KEYS = ("schema", "schema_version", *_FIELDS, "sha256")
_IDENTITY = ("method", "settings", "data", "key", "observed", "model")
_STATUS = ("running", "finished")
_LONGEST = 60
"""Characters of a value that a message repeats: two of them fit into a line or two."""


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """A run directory as it is on disk.

    Attributes:
        path: The folder.
        id: A random name of the run, which the files of its journal repeat.
        status: "running" or "finished".
        identity: What a run is resumed by: method, settings, key, observation and model.
        versions: The packages that it began with.
        seconds: How long it has taken so far.
        num_simulations: How many simulations it has made so far.
        posterior: The kind of posterior that it ended with, None before.
        damaged: Files of the journal that cannot be read: what they held would be done again.
    """

    path: Path
    id: str
    status: str
    identity: dict[str, Any]
    versions: dict[str, str]
    seconds: float
    num_simulations: int
    posterior: str | None = None
    damaged: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether there is a posterior."""
        return self.status == "finished"

    @property
    def method(self) -> str:
        """The slug of the method, "infer" where noisewise chose it."""
        return str(self.identity["method"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the method."""
        return dict(self.identity["settings"])

    @property
    def differences(self) -> tuple[str, ...]:
        """In which packages this installation differs from the one that the run began with."""
        return differences(self.versions, versions())

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {self.method}, {self.status}, {self.num_simulations:,} simulations,"
            f" {self.seconds:.0f} s"
        ]
        lines += [f"  damaged, will be done again: {name}" for name in self.damaged]
        lines += [f"  {text}" for text in self.differences]
        return printable("\n".join(lines))


def read_run(path: PathLike) -> RunRecord:
    """Read what a run directory says of itself; files of the journal may be damaged.

    Args:
        path: The folder that `infer(..., run_dir=path)` made.

    Returns:
        The record, with seconds and simulations up to the last readable file of the journal.

    Raises:
        InvalidInputError: If the folder holds no run.
        FileFormatError: If `run.json` is altered, truncated or foreign.

    >>> import tempfile, jax, noisewise as nw
    >>> mean = nw.problems.gaussian_mean(epsilon=1.0)
    >>> method = nw.inference.ImportanceSampling(num_stages=0, num_final=500)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"run_dir": folder, "progress": False}
    ...     posterior = method.infer(jax.random.key(0), mean.model, mean.observed, **options)
    ...     record = nw.runs.read_run(folder)
    >>> record.status, record.method, record.settings["num_final"]
    ('finished', 'importance', 500)
    >>> record.num_simulations == posterior.report.num_simulations
    True
    """
    folder = as_path(path)
    check_run(folder)
    check_no_links(folder, JOURNAL)
    record = _read_record(folder)
    seconds, num, damaged = record.seconds, record.num_simulations, []
    for file in journal_files(folder / JOURNAL):
        try:
            contents = read_contents(file, record.id)
        except NoisewiseError:
            damaged.append(file.name)
        else:
            seconds, num = max(seconds, contents.seconds), max(num, contents.num_simulations)
    return dataclasses.replace(record, seconds=seconds, num_simulations=num, damaged=tuple(damaged))


def posterior_folder(path: PathLike) -> Path:
    """The folder of a posterior: the path itself, or that in the directory of a finished run.

    Args:
        path: The folder of a posterior or of a run.

    Raises:
        InvalidInputError: If the folder is empty, or the run is not finished.
    """
    folder = as_path(path)
    if not (folder / RUN).exists():
        if folder.is_dir() and not any(folder.iterdir()):
            raise InvalidInputError(
                f"{folder} is empty: posterior.save(path) and infer(..., run_dir=path) fill a"
                " folder."
            )
        return folder
    check_no_links(folder, POSTERIOR)
    if not (folder / POSTERIOR / "manifest.json").exists():
        record = read_run(folder)
        raise InvalidInputError(
            f"The run in {folder} is not finished ({record.method}, {record.num_simulations:,}"
            " simulations so far): call infer with the same settings and the same run_dir, and it"
            " resumes where it stopped."
        )
    return folder / POSTERIOR


def check_run(folder: Path) -> None:
    """Refuse a folder that is not a run directory.

    Args:
        folder: What was named as one.

    Raises:
        InvalidInputError: If there is no such folder, or it holds no `run.json`.
    """
    if not folder.exists():
        raise InvalidInputError(f"There is no folder {folder}.")
    if not folder.is_dir():
        raise InvalidInputError(
            f"{folder} is a file: give the folder of a run, as infer(..., run_dir=) makes it."
        )
    if not (folder / RUN).exists():
        raise InvalidInputError(
            f"{folder} holds no run: give a folder that infer(..., run_dir=) made."
        )


def _read_record(folder: Path) -> RunRecord:
    what = f"The run {folder.name}"
    value = read_json(folder / RUN, "run", follow_links=False)
    require_schema(value, SCHEMA, VERSION, what)
    require_keys(value, _KEYS, what)
    check_seal(value, what)
    identity, packages = (
        require_keys(value["identity"], _IDENTITY, f"{what}: its identity"),
        value["versions"],
    )
    _check_counts(value, packages, what)
    if not isinstance(identity["method"], str) or not isinstance(identity["settings"], dict):
        raise FileFormatError(f"{what} must name its method and its settings.")
    if not isinstance(value["id"], str) or value["status"] not in _STATUS:
        raise FileFormatError(f"{what} must have an id and a status.")
    if value["posterior"] is not None and not isinstance(value["posterior"], str):
        raise FileFormatError(f"{what} must name the kind of its posterior.")
    fields = {
        name: value[name] for name in ("id", "status", "seconds", "num_simulations", "posterior")
    }
    return RunRecord(folder, identity=identity, versions=packages, **fields)


def _check_counts(value: dict[str, Any], packages: Any, what: str) -> None:
    texts = isinstance(packages, dict) and all(isinstance(text, str) for text in packages.values())
    whole = type(value["num_simulations"]) is int and value["num_simulations"] >= 0
    if not texts or not whole or not isinstance(value["seconds"], float) or value["seconds"] < 0.0:
        raise FileFormatError(f"{what} must have versions, simulations and seconds.")


def write_record(record: RunRecord) -> None:
    """Write `run.json`, whole or not at all."""
    value = {
        "schema": SCHEMA,
        "schema_version": VERSION,
        **{name: getattr(record, name) for name in _FIELDS},
    }
    write_atomically(record.path / RUN, dump_json(sealed(value)), overwrite=True)


def versions() -> dict[str, str]:
    """The versions of packages that numbers may depend on, and the device, by name."""
    import jax

    packages = {
        name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy", "flowjax")
    }
    python = ".".join(platform.python_version_tuple()[:2])
    return {"noisewise": __version__, **packages, "python": python, "device": jax.default_backend()}


def json_ready(value: Any) -> Any:
    """A value as it is read back from JSON, with numbers that are not finite as text."""
    return jsonable(value, as_text)


def differences(there: dict[str, Any], now: dict[str, Any], inside: str = "") -> tuple[str, ...]:
    """How two JSON objects differ.

    Args:
        there: The object on disk.
        now: The present one.
        inside: What both are a part of, with a space at the end.

    Returns:
        Sentences such as "num_simulations: 1000 there, 2000 now", one for each difference.
    """
    found: list[str] = []
    for name in dict.fromkeys([*there, *now]):
        old, new = there.get(name), now.get(name)
        label = f"{inside}{name}"
        if isinstance(old, dict) and isinstance(new, dict):
            within = "" if name == "settings" else f"{label} "
            found += differences(old, new, within)
        elif old != new or type(old) is not type(new):
            texts = [json_line(value) for value in (old, new)]
            short = max(map(len, texts)) <= _LONGEST and name not in ("key", "data", "prior")
            found.append(
                f"{label}: {texts[0]} there, {texts[1]} now"
                if short
                else f"{label}: another one now"
            )
    return tuple(found)
