"""Models whose confidential statistic has a known law."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array, describe, sum_by_place
from noisewise._core.user_functions import check_call
from noisewise.errors import InvalidInputError, InvalidTypeError, NoisewiseError, SimulationError
from noisewise.simulators import _compiled
from noisewise.simulators._keys import RowKeys
from noisewise.simulators.base import AbstractSimulator, Execution, Query
from noisewise.simulators.multinomial_draws import draw_counts
from noisewise.simulators.named import Layout, NamedTheta, named

if TYPE_CHECKING:
    import numpyro.distributions as dist


@dataclasses.dataclass(frozen=True, eq=False)
class StatisticLaw(AbstractSimulator):
    """s ~ fn(theta): the confidential statistic follows a numpyro distribution. With `sums=A` that
    is the law of the cells of a table, and the statistic is A cells.

    Use it where the law of the released numbers before noise is known: Poisson counts with a rate
    per district, a binomial number of cases, normal means. It simulates, so that every method
    serves it, and has a density, so that `MarginalNUTS` and `nw.infer` sum the confidential
    statistic out, exactly, without simulations.

    The function gets parameters by name: `theta["rate"]` has the shape it has in the prior, and
    `theta.array` is the whole vector. It is written in JAX, and returns a distribution of one
    number or of k numbers, on its last batch axis or its event axis.

    Where released numbers are overlapping sums of cells (a table with its margins, counties and
    their states), fn is the law of the c cells, and `sums` says which of them each number adds up:
    `release.sums()` makes it from labels, `CountAugmentationMCMC` and `nw.infer` serve it.

    Args:
        fn: Function of a `NamedTheta` that returns a numpyro distribution of s, or of the cells.
        sums: A (k, c), whole numbers of 0 or more: s = A cells; None where s are the cells.

    Raises:
        InvalidTypeError: If fn cannot be called as fn(theta).
        InvalidInputError: If sums is no table of whole numbers, or a row of it adds up nothing.

    Example:
        >>> import jax, numpyro.distributions as dist
        >>> import noisewise as nw
        >>> model = nw.PrivateModel(
        ...     prior=nw.Prior({"rate": dist.LogNormal(3.0, 1.0).expand([2])}),
        ...     simulator=nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta["rate"])),
        ...     mechanism=nw.mechanisms.DiscreteLaplace(scale=2.0),
        ... )
        >>> model.statistics(jax.random.key(0), [[10.0, 1000.0]]).tolist()
        [[14.0, 1044.0]]

        Two cells and their total:

        >>> with_total = nw.simulators.StatisticLaw(
        ...     lambda theta: dist.Poisson(theta["rate"]), sums=[[1, 0], [0, 1], [1, 1]]
        ... )
        >>> table = nw.PrivateModel(
        ...     prior=model.prior, simulator=with_total, mechanism=model.mechanism
        ... )
        >>> table.statistics(jax.random.key(0), [[10.0, 1000.0]]).tolist()
        [[14.0, 1044.0, 1058.0]]
    """

    fn: Callable[[NamedTheta], dist.Distribution]
    sums: Int[np.ndarray, "k c"] | None = dataclasses.field(default=None, repr=False)
    layout: Layout | None = dataclasses.field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.fn) or isinstance(self.fn, type):
            raise InvalidTypeError(
                "StatisticLaw needs a function fn(theta) -> numpyro distribution, got"
                f" {describe(self.fn)}."
            )
        check_call(self.fn, "fn(theta)", "theta")
        if self.sums is not None:
            object.__setattr__(self, "sums", _as_sums(self.sums))

    def __eq__(self, other: object) -> bool:
        """Whether function, sums and names are the same."""
        if not isinstance(other, StatisticLaw):
            return NotImplemented
        mine, theirs = self.sums, other.sums
        same = mine is theirs or (mine is not None and np.array_equal(mine, theirs))  # type: ignore[arg-type]
        return same and (self.fn, self.layout) == (other.fn, other.layout)

    def __hash__(self) -> int:
        return hash((self.fn, self.layout, None if self.sums is None else self.sums.tobytes()))

    def named_by(self, layout: Layout) -> StatisticLaw:
        found = dataclasses.replace(self, layout=layout)
        found._check(sum(int(np.prod(shape)) for _, shape in layout))
        return found

    def check_width(self, expected: int | None, whose: str) -> None:
        """Refuse a law of another number of numbers than the mechanism or query has.

        Args:
            expected: Their number; None where it is not known.
            whose: What has it, for the message.
        """
        dim = sum(int(np.prod(shape)) for _, shape in self.layout or ())
        with jax.enable_x64(True):
            theta = jax.ShapeDtypeStruct((dim,), jnp.float64)
            draw = _draw(self)
            width = int(jax.eval_shape(draw, jax.random.key(0), theta).shape[0])
        if expected not in (None, width) and self.sums is not None:
            raise InvalidInputError(
                f"sums makes {width} numbers of the cells, but the {whose} has {expected}: it needs"
                " one row for each released number, in their order, as release.sums() gives them."
            )
        if expected not in (None, width):
            totals = (
                " If some released numbers are totals of others, give the law of the cells alone,"
                " and StatisticLaw(fn, sums=release.sums()), where empty labels say total, or"
                ' sums=release.sums(total="total"), where a word does.'
            )
            raise InvalidInputError(
                f"The law of the statistic gives {width} numbers, but the {whose} has {expected}:"
                " repeat or index parameters so that there is one for each, as in"
                f' theta["rate"][district].{totals if 1 < width < (expected or 0) else ""}'
            )

    def law(self, theta: Array) -> dist.Distribution:
        """The law of s, or of the cells, at one parameter vector, in float64 where that is on.

        Args:
            theta: Parameters, shape (d,).
        """
        return self.fn(named(theta, self.layout))

    def at_fixed_points(self, theta: Float[np.ndarray, "n d"]) -> list[str]:
        """Means and log probabilities of the law at each theta, added up so that the order of
        cells matters, to 8 digits, and a digest of the sums: what identifies the function.

        Args:
            theta: Parameters, shape (n, d).
        """

        def one(row: Array) -> Array:
            law = self.law(row)
            mean = jnp.nan_to_num(jnp.asarray(law.mean, dtype=jnp.float64))
            log_probs = jnp.asarray(law.log_prob(jnp.round(mean)))
            return jnp.stack([sum_by_place(mean), sum_by_place(log_probs)])

        with jax.enable_x64(True):
            values = np.asarray(jax.lax.map(one, jnp.asarray(theta)))
        digests = [] if self.sums is None else [_digest(self.sums)]
        return [f"{value:.7e}" for value in values.ravel()] + digests

    def _check(self, dim: int) -> None:
        """Trace the function once, so that unknown names and wrong results are refused early."""
        shapes: list[tuple[int, ...]] = []

        def traced(theta: Array) -> Array:
            law = self.law(theta)
            _check_law(law)
            shapes.append((*law.batch_shape, *law.event_shape))
            return theta

        with jax.enable_x64(True):
            try:
                jax.eval_shape(traced, jax.ShapeDtypeStruct((dim,), jnp.float64))
            except NoisewiseError:
                raise
            except Exception as error:
                raise SimulationError(
                    f"The law of the statistic cannot be traced: {type(error).__name__}: {error}."
                    " Write it in jax.numpy, without if and float() on parameters."
                ) from error
        if len(shapes[0]) > 1:
            raise InvalidInputError(
                f"The law of the statistic has shape {shapes[0]}: one number or one axis of k"
                " numbers is expected. Flatten it, as in rate.reshape(-1)."
            )
        num_cells = int(np.prod(shapes[0]))
        if self.sums is not None and self.sums.shape[1] != num_cells:
            raise InvalidInputError(
                f"sums adds up {self.sums.shape[1]} cells, but the law gives {num_cells}: it needs"
                " one number for each cell, in the order of release.sums().cells."
            )

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        return np.asarray(self._simulate(keys, theta, execution), dtype=np.float64)

    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> Any:
        named(theta[0], self.layout)
        width = self._statistic_width(keys, theta, None)
        nbytes = 8 * (width if self.sums is None else width + self.sums.shape[1])
        return _compiled.run(_draw, (self,), keys, theta, nbytes)

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Any) -> int:
        with jax.enable_x64(True):
            shape = jax.eval_shape(_draw(self), keys.first, theta[0]).shape
        return int(shape[0])


def _draw(simulator: StatisticLaw) -> _compiled.One:
    def one(key: Array, theta: Array) -> Array:
        cells = draw_counts(simulator.law(theta), key).astype(jnp.float64).reshape(-1)
        if simulator.sums is None:
            return cells
        return jnp.asarray(simulator.sums, jnp.float64) @ cells

    return one


def _as_sums(sums: Any) -> Int[np.ndarray, "k c"]:
    try:
        given = np.asarray(sums, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"sums must be an array (k, c) of whole numbers, got {describe(sums)}."
        ) from None
    whole = np.isfinite(given).all() and (given == np.round(given)).all() and (given >= 0).all()
    if given.ndim != 2 or 0 in given.shape or not whole:
        raise InvalidInputError(
            "sums must have a row for each released number and a column for each cell, with whole"
            f" numbers of 0 or more: how often the number counts the cell. Got {describe(sums)}."
        )
    empty = np.flatnonzero(~given.any(axis=1))
    if empty.size:
        raise InvalidInputError(f"Row {empty[0]} of sums adds up no cell.")
    found = given.astype(np.int64)
    found.setflags(write=False)
    return found


def _digest(sums: np.ndarray) -> str:
    return hashlib.sha256(repr(sums.shape).encode() + sums.tobytes()).hexdigest()


def _check_law(law: Any) -> None:
    import numpyro.distributions as dist

    if isinstance(law, type) or not isinstance(law, dist.Distribution):
        got = f"the class {law.__name__}" if isinstance(law, type) else describe(law)
        raise InvalidTypeError(
            "The law of the statistic must be a numpyro distribution, as in lambda theta:"
            f' dist.Poisson(theta["rate"]); the function returned {got}.'
        )
