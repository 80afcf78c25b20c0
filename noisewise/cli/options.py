"""How options are declared that the commands have in common."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import typer


def optional(help: str, panel: str, *flags: str, **more: Any) -> Any:
    """An option without a default that is shown.

    Args:
        help: What it is for.
        panel: The part of the help text in which it stands.
        flags: How it is typed; by default after the argument.
        more: What `typer.Option` takes.
    """
    return typer.Option(*flags, help=help, rich_help_panel=panel, show_default=False, **more)


def with_options(kind: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command whose parameter of this kind, a dataclass, is taken apart on the command line:
    each of its fields is an option, in its place among the others.

    Args:
        kind: A frozen dataclass of keyword fields, annotated like parameters of commands.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(command, include_extras=True)
        fields = typing.get_type_hints(kind, include_extras=True)
        given = next(name for name, hint in hints.items() if hint is kind)
        own = inspect.signature(command).parameters
        options = inspect.signature(kind).parameters

        @functools.wraps(command)
        def run(**typed: Any) -> None:
            command(
                **{name: typed[name] for name in own if name != given},
                **{given: kind(**{name: typed[name] for name in options})},
            )

        parts = [
            part.replace(annotation=known[name], kind=part.KEYWORD_ONLY)
            for each in own
            for name, part, known in (
                [(name, option, fields) for name, option in options.items()]
                if each == given
                else [(each, own[each], hints)]
            )
        ]
        run.__signature__ = inspect.Signature(parts)  # type: ignore[attr-defined]
        run.__annotations__ = {part.name: part.annotation for part in parts}
        del run.__wrapped__  # whose annotations would be read
        return run

    return decorated
