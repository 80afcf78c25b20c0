"""Models of independent records with a density."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise.errors import MissingCapabilityError
from noisewise.simulators import _compiled
from noisewise.simulators._keys import RowKeys
from noisewise.simulators.base import AbstractSimulator, AdditiveQuery, Execution, Query

MAX_RECORDS_HELD = 2**13
"""Records of one database held at once where the query is additive: with 12 numbers each, record
and contributions, they take 768 KiB, and a few databases still fit in one chunk.
"""


class AbstractRecordModel(AbstractSimulator):
    """x = (x_1, ..., x_n), independent given theta, written in JAX for ONE record:

        x_i = G(theta, u_i),  u_i ~ a law free of theta,      f(x_i | theta) the density of x_i.

    Use this for models of independent records: methods that update records one by one, such as
    `DataAugmentationMCMC`, need it, and it samples as fast as `JaxSimulator`.

    A concrete class sets `num_records` and writes `record_noise`, `record` (which is G) and
    `log_prob_record`. Two more make record-wise methods faster: `sample_parameters`, a draw from
    theta | x, and `noise_of_record`, which inverts G. Record i of simulation j uses the key
    `fold_in(fold_in(stage_key(key, "simulator"), j), i)`.

    At first use the model is refused if its records make no use of their keys or read columns that
    theta does not have; JAX would notice neither. Memory stays bounded for additive queries: their
    contributions are summed over 8192 records at a time.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np
        >>> import noisewise as nw
        >>> class Normals(nw.simulators.AbstractRecordModel):
        ...     num_records = 10
        ...     def record_noise(self, key):
        ...         return jax.random.normal(key)
        ...     def record(self, u, theta):
        ...         return theta[0] + u
        ...     def log_prob_record(self, x_i, theta):
        ...         return jax.scipy.stats.norm.logpdf(x_i, theta[0])
        >>> Normals().simulate(jax.random.key(0), np.zeros((3, 1))).shape
        (3, 10)
    """

    if TYPE_CHECKING:
        num_records: int

    @abc.abstractmethod
    def record_noise(self, key: Array) -> Any:
        """u_i: all randomness of one record, drawn without knowing theta.

        Args:
            key: The key of this record.

        Returns:
            An array or a pytree of arrays.
        """

    @abc.abstractmethod
    def record(self, u: Any, theta: Float[Array, " d"]) -> Any:
        """One record, x_i = G(theta, u_i).

        Args:
            u: The noise of the record, as `record_noise` draws it.
            theta: Parameters, shape (d,).

        Returns:
            An array or a pytree of arrays.
        """

    @abc.abstractmethod
    def log_prob_record(self, x_i: Any, theta: Float[Array, " d"]) -> Float[Array, ""]:
        """The log density f(x_i | theta) of one record.

        Args:
            x_i: One record, as `record` returns it.
            theta: Parameters, shape (d,).

        Returns:
            A scalar; normalised.
        """

    def sample_parameters(
        self, key: Array, records: Any, theta: Float[Array, " d"]
    ) -> Float[Array, " d"]:
        """A draw of theta given all records: exact, or by a reversible kernel started at theta
        that leaves theta | x invariant.

        The prior is that of `log_prob_conjugate_prior` or, where that is not written, the prior of
        the user's model.

        Args:
            key: JAX PRNG key.
            records: All records, stacked along a leading axis of length n.
            theta: The current parameters, shape (d,).

        Returns:
            New parameters, shape (d,).

        Raises:
            MissingCapabilityError: If the model does not write this method.
        """
        raise MissingCapabilityError(
            f"{type(self).__name__} cannot draw theta given its records: write"
            " sample_parameters(key, records, theta), or use a method that does not need it."
        )

    def log_prob_conjugate_prior(self, theta: Float[Array, " d"]) -> Float[Array, ""] | None:
        """The log density of the prior that `sample_parameters` assumes; methods correct for any
        other.

        Args:
            theta: Parameters, shape (d,).

        Returns:
            A scalar, up to a constant; None (the default) if it is the prior of the user's model.
        """
        return None

    def noise_of_record(self, key: Array, x_i: Any, theta: Float[Array, " d"]) -> Any:
        """A draw of u_i given the record and theta, so that record(u_i, theta) = x_i.

        Args:
            key: JAX PRNG key; unused where G is one-to-one.
            x_i: One record.
            theta: Parameters, shape (d,).

        Returns:
            The noise of the record, as `record_noise` draws it.

        Raises:
            MissingCapabilityError: If the model does not write this method.
        """
        raise MissingCapabilityError(
            f"{type(self).__name__} cannot recover the noise of a record: write"
            " noise_of_record(key, x_i, theta)."
        )

    def check_parameters(self, theta: Float[np.ndarray, "n d"]) -> None:
        """Refuse parameters outside the model; called before any simulation. Nothing is refused by
        default.

        Args:
            theta: Parameters, shape (n, d).

        Raises:
            InvalidInputError: If a row is not a parameter of the model.
        """

    def direct_statistic(self, query: Query) -> Callable[[Array, Array], Array] | None:
        """A way to draw s without records, where the model knows one for this query.

        Args:
            query: The query of the model.

        Returns:
            A JAX function (key, theta_1d) -> s; None (the default) if records must be drawn.
        """
        return None

    @property
    def can_sample_parameters(self) -> bool:
        """Whether `sample_parameters` is written."""
        return type(self).sample_parameters is not AbstractRecordModel.sample_parameters

    @property
    def can_tell_noise(self) -> bool:
        """Whether `noise_of_record` is written."""
        return type(self).noise_of_record is not AbstractRecordModel.noise_of_record

    @final
    def database(
        self,
        key: Array,
        theta: Float[Array, " d"],
        first: Array | int = 0,
        num: int | None = None,
    ) -> Any:
        """Records of one database, for use inside JAX programs.

        Args:
            key: The key of this database.
            theta: Parameters, shape (d,).
            first: Number of the first record.
            num: How many records; all by default.

        Returns:
            Records, an array or a pytree of arrays with a leading axis of length `num`.
        """
        places = first + jnp.arange(self.num_records if num is None else num)
        noise = jax.vmap(lambda place: self.record_noise(jax.random.fold_in(key, place)))(places)
        return jax.vmap(self.record, (0, None))(noise, theta)

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        self.check_parameters(theta)
        direct = self.direct_statistic(query)
        if direct is not None:
            x, make = (), _direct_statistic
            terms = _compiled.shapes(direct, *_compiled.example(keys, theta), what="The query")
        elif self.num_records > MAX_RECORDS_HELD and isinstance(query, AdditiveQuery):
            x, make = self._shapes(keys, theta, MAX_RECORDS_HELD), _streamed_statistic
            terms = _compiled.shapes(query.contributions, x, what="The query")
        else:
            x, make = self._shapes(keys, theta, self.num_records), _statistic
            terms = _compiled.statistic_shape(query, x)
        nbytes = _compiled.nbytes((x, terms))
        return _compiled.run(make, (self, query), keys, theta, nbytes).astype(np.float64)

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Query) -> int:
        self.check_parameters(theta)
        x = self._shapes(keys, theta, self.num_records)
        return _compiled.statistic_shape(query, x).shape[0]

    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> Any:
        self.check_parameters(theta)
        nbytes = _compiled.nbytes(self._shapes(keys, theta, self.num_records))
        return _compiled.run(_database, (self,), keys, theta, nbytes)

    def _shapes(self, keys: RowKeys, theta: np.ndarray, num: int) -> Any:
        what = type(self).__name__
        return _compiled.checked_shapes(_records, (self, num), keys, theta, what=what)


def _records(model: AbstractRecordModel, num: int) -> _compiled.One:
    return lambda key, theta: model.database(key, theta, num=num)


def _database(model: AbstractRecordModel) -> _compiled.One:
    return model.database


def _statistic(model: AbstractRecordModel, query: Query) -> _compiled.One:
    return lambda key, theta: query(model.database(key, theta))


def _direct_statistic(model: AbstractRecordModel, query: Query) -> _compiled.One:
    return model.direct_statistic(query)  # type: ignore[return-value]


def _streamed_statistic(
    model: AbstractRecordModel, query: AdditiveQuery
) -> Callable[[Array, Array], Array]:
    def one(key: Array, theta: Array) -> Array:
        def terms(first: Array) -> Array:
            kept = first + jnp.arange(MAX_RECORDS_HELD) < model.num_records
            contributions = query.contributions(model.database(key, theta, first, MAX_RECORDS_HELD))
            return jnp.where(kept[:, None], contributions, 0.0).sum(0)

        firsts = jnp.arange(0, model.num_records, MAX_RECORDS_HELD)
        nothing = jnp.zeros(jax.eval_shape(terms, firsts[0]).shape)
        add = lambda total, first: (total + terms(first), None)  # noqa: E731
        return jax.lax.scan(add, nothing, firsts)[0] / query.divisor

    return one
