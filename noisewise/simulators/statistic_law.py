"""Models whose confidential statistic has a known law."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, describe
from noisewise._core.user_functions import check_call
from noisewise.errors import InvalidInputError, InvalidTypeError, NoisewiseError, SimulationError
from noisewise.simulators import _compiled
from noisewise.simulators._keys import RowKeys
from noisewise.simulators.base import AbstractSimulator, Execution, Query
from noisewise.simulators.named import Layout, NamedTheta, named

if TYPE_CHECKING:
    import numpyro.distributions as dist


@dataclasses.dataclass(frozen=True)
class StatisticLaw(AbstractSimulator):
    """s ~ fn(theta): the confidential statistic follows a numpyro distribution.

    Use it where the law of the released numbers before noise is known: Poisson counts with a rate
    per district, a binomial number of cases, normal means. It simulates, so that every method
    serves it, and has a density, so that `MarginalNUTS` and `nw.infer` sum the confidential
    statistic out, exactly, without simulations.

    The function gets parameters by name: `theta["rate"]` has the shape it has in the prior, and
    `theta.array` is the whole vector. It is written in JAX, and returns a distribution of one
    number or of k numbers, on its last batch axis or its event axis.

    Args:
        fn: Function of a `NamedTheta` that returns a numpyro distribution of s.

    Raises:
        InvalidTypeError: If fn cannot be called as fn(theta).

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
    """

    fn: Callable[[NamedTheta], dist.Distribution]
    layout: Layout | None = dataclasses.field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.fn) or isinstance(self.fn, type):
            raise InvalidTypeError(
                "StatisticLaw needs a function fn(theta) -> numpyro distribution, got"
                f" {describe(self.fn)}."
            )
        check_call(self.fn, "fn(theta)", "theta")

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
            draw = _draw(self.fn, self.layout)
            width = int(jax.eval_shape(draw, jax.random.key(0), theta).shape[0])
        if expected not in (None, width):
            raise InvalidInputError(
                f"The law of the statistic gives {width} numbers, but the {whose} has {expected}:"
                " repeat or index parameters so that there is one for each, as in"
                ' theta["rate"][district].'
            )

    def law(self, theta: Array) -> dist.Distribution:
        """The law of s at one parameter vector, in float64 where that is on.

        Args:
            theta: Parameters, shape (d,).
        """
        return self.fn(named(theta, self.layout))

    def at_fixed_points(self, theta: Float[np.ndarray, "n d"]) -> list[str]:
        """Mean and log probability of the law at each theta, to 8 digits: what identifies the
        function.

        Args:
            theta: Parameters, shape (n, d).
        """

        def one(row: Array) -> Array:
            law = self.law(row)
            mean = jnp.nan_to_num(jnp.asarray(law.mean, dtype=jnp.float64))
            return jnp.stack([jnp.sum(mean), jnp.sum(law.log_prob(jnp.round(mean)))])

        with jax.enable_x64(True):
            values = np.asarray(jax.lax.map(one, jnp.asarray(theta)))
        return [f"{value:.7e}" for value in values.ravel()]

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

    def _statistics(
        self, keys: RowKeys, theta: np.ndarray, query: Query, execution: Execution
    ) -> np.ndarray:
        return np.asarray(self._simulate(keys, theta, execution), dtype=np.float64)

    def _simulate(self, keys: RowKeys, theta: np.ndarray, execution: Execution) -> Any:
        named(theta[0], self.layout)
        parts = (self.fn, self.layout)
        nbytes = 8 * self._statistic_width(keys, theta, None)
        return _compiled.run(_draw, parts, keys, theta, nbytes)

    def _statistic_width(self, keys: RowKeys, theta: np.ndarray, query: Any) -> int:
        with jax.enable_x64(True):
            shape = jax.eval_shape(_draw(self.fn, self.layout), keys.first, theta[0]).shape
        return int(shape[0])


def _draw(fn: Callable[[NamedTheta], Any], layout: Layout | None) -> _compiled.One:
    def one(key: Array, theta: Array) -> Array:
        return fn(named(theta, layout)).sample(key).astype(jnp.float64).reshape(-1)

    return one


def _check_law(law: Any) -> None:
    import numpyro.distributions as dist

    if isinstance(law, type) or not isinstance(law, dist.Distribution):
        got = f"the class {law.__name__}" if isinstance(law, type) else describe(law)
        raise InvalidTypeError(
            "The law of the statistic must be a numpyro distribution, as in lambda theta:"
            f' dist.Poisson(theta["rate"]); the function returned {got}.'
        )
