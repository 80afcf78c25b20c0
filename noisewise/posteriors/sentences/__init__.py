"""What was found, in words: the only place where findings and stops become sentences.

A module per theme holds a table from kinds to templates, or to functions of the numbers. Nothing
may depend on these words but people: `tests/posteriors/test_sentences.py` shows that nothing does.
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
    simulations,
    stops,
)

_FINDINGS = {
    **simulations.SENTENCES,
    **exact.SENTENCES,
    **approximate.SENTENCES,
    **learnt.SENTENCES,
    **certificates.SENTENCES,
}
TABLES: dict[type[enum.StrEnum], Mapping[Any, Any]] = {Kind: _FINDINGS, StopKind: stops.SENTENCES}


def rendered(kind: Kind | StopKind, numbers: Mapping[str, Any]) -> str:
    """The sentence of a kind with these numbers."""
    words = TABLES[type(kind)][kind]
    return str(words.format(**numbers) if isinstance(words, str) else words(**numbers))
