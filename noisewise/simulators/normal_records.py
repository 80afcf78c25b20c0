"""Independent normal records with unknown mean."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp

from noisewise._core.arrays import Array, integer, number
from noisewise.simulators.record_model import AbstractRecordModel


@dataclasses.dataclass(frozen=True)
class NormalRecords(AbstractRecordModel):
    """Independent normal records with an unknown mean: the smallest model that every method can
    serve.

        x_i = theta + sd u_i,    u_i ~ N(0, 1),    i = 1..n;    theta has one column.

    `sample_parameters` draws from theta | x under theta ~ N(0, prior_variance): normal with
    precision P = n/sd^2 + 1/prior_variance and mean sum_i x_i / (sd^2 P).

    Args:
        num_records: Number n of records.
        sd: Standard deviation of a record, above 0.
        prior_variance: Variance of the prior under which `sample_parameters` draws, above 0.

    Raises:
        InvalidInputError: If a number is out of range.

    Example:
        >>> import jax, noisewise as nw
        >>> model = nw.simulators.NormalRecords(num_records=5)
        >>> model.simulate(jax.random.key(0), [[1.0], [2.0]]).shape
        (2, 5)
    """

    num_records: int
    sd: float = 1.0
    prior_variance: float = 1.0

    def __post_init__(self) -> None:
        set_field = functools.partial(object.__setattr__, self)
        set_field("num_records", integer("num_records", at_least=1)(self.num_records))
        set_field("sd", number("sd", above=0.0)(self.sd))
        set_field("prior_variance", number("prior_variance", above=0.0)(self.prior_variance))

    def record_noise(self, key: Array) -> Array:
        return jax.random.normal(key)

    def record(self, u: Array, theta: Array) -> Array:
        return theta[0] + self.sd * u

    def noise_of_record(self, key: Array, x_i: Array, theta: Array) -> Array:
        return (x_i - theta[0]) / self.sd

    def log_prob_record(self, x_i: Array, theta: Array) -> Array:
        volume = self.sd * math.sqrt(2.0 * math.pi)
        return -0.5 * ((x_i - theta[0]) / self.sd) ** 2 - math.log(volume)

    def sample_parameters(self, key: Array, records: Array, theta: Array) -> Array:
        precision = self.num_records / self.sd**2 + 1.0 / self.prior_variance
        mean = jnp.sum(records) / self.sd**2 / precision
        return mean + jax.random.normal(key, (1,)) / math.sqrt(precision)

    def log_prob_conjugate_prior(self, theta: Array) -> Array:
        return -0.5 * theta[0] ** 2 / self.prior_variance
