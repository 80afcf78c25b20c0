"""The same mechanism at other budgets."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from noisewise._arrays import describe, number
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms import Clamped, DiscreteGaussian, Gaussian, Product
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.mechanisms.guarantees import AbstractGuarantee, ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP

Label = float | str
_OWN = 'pass mechanisms={"label": mechanism, ...} with the mechanism of each budget.'


def budgets(
    mechanism: AbstractMechanism, epsilons: Any, mechanisms: Any, delta: float
) -> dict[Label, AbstractMechanism]:
    """The mechanism of each budget by its label: an epsilon, or whatever `mechanisms` calls it."""
    if (epsilons is None) == (mechanisms is None):
        raise InvalidInputError("State the budgets once: epsilons=[0.1, 1, 10], or mechanisms={0.1: ..., 1: ...}.")
    if mechanisms is not None:
        return _given(mechanisms)
    if isinstance(epsilons, (str, bytes)) or not isinstance(epsilons, Iterable):
        epsilons = [epsilons]
    found: dict[Label, AbstractMechanism] = {}
    for epsilon in epsilons:
        guarantee = epsilon if isinstance(epsilon, AbstractGuarantee) else _guarantee(mechanism, epsilon, delta)
        found[_label(guarantee)] = recalibrated(mechanism, guarantee)
    if not found:
        raise InvalidInputError("epsilons must hold at least one budget, such as [0.1, 1, 10]; got none.")
    return found


def recalibrated(mechanism: AbstractMechanism, guarantee: AbstractGuarantee) -> AbstractMechanism:
    """A mechanism of the same kind, for the same sensitivity, with another guarantee: only its noise changes.

    The noise's scale changes, for a `PaddedBinomial` its padding, for randomised response its truth probability. A `Product` keeps the
    shares of its blocks in the budget.

    >>> import noisewise as nw
    >>> recalibrated(nw.mechanisms.Laplace(scale=1.0, sensitivity=2.0), nw.PureDP(8.0))
    Laplace(scale=0.25, sensitivity=2.0)
    """
    if isinstance(mechanism, Clamped):
        return dataclasses.replace(mechanism, mechanism=recalibrated(mechanism.mechanism, guarantee))
    if isinstance(mechanism, Product):
        shares = _shares(mechanism, guarantee)
        parts = [recalibrated(part, share) for part, share in zip(mechanism.mechanisms, shares, strict=True)]
        return Product(parts, widths=mechanism.widths)
    calibrate = getattr(type(mechanism), "calibrate", None)
    if calibrate is None:
        raise MissingCapabilityError(
            f"{type(mechanism).__name__} cannot be made anew for another budget by itself: {_OWN}"
        )
    kept = {name: getattr(mechanism, name) for name in inspect.signature(calibrate).parameters if name != "guarantee"}
    if "sensitivity" in kept and kept["sensitivity"] is None:
        raise MissingCapabilityError(
            f"This {type(mechanism).__name__} does not know the query's sensitivity, so that no epsilon belongs to its scale: pass "
            f"sensitivity=... to it, or {_OWN}"
        )
    made: AbstractMechanism = calibrate(**kept, guarantee=guarantee)
    return made


def _guarantee(mechanism: AbstractMechanism, epsilon: Any, delta: float) -> AbstractGuarantee:
    """epsilon-DP where the mechanism gives that, else (epsilon, delta)-DP."""
    value = number("epsilon", above=0.0)(epsilon)
    return ApproximateDP(value, delta) if _needs_delta(mechanism) else PureDP(value)


def _needs_delta(mechanism: AbstractMechanism) -> bool:
    if isinstance(mechanism, Clamped):
        return _needs_delta(mechanism.mechanism)
    if isinstance(mechanism, Product):
        return any(map(_needs_delta, mechanism.mechanisms))
    return isinstance(mechanism, (Gaussian, DiscreteGaussian))


def _shares(product: Product, guarantee: AbstractGuarantee) -> list[AbstractGuarantee]:
    """The guarantee of each block, in the proportions of now: epsilons add up, and so do squares of mu."""
    now = [part.guarantee for part in product.mechanisms]
    if all(isinstance(part, PureDP) for part in now) and isinstance(guarantee, PureDP):
        parts = np.array([part.epsilon for part in now])  # type: ignore[attr-defined]
        return [PureDP(guarantee.epsilon * share) for share in (parts / parts.sum()).tolist()]
    if all(isinstance(part, GaussianDP) for part in now):
        parts = np.array([part.mu for part in now])  # type: ignore[attr-defined]
        return [GaussianDP(_mu(guarantee) * share) for share in (parts / np.linalg.norm(parts)).tolist()]
    raise MissingCapabilityError(f"The blocks of this Product have guarantees that do not scale together: {_OWN}")


def _mu(guarantee: AbstractGuarantee) -> float:
    if isinstance(guarantee, ApproximateDP):
        return GaussianDP.from_approximate(guarantee).mu
    if isinstance(guarantee, ZeroConcentratedDP):
        return math.sqrt(2.0 * guarantee.rho)
    return guarantee.to(GaussianDP).mu


def _label(guarantee: AbstractGuarantee) -> Label:
    return guarantee.epsilon if isinstance(guarantee, (PureDP, ApproximateDP)) else repr(guarantee)


def _given(mechanisms: Any) -> dict[Label, AbstractMechanism]:
    if not isinstance(mechanisms, Mapping) or not mechanisms:
        raise InvalidTypeError(
            f"mechanisms must map labels, such as epsilons, to mechanisms; got {describe(mechanisms)}."
        )
    for label, mechanism in mechanisms.items():
        if not isinstance(mechanism, AbstractMechanism):
            raise InvalidTypeError(f"mechanisms[{label!r}] must be a mechanism, got {describe(mechanism)}.")
    numbers = all(isinstance(label, (int, float, np.number)) and label > 0 for label in mechanisms)
    return {float(label) if numbers else str(label): mechanism for label, mechanism in mechanisms.items()}


def check_capabilities(mechanisms: Mapping[Label, AbstractMechanism]) -> None:
    """Refuse mechanisms that cannot be sampled, or have no density to weigh by."""
    for mechanism in mechanisms.values():
        missing = {Capability.SAMPLE, Capability.DENSITY} - mechanism.capabilities
        if missing:
            raise MissingCapabilityError(
                f"plan simulates releases and weighs simulations by the mechanism's density; {type(mechanism).__name__} lacks "
                f"{', '.join(sorted(missing))}. Infer from a few simulated releases instead, by PrivatePosteriorEstimation."
            )
