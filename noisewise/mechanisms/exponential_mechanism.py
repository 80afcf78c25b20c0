"""The exponential mechanism over finitely many candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, number
from noisewise._core.neighbours import AbstractNeighbours, joint_relation
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.calibration import pure_epsilon
from noisewise.mechanisms.exact import ExactNoise
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP
from noisewise.mechanisms.relations import neighbours_field
from noisewise.mechanisms.supports import AbstractSupport, Finite


def _candidates(values: Any) -> tuple[float, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, (Iterable, np.ndarray)):
        raise InvalidTypeError(
            f"candidates must be a sequence of numbers, got {type(values).__name__}."
        )
    each = number("candidates", advice="These are the values that can be released.")
    candidates = tuple(each(value) for value in values)
    if len(candidates) < 2 or len(set(candidates)) != len(candidates):
        raise InvalidInputError(
            f"candidates must be at least two different numbers, got {len(candidates)} with"
            " repeats."
        )
    return candidates


_UNLIKELY = 40.0  # scales below the others: probability exp(-40) = 4e-18, as good as none


class ExponentialMechanism(AbstractMechanism):
    r"""One of c candidates, P(s_dp = candidates[j]) ~ exp(s_j / scale), where s holds the utility
    of each candidate.

    s has c columns, s_dp one: the chosen candidate itself. One uniform is turned into the candidate
    by the inverse distribution function. `queries.Median` gives such utilities.

    Guarantee: epsilon = 2 Delta / scale, Delta being the largest change of any utility between
    neighbours: the numerator changes by at most exp(Delta/scale), and so does the normaliser
    (McSherry and Talwar 2007). The supremum is approached by a candidate of small probability whose
    utility rises while all others fall. `log_prob_bound` is 0, the supremum over utilities,
    approached as one candidate leaves all others behind.

    Attributes:
        candidates: The values that can be released, at least two different ones, public.
        scale: 2 Delta / epsilon, in the units of the utilities.
        sensitivity: Delta, in the L-infinity norm.
        neighbours: Which databases are neighbours; `nw.ReplaceOne()` by default.

    >>> import noisewise as nw
    >>> ages = (10, 20, 30)
    >>> mechanism = nw.mechanisms.ExponentialMechanism(candidates=ages, scale=0.5, sensitivity=1)
    >>> mechanism.guarantee
    PureDP(epsilon=4.0)
    >>> mechanism.transport([0.5], [0.0, 3.0, 1.0]).tolist()
    [20.0]
    """

    norm: ClassVar[float] = math.inf

    candidates: tuple[float, ...] = eqx.field(static=True, converter=_candidates)
    scale: float = eqx.field(converter=number("scale", above=0.0))
    sensitivity: float = eqx.field(default=1.0, converter=number("sensitivity", above=0.0))
    neighbours: AbstractNeighbours = neighbours_field()

    @classmethod
    def calibrate(
        cls,
        *,
        candidates: Iterable[float],
        guarantee: AbstractGuarantee,
        sensitivity: float = 1.0,
        neighbours: AbstractNeighbours | None = None,
    ) -> ExponentialMechanism:
        """The smallest scale with the given guarantee: 2 Delta / epsilon.

        Args:
            candidates: The values that can be released.
            guarantee: A PureDP.
            sensitivity: Delta, the largest change of any utility between neighbours.
            neighbours: Between which databases the sensitivity is; by default those of the
                guarantee.

        Raises:
            InvalidInputError: If the guarantee is of another kind, or epsilon is 0.
        """
        epsilon = pure_epsilon(guarantee, "ExponentialMechanism")
        scale = 2.0 * number("sensitivity", above=0.0)(sensitivity) / epsilon
        relation = joint_relation(guarantee.neighbours, neighbours, "guarantee")
        return cls(
            candidates=tuple(candidates),
            scale=scale,
            sensitivity=sensitivity,
            neighbours=relation,
        )

    @property
    def guarantee(self) -> PureDP:
        return PureDP(2.0 * self.sensitivity / self.scale, neighbours=self.neighbours)

    @property
    def choices(self) -> tuple[float, ...]:
        return self.candidates

    def describe(self) -> str:
        return (
            f"one of {len(self.candidates)} candidates, the better ones more often (scale"
            f" {self.scale:.4g})"
        )

    def estimate(self, s_dp: np.ndarray) -> np.ndarray:
        raise MissingCapabilityError(
            "ExponentialMechanism chooses among candidates: a choice gives no estimate of the"
            " utilities."
        )

    @property
    def exact_step(self) -> None:
        return None

    def exact_sampler(
        self, noise: ExactNoise, step: float
    ) -> Callable[[Sequence[int]], list[float]]:
        scale, reach = noise.in_steps(self.scale, step), noise.whole_steps(self.sensitivity, step)
        choose = noise.exponential_choice(scale, sensitivity=reach, epsilon=self.guarantee.epsilon)
        return lambda utilities: [self.candidates[index] for index in choose(utilities)]

    @property
    def support(self) -> AbstractSupport:
        return Finite(tuple(sorted(self.candidates)))

    @property
    def width(self) -> int:
        return len(self.candidates)

    def output_width(self, k: int) -> int:
        return 1

    def num_uniforms(self, k: int) -> int:
        return 1

    def adjacent_pairs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """An unlikely candidate gains Delta while all others lose it."""
        s = np.zeros((1, k))
        s[0, 0] = -(_UNLIKELY * self.scale + 2.0 * self.sensitivity)
        other = s - self.sensitivity
        other[0, 0] = s[0, 0] + self.sensitivity
        return s, other

    def _transport(self, u: Array, s: Array) -> Array:
        order = np.argsort(self.candidates)
        cumulated = jnp.cumsum(jax.nn.softmax(s[..., order] / self.scale), axis=-1)
        # Measured against the computed total, u < 1 never passes the last candidate of positive
        # probability.
        rank = (cumulated < u * cumulated[..., -1:]).sum(-1, keepdims=True)
        chosen = jnp.asarray(np.asarray(self.candidates)[order])[rank]
        return jnp.where(jnp.isnan(cumulated[..., -1:]), jnp.nan, chosen)

    def _log_prob_each(self, s_dp: Array, s: Array) -> Array:
        return self._log_prob_among(s_dp == jnp.asarray(self.candidates), s)

    def _log_cdf(self, s_dp: Array, s: Array) -> Array:
        return self._log_prob_among(jnp.asarray(self.candidates) <= s_dp, s)

    def _log_sf(self, s_dp: Array, s: Array) -> Array:
        return self._log_prob_among(jnp.asarray(self.candidates) >= s_dp, s)

    def _log_before(self, s_dp: Array, s: Array) -> Array:
        return self._log_prob_among(jnp.asarray(self.candidates) < s_dp, s)

    def _log_prob_among(self, chosen: Array, s: Array) -> Array:
        """The log probability that s_dp is one of the chosen candidates."""
        log_probs, chosen = jnp.broadcast_arrays(jax.nn.log_softmax(s / self.scale), chosen)
        return jax.nn.logsumexp(log_probs, axis=-1, keepdims=True, where=chosen)

    def _log_prob_bound_each(self, s_dp: Array) -> Array:
        return jnp.zeros_like(s_dp)

    def _check_statistic(self, s: np.ndarray) -> None:
        if np.any(np.isposinf(s)):
            raise InvalidInputError(
                "ExponentialMechanism needs finite utilities; at least one entry of s is infinite."
            )
