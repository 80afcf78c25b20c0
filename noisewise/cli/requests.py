"""What `noisewise infer` was asked to do, and the file in the run directory that remembers it.

| file | content |
|---|---|
| out/command.json | the request; written before the work starts, last of all inputs |
| out/inputs/ | copies of the releases |
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisewise import __version__
from noisewise._files import dump_json, read_json, reading, require_keys, require_schema, write_atomically
from noisewise.cli import catalogue
from noisewise.errors import FileFormatError, InvalidInputError

COMMAND = "command.json"
_INPUTS = "inputs"
_SCHEMA, _VERSION = "noisewise.command", 1
_FREE = ("argv", "noisewise", "workers", "certify")
"""What may differ between a run and its resumption; with another `certify` the posterior is certified anew."""
_MAX_BYTES = 16 * 2**20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """One inference: which problem or model file, which releases, how, and where to put the result."""

    target: str
    out: Path
    releases: tuple[Path, ...] = ()
    method: str | None = None
    epsilon: float | None = None
    seed: int = 1
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    certify: int = 50_000
    workers: int = 1

    def __post_init__(self) -> None:
        if not self._is_path:
            object.__setattr__(self, "target", catalogue.slug_of(self.target))
        if self.method is not None:
            object.__setattr__(self, "method", catalogue.slug_of(self.method))

    @property
    def file(self) -> tuple[Path, str] | None:
        """The model file and the name in it, where the target is one: 'model.py:model', or 'model.py' for short."""
        found = re.fullmatch(r"(.+\.py)(?::(\w+))?", self.target)
        return None if found is None else (Path(found[1]), found[2] or "model")

    @property
    def _is_path(self) -> bool:
        return "." in self.target or "/" in self.target

    @property
    def argv(self) -> list[str]:
        """The command that repeats this request."""
        words = ["noisewise", "infer", self.target]
        for flag, value in (("--method", self.method), ("--epsilon", self.epsilon)):
            words += [] if value is None else [flag, f"{value:g}" if isinstance(value, float) else value]
        for path in self.releases:
            words += ["--release", str(path)]
        for name, value in self.settings.items():
            words += ["--set", f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"]
        words += ["--seed", str(self.seed), "--out", str(self.out)]
        words += [] if self.certify == 50_000 else ["--certify", str(self.certify)]
        return words + ([] if self.workers == 1 else ["--workers", str(self.workers)])

    @property
    def command(self) -> str:
        """The same, to paste into a shell."""
        return shlex.join(self.argv)

    @property
    def resume_command(self) -> str:
        """What goes on with this run."""
        return shlex.join(["noisewise", "resume", str(self.out)])

    def check(self) -> None:
        """Refuse what cannot be right, before anything heavy is loaded."""
        if self.method is not None:
            catalogue.find("method", self.method, catalogue.methods())
        if self.method == "confidential":
            raise InvalidInputError(
                "The method 'confidential' needs the confidential data: use nw.inference.ConfidentialPosterior in Python."
            )
        if self.epsilon is not None and (self.file or self.releases):
            raise InvalidInputError(
                "--epsilon chooses the noise of a ready problem, but here the release says what it is."
            )
        if self.epsilon is not None and not 0.0 < self.epsilon < float("inf"):
            raise InvalidInputError(f"--epsilon must be a finite number above 0, got {self.epsilon:g}.")
        if self.file is None:
            self._check_problem()
        else:
            _digest(self.file[0])
            if not self.releases:
                raise InvalidInputError(
                    "A model file needs the numbers that were released: pass --release release.json."
                )
        digests = [_digest(path) for path in self.releases]
        if len(set(digests)) < len(digests):
            raise InvalidInputError("The same release is given twice: it counts once.")

    def _check_problem(self) -> None:
        if self._is_path:
            raise InvalidInputError(
                f"{self.target!r} is neither a ready problem nor a Python file: write model.py:model, or see noisewise problems."
            )
        catalogue.find("problem", self.target, catalogue.problems())

    def remember(self) -> None:
        """Write the request into its run directory, or refuse one that holds something else."""
        record, path = self._record(), self.out / COMMAND
        if path.exists():
            stored = _read(self.out)
            _require_same(stored, record, self.out)
            if stored["certify"] != self.certify:
                write_atomically(path, dump_json(record), overwrite=True)
            return
        if self.out.is_dir() and any(self.out.iterdir()):
            raise InvalidInputError(
                f"{self.out} holds files, but no {COMMAND} of an earlier run: choose a new folder for --out."
            )
        try:
            (self.out / _INPUTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"{self.out} cannot be made: {error.strerror}.") from None
        for source, entry in zip(self.releases, record["releases"], strict=True):
            write_atomically(self.out / entry["copy"], source.read_bytes(), overwrite=True)
        write_atomically(path, dump_json(record), overwrite=False)

    def _copy(self, number: int, path: Path) -> str:
        """Where the copy of a release lies in the run directory; a copy is its own."""
        own = path.parent.resolve() == (self.out / _INPUTS).resolve()
        return f"{_INPUTS}/{path.name}" if own else f"{_INPUTS}/{number}-{path.name}"

    def _record(self) -> dict[str, Any]:
        file = self.file
        copies = [self._copy(number, path) for number, path in enumerate(self.releases, start=1)]
        return {
            "schema": _SCHEMA,
            "schema_version": _VERSION,
            "noisewise": __version__,
            "argv": self.argv,
            "problem": self.target if file is None else None,
            "file": None
            if file is None
            else {
                "path": os.path.relpath(file[0].resolve(), self.out.resolve()),
                "name": file[1],
                "sha256": _digest(file[0]),
            },
            "releases": [
                {"copy": copy, "sha256": _digest(path)} for copy, path in zip(copies, self.releases, strict=True)
            ],
            "method": self.method,
            "epsilon": self.epsilon,
            "seed": self.seed,
            "settings": dict(self.settings),
            "certify": self.certify,
            "workers": self.workers,
        }


def remembered(out: Path, *, changed_file_is_an_error: bool = True) -> Request:
    """The request that a run directory remembers, its inputs unaltered."""
    record = _read(out)
    with reading(f"{out / COMMAND}"):
        _check(record)
        releases = tuple(out / entry["copy"] for entry in record["releases"])
        target = record["problem"]
        if target is None:
            path = (out / record["file"]["path"]).resolve()
            if path.is_relative_to(out.resolve()):
                raise FileFormatError("it names a model file inside the run directory, where noisewise puts none.")
            target = f"{os.path.relpath(path)}:{record['file']['name']}"
        names = ("method", "epsilon", "seed", "settings", "certify", "workers")
        request = Request(target=target, out=out, releases=releases, **{name: record[name] for name in names})
    for path, entry in zip(releases, record["releases"], strict=True):
        if _digest(path) != entry["sha256"]:
            raise FileFormatError(
                f"{path} was altered since the run started: start a new run with the release you have."
            )
    if changed_file_is_an_error and request.file is not None and _digest(request.file[0]) != record["file"]["sha256"]:
        raise InvalidInputError(
            f"{request.file[0]} was changed since the run started: bring it back, or start a new run."
        )
    return request


def _read(out: Path) -> dict[str, Any]:
    if not out.is_dir():
        raise InvalidInputError(f"There is no run {out}.")
    if not (out / COMMAND).exists():
        raise InvalidInputError(f"{out} is not a run of noisewise infer: it has no {COMMAND}.")
    what = f"The file {out / COMMAND}"
    record = read_json(out / COMMAND, "The file")
    require_schema(record, _SCHEMA, _VERSION, what)
    keys = ("problem", "file", "releases", "method", "epsilon", "seed", "settings")
    require_keys(record, ("schema", "schema_version", *_FREE, *keys), what)
    named = {name: record[name] for name in ("problem", "method") if isinstance(record[name], str)}
    return record | {name: catalogue.slug_of(given) for name, given in named.items()}


def _check(record: dict[str, Any]) -> None:
    """Refuse values of other types than `Request` writes, and copies that lie elsewhere: the file may be a stranger's."""
    needed = {"seed": int, "certify": int, "workers": int, "settings": dict, "releases": list}
    optional = {"method": str, "epsilon": float, "problem": str, "file": dict}
    for name, kind in (needed | optional).items():
        left_out = name in optional and record[name] is None
        if not left_out and type(record[name]) is not kind:
            raise FileFormatError(f"{name} must be a {kind.__name__}.")
    if (record["problem"] is None) == (record["file"] is None):
        raise FileFormatError("it must name either a problem or a model file.")
    for value in record["settings"].values():
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise FileFormatError("settings must be numbers or texts.")
    for entry in record["releases"]:
        require_keys(entry, ("copy", "sha256"), "A release")
        if not re.fullmatch(rf"{_INPUTS}/\d+-[^/\\]+", str(entry["copy"])):
            raise FileFormatError(f"copies of releases lie in {_INPUTS}/.")


def _require_same(stored: dict[str, Any], asked: dict[str, Any], out: Path) -> None:
    others = [name for name, value in asked.items() if name not in _FREE and stored[name] != value]
    if others:
        told = "; ".join(f"{name}: {_short(stored[name])} there, {_short(asked[name])} now" for name in others)
        raise InvalidInputError(
            f"{out} holds another run ({told}): choose another --out, or go on with that one by noisewise resume {out}."
        )


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "others" if value else "none"
    return "the default" if value is None else str(value)[:60]


def _digest(path: Path) -> str:
    try:
        if path.is_dir():
            raise InvalidInputError(f"{path} is a folder, not a file.")
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidInputError(
                f"{path} is larger than {_MAX_BYTES // 2**20} MiB: this is not a file noisewise reads."
            )
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise InvalidInputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
