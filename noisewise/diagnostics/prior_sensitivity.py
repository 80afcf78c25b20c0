"""How much does the answer depend on the prior?"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import describe, number
from noisewise._core.draws import constant_columns
from noisewise.diagnostics.posterior_checks import check_posterior
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior
from noisewise.posteriors.weighted_samples import pareto_k

SENSITIVE = 0.1
"""Where doubling the prior moves probabilities by more than this, the prior matters: a normal moves
by a quarter of an sd.
"""
NARROWER = 0.2
"""Or where it changes the log sd by more than this: a normal posterior that is its prior changes by
.35, whatever does not move.
"""


def prior_sensitivity(
    posterior: AbstractPosterior, model: PrivateModel, *, power: float = 1.25
) -> Any:
    r"""What changes where the prior pi is raised to a power a, by weights pi^(a - 1) on the draws:
    no new simulation.

    A table with one row per parameter and derived quantity: `mean` and `sd` are the slopes of mean
    / sd and log sd in log2 a, by central differences between a = 1 / `power` and `power`;
    `distance` the Kolmogorov-Smirnov distance between the two, per doubling; `sensitive` whether it
    passes .1, or `sd` .2 in size, as where the posterior is the prior. Flat priors show nothing.
    Where laws depend on other parameters, pi is the prior of those that depend on nothing: how
    effects follow from them is the model, not a belief about a number.
    The attribute `attrs["pareto k"]` is the tail of the weights: above .7 the table is not to be
    trusted, and a smaller `power` helps.

    Args:
        posterior: The posterior, with draws where the prior has a density.
        model: The model, whose prior is changed.
        power: How far the prior is raised and lowered, above 1.

    Returns:
        A `pandas.DataFrame`, as described above.

    Reference: Kallioinen, Paananen, Burkner and Vehtari (2023), Detecting and diagnosing prior and
    likelihood sensitivity with power-scaling.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(10.0)
    >>> draws = problem.reference(jax.random.key(0), 4000)
    >>> report = nw.posteriors.Report("exact")
    >>> exact = nw.posteriors.Draws(draws, problem.model.names, report)
    >>> bool(prior_sensitivity(exact, problem.model)["sensitive"].any())
    False
    """
    import pandas as pd

    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            f"prior_sensitivity needs a posterior and its PrivateModel, got {describe(posterior)}"
            f" and {describe(model)}."
        )
    check_posterior(posterior, "posterior", model)
    power = number("power", above=1.0)(power)
    kept = posterior.weights > 0.0
    base = posterior.weights[kept]
    log_prior = np.asarray(model.prior.root_log_prob(posterior.theta[kept]), dtype=np.float64)
    off = int((~np.isfinite(log_prior)).sum())
    if off:
        raise InvalidInputError(
            f"{off} of {len(log_prior)} draws lie where the prior has no density: these are not"
            " draws of a posterior under this prior."
        )
    log_weights = [(a - 1.0) * log_prior for a in (1.0 / power, power)]
    low, high = (_normalised(base, values) for values in log_weights)
    doublings = 2.0 * np.log2(power)
    columns = {**dict(zip(posterior.names, posterior.theta.T, strict=True)), **posterior.derived}
    rows = {
        name: _row(column[kept], base, low, high, doublings) for name, column in columns.items()
    }
    table = pd.DataFrame.from_dict(
        rows, orient="index", columns=["mean", "sd", "distance", "sensitive"]
    )
    table.attrs["pareto k"] = max(pareto_k(np.log(base) + values) for values in log_weights)
    return table


def _row(
    values: Float[np.ndarray, " n"],
    base: Float[np.ndarray, " n"],
    low: Float[np.ndarray, " n"],
    high: Float[np.ndarray, " n"],
    doublings: float,
) -> list[Any]:
    """One row of the table: what draws with weights `base` do under those of a weaker and a
    stronger prior.
    """
    if constant_columns(values[:, None])[0]:
        return [0.0, 0.0, 0.0, False]
    (mean_low, sd_low), (mean_high, sd_high) = (_moments(values, w) for w in (low, high))
    sd = _moments(values, base)[1]
    order = np.argsort(values)
    distance = np.abs(np.cumsum(low[order]) - np.cumsum(high[order])).max() / doublings
    shift = (mean_high - mean_low) / sd / doublings
    stretch = np.log(max(sd_high, 1e-300) / max(sd_low, 1e-300)) / doublings
    return [shift, stretch, distance, bool(distance > SENSITIVE or abs(stretch) > NARROWER)]


def _normalised(base: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """Weights (n,) that sum to 1, from others and log factors."""
    weights = base * np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def _moments(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Mean and sd of values (n,) under weights (n,)."""
    mean = float(weights @ values)
    return mean, max(float(weights @ (values - mean) ** 2), 0.0) ** 0.5
