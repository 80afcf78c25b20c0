"""Tempered populations: shares of modes, evidence, going on, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise import errors
from noisewise._core.arrays import Array
from noisewise.samplers.tempered import tempered

KEY = jax.random.key(2)


class TwoModes(eqx.Module):
    """share N(1, narrow^2 I) + (1 - share) N(-1, wide^2 I), times exp(log_mass)."""

    share: Array
    narrow: Array
    wide: Array
    log_mass: Array

    def __call__(self, z):
        def log_normal(centre, sd):
            return -0.5 * jnp.sum(((z - centre) / sd) ** 2 + jnp.log(2.0 * jnp.pi * sd**2))

        return self.log_mass + jnp.logaddexp(
            jnp.log(self.share) + log_normal(1.0, self.narrow),
            jnp.log1p(-self.share) + log_normal(-1.0, self.wide),
        )


TARGET = TwoModes(*map(np.asarray, (0.3, 0.05, 0.1, 2.0)))


def reference(z):
    return -0.5 * jnp.sum(z**2 + jnp.log(2.0 * jnp.pi))


def drawn(seed, num=2048, **settings):
    start = np.random.default_rng(seed).normal(size=(num, 2))
    return tempered(jax.random.key(seed), TARGET, reference, start, **settings)


def test_modes_weigh_what_their_evidence_is():
    """Modes of other widths, ten standard deviations apart, which no chain leaves.

    Over 64 other seeds (100 to 163) a share has an sd of .058, its mean is .297 +- .007, and the
    log evidence has an sd of .088: the means of 16 runs have errors of .0145 and .022, of which
    four are allowed. Starts in proportion to the basins of the modes, which are even, would give
    .5.
    """
    shares, evidences = [], []
    for seed in range(16):
        found = drawn(seed)
        own = (found.draws[..., 0] > 0.0).mean(axis=(0, 2))
        shares.append(own @ found.population_weights)
        evidences.append(np.log(np.mean(np.exp(found.log_evidence))))
        assert (found.power, found.draws.shape) == (1.0, (10, 8, 256, 2))
    assert abs(np.mean(shares) - 0.3) < 0.058
    assert abs(np.mean(evidences) - 2.0) < 0.088


def test_within_a_mode_draws_have_its_moments():
    """The upper mode holds about 600 of 2,048 particles: sds are known to 1 / sqrt(2 x 600) = 3%,
    means to 4% of one; four times as much is allowed.
    """
    draws = drawn(5, num_draws=1, num_warmup=15).draws.reshape(-1, 2)
    upper = draws[draws[:, 0] > 0.0]
    assert np.all(np.abs(upper.mean(axis=0) - 1.0) < 0.16 * 0.05)
    assert np.all(np.abs(upper.std(axis=0) / 0.05 - 1.0) < 0.12)


def test_it_goes_on_where_it_was_with_the_same_law():
    found = drawn(1)
    more = tempered(
        KEY, TARGET, reference, found.draws[-1].reshape(-1, 2), num_warmup=0, tuning=found.tuning
    )
    assert (more.num_temperatures, more.power) == (0, 1.0)
    before, after = ((each.draws[..., 0] > 0.0).mean(axis=(0, 2)) for each in (found, more))
    np.testing.assert_allclose(after, before, atol=1e-12)  # no particle leaves its mode
    assert float(more.tuning.step_size) == float(found.tuning.step_size)
    assert not np.array_equal(more.draws[-1], found.draws[-1])


def test_the_same_key_gives_the_same_draws_and_nan_is_no_place_to_be():
    def half(z):
        return jnp.where(z[0] > 0.0, -0.5 * jnp.sum(z**2), jnp.nan)

    start = np.random.default_rng(0).normal(size=(512, 2))
    first, again = (tempered(KEY, half, reference, start) for _ in range(2))
    np.testing.assert_array_equal(first.draws, again.draws)
    assert (first.draws[..., 0] > 0.0).all()
    assert first.num_divergent > 0


@pytest.mark.parametrize(
    ("log_density", "settings", "message"),
    [
        (lambda z: -jnp.inf * jnp.sum(z**2), {}, "vanishes at all 32 starts"),
        (reference, {"num_populations": 5}, "multiples of 5"),
        (reference, {"num_draws": 0}, "num_draws"),
    ],
)
def test_what_cannot_be_is_refused(log_density, settings, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        tempered(KEY, log_density, reference, np.ones((32, 1)), **settings)


def test_more_starts_than_particles_know_shares_better():
    """256 particles from 8,192 starts, in place of 256: fewer temperatures, shares and evidence
    without bias. Over these seeds a share has an sd of .076 and the log evidence one of .089: four
    errors of their means are allowed. Starts taken without their weights would give shares near .5,
    and evidence that lacks the first step.
    """
    shares, evidences, temperatures = [], [], []
    for seed in range(16):
        found = drawn(seed, num=8192, num_particles=256)
        own = (found.draws[..., 0] > 0.0).mean(axis=(0, 2))
        shares.append(own @ found.population_weights)
        evidences.append(np.log(np.mean(np.exp(found.log_evidence))))
        temperatures.append(found.num_temperatures)
    assert found.draws.shape == (10, 8, 32, 2)
    assert abs(np.mean(shares) - 0.3) < 0.076
    assert abs(np.mean(evidences) - 2.0) < 0.089
    assert max(temperatures) < drawn(0, num=256).num_temperatures
