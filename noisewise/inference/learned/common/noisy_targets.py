"""What the training loop draws from where all that is drawn was made before: standardised targets
in several versions, and standardised conditions.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array
from noisewise.estimators.widening import CanBeWidened, few_widths
from noisewise.inference.learned.common.simulations import Rows, one_point_set


class NoisyTargets(eqx.Module):
    """Versions of each simulation's target, of which a random point set is taken each time, and
    conditions; both with room for simulations to come.
    """

    bank: Float[Array, "n B d"]
    condition: Float[Array, "n p"]
    num_noise: int = eqx.field(static=True)

    @staticmethod
    def of(
        targets: Float[np.ndarray, "n B d"],
        condition: Float[np.ndarray, "n p"],
        capacity: int,
        num_noise: int = 1,
    ) -> NoisyTargets:
        """Those of the simulations so far, as float32 arrays of one size for all rounds."""
        return NoisyTargets(_filled(targets, capacity), _filled(condition, capacity), num_noise)

    def __call__(
        self, key: Array, rows: Int[Array, " b"]
    ) -> tuple[Float[Array, "b m d"], Float[Array, "b 1 p"]]:
        return one_point_set(key, self.bank, rows, self.num_noise), self.condition[rows][:, None]

    def widened(self, target_dim: int, condition_dim: int) -> NoisyTargets:
        """The same with columns of zeros behind."""
        more = target_dim - self.bank.shape[2], condition_dim - self.condition.shape[1]
        if not any(more):
            return self
        bank = np.pad(self.bank, ((0, 0), (0, 0), (0, more[0])))
        return NoisyTargets(bank, np.pad(self.condition, ((0, 0), (0, more[1]))), self.num_noise)


def in_few_widths(pairs: Any, members: Any) -> Any:
    """Pairs with columns of zeros up to one of a few widths, where the networks can have such: one
    program then trains for many models.
    """
    if not isinstance(pairs, NoisyTargets) or not isinstance(members, CanBeWidened):
        return pairs
    return pairs.widened(few_widths(pairs.bank.shape[2]), few_widths(pairs.condition.shape[1]))


def _filled(values: Float[np.ndarray, "n ..."], capacity: int) -> Float[np.ndarray, "capacity ..."]:
    if len(values) == capacity and values.dtype == np.float32:
        return values
    rows = Rows(capacity, *values.shape[1:], dtype=np.float32)
    rows.add(values)
    return rows.whole
