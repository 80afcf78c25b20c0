"""Classes that files may name: those of the package, and those that a user has registered in this
process.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from noisewise.errors import InvalidInputError, InvalidTypeError


def concrete(names: Mapping[str, Any], base: type, *, but: tuple[type, ...] = ()) -> dict[str, Any]:
    """The classes among some names that extend a base and are not abstract.

    Args:
        names: Objects by name, such as the contents of a package.
        base: The base class.
        but: Classes that are left out.

    Returns:
        The classes by name.
    """
    return {
        name: kind
        for name, kind in names.items()
        if isinstance(kind, type)
        and issubclass(kind, base)
        and not inspect.isabstract(kind)
        and kind not in but
    }


def registered(kind: Any, base: type, kinds: dict[str, Any]) -> Any:
    """Add a class to those that files may name.

    Args:
        kind: The class of a user.
        base: The class that it must extend.
        kinds: The known classes by name, to which it is added.

    Returns:
        The class itself, so that this may be used as a decorator.

    Raises:
        InvalidTypeError: If it is no such class.
        InvalidInputError: If it takes the name of another.
    """
    if not isinstance(kind, type) or not issubclass(kind, base):
        given = kind.__name__ if isinstance(kind, type) else type(kind).__name__
        raise InvalidTypeError(f"register takes a class that extends {base.__name__}, got {given}.")
    if kinds.setdefault(kind.__name__, kind) is not kind:
        raise InvalidInputError(
            f"Files know another class as {kind.__name__}: give yours a name of its own."
        )
    return kind
