"""Rows that say nothing are left out, and rows that are alike are counted."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.law import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.simulators import StatisticLaw
from noisewise.simulators.row_law import AbstractRowLaw


@dataclasses.dataclass(frozen=True)
class DistinctRows:
    """What is left of a model: log p(s_dp | theta) = sum_j counts_j log p(observed_j | theta).

    Attributes:
        simulator: The law of the rows that are left.
        mechanism: Their mechanism.
        observed: What was released of them, shape (j,).
        counts: How many rows are like each, shape (j,).
    """

    simulator: StatisticLaw
    mechanism: AbstractMechanism
    observed: Float[np.ndarray, " j"]
    counts: Float[np.ndarray, " j"]


def distinct_rows(model: PrivateModel, observed: Float[np.ndarray, " k"]) -> DistinctRows | None:
    """The rows of a model that differ in law, mechanism or released number, of those that were
    measured; None where rows are not told, or all differ.

    Args:
        model: The model.
        observed: What was released, shape (k,).
    """
    simulator, mechanism, num = model.simulator, model.mechanism, len(observed)
    if not isinstance(simulator, StatisticLaw) or not isinstance(simulator.fn, AbstractRowLaw):
        return None
    if mechanism.unknown or Capability.CDF not in mechanism.capabilities:
        return None
    measured = np.flatnonzero(mechanism.measured(num))
    kinds = [simulator.fn.kinds, mechanism.column_kinds(num)]
    # NaN is no number that another one could be equal to
    traits = np.stack([*kinds, np.isnan(observed), np.nan_to_num(observed)], axis=1)[measured]
    _, first, counts = np.unique(traits, axis=0, return_index=True, return_counts=True)
    if len(first) in (0, num):
        return None
    order = np.argsort(first)
    rows = measured[first[order]].tolist()
    return DistinctRows(
        dataclasses.replace(simulator, fn=simulator.fn.of_rows(rows)),
        mechanism.of_columns(rows),
        observed[rows],
        counts[order].astype(np.float64),
    )
