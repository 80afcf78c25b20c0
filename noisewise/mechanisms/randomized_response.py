"""Randomised response over categories."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, integer, is_traced, number
from noisewise._core.neighbours import REPLACE_ONE, AbstractNeighbours, joint_relation
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.calibration import pure_epsilon
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.law import AbstractNoiseLaw
from noisewise.mechanisms.relations import neighbours_field
from noisewise.mechanisms.supports import LATTICE_TOLERANCE, AbstractSupport, Lattice

_GUESSING = 1.0 - 1e-12  # 1/c itself is allowed, whichever way its author rounded it


class RandomizedResponse(AbstractMechanism):
    r"""Each entry of s, a category 0..c-1, is kept with probability t, else replaced by one of the
    others, each with probability (1-t)/(c-1).

    Guarantee: epsilon = sensitivity * log(t (c-1) / (1-t)), since each entry that differs changes
    its probability from (1-t)/(c-1) to t at most (Warner 1965; Kairouz, Oh and Viswanath 2016).
    Tight. `log_prob_bound` is attained at s = s_dp.

    Attributes:
        num_categories: c, 2 or more; 2 unless given.
        truth_probability: t, from 1/c to below 1; it must be given.
        sensitivity: The number of entries of s that one person can change; 1 unless given.
        neighbours: Which databases differ by them; `nw.ReplaceOne()` by default.

    >>> import noisewise as nw
    >>> coin = nw.mechanisms.RandomizedResponse(num_categories=2, truth_probability=0.75)
    >>> round(coin.guarantee.epsilon, 6)
    1.098612
    >>> coin.transport([0.7, 0.8], [1, 1]).tolist()
    [1.0, 0.0]
    """

    norm: ClassVar[float] = 0.0

    num_categories: int = eqx.field(converter=integer("num_categories", at_least=2))
    truth_probability: float = eqx.field(
        converter=number("truth_probability", above=0.0, below=1.0)
    )
    sensitivity: int = eqx.field(default=1, converter=integer("sensitivity", at_least=1))
    neighbours: AbstractNeighbours = neighbours_field()

    def __init__(
        self,
        num_categories: int = 2,
        truth_probability: float | None = None,
        sensitivity: int = 1,
        *,
        neighbours: AbstractNeighbours = REPLACE_ONE,
    ) -> None:
        self.num_categories = num_categories
        self.truth_probability = truth_probability  # type: ignore[assignment]
        self.sensitivity = sensitivity
        self.neighbours = neighbours

    def __check_init__(self) -> None:
        if not is_traced(self) and self.truth_probability < _GUESSING / self.num_categories:
            raise InvalidInputError(
                "truth_probability must be at least that of a blind guess, 1/num_categories = "
                f"{1 / self.num_categories:g}, got {self.truth_probability:g}."
            )

    @classmethod
    def calibrate(
        cls,
        *,
        num_categories: int,
        guarantee: AbstractGuarantee,
        sensitivity: int = 1,
        neighbours: AbstractNeighbours | None = None,
    ) -> RandomizedResponse:
        """The largest truth probability with the given guarantee: t = 1 / (1 + (c-1)
        exp(-epsilon/sensitivity)).

        Args:
            num_categories: c, at least 2.
            guarantee: A PureDP, for all entries of one person together.
            sensitivity: The number of entries of s that one person can change.
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind, or epsilon is 0.
        """
        epsilon = pure_epsilon(guarantee, "RandomizedResponse")
        others = integer("num_categories", at_least=2)(num_categories) - 1
        share = epsilon / integer("sensitivity", at_least=1)(sensitivity)
        truth = 1.0 / (1.0 + others * math.exp(-share))
        # Near t = 1 one unit in the last place of t is many of epsilon: end on the private side.
        while truth == 1.0 or math.log(truth * others / (1.0 - truth)) > share:
            truth = math.nextafter(truth, 0.0)
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        return cls(
            num_categories=num_categories,
            truth_probability=truth,
            sensitivity=sensitivity,
            neighbours=relation,
        )

    @property
    def guarantee(self) -> PureDP:
        ratio = self.truth_probability * (self.num_categories - 1) / (1.0 - self.truth_probability)
        return PureDP(self.sensitivity * abs(math.log(ratio)), neighbours=self.neighbours)

    def describe(self) -> str:
        return (
            f"each answer is kept with probability {self.truth_probability:.3g}, else another is"
            " given"
        )

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        raise MissingCapabilityError(
            "RandomizedResponse chooses among categories, which have no mean."
        )

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        number, truth = self.num_categories, self.truth_probability
        draw = noise.randomized_response(num_categories=number, truth_probability=truth)
        return lambda categories: [float(category) for category in draw(categories)]

    @property
    def support(self) -> AbstractSupport:
        return Lattice(step=1.0, low=0.0, high=self.num_categories - 1.0)

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """All entries that one person can change, to the next category and to the last."""
        other = np.zeros((2, k))
        other[:, : self.sensitivity] = np.array([[1.0], [self.num_categories - 1.0]])
        return np.zeros((2, k)), other

    def _transport(self, u: Array, s: Array) -> Array:
        others = self.num_categories - 1
        beyond = (u - self.truth_probability) / (1.0 - self.truth_probability)
        rank = jnp.clip(jnp.floor(beyond * others), 0, others - 1)
        answer = jnp.where(u < self.truth_probability, s, rank + (rank >= s))
        return jnp.where(self.support.contains(s), answer, jnp.nan)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return jnp.where(self.support.contains(s), self._log_answer(s_dp, s), -jnp.inf)

    def _log_answer(self, s_dp: Array, s: Array) -> Array:
        other = jnp.log1p(-self.truth_probability) - jnp.log(self.num_categories - 1)
        return jnp.where(s_dp.round() == s.round(), jnp.log(self.truth_probability), other)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        categories = jnp.clip(jnp.floor(s_dp + LATTICE_TOLERANCE) + 1.0, 0, self.num_categories)
        return self._log_prob_among(categories, s < categories)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        first = jnp.clip(jnp.ceil(s_dp - LATTICE_TOLERANCE), 0, self.num_categories)
        return self._log_prob_among(self.num_categories - first, s >= first)

    def _log_prob_among(self, categories: Array, with_truth: Array) -> Array:
        """The log probability of a number of categories, the true one among them or not."""
        other = (1.0 - self.truth_probability) / (self.num_categories - 1)
        among = self.truth_probability + (categories - 1.0) * other
        return jnp.log(jnp.where(with_truth, among, categories * other))

    def _continued(self) -> AbstractNoiseLaw:
        return ContinuedResponse(self)

    @property
    def reach(self) -> float:
        return float(self.num_categories)

    def _kinks(self, s_dp: Array, xp: Any) -> Array:
        return xp.stack([s_dp, s_dp + 0.5], axis=-1)

    @property
    def input_bounds(self) -> tuple[Any, Any]:
        return 0.0, self.num_categories - 1.0

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return jnp.full_like(s_dp, jnp.log(self.truth_probability))

    def _check_statistic(self, s: np.ndarray) -> None:
        if not np.all(self.support.contains(s) | np.isnan(s)):
            raise InvalidInputError(
                f"RandomizedResponse needs categories 0..{self.num_categories - 1}; at least one"
                " entry of s is not a category."
            )


class ContinuedResponse(AbstractNoiseLaw):
    """Randomised response as a function of every real s.

    Attributes:
        response: Randomised response, which takes categories only.
    """

    response: RandomizedResponse

    @property
    def support(self) -> AbstractSupport:
        return self.response.support

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self.response._log_answer(s_dp, s)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return self.response._log_cdf(s_dp, s)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return self.response._log_sf(s_dp, s)
