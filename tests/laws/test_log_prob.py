"""The law of what is released against sums term by term, its derivatives against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.laws import counts
from noisewise.laws.windows import Window
from noisewise.mechanisms import Clamped, DiscreteGaussian, DiscreteLaplace, RandomizedResponse
from tests.laws.catalogue import Group, array
from tests.laws.further import EVERYTHING as GROUPS

FAST = [name for name, group in GROUPS.items() if not group.slow]
SLOW = [name for name, group in GROUPS.items() if group.slow]
CASES = [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
LONG = "wide negative binomial, discrete Laplace"
"""Its sums of 1e7 terms take a minute per difference."""
SMOOTH = [name for name in GROUPS if GROUPS[name].parameters and name != LONG]


def errors(group: Group, mechanism=None):
    """Errors relative to the larger of 1 and |log p|."""
    exact = group.references().astype(float)
    with jax.enable_x64(True):  # numpyro's laws compute when they are made
        law = nw.Privatized(group.law(*group.parameters), mechanism or group.mechanism)
        found = np.asarray(law.log_prob(group.y))
    return np.abs(found - exact) / np.maximum(1.0, np.abs(exact))


def test_there_are_enough_cases():
    assert sum(group.num_cells for group in GROUPS.values()) >= 60


@pytest.mark.parametrize("name", CASES)
def test_log_probabilities(name):
    assert errors(GROUPS[name]).max() <= GROUPS[name].tolerance


def test_the_flag_is_not_needed(x64_flag):
    """Parameters that float32 holds, and the result in JAX's own precision, under jit and vmap."""
    group = GROUPS["Poisson, discrete Laplace"]
    rates = group.parameters[0].astype(np.float32)

    def log_prob(rate):
        return nw.Privatized(dist.Poisson(rate), group.mechanism).log_prob(group.y)

    both = jax.jit(jax.vmap(log_prob))(jnp.stack([rates, 2.0 * rates]))
    assert both.dtype == (jnp.float64 if x64_flag else jnp.float32)
    exact = np.array(
        [
            [group.sum_of(j, parameters=(factor * rates,)).log_prob() for j in range(6)]
            for factor in (1, 2)
        ]
    ).astype(float)
    # float32 has a relative error of 6e-8
    tolerance = 1e-9 if x64_flag else 1e-7
    assert np.abs(both / exact - 1.0).max() <= tolerance


# Derivatives --------------------------------------------------------------------------------------

STEP = 1e-3
"""Of a parameter's own scale: differences of fourth order are off by 1e-12 of it."""


def own_scale(name, place, group):
    """A change of each parameter that changes log probabilities by about 1."""
    parameter = group.parameters[place]
    if group.spread:
        return group.spread[place]
    if "Poisson" in name:
        return np.sqrt(parameter)
    return 0.1 * np.abs(parameter) / np.maximum(1.0, np.sqrt(np.abs(group.near)))


def differences(name, group, places):
    """d log p / d parameter of each cell, by differences of the reference."""
    found = []
    for place in places:
        wide = STEP * own_scale(name, place, group)
        step = 2.0 ** np.floor(np.log2(wide))  # so that parameters plus steps are not rounded
        values = {}
        for k in (-2, -1, 1, 2):
            moved = [
                part + (k * step if i == place else 0.0) for i, part in enumerate(group.parameters)
            ]
            sums = [group.sum_of(j, parameters=moved).log_prob() for j in range(group.num_cells)]
            values[k] = np.array(sums)
        slope = (8.0 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12.0 * step)
        found.append(slope.astype(float))
    return found


WHOLE = {
    "binomial, discrete Gaussian": (0,),
    "binomial of logits, discrete Laplace": (0,),
    "beta-binomial, discrete Gaussian": (2,),
    "beta-binomial, discrete Laplace": (2,),
    "binomial, discrete Laplace": (0,),
    "binomial, Gaussian": (0,),
}
"""Parameters that are whole numbers."""


@pytest.mark.parametrize(
    "name",
    [
        name if name == "Poisson, discrete Laplace" else pytest.param(name, marks=pytest.mark.slow)
        for name in SMOOTH
    ],
)
def test_derivatives(name):
    group = GROUPS[name]
    with jax.enable_x64(True):

        def total(*parameters):
            return nw.Privatized(group.law(*parameters), group.mechanism).log_prob(group.y).sum()

        parts = tuple(map(jnp.asarray, group.parameters))
        wanted = [i for i in range(len(parts)) if i not in WHOLE.get(name, ())]
        slopes = jax.grad(total, argnums=wanted)(*parts)
    exact = differences(name, group, wanted)
    for slope, other, place in zip(slopes, exact, wanted, strict=True):
        scale = own_scale(name, place, group)
        error = np.abs(np.asarray(slope) - other) * scale
        assert error.max() <= 1e-8 * max(1.0, np.abs(other * scale).max())


# Planted bugs -------------------------------------------------------------------------------------


def test_a_window_that_is_one_short_is_caught(monkeypatch):
    class Own(RandomizedResponse):
        pass

    window = counts.CountSum._window

    def short(self):
        low, high = window(self)
        return Window(low, high - 1.0)

    monkeypatch.setattr(counts.CountSum, "_window", short)
    mechanism = Own(num_categories=4, truth_probability=0.7)
    assert errors(GROUPS["categories, randomised response"], mechanism).max() > 0.01


class Unnormalised(DiscreteLaplace):
    def _log_mass(self, n):
        return -jnp.abs(n) / self.scale


class Shifted(DiscreteGaussian):
    def _log_mass(self, n):
        return super()._log_mass(n + 1.0)


class ForgetsEndMass(Clamped):
    def _log_prob_each(self, s_dp, s):
        return self.mechanism._log_prob_each(s_dp, s)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("Poisson, discrete Laplace", lambda good: Unnormalised(scale=good.scale)),
        ("Poisson, discrete Gaussian", lambda good: Shifted(scale=good.scale)),
        (
            "Poisson, clamped discrete Laplace",
            lambda good: ForgetsEndMass(good.mechanism, low=0.0, high=90.0),
        ),
    ],
    ids=["normalisation", "shifted lattice", "end mass"],
)
def test_planted_bugs_are_caught(name, broken):
    assert errors(GROUPS[name], broken(GROUPS[name].mechanism)).max() > 1e-3


# What has no route --------------------------------------------------------------------------------


def test_noise_in_larger_steps_than_counts_is_refused():
    with pytest.raises(ValueError, match="divide counts and released numbers by the step"):
        nw.Privatized(dist.Poisson(array(4.0)), DiscreteLaplace(scale=2.0, step=5.0))


def test_laws_without_a_route_are_refused():
    noise = nw.mechanisms.EuclideanLaplace(scale=1.0)
    with pytest.raises(nw.errors.MissingCapabilityError, match="No sum or integral is known"):
        nw.Privatized(dist.Poisson(array(1.0, 2.0)), noise)
