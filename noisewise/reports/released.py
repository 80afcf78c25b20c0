"""What was released, and with which guarantee."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from noisewise._core.neighbours import AbstractNeighbours, AddRemoveOne
from noisewise._core.text import Markup, join
from noisewise.disclosure.fields import promises_something
from noisewise.errors import ConversionError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import (
    AbstractGuarantee,
    ApproximateDP,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
)
from noisewise.model.private_model import PrivateModel
from noisewise.queries import AbstractQuery
from noisewise.reports.html import facts, number, paragraphs, section, table
from noisewise.simulators import StatisticLaw

if TYPE_CHECKING:
    from noisewise.disclosure import Release

_MOST_ROWS = 24
"""Published numbers shown: as many as fit on a screen."""
_DELTA = 1e-6
"""delta at which other guarantees are put into epsilon: below one in the size of most databases."""


def released(
    model: PrivateModel | None,
    observed: Float[np.ndarray, " kp"] | None,
    release: Release | None,
    names: tuple[str, ...] = (),
) -> Markup:
    """The section; `release` says more than the model does where both are there, and `names`, of
    the published numbers, go before those of either.
    """
    mechanism = (
        release.mechanism if release is not None else model.mechanism if model is not None else None
    )
    if mechanism is None:
        return section(
            "released",
            "What was released",
            paragraphs("The model was not given with this posterior."),
        )
    values = release.observed if release is not None else observed
    return section(
        "released",
        "What was released",
        paragraphs(release.description if release is not None else ""),
        facts(_facts(mechanism, model, release)),
        ""
        if values is None
        else _values(mechanism, values, names or names_of(model, release, len(values))),
    )


def guarantee_in_words(guarantee: AbstractGuarantee | None) -> str:
    r"""What the guarantee promises, for people who do not know the definition.

    >>> print(guarantee_in_words(PureDP(1.0)).replace(": ", ":\n"))
    epsilon = 1 differential privacy:
    replacing one person changes the probability of any published result by a factor of at most 2.7
    """
    if guarantee is None:
        return "none that is known"
    if not guarantee.promises:
        return "no privacy claimed"
    done, was_done = _what_neighbours_do(guarantee.neighbours)
    change = f"{done} changes the probability of any published result"
    if isinstance(guarantee, PureDP):
        return (
            f"epsilon = {guarantee.epsilon:.4g} differential privacy: {change} by a factor of at"
            f" most {_factor(guarantee.epsilon)}"
        )
    if isinstance(guarantee, ApproximateDP):
        return (
            f"(epsilon, delta) = ({guarantee.epsilon:.4g}, {guarantee.delta:.3g}) differential"
            f" privacy: {change} by a factor of at most {_factor(guarantee.epsilon)}, up to an"
            f" additional {guarantee.delta:.3g}"
        )
    if isinstance(guarantee, ZeroConcentratedDP):
        return (
            f"rho = {guarantee.rho:.4g} zero-concentrated differential privacy{_implied(guarantee)}"
        )
    if isinstance(guarantee, GaussianDP):
        return (
            f"mu = {guarantee.mu:.4g} Gaussian differential privacy: to learn from the release"
            f" whether {was_done} is at least as hard as to tell one draw of N(0, 1)"
            f" from one of N({guarantee.mu:.4g}, 1){_implied(guarantee)}"
        )
    return "none that is known"


def _what_neighbours_do(relation: AbstractNeighbours) -> tuple[str, str]:
    """What separates neighbours, as a thing that is done and as one that was done."""
    if not isinstance(relation, AddRemoveOne):
        return f"replacing one {relation.unit}", f"one {relation.unit} was replaced"
    if relation.max_contributions == 1:
        return f"adding or removing one {relation.unit}", f"one {relation.unit} is in the data"
    records = f"all records of one {relation.unit}, at most {relation.max_contributions},"
    return f"adding or removing {records}", f"{records} are in the data"


def _factor(epsilon: float) -> str:
    """e^epsilon, in figures as long as they can be read."""
    if epsilon > 20.0:
        return f"e^{epsilon:.4g}"
    factor = math.exp(epsilon)
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.2g}"


def _implied(guarantee: AbstractGuarantee) -> str:
    """The (epsilon, delta) guarantee that follows, where there is one."""
    try:
        epsilon = guarantee.to(ApproximateDP, delta=_DELTA).epsilon
    except ConversionError:
        return ""
    return f", which implies epsilon = {epsilon:.3g} at delta = {_DELTA:g}"


def guarantee_of(
    mechanism: AbstractMechanism, release: Release | None = None
) -> AbstractGuarantee | None:
    """The guarantee that the release states or the mechanism implies, or None."""
    if release is not None:
        return release.guarantee
    try:
        return mechanism.guarantee
    except (MissingCapabilityError, ConversionError):
        return None


def _facts(
    mechanism: AbstractMechanism, model: PrivateModel | None, release: Release | None
) -> list[tuple[str, str]]:
    """Noise, guarantee, neighbours, statistics and records, by name."""
    guarantee = guarantee_of(mechanism, release)
    rows = [
        ("Noise", mechanism.describe()),
        ("Guarantee", guarantee_in_words(guarantee) + "." + _whose_word(mechanism, release)),
    ]
    if release is not None and release.requested not in (None, guarantee):
        rows.append(("Asked for", f"{release.requested!r}"))
    is_stated = guarantee is None and release is not None
    if is_stated or (guarantee is not None and promises_something(mechanism, guarantee)):
        relation = mechanism.neighbours if release is None else release.neighbours
        rows.append(("Neighbours", relation.describe()))
    if model is not None:
        width = model.statistic_width - mechanism.num_unknown
        rows.append(("Statistics", _counted(width, model.query)))
    records = (
        release.num_records
        if release is not None
        else model.query.num_records
        if model is not None
        else None
    )
    if records is None and model is not None and isinstance(model.simulator, StatisticLaw):
        return rows  # the numbers themselves have a law: there are no records
    return [*rows, ("Records", "not stated" if records is None else f"{records:,}")]


def _whose_word(mechanism: AbstractMechanism, release: Release | None) -> str:
    """That a guarantee was not derived, where it was not."""
    if guarantee_of(mechanism, release) is None:
        return ""
    if release is not None and release.guarantee_is_stated:
        return (
            " This is what the publisher states: the sensitivity is not known here, so nothing"
            " derives it, and nothing has verified it."
        )
    if not mechanism.derives_guarantee:
        return " This is what the author of the mechanism states; nothing has verified it."
    return ""


def _counted(num: int, query: AbstractQuery) -> str:
    by = f" by {type(query).__name__}" if query.has_spec else ""  # no other has a known name
    return f"{num:,} number{'' if num == 1 else 's'}{by}"


def names_of(model: PrivateModel | None, release: Release | None, width: int) -> tuple[str, ...]:
    """Names of the private statistics, of the release or the model."""
    if release is not None and release.names:
        return release.names
    return model.private_names if model is not None else tuple(f"s_dp[{j}]" for j in range(width))


def _answers(values: np.ndarray) -> str:
    """Single answers, which no table shows, in a sentence."""
    known = values[~np.isnan(values)]
    without = len(values) - len(known)
    more = f"; {without:,} more are missing" if without else ""
    return f"Of {len(known):,} answers {int(known.sum()):,} are 1{more}."


def _values(mechanism: AbstractMechanism, values: np.ndarray, names: tuple[str, ...]) -> Markup:
    """The table of published numbers with the sd of their noise, where that is known."""
    if len(values) > _MOST_ROWS and np.isin(values[~np.isnan(values)], (0.0, 1.0)).all():
        return paragraphs(_answers(values))
    width = len(values) + mechanism.num_unknown
    deviations = mechanism.noise_sd(width)
    measured = mechanism.measured(mechanism.width or width)
    known = any(sd is not None for sd in deviations)
    columns = ["statistic", "published value", *(["noise, sd"] if known else [])]
    shown = list(zip(names, values, deviations, measured, strict=True))[:_MOST_ROWS]
    rows = [
        (
            name,
            "missing" if not was else "absent" if np.isnan(value) else number(value, sd),
            *([number(sd, sd) if sd is not None else "depends"] if known else []),
        )
        for name, value, sd, was in shown
    ]
    more, absent = len(values) - len(shown), int(np.isnan(values).sum())
    left_out = f"{more:,} more are not shown." if more else ""
    count = f"Of all {len(values):,} numbers {absent:,} are not there." if more and absent else ""
    return join(table("The published numbers", columns, rows), paragraphs(left_out, count))
