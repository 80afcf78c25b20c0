r"""Adding up what several releases cost, and comparing it with a limit.

A cost is a pair: the guarantee that the mechanism implies, and the one that was asked for, which it
implies too (None if that is not known). Under a limit in PureDP, ZeroConcentratedDP or GaussianDP
every implied guarantee is converted to that kind, and there is one total. Under an (epsilon, delta)
limit there are several, and it is enough that ONE of them is within the limit, because each by
itself is a true statement about all releases together:

(a) in one kind. If release i is rho_i-zCDP, all together are (sum_i rho_i)-zCDP (Bun and Steinke
2016); if it is mu_i-GDP, they are |mu|_2-GDP (Dong, Roth and Su 2022); if it is epsilon_i-DP, they
are (sum_i epsilon_i)-DP. What the total implies at the limit's delta is a theorem about the total
(`guarantees`).

(b) basic composition. If release i is (epsilon_i, delta_i)-DP, all together are (sum epsilon_i, sum
delta_i)-DP (Dwork and Roth 2014, appendix B). Any true pair may stand for release i: (epsilon_i, 0)
for a pure guarantee, the pair that was asked for, or, for zCDP and GDP, the conversion at a delta_i
of our choice. Those share evenly what the other releases leave of the limit's delta, so that the
deltas add up to no more than it.

Both allow a release to depend on what earlier ones published. They take the guarantees as chosen
without regard to that. Where results decide how much is asked for next, a single total remains a
valid stopping rule (Rogers, Roth, Ullman and Vadhan 2016; Feldman and Zrnic 2021; Smith and
Thakurta 2022), but "one of several" need not be: use a limit in PureDP, ZeroConcentratedDP or
GaussianDP then.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from noisewise.errors import ConversionError
from noisewise.mechanisms.guarantees import (
    AbstractGuarantee,
    ApproximateDP,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
    compose,
)

Cost = tuple[AbstractGuarantee, AbstractGuarantee | None]
"""What the mechanism of a release implies, and what was asked for."""
_LEFT = 1e-12
"""Relative to the limit's epsilon: less than this is rounding, and nothing is left."""

_UNKNOWN = (ValueError, ArithmeticError)
"""What a conversion raises that does not exist, or that leaves the range of float64: the total is
then not used.
"""


def fits(costs: Sequence[Cost], limit: AbstractGuarantee) -> bool:
    """Whether some total of all releases is within the limit.

    Args:
        costs: The cost of each release.
        limit: What may be spent in all.

    Raises:
        ConversionError: If the kinds of guarantees cannot be compared, or they are about other
            neighbours or another unit than the limit.

    >>> asked = ApproximateDP(0.5, 5e-7)
    >>> costs = [(PureDP(0.3), None), (ZeroConcentratedDP.from_approximate(asked), asked)]
    >>> fits(costs, ApproximateDP(0.8, 5e-7)), fits(costs, ApproximateDP(0.79, 5e-7))
    (True, False)
    """
    _check_neighbours(costs, limit)
    try:
        return any(_within(total, limit) for total in _totals(costs, limit))
    except ConversionError:
        # With a delta every kind can be compared: what is missing is some of it for a release that
        # needs it.
        if isinstance(limit, ApproximateDP) and limit.delta > 0.0:
            return False
        raise


def spent(costs: Sequence[Cost], limit: AbstractGuarantee) -> AbstractGuarantee:
    """What all releases cost together.

    Args:
        costs: The cost of each release.
        limit: What may be spent in all.

    Returns:
        A guarantee of the limit's kind: by (b) while that leaves something, else the smallest
            total.

    Raises:
        ConversionError: If a cost is about other neighbours or another unit than the limit.
    """
    _check_neighbours(costs, limit)
    if not costs:
        return limit.with_parameters(**dict.fromkeys(limit.parameters, 0.0))
    if not isinstance(limit, ApproximateDP):
        return _totals(costs, limit)[0]
    if _basic_leaves_something(costs, limit):
        return _basic(costs, limit)
    totals = _known(functools.partial(_at_limit, total, limit) for total in _totals(costs, limit))
    return min(totals, key=lambda total: (not _within(total, limit), total.epsilon))


def remaining(costs: Sequence[Cost], limit: AbstractGuarantee) -> AbstractGuarantee:
    """A guarantee that can still be spent; more of another kind may fit.

    Args:
        costs: The cost of each release.
        limit: What may be spent in all.

    Returns:
        A guarantee of the limit's kind, unless basic composition is exhausted or would need deltas
            of our choice: then of the kind in which all releases add up.
    """
    if not costs:
        return limit
    if not isinstance(limit, ApproximateDP):
        return _difference(limit, _totals(costs, limit)[0])
    if not _basic_leaves_something(costs, limit):
        for kind in (GaussianDP, ZeroConcentratedDP):
            with contextlib.suppress(*_UNKNOWN):
                left = _difference(kind.from_approximate(limit), _in_kind(costs, kind))
                if any(left.parameters.values()):
                    return left
    with contextlib.suppress(*_UNKNOWN):
        basic = _basic(costs, limit)
        delta = max(0.0, limit.delta - basic.delta) if _all_have_deltas(costs) else 0.0
        epsilon = max(0.0, limit.epsilon - basic.epsilon)
        return limit.with_parameters(epsilon=epsilon, delta=delta)
    return limit.with_parameters(epsilon=0.0, delta=0.0)


@functools.lru_cache(maxsize=4096)
def implies(guarantee: AbstractGuarantee, asked: AbstractGuarantee) -> bool:
    """Whether what was asked for follows from what the mechanism guarantees."""
    return _within(guarantee, asked)


def _check_neighbours(costs: Sequence[Cost], limit: AbstractGuarantee) -> None:
    for guarantee, _ in costs:
        if guarantee.promises and guarantee.neighbours != limit.neighbours:
            raise ConversionError(
                f"it is about {limit.neighbours!r}, the release about {guarantee.neighbours!r}, and"
                " these do not add up."
            )


def _totals(costs: Sequence[Cost], limit: AbstractGuarantee) -> list[AbstractGuarantee]:
    """All totals that can be compared with the limit."""
    if not isinstance(limit, ApproximateDP):
        return [_in_kind(costs, type(limit))]
    kinds = (PureDP, GaussianDP, ZeroConcentratedDP) if limit.delta > 0.0 else (PureDP,)
    ways: list[Callable[[], Any]] = [functools.partial(_in_kind, costs, kind) for kind in kinds]
    return _known([functools.partial(_basic, costs, limit), *ways])


def _known(ways: Iterable[Callable[[], Any]]) -> list[Any]:
    """What those of the computations return that succeed; the first refusal if none does."""
    results, refusals = [], []
    for way in ways:
        try:
            with np.errstate(all="ignore"):  # absurd numbers overflow on their way to being refused
                results.append(way())
        except _UNKNOWN as error:
            refusals.append(error)
    if not results:
        raise ConversionError(str(refusals[0]))
    return results


def _within(total: AbstractGuarantee, limit: AbstractGuarantee) -> bool:
    with contextlib.suppress(*_UNKNOWN), np.errstate(all="ignore"):
        return total.within(limit)
    return False


def _in_kind(costs: Sequence[Cost], kind: type[AbstractGuarantee]) -> AbstractGuarantee:
    """(a): the implied guarantees, converted one by one."""
    return compose([guarantee.to(kind) for guarantee, _ in costs])


def _basic(costs: Sequence[Cost], limit: ApproximateDP) -> ApproximateDP:
    """(b): pairs (epsilon, delta), the undecided deltas sharing what is left."""
    pairs = [_pair(cost) for cost in costs]
    left = limit.delta - math.fsum(pair.delta for pair in pairs if pair is not None)
    share = max(0.0, left) / max(1, pairs.count(None))
    parts = [
        _at_delta(guarantee, share) if pair is None else pair
        for (guarantee, _), pair in zip(costs, pairs, strict=True)
    ]
    return limit.with_parameters(
        epsilon=math.fsum(part.epsilon for part in parts),
        delta=math.fsum(part.delta for part in parts),
    )


def _pair(cost: Cost) -> ApproximateDP | None:
    """The (epsilon, delta) of a release, if it has one without our choosing a delta."""
    guarantee, asked = cost
    if isinstance(guarantee, PureDP):
        return guarantee.to(ApproximateDP)
    return next(
        (stated for stated in (guarantee, asked) if isinstance(stated, ApproximateDP)), None
    )


def _all_have_deltas(costs: Sequence[Cost]) -> bool:
    return all(_pair(cost) is not None for cost in costs)


def _basic_leaves_something(costs: Sequence[Cost], limit: ApproximateDP) -> bool:
    if not _all_have_deltas(costs):
        return False
    with contextlib.suppress(*_UNKNOWN):
        total = _basic(costs, limit)
        return total.within(limit) and limit.epsilon - total.epsilon > _LEFT * limit.epsilon
    return False


@functools.lru_cache(maxsize=4096)
def _at_delta(guarantee: AbstractGuarantee, delta: float) -> ApproximateDP:
    return guarantee.to(ApproximateDP, delta=delta)


def _at_limit(total: AbstractGuarantee, limit: ApproximateDP) -> ApproximateDP:
    return total if isinstance(total, ApproximateDP) else _at_delta(total, limit.delta)


def _difference(limit: Any, total: Any) -> AbstractGuarantee:
    """What composes with `total` to a limit of the same kind; never below zero."""
    if isinstance(limit, ZeroConcentratedDP):
        return limit.with_parameters(rho=max(0.0, limit.rho - total.rho))
    if isinstance(limit, GaussianDP):
        return limit.with_parameters(mu=math.sqrt(max(0.0, limit.mu**2 - total.mu**2)))
    left: AbstractGuarantee = limit.with_parameters(epsilon=max(0.0, limit.epsilon - total.epsilon))
    return left
