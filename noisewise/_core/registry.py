"""Classes that files may name: those of the package, and those that a user has registered in this
process.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from noisewise.errors import InvalidInputError, InvalidTypeError


def concrete(names: Mapping[str, Any], base: type, *, but: tuple[type, ...] = ()) -> dict[str, Any]:
    """The classes among these names that extend a base and can be made, without some."""
    return {
        name: kind
        for name, kind in names.items()
        if isinstance(kind, type)
        and issubclass(kind, base)
        and not inspect.isabstract(kind)
        and kind not in but
    }


def registered(kind: Any, base: type, kinds: dict[str, Any]) -> Any:
    """The class itself, entered among those that files may name; one that is none, or takes
    another's name, is refused.
    """
    if not isinstance(kind, type) or not issubclass(kind, base):
        given = kind.__name__ if isinstance(kind, type) else type(kind).__name__
        raise InvalidTypeError(f"register takes a class that extends {base.__name__}, got {given}.")
    if kinds.setdefault(kind.__name__, kind) is not kind:
        raise InvalidInputError(
            f"Files know another class as {kind.__name__}: give yours a name of its own."
        )
    return kind
