"""Settings of methods as texts: --num-rounds 3, --set num_particles=500."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noisewise.cli import catalogue
from noisewise.cli.exits import did_you_mean
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    from noisewise.inference import AbstractMethod

AUTOMATIC = ("target_ess", "max_simulations", "max_minutes")
"""What may be set where no method is named."""


def parsed(assignments: list[str]) -> dict[str, Any]:
    """Settings from name=value pairs: numbers, True, False and None as such, anything else as text.

    Args:
        assignments: The pairs, as `--set` takes them; `-` may stand for `_` in names.

    Raises:
        InvalidInputError: If a pair is malformed, or a name is given twice.

    >>> parsed(["num-draws=400", "tolerance=0.5", "kind=leap"])
    {'num_draws': 400, 'tolerance': 0.5, 'kind': 'leap'}
    """
    found: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise InvalidInputError(f"--set takes name=value, such as num_rounds=3, got {text!r}.")
        if name in found:
            raise InvalidInputError(f"--set gives {name} twice: choose one value.")
        found[name] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if value is None or isinstance(value, (bool, int, float, str)) else text


def check_automatic(settings: Mapping[str, Any]) -> None:
    """Refuse settings that `nw.infer` does not have, and values that it refuses.

    Raises:
        InvalidInputError: If a setting belongs to methods, one of which must then be named.
    """
    from noisewise._core.arrays import integer, number

    for name in settings:
        if name not in AUTOMATIC:
            known = ", ".join(AUTOMATIC)
            raise InvalidInputError(
                f"{name} is a setting of particular methods: add --method. Without --method the"
                f" settings are {known}."
            )
        convert = number(name, above=0.0) if name == "max_minutes" else integer(name, at_least=1)
        convert(settings[name])


def method_from(slug: str, settings: Mapping[str, Any]) -> AbstractMethod:
    """A method with settings.

    Args:
        slug: What the method is called.
        settings: Its settings, by name; only numbers and texts can be set here.

    Raises:
        InvalidInputError: If the method has no such setting, or it must be set in Python.
    """
    from noisewise import inference

    kind = getattr(inference, catalogue.find("method", slug, catalogue.methods()).name)
    plain = [field.name for field in dataclasses.fields(kind) if _is_plain(field)]
    for name in settings:
        if name in plain:
            continue
        if any(field.name == name for field in dataclasses.fields(kind)):
            raise InvalidInputError(
                f"{name} of {slug} is an object, not a number: set it in Python."
            )
        raise InvalidInputError(
            f"The method {slug} has no setting {name}: {did_you_mean(name, plain)}"
        )
    return kind(**settings)


def _is_plain(field: dataclasses.Field[Any]) -> bool:
    return field.default is None or isinstance(field.default, (bool, int, float, str))
