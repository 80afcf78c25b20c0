"""What a method says about its own work."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from noisewise._core.json_values import WORDS, as_word, jsonable
from noisewise._core.text import printable
from noisewise.errors import FileFormatError
from noisewise.posteriors.findings import Finding
from noisewise.posteriors.kinds import Kind
from noisewise.posteriors.stop import Stop


@dataclasses.dataclass(frozen=True)
class Report:
    """How a posterior came about.

    The properties `stopped`, `warnings` and `diagnostics` show the fields to people.

    Args:
        method: The method's slug.
        settings: The method's settings, JSON-ready.
        num_simulations: Simulations that were run.
        num_failed: How many of them failed.
        seconds: Time spent.
        stop: Why the work ended: it was finished, or a budget ended.
        exact: Whether the draws have the posterior as their law, up to Monte Carlo error.
        rounds: One JSON-ready record per round.
        numbers: What was measured, by name.
        power: How much of the mechanism's density the draws take into account, from 0 (draws from
            the prior) to 1; None for all of it.
        findings: What a reader must know.
    """

    method: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    num_simulations: int = 0
    num_failed: int = 0
    seconds: float = 0.0
    stop: Stop = dataclasses.field(default_factory=Stop)
    exact: bool = False
    rounds: tuple[dict[str, Any], ...] = ()
    numbers: dict[str, Any] = dataclasses.field(default_factory=dict)
    power: float | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def stopped(self) -> str:
        """Why the work ended, in words: "finished", or which budget ran out."""
        return self.stop.sentence

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings in words."""
        return tuple(finding.sentence for finding in self.findings)

    @property
    def diagnostics(self) -> dict[str, Any]:
        """The numbers, and the power where there is one."""
        return self.numbers if self.power is None else {**self.numbers, "power": self.power}

    def found(self, kind: Kind) -> bool:
        """Whether there is a finding of this kind."""
        return any(finding.kind is kind for finding in self.findings)

    @property
    def partial(self) -> bool:
        """Whether the observation was not taken into account in full: the draws are too wide."""
        return self.power is not None and self.power < 1.0

    @classmethod
    def stated(
        cls,
        method: str,
        *,
        stopped: str = "finished",
        warnings: Iterable[str] = (),
        diagnostics: dict[str, Any] | None = None,
        **more: Any,
    ) -> Report:
        """A report from texts, as earlier versions wrote them, or as a user words them.

        >>> report = Report.stated("mine", warnings=["careful"], diagnostics={"power": 0.5})
        >>> report.power, report.findings[0].kind
        (0.5, <Kind.STATED: 'stated'>)
        """
        numbers = dict(diagnostics or {})
        power = numbers.pop("power", None)
        findings = tuple(map(Finding.stated, warnings))
        stop = Stop.from_record(stopped)
        return cls(method, stop=stop, numbers=numbers, power=power, findings=findings, **more)

    def __str__(self) -> str:
        lines = [
            f"{self.method} ({'exact' if self.exact else 'approximate'}): {self.stopped},"
            f" {self.num_simulations:,} simulations, {self.seconds:.1f} s"
            + (f", {self.num_failed:,} simulations failed" if self.num_failed else "")
        ]
        lines += [f"  {name}: {_shown(value)}" for name, value in self.diagnostics.items()]
        lines += [f"  warning: {text}" for text in self.warnings]
        return printable("\n".join(lines))

    # On disk --------------------------------------------------------------------------------------

    def to_spec(self) -> dict[str, Any]:
        """JSON-ready, with numbers that are not finite as text; `from_spec` reads it back."""
        plain = {name: jsonable(getattr(self, name), as_word) for name in (*_KINDS, "power")}
        findings = [finding.to_spec() for finding in self.findings]
        return {**plain, "stop": self.stop.to_spec(), "findings": findings}

    @staticmethod
    def from_spec(spec: Any) -> Report:
        """Read what `to_spec` wrote, in this version or an earlier one."""
        if not isinstance(spec, dict) or set(spec) not in (_FIELDS, _EARLIER_FIELDS):
            raise FileFormatError(f"A report has the fields {', '.join(sorted(_FIELDS))}.")
        return _current(spec) if set(spec) == _FIELDS else _earlier(spec)


_KINDS: dict[str, Any] = {
    "method": str,
    "settings": dict,
    "num_simulations": int,
    "num_failed": int,
    "seconds": (int, float),
    "exact": bool,
    "rounds": list,
    "numbers": dict,
}
_FIELDS = {*_KINDS, "power", "stop", "findings"}
_EARLIER_KINDS = {name: kind for name, kind in _KINDS.items() if name != "numbers"} | {
    "stopped": str,
    "diagnostics": dict,
    "warnings": list,
}
_EARLIER_FIELDS = set(_EARLIER_KINDS)
"""Before findings had kinds: `stopped` and `warnings` were texts, and `diagnostics` had the power.
"""


def _current(spec: dict[str, Any]) -> Report:
    fields = _checked(spec, _KINDS)
    if not isinstance(spec["findings"], list):
        raise FileFormatError("The field 'findings' of a report must be a list.")
    return Report(
        **fields,
        power=_power(spec["power"]),
        stop=Stop.from_spec(spec["stop"]),
        findings=tuple(map(Finding.from_spec, spec["findings"])),
    )


def _earlier(spec: dict[str, Any]) -> Report:
    fields = _checked(spec, _EARLIER_KINDS)
    if not all(isinstance(text, str) for text in fields["warnings"]):
        raise FileFormatError("The field 'warnings' of a report must be a list of str.")
    _power(fields["diagnostics"].get("power"))
    return Report.stated(**fields)


def _checked(spec: dict[str, Any], kinds: dict[str, Any]) -> dict[str, Any]:
    """The fields of these kinds, with numbers that are not finite as such."""
    fields = {name: _numbers(spec[name]) for name in kinds}
    for name, kind in kinds.items():
        if not isinstance(fields[name], kind):
            expected = "float" if isinstance(kind, tuple) else kind.__name__
            raise FileFormatError(f"The field {name!r} of a report must be a {expected}.")
    if not all(isinstance(record, dict) for record in fields["rounds"]):
        raise FileFormatError("The field 'rounds' of a report must be a list of dict.")
    return {**fields, "rounds": tuple(fields["rounds"])}


def _power(value: Any) -> float | None:
    if value is not None and not isinstance(value, (int, float)):
        raise FileFormatError("The power of a report must be a number.")
    return value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_numbers(item) for item in value]
    return WORDS.get(value, value) if isinstance(value, str) else value


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
