"""Sections of the page that concern noisewise's own parts: speed, start-up, memory, and cost
against size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.contenders import CONTENDERS
from benchmarks.standings import NAMES
from experiments.words import markdown
from noisewise.plotting.style import looks, styled

RESULTS = Path(__file__).parent / "results"
PICTURES = "benchmarks"


def result(name: str) -> Any:
    """What a part measured; None where it has not been run."""
    found = stored_json(name)
    return None if found is None else found["result"]


def stored_json(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


# Parts --------------------------------------------------------------------------------------------


def speed() -> str:
    """Optimiser steps, simulators, point sets, quantiles, exact methods."""
    parts = ["## Parts of noisewise"]
    if (found := result("neural_speed")) is not None:
        rows = []
        for name, made in found.items():
            for who, ms in made["ms"].items():
                times = made["times slower"].get(who)
                rows.append(
                    [
                        f"{name} ({made['targets']} targets, {made['conditions']} conditions)",
                        who,
                        _median(ms),
                        _median(times),
                    ]
                )
        parts.append(
            "One optimiser step of the paper's flow with batches of 100, measured in turns. Ours"
            " includes validation after every epoch. The target is 10 times.\n\n"
            + markdown(["data", "who", "ms", "times slower than noisewise"], rows)
        )
    rows = [
        *_pair("point_sets", "1000 nets of 32 x 10, ms"),
        *_pair("mechanisms", "320,000 binomial quantiles, ms"),
        *_epidemics(),
    ]
    if rows:
        parts.append(markdown(["what", "noisewise", "other", "times", "target"], rows))
    if (found := result("inference")) is not None:
        rows = [
            [
                made["method"],
                *(_median(made[name]) for name in ("simulations", "seconds", "c2st", "mmd^2")),
            ]
            for made in found["epidemics"]
        ]
        parts.append(
            "SIR at epsilon 10, in one process:\n\n"
            + markdown(["method", "simulations", "seconds", "C2ST", "MMD^2"], rows)
        )
        made = found["interweaving"]
        parts.append(
            "DA-MCMC on the regression at epsilon .1:"
            f" {_median(made['effective draws per second'])} effective draws per second,"
            f" {_median(made['without interweaving'])} without interweaving:"
            f" {_median(made['times better'])} times."
        )
    return "\n\n".join(parts) if len(parts) > 1 else ""


def _pair(name: str, says: str) -> Iterator[list[str]]:
    found = result(name)
    if found is not None:
        found = found.get("throughput", found)
        other = f"scipy {_median(found['scipy ms'])}"
        yield [
            says,
            _median(found["noisewise ms"]),
            other,
            _median(found["times faster"]),
            f"{found.get('target', '')}",
        ]


def _epidemics() -> Iterator[list[str]]:
    found = result("sir")
    if found is None:
        return
    leaps, events = found["leaps"], found["events"]
    other = f"Gillespie {_median(leaps['gillespie ms'])}"
    yield [
        "an epidemic by leaps, ms",
        _median(leaps["leap ms"]),
        other,
        _median(leaps["times faster"]),
        f"{leaps['target']}",
    ]
    if "ratio" in events:
        other = f"C -O3 {_median(events['C -O3 ns'])}"
        yield [
            "an event by Gillespie, ns",
            _median(events["numba ns"]),
            other,
            f"{_median(events['ratio'])} of C",
            "1.5",
        ]


def _median(value: Any) -> str:
    """A median with its range."""
    if value is None:
        return ""
    return f"{_digits(value['median'])} ({_digits(value['low'])} to {_digits(value['high'])})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def start() -> str:
    """Imports and first posteriors."""
    found = result("start_up")
    if found is None:
        return ""
    rows = [
        [
            f"`{row['process']}`" if row["process"] != "pass" else "nothing",
            f"{row['seconds']:.2f} ({row['least']:.2f} to {row['most']:.2f})",
            f"{row['peak MB']}",
            ", ".join(row["loaded"]),
        ]
        for row in found["imports"]
    ]
    first = [
        [
            _RENAMED.get(row["use"], row["use"]),
            f"{row['seconds']:.1f} ({row['least']:.1f} to {row['most']:.1f})",
            f"{row['imports']:.1f}",
            f"{row['peak MB']}",
        ]
        for row in found["first posterior"]
    ]
    return (
        "## Imports and first posteriors\n\n"
        + markdown(["process", "seconds", "peak MB", "loaded"], rows)
        + "\n\nFrom the start of a process to the printed summary of its first posterior, with"
        " nothing compiled before:\n\n"
        + markdown(["use", "seconds", "importing", "peak MB"], first)
    )


_RENAMED = {"nw.infer, the mean of the README": "nw.infer, a release and its mean"}
"""Uses whose name changed after they were measured: the code is in docs/releases.md now."""


def first() -> str:
    """Where the seconds of a first inference go."""
    found = result("first_inference")
    if found is None:
        return ""
    rows = [
        [
            f"{CONTENDERS[row['contender']].says}, {NAMES[row['problem']]}"
            + (f", {row['rounds']} x 1000" if row["rounds"] else ""),
            f"{row['first s']:.1f}",
            f"{row['compiling s']:.1f}",
            f"{row['compiling ahead s']:.1f}" if row["compiling ahead s"] else "",
            f"{row['second s']:.1f}",
        ]
        for row in found["rows"]
    ]
    header = [
        "inference",
        "seconds",
        "compiling",
        "compiling, ahead",
        "seconds, second time",
    ]
    return (
        "## Where the seconds go\n\nTo about C2ST .60, on both cores, with nothing compiled before."
        " *Ahead*: compiled in another thread while a network trains. A second inference in the same"
        " process finds all programs compiled; one in a new process with JAX's compilation cache"
        " finds most. [The JSON](../benchmarks/results/first_inference.json) lists the programs that"
        " take longest.\n\n" + markdown(header, rows)
    )


def memory() -> str:
    """Twenty rounds, a million simulations."""
    found = result("memory")
    if found is None:
        return ""
    resident, in_use = found["resident"], found["in use"]
    rows = [
        [
            f"{resident['rounds'][i]['simulations']:,}",
            *(f"{one['rounds'][i]['MB']:.0f}" for one in (resident, in_use)),
        ]
        for i in (0, 4, 9, 14, 19)
    ]
    growth, peaks, arrays = found["growth"], found["peaks, in arrays"], resident["arrays MB"]
    return (
        "## Memory\n\nSPPE in 20 rounds of 50,000 simulations, with hardly any training. After a"
        f" tiny inference the process has {resident['baseline MB']:.0f} MB. The arrays for all"
        f" simulations, {arrays:.0f} MB, are made at the start. *In use* is from a second run, in"
        " which the allocator returns free memory after every round.\n\n"
        + markdown(["simulations", "MB resident", "MB in use"], rows)
        + f"\n\nFrom round 5 to 20 resident memory changes by {growth['resident']:+.1%}"
        f" ({growth['resident, by a line']:+.1%} by a line through these rounds), memory in"
        f" use by {growth['in use']:+.1%} ({growth['in use, by a line']:+.1%}). The peak above a"
        f" tiny inference is {peaks['peak without compilers']:.3g} times the arrays, of which"
        f" {resident['copied for training MB'] / arrays:.2g} times are the copy that training"
        f" takes. With what compilers took and did not return it is {peaks['peak']:.3g} times."
    )


_STATISTICS = {
    "step": "an optimiser step",
    "inference": "SPPE, 500 simulations, little training",
}


def scaling() -> str:
    """Exponents of the cost."""
    found = result("scaling")
    if found is None:
        return ""
    columns = _swept(found["columns of s"])
    rows = [
        [
            "a simulation",
            "records n",
            _range(found["records"]["rows"], "n"),
            f"{found['records']['exponent at the end']:.2f} at the end",
        ],
        [
            "SPPE, 400 simulations, little training",
            "records n",
            _range(found["whole inference against records"]["rows"], "n"),
            f"{found['whole inference against records']['exponent'] or 0.0:.2f}",
        ],
        *(
            [
                _STATISTICS.get(name, name),
                "columns of s",
                _range(made["rows"], "k"),
                f"{made['exponent']:.2f}",
            ]
            for name, made in columns.items()
        ),
        [
            "a round of 200 simulations, 20 epochs over all rounds so far",
            "rounds",
            _range(found["rounds"]["rows"][1:], "round"),
            f"{found['rounds']['exponent, from round 2']:.2f}",
        ],
    ]
    return (
        "## Cost against size\n\n![Seconds against records, columns and"
        f" rounds]({PICTURES}/scaling.png)\n\n"
        + markdown(["cost of", "against", "seconds, from smallest to largest", "exponent"], rows)
    )


def _swept(parts: dict[str, Any]) -> dict[str, Any]:
    """Those parts that are sweeps."""
    return {name: part for name, part in parts.items() if isinstance(part, dict)}


def _range(rows: list[dict[str, Any]], size: str) -> str:
    first, last = rows[0], rows[-1]
    return f"{first['seconds']:.2g} at {first[size]:,} to {last['seconds']:.2g} at {last[size]:,}"


@styled
def scaling_figure(found: dict[str, Any]) -> Figure:
    """Three panels on logarithmic axes."""
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.0))
    panels: tuple[tuple[Axes, str, str, dict[str, Any]], ...] = (
        (
            axes[0],
            "n",
            "records n",
            {
                "a simulation": found["records"],
                "SPPE, 400 simulations": found["whole inference against records"],
            },
        ),
        (axes[1], "k", "columns of s", _swept(found["columns of s"])),
        (axes[2], "round", "round", {"a round of 200": found["rounds"]}),
    )
    for ax, size, says, curves in panels:
        look = looks(curves)
        for name, made in curves.items():
            ax.plot(
                [row[size] for row in made["rows"]],
                [row["seconds"] for row in made["rows"]],
                **look[name],
                label=name,
            )
        ax.set(xscale="log", yscale="log", xlabel=says)
        ax.legend()
    axes[2].set(xscale="linear", yscale="linear", ylim=(0.0, None))
    axes[0].set_ylabel("seconds")
    return figure


ALL = (speed, start, first, memory, scaling)
"""In the order of the page."""
