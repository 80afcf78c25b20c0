"""Whether a record holds all that its item promises: every method, budget, trial and round, and a
number wherever one belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from experiments import (
    abc_accuracy,
    claims,
    clouds,
    complexity,
    flow_layers,
    ks_heatmaps,
    log_linear_accuracy,
    log_linear_marginals,
    noise_rmse,
    outbreak_trials,
    regression_accuracy,
    regression_epsilons,
    regression_scatter,
    regression_tables,
    sir_accuracy,
    sir_accuracy_low_epsilon,
    sir_marginals,
    table_cost,
)
from experiments.items import Scale
from experiments.measures import METRICS
from experiments.trials import ONCE
from noisewise.problems.outbreak import NAMES as OUTBREAKS

MAY_BE_NONE = {
    "operations",
    "operations_exponent",
    "operations_last",
    "first",
    "stays",
    "strict",
    "first_abc",
}
"""What has no number in some cases: operations that nobody counts, rounds in which a threshold is
not reached.
"""

Missing = Iterator[str]


def missing(record: Mapping[str, Any]) -> list[str]:
    """What a record lacks, in words; nothing where it is complete."""
    sizes = {
        name: value for name, value in record["scale"].items() if name in Scale.__dataclass_fields__
    }
    found = list(without_number(record["result"], "result"))
    check = CHECKS.get(record["item"])
    return found + (list(check(record["result"], Scale(**sizes))) if check is not None else [])


def without_number(value: Any, place: str) -> Missing:
    """Where None stands for a number.

    >>> list(without_number({"a": [1.0, None], "first": None}, "result"))
    ['result.a[1] is None']
    """
    if value is None:
        yield f"{place} is None"
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if name not in MAY_BE_NONE:
                yield from without_number(each, f"{place}.{name}")
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from without_number(each, f"{place}[{i}]")


def keys(value: Mapping[str, Any], wanted: Iterable[str], place: str) -> Missing:
    """Which of `wanted` are not there.

    >>> list(keys({"a": 1}, ["a", "b"], "result"))
    ['result has no b']
    """
    yield from (f"{place} has no {name}" for name in wanted if name not in value)


def shaped(value: Any, shape: tuple[int | None, ...], place: str) -> Missing:
    """Whether nested lists have a shape, whose None stands for any number but 0.

    >>> list(shaped([[1, 2], [3, 4]], (2, None), "c2st")), list(shaped([[1, 2]], (2, None), "c2st"))
    ([], ['c2st has shape (1, 2), expected (2, any)'])
    """
    try:
        found = np.shape(value)
    except ValueError:
        found = ()
    fits = len(found) == len(shape) and all(
        n == m if m is not None else n > 0 for n, m in zip(found, shape, strict=True)
    )
    if not fits:
        words = ", ".join("any" if m is None else str(m) for m in shape)
        yield f"{place} has shape {found}, expected ({words})"


# Items --------------------------------------------------------------------------------------------


def _panel(
    shown: Mapping[str, Any], methods: Iterable[str], scale: Scale, place: str = "panel"
) -> Missing:
    yield from keys(shown["methods"], methods, place)
    yield from keys(shown["exact"], METRICS, f"{place}.exact")
    for slug, values in shown["methods"].items():
        yield from keys(values, METRICS, f"{place}.{slug}")
        for metric in METRICS:
            yield from shaped(
                values.get(metric), (scale.trials, scale.rounds), f"{place}.{slug}.{metric}"
            )


def _one_panel(methods: Iterable[str]) -> Callable[[Any, Scale], Missing]:
    return lambda result, scale: _panel(result["panel"], methods, scale)


def _low_epsilon(result: Any, scale: Scale) -> Missing:
    yield from keys(
        result["panels"], (f"{e:g}" for e in sir_accuracy_low_epsilon.EPSILONS), "panels"
    )
    for epsilon, shown in result["panels"].items():
        yield from _panel(shown, sir_accuracy_low_epsilon.METHODS, scale, epsilon)


def _layers(result: Any, scale: Scale) -> Missing:
    yield from keys(result["panels"], flow_layers.PROBLEMS, "panels")
    for problem, by_role in result["panels"].items():
        yield from keys(by_role, flow_layers.ROLES, problem)
        for role, shown in by_role.items():
            yield from _panel(shown, flow_layers.METHODS, scale, f"{problem}.{role}")
            if shown["layers"] != flow_layers.of_scale(flow_layers.ROLES[role], scale):
                yield f"{problem}.{role} has {shown['layers']} layers"


def _clouds(result: Any, scale: Scale) -> Missing:
    yield from keys(result["methods"], clouds.LEARNERS, "methods")
    for slug, each in result["methods"].items():
        yield from keys(each["draws"], map(str, result["rounds"]), f"{slug}.draws")
        for name in ("mean", "sd"):
            yield from shaped(
                each[name], (len(result["rounds"]), scale.trials, 2), f"{slug}.{name}"
            )
    if scale.rounds not in result["rounds"]:
        yield f"rounds have no {scale.rounds}"


def _distances(result: Any, scale: Scale) -> Missing:
    num = len(ks_heatmaps.METHODS)
    for epsilon in ks_heatmaps.EPSILONS:
        yield from keys(result["distances"], [f"{epsilon:g}"], "distances")
        yield from keys(result["floor"], [f"{epsilon:g}"], "floor")
    for epsilon, rows in result["distances"].items():
        if [len(row) for row in rows] != list(range(num)):
            yield f"{epsilon} has not all pairs of {num} methods"
        for a, row in enumerate(rows):
            for b, each in enumerate(row):
                yield from shaped(each, (scale.trials, 3), f"{epsilon}[{a}][{b}]")


def _costs(result: Any, scale: Scale) -> Missing:
    yield from keys(result["methods"], table_cost.METHODS, "methods")
    for slug, made in result["methods"].items():
        if "refused" not in made and len(made["trials"]) != scale.trials:
            yield f"{slug} has {len(made['trials'])} trials"


def _abc(result: Any, scale: Scale) -> Missing:
    if len(result["trials"]) != scale.trials or len(result["stopped"]) != scale.trials:
        yield f"SMC-ABC has {len(result['trials'])} trials"
    for i, trial in enumerate(result["trials"]):
        for name in ("tolerance", *METRICS):
            yield from shaped(
                trial.get(name), (len(trial["num_simulations"]),), f"trial {i}.{name}"
            )
    yield from keys(result["learnt"], abc_accuracy.LEARNERS, "learnt")
    for slug, each in result["learnt"].items():
        for name in METRICS:
            yield from shaped(each.get(name), (scale.trials,), f"{slug}.{name}")


def _by_method(methods: Iterable[str], *names: str) -> Callable[[Any, Scale], Missing]:
    """Results in which each of `names` maps methods to one entry per trial."""

    def check(result: Any, scale: Scale) -> Missing:
        for name in names:
            yield from keys(result[name], methods, name)
            for slug, each in result[name].items():
                if len(each) != (1 if slug in ONCE else scale.trials):
                    yield f"{name}.{slug} has {len(each)} trials"

    return check


def _rows(result: Any, scale: Scale) -> Missing:
    yield from keys(result["rows"], (f"{e:g}" for e in regression_tables.EPSILONS), "rows")
    for epsilon, rows in result["rows"].items():
        yield from keys(rows, regression_tables.METHODS, epsilon)
        for slug, row in rows.items():
            if "refused" not in row:
                for name in ("mean", "sd", "low", "high"):
                    yield from shaped(
                        row.get(name),
                        (1 if slug in ONCE else scale.trials, 3),
                        f"{epsilon}.{slug}.{name}",
                    )


def _epsilons(result: Any, scale: Scale) -> Missing:
    yield from keys(
        result["posteriors"], (f"{e:g}" for e in regression_epsilons.EPSILONS), "posteriors"
    )
    for epsilon, each in result["posteriors"].items():
        yield from keys(each, regression_epsilons.METHODS, epsilon)


def _outbreaks(result: Any, scale: Scale) -> Missing:
    yield from keys(result["outbreaks"], OUTBREAKS, "outbreaks")
    for name, made in result["outbreaks"].items():
        yield from keys(made["variants"], outbreak_trials.VARIANTS, name)
        for variant, cells in made["variants"].items():
            yield from keys(cells, outbreak_trials.METHODS, f"{name}.{variant}")
            for slug, cell in cells.items():
                if len(cell["trials"]) != len(outbreak_trials.seeds(slug, variant, scale)):
                    yield f"{name}.{variant}.{slug} has {len(cell['trials'])} trials"


def _nets(result: Any, scale: Scale) -> Missing:
    yield from keys(result["problems"], noise_rmse.PROBLEMS, "problems")
    for name, made in result["problems"].items():
        yield from keys(made, noise_rmse.POINTS, name)
        for kind in noise_rmse.POINTS:
            yield from shaped(
                made.get(kind, {}).get("rmse"), (len(result["sizes"]),), f"{name}.{kind}.rmse"
            )
    if not scale.quick and len(result["sizes"]) != len(noise_rmse.SIZES):
        yield f"sizes are {len(result['sizes'])}"


def _sweeps(result: Any, scale: Scale) -> Missing:
    found = {f"{sweep['kind']} {sweep['size']}" for sweep in result["sweeps"]}
    wanted = [
        "simulation n",
        "noise n",
        *(f"{kind} {size}" for kind in ("PLE", "PPE") for size in ("dim_s", "units")),
    ]
    if not scale.quick:
        wanted += [f"{kind} {size}" for kind in ("PLE", "PPE") for size in complexity.SIZES]
        wanted.remove("PLE atoms")
    yield from keys(dict.fromkeys(found), dict.fromkeys(wanted), "sweeps")


def _claims(result: Any, scale: Scale) -> Missing:
    found = {each["claim"]: each for each in result["claims"]}
    yield from keys(found, (claim.text for claim in claims.CLAIMS), "claims")
    yield from (
        f"{text} is not judged yet"
        for text, each in found.items()
        if each["verdict"] == claims.MISSING
    )


CHECKS: dict[str, Callable[[Any, Scale], Missing]] = {
    "sir_posteriors_by_round": _clouds,
    "sir_scatter": _clouds,
    "sir_accuracy": _one_panel(sir_accuracy.METHODS),
    "sir_accuracy_low_epsilon": _low_epsilon,
    "regression_accuracy": _one_panel(regression_accuracy.METHODS),
    "log_linear_accuracy": _one_panel(log_linear_accuracy.METHODS),
    "flow_layers": _layers,
    "ks_heatmaps": _distances,
    "table_cost": _costs,
    "abc_accuracy": _abc,
    "sir_marginals": _by_method(sir_marginals.METHODS, "moments"),
    "log_linear_marginals": _by_method(log_linear_marginals.METHODS, "mean", "sd"),
    "regression_scatter": _by_method(regression_scatter.METHODS, "c2st", "mmd", "simulations"),
    "regression_tables": _rows,
    "regression_epsilons": _epsilons,
    "outbreaks": _outbreaks,
    "noise_rmse": _nets,
    "complexity": _sweeps,
    "claims": _claims,
}
"""The other items have tests of their own for what they hold."""
