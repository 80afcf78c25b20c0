"""How a command ends: exit codes, and every error as one line on stderr."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup

from noisewise._core.text import printable
from noisewise.errors import NoisewiseError

GOOD, BAD_INPUT, UNTRUSTWORTHY, INTERNAL, INTERRUPTED = 0, 1, 3, 70, 130
"""INTERNAL is a mistake of noisewise's own."""

_DEBUG = "--debug"


class Commands(TyperGroup):
    """The commands; what goes wrong in any of them becomes one sentence and an exit code, unless
    `--debug` is among the arguments.
    """

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **more: Any
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        debug = _DEBUG in given
        words = [word for word in given if word != _DEBUG] or ["--help"]
        try:
            code = TyperGroup.main(self, words, standalone_mode=False, **more)
        except Exception as error:
            code = _failed(error, debug=debug)
        except KeyboardInterrupt:
            code = INTERRUPTED
        code = code if isinstance(code, int) else GOOD
        if code == INTERRUPTED:
            tell("Interrupted.")
        if standalone_mode:
            sys.exit(code)
        return code


def tell(text: str) -> None:
    """One line on stderr, without what would command the terminal."""
    print(" ".join(printable(text).split()), file=sys.stderr, flush=True)


def did_you_mean(given: str, known: Sequence[str]) -> str:
    """' Did you mean ...?' where something similar is known, else the list of what is."""
    near = get_close_matches(given, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."


def _failed(error: Exception, *, debug: bool) -> int:
    if debug:
        print(printable("".join(traceback.format_exception(error))), file=sys.stderr, end="")
    if isinstance(error, BrokenPipeError):
        # whoever read the output has stopped reading: nothing is left to say, and nobody to say it
        # to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return GOOD
    if hasattr(
        error, "format_message"
    ):  # a usage error, of typer's own or of click's, whichever typer stands on
        tell(f"Error: {_usage(error)}")
        return BAD_INPUT
    if isinstance(error, NoisewiseError):
        tell(f"Error: {error}")
        return BAD_INPUT
    tell(
        f"Error: noisewise failed unexpectedly ({type(error).__name__}: {error}): run the command"
        " again with --debug and report what it prints."
    )
    return INTERNAL


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    words = [] if context is None else context.command_path.split()[1:]
    where = f" See {' '.join(['noisewise', *words, '--help'])}."
    name = getattr(error, "option_name", None)
    if name is not None and getattr(error, "possibilities", None) is not None:
        known = (
            [flag for parameter in context.command.params for flag in parameter.opts]
            if context
            else []
        )
        bare = {flag.lstrip("-"): flag for flag in known}  # dashes, which all have, are no likeness
        near = get_close_matches(name.lstrip("-"), list(bare), n=1, cutoff=0.6)
        hint = f" Did you mean {bare[near[0]]}?" if near else ""
        return f"There is no option {name}.{hint}{where}"
    message = error.format_message()
    return f"{message}{'' if message.endswith(('.', '?')) else '.'}{where}"
