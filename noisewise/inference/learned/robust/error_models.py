r"""How far an observation may lie from the statistic it stands for, and the latent statistics that
it leaves possible.

    p(t | s_dp)  ~  h(t) p(s_dp | s(t)),        t the free columns of s, h their law under the model

Chains over t move in coordinates in which the error model is smooth.
"""

from __future__ import annotations

import abc
import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, number
from noisewise.errors import MissingCapabilityError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.inference.learned.robust.latent_space import LatentSpace
from noisewise.inference.learned.robust.spike_coordinates import SpikeCoordinates, log_parts
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.model.private_model import PrivateModel


class AbstractLatent(eqx.Module):
    """The law of latent statistics given an observation, in coordinates v (f,) that chains move in:
    `latent(v)` is its log density.
    """

    marginal: eqx.AbstractVar[ConditionalDensity]
    space: eqx.AbstractVar[LatentSpace]

    @abc.abstractmethod
    def __call__(self, v: Array) -> Array: ...

    @abc.abstractmethod
    def statistic(self, v: Float[Array, "*n f"]) -> Float[Array, "*n f"]:
        """The free columns t at v, each of shape (..., f)."""

    @abc.abstractmethod
    def coordinates(self, t: Float[np.ndarray, "n f"]) -> Float[np.ndarray, "n f"]:
        """The v (N, f) at t (N, f), for chains to start from."""

    @abc.abstractmethod
    def log_error(self, t: Float[Array, "*n f"]) -> Float[Array, "*n"]:
        """log p(s_dp | s(t)), one number for each t."""

    @abc.abstractmethod
    def log_weight(self, t: Array) -> Array:
        """The log of what draws of t (..., f) count, (...): 0, unless s is on a lattice that the
        density spreads.
        """

    def _log_marginal(self, t: Array) -> Array:
        """log h(t)."""
        return self.marginal.log_density(t, jnp.zeros((*t.shape[:-1], 0)))


class AbstractErrorModel(abc.ABC):
    """A law of s_dp given s."""

    @abc.abstractmethod
    def check(self, model: PrivateModel) -> None:
        """Refuse a model it does not fit."""

    @abc.abstractmethod
    def check_observation(self, model: PrivateModel, observed: Float[np.ndarray, " kp"]) -> None:
        """Refuse an observation that it cannot compare with statistics, before anything is
        simulated.
        """

    @abc.abstractmethod
    def latent(
        self,
        model: PrivateModel,
        observed: Float[np.ndarray, " kp"],
        space: LatentSpace,
        marginal: ConditionalDensity,
    ) -> AbstractLatent:
        """The law of latent statistics given the observation.

        Args:
            model: The model.
            observed: The observation.
            space: The free columns of s.
            marginal: h, the law of the free columns under the model.

        Returns:
            The log density that chains move on.
        """


# The mechanism itself -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class MechanismError(AbstractErrorModel):
    r"""The error is privacy noise, whose law is known: p(s_dp | s) = eta(s_dp | s).

    Then theta ~ q(. | s), s ~ h(s) eta(s_dp | s) are draws from the exact posterior, up to what is
    wrong with h and q. Use it where the model is trusted.

    >>> MechanismError()
    MechanismError()
    """

    def check(self, model: PrivateModel) -> None:
        if Capability.DENSITY not in model.mechanism.capabilities:
            raise MissingCapabilityError(
                "MechanismError needs a mechanism with a density, which"
                f" {type(model.mechanism).__name__} lacks. Use error=SpikeAndSlab(), or"
                " PrivatePosteriorEstimation, which only needs to draw from it."
            )

    def check_observation(self, model: PrivateModel, observed: Float[np.ndarray, " kp"]) -> None:
        """None is refused: the mechanism has the probability of each."""

    def latent(
        self,
        model: PrivateModel,
        observed: Float[np.ndarray, " kp"],
        space: LatentSpace,
        marginal: ConditionalDensity,
    ) -> AbstractLatent:
        return _GivenMechanism(marginal, space, model.mechanism, observed)


class _GivenMechanism(AbstractLatent):
    """h(t) eta(s_dp | s(t)), in coordinates v = t."""

    marginal: ConditionalDensity
    space: LatentSpace
    mechanism: AbstractMechanism
    observed: Array

    def __call__(self, v: Array) -> Array:
        return self._log_marginal(v) + self.log_error(v)

    def statistic(self, v: Array) -> Array:
        return v

    def coordinates(self, t: np.ndarray) -> np.ndarray:
        return t

    def log_error(self, t: Array) -> Array:
        """Noise on a lattice has a law at its points alone: that of a point serves its cell."""
        between = self.mechanism.log_prob(self.observed, self.space.full(t))
        nearest = self.mechanism.log_prob(self.observed, self.space.full(self.space.nearest(t)))
        return jnp.where(jnp.isfinite(between), between, nearest)

    def log_weight(self, t: Array) -> Array:
        return self.log_error(self.space.nearest(t)) - self.log_error(t)


# Spike and slab -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SpikeAndSlab(AbstractErrorModel):
    r"""Each statistic is either right or grossly wrong: s_dp,j ~ N(s_j, spike^2) or, with a given
    probability, Cauchy(s_j, slab).

    Use it to find statistics that do not fit the model: those whose posterior probability of the
    slab is large. It ignores what is known about the privacy
    noise. Counts of `PaddedBinomial` are compared as estimates of s, s_dp (K + 2m) / n - m.

    Args:
        spike: Standard deviation of the error of a statistic that is right, in units of the
            standard deviation of s_j under the model; the reference's, as the others.
        slab: Scale of the error of one that is wrong, in the same units.
        probability: Prior probability that a statistic is wrong.

    Reference: Ward, Cannon, Beaumont, Fasiolo and Schmon (2022), Robust neural posterior estimation
    and statistical model criticism.
    """

    spike: float = 0.01
    slab: float = 0.25
    probability: float = 0.5

    def __post_init__(self) -> None:
        converters = {
            "spike": number("spike", above=0.0),
            "slab": number("slab", above=0.0),
            "probability": number("probability", above=0.0, below=1.0),
        }
        for name, converter in converters.items():
            object.__setattr__(self, name, converter(getattr(self, name)))

    def check(self, model: PrivateModel) -> None:
        if model.private_width != model.statistic_width:
            raise MissingCapabilityError(
                "SpikeAndSlab compares s_dp with s column by column, and here they have"
                f" {model.private_width} and {model.statistic_width} columns. Use"
                " error=MechanismError(), or PrivatePosteriorEstimation."
            )
        as_statistics(model.mechanism, np.zeros(model.private_width))

    def check_observation(self, model: PrivateModel, observed: Float[np.ndarray, " kp"]) -> None:
        as_statistics(model.mechanism, observed)

    def latent(
        self,
        model: PrivateModel,
        observed: Float[np.ndarray, " kp"],
        space: LatentSpace,
        marginal: ConditionalDensity,
    ) -> SpikeAndSlabLatent:
        coordinates = SpikeCoordinates.of(self.spike, self.slab, self.probability)
        return SpikeAndSlabLatent(
            marginal, space, as_statistics(model.mechanism, observed), coordinates
        )


class SpikeAndSlabLatent(AbstractLatent):
    r"""h(t) prod_j k((y_j - s_j(t)) / scale_j), k(x) = (1 - p) N(x; 0, spike^2) + p Cauchy(x; 0,
    slab), indicators summed out.

    A free column is t_j = y_j + scale_j g(v_j), with g of `SpikeCoordinates`. Columns that are
    combinations of others keep their k.
    """

    marginal: ConditionalDensity
    space: LatentSpace
    observed: Array
    spikes: SpikeCoordinates

    def __call__(self, v: Array) -> Array:
        t = self.statistic(v)
        rest = [j for j in range(len(self.observed)) if j not in self.space.free]
        return (
            self._log_marginal(t)
            + jnp.sum(self.spikes.log_density(v))
            + jnp.sum(self._log_each(t)[np.array(rest, int)])
        )

    def statistic(self, v: Array) -> Array:
        return self._centre + self._unit * self.spikes.from_normal(v)

    def coordinates(self, t: np.ndarray) -> np.ndarray:
        return self.spikes.to_normal((t - self._centre) / self._unit)

    def log_error(self, t: Array) -> Array:
        return jnp.sum(self._log_each(t), axis=-1)

    def log_weight(self, t: Array) -> Array:
        return jnp.zeros(t.shape[:-1])

    def slab_probability(self, t: Array) -> Array:
        """P(indicator_j = 1 | s_dp, t) (..., k), NaN for constants."""
        _, slab = self._log_parts(t)
        return jnp.where(self.space.scale > 0.0, jnp.exp(slab - self._log_each(t)), jnp.nan)

    def _log_each(self, t: Array) -> Array:
        """log k of each column (..., k); 0 for constants, whose error has no unit."""
        parts = jnp.logaddexp(*self._log_parts(t))
        return jnp.where(self.space.scale > 0.0, parts, 0.0)

    def _log_parts(self, t: Array) -> tuple[Array, Array]:
        """Logs of spike and slab for each column (..., k)."""
        unit = jnp.where(self.space.scale > 0.0, self.space.scale, 1.0)
        return log_parts((self.observed - self.space.full(t)) / unit, *self.spikes.numbers)

    @property
    def _centre(self) -> Array:
        """The observation in the free columns."""
        return self.observed[np.array(self.space.free)]

    @property
    def _unit(self) -> Array:
        """Standard deviations of the free columns."""
        return self.space.scale[np.array(self.space.free)]


def as_statistics(
    mechanism: AbstractMechanism, s_dp: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """Private statistics in the units of s: the s whose private version has this mean."""
    try:
        return mechanism.estimate(s_dp)
    except MissingCapabilityError as error:
        raise MissingCapabilityError(
            f"SpikeAndSlab is for errors added to numbers. {error} Use error=MechanismError(), or"
            " PrivatePosteriorEstimation."
        ) from None
