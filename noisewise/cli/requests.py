"""What `noisewise infer` was asked to do, and the file in the run directory that remembers it.

| file | content |
|---|---|
| out/command.json | the request; written before the work starts, last of all inputs |
| out/inputs/ | copies of the releases |
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from noisewise import __version__
from noisewise._core.files import write_atomically
from noisewise._core.json_files import (
    MAX_BYTES,
    dump_json,
    reading,
)
from noisewise._core.regular_files import read_regular
from noisewise.cli import catalogue, model_files
from noisewise.cli.request_files import (
    COMMAND,
    INPUTS,
    SCHEMA,
    VERSION,
    check_record,
    digest,
    identity,
    read_record,
    require_same,
)
from noisewise.errors import FileFormatError, InvalidInputError


class Asked(Protocol):
    """What is run: a `Request`, or a regression."""

    @property
    def target(self) -> str: ...
    @property
    def out(self) -> Path: ...
    @property
    def method(self) -> str | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def certify(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def command(self) -> str: ...
    @property
    def resume_command(self) -> str: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """One inference: its problem or model file, releases, settings, and place for the result.

    Attributes:
        target: A ready problem, or a model file and the name in it: model.py:model.
        out: The run directory.
        releases: Files of releases.
        method: The method's slug; None for the cheapest route.
        epsilon: The privacy budget of a ready problem; None for its own.
        seed: The seed of the key.
        settings: Settings of the method, by name.
        certify: Simulations that judge an answer that is not exact.
        workers: Processes for simulators in plain Python.
        described: Whether a run directory says all this and not the user: then no file that it
            names is run.
    """

    target: str
    out: Path
    releases: tuple[Path, ...] = ()
    method: str | None = None
    epsilon: float | None = None
    seed: int = 1
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    certify: int = 50_000
    workers: int = 1
    described: bool = False

    def __post_init__(self) -> None:
        if not self._is_path:
            object.__setattr__(self, "target", catalogue.slug_of(self.target))
        if self.method is not None:
            object.__setattr__(self, "method", catalogue.slug_of(self.method))

    @property
    def file(self) -> tuple[Path, str] | None:
        """The model file and the name in it, if the target is one: 'model.py:model', or
        'model.py' for short.
        """
        return model_files.parsed(self.target)

    @functools.cached_property
    def model_file(self) -> model_files.ModelFile:
        """The model file with its content, which is read here and nowhere else."""
        if self.described or self.file is None:
            raise InvalidInputError(without_model(self, "resume"))
        return model_files.read(*self.file)

    @property
    def _is_path(self) -> bool:
        return "." in self.target or "/" in self.target

    @property
    def argv(self) -> list[str]:
        """The command that repeats this request."""
        words = ["noisewise", "infer", self.target]
        for flag, value in (("--method", self.method), ("--epsilon", self.epsilon)):
            words += (
                [] if value is None else [flag, f"{value:g}" if isinstance(value, float) else value]
            )
        for path in self.releases:
            words += ["--release", str(path)]
        for name, value in self.settings.items():
            words += ["--set", f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"]
        words += ["--seed", str(self.seed), "--out", str(self.out)]
        words += [] if self.certify == 50_000 else ["--certify", str(self.certify)]
        return words + ([] if self.workers == 1 else ["--workers", str(self.workers)])

    @property
    def command(self) -> str:
        """The command that repeats this request, to paste into a shell."""
        return shlex.join(self.argv)

    @property
    def resume_command(self) -> str:
        """The command that resumes this run."""
        words = ["noisewise", "resume", str(self.out)]
        file = self.file
        if file is not None and model_files.recalled(self.out, identity(self._record())) is None:
            words += ["--model", model_files.spelt(*file)]
        return shlex.join(words)

    def check(self) -> None:
        """Refuse what cannot be right, before anything heavy is loaded.

        Raises:
            InvalidInputError: If there is no such problem, method or file, or options contradict.
        """
        if self.method is not None:
            catalogue.find("method", self.method, catalogue.methods())
        if self.method == "confidential":
            raise InvalidInputError(
                "The method 'confidential' needs the confidential data: use"
                " nw.inference.ConfidentialPosterior in Python."
            )
        self._check_epsilon()
        if self.file is None:
            self._check_problem()
        else:
            _ = self.model_file
            if not self.releases:
                raise InvalidInputError(
                    "A model file needs the numbers that were released: pass --release"
                    " release.json."
                )
        digests = [digest(path) for path in self.releases]
        if len(set(digests)) < len(digests):
            raise InvalidInputError("The same release is given twice: it counts once.")

    def _check_epsilon(self) -> None:
        if self.epsilon is None:
            return
        if self.file or self.releases:
            raise InvalidInputError(
                "--epsilon chooses the noise of a ready problem, but here the release says what"
                " it is."
            )
        if not 0.0 < self.epsilon < float("inf"):
            raise InvalidInputError(
                f"--epsilon must be a finite number above 0, got {self.epsilon:g}."
            )

    def _check_problem(self) -> None:
        if self._is_path:
            raise InvalidInputError(
                f"{self.target!r} is neither a ready problem nor a Python file: write"
                " model.py:model, or see noisewise problems."
            )
        catalogue.find("problem", self.target, catalogue.problems())

    def remember(self) -> bool:
        """Write the request into its run directory, or refuse one that holds something else.

        Returns:
            Whether the directory alone is enough to resume it: this machine's own record knows the
            model file, if there is one.
        """
        record = self._record()
        self._write(record)
        return self.file is None or model_files.remember(
            self.out, identity(record), self.model_file
        )

    def _write(self, record: dict[str, Any]) -> None:
        path = self.out / COMMAND
        if os.path.lexists(path):
            stored = read_record(self.out)
            require_same(stored, record, self.out)
            if stored["certify"] != self.certify:
                write_atomically(path, dump_json(record), overwrite=True)
            return
        if self.out.is_dir() and any(self.out.iterdir()):
            raise InvalidInputError(
                f"{self.out} holds files, but no {COMMAND} of an earlier run: choose a new folder"
                " for --out."
            )
        try:
            (self.out / INPUTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"{self.out} cannot be made: {error.strerror}.") from None
        for source, entry in zip(self.releases, record["releases"], strict=True):
            content = read_regular(source, limit=MAX_BYTES)
            if hashlib.sha256(content).hexdigest() != entry["sha256"]:
                raise InvalidInputError(f"{source} changed while it was read: start again.")
            write_atomically(self.out / entry["copy"], content, overwrite=True)
        write_atomically(path, dump_json(record), overwrite=False)

    def _copy(self, number: int, path: Path) -> str:
        """Where the copy of a release lies in the run directory; a copy is its own."""
        own = path.parent.resolve() == (self.out / INPUTS).resolve()
        return f"{INPUTS}/{path.name}" if own else f"{INPUTS}/{number}-{path.name}"

    def _record(self) -> dict[str, Any]:
        file = self.file
        copies = [self._copy(number, path) for number, path in enumerate(self.releases, start=1)]
        return {
            "schema": SCHEMA,
            "schema_version": VERSION,
            "noisewise": __version__,
            "argv": self.argv,
            "problem": self.target if file is None else None,
            "file": (
                None
                if file is None
                else {
                    "path": os.path.relpath(file[0].resolve(), self.out.resolve()),
                    "name": file[1],
                    "sha256": self.model_file.sha256,
                }
            ),
            "releases": [
                {"copy": copy, "sha256": digest(path)}
                for copy, path in zip(copies, self.releases, strict=True)
            ],
            "method": self.method,
            "epsilon": self.epsilon,
            "seed": self.seed,
            "settings": dict(self.settings),
            "certify": self.certify,
            "workers": self.workers,
        }


def described(out: Path) -> Request:
    """The request that a run directory describes, with its inputs unaltered. A model file in it is
    only a description: none is run because of it.
    """
    return _described(out)[0]


def remembered(out: Path, model: str | None = None, *, command: str = "resume") -> Request:
    """The request of a run directory, to be run again.

    Args:
        out: The run directory.
        model: The model file that the user names; None for the one in this machine's own record of
            this very run.
        command: The command to name in messages.

    Raises:
        InvalidInputError: If there is no model file to trust, or it was changed.
    """
    request, record = _described(out)
    stored = record["file"]
    if stored is None:
        if model is not None:
            raise InvalidInputError(
                f"{out} is a run of the ready problem {request.target}: leave out --model."
            )
        return request
    path, name = (
        _named(model, stored["name"]) if model is not None else _recalled(request, record, command)
    )
    request = dataclasses.replace(request, target=f"{path}:{name}", described=False)
    if request.model_file.sha256 != stored["sha256"]:
        raise InvalidInputError(
            f"{path} was changed since the run started: restore it, or start a new run."
        )
    return request


def without_model(request: Request, command: str) -> str:
    """Why a model file is not run, and the line that runs it."""
    file = request.file
    line = shlex.join(
        [
            "noisewise",
            command,
            str(request.out),
            "--model",
            model_files.spelt(*file) if file else "FILE",
        ]
    )
    return (
        f"{request.out} names a model file, but a run directory may be a stranger's, and no file in"
        f" it decides what code runs: if you trust that file, write {line}"
    )


def _named(model: str, stored: str) -> tuple[Path, str]:
    """The file that the user names; the name in it must be that of the run, and be written where it
    is not the usual one.
    """
    found = model_files.parsed(model)
    if found is None:
        raise InvalidInputError(
            f"--model takes a Python file, as in --model model.py:model, got {model!r}."
        )
    if found[1] != stored:
        raise InvalidInputError(
            f"The run uses {stored!r} from its model file, not {found[1]!r}: write --model"
            f" {found[0]}:{stored}"
        )
    return found


def _recalled(request: Request, record: dict[str, Any], command: str) -> tuple[Path, str]:
    """The file of this machine's own record."""
    stored, found = record["file"], model_files.recalled(request.out, identity(record))
    if found is None or found[1:] != (stored["name"], stored["sha256"]):
        raise InvalidInputError(without_model(request, command))
    return Path(os.path.relpath(found[0])), found[1]


def _described(out: Path) -> tuple[Request, dict[str, Any]]:
    record = read_record(out)
    with reading(f"{out / COMMAND}"):
        check_record(record)
        releases = tuple(out / entry["copy"] for entry in record["releases"])
        target = record["problem"]
        if target is not None:
            if not re.fullmatch(r"[\w-]+", target):
                raise FileFormatError("it names no ready problem.")
        else:
            path = Path(os.path.realpath(out / record["file"]["path"]))
            if path.is_relative_to(os.path.realpath(out)):
                raise FileFormatError(
                    "it names a model file inside the run directory, where noisewise puts none."
                )
            target = f"{os.path.relpath(path)}:{record['file']['name']}"
            if model_files.parsed(target) is None:
                raise FileFormatError("it names a model file that is not a Python file.")
        names = ("method", "epsilon", "seed", "settings", "certify", "workers")
        given = {name: record[name] for name in names}
        request = Request(target=target, out=out, releases=releases, described=True, **given)
    for path, entry in zip(releases, record["releases"], strict=True):
        if digest(path, follow_links=False) != entry["sha256"]:
            raise FileFormatError(
                f"{path} was altered since the run started: start a new run with the release you"
                " have."
            )
    return request, record
