"""Run benchmarks, print what they found, and keep it as JSON under benchmarks/results/.

python -m benchmarks                     # all that is measured within minutes, then the contest for
the rest of 44 minutes python -m benchmarks --quick             # the same, small, without rivals:
under 5 minutes, nothing is kept python -m benchmarks --only start_up sir
"""

import argparse
import importlib
import os
import time
from typing import Any

from benchmarks import history

PARTS = (
    "start_up",
    "first_inference",
    "point_sets",
    "mechanisms",
    "sir",
    "neural_speed",
    "inference",
    "memory",
    "scaling",
    "many_cells",
    "contest",
)
MINUTES = 44.0


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--minutes",
        type=float,
        default=MINUTES,
        help="the contest begins no cell that could end later than this",
    )
    options = parser.parse_args(arguments)
    until = time.monotonic() + 60.0 * options.minutes
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    for name in options.only:
        started = time.perf_counter()
        result = contest(options.quick, until) if name == "contest" else part(name, options.quick)
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
        history.show(result)
        if not options.quick and name != "contest":
            history.keep(name, result)
    if not options.quick:
        from benchmarks import page

        page.main()


def part(name: str, quick: bool) -> dict[str, Any]:
    """What one module measures."""
    result: dict[str, Any] = importlib.import_module(f"benchmarks.{name}").run(quick=quick)
    return result


def contest(quick: bool, until: float) -> dict[str, Any]:
    """Cells behind the claims that are missing, or of ours by other sources; quick: two rounds of
    SPPE on SIR, which are not kept.
    """
    from benchmarks import contest as contest_

    if quick:
        return contest_.run_cell(contest_.Cell("sppe", "sir", 1), most=2000)
    missing = contest_.missing()
    contest_.run_cells(missing, until=until)
    return {"cells that were missing": len(missing), "that still are": len(contest_.missing())}


if __name__ == "__main__":
    main()
