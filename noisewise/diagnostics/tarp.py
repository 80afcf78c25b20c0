"""Tests of accuracy with random points: are posteriors right jointly, and do they use the data?"""

from __future__ import annotations

from concurrent.futures import Executor

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key, number, stage_key
from noisewise._core.keys import generator
from noisewise.diagnostics.calibrate import randomised_ranks
from noisewise.diagnostics.calibration import Calibration
from noisewise.diagnostics.trials import PosteriorOf, Trials, as_trials
from noisewise.model.private_model import PrivateModel

_RIDGE = 1e-3
"""Penalty of the regression per trial: enough for collinear statistics, too little to matter."""
_TRIALS = 500
"""Trials by default: more than for `calibrate`, as one column has to show everything."""


def tarp(
    key: Array,
    posterior_of: PosteriorOf | Trials,
    model: PrivateModel | None = None,
    num_trials: int | None = None,
    *,
    num_draws: int | None = None,
    alpha: float = 0.05,
    executor: Executor | None = None,
    progress: bool = True,
) -> Calibration:
    r"""The share of draws nearer to a reference point than the truth is uniform for correct
    posteriors, whatever the point:

        u_i = #{ l : |theta_il - r_i| < |theta_i - r_i| } / L,        r_i a function of s_dp,i

    The point must depend on the data, else `posterior = prior` passes. Here r_i is a linear
    regression of theta on the normal scores of s_dp, fitted to the trials of the other half, plus a
    normal draw of the size of its residuals: a point near where theta_i should be, which knows
    nothing of theta_i but s_dp,i, so that u_i is exactly uniform (and nearly independent of the
    others: the halves share trials). Distances are in standard deviations of the prior. The result
    is a `Calibration` with one column; its `gap` is the largest distance between the ECDF of u and
    the diagonal. Data that are ignored, swapped parameters and a wrong spread show; a bias moves
    draws away from the point as often as towards it: `calibrate` sees that.

    `posterior_of` is as in `calibrate`: 500 trials are drawn by default, with 100 draws each.

    Args:
        key: JAX PRNG key.
        posterior_of: What gives a posterior for each observation: a fit, a method, a function
            (key, observed), or `Trials` that `draw_trials` has drawn.
        model: The model; not needed with `Trials`.
        num_trials: Trials; 500 by default.
        num_draws: Draws of each posterior; 100 by default.
        alpha: Probability that correct posteriors fail.
        executor: Where methods and functions run; None is this process.
        progress: Whether to show a progress bar.

    Returns:
        A `Calibration` with one column.

    Reference: Lemos, Coogan, Hezaveh and Perreault-Levasseur (2023), Sampling-based accuracy
    testing of posterior estimators.

    >>> import numpyro.distributions as dist, noisewise as nw
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
    ...     simulator=nw.simulators.JaxSimulator(
    ...         lambda key, theta: theta + jax.random.normal(key, (1,))
    ...     ),
    ...     query=lambda x: x,
    ...     mechanism=nw.mechanisms.Gaussian(scale=1.0),
    ... )
    >>> def right(key, observed):
    ...     return observed / 3 + np.sqrt(2 / 3) * np.asarray(jax.random.normal(key, (100, 1)))
    >>> def prior(key, observed):
    ...     return np.asarray(jax.random.normal(key, (100, 1)))
    >>> tarp(jax.random.key(0), right, model).passed, tarp(jax.random.key(0), prior, model).passed
    (True, False)
    """
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    trial_key, point_key, tie_key = jax.random.split(stage_key(as_key(key), "tarp"), 3)
    trials = as_trials(
        trial_key,
        posterior_of,
        model,
        num_trials,
        num_draws,
        usual_trials=_TRIALS,
        executor=executor,
        progress=progress,
    )
    scale = trials.theta.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    points = _points(point_key, trials.theta / scale, trials.scores)
    values = np.concatenate([trials.theta[:, None], trials.draws], axis=1) / scale
    distances = np.linalg.norm(values - points[:, None], axis=2)
    return Calibration(
        names=("the distance",),
        quantity="distance",
        uniforms=randomised_ranks(tie_key, distances[..., None]),
        num_draws=trials.num_draws,
        num_failed=trials.num_failed,
        alpha=alpha,
        scores=trials.scores,
    )


def _points(
    key: Array, theta: Float[np.ndarray, "N d"], scores: Float[np.ndarray, "N p"]
) -> Float[np.ndarray, "N d"]:
    """Predictions of theta (N, d), those of each half by a regression on the other, spread like its
    residuals.
    """
    rng, features = generator(key), np.concatenate([np.ones((len(scores), 1)), scores], axis=1)
    half = rng.permutation(len(theta)) % 2 == 0
    points = np.empty_like(theta)
    for here in (half, ~half):
        x, y = features[~here], theta[~here]
        gram = x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1])
        coefficients = np.linalg.solve(gram, x.T @ y)
        residual = (y - x @ coefficients).std(axis=0)
        points[here] = features[here] @ coefficients + residual * rng.normal(
            size=(int(here.sum()), theta.shape[1])
        )
    return points
