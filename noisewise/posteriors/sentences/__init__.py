"""Sentences for findings and stops: the only place where they are put into words.

Each module has a theme, and a table from kinds to templates, or to functions of the numbers. The
words are for people alone: `tests/posteriors/test_sentences.py` shows that no behaviour depends on
them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from noisewise.posteriors.kinds import Kind, StopKind
from noisewise.posteriors.sentences import (
    approximate,
    certificates,
    exact,
    learnt,
    regressions,
    simulations,
    stops,
)

_FINDINGS = {
    **simulations.SENTENCES,
    **exact.SENTENCES,
    **approximate.SENTENCES,
    **learnt.SENTENCES,
    **regressions.SENTENCES,
    **certificates.SENTENCES,
}
TABLES: dict[type[enum.StrEnum], Mapping[Any, Any]] = {Kind: _FINDINGS, StopKind: stops.SENTENCES}


def rendered(kind: Kind | StopKind, numbers: Mapping[str, Any]) -> str:
    """The sentence of a kind with these numbers."""
    words = TABLES[type(kind)][kind]
    return str(words.format(**numbers) if isinstance(words, str) else words(**numbers))
