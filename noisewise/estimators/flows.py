"""Normalising flows q(target | condition), as thin factories over flowjax."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import StandardNormal
from flowjax.flows import coupling_flow
from flowjax.flows import masked_autoregressive_flow as affine_flow

from noisewise._arrays import Array, as_key, integer, number


def neural_spline_flow(
    key: Array,
    target_dim: int,
    condition_dim: int | None,
    *,
    num_layers: int = 8,
    num_units: int = 50,
    num_hidden: int = 2,
    num_bins: int = 10,
    bound: float = 5.0,
) -> Any:
    """Coupling flow of rational-quadratic splines on [-bound, bound], the identity outside."""
    knots = integer("num_bins", at_least=2)(num_bins) - 1
    bound = number("bound", above=0.0)(bound)
    with jax.enable_x64(False):
        return _start_at_identity(
            coupling_flow(
                as_key(key),
                base_dist=StandardNormal((integer("target_dim", at_least=1)(target_dim),)),
                transformer=RationalQuadraticSpline(knots=knots, interval=bound),
                cond_dim=condition_dim,
                flow_layers=num_layers,
                nn_width=num_units,
                nn_depth=num_hidden,
            )
        )


def masked_autoregressive_flow(
    key: Array,
    target_dim: int,
    condition_dim: int | None,
    *,
    num_layers: int = 5,
    num_units: int = 50,
    num_hidden: int = 2,
) -> Any:
    """Masked autoregressive flow of affine steps."""
    with jax.enable_x64(False):
        return _start_at_identity(
            affine_flow(
                as_key(key),
                base_dist=StandardNormal((integer("target_dim", at_least=1)(target_dim),)),
                cond_dim=condition_dim,
                flow_layers=num_layers,
                nn_width=num_units,
                nn_depth=num_hidden,
            )
        )


def _start_at_identity(flow: Any) -> Any:
    """Zero the last layer of every conditioner."""

    def zeroed(node: Any) -> Any:
        if not isinstance(node, eqx.nn.MLP):
            return node
        last = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_inexact_array(leaf) else leaf, node.layers[-1])
        return eqx.tree_at(lambda mlp: mlp.layers[-1], node, last)

    return jax.tree.map(zeroed, flow, is_leaf=lambda node: isinstance(node, eqx.nn.MLP))
