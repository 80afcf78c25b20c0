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
from experiments.measures import spaced
from experiments.methods import NAMES
from experiments.verdicts import Gap, difference
from experiments.words import joined, markdown, spread
from noisewise.metrics import mmd

TITLE = "SIR: the cost of MMD² < 0.1"
PAPER = "Table 1 (tab:cost)"
QUESTION = "To reach MMD < 0.1 SPPE is 6 times and SPLE 2 times faster than SMC-ABC."
PAPER_VALUES: dict[str, Any] = {
    "smc-abc": {
        "simulation": "115.38 ± 1.51",
        "training": "-",
        "total": "115.38 ± 1.51",
        "thousands": (82.85, 1.03),
    },
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
METHODS = ("smc-abc", "sppe", "sppe-atomic", "sple", "exact-smc", "cle")
COMPARED = {"sppe": "sppe", "sppe-atomic": "sppe", "sple": "sple"}
"""Ours, and the row of the paper that it is compared with: the paper's SPPE has the atomic loss,
our default truncated proposals.
"""
SIMULATORS = {"leap": "the leap", "gillespie": "Gillespie's simulator"}
STRICT = 0.01
"""The same threshold for those who read MMD < .1 as the distance, not its square."""
_PER_ROUND = 32


def run(scale: Scale, progress: Progress) -> dict[str, Any]:
    clock = _Clock(scale)
    abc = [trial.final for trial in trials.each("sir", 10.0, "smc-abc", scale, progress)]
    methods: dict[str, Any] = {}
    for slug in METHODS:
        found = trials.each("sir", 10.0, slug, scale, progress)
        if found[0].refused:
            methods[slug] = {"refused": found[0].refused}
            continue
        progress(f"timing simulations of {NAMES[slug]}")
        methods[slug] = {
            "trials": [
                _cost(trial, clock, abc[(i + 1) % len(abc)]) for i, trial in enumerate(found)
            ]
        }
    return {"methods": methods, "simulated on": hardware(), "parameters timed per round": clock.num}


class _Clock:
    """Seconds per epidemic, simulated event by event, at given parameters on this machine; trials
    were simulated by leaps.
    """

    def __init__(self, scale: Scale) -> None:
        self.num = 4 if scale.quick else _PER_ROUND
        simulator: Any = trials.made("sir", 10.0).model.simulator
        self.simulator = dataclasses.replace(simulator, method="gillespie")
        self.simulator.simulate(jax.random.key(0), np.array([[-3.0, -0.5]]))

    def __call__(self, theta: np.ndarray) -> float:
        rows = np.linspace(0, len(theta) - 1, min(self.num, len(theta))).astype(int)
        started = time.perf_counter()
        self.simulator.simulate(jax.random.key(1), theta[rows].astype(float))
        return (time.perf_counter() - started) / len(rows)


def _cost(trial: trials.Trial, clock: _Clock, abc: np.ndarray) -> dict[str, Any]:
    """What one trial took until the threshold, or until its end where it was not reached; `abc` are
    SMC-ABC draws of another seed.
    """
    values = [each["mmd"] for each in trial.rounds]
    num = len(abc) // 2
    reference = spaced(abc.astype(float), num)
    by_abc = [mmd(reference, spaced(draws.astype(float), num)) for draws in trial.draws]
    counts = [int(each["num_simulations"]) for each in trial.rounds]
    first, upto = first_below(values), first_below(values) or len(values)
    pairs = zip(np.diff([0, *counts[:upto]]), trial.theta[:upto], strict=True)
    minutes = {
        "leap": sum(each["seconds"]["simulation"] for each in trial.rounds[:upto]) / 60.0,
        "gillespie": sum(n * clock(theta) for n, theta in pairs if n) / 60.0,
    }
    return {
        "reached": first is not None,
        "rounds": upto,
        "simulations": counts[upto - 1],
        "first": first,
        "stays": stays_below(values),
        "strict": first_below(values, STRICT),
        "first_abc": first_below(by_abc),
        "counts": counts,
        "mmd": values,
        "mmd_abc": by_abc,
        "last_mmd": values[-1],
        "simulation_minutes": minutes,
        "training_minutes": _others(trial.rounds[:upto]) / 60.0,
        "trained_on": trial.record["hardware"],
        "trained_together": trial.record["trained together"],
    }


def _others(rounds: list[dict[str, Any]]) -> float:
    """Seconds of training and sampling."""
    return float(sum(each["seconds"]["training"] + each["seconds"]["sampling"] for each in rounds))


def stays_below(values: list[float], threshold: float = THRESHOLD) -> int | None:
    """The first round from which on all values are below the threshold.

    >>> stays_below([0.3, 0.05, 0.2, 0.05]), stays_below([0.05, 0.01]), stays_below([0.05, 0.3])
    (4, 1, None)
    """
    above = [i for i, value in enumerate(values, start=1) if not value < threshold]
    first = above[-1] + 1 if above else 1
    return first if first <= len(values) else None


def _reached(result: dict[str, Any], slug: str) -> list[dict[str, Any]]:
    return [trial for trial in result["methods"][slug].get("trials", []) if trial["reached"]]


def thousands(result: dict[str, Any], slug: str, rule: str = "first") -> list[float]:
    """Thousands of simulations of the trials that come below the threshold by a rule: `first`,
    `stays`, `strict` or `first_abc`.
    """
    found = result["methods"][slug].get("trials", [])
    return [trial["counts"][trial[rule] - 1] / 1000.0 for trial in found if trial[rule]]


def table(result: dict[str, Any]) -> str:
    return f"{_simulations(result)}\n\n{_minutes_table(result)}"


def _simulations(result: dict[str, Any]) -> str:
    heads = [
        f"first MMD² < {THRESHOLD}",
        "stays below",
        f"first MMD² < {STRICT}",
        "against SMC-ABC, as in the paper",
    ]
    rows = [
        [f"{NAMES[slug]}, paper", "-", "-", "-", "{:.2f} ± {:.2f}".format(*paper["thousands"]), "-"]
        for slug, paper in PAPER_VALUES.items()
    ]
    for slug, made in result["methods"].items():
        if "refused" in made:
            rows.append([NAMES[slug], "refused", *["-"] * 4])
            continue
        cells = [_counted(result, slug, rule) for rule in ("first", "stays", "strict", "first_abc")]
        rows.append(
            [
                f"**{NAMES[slug]}**",
                *cells,
                spread([trial["last_mmd"] for trial in made["trials"]], 4),
            ]
        )
    return markdown(["thousand simulations until", *heads, "MMD² in the end"], rows)


def _counted(result: dict[str, Any], slug: str, rule: str) -> str:
    every, found = result["methods"][slug]["trials"], thousands(result, slug, rule)
    share = "" if len(found) == len(every) else f" ({len(found)} of {len(every)} trials)"
    return (spread(found) if found else "never") + share


def _minutes_table(result: dict[str, Any]) -> str:
    rows = [
        [f"{NAMES[slug]}, paper", "-", paper["simulation"], paper["training"], "-", paper["total"]]
        for slug, paper in PAPER_VALUES.items()
    ]
    rows += [_row(result, slug) for slug in result["methods"] if _reached(result, slug)]
    heads = [
        "simulation, leap",
        "simulation, Gillespie",
        "training and sampling",
        "total, leap",
        "total, Gillespie",
    ]
    return markdown([f"minutes until MMD² < {THRESHOLD}", *heads], rows)


def _row(result: dict[str, Any], slug: str) -> list[str]:
    found = _reached(result, slug)
    leap, gillespie = (
        [trial["simulation_minutes"][name] for trial in found] for name in SIMULATORS
    )
    training = [trial["training_minutes"] for trial in found]
    totals = (
        [a + b for a, b in zip(simulation, training, strict=True)]
        for simulation in (leap, gillespie)
    )
    return [
        f"**{NAMES[slug]}**",
        *(spread(values, 3) for values in (leap, gillespie, training, *totals)),
    ]


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
                thousands(result, slug),
                [place] * len(found),
                "o",
                color=OKABE_ITO[0],
                alpha=0.7,
                label="ours, each trial",
            )
            if slug in PAPER_VALUES:
                mean, sd = PAPER_VALUES[slug]["thousands"]
                left.errorbar(
                    mean, place + 0.22, xerr=sd, fmt="D", color=PRIOR, label="paper, mean ± sd"
                )
            gillespie = np.mean([trial["simulation_minutes"]["gillespie"] for trial in found])
            training = np.mean([trial["training_minutes"] for trial in found])
            right.barh(
                place, gillespie, color=OKABE_ITO[4], height=0.5, label="simulation (Gillespie)"
            )
            same = "smc-abc" not in shown or one_machine(result, slug, "smc-abc")
            look = (
                {"label": "training and sampling"}
                if same
                else {"hatch": "////", "label": "the same, other machine"}
            )
            right.barh(
                place,
                training,
                left=gillespie,
                color=OKABE_ITO[5],
                edgecolor="white",
                linewidth=0.0,
                height=0.5,
                **look,
            )
        left.set_yticks(range(len(shown)), [NAMES[slug] for slug in shown])
        left.invert_yaxis()
        left.set_xscale("log")
        left.set_xlabel(f"thousand simulations until MMD² < {THRESHOLD}")
        right.set_xlabel("minutes, mean over trials")
        for ax in (left, right):
            handles, texts = ax.get_legend_handles_labels()
            once = dict(zip(texts, handles, strict=True))
            if once:
                ax.legend(
                    once.values(),
                    once.keys(),
                    loc="lower center",
                    bbox_to_anchor=(0.5, 1.0),
                    ncols=2,
                )
    return made


def paragraph(result: dict[str, Any]) -> str:
    refused = [
        f"{NAMES[s]} does not serve this model: {v['refused']}"
        for s, v in result["methods"].items()
        if "refused" in v
    ]
    return (
        f"{_verdict(result)} The paper measures the distance to SMC-ABC draws, we to the exact"
        " posterior, and beside it to SMC-ABC draws of another seed; counts go by rounds, 1,000"
        f" simulations each. {_speed(result)} Gillespie's simulator makes one event after the"
        " other; the leap makes many at once, which is nearly exact and much faster, so that there"
        " little is gained by fewer simulations. Minutes of the leap were measured in the trials;"
        " those of Gillespie's simulator are the number of simulations of each round times the"
        f" time that {result['parameters timed per round']} of its parameters take on"
        f" {result['simulated on']}. {_machines(result)} {' '.join(refused)}"
    )


def _verdict(result: dict[str, Any]) -> str:
    """Ours against the paper's counts, one by one."""
    told = []
    for slug, row in COMPARED.items():
        found, every = thousands(result, slug), result["methods"][slug].get("trials", [])
        paper = PAPER_VALUES[row]["thousands"][0]
        if not found or len(found) < len(every):
            told.append(f"{NAMES[slug]} comes there in {len(found)} of {len(every)} trials")
            continue
        mean, stays = float(np.mean(found)), thousands(result, slug, "stays")
        order = (
            "less than half of"
            if mean < paper / 2
            else "no more than"
            if mean <= paper
            else "more than"
        )
        error = "" if len(found) < 2 else f" ± {np.std(found, ddof=1) / np.sqrt(len(found)):.2f}"
        lasting = (
            f" ({np.mean(stays):.2f} until it stays below)" if len(stays) == len(every) else ""
        )
        told.append(
            f"{NAMES[slug]} needs {mean:.2f}{error}{lasting}, {order} the paper's {paper:.2f}"
        )
    abc = thousands(result, "smc-abc")
    told.append(
        f"SMC-ABC {f'needs {np.mean(abc):.2f}' if abc else 'never comes there'} (paper"
        f" {PAPER_VALUES['smc-abc']['thousands'][0]:.2f})"
    )
    return (
        f"Thousands of simulations until MMD² < {THRESHOLD}, mean over trials: {'; '.join(told)}."
    )


def one_machine(result: dict[str, Any], *slugs: str) -> bool:
    """Whether the trials of these methods trained one by one on machines of one kind, on which
    simulations were timed too.
    """
    found = [trial for slug in slugs for trial in result["methods"][slug].get("trials", [])]
    machines = {trial["trained_on"] for trial in found}
    return machines == {result["simulated on"]} and all(
        trial["trained_together"] == 1 for trial in found
    )


def speed(result: dict[str, Any], slug: str, simulator: str) -> Gap:
    """The logarithm of the minutes of SMC-ABC over those of a method, by seed."""
    found = (result["methods"][name]["trials"] for name in ("smc-abc", slug))
    return difference(*(np.log([_minutes(trial, simulator) for trial in each]) for each in found))


def times(ratio: Gap) -> str:
    """A ratio from its logarithm, with its 95% interval.

    >>> times(Gap(np.log(10.0), np.log(2.0) / 2.776, 5)), times(Gap(np.log(10.0), np.nan, 1))
    ('10.0 (5.0 to 20.0)', '10.0')
    """
    spread = "" if np.isnan(ratio.se) else f" ({np.exp(ratio.low):.1f} to {np.exp(ratio.high):.1f})"
    return f"{np.exp(ratio.mean):.1f}{spread}"


def in_words(ratio: Gap) -> str:
    """How much faster, or slower.

    >>> in_words(Gap(np.log(2.0), np.nan, 1)), in_words(Gap(-np.log(2.0), np.nan, 1))
    ('2.0 times faster', '2.0 times slower')
    """
    if ratio.mean > 0.0:
        return f"{times(ratio)} times faster"
    return f"{times(dataclasses.replace(ratio, mean=-ratio.mean))} times slower"


def _always(result: dict[str, Any], slug: str) -> bool:
    return 0 < len(_reached(result, slug)) == len(result["methods"][slug]["trials"])


def _speed(result: dict[str, Any]) -> str:
    compared = [
        slug
        for slug in ("sppe", "sppe-atomic", "sple")
        if all(_always(result, name) for name in (slug, "smc-abc"))
        and one_machine(result, slug, "smc-abc")
    ]
    told = []
    for name in reversed(SIMULATORS) if compared else ():
        each = [f"{NAMES[slug]} {in_words(speed(result, slug, name))}" for slug in compared]
        told.append(f"with {SIMULATORS[name]} {joined(each)}")
    return (
        f"Against SMC-ABC, total minutes on like machines: {'; '.join(told)} (paper: SPPE 6,"
        " SPLE 2)."
        if told
        else ""
    )


def _machines(result: dict[str, Any]) -> str:
    machines = {
        NAMES[slug]: sorted({trial["trained_on"] for trial in made["trials"]})
        for slug, made in result["methods"].items()
        if "trials" in made
    }
    by_machine: dict[str, list[str]] = {}
    for name, found in machines.items():
        by_machine.setdefault(joined(found), []).append(name)
    told = "; ".join(f"{joined(names)} on {machine}" for machine, names in by_machine.items())
    shared = any(
        trial["trained_together"] > 1
        for made in result["methods"].values()
        for trial in made.get("trials", [])
    )
    words = " Where trials trained side by side each has its share." if shared else ""
    mixed = (
        " Minutes of rows of different machines cannot be compared." if len(by_machine) > 1 else ""
    )
    return f"Training and sampling, compilation included: {told}.{words}{mixed}"


def _minutes(trial: dict[str, Any], simulator: str) -> float:
    return float(trial["simulation_minutes"][simulator] + trial["training_minutes"])
