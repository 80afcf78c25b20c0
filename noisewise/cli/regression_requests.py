"""What `noisewise regress` was asked to do, and the file in the run directory that remembers it.

| file | content |
|---|---|
| out/regression.json | the request, and the sha256 of the data, of which no copy is kept |

A formula is computed, so that no file may decide it: a run goes on when its command is repeated.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewise import __version__
from noisewise._core.files import write_atomically
from noisewise._core.json_files import dump_json, read_json, require_keys, require_schema
from noisewise._core.regular_files import check_no_links, read_regular
from noisewise.cli.regression_texts import mechanism_in, priors_in, require_column
from noisewise.cli.request_files import REGRESSION
from noisewise.cli.targets import Target
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

_SCHEMA, _VERSION = "noisewise.regression", 1
_MAX_BYTES = 64 * 2**20
"""Bytes of a file of data: a survey of a million people."""
_OTHER_MARKS = ";\t|"
"""What separates cells in files that are not separated by commas."""
_FIRST_ROW = 2
"""The number of the first row below the names of the columns, as spreadsheets count."""
_FREE = ("schema", "schema_version", "noisewise", "argv")
"""What may differ between a run and its repetition."""
_PARTS = (REGRESSION, "run.json", "journal", "posterior", "certificate.json", "report.html")
"""What is read or written in a run directory: none of it may be a symbolic link."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressionRequest:
    """One regression: the data, the formula, the mechanism, and a place for the result.

    Attributes:
        data: A file of comma separated values.
        formula: As `nw.regression` takes it.
        law: The law of the outcome.
        mechanisms: What --mechanism says, once or for each entry of `by`.
        parameters: What --set says.
        out: The run directory; None for one under runs/.
        by: The column that chooses among mechanisms.
        priors: What --prior says.
        link: The link.
        offset: The column of offsets.
        weights: The column of weights, for the mean over rows.
        missing: What --missing says: COLUMN=TEXT.
        absent: What stands for suppressed outcomes.
        drop_missing: Whether rows that lack a covariate are left out.
        separator: What stands between cells.
        seed: The seed of the key.
        settings: Budgets of `nw.infer`.
        certify: Simulations that judge an answer that is not exact.
        workers: 1.
        method: None: the cheapest route.
    """

    data: Path
    formula: str
    law: str
    mechanisms: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    place: Path | None = None
    by: str | None = None
    priors: tuple[str, ...] = ()
    link: str | None = None
    offset: str | None = None
    weights: str | None = None
    missing: str | None = None
    absent: str | None = None
    drop_missing: bool = False
    separator: str = ","
    seed: int = 1
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    certify: int = 50_000
    workers: int = 1
    method: str | None = None

    @property
    def target(self) -> str:
        """What it is called."""
        return f"{self.formula}, {self.data.name}"

    @property
    def out(self) -> Path:
        """The run directory."""
        return self.place or Path("runs") / f"{self.data.stem}-regress-seed{self.seed}"

    @property
    def argv(self) -> list[str]:
        """The command that repeats this request."""
        words = ["noisewise", "regress", str(self.data), self.formula, "--law", self.law]
        words += [] if self.by is None else ["--by", self.by]
        many = {"--mechanism": self.mechanisms, "--set": self.parameters, "--prior": self.priors}
        words += [
            word for flag, values in many.items() for value in values for word in (flag, value)
        ]
        for name in ("link", "offset", "weights", "missing", "absent"):
            value = getattr(self, name)
            words += [] if value is None else [f"--{name}", value]
        words += ["--drop-missing"] if self.drop_missing else []
        words += [] if self.separator == "," else ["--separator", self.separator]
        for name, value in self.settings.items():
            words += [f"--{name.replace('_', '-')}", f"{value}"]
        return [*words, "--seed", str(self.seed), "--out", str(self.out)]

    @property
    def command(self) -> str:
        """The command that repeats this request, to paste into a shell."""
        return shlex.join(self.argv)

    @property
    def resume_command(self) -> str:
        """The command that resumes this run."""
        return self.command

    # The model ------------------------------------------------------------------------------------

    def load(self) -> tuple[Target, str]:
        """The model with its observation, and the sha256 of the data.

        Raises:
            InvalidInputError: If options, columns or outcomes do not fit each other.
        """
        from noisewise.regressions import regression

        priors = priors_in(self.priors)
        content = read_regular(self.data, limit=_MAX_BYTES, too_large="select the rows you need.")
        frame = self._complete(self._frame(content))
        mechanism = mechanism_in(
            self.mechanisms,
            self.parameters,
            frame,
            by=self.by,
            priors=priors,
            file=self.data.name,
        )
        analysis = regression(
            self.formula,
            frame,
            law=self.law,
            mechanism=mechanism,
            link=self.link,
            offset=self.offset,
            prior=priors,
            missing=self._not_measured(frame),
        )
        weights = self._weights(analysis, frame)
        observed: Any = analysis.observed
        target = Target(self.target, analysis.model, observed, analysis=analysis, weights=weights)
        return target, hashlib.sha256(content).hexdigest()

    def _frame(self, content: bytes) -> pd.DataFrame:
        import pandas as pd

        from noisewise.regressions.formulas import outcome_of

        name, outcome = self.data.name, outcome_of(self.formula)
        absent: Any = None if self.absent is None else {outcome: [self.absent]}
        try:
            frame = pd.read_csv(
                io.BytesIO(content), sep=self.separator, na_values=absent, low_memory=False
            )
        except (ValueError, UnicodeDecodeError) as error:  # pandas' own errors are ValueErrors
            reason = " ".join(str(error).split())
            raise InvalidInputError(
                f"{name} cannot be read as comma separated values ({reason}): its first line must"
                " name the columns, and every other line have a cell for each."
            ) from None
        if len(frame.columns) == 1 and any(mark in frame.columns[0] for mark in _OTHER_MARKS):
            raise InvalidInputError(
                f"{name} is not separated by {self.separator!r}: write --separator, as in"
                " --separator ';'."
            )
        if self.absent is not None:
            require_column(outcome, frame, name, "The formula")
        frame.index = pd.RangeIndex(_FIRST_ROW, _FIRST_ROW + len(frame))
        return frame.rename(columns=lambda column: str(column).strip())

    def _complete(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Without rows that lack a covariate, where that is asked for."""
        from noisewise.regressions.formulas import variables_of

        if not self.drop_missing:
            return frame
        names = [name for name in sorted(variables_of(self.formula)) if name in frame.columns]
        kept = frame.dropna(subset=names)
        if kept.empty:
            raise InvalidInputError(
                f"Every row of {self.data.name} lacks one of {', '.join(names)}: leave one out of"
                " the formula."
            )
        return kept

    def _not_measured(self, frame: pd.DataFrame) -> np.ndarray | None:
        """Rows that --missing names."""
        if self.missing is None:
            return None
        column, equals, text = self.missing.partition("=")
        if not equals:
            raise InvalidInputError(
                f"--missing takes COLUMN=TEXT, such as status=no_file, got {self.missing!r}."
            )
        require_column(column, frame, self.data.name, "--missing")
        import pandas as pd

        values = frame[column]
        same = values.astype(str).str.strip() == text
        if pd.api.types.is_numeric_dtype(values.dtype):
            same = same | (values == pd.to_numeric(text, errors="coerce"))
        if not same.any():
            raise InvalidInputError(
                f"--missing {self.missing}: the column {column!r} of {self.data.name} has nowhere"
                f" {text!r}."
            )
        marks: np.ndarray = same.to_numpy(dtype=bool)
        return marks

    def _weights(self, analysis: Any, frame: pd.DataFrame) -> np.ndarray | None:
        from noisewise.regressions.frames import numbers

        if self.weights is None:
            return None
        require_column(self.weights, frame, self.data.name, "--weights")
        found: np.ndarray = analysis.check_weights(
            numbers(frame, self.weights, "--weights: the column"), len(frame)
        )
        return found

    # The run directory ----------------------------------------------------------------------------

    def remember(self, sha256: str) -> None:
        """Write the request into its run directory, or refuse one that holds something else."""
        record = self._record(sha256)
        path = self.out / REGRESSION
        if os.path.lexists(path):
            self._require_same(record)
            return
        if self.out.is_dir() and any(self.out.iterdir()):
            raise InvalidInputError(
                f"{self.out} holds files, but no {REGRESSION} of an earlier run: choose a new"
                " folder for --out."
            )
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"{self.out} cannot be made: {error.strerror}.") from None
        write_atomically(path, dump_json(record), overwrite=False)

    def _record(self, sha256: str) -> dict[str, Any]:
        own = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("data", "place")
        }
        plain = {
            name: list(value) if isinstance(value, tuple) else value for name, value in own.items()
        }
        return {
            "schema": _SCHEMA,
            "schema_version": _VERSION,
            "noisewise": __version__,
            "argv": self.argv,
            "sha256": sha256,
            **plain,
        }

    def _require_same(self, asked: dict[str, Any]) -> None:
        check_no_links(self.out, *_PARTS)
        path = self.out / REGRESSION
        stored = read_json(path, "The file", follow_links=False)
        require_schema(stored, _SCHEMA, _VERSION, f"The file {path}")
        require_keys(stored, tuple(asked), f"The file {path}")
        other = [name for name in asked if name not in _FREE and stored[name] != asked[name]]
        if other:
            words = ", ".join("the data" if name == "sha256" else name for name in other)
            raise InvalidInputError(
                f"{self.out} holds another regression (not the same: {words}): choose another"
                " folder, --out runs/NAME."
            )
