"""The same mechanism at other budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from noisewise._core.arrays import describe, number
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.guarantees import AbstractGuarantee, ApproximateDP, PureDP

Budgets = float | AbstractGuarantee | Iterable[float | AbstractGuarantee]
"""One budget or several: epsilons, or guarantees."""
Label = float | str
"""What a budget is called: an epsilon, or any text."""


def budgets(
    mechanism: AbstractMechanism,
    epsilons: Budgets | None,
    mechanisms: Mapping[Label, AbstractMechanism] | None,
    delta: float,
) -> dict[Label, AbstractMechanism]:
    """The mechanism of each budget.

    Args:
        mechanism: That of the model, which is made again for each epsilon.
        epsilons: Numbers or guarantees, or one of them.
        mechanisms: Mechanisms by label, in place of epsilons.
        delta: The delta of mechanisms that need one.

    Returns:
        Mechanisms by label: an epsilon, or what `mechanisms` calls it.

    Raises:
        InvalidInputError: If budgets are stated twice, or not at all.
        MissingCapabilityError: If the mechanism cannot be made for another guarantee, or has
            unknown parameters.
    """
    if mechanism.unknown:
        raise MissingCapabilityError(
            "A plan is about noise that is known, but the mechanism of this model depends on"
            f" {', '.join(mechanism.unknown)}: write model.with_mechanism(...) with a known one."
        )
    if (epsilons is None) == (mechanisms is None):
        raise InvalidInputError(
            "State the budgets once: epsilons=[0.1, 1, 10], or mechanisms={0.1: ..., 1: ...}."
        )
    if mechanisms is not None:
        return _given(mechanisms)
    if isinstance(epsilons, (str, bytes)) or not isinstance(epsilons, Iterable):
        epsilons = [epsilons]  # type: ignore[list-item]
    found: dict[Label, AbstractMechanism] = {}
    for epsilon in epsilons:
        guarantee = (
            epsilon
            if isinstance(epsilon, AbstractGuarantee)
            else _guarantee(mechanism, epsilon, delta)
        )
        found[_label(guarantee)] = mechanism.recalibrated(guarantee)
    if not found:
        raise InvalidInputError(
            "epsilons must hold at least one budget, such as [0.1, 1, 10]; got none."
        )
    return found


def _guarantee(mechanism: AbstractMechanism, epsilon: Any, delta: float) -> AbstractGuarantee:
    """epsilon-DP where the mechanism gives that, else (epsilon, delta)-DP."""
    value = number("epsilon", above=0.0)(epsilon)
    return ApproximateDP(value, delta) if mechanism.needs_delta else PureDP(value)


def _label(guarantee: AbstractGuarantee) -> Label:
    """The epsilon of a guarantee, else all of it as text."""
    return guarantee.epsilon if isinstance(guarantee, (PureDP, ApproximateDP)) else repr(guarantee)


def _given(mechanisms: Any) -> dict[Label, AbstractMechanism]:
    """The mechanisms that the user gave, by label."""
    if not isinstance(mechanisms, Mapping) or not mechanisms:
        raise InvalidTypeError(
            "mechanisms must map labels, such as epsilons, to mechanisms; got"
            f" {describe(mechanisms)}."
        )
    for label, mechanism in mechanisms.items():
        if not isinstance(mechanism, AbstractMechanism):
            raise InvalidTypeError(
                f"mechanisms[{label!r}] must be a mechanism, got {describe(mechanism)}."
            )
    numbers = all(isinstance(label, (int, float, np.number)) and label > 0 for label in mechanisms)
    return {
        float(label) if numbers else str(label): mechanism
        for label, mechanism in mechanisms.items()
    }


def check_capabilities(mechanisms: Mapping[Label, AbstractMechanism]) -> None:
    """Refuse mechanisms that cannot be sampled, or have no density to weigh by.

    Args:
        mechanisms: Mechanisms by label.

    Raises:
        MissingCapabilityError: If one of them lacks either.
    """
    for mechanism in mechanisms.values():
        missing = {Capability.SAMPLE, Capability.DENSITY} - mechanism.capabilities
        if missing:
            raise MissingCapabilityError(
                "plan simulates releases and weighs simulations by the mechanism's density;"
                f" {type(mechanism).__name__} lacks {', '.join(sorted(missing))}. Infer from a few"
                " simulated releases instead, by PrivatePosteriorEstimation."
            )
