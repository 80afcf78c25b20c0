"""The catalogue of estimators: small ones of every kind, away from their symmetrical start."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noisewise.estimators.coordinate_mixtures import autoregressive_mixture
from noisewise.estimators.flows import masked_autoregressive_flow, neural_spline_flow
from noisewise.estimators.mixture_density import mixture_density_network

FACTORIES = {
    "spline coupling": functools.partial(
        neural_spline_flow, num_layers=2, num_units=16, num_bins=5
    ),
    "masked autoregressive": functools.partial(
        masked_autoregressive_flow, num_layers=2, num_units=16
    ),
    "mixture density": functools.partial(mixture_density_network, num_components=3, num_units=16),
    "autoregressive mixture": functools.partial(
        autoregressive_mixture, num_components=3, num_units=16
    ),
}
DEFAULTS = {
    "spline coupling": neural_spline_flow,
    "masked autoregressive": masked_autoregressive_flow,
    "autoregressive mixture": autoregressive_mixture,
    "mixture density": mixture_density_network,
}
CONDITION = np.array([0.4, -1.1], dtype=np.float32)


def perturbed(estimator, scale=0.2, seed=1):
    """The estimator with normal noise on every parameter."""
    rng = np.random.default_rng(seed)
    weights, rest = eqx.partition(estimator, eqx.is_inexact_array)
    moved = jax.tree.map(
        lambda leaf: leaf + jnp.asarray(scale * rng.normal(size=leaf.shape), jnp.float32), weights
    )
    return eqx.combine(moved, rest)


def example(name, target_dim=2, condition_dim=2, factories=FACTORIES, scale=0.2):
    return perturbed(factories[name](jax.random.key(0), target_dim, condition_dim), scale)
