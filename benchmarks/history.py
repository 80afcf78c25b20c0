"""What a number was measured with, and the numbers of earlier runs, so that a later change can be
compared.

python -m benchmarks.history             # the last two runs of each part on one processor: what
became faster or slower by a tenth
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import read

RESULTS = Path(__file__).parent / "results"
HISTORY = RESULTS / "history.jsonl"
SHOWN_CHANGE = 0.1
"""The smallest relative change that is shown: a round number, near the range of repeated timings."""


def keep(name: str, result: Mapping[str, Any], folder: Path = RESULTS) -> None:
    """Write results/NAME.json, and a line of its numbers to the history."""
    about = circumstances(("jax", "numpy", "numba"))
    (folder / f"{name}.json").write_text(json.dumps({**about, "result": result}, indent=1) + "\n")
    line = {"part": name, **about, "numbers": dict(numbers(result))}
    with (folder / HISTORY.name).open("a") as file:
        file.write(json.dumps(line) + "\n")


def circumstances(packages: Sequence[str]) -> dict[str, Any]:
    """When, where and with what."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
        "yardstick ms": yardstick(),
        "python": platform.python_version(),
        "versions": versions(packages),
        "noisewise": sources(),
    }


def yardstick() -> float:
    """Milliseconds that this machine takes to sort a fixed million numbers: by it runs of different
    days can be compared.
    """
    values, times = np.random.default_rng(0).random(1_000_000), []
    for _ in range(5):
        started = time.perf_counter()
        np.sort(values)
        times.append(time.perf_counter() - started)
    return round(1e3 * statistics.median(times), 1)


def sources() -> str:
    """The version of the code: a hash of its sources, which are not always in a repository where
    this runs.
    """
    import noisewise

    digest = hashlib.sha256()
    for path in sorted(Path(noisewise.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The installed versions of packages."""
    return {name: importlib.metadata.version(name) for name in packages}


def processor() -> str:
    """The processor's name and the number of cores that this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def numbers(result: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a result, by its place; of a median with spread, the median.

    >>> dict(numbers({"a": {"median": 2.0, "low": 1.0, "high": 3.0}, "b": [{"c": 1}, {"c": True}]}))
    {'a': 2.0, 'b.0.c': 1.0}
    """
    if isinstance(result, Mapping):
        if "median" in result:
            yield place, float(result["median"])
            return
        for name, value in result.items():
            yield from numbers(value, f"{place}.{name}" if place else f"{name}")
    elif isinstance(result, (list, tuple)):
        for index, value in enumerate(result):
            yield from numbers(value, f"{place}.{index}")
    elif isinstance(result, (int, float)) and not isinstance(result, bool):
        yield place, float(result)


def compared(path: Path = HISTORY) -> Iterator[str]:
    """For each part the last two runs on one processor, and what changed by more than a tenth."""
    by_place: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in read(path):
        by_place.setdefault((line["part"], line["processor"]), []).append(line)
    for (part, where), lines in by_place.items():
        if len(lines) < 2:
            continue
        before, after = lines[-2], lines[-1]
        yield (
            f"{part}, {where}: {before['noisewise']} ({before['date']}) to {after['noisewise']}"
            f" ({after['date']})"
        )
        drift = after["yardstick ms"] / before["yardstick ms"]
        yield f"  the machine itself: {drift:.2f} times"
        for name, value in after["numbers"].items():
            old = before["numbers"].get(name)
            if old and value and abs(value / old - 1.0) > SHOWN_CHANGE:
                yield f"  {name}: {old:g} to {value:g}, {value / old:.2f} times"


def cells_compared(path: Path) -> Iterator[str]:
    """Cells of the contest that were run more than once: seconds in all and the last C2ST, before
    and after.
    """
    runs: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell in read(path):
        if cell["ended"] != "failed":
            place = tuple(
                cell[name] for name in ("contender", "problem", "seed", "threads", "large")
            )
            runs.setdefault(place, []).append(cell)
    for (contender, problem, seed, threads, large), cells in runs.items():
        if len(cells) > 1:
            before, after = cells[-2], cells[-1]
            scores = [
                cell["stages"][-1]["c2st"] if cell["stages"] else 1.0 for cell in (before, after)
            ]
            yield (
                f"{contender}, {problem}, seed {seed}, {threads}"
                f" threads{', large rounds' if large else ''}: {before['noisewise']} to"
                f" {after['noisewise']}, {before['seconds']:.0f} to {after['seconds']:.0f} s, C2ST"
                f" {scores[0]:.3f} to {scores[1]:.3f}"
            )


def show(result: Any, indent: str = "  ") -> None:
    """Print a result, one line per number or text."""
    for name, value in result.items() if isinstance(result, Mapping) else enumerate(result):
        if isinstance(value, Mapping) and "median" in value:
            print(f"{indent}{name}: {value['median']:g} ({value['low']:g} to {value['high']:g})")
        elif isinstance(value, (Mapping, list, tuple)) and value:
            print(f"{indent}{name}:")
            show(value, indent + "  ")
        else:
            print(f"{indent}{name}: {value}")


if __name__ == "__main__":
    lines = [*compared(), *cells_compared(RESULTS / "head_to_head.jsonl")]
    print("\n".join(lines) or "There are no two runs to compare.")
