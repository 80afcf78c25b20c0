"""Checks of the four stages of a model: their types, and whether their sizes fit."""

from __future__ import annotations

from collections.abc import Mapping

from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.priors.prior import Prior
from noisewise.queries import AbstractQuery
from noisewise.simulators import AbstractRecordModel, AbstractSimulator, StatisticLaw

_STAGES = {
    "prior": (Prior, 'a nw.Prior, such as nw.Prior({"rate": dist.LogNormal(0, 1)})'),
    "simulator": (AbstractSimulator, "a simulator, such as nw.simulators.JaxSimulator(fn)"),
    "query": (AbstractQuery, "a query, such as nw.queries.ClampedMean(...), or a function x -> s"),
    "mechanism": (AbstractMechanism, "a mechanism, such as nw.mechanisms.Laplace(scale=0.1)"),
}


def check_stages(stages: Mapping[str, object]) -> None:
    """Refuse a stage of the wrong type, in a message that shows the line to write.

    Args:
        stages: "prior", "simulator", "query" and "mechanism", as the user gave them. A bare
            function and a mapping also serve as a query.

    Raises:
        InvalidTypeError: If one of them is something else.
    """
    for name, (kind, expected) in _STAGES.items():
        value = stages[name]
        if isinstance(value, kind):
            continue
        if name == "simulator" and _is_bare_function(value):
            raise InvalidTypeError(
                "A bare function does not say what kind of simulator it is: write"
                " nw.simulators.JaxSimulator(fn) for fn(key, theta) in JAX, or"
                " nw.simulators.PythonSimulator(fn) for fn(rng, theta) in plain Python, or"
                " nw.simulators.StatisticLaw(fn) for fn(theta) that returns the law of the"
                " statistic."
            )
        if name == "mechanism" and _is_bare_function(value):
            continue
        if name != "query" or not (_is_bare_function(value) or isinstance(value, Mapping)):
            raise InvalidTypeError(f"{name} must be {expected}, got {_found(value)}")


def _is_bare_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type) and _stage_of(value) is None


def _stage_of(value: object) -> str | None:
    return next((name for name, (kind, _) in _STAGES.items() if isinstance(value, kind)), None)


def _found(value: object) -> str:
    """What was given in place of a stage, and what to do about it."""
    stage = _stage_of(value)
    if stage is not None:
        return f"a {stage}: are two arguments swapped?"
    if isinstance(value, type):
        return f"the class {value.__name__}: write {value.__name__}(...)."
    if isinstance(value, AbstractGuarantee):
        return (
            "a guarantee: write, for instance,"
            " nw.mechanisms.Laplace.calibrate(sensitivity=query.sensitivity(norm=1),"
            f" guarantee={value!r})."
        )
    return f"{type(value).__name__}."


def check_sizes(
    simulator: AbstractSimulator, query: AbstractQuery, mechanism: AbstractMechanism
) -> None:
    """Refuse stages that state different widths or numbers of records.

    Raises:
        InvalidInputError: If the query and the mechanism, or the simulator and the query, disagree.
    """
    width = None if mechanism.width is None else mechanism.width - mechanism.num_unknown
    if isinstance(simulator, StatisticLaw):
        simulator.check_width(width, type(mechanism).__name__)
        simulator.check_width(query.width, "query")
    if query.width is not None and width is not None and query.width != width:
        raise InvalidInputError(
            f"The query gives {query.width} numbers, but the {type(mechanism).__name__} takes"
            f" {width}."
        )
    if isinstance(simulator, AbstractRecordModel) and query.num_records not in (
        None,
        simulator.num_records,
    ):
        raise InvalidInputError(
            f"The simulator makes {simulator.num_records} records, but the query is about"
            f" {query.num_records}: state one number in both."
        )
