"""Progress on terminals."""

from __future__ import annotations

from typing import Any


def planned(settings: dict[str, Any], most: int | None) -> int | None:
    """How many simulations a method of rounds will run; for other methods, the budget `most`."""
    if "num_rounds" not in settings or "num_simulations" not in settings:
        return most
    total = int(settings["num_rounds"] * settings["num_simulations"])
    return total if most is None else min(most, total)


class ProgressBar:
    """A progress bar on terminals; nothing elsewhere.

    Args:
        method: The method's slug, shown before the bar.
        total: Simulations that will be run; None if that is not known.
    """

    def __init__(self, method: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        columns = [
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        ]
        self._progress = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._method, self._open_end = method, total is None
        self._task = self._progress.add_task(method, total=total)

    def update(self, completed: int) -> None:
        """Show how many simulations are done."""
        self._progress.update(self._task, completed=completed)

    def expect(self, total: int) -> None:
        """Show the time left if `total` simulations were needed, unless a budget fixes their
        number.
        """
        if self._open_end:
            self._progress.update(self._task, total=total)

    def describe(self, values: dict[str, Any]) -> None:
        """Show the numbers among these values after the method's name."""
        shown = ", ".join(
            f"{name} {value:.3g}"
            for name, value in values.items()
            if isinstance(value, (int, float))
        )
        self._progress.update(
            self._task, description=f"{self._method}: {shown}" if shown else self._method
        )

    def __enter__(self) -> None:
        self._progress.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)
