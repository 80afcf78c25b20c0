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
"""Exit codes: 70 (EX_SOFTWARE) means a bug of noisewise; 130 is 128 + SIGINT, as in shells."""

_DEBUG = "--debug"


class Commands(TyperGroup):
    """All commands; an error in any of them becomes one sentence and an exit code.

    With `--debug` among the arguments, the traceback comes first.
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
    """Print one line on stderr, without characters that control the terminal.

    Args:
        text: What to print; line breaks become spaces.
    """
    print(" ".join(printable(text).split()), file=sys.stderr, flush=True)


def did_you_mean(given: str, known: Sequence[str]) -> str:
    """A hint for a word that is not known.

    Args:
        given: What the user typed.
        known: What there is.

    Returns:
        "did you mean ...?" where something similar is known, else the list of what there is.
    """
    near = get_close_matches(given, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."


def _failed(error: Exception, *, debug: bool) -> int:
    if debug:
        print(printable("".join(traceback.format_exception(error))), file=sys.stderr, end="")
    if isinstance(error, BrokenPipeError):
        # the reader of the output is gone, so nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return GOOD
    if hasattr(error, "format_message"):  # a usage error of typer or of click
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
        parameters = context.command.params if context else []
        flags = [flag for parameter in parameters for flag in parameter.opts]
        bare = {flag.lstrip("-"): flag for flag in flags}  # compared without their dashes
        near = get_close_matches(name.lstrip("-"), list(bare), n=1, cutoff=0.6)
        hint = f" Did you mean {bare[near[0]]}?" if near else ""
        return f"There is no option {name}.{hint}{where}"
    message = error.format_message()
    return f"{message}{'' if message.endswith(('.', '?')) else '.'}{where}"
