"""Simulation-based calibration: are posteriors right on average over the prior?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key, describe, number, stage_key
from noisewise._core.draws import real_array
from noisewise._core.keys import generator
from noisewise._core.user_functions import check_call
from noisewise.diagnostics.calibration import Calibration
from noisewise.diagnostics.trials import PosteriorOf, Trials, as_trials
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.model.private_model import PrivateModel

Quantity = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(theta (N, M, d), observed (N, 1, k')) -> (N, M)."""

_EDGE = 1e-12
"""Distance of ranks from 0 and 1, so that their normal scores are finite."""


def calibrate(
    key: Array,
    posterior_of: PosteriorOf | Trials,
    model: PrivateModel | None = None,
    num_trials: int | None = None,
    *,
    num_draws: int | None = None,
    quantities: Mapping[str, Quantity] | None = None,
    alpha: float = 0.05,
    executor: Executor | None = None,
    progress: bool = True,
) -> Calibration:
    r"""theta_i ~ pi, s_dp,i ~ f(. | theta_i): the rank of theta_i among L draws of p(. | s_dp,i) is
    uniform for correct posteriors.

    `posterior_of` is what `draw_trials` takes, a fit, a method, or a function (key, observed); 200
    trials are drawn by default, with 100 draws each. Or it is the trials that `draw_trials` has
    drawn, which other diagnostics may use too; then no model is needed. `quantities` maps names to
    functions f(theta, observed), which broadcast over leading axes and are ranked with the
    parameters. Pass the log likelihood where it is known: ranks of parameters cannot see data that
    were ignored, so that `posterior = prior` passes without it; `tarp` sees it for any model. The
    tests and their power are described in `Calibration`.

    Args:
        key: JAX PRNG key.
        posterior_of: What gives a posterior for each observation: a fit, a method, a function
            (key, observed), or `Trials` that `draw_trials` has drawn.
        model: The model; not needed with `Trials`.
        num_trials: Trials; 200 by default.
        num_draws: Draws of each posterior; 100 by default.
        quantities: Functions of theta (N, M, d) and observed (N, 1, k') to (N, M), by name.
        alpha: Probability that correct posteriors fail.
        executor: Where methods and functions run; None is this process.
        progress: Whether to show a progress bar.

    Returns:
        A `Calibration`; `passed` says whether no test found a fault in the posteriors.

    References: Talts et al. (2018); Sailynoja, Burkner and Vehtari (2022); Modrak et al. (2023).

    >>> import numpyro.distributions as dist, noisewise as nw
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
    ...     simulator=nw.simulators.JaxSimulator(
    ...         lambda key, theta: theta + jax.random.normal(key, (1,))
    ...     ),
    ...     query=lambda x: x,
    ...     mechanism=nw.mechanisms.Gaussian(scale=1.0),
    ... )
    >>> def right(key, observed, stretch=1.0):
    ...     noise = np.asarray(jax.random.normal(key, (100, 1)))
    ...     return observed / 3 + stretch * np.sqrt(2 / 3) * noise
    >>> def narrow(key, observed):
    ...     return right(key, observed, 0.7)
    >>> [calibrate(jax.random.key(0), each, model).passed for each in (right, narrow)]
    [True, False]
    """
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    _check_quantities(quantities)
    trial_key, tie_key = jax.random.split(stage_key(as_key(key), "calibrate"))
    trials = as_trials(
        trial_key, posterior_of, model, num_trials, num_draws, executor=executor, progress=progress
    )
    if shared := set(trials.names) & set(quantities or {}):
        raise InvalidInputError(
            "quantities must have other names than the parameters, got"
            f" {', '.join(sorted(shared))}."
        )
    columns = _columns(
        np.concatenate([trials.theta[:, None], trials.draws], axis=1),
        trials.observed,
        quantities or {},
    )
    return Calibration(
        names=(*trials.names, *(quantities or {})),
        uniforms=randomised_ranks(tie_key, columns),
        num_draws=trials.num_draws,
        num_failed=trials.num_failed,
        alpha=alpha,
        scores=trials.scores,
    )


def _check_quantities(quantities: Any) -> None:
    """Refuse quantities that are not functions of theta and observed."""
    if quantities is not None and not isinstance(quantities, Mapping):
        raise InvalidTypeError(
            f"quantities must map names to functions (theta, observed), got {describe(quantities)}."
        )
    for name, quantity in (quantities or {}).items():
        if not callable(quantity):
            raise InvalidTypeError(
                f"The quantity {name!r} must be a function (theta, observed), got"
                f" {describe(quantity)}."
            )
        check_call(quantity, f"{name}(theta, observed)", "theta", "observed")


def _columns(
    theta: np.ndarray, observed: np.ndarray, quantities: Mapping[str, Quantity]
) -> np.ndarray:
    """What is ranked (N, 1 + L, m), the truth first."""
    columns = [theta]
    for name, quantity in quantities.items():
        values = real_array(
            quantity(theta, observed[:, None, :]), f"The quantity {name!r}", advice="return numbers"
        )
        if values.shape != theta.shape[:2] or np.isnan(values).any():
            raise InvalidInputError(
                f"The quantity {name!r} must turn theta {theta.shape} and observed"
                f" {observed[:, None, :].shape} into {theta.shape[:2]} without NaN, got"
                f" {describe(values)}."
            )
        columns.append(values[..., None])
    return np.concatenate(columns, axis=-1)


def randomised_ranks(
    key: Array, columns: Float[np.ndarray, "N draws m"]
) -> Float[np.ndarray, "N m"]:
    """Where the first of values (N, 1 + L, m) lies among the others, as uniforms (N, m)."""
    truth, draws = columns[:, :1], columns[:, 1:]
    below, ties = (draws < truth).sum(axis=1), (draws == truth).sum(axis=1)
    u = generator(key).random(below.shape)
    return np.clip((below + (ties + 1) * u) / (draws.shape[1] + 1), _EDGE, 1.0 - _EDGE)
