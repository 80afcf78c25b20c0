"""The network that learns a likelihood where the user names none."""

from __future__ import annotations

import functools
from typing import Any

import jax

from noisewise.estimators.flows import masked_autoregressive_flow, neural_spline_flow
from noisewise.estimators.members import Factory


def likelihood_flow(key: jax.Array, target_dim: int, condition_dim: int) -> Any:
    """A masked autoregressive flow of 5 affine layers, which would be normal in one dimension;
    there, a spline flow of 2 layers.
    """
    return named(likelihood_flow, target_dim)(key, target_dim, condition_dim)


def named(factory: Factory, target_dim: int) -> Factory:
    """The factory that a file can name: what `likelihood_flow` is in this dimension, and any other
    as it is.
    """
    if factory is not likelihood_flow:
        return factory
    if target_dim == 1:
        return functools.partial(neural_spline_flow, num_layers=2, num_bins=8)
    return masked_autoregressive_flow
