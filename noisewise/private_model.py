"""theta -> x -> s -> s_dp: the four stages as one model."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any

import jax
import numpy as np

from noisewise._arrays import Array, as_key, as_vectors, describe, in_float64
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError, SensitivityError
from noisewise.mechanisms import Clamped, PaddedBinomial, Product
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.mechanisms.user_defined import AbstractUserMechanism
from noisewise.priors import Prior
from noisewise.queries import AbstractQuery, Joint, as_query
from noisewise.simulators import AbstractRecordModel, AbstractSimulator

_SLACK = 1.0 + 1e-9


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PrivateModel:
    r"""What the curator did, as far as the analyst knows: theta ~ prior, then simulator, query, mechanism.

    `query` may be a bare function x -> s. `derived` maps names to functions of theta (..., d) that return shape (...),
    such as {"R0": lambda theta: theta[..., 0] / theta[..., 1]}; they later appear beside the parameters.

    A mechanism calibrated for less than the query's sensitivity is refused, because its guarantee would be false.
    Nothing can be said where either is unknown.

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
        object.__setattr__(self, "query", as_query(self.query))
        object.__setattr__(self, "derived", _checked_derived(self.derived, self.prior))
        _check_sizes(self.simulator, self.query, self.mechanism)
        _check_sensitivity(self.mechanism, self.query)

    @property
    def names(self) -> tuple[str, ...]:
        """One name per column of theta."""
        return self.prior.names

    @functools.cached_property
    def statistic_width(self) -> int:
        """The number of columns of s; found by tracing or simulating once where neither query nor mechanism says."""
        known = self.query.width or self.mechanism.width
        if known is not None:
            return known
        key = jax.random.key(0)
        return self.simulator.statistic_width(key, self.prior.sample(key, 1), self.query)

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
        self, key: Array, theta: Array, *, executor: Executor | None = None, batch_size: int | None = None
    ) -> np.ndarray:
        """The confidential statistics s (N, k) of one simulated database per row of theta (N, d)."""
        self._check_columns(theta)
        return self.simulator.statistics(key, theta, self.query, executor=executor, batch_size=batch_size)

    def simulate(
        self, key: Array, theta: Array, *, executor: Executor | None = None, batch_size: int | None = None
    ) -> np.ndarray:
        """Private statistics s_dp (N, k'): simulated databases, their statistics, and fresh noise."""
        simulation, noise = jax.random.split(as_key(key))
        s = self.statistics(simulation, theta, executor=executor, batch_size=batch_size)
        return self.mechanism.sample(noise, s)

    @in_float64
    def derived_quantities(self, theta: Array) -> dict[str, np.ndarray]:
        """The derived quantities of theta (..., d) by name, each of shape (...)."""
        theta = np.asarray(as_vectors(theta, "theta", self.prior.dim))
        rows = theta.reshape(-1, theta.shape[-1])
        return {name: _derive(name, fn, rows).reshape(theta.shape[:-1]) for name, fn in self.derived.items()}

    def with_mechanism(self, mechanism: AbstractMechanism) -> PrivateModel:
        """The same model released through another mechanism, so that simulations of s can be used again."""
        return dataclasses.replace(self, mechanism=mechanism)

    @in_float64
    def _check_columns(self, theta: Any) -> None:
        width = as_vectors(theta, "theta").shape[-1]
        if width != self.prior.dim:
            raise InvalidInputError(f"theta must have {self.prior.dim} columns, {', '.join(self.names)}; got {width}.")


# Checks --------------------------------------------------------------------------------------------------------------


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
            raise InvalidTypeError(f"{name} must be {expected}, got a {swapped[0]}: are two arguments swapped?")
        if isinstance(value, type):
            called = f"{value.__name__}(...)"
            raise InvalidTypeError(f"{name} must be {expected}, got the class {value.__name__}: write {called}.")
        if name == "simulator" and callable(value):
            raise InvalidTypeError(
                "A bare function does not say what kind of simulator it is: write nw.simulators.JaxSimulator(fn) for "
                "fn(key, theta) in JAX, or nw.simulators.PythonSimulator(fn) for fn(rng, theta) in plain Python."
            )
        if isinstance(value, AbstractGuarantee):
            line = f"nw.mechanisms.Laplace.calibrate(sensitivity=query.sensitivity(norm=1), guarantee={value!r})"
            raise InvalidTypeError(f"{name} must be {expected}, got a guarantee: write, for instance, {line}.")
        if name != "query" or not callable(value):
            raise InvalidTypeError(f"{name} must be {expected}, got {type(value).__name__}.")


def _checked_derived(derived: Any, prior: Prior) -> dict[str, Callable[[Array], Array]]:
    if derived is None:
        return {}
    if not isinstance(derived, Mapping):
        raise InvalidTypeError(f"derived must map names to functions of theta, got {describe(derived)}.")
    taken = {*prior.names, *prior.distributions}
    for name, fn in derived.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(f"Names of derived quantities are non-empty strings, got {name!r}.")
        if name in taken:
            raise InvalidInputError(f"The derived quantity {name!r} has the name of a parameter: choose another.")
        if not callable(fn):
            raise InvalidTypeError(f"The derived quantity {name!r} must be a function of theta, got {describe(fn)}.")
    return dict(derived)


def _derive(name: str, fn: Callable[[Array], Array], theta: np.ndarray) -> np.ndarray:
    # Where there are as many rows as columns, theta[0] would pass for a column: one more row tells them apart.
    rows = np.concatenate([theta, theta[-1:]]) if len(theta) == theta.shape[1] else theta
    try:
        values = np.asarray(fn(rows.copy()), dtype=np.float64)
    except Exception as error:
        raise InvalidInputError(f"The derived quantity {name!r} failed: {type(error).__name__}: {error}") from error
    if values.shape != rows.shape[:-1]:
        raise InvalidInputError(
            f"The derived quantity {name!r} must turn theta of shape {rows.shape} into shape {rows.shape[:-1]}, "
            f"got {values.shape}: index columns as theta[..., 0]."
        )
    return values[: len(theta)]


def _check_sizes(simulator: AbstractSimulator, query: AbstractQuery, mechanism: AbstractMechanism) -> None:
    if query.width is not None and mechanism.width is not None and query.width != mechanism.width:
        raise InvalidInputError(
            f"The query gives {query.width} numbers, but the {type(mechanism).__name__} takes {mechanism.width}."
        )
    if isinstance(simulator, AbstractRecordModel) and query.num_records not in (None, simulator.num_records):
        raise InvalidInputError(
            f"The simulator makes {simulator.num_records} records, but the query is about {query.num_records}: "
            "state one number in both."
        )


def _check_sensitivity(mechanism: AbstractMechanism, query: AbstractQuery) -> None:
    for block, part, stated in _stated(mechanism, query):
        norm, calibrated = stated
        needed = _sensitivity(part, norm)
        if needed is not None and needed > calibrated * _SLACK:
            raise SensitivityError(
                f"The {type(block).__name__} is calibrated for a sensitivity of {calibrated:.6g} in the L{norm:g} "
                f"norm, but that of the {type(part).__name__} is {needed:.6g}, so its guarantee would be false. "
                f"{_remedy(block, needed)}"
            )


def _stated(
    mechanism: AbstractMechanism, query: AbstractQuery
) -> Iterator[tuple[AbstractMechanism, AbstractQuery, tuple[float, float]]]:
    """(mechanism, query, (norm, the sensitivity it is calibrated for)) of every block for which it is known."""
    if isinstance(mechanism, Clamped):
        yield from _stated(mechanism.mechanism, query)
    elif isinstance(mechanism, Product):
        if isinstance(query, Joint) and mechanism.widths == tuple(part.width for part in query.queries):
            for block, part in zip(mechanism.mechanisms, query.queries, strict=True):
                yield from _stated(block, part)
        elif (together := _together(mechanism)) is not None:
            yield mechanism, query, together
    elif mechanism.sensitivity is not None:
        yield mechanism, query, (mechanism.norm, mechanism.sensitivity)


def _together(product: Product) -> tuple[float, float] | None:
    """What blocks that do not match the query's promise at least: a bound on the change of all of s.

    In L1 the blocks' changes add up, in L2 their squares do; L-infinity is the largest, and never above the other
    norms.
    """
    blocks = [(block.norm, block.sensitivity) for block in product.mechanisms if not isinstance(block, Product)]
    if len(blocks) < len(product.mechanisms) or any(value is None or norm == 0.0 for norm, value in blocks):
        return None
    norms, values = zip(*blocks, strict=True)
    if set(norms) == {1.0}:
        return 1.0, math.fsum(values)
    return (2.0, math.hypot(*values)) if set(norms) == {2.0} else (math.inf, max(values))


def _sensitivity(query: AbstractQuery, norm: float) -> float | None:
    if norm not in query.norms:
        return None
    try:
        return query.sensitivity(norm)
    except (MissingCapabilityError, InvalidInputError):
        return None


def _remedy(mechanism: AbstractMechanism, needed: float) -> str:
    kind = type(mechanism).__name__
    if isinstance(mechanism, PaddedBinomial):
        return "It serves counts that one person changes by at most 1."
    if isinstance(mechanism, AbstractUserMechanism):
        return f"If its guarantee holds for that, pass sensitivity={needed!r}."
    if isinstance(mechanism, Product):
        return "Take a Joint of queries whose blocks match, and calibrate every block for its own."
    return f"Write nw.mechanisms.{kind}.calibrate(sensitivity={needed!r}, guarantee=...)."
