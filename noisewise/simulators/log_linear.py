"""Naive Bayes for categorical records: a log-linear model."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array, describe, integer, number, open_uniforms
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.simulators.base import Query
from noisewise.simulators.record_model import MAX_RECORDS_HELD, AbstractRecordModel

_SUM_TOLERANCE = 1e-6
"""How far from 1 a probability vector may sum: ten roundings of single precision."""


@runtime_checkable
class TableQuery(Protocol):
    """A query whose statistic depends on the records through their tables of class by value alone.

    `LogLinear` draws these tables directly where there are many records.
    """

    def statistic_of_tables(self, tables: Sequence[Int[Array, "classes values"]]) -> Array:
        """The statistic s of a database with these tables.

        Args:
            tables: For each feature k the counts of (class, value), shape (I, J_k).

        Returns:
            The statistic, shape (k,).
        """


@dataclasses.dataclass(frozen=True)
class LogLinear(AbstractRecordModel):
    """Records (c, v_1, ..., v_K): a class and K features, independent given the class.

        P(c = i) = p_i,    P(v_k = j | c = i) = p^k_ij,    i < I, j < J_k,  all numbered from 0.

    theta holds the probability vectors one after another, by class and then feature, and p last:
    p^1_0., ..., p^K_0., p^1_1., ..., p^K_(I-1)., p: I (J_1 + ... + J_K) + I columns. A priori all
    are Dirichlet with every parameter equal to `concentration`, so that given the records they are
    Dirichlet again, with the counts added.

    As a function of noise, a record is the inverse distribution function of K+1 uniforms, the class
    first.

    The counts #{c = i, v_k = j} need no records: class counts are multinomial and, given those,
    every row of every table is too. More than 8192 records are simulated so for queries that have
    `statistic_of_tables`; `statistics` then follows the same law as the databases of `simulate`,
    but is not the statistic of those databases.

    Args:
        num_records: Number n of records.
        num_classes: Number I of classes, at least 2.
        num_values: Numbers J_k of values of each feature, each at least 2.
        concentration: Parameter of the Dirichlet priors, above 0.

    Raises:
        InvalidInputError: If a number is out of range.
        InvalidTypeError: If `num_values` is not a sequence of whole numbers.

    Example:
        >>> import jax, numpy as np
        >>> import noisewise as nw
        >>> sizes = {"num_records": 1_000_000, "num_classes": 2, "num_values": (2, 3)}
        >>> model = nw.simulators.LogLinear(**sizes)
        >>> model.parameter_names[:6]
        ('p[0,0,0]', 'p[0,0,1]', 'p[0,1,0]', 'p[0,1,1]', 'p[0,1,2]', 'p[1,0,0]')
        >>> theta = np.array([[0.4, 0.6, 0.2, 0.3, 0.5, 0.9, 0.1, 0.2, 0.2, 0.6, 0.8, 0.2]])
        >>> query = nw.queries.CategoryProportions(**sizes)
        >>> model.statistics(jax.random.key(0), theta, query).round(2).tolist()
        [[0.32, 0.48, 0.16, 0.24, 0.4, 0.18, 0.02, 0.04, 0.04, 0.12]]
    """

    num_records: int
    num_classes: int
    num_values: tuple[int, ...]
    concentration: float = 2.0

    def __post_init__(self) -> None:
        set_field = functools.partial(object.__setattr__, self)
        set_field("num_records", integer("num_records", at_least=1)(self.num_records))
        set_field("num_classes", integer("num_classes", at_least=2)(self.num_classes))
        set_field("num_values", _as_num_values(self.num_values))
        set_field("concentration", number("concentration", above=0.0)(self.concentration))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """One name per column of theta: p[i,k,j] by class, feature and value, then p[i]."""
        cells = [(k, j) for k, count in enumerate(self.num_values) for j in range(count)]
        names = [f"p[{i},{k},{j}]" for i in range(self.num_classes) for k, j in cells]
        return (*names, *(f"p[{i}]" for i in range(self.num_classes)))

    def check_parameters(self, theta: np.ndarray) -> None:
        width = len(self.parameter_names)
        if theta.shape[1] != width:
            raise InvalidInputError(
                f"theta must have {width} columns for {self.num_classes} classes and features of"
                f" {self.num_values} values, got {theta.shape[1]}."
            )
        if (theta < 0.0).any():
            raise InvalidInputError("theta must hold probabilities, and some are negative.")
        totals = np.add.reduceat(theta, self._starts, axis=1)
        rows, vectors = np.nonzero(np.abs(totals - 1.0) > _SUM_TOLERANCE)
        if rows.size:
            start = self.parameter_names[self._starts[vectors[0]]]
            raise InvalidInputError(
                f"Each probability vector in theta must sum to 1, but in row {rows[0]} the one from"
                f" {start} on sums to {totals[rows[0], vectors[0]]:.6g}."
            )

    def record_noise(self, key: Array) -> Array:
        return open_uniforms(key, (len(self.num_values) + 1,))

    def record(self, u: Array, theta: Array) -> Array:
        tables, p = self.unpack(theta)
        c = _inverse(p, u[0])
        return jnp.stack(
            [c, *(_inverse(table[c], v) for table, v in zip(tables, u[1:], strict=True))]
        )

    def noise_of_record(self, key: Array, x_i: Array, theta: Array) -> Array:
        """A draw of u_i with record(u_i, theta) = x_i: uniform on the box of noises that give this
        record.
        """
        tables, p = self.unpack(theta)
        laws = [p, *(table[x_i[0]] for table in tables)]
        ends = jnp.stack([_interval(law, value) for law, value in zip(laws, x_i, strict=True)])
        return ends[:, 0] + (ends[:, 1] - ends[:, 0]) * open_uniforms(key, (len(laws),))

    def log_prob_record(self, x_i: Array, theta: Array) -> Array:
        tables, p = self.unpack(theta)
        here = jnp.arange(self.num_classes) == x_i[0]
        prob = jnp.where(here, p, 0.0).sum()
        for table, value in zip(tables, x_i[1:], strict=True):
            cell = here[:, None] & (jnp.arange(table.shape[1]) == value)
            prob = prob * jnp.where(cell, table, 0.0).sum()
        return jnp.log(prob)

    def sample_parameters(self, key: Array, records: Array, theta: Array) -> Array:
        classes = records[:, :1] == jnp.arange(self.num_classes)
        tables = []
        for k, count in enumerate(self.num_values):
            values = records[:, k + 1 : k + 2] == jnp.arange(count)
            tables.append(classes.T.astype(float) @ values.astype(float))
        rows_of_tables = (row for rows in zip(*tables, strict=True) for row in rows)
        counts = jnp.concatenate([*rows_of_tables, classes.sum(0)])
        log_gammas = jax.random.loggamma(key, self.concentration + counts)
        parts = jnp.split(log_gammas, self._starts[1:])
        return jnp.concatenate([jax.nn.softmax(part) for part in parts])

    def log_prob_conjugate_prior(self, theta: Array) -> Array:
        return (self.concentration - 1.0) * jnp.log(theta).sum()

    def direct_statistic(self, query: Query) -> Callable[[Array, Array], Array] | None:
        if self.num_records <= MAX_RECORDS_HELD or not isinstance(query, TableQuery):
            return None
        return lambda key, theta: query.statistic_of_tables(self.tables(key, theta))

    def tables(self, key: Array, theta: Float[Array, " d"]) -> list[Float[Array, "classes values"]]:
        """The counts of a database by class and value, drawn without its records; for use inside
        JAX programs.

        Args:
            key: The key of this database.
            theta: Parameters, shape (d,).

        Returns:
            For each feature the counts, shape (I, J_k).
        """
        class_key, table_key = jax.random.split(key)
        laws, p = self.unpack(theta)
        classes = jax.random.multinomial(class_key, jnp.asarray(self.num_records, dtype=float), p)
        longest = max(self.num_values)
        padded = jnp.stack([jnp.pad(law, ((0, 0), (0, longest - law.shape[1]))) for law in laws])
        counts = jax.random.multinomial(table_key, classes, padded)
        return [table[:, :num] for table, num in zip(counts, self.num_values, strict=True)]

    def unpack(
        self, theta: Float[Array, "*batch d"]
    ) -> tuple[list[Float[Array, "*batch classes values"]], Float[Array, "*batch classes"]]:
        """The probabilities in theta, as tables.

        Args:
            theta: Parameters, shape (..., d).

        Returns:
            The tables p^k, one per feature, shape (..., I, J_k), and the class probabilities p,
            shape (..., I).
        """
        ends = np.cumsum((0, *self.num_values))
        shape = (*theta.shape[:-1], self.num_classes, ends[-1])
        rows, p = theta[..., : -self.num_classes].reshape(shape), theta[..., -self.num_classes :]
        return [rows[..., a:b] for a, b in itertools.pairwise(ends)], p

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        """The first column of each probability vector in theta."""
        return np.cumsum((0, *(self.num_values * self.num_classes)))


def _inverse(p: Array, u: Array) -> Array:
    """The category j with F(j-1) < u <= F(j); the last one takes what rounding leaves over."""
    return (u > jnp.cumsum(p)[:-1]).sum()


def _interval(p: Array, value: Array) -> Array:
    ends = jnp.concatenate([jnp.zeros(1), jnp.cumsum(p)[:-1], jnp.ones(1)])
    return jnp.stack([ends[value], ends[value + 1]])


def _as_num_values(value: object) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) == 0:
        raise InvalidTypeError(
            "num_values must be a tuple with the number of values of each feature, got"
            f" {describe(value)}."
        )
    hint = "A feature with one value says nothing: leave it out."
    return tuple(integer("each of num_values", at_least=2, advice=hint)(count) for count in value)
