"""Models written in JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from noisewise._core.arrays import Array, describe
from noisewise._core.user_functions import check_call
from noisewise.errors import InvalidTypeError
from noisewise.simulators import _compiled
from noisewise.simulators._keys import RowKeys
from noisewise.simulators.base import AbstractSimulator, Execution, Query
from noisewise.simulators.named import ByName, Layout


@dataclasses.dataclass(frozen=True)
class JaxSimulator(AbstractSimulator):
    """x = fn(key, theta): one database from one parameter vector, written in JAX.

    Use this where the model can be written in `jax.numpy`: it is compiled and vectorised, and
    methods that need gradients can use it. For plain Python or NumPy there is `PythonSimulator`.

    Simulation i runs with `jax.random.fold_in(stage_key(key, "simulator"), i)` (0 in place of i
    where each row has its own key), in float64, vmapped and compiled together with the query. So
    `statistics` never holds more databases than one chunk: up to 256, fewer where they are large (4
    MiB in all). One program serves every number of simulations. `executor` and `batch_size` have no
    effect.

    All randomness must come from `key`: `np.random` would be drawn once, when the program is
    compiled. So fn is traced at first use and refused if it makes no use of its key. A constant
    index beyond the columns of theta is refused as well, where JAX would take the last column.

    Args:
        fn: Function of a JAX key and one parameter vector (d,) that returns one database, any
            pytree of arrays.
        deterministic: Whether fn uses no randomness, as a differential equation does.
        named: Whether fn gets parameters by name, as `theta["rate"]`, in the shapes that they have
            in the prior of a model; `theta.array` is the vector.

    Raises:
        InvalidTypeError: If fn cannot be called as fn(key, theta).

    Example:
        >>> import jax, numpy as np
        >>> import noisewise as nw
        >>> draw = lambda key, theta: theta + jax.random.normal(key, (100, 1))
        >>> simulator = nw.simulators.JaxSimulator(draw)
        >>> theta = np.array([[-1.0], [1.0]])
        >>> simulator.simulate(jax.random.key(0), theta).shape
        (2, 100, 1)
        >>> simulator.statistics(jax.random.key(0), theta, lambda x: x.mean(0)).round(3).tolist()
        [[-0.973], [1.007]]
    """

    fn: Callable[[Array, Any], Any]
    _: dataclasses.KW_ONLY
    deterministic: bool = False
    named: bool = False
    layout: Layout | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.fn) or isinstance(self.fn, type):
            raise InvalidTypeError(
                f"JaxSimulator needs a function fn(key, theta) -> x, got {describe(self.fn)}."
            )
        if not isinstance(self.deterministic, bool):
            raise InvalidTypeError(
                f"deterministic must be True or False, got {describe(self.deterministic)}."
            )
        if not isinstance(self.named, bool):
            raise InvalidTypeError(f"named must be True or False, got {describe(self.named)}.")
        check_call(self.fn, "fn(key, theta)", "key", "theta")

    def named_by(self, layout: Layout) -> JaxSimulator:
        return dataclasses.replace(self, layout=layout) if self.named else self

    @property
    def _of_vector(self) -> Callable[[Array, Array], Any]:
        """The function of a key and a parameter vector."""
        return ByName(self.fn, self.layout) if self.named else self.fn

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        x = self._shapes(keys, theta)
        _compiled.statistic_shape(query, x)
        parts, nbytes = (self._of_vector, query), _compiled.nbytes(x)
        return _compiled.run(_statistic, parts, keys, theta, nbytes).astype(np.float64)

    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> Any:
        nbytes = _compiled.nbytes(self._shapes(keys, theta))
        return _compiled.run(_database, (self._of_vector,), keys, theta, nbytes)

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Query) -> int:
        return _compiled.statistic_shape(query, self._shapes(keys, theta)).shape[0]

    def _shapes(self, keys: RowKeys, theta: np.ndarray) -> Any:
        checks: dict[str, Any] = {"what": "The simulator", "deterministic": self.deterministic}
        return _compiled.checked_shapes(_database, (self._of_vector,), keys, theta, **checks)


def _database(fn: Callable[[Array, Array], Any]) -> _compiled.One:
    return fn


def _statistic(fn: Callable[[Array, Array], Any], query: Query) -> _compiled.One:
    return lambda key, theta: query(fn(key, theta))
