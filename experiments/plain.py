"""Results as JSON that people can read and git can compare."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

DIGITS = 6


def plain(value: Any) -> Any:
    """JSON-ready: numbers with six digits, None for what is not finite.

    >>> plain({"a": np.array([1 / 3, np.nan]), "b": (np.int64(2), "x")})
    {'a': [0.333333, None], 'b': [2, 'x']}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(vars(value))
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    raise TypeError(
        f"A result holds numbers, strings, lists and mappings, got {type(value).__name__}."
    )


def compact_json(value: Any) -> str:
    """JSON text in which mappings are spread over lines and lists of plain values are not.

    >>> print(compact_json({"a": [1, 2], "b": {"c": [[1, 2], [3, 4]]}}), end="")
    {
     "a": [1, 2],
     "b": {
      "c": [
       [1, 2],
       [3, 4]
      ]
     }
    }
    """
    return _text(value, "") + "\n"


def _text(value: Any, indent: str) -> str:
    deeper = indent + " "
    if isinstance(value, Mapping) and value:
        lines = [
            f"{deeper}{json.dumps(name)}: {_text(item, deeper)}" for name, item in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (list, Mapping)) for item in value):
        return "[\n" + ",\n".join(deeper + _text(item, deeper) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)
