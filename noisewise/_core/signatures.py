"""Users' functions, checked when they are handed over: how many arguments they take, and in which
order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from noisewise.errors import InvalidTypeError

_NAMES = {
    "key": ("key", "rng", "rng_key", "prng_key", "random_key", "generator"),
    "rng": ("key", "rng", "rng_key", "prng_key", "random_key", "generator"),
    "theta": ("theta", "params", "parameters"),
    "s": ("s",),
    "s_dp": ("s_dp",),
}
"""What a parameter is called when it can only mean this argument."""


def check_call(function: Callable[..., Any], call: str, *arguments: str) -> None:
    """Refuse a function that cannot be called with these positional arguments, or whose parameter
    names say another order.

    Args:
        function: The function of a user. One that Python cannot inspect passes.
        call: How it is called, such as "fn(key, theta)".
        arguments: The names of the arguments in their order.

    Raises:
        InvalidTypeError: If the call would fail, or two arguments are swapped.

    >>> check_call(lambda theta, key: theta, "fn(key, theta)", "key", "theta")
    Traceback (most recent call last):
    noisewise.errors.InvalidTypeError: fn is called as fn(key, theta), but it is written as (theta,
    key): swap its parameters.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    what = f"{call.partition('(')[0]} is called as {call}, but it is written as {signature}"
    try:
        signature.bind(*arguments)
    except TypeError:
        raise InvalidTypeError(
            f"{what}: give it {len(arguments)} positional parameter(s), ({', '.join(arguments)}),"
            " and no others without a default."
        ) from None
    written = list(signature.parameters)[: len(arguments)]
    for place, name in enumerate(written):
        meant = [i for i, argument in enumerate(arguments) if name in _NAMES.get(argument, ())]
        if meant and place not in meant:
            raise InvalidTypeError(f"{what}: swap its parameters.")
