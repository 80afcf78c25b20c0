"""How options are declared that the commands have in common."""

from __future__ import annotations

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
