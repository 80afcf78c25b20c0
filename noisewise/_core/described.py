"""What identifies a part of a model in files."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from noisewise.errors import MissingCapabilityError


def described(part: Any) -> Any:
    """A part's own description, else its type and those fields that are plain numbers or texts."""
    with contextlib.suppress(MissingCapabilityError, AttributeError):
        return part.to_spec()
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    plain = {field.name: getattr(part, field.name, None) for field in fields}
    kept = {
        name: value
        for name, value in plain.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }
    return {"type": type(part).__name__, **kept}
