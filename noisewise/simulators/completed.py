"""A simulator of which some parameters are drawn in each simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.row_keys import fold_in_rows
from noisewise._core.specs import described
from noisewise.simulators._keys import RowKeys, as_jax_keys
from noisewise.simulators.base import AbstractSimulator, Execution, Query

_REST = 0x52455354
"""Folded into the key of a simulation for the parameters that it draws ("REST" in ASCII), so that
they share no numbers with the simulation itself.
"""


@dataclasses.dataclass(frozen=True)
class CompletedSimulator(AbstractSimulator):
    """theta -> complete(key, theta) -> x: `model.focus` makes it of a simulator whose parameters
    are not all of interest.

    Args:
        simulator: What simulates, given all parameters.
        complete: (keys, theta (n, m)) -> all parameters (n, d); row i depends on key and row i
            alone.
        drawn: Names of what `complete` draws.
        whole: The model of all parameters.
    """

    simulator: AbstractSimulator
    complete: Callable[[Array, np.ndarray], Float[np.ndarray, "n d"]]
    drawn: tuple[str, ...]
    whole: Any

    def to_spec(self) -> dict[str, Any]:
        """What identifies it: the law of what is drawn, and what is simulated."""
        return {
            "type": type(self).__name__,
            "drawn": list(self.drawn),
            "prior": self.whole.prior.fingerprint(),
            "simulator": described(self.simulator),
        }

    @property
    def max_failed(self) -> float:
        """The share of simulations that may fail."""
        return getattr(self.simulator, "max_failed", 0.0)

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        return self.simulator._statistics(keys, self._completed(keys, theta), query, execution)

    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> Any:
        return self.simulator._simulate(keys, self._completed(keys, theta), execution)

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Query) -> int:
        return self.simulator._statistic_width(keys, self._completed(keys, theta), query)

    def _completed(self, keys: RowKeys, theta: np.ndarray) -> np.ndarray:
        own = fold_in_rows(as_jax_keys(keys.words, keys.implementation), keys.indices)
        return self.complete(fold_in_rows(own, np.full(len(theta), _REST)), theta)
