"""Planted bugs break the laws of mechanisms."""

import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.mechanisms import (
    Clamped,
    DiscreteLaplace,
    Exact,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    Rounded,
    Thresholded,
    TransitionTable,
)
from tests.mechanisms import laws
from tests.mechanisms.laws import POINTS


class WideLaplace(Laplace):
    def _noise(self, u):
        return 1.02 * Laplace._noise(self, u)


class NarrowGaussian(Gaussian):
    def _noise(self, u):
        return Gaussian._noise(self, u) / 1.02


class WideDiscreteLaplace(DiscreteLaplace):
    def _quantile(self, u):
        return DiscreteLaplace(scale=1.02 * self.scale, step=self.step)._quantile(u)


class FlippedLaplace(Laplace):
    def _transport(self, u, s):
        return self._noise(u) - s


class FlippedUtilities(ExponentialMechanism):
    def _transport(self, u, s):
        return ExponentialMechanism._transport(self, u, -s)


class ForgetsEndMass(Clamped):
    def _log_prob_each(self, s_dp, s):
        return self.mechanism._log_prob_each(s_dp, s)


class DoesNotClip(Clamped):
    def _transport(self, u, s):
        return self.mechanism._transport(u, s)


class ForgetsTheScale(Laplace):
    def _noise_log_prob(self, z):
        return -jnp.abs(z) / self.scale


class OneUniform(Laplace):
    def _transport(self, u, s):
        return s + self._noise(u[..., :1])


class ForgetsOtherColumns(Laplace):
    """The constant of one column, however many there are."""

    def _log_prob(self, s_dp, s):
        return (-jnp.abs(s_dp - s) / self.scale).sum(-1) - jnp.log(2.0 * self.scale)


class WrongCdf(Laplace):
    def _noise_log_cdf(self, z):
        return Laplace._noise_log_cdf(self, z / 1.02)


class OneScale(Laplace):
    """Takes the first scale for all columns."""

    def _noise(self, u):
        return Laplace(scale=self.scale[0])._noise(u)


class ThresholdOnTheTruth(Thresholded):
    """Looks at s where it should look at the noisy number."""

    def _transport(self, u, s):
        return jnp.where(s >= self.above, self.mechanism._transport(u, s), jnp.nan)


class StrictThreshold(Thresholded):
    """Publishes only what is above the threshold: on a lattice that is another outcome."""

    def _transport(self, u, s):
        y = self.mechanism._transport(u, s)
        return jnp.where(y > self.above, y, jnp.nan)


class AbsentAtTheThreshold(Thresholded):
    """Counts the threshold itself as absent."""

    def _log_absent(self, s_dp, s):
        return self.mechanism._log_cdf(jnp.broadcast_to(self.above, s_dp.shape), s)


class ForgetsAbsence(Thresholded):
    """The law of published numbers, as if all were."""

    def _log_absent(self, s_dp, s):
        return jnp.full_like(s_dp, -jnp.inf)


class NearlyExact(Exact):
    def _transport(self, u, s):
        return s + (u > 0.999)


class FavoursTheUpper(Rounded):
    def _transport(self, u, s):
        return Rounded._transport(self, 1.02 * u, s)


class TiesDown(Rounded):
    def _transport(self, u, s):
        return self.base * jnp.ceil(s / self.base - 0.5) + 0.0 * u


class ReadsColumns(TransitionTable):
    """Takes columns of the table for rows."""

    def _log_prob_each(self, s_dp, s):
        return jnp.log(self.table[s_dp.astype(int), s.astype(int)])


THRESHOLDED_PARTS = DiscreteLaplace(scale=3.0), 4.0
TABLE = ((0.6, 0.4), (0.1, 0.9))

BUGS = {
    "scale of the first column for all": (OneScale([0.5, 0.6]), [0.3, 1.0], "transport"),
    "threshold applied to s": (ThresholdOnTheTruth(Laplace(2.0), above=1.0), 1.2, "transport"),
    "threshold taken as strict": (StrictThreshold(*THRESHOLDED_PARTS), 5.0, "transport"),
    "threshold counted as absent": (AbsentAtTheThreshold(*THRESHOLDED_PARTS), 5.0, "mass"),
    "absence forgotten": (ForgetsAbsence(Laplace(2.0), above=1.0), 1.2, "mass"),
    "one exact number in 1000 moved": (NearlyExact(), 7.0, "transport"),
    "rounded up too often": (FavoursTheUpper(base=3), 4.0, "transport"),
    "ties rounded down": (TiesDown(base=10, random=False), 15.0, "transport"),
    "columns taken for rows": (ReadsColumns(TABLE), 0.0, "transport"),
    "scale of Laplace off by 2%": (WideLaplace(scale=0.5), 0.3, "transport"),
    "scale of Gaussian off by 2%": (NarrowGaussian(scale=0.5), 0.3, "transport"),
    "scale of DiscreteLaplace off by 2%": (WideDiscreteLaplace(scale=1.7), 5.0, "transport"),
    "sign of s flipped": (FlippedLaplace(scale=0.5), 0.3, "transport"),
    "sign of utilities flipped": (FlippedUtilities((3.0, -1.0), 0.5), [0.0, 0.3], "transport"),
    "end mass forgotten": (ForgetsEndMass(Laplace(scale=2.0), low=0.0, high=4.0), 1.2, "transport"),
    "end mass forgotten, sum": (ForgetsEndMass(Laplace(scale=2.0), low=0.0, high=4.0), 1.2, "mass"),
    "end mass forgotten, cdf": (ForgetsEndMass(Laplace(scale=2.0), low=0.0, high=4.0), 1.2, "cdf"),
    "one uniform for all columns": (OneUniform(scale=0.5), [0.3, -1.0], "transport"),
    "output not clipped": (DoesNotClip(Laplace(scale=2.0), low=0.0, high=4.0), 1.2, "transport"),
    "normaliser forgotten": (ForgetsTheScale(scale=0.6), 0.3, "mass"),
    "cdf of another scale": (WrongCdf(scale=0.5), 0.3, "cdf"),
}


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("bug", [name for name, (_, _, law) in BUGS.items() if law == "transport"])
def test_planted_bugs_break_the_law_of_transport(bug, points):
    mechanism, s, _ = BUGS[bug]
    with pytest.raises(AssertionError):
        laws.transport_has_law_of_log_prob(mechanism, np.atleast_1d(s), POINTS[points])


@pytest.mark.parametrize("bug", [name for name, (_, _, law) in BUGS.items() if law != "transport"])
def test_planted_bugs_break_mass_or_cdf(bug):
    mechanism, s, law = BUGS[bug]
    check = laws.density_has_mass_one if law == "mass" else laws.cdf_is_the_sum_of_the_density
    with pytest.raises(AssertionError):
        check(mechanism, np.atleast_1d(s))


def test_a_normaliser_of_the_wrong_power_breaks_the_sum_over_columns():
    s_dp, s = np.random.default_rng(5).normal(size=(2, laws.ROWS, 3))
    laws.log_prob_adds_up_over_columns(Laplace(scale=0.6), s_dp, s)
    laws.density_has_mass_one(ForgetsOtherColumns(scale=0.6), np.array([0.3]))
    with pytest.raises(AssertionError):
        laws.log_prob_adds_up_over_columns(ForgetsOtherColumns(scale=0.6), s_dp, s)
