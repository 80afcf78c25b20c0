"""The functions that formulas may call.

The library formulae looks names up where it is called, and modules in modules: a formula could then
run anything, `dataclasses.builtins.exec("...")`. Here it finds its own functions and these alone.
"""

from __future__ import annotations

import re
import types
from typing import Any

import numpy as np

from noisewise.errors import InvalidInputError

_BARE = ("log", "log1p", "exp", "sqrt", "abs")
"""Functions that are called by their name alone."""
_OTHERS = ("clip", "max", "mean", "median", "min", "round", "std", "where")
"""Functions of NumPy that may be called besides those of single numbers."""
_HIDDEN = re.compile(r"\w\s*\.\s*_")
"""What Python objects keep to themselves, and what leads from them to everything else."""


def namespace() -> dict[str, Any]:
    """Names of formulas that are no columns: `log` and others, and `np` with functions of numbers.

    >>> sorted(set(namespace()) - {"np"}), hasattr(namespace()["np"], "load")
    (['abs', 'exp', 'log', 'log1p', 'sqrt'], False)
    """
    each = {name: value for name, value in vars(np).items() if isinstance(value, np.ufunc)}
    each |= {name: getattr(np, name) for name in (*_BARE, *_OTHERS)}
    return {"np": types.SimpleNamespace(**each)} | {name: each[name] for name in _BARE}


def check_names(text: str, right: str) -> None:
    """Refuse names with parts that begin with an underscore.

    Args:
        text: The formula.
        right: Its right side.
    """
    if _HIDDEN.search(right):
        raise InvalidInputError(
            f"The formula {text!r} has a name with '._', which leads out of the columns: a column"
            " of such a name must be renamed."
        )


def why(error: Exception) -> str:
    """What a formula lacks, in words."""
    missing = isinstance(error, AttributeError) or type(error) is KeyError
    if not missing:
        return str(error)
    return (
        f"{error}. It may call {', '.join(_BARE)}, np. with functions of numbers, and those of the"
        " library formulae, such as C, scale and bs: make a column of anything else."
    )
