"""Who takes part: each is given a problem, a seed, a number of simulations and settings."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.learning.problem import Problem

NUM_DRAWS = 1000
"""Draws that are scored, of a method and of the exact posterior: C2ST then has an sd of .011."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Draws (1,000, d), the simulations that they cost, and what the method says of itself."""

    draws: np.ndarray
    num_simulations: int
    findings: list[str] = dataclasses.field(default_factory=list)
    numbers: dict[str, float] = dataclasses.field(default_factory=dict)


Method = Callable[[Problem, int, int, Mapping[str, Any]], Outcome]

OURS = {
    "sppe": "PrivatePosteriorEstimation",
    "sple": "PrivateLikelihoodEstimation",
    "cle": "ConfidentialLikelihoodEstimation",
}
SBI = ("sbi-npe", "sbi-npe-c", "sbi-nle", "sbi-snle", "sbi-fmpe")
"""Run in the environment of `make rivals`."""


def method(name: str) -> Method:
    """The method of this name; a dotted one is a function of your own, as in my.module:fn."""
    if name in OURS:
        return lambda *given: ours(name, *given)
    if name in SBI:
        module = importlib.import_module("benchmarks.learning.sbi_methods")
        return module.METHODS[name]
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def ours(
    name: str, problem: Problem, seed: int, simulations: int, settings: Mapping[str, Any]
) -> Outcome:
    """A method of noisewise with its defaults, the simulations shared out equally over its
    rounds.
    """
    import jax

    made = constructed(name, simulations, settings)
    posterior = made.infer(jax.random.key(seed), problem.model, problem.observed, progress=False)
    draws = np.asarray(posterior.sample(jax.random.key(1000 + seed), NUM_DRAWS))
    report = posterior.report
    return Outcome(
        draws=draws,
        num_simulations=report.num_simulations,
        findings=[finding.kind.value for finding in report.findings],
        numbers={k: float(v) for k, v in report.numbers.items() if isinstance(v, int | float)},
    )


def constructed(name: str, simulations: int, settings: Mapping[str, Any]) -> Any:
    """The method object; `training.max_epochs` in the settings changes a field of a field."""
    from noisewise import inference

    made = getattr(inference, OURS[name])()
    for field, value in settings.items():
        made = _replaced(made, field.split("."), value)
    if "num_simulations" in settings:
        return made
    return dataclasses.replace(made, num_simulations=simulations // made.num_rounds)


def setting(text: str) -> tuple[str, Any]:
    """name=value, the value in JSON, else the name of something in noisewise.estimators or
    noisewise.inference (made without arguments if it is a class), else a string.
    """
    name, _, given = text.partition("=")
    try:
        return name, json.loads(given)
    except json.JSONDecodeError:
        return name, given


def _replaced(made: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    new = _replaced(getattr(made, head), rest, value) if rest else _resolved(value)
    return dataclasses.replace(made, **{head: new})


def _resolved(value: Any) -> Any:
    from noisewise import estimators, inference

    for module in (estimators, inference) if isinstance(value, str) else ():
        found = getattr(module, value, None)
        if found is not None:
            return found() if isinstance(found, type) else found
    return value
