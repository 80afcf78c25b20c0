"""JSON text, written in one way and read strictly.

`dump_json`, `json_line` and `json_digest` write what `json_values.jsonable` makes. Reading accepts
one object and nothing ambiguous: no duplicate keys, no NaN or infinity (spelt out or by overflow),
no integer beyond 64 bits, no lone surrogate, bounded size and nesting.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._core.regular_files import read_regular
from noisewise.errors import (
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
    NoisewiseError,
)

MAX_BYTES = 16 * 2**20
"""Bytes of one JSON file: a prior of 100,000 entries, the largest there is, takes a sixth."""
MAX_DEPTH = 32
"""Levels of nesting: more than a prior of nested distributions needs, and far fewer than the 1,000
through which Python recurses.
"""
_MOST_ITEMS = 2_400_000
"""Commas, or quotes, of one file: those that noisewise writes have fewer in `MAX_BYTES`. So what
is made of them stays below 256 MiB.
"""
_MOST_BRACKETS = 400_000
"""Opening brackets of one file, for the same reason: a list or an object takes more memory."""
_MAX_INTEGER = 2**63 - 1
"""The largest number of 64 bits: other programs cannot hold more."""
_LONG_INTEGER = 32
"""Digits beyond which a whole number is not parsed: one of 64 bits has at most 20 with its sign."""
_MAX_TEXT = 1000
"""Characters of a line of text: a description, not a document."""


# Writing ------------------------------------------------------------------------------------------


def dump_json(value: Mapping[str, Any]) -> str:
    """The text of a JSON file: two spaces deep, one newline at the end.

    Floats are written so that they read back to the last bit.

    Args:
        value: A JSON-ready object, as `jsonable` makes it.

    Raises:
        ValueError: If a number is not finite.
    """
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def json_line(value: Any, *, sort_keys: bool = False) -> str:
    """The text of a value in one line, for JSON inside other files and in messages.

    Args:
        value: A JSON-ready value.
        sort_keys: Whether keys come in alphabetical order.

    Raises:
        ValueError: If a number is not finite.
    """
    return json.dumps(value, sort_keys=sort_keys, allow_nan=False)


def json_digest(value: Mapping[str, Any]) -> str:
    """The sha256 of an object, whatever the order of its keys."""
    return hashlib.sha256(json_line(value, sort_keys=True).encode()).hexdigest()


# Reading ------------------------------------------------------------------------------------------


def read_json(path: Path, what: str, *, follow_links: bool = True) -> dict[str, Any]:
    """Read the JSON object in a file, strictly.

    Args:
        path: The file.
        what: The kind of file, as messages name it.
        follow_links: Whether it may be a symbolic link: not inside folders that travel.

    Raises:
        InvalidInputError: If there is no such file, or it cannot be read.
        FileFormatError: If it is not one JSON object; see `parse_json`.
    """
    return parse_json(
        read_regular(path, limit=MAX_BYTES, follow_links=follow_links), f"{what} {path.name}"
    )


def parse_json(content: bytes | str, what: str, *, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Parse one JSON object, strictly.

    Args:
        content: The bytes of a file, or a text.
        what: The file, as messages name it.
        max_depth: The most levels of nesting.

    Returns:
        The object: finite numbers, whole ones of at most 64 bits, and no key twice.

    Raises:
        FileFormatError: If it is anything else; the message says what is wrong.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", errors="surrogatepass")
    if len(content) > MAX_BYTES:
        raise FileFormatError(
            f"{what} is larger than {MAX_BYTES // 2**20} MiB: this is not a file noisewise wrote."
        )
    commas, quotes, lists, objects = map(content.count, (b",", b'"', b"[", b"{"))
    if max(commas, quotes) > _MOST_ITEMS or lists + objects > _MOST_BRACKETS:
        raise FileFormatError(f"{what} holds too many items: this is not a file noisewise wrote.")
    value = _parsed(content, what, max_depth)
    if not isinstance(value, dict):
        raise FileFormatError(f"{what} must hold one JSON object, got a {type(value).__name__}.")
    return value


def _parsed(content: bytes, what: str, max_depth: int) -> Any:
    try:
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
        _check_tree(value, max_depth)
        return value
    except FileFormatError as error:
        raise FileFormatError(f"{what} is not valid: {error}") from None
    except UnicodeDecodeError:
        raise FileFormatError(f"{what} is not UTF-8 text: get an unaltered copy.") from None
    except RecursionError:
        raise FileFormatError(
            f"{what} is nested too deeply: this is not a file noisewise wrote."
        ) from None
    except ValueError as error:
        where = (
            f"line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else "a number"
        )
        raise FileFormatError(
            f"{what} is not JSON ({where}); it may be truncated: get an unaltered copy."
        ) from None


def require_keys(value: Any, expected: Iterable[str], what: str) -> dict[str, Any]:
    """`value` itself, if it is an object with exactly the expected keys.

    Args:
        value: A part of a file.
        expected: The keys that it must have.
        what: The part, as messages name it.

    Raises:
        FileFormatError: If it is not an object, lacks keys, or has others.
    """
    if not isinstance(value, dict):
        raise FileFormatError(f"{what} must be a JSON object, got {type(value).__name__}.")
    missing, unknown = sorted(set(expected) - set(value)), sorted(set(value) - set(expected))
    if missing:
        raise FileFormatError(f"{what} lacks {', '.join(missing)}.")
    if unknown:
        raise FileFormatError(
            f"{what} has keys that this version does not know:"
            f" {', '.join(map(ascii, unknown[:5]))}."
        )
    return value


def require_schema(value: dict[str, Any], schema: str, version: int, what: str) -> None:
    """Refuse a file of another kind or another version.

    Args:
        value: The object in the file.
        schema: What its "schema" must be.
        version: What its "schema_version" must be.
        what: The file, as messages name it.

    Raises:
        FileFormatError: If either is different.
    """
    if value.get("schema") != schema:
        raise FileFormatError(
            f'{what} must say "schema": "{schema}"; this is another kind of file.'
        )
    found = value.get("schema_version")
    if isinstance(found, bool) or found != version:
        shown = found if isinstance(found, (int, float)) else "none"
        raise FileFormatError(
            f"{what} has schema version {shown}; this noisewise reads version {version}: use the"
            " one that wrote it."
        )


def sealed(value: dict[str, Any]) -> dict[str, Any]:
    """`value` with the sha256 of all that it holds, which `check_seal` compares."""
    rest = {name: item for name, item in value.items() if name != "sha256"}
    return {**rest, "sha256": json_digest(rest)}


def check_seal(value: dict[str, Any], what: str) -> None:
    """Refuse an object that was altered since it was `sealed`.

    Args:
        value: The object in a file.
        what: The file, as messages name it.

    Raises:
        FileFormatError: If it does not match its sha256.
    """
    if value.get("sha256") != sealed(value)["sha256"]:
        raise FileFormatError(
            f"{what} was altered: it does not match its sha256. Get an unaltered copy."
        )


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever goes wrong while objects are built from a file into a `FileFormatError`.

    Use it as a context manager around code that believes what the file says.

    Args:
        what: The file, as messages name it.
    """
    foreign = (
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        RecursionError,
        MemoryError,
    )
    try:
        with np.errstate(all="ignore"):  # absurd numbers overflow on their way to being refused
            yield
    except NoisewiseError as error:
        raise FileFormatError(f"{what} is not valid: {error}") from None
    except foreign as error:
        raise FileFormatError(
            f"{what} is not valid ({type(error).__name__}): get an unaltered copy."
        ) from None


def require_text(value: Any, name: str, *, empty: bool = False) -> str:
    """A short printable line of text.

    Args:
        value: The text.
        name: The argument that it was given for, as messages name it.
        empty: Whether it may be empty.

    Raises:
        InvalidTypeError: If it is not a string.
        InvalidInputError: If it is empty, too long, or holds what cannot be printed.
    """
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be a string, got {type(value).__name__}.")
    if (not value.strip() and not empty) or len(value) > _MAX_TEXT or not value.isprintable():
        raise InvalidInputError(
            f"{name} must be one printable line of at most {_MAX_TEXT} characters."
        )
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FileFormatError("a key appears twice in one object.")
    return result


def _refuse_constant(name: str) -> Any:
    raise FileFormatError(f"{name} is not a number it may contain.")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise FileFormatError("a number is too large for float64.")
    return value


def _integer(text: str) -> int:
    value = int(text) if len(text) < _LONG_INTEGER else _MAX_INTEGER + 1
    if abs(value) > _MAX_INTEGER:
        raise FileFormatError("a whole number is beyond 64 bits.")
    return value


def _check_tree(value: Any, max_depth: int) -> None:
    level = [value]
    for _ in range(max_depth):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                children += item
            elif isinstance(item, str) and any(
                "\ud800" <= character <= "\udfff" for character in item
            ):
                raise FileFormatError("a text contains half a character (a lone surrogate).")
        if not children:
            return
        level = children
    raise FileFormatError(f"it is nested more than {max_depth} deep.")
