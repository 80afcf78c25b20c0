"""What a method says about its own work."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from noisewise._text import printable
from noisewise.errors import FileFormatError


@dataclasses.dataclass(frozen=True)
class Report:
    """How a posterior came about.

    `stopped` says why the work ended: "finished", or which budget ran out. `exact` says whether the draws have the posterior as
    their law, up to Monte Carlo error. `rounds` holds one JSON-ready record per round, `diagnostics` named numbers.
    """

    method: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    num_simulations: int = 0
    num_failed: int = 0
    seconds: float = 0.0
    stopped: str = "finished"
    exact: bool = False
    rounds: tuple[dict[str, Any], ...] = ()
    diagnostics: dict[str, Any] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.method} ({'exact' if self.exact else 'approximate'}): {self.stopped}, {self.num_simulations:,} simulations, "
            f"{self.seconds:.1f} s" + (f", {self.num_failed:,} simulations failed" if self.num_failed else "")
        ]
        lines += [f"  {name}: {_shown(value)}" for name, value in self.diagnostics.items()]
        lines += [f"  warning: {text}" for text in self.warnings]
        return printable("\n".join(lines))

    def to_spec(self) -> dict[str, Any]:
        """JSON-ready, with numbers that are not finite as text; `from_spec` reads it back."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @staticmethod
    def from_spec(spec: Any) -> Report:
        """Read what `to_spec` wrote."""
        names = {field.name for field in dataclasses.fields(Report)}
        if not isinstance(spec, dict) or set(spec) != names:
            raise FileFormatError(f"A report has the fields {', '.join(sorted(names))}.")
        spec = {name: _numbers(value) for name, value in spec.items()}
        lists = {name: tuple(spec[name]) if isinstance(spec[name], list) else None for name in ("rounds", "warnings")}
        report = Report(**{**spec, **lists})
        for field, default in zip(dataclasses.fields(Report), dataclasses.astuple(Report("")), strict=True):
            value = getattr(report, field.name)
            if not isinstance(value, (int, float) if isinstance(default, float) else type(default)):
                raise FileFormatError(f"The field {field.name!r} of a report must be a {type(default).__name__}.")
        for kind, name in ((dict, "rounds"), (str, "warnings")):
            if not all(isinstance(item, kind) for item in getattr(report, name)):
                raise FileFormatError(f"The field {name!r} of a report must be a list of {kind.__name__}.")
        return report


_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_numbers(item) for item in value]
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
