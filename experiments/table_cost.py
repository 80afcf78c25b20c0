"""Table of costs: simulations and minutes until MMD^2 < .1 on the epidemic."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import numpy as np

from experiments import trials
from experiments.accuracy import THRESHOLD, first_below
from experiments.items import Progress, Scale, hardware
from experiments.methods import NAMES
from experiments.words import joined, markdown, spread

TITLE = "SIR: the cost of MMD² < 0.1"
PAPER = "Table 1 (tab:cost)"
QUESTION = "To reach MMD < 0.1 SPPE is 6 times and SPLE 2 times faster than SMC-ABC."
PAPER_VALUES: dict[str, Any] = {
    "smc-abc": {"simulation": "115.38 ± 1.51", "training": "-", "total": "115.38 ± 1.51", "thousands": (82.85, 1.03)},
    "sppe": {
        "simulation": "2.65 ± 1.03",
        "training": "15.73 ± 7.67",
        "total": "18.38 ± 8.63",
        "thousands": (2.12, 0.71),
    },
    "sple": {
        "simulation": "7.11 ± 1.01",
        "training": "45.98 ± 14.46",
        "total": "53.09 ± 15.26",
        "thousands": (5.40, 0.77),
    },
}
"""Minutes, and thousands of simulations with their sd."""
METHODS = ("smc-abc", "sppe", "sple", "sppe-atomic", "exact-smc", "cle")
SIMULATORS = ("leap", "gillespie")
_PER_ROUND = 32


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    clock = _Clock(scale)
    methods: dict[str, Any] = {}
    for slug in METHODS:
        found = trials.each("sir", 10.0, slug, scale, progress)
        if found[0].refused:
            methods[slug] = {"refused": found[0].refused}
            continue
        progress(f"timing simulations of {NAMES[slug]}")
        methods[slug] = {"trials": [_cost(trial, clock) for trial in found]}
    return {"methods": methods, "simulated on": hardware(), "parameters timed per round": clock.num}


class _Clock:
    """Seconds per epidemic of each simulator at given parameters, on this machine."""

    def __init__(self, scale: Scale) -> None:
        self.num = 4 if scale.quick else _PER_ROUND
        simulator: Any = trials.made("sir", 10.0).model.simulator
        self.simulators = {name: dataclasses.replace(simulator, method=name) for name in SIMULATORS}
        for each in self.simulators.values():
            each.simulate(jax.random.key(0), np.array([[-3.0, -0.5]]))

    def __call__(self, name: str, theta: np.ndarray) -> float:
        rows = np.linspace(0, len(theta) - 1, min(self.num, len(theta))).astype(int)
        repeats = 1 if name == "gillespie" else 4
        started = time.perf_counter()
        self.simulators[name].simulate(jax.random.key(1), np.repeat(theta[rows].astype(float), repeats, axis=0))
        return (time.perf_counter() - started) / (repeats * len(rows))


def _cost(trial: trials.Trial, clock: _Clock) -> dict[str, Any]:
    """What one trial took until the threshold, or until its end where it was not reached."""
    mmd = [each["mmd"] for each in trial.rounds]
    first = first_below(mmd)
    upto = first or len(mmd)
    counts = np.diff([0, *(each["num_simulations"] for each in trial.rounds[:upto])])
    others = sum(each["seconds"]["training"] + each["seconds"]["sampling"] for each in trial.rounds[:upto])
    minutes = {
        name: sum(n * clock(name, theta) for n, theta in zip(counts, trial.theta[:upto], strict=True) if n) / 60.0
        for name in SIMULATORS
    }
    return {
        "reached": first is not None,
        "rounds": upto,
        "simulations": int(trial.rounds[upto - 1]["num_simulations"]),
        "mmd": mmd[upto - 1],
        "last_mmd": mmd[-1],
        "last_simulations": int(trial.rounds[-1]["num_simulations"]),
        "simulation_minutes": minutes,
        "training_minutes": others / 60.0,
        "trained_on": trial.record["hardware"],
        "trained_together": trial.record["trained together"],
    }


def _reached(result: dict[str, Any], slug: str) -> list[dict[str, Any]]:
    return [trial for trial in result["methods"][slug].get("trials", []) if trial["reached"]]


def _thousands(found: list[dict[str, Any]]) -> list[float]:
    return [trial["simulations"] / 1000.0 for trial in found]


def table(result: dict[str, Any]) -> str:
    rows = []
    for slug, paper in PAPER_VALUES.items():
        count = "{:.2f} ± {:.2f}".format(*paper["thousands"])
        rows.append(
            [f"{NAMES[slug]}, paper", "-", count, "-", paper["simulation"], paper["training"], paper["total"], "-"]
        )
    for slug in result["methods"]:
        rows.append(_row(result, slug))
    heads = ["trials that reach it", "thousand simulations", "minutes of simulation, leap", "Gillespie"]
    heads += ["of training and sampling", "total, Gillespie", "MMD² in the end"]
    return markdown(["", *heads], rows)


def _row(result: dict[str, Any], slug: str) -> list[str]:
    every = result["methods"][slug].get("trials")
    if every is None:
        return [NAMES[slug], "refused", *["-"] * 6]
    found = _reached(result, slug)
    end = spread([trial["last_mmd"] for trial in every], 4)
    share = f"{len(found)} of {len(every)}"
    if not found:
        return [NAMES[slug], share, *["-"] * 5, end]
    leap, gillespie = ([trial["simulation_minutes"][name] for trial in found] for name in SIMULATORS)
    training = [trial["training_minutes"] for trial in found]
    total = [a + b for a, b in zip(gillespie, training, strict=True)]
    cells = [spread(_thousands(found)), spread(leap, 3), spread(gillespie, 2), spread(training, 2), spread(total, 2)]
    return [NAMES[slug], share, *cells, end]


def figure(result: dict[str, Any]) -> Any:
    import matplotlib
    import matplotlib.pyplot as plt

    from noisewise.plotting.style import OKABE_ITO, PRIOR, STYLE

    shown = [slug for slug in result["methods"] if _reached(result, slug)]
    with matplotlib.rc_context(STYLE):
        made, (left, right) = plt.subplots(1, 2, figsize=(7.6, 2.9), sharey=True)
        for place, slug in enumerate(shown):
            found = _reached(result, slug)
            left.plot(
                _thousands(found), [place] * len(found), "o", color=OKABE_ITO[0], alpha=0.7, label="ours, each trial"
            )
            if slug in PAPER_VALUES:
                mean, sd = PAPER_VALUES[slug]["thousands"]
                left.errorbar(mean, place + 0.22, xerr=sd, fmt="D", color=PRIOR, label="paper, mean ± sd")
            gillespie = np.mean([trial["simulation_minutes"]["gillespie"] for trial in found])
            training = np.mean([trial["training_minutes"] for trial in found])
            right.barh(place, gillespie, color=OKABE_ITO[4], height=0.5, label="simulation (Gillespie)")
            right.barh(place, training, left=gillespie, color=OKABE_ITO[5], height=0.5, label="training and sampling")
        left.set_yticks(range(len(shown)), [NAMES[slug] for slug in shown])
        left.invert_yaxis()
        left.set_xscale("log")
        left.set_xlabel(f"thousand simulations until MMD² < {THRESHOLD}")
        right.set_xlabel("minutes, mean over trials")
        for ax in (left, right):
            handles, texts = ax.get_legend_handles_labels()
            once = dict(zip(texts, handles, strict=True))
            if once:
                ax.legend(once.values(), once.keys(), loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return made


def paragraph(result: dict[str, Any]) -> str:
    parts = []
    for slug, paper in PAPER_VALUES.items():
        found = _reached(result, slug)
        ours = f"{np.mean(_thousands(found)):.2f}" if found else "not reached"
        parts.append(f"{NAMES[slug]} {ours} (paper {paper['thousands'][0]:.2f})")
    faster = [
        f"{NAMES[slug]} {_minutes(result, 'smc-abc') / _minutes(result, slug):.1f} times"
        for slug in ("sppe", "sple")
        if _reached(result, slug) and _reached(result, "smc-abc")
    ]
    speed = f" In minutes with Gillespie {joined(faster)} faster than SMC-ABC (paper: 6 and 2 times)." if faster else ""
    refused = [
        f"{NAMES[s]} does not serve this model: {v['refused']}" for s, v in result["methods"].items() if "refused" in v
    ]
    machines = sorted({trial["trained_on"] for v in result["methods"].values() for trial in v.get("trials", [])})
    return (
        f"Thousands of simulations until MMD² < {THRESHOLD}: {'; '.join(parts)}. The paper measures the distance to SMC-ABC "
        "draws, we to the exact "
        f"posterior.{speed} Both simulators have the same law; minutes of simulation are the number of simulations of each round times the "
        f"time that {result['parameters timed per round']} of its parameters take on {result['simulated on']}. Training and "
        "sampling took place on "
        f"{joined(machines)}; where trials trained side by side each has its share. {' '.join(refused)}"
    )


def _minutes(result: dict[str, Any], slug: str) -> float:
    found = _reached(result, slug)
    return float(np.mean([trial["simulation_minutes"]["gillespie"] + trial["training_minutes"] for trial in found]))
