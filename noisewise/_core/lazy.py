"""Names that load on first use, so that importing a package costs next to nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def attach(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` for a package whose names load on first use.

    A name mapped to the module of that name is the module. So a function must not be named like the
    module it lives in: packages with such names import eagerly.

    Args:
        package: The name of the package.
        names: The module of each public name.

    Returns:
        The two functions.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(sorted(names))}.")
        module = importlib.import_module(names[name])
        value = module if names[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(names)
