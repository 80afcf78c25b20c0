"""The shares of a numpyro program's effects, for numpyro's own samplers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._core.arrays import Array, as_key
from noisewise.errors import InvalidInputError
from noisewise.samplers.hierarchies.centring import LocationScale
from noisewise.samplers.hierarchies.no_u_turn import NutsState, nuts

_NUM_CHAINS = 2
"""Chains of the warm-up that finds the shares."""
_NUM_WARMUP = 200
"""Its iterations: shares need only rough means and spreads."""
_SHAPES = {"Normal": (), "Cauchy": (), "Laplace": (), "Gumbel": (), "StudentT": ("df",)}
"""Families on the whole line that have `loc` and `scale`, with their other parameters."""


def loc_scale_shares(
    key: Array, model: Callable[..., Any], *args: Any, **kwargs: Any
) -> dict[str, np.ndarray]:
    r"""How far each effect of a numpyro program is best centred, for `LocScaleReparam`.

        c_j = I_j / (I_j + 1 / tau_j^2)

    with the information I_j that the data have of effect j, found by a short warm-up (`nuts`).
    Sites are those whose law is Normal, StudentT, Cauchy, Laplace or Gumbel, alone or in plates,
    expanded or as an event, with a loc or scale that depends on other sites. A LogNormal is none:
    write its logarithm as a site.

    Args:
        key: JAX PRNG key.
        model: The numpyro program, with continuous latent sites.
        args: What it is called with.
        kwargs: By name.

    Returns:
        For each such site its shares, in the shape of its value: `LocScaleReparam(centered=share)`,
        with `shape_params=["df"]` for StudentT.

    Raises:
        InvalidInputError: If no site has such a law.

    >>> import numpyro, numpyro.distributions as dist
    >>> def model(y, sd):
    ...     mu = numpyro.sample("mu", dist.Normal(0, 5))
    ...     tau = numpyro.sample("tau", dist.HalfNormal(1))
    ...     with numpyro.plate("groups", len(y)):
    ...         e = numpyro.sample("e", dist.Normal(mu, tau))
    ...         numpyro.sample("y", dist.Normal(e, sd), obs=y)
    >>> y, sd = np.linspace(-2.0, 2.0, 6), np.array([0.01, 0.01, 0.01, 20.0, 20.0, 20.0])
    >>> shares = loc_scale_shares(jax.random.key(0), model, y, sd)
    >>> shares["e"].round(1).tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    >>> from numpyro.infer.reparam import LocScaleReparam
    >>> config = {name: LocScaleReparam(centered=share) for name, share in shares.items()}
    >>> reparametrised = numpyro.handlers.reparam(model, config=config)
    """
    with jax.enable_x64(True):
        return _found(as_key(key), model, args, kwargs)


def _found(key: Array, model: Any, args: Any, kwargs: Any) -> dict[str, np.ndarray]:
    from numpyro import handlers
    from numpyro.infer.util import constrain_fn, initialize_model

    init_key, key = jax.random.split(key)
    info = initialize_model(
        jax.random.split(init_key, _NUM_CHAINS), model, model_args=args, model_kwargs=kwargs
    )
    starts = {name: np.asarray(value) for name, value in info.param_info.z.items()}
    columns, first = {}, 0
    for name, value in starts.items():
        columns[name] = range(first, first + value[0].size)
        first += value[0].size

    def apart(z: Array) -> dict[str, Array]:
        """The unconstrained value of each site."""
        return {
            name: z[span.start : span.stop].reshape(starts[name].shape[1:])
            for name, span in columns.items()
        }

    def law_of(name: str) -> Callable[[Array], tuple[Array, Array]]:
        def law(z: Array) -> tuple[Array, Array]:
            values = constrain_fn(model, args, kwargs, apart(z))
            program = handlers.substitute(handlers.seed(model, 0), values)
            fn = handlers.trace(program).get_trace(*args, **kwargs)[name]["fn"]
            base, shape = unwrapped(fn), fn.shape()
            both = (jnp.broadcast_to(value, shape) for value in (base.loc, base.scale))
            loc, scale = (value.reshape(-1) for value in both)
            return loc, scale

        return law

    points = np.concatenate([v.reshape(len(v), -1) for v in starts.values()], axis=1)
    blocks = {}
    for name, site in info.model_trace.items():
        if name not in columns or type(unwrapped(site["fn"])).__name__ not in _SHAPES:
            continue
        law = law_of(name)
        here, there = (law(jnp.asarray(point)) for point in points[:2])
        if not all(np.allclose(a, b) for a, b in zip(here, there, strict=True)):
            blocks[name] = LocationScale(
                tuple(columns[name]), law, log_density=standardised(unwrapped(site["fn"]))
            )
    if not blocks:
        raise InvalidInputError(
            "The program has no latent site with a Normal, StudentT, Cauchy, Laplace or Gumbel law"
            " whose loc or scale depends on other sites: there is nothing to move."
        )

    def log_density(z: Array) -> Array:
        return -info.potential_fn(apart(z))

    run = nuts(
        key,
        log_density,
        points,
        blocks=list(blocks.values()),
        num_warmup=_NUM_WARMUP,
        num_draws=1,
    )
    state = cast(NutsState, run.state)
    return {
        name: np.asarray(share).reshape(starts[name].shape[1:])
        for name, share in zip(blocks, state.shares, strict=True)
    }


def unwrapped(fn: Any) -> Any:
    """The law of single numbers below expansions and events."""
    import numpyro.distributions as dist

    while isinstance(fn, (dist.Independent, dist.ExpandedDistribution)):
        fn = fn.base_dist
    return fn


def standardised(base: Any) -> Callable[[Array], Array]:
    """The log density of (x - loc) / scale, elementwise, of a law with `loc` and `scale`."""
    shapes = {name: getattr(base, name) for name in _SHAPES[type(base).__name__]}
    return type(base)(loc=0.0, scale=1.0, **shapes).log_prob
