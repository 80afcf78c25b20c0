"""theta -> x -> s -> s_dp: the four stages as one model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from noisewise import queries
from noisewise._core.arrays import Array, as_key, as_vectors, describe, in_float64
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.model import observation
from noisewise.model.calibration import check_sensitivity
from noisewise.priors.prior import Prior
from noisewise.queries import AbstractQuery, as_query
from noisewise.simulators import AbstractRecordModel, AbstractSimulator, Faults

if TYPE_CHECKING:
    from noisewise.disclosure import Release


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PrivateModel:
    r"""What the curator did, as far as the analyst knows: theta ~ prior, then simulator, query,
    mechanism.

    `query` may also be a bare function x -> s, or the description of a query that a release holds.
    `derived` maps names to functions of theta (..., d) that return shape (...), such as {"R0":
    lambda theta: theta[..., 0] / theta[..., 1]}; they later appear beside the parameters.

    A mechanism calibrated for less than the query's sensitivity is refused, because its guarantee
    would be false. Nothing can be said where either is unknown.

    >>> import jax, numpyro.distributions as dist
    >>> import noisewise as nw
    >>> query = nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=100)
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"mu": dist.Normal(0, 1)}),
    ...     simulator=nw.simulators.JaxSimulator(lambda key, theta: theta + jax.random.normal(key, (100, 1))),
    ...     query=query,
    ...     mechanism=nw.mechanisms.Laplace.calibrate(sensitivity=query.sensitivity(norm=1), guarantee=nw.PureDP(1.0)),
    ... )
    >>> theta = model.prior.sample(jax.random.key(0), 5)
    >>> model.statistics(jax.random.key(1), theta).shape, model.simulate(jax.random.key(1), theta).shape
    ((5, 1), (5, 1))
    """

    prior: Prior
    simulator: AbstractSimulator
    query: AbstractQuery
    mechanism: AbstractMechanism
    derived: Mapping[str, Callable[[Array], Array]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_stages(self)
        query = (
            queries.from_spec(dict(self.query))
            if isinstance(self.query, Mapping)
            else as_query(self.query)
        )
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "derived", _checked_derived(self.derived, self.prior))
        _check_sizes(self.simulator, self.query, self.mechanism)
        check_sensitivity(self.mechanism, self.query)

    @classmethod
    def from_release(
        cls,
        release: Release,
        *,
        prior: Prior,
        simulator: AbstractSimulator,
        derived: Mapping[str, Callable[[Array], Array]] | None = None,
    ) -> PrivateModel:
        """The model of a published release: its query (with the grid the curator used) and its
        mechanism.

        >>> import jax, numpyro.distributions as dist
        >>> import noisewise as nw
        >>> query = nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=4)
        >>> published = nw.release([0.1, -0.3, 1.2, 0.9], query, nw.PureDP(1.0))
        >>> model = nw.PrivateModel.from_release(
        ...     published,
        ...     prior=nw.Prior({"mu": dist.Normal(0, 1)}),
        ...     simulator=nw.simulators.JaxSimulator(lambda key, theta: theta + jax.random.normal(key, (4, 1))),
        ... )
        >>> s = model.statistics(jax.random.key(0), model.prior.sample(jax.random.key(1), 100))
        >>> model.log_prob_observed(published, s).shape
        (100,)
        """
        query, derived = observation.query_of(release), {} if derived is None else derived
        return cls(
            prior=prior,
            simulator=simulator,
            query=query,
            mechanism=release.mechanism,
            derived=derived,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """One name per column of theta."""
        return self.prior.names

    @functools.cached_property
    def statistic_width(self) -> int:
        """The number of columns of s; found by tracing or simulating once where neither query nor
        mechanism says.
        """
        known = self.query.width or self.mechanism.width
        if known is not None:
            return known
        key = jax.random.key(0)
        return self.simulator.statistic_width(key, self.prior.sample(key, 8), self.query)

    @property
    def statistic_names(self) -> tuple[str, ...]:
        """One name per column of s."""
        return self.query.names or tuple(f"s[{j}]" for j in range(self.statistic_width))

    @property
    def private_width(self) -> int:
        """The number of columns of s_dp."""
        return self.mechanism.output_width(self.statistic_width)

    @property
    def private_names(self) -> tuple[str, ...]:
        """One name per column of s_dp: those of s where there are as many."""
        if self.private_width == self.statistic_width:
            return self.statistic_names
        return tuple(f"s_dp[{j}]" for j in range(self.private_width))

    def statistics(
        self,
        key: Array,
        theta: Array,
        *,
        executor: Executor | None = None,
        batch_size: int | None = None,
        faults: Faults | None = None,
    ) -> np.ndarray:
        """The confidential statistics s (N, k) of one simulated database per row of theta (N, d).

        `key` is one key, or an array of N keys, with which row i depends on the i-th key and
        theta_i only. A simulation that fails raises, or is a row of NaN where `faults`, such as
        `new_faults` gives, are there to count it.
        """
        self._check_columns(theta)
        more: dict[str, Any] = {"executor": executor, "batch_size": batch_size, "faults": faults}
        return self.simulator.statistics(key, theta, self.query, **more)

    def simulate(
        self,
        key: Array,
        theta: Array,
        *,
        executor: Executor | None = None,
        batch_size: int | None = None,
        faults: Faults | None = None,
    ) -> np.ndarray:
        """Private statistics s_dp (N, k'): simulated databases, their statistics, and fresh noise."""
        simulation, noise = jax.random.split(as_key(key))
        s = self.statistics(
            simulation, theta, executor=executor, batch_size=batch_size, faults=faults
        )
        return self.mechanism.sample(noise, s)

    def new_faults(self) -> Faults:
        """What counts the failures of one inference, up to as many as the simulator allows."""
        return Faults(getattr(self.simulator, "max_failed", 0.0), self.statistic_width)

    def observation(self, observed: Release | Array) -> np.ndarray:
        """What inference conditions on, (k',), checked: as many numbers as the model releases, all
        on its support.

        A release must be of this model's mechanism, and of its query where both describe theirs.
        """
        return observation.checked(self, observed)

    def log_prob_observed(self, observed: Release | Array, s: Array) -> np.ndarray:
        """log eta(observed | s), (...): the log density of the observation at confidential
        statistics s (..., k).
        """
        return self.mechanism.log_prob(self.observation(observed), s)

    @in_float64
    def derived_quantities(self, theta: Array) -> dict[str, np.ndarray]:
        """The derived quantities of theta (..., d) by name, each of shape (...)."""
        theta = np.asarray(as_vectors(theta, "theta", self.prior.dim))
        rows = theta.reshape(-1, theta.shape[-1])
        return {
            name: _derive(name, fn, rows).reshape(theta.shape[:-1])
            for name, fn in self.derived.items()
        }

    def with_mechanism(self, mechanism: AbstractMechanism) -> PrivateModel:
        """The same model released through another mechanism, so that simulations of s can be used
        again.
        """
        return dataclasses.replace(self, mechanism=mechanism)

    @in_float64
    def _check_columns(self, theta: Any) -> None:
        width = as_vectors(theta, "theta").shape[-1]
        if width != self.prior.dim:
            raise InvalidInputError(
                f"theta must have {self.prior.dim} columns, {', '.join(self.names)}; got {width}."
            )


# Checks -------------------------------------------------------------------------------------------


_STAGES = {
    "prior": (Prior, 'a nw.Prior, such as nw.Prior({"rate": dist.LogNormal(0, 1)})'),
    "simulator": (AbstractSimulator, "a simulator, such as nw.simulators.JaxSimulator(fn)"),
    "query": (AbstractQuery, "a query, such as nw.queries.ClampedMean(...), or a function x -> s"),
    "mechanism": (AbstractMechanism, "a mechanism, such as nw.mechanisms.Laplace(scale=0.1)"),
}


def _check_stages(model: PrivateModel) -> None:
    for name, (kind, expected) in _STAGES.items():
        value = getattr(model, name)
        if isinstance(value, kind):
            continue
        swapped = [other for other, (its_kind, _) in _STAGES.items() if isinstance(value, its_kind)]
        if swapped:
            raise InvalidTypeError(
                f"{name} must be {expected}, got a {swapped[0]}: are two arguments swapped?"
            )
        if isinstance(value, type):
            called = f"{value.__name__}(...)"
            raise InvalidTypeError(
                f"{name} must be {expected}, got the class {value.__name__}: write {called}."
            )
        if name == "simulator" and callable(value):
            raise InvalidTypeError(
                "A bare function does not say what kind of simulator it is: write"
                " nw.simulators.JaxSimulator(fn) for fn(key, theta) in JAX, or"
                " nw.simulators.PythonSimulator(fn) for fn(rng, theta) in plain Python."
            )
        if isinstance(value, AbstractGuarantee):
            line = (
                "nw.mechanisms.Laplace.calibrate(sensitivity=query.sensitivity(norm=1),"
                f" guarantee={value!r})"
            )
            raise InvalidTypeError(
                f"{name} must be {expected}, got a guarantee: write, for instance, {line}."
            )
        if name != "query" or not (callable(value) or isinstance(value, Mapping)):
            raise InvalidTypeError(f"{name} must be {expected}, got {type(value).__name__}.")


def _checked_derived(derived: Any, prior: Prior) -> dict[str, Callable[[Array], Array]]:
    if derived is None:
        return {}
    if not isinstance(derived, Mapping):
        raise InvalidTypeError(
            f"derived must map names to functions of theta, got {describe(derived)}."
        )
    taken = {*prior.names, *prior.distributions}
    for name, fn in derived.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(
                f"Names of derived quantities are non-empty strings, got {name!r}."
            )
        if name in taken:
            raise InvalidInputError(
                f"The derived quantity {name!r} has the name of a parameter: choose another."
            )
        if not callable(fn):
            raise InvalidTypeError(
                f"The derived quantity {name!r} must be a function of theta, got {describe(fn)}."
            )
    return dict(derived)


def _derive(name: str, fn: Callable[[Array], Array], theta: np.ndarray) -> np.ndarray:
    # Where there are as many rows as columns, theta[0] would pass for a column: one more row tells
    # them apart.
    rows = np.concatenate([theta, theta[-1:]]) if len(theta) == theta.shape[1] else theta
    try:
        values = np.asarray(fn(rows.copy()), dtype=np.float64)
    except Exception as error:
        raise InvalidInputError(
            f"The derived quantity {name!r} failed: {type(error).__name__}: {error}"
        ) from error
    if values.shape != rows.shape[:-1]:
        raise InvalidInputError(
            f"The derived quantity {name!r} must turn theta of shape {rows.shape} into shape"
            f" {rows.shape[:-1]}, got {values.shape}: index columns as theta[..., 0]."
        )
    return values[: len(theta)]


def _check_sizes(
    simulator: AbstractSimulator, query: AbstractQuery, mechanism: AbstractMechanism
) -> None:
    if query.width is not None and mechanism.width is not None and query.width != mechanism.width:
        raise InvalidInputError(
            f"The query gives {query.width} numbers, but the {type(mechanism).__name__} takes"
            f" {mechanism.width}."
        )
    if isinstance(simulator, AbstractRecordModel) and query.num_records not in (
        None,
        simulator.num_records,
    ):
        raise InvalidInputError(
            f"The simulator makes {simulator.num_records} records, but the query is about"
            f" {query.num_records}: state one number in both."
        )
