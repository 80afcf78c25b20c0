"""What networks see of parameters: places between two ends, where these are spread out."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import noisewise as nw
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.files import density_arrays, read_density, to_spec
from noisewise.estimators.members import ensemble
from noisewise.estimators.parameter_scale import ParameterScale, scaled_in_place
from noisewise.estimators.whitening import Affine, Whitening

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def test_a_prior_knows_which_parameters_lie_between_two_ends():
    """In the order of unconstrained coordinates: a simplex of three has two, no places."""
    prior = nw.Prior(
        {
            "shares": dist.Dirichlet(np.ones(3)),
            "mean": dist.Normal(0.0, 1.0),
            "rate": dist.Uniform(np.zeros(2), np.ones(2)),
            "spread": dist.HalfNormal(1.0),
            "odds": dist.Beta(2.0, 2.0),
        }
    )
    assert prior.bounded.tolist() == [False, False, False, True, True, False, True]


def test_places_are_seen_where_they_are_spread_out():
    """A uniform place is seen as such; one that crowds at an end, as of a rate that is uniform on a
    log scale, stays a logit, and so does what has no ends.
    """
    place = np.stack([RNG.random(5000), 10.0 ** RNG.uniform(-6.0, 0.0, 5000)], axis=1)
    z = np.concatenate([np.log(place) - np.log1p(-place), RNG.normal(size=(5000, 1))], axis=1)
    seen = z.copy()
    scale = scaled_in_place(seen, np.array([True, True, False]))
    assert isinstance(scale, ParameterScale)
    assert scale.bounded.tolist() == [True, False, False]
    np.testing.assert_allclose(scale(z), seen, atol=1e-9)
    with jax.enable_x64(True):
        np.testing.assert_allclose(scale(jnp.asarray(z)), seen, atol=1e-9)
    uniform = (place[:, 0] - place[:, 0].mean()) / place[:, 0].std()
    np.testing.assert_allclose(seen[:, 0], uniform, atol=1e-9)
    assert isinstance(scaled_in_place(z[:, 1:].copy(), np.array([True, False])), Affine)


def test_a_density_that_sees_places_survives_a_file():
    factory = nw.estimators.autoregressive_mixture
    z, target = RNG.normal(size=(200, 2)), RNG.normal(size=(200, 1))
    scale = scaled_in_place(z.copy(), np.array([False, True]))
    whitening = Whitening.fit(target, scale(z))
    density = ConditionalDensity(ensemble(KEY, factory, 2, 1, 2), scale, whitening)
    spec = to_spec(factory, 1, 2, num_members=2)
    again = read_density(spec, whitening.degree, density_arrays(density))
    np.testing.assert_array_equal(again.condition_scale.bounded, [False, True])
    np.testing.assert_array_equal(again.log_prob(target, z), density.log_prob(target, z))
