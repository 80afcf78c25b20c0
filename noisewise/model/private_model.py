"""theta -> x -> s -> s_dp: the four stages as one model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, Int

from noisewise import queries
from noisewise._core.arrays import Array, as_key, as_vectors, in_float64
from noisewise._core.neighbours import AbstractNeighbours, as_neighbours
from noisewise.errors import InvalidInputError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.model import observation
from noisewise.model.derived import beside_draws, checked_derived, derive
from noisewise.model.likelihood import log_likelihood
from noisewise.model.sensitivity_check import check_sensitivity
from noisewise.model.stages import check_sizes, check_stages
from noisewise.model.unknown_parameters import FunctionOfTheta, as_mechanism, columns_of
from noisewise.priors.prior import Prior
from noisewise.queries import AbstractQuery, as_query
from noisewise.simulators import AbstractSimulator, Faults, StatisticLaw
from noisewise.simulators.completed import CompletedSimulator

if TYPE_CHECKING:
    from noisewise.disclosure import Release


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PrivateModel:
    r"""What the analyst knows of what the curator did: theta ~ prior, then simulator, query,
    mechanism.

    A mechanism calibrated for less than the query's sensitivity is refused, because its guarantee
    would be false. Nothing is checked where either is unknown.

    Args:
        prior: The law of theta.
        simulator: Draws a database x given theta.
        query: The statistic of a database; a bare function x -> s or the description of a query
            that a release holds will also do. A `StatisticLaw` needs none; one that is given tells
            names, width and sensitivity, and is not applied.
        mechanism: The noise that turns s into s_dp. Where it is not known, a function of named
            parameters, `lambda theta: Laplace(scale=theta["scale"])`: no guarantee is derived, and
            statistics carry the parameters that it reads, behind s.
        neighbours: Between which databases the mechanism's sensitivity is stated; None for those
            that it carries.
        derived: Functions of theta (..., d) that return shape (...), by name, such as {"R0":
            lambda theta: theta[..., 0] / theta[..., 1]}; they are reported like parameters, and
            so are those of a prior from a numpyro program.

    Raises:
        InvalidTypeError: If a stage is of the wrong type; the message shows the line to write.
        InvalidInputError: If widths or numbers of records do not fit each other.
        SensitivityError: If the mechanism is calibrated for less than the query needs between its
            neighbours, or the query has no sensitivity there, as a mean of confidentially many.

    >>> import jax, numpyro.distributions as dist
    >>> import noisewise as nw
    >>> query = nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=100)
    >>> draw = lambda key, theta: theta + jax.random.normal(key, (100, 1))
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"mu": dist.Normal(0, 1)}),
    ...     simulator=nw.simulators.JaxSimulator(draw),
    ...     query=query,
    ...     mechanism=nw.mechanisms.Laplace.calibrate(
    ...         sensitivity=query.sensitivity(norm=1), guarantee=nw.PureDP(1.0)
    ...     ),
    ... )
    >>> theta = model.prior.sample(jax.random.key(0), 5)
    >>> model.statistics(jax.random.key(1), theta).shape
    (5, 1)
    >>> model.simulate(jax.random.key(1), theta).shape
    (5, 1)
    """

    prior: Prior
    simulator: AbstractSimulator
    query: AbstractQuery = None  # type: ignore[assignment]
    mechanism: AbstractMechanism
    neighbours: AbstractNeighbours | None = None
    derived: Mapping[str, Callable[[Array], Array]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.query is None and isinstance(self.simulator, StatisticLaw):
            object.__setattr__(self, "query", as_query(observation.cells_themselves))
        check_stages(vars(self))
        object.__setattr__(self, "mechanism", as_mechanism(self.mechanism, self.prior))
        object.__setattr__(self, "simulator", self.simulator.named_by(self.prior.layout))
        query = (
            queries.from_spec(dict(self.query))
            if isinstance(self.query, Mapping)
            else as_query(self.query)
        )
        object.__setattr__(self, "query", query)
        own = checked_derived(self.derived, self.prior)
        object.__setattr__(self, "derived", {**self.prior.derived, **own})
        if self.neighbours is not None:
            mechanism = self.mechanism.for_neighbours(as_neighbours(self.neighbours))
            object.__setattr__(self, "mechanism", mechanism)
        check_sizes(self.simulator, self.query, self.mechanism)
        check_sensitivity(self.mechanism, self.query)

    @classmethod
    def from_release(
        cls,
        release: Release,
        *,
        prior: Prior,
        simulator: AbstractSimulator,
        query: AbstractQuery | Callable[[Any], Any] | None = None,
        derived: Mapping[str, Callable[[Array], Array]] | None = None,
    ) -> PrivateModel:
        """The model of a published release: its query (with the grid the curator used) and its
        mechanism.

        Args:
            release: What was published.
            prior: The law of theta.
            simulator: Draws a database x given theta. For a table that names no query it draws the
                confidential numbers of all cells, shape (k,), in the order of `release.table`.
            query: The query, where the release names none; by default the cells of its table.
            derived: Functions of theta by name, as in the class.

        Raises:
            InvalidInputError: If the release does not name its query, and is no table.

        >>> import jax, numpyro.distributions as dist
        >>> import noisewise as nw
        >>> query = nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=4)
        >>> published = nw.release([0.1, -0.3, 1.2, 0.9], query, nw.PureDP(1.0))
        >>> draw = lambda key, theta: theta + jax.random.normal(key, (4, 1))
        >>> model = nw.PrivateModel.from_release(
        ...     published,
        ...     prior=nw.Prior({"mu": dist.Normal(0, 1)}),
        ...     simulator=nw.simulators.JaxSimulator(draw),
        ... )
        >>> s = model.statistics(jax.random.key(0), model.prior.sample(jax.random.key(1), 100))
        >>> model.log_prob_observed(published, s).shape
        (100,)
        """
        return cls(
            prior=prior,
            simulator=simulator,
            query=observation.statistic_of(release, query, prior),
            mechanism=release.mechanism,
            derived={} if derived is None else derived,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """One name per column of theta."""
        return self.prior.names

    @property
    def integrated_out(self) -> tuple[str, ...]:
        """Names of parameters that simulations draw from the prior, after `focus`."""
        return self.simulator.drawn if isinstance(self.simulator, CompletedSimulator) else ()

    @property
    def statistic_width(self) -> int:
        """The number k of columns of s, unknown parameters of the mechanism included; found by
        tracing or simulating once where neither query nor mechanism states it.
        """
        return self._own_width + self.mechanism.num_unknown

    @functools.cached_property
    def _own_width(self) -> int:
        width, unknown = self.mechanism.width, self.mechanism.num_unknown
        known = self.query.width or (width and width - unknown)
        if known:
            return known
        key = jax.random.key(0)
        return self.simulator.statistic_width(key, self.prior.sample(key, 8), self.query)

    @property
    def statistic_names(self) -> tuple[str, ...]:
        """One name per column of s."""
        return (*self._own_names, *(self.names[j] for j in self.unknown_columns))

    @property
    def _own_names(self) -> tuple[str, ...]:
        return self.query.names or tuple(f"s[{j}]" for j in range(self._own_width))

    @property
    def unknown_columns(self) -> Int[np.ndarray, " p"]:
        """The columns of theta that the mechanism reads, where it is a function of parameters."""
        return columns_of(self.prior, self.mechanism.unknown)

    def mechanism_at(self, theta: Float[Array, " d"]) -> AbstractMechanism:
        """The mechanism at one parameter vector: the same for all, unless it is a function."""
        return self.mechanism.at(theta[self.unknown_columns])

    @property
    def private_width(self) -> int:
        """The number k' of columns of s_dp."""
        return self.mechanism.output_width(self.statistic_width)

    @property
    def private_names(self) -> tuple[str, ...]:
        """One name per column of s_dp: those of s where there are as many."""
        if self.private_width == len(self._own_names):
            return self._own_names
        return tuple(f"s_dp[{j}]" for j in range(self.private_width))

    def statistics(
        self,
        key: Array,
        theta: Float[Array, "n d"],
        *,
        executor: Executor | None = None,
        batch_size: int | None = None,
        faults: Faults | None = None,
    ) -> Float[np.ndarray, "n k"]:
        """The confidential statistics of one simulated database per row of theta.

        Args:
            key: JAX PRNG key, or an array of n keys, with which row i depends on the i-th key and
                theta_i only.
            theta: Parameters, shape (n, d).
            executor: Where a `PythonSimulator` runs; None for this process.
            batch_size: The number of rows in each batch; results do not depend on it.
            faults: Counts failed simulations, as `new_faults` gives; None to raise instead.

        Returns:
            Statistics s, shape (n, k); rows of failed simulations are NaN.

        Raises:
            SimulationError: If a simulation fails and `faults` is None, or too many fail.
            InvalidInputError: If theta has the wrong number of columns.
        """
        self._check_columns(theta)
        s = self.simulator.statistics(
            key, theta, self.query, executor=executor, batch_size=batch_size, faults=faults
        )
        read = np.asarray(theta, dtype=np.float64)[:, self.unknown_columns]
        return np.concatenate([s, read], axis=1) if self.mechanism.unknown else s

    def simulate(
        self,
        key: Array,
        theta: Float[Array, "n d"],
        *,
        executor: Executor | None = None,
        batch_size: int | None = None,
        faults: Faults | None = None,
    ) -> Float[np.ndarray, "n kp"]:
        """Private statistics: simulated databases, their statistics, and fresh noise.

        Args:
            key: One JAX PRNG key.
            theta: Parameters, shape (n, d).
            executor: As in `statistics`.
            batch_size: As in `statistics`.
            faults: As in `statistics`.

        Returns:
            Private statistics s_dp, shape (n, k'); rows of failed simulations are NaN.
        """
        simulation, noise = jax.random.split(as_key(key))
        s = self.statistics(
            simulation, theta, executor=executor, batch_size=batch_size, faults=faults
        )
        return self.mechanism.sample(noise, s)

    def new_faults(self) -> Faults:
        """A counter of failed simulations that raises beyond what the simulator allows."""
        return Faults(getattr(self.simulator, "max_failed", 0.0), self.statistic_width)

    def observation(self, observed: Release | Float[Array, " kp"]) -> Float[np.ndarray, " kp"]:
        """The numbers that inference conditions on, checked.

        Args:
            observed: A release of this model's mechanism (and of its query, where both describe
                theirs), or the released numbers.

        Returns:
            Shape (k',), one number per column of s_dp, all on the support of the mechanism.

        Raises:
            InvalidInputError: If it does not fit the model; the message says what to write.
        """
        return observation.checked(self, observed)

    def log_prob_observed(
        self, observed: Release | Float[Array, " kp"], s: Float[Array, "*batch k"]
    ) -> Float[np.ndarray, "*batch"]:
        """log eta(observed | s): the log density of the observation at confidential statistics.

        Args:
            observed: As in `observation`.
            s: Confidential statistics, shape (..., k).

        Returns:
            Shape (...).

        Raises:
            MissingCapabilityError: If the mechanism has no density.
        """
        return self.mechanism.log_prob(self.observation(observed), s)

    @in_float64
    def log_likelihood(
        self, theta: Float[Array, "n d"], observed: Release | Float[Array, " kp"]
    ) -> Float[np.ndarray, "n kp"] | None:
        """log p(y_j | theta) of each released number y_j.

        Args:
            theta: Parameters, shape (n, d).
            observed: As in `observation`.

        Returns:
            Shape (n, k'), whose rows add up to the log likelihood of theta; None unless the
            simulator is a `StatisticLaw` of independent numbers, or `KnowsLikelihood`.
        """
        self._check_columns(theta)
        rows = np.asarray(as_vectors(theta, "theta"))
        return log_likelihood(self, rows, self.observation(observed))

    @in_float64
    def derived_quantities(
        self, theta: Float[Array, "*batch d"]
    ) -> dict[str, Float[np.ndarray, "*batch"]]:
        """The derived quantities of theta by name.

        Args:
            theta: Parameters, shape (..., d).

        Returns:
            One array of shape (...) per name.

        Raises:
            InvalidInputError: If a function fails or returns another shape.
        """
        theta = np.asarray(as_vectors(theta, "theta", self.prior.dim))
        rows = theta.reshape(-1, theta.shape[-1])
        return {
            name: derive(name, fn, rows).reshape(theta.shape[:-1])
            for name, fn in self.derived.items()
        }

    def beside_draws(self, theta: Float[Array, "n d"]) -> dict[str, Any]:
        """What posteriors keep of the model beside their draws theta (n, d), by name."""
        return beside_draws(self, theta)

    def focus(self, *names: str) -> PrivateModel:
        """The model whose theta is a part of the parameters: the others are drawn from the prior,
        given these, inside each simulation.

        So a model with thousands of effects is learnt through the few numbers that are asked for.

        Args:
            *names: Names of the prior, such as "mu", "tau"; all entries of each are kept.

        Returns:
            The model. Its prior is the law of what is kept, and its derived quantities are those of
            the user's that need no more.

        Raises:
            InvalidInputError: If a name is unknown, or its law depends on one that is left out.

        >>> import jax, jax.numpy as jnp, numpyro.distributions as dist
        >>> import noisewise as nw
        >>> effects = lambda mu: dist.Normal(mu, 1).expand([12])
        >>> prior = nw.Prior({"mu": dist.Normal(0, 1), "effect": effects})
        >>> draw = lambda key, theta: jax.random.poisson(key, jnp.exp(theta[1:]))
        >>> model = nw.PrivateModel(
        ...     prior=prior,
        ...     simulator=nw.simulators.JaxSimulator(draw),
        ...     query=lambda x: x,
        ...     mechanism=nw.mechanisms.DiscreteGaussian(scale=2.0),
        ... )
        >>> model.focus("mu").names
        ('mu',)
        """
        from noisewise.model.focusing import focused

        return focused(self, names)

    def with_mechanism(self, mechanism: AbstractMechanism | FunctionOfTheta) -> PrivateModel:
        """The same model with another mechanism; simulations of s can be used again.

        Raises:
            SensitivityError: If it is calibrated for less than the query needs.
        """
        return dataclasses.replace(self, mechanism=mechanism)  # type: ignore[arg-type]

    @in_float64
    def _check_columns(self, theta: Array) -> None:
        width = as_vectors(theta, "theta").shape[-1]
        if width != self.prior.dim:
            raise InvalidInputError(
                f"theta must have {self.prior.dim} columns, {', '.join(self.names)}; got {width}."
            )
