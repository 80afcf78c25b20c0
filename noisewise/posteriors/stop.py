"""Why the work on a posterior ended."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from noisewise._core.json_files import json_line
from noisewise.errors import FileFormatError
from noisewise.posteriors.findings import Said
from noisewise.posteriors.kinds import StopKind

_RECORDED = {
    StopKind.FINISHED: "finished",
    StopKind.TIME_SPENT: "the time budget is spent",
    StopKind.BUDGET_SPENT: "a budget is spent",
    StopKind.SHORT_OF_TARGET: "short of the target",
    StopKind.NOTHING_POSSIBLE: "no simulated statistic gives the observation positive probability",
}
_BUDGET = "the budget of {budget:,} simulations is spent"
_BUDGET_PATTERN = re.compile(r"the budget of ([0-9]{1,3}(?:,[0-9]{3}){0,9}) simulations is spent")
"""By these words journals and files of earlier versions name reasons. They are a file format:
what people read is in `sentences.stops`."""


@dataclasses.dataclass(frozen=True)
class Stop(Said):
    """Why the work on a posterior ended: a `kind`, and `numbers` such as the budget that was spent.

    >>> str(Stop(StopKind.SIMULATIONS_SPENT, {"budget": 1000})), Stop().finished
    ('the budget of 1,000 simulations is spent', True)
    """

    kind: StopKind = StopKind.FINISHED
    __hash__ = Said.__hash__

    @property
    def finished(self) -> bool:
        """Whether nothing ended the work before it was done."""
        return self.kind is StopKind.FINISHED

    @classmethod
    def from_spec(cls, spec: Any) -> Stop:
        """Read what `to_spec` wrote."""
        return cls._from_spec(spec, StopKind)

    def to_record(self) -> str:
        """The text that journals keep; earlier versions can read it."""
        if self.kind is StopKind.SIMULATIONS_SPENT:
            return _BUDGET.format(**self.numbers)
        return _RECORDED.get(self.kind) or json_line(self.to_spec(), sort_keys=True)

    @classmethod
    def from_record(cls, text: str) -> Stop:
        """Read what `to_record` wrote, or the text that an earlier version wrote in its place."""
        for kind, recorded in _RECORDED.items():
            if text == recorded:
                return cls(kind)
        spent = _BUDGET_PATTERN.fullmatch(text)
        if spent:
            return cls(StopKind.SIMULATIONS_SPENT, {"budget": int(spent[1].replace(",", ""))})
        try:
            return cls.from_spec(json.loads(text))
        except (ValueError, RecursionError, FileFormatError):
            return cls(StopKind.STATED, {"text": text})
