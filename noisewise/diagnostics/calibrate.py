"""Simulation-based calibration: are posteriors right on average over the prior?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from noisewise._arrays import Array, as_key, describe, fold_in_rows, integer, number
from noisewise.diagnostics.calibration import Calibration
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.mechanisms.base import Capability
from noisewise.posteriors import AbstractPosterior
from noisewise.private_model import PrivateModel
from noisewise.samplers._seeds import generator

Quantity = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(theta (N, M, d), observed (N, 1, k')) -> (N, M)."""

_EDGE = 1e-12
_FEW = 20


@runtime_checkable
class SamplesMany(Protocol):
    """An amortised posterior that serves many observations at once."""

    def sample_many(self, key: Array, observed: np.ndarray, num: int) -> np.ndarray:
        """`num` draws of theta for each row of observed (N, k'): (N, num, d)."""
        ...


@runtime_checkable
class Amortised(Protocol):
    """A fit that gives a posterior for any observation."""

    def posterior(self, observed: np.ndarray) -> AbstractPosterior:
        """The posterior given observed (k',)."""
        ...


def calibrate(
    key: Array,
    posterior_of: SamplesMany | Amortised | Callable[[Array, np.ndarray], Any],
    model: PrivateModel,
    num_trials: int = 200,
    *,
    num_draws: int = 100,
    quantities: Mapping[str, Quantity] | None = None,
    alpha: float = 0.05,
    executor: Executor | None = None,
) -> Calibration:
    r"""theta_i ~ pi, s_dp,i ~ f(. | theta_i): the rank of theta_i among L draws of p(. | s_dp,i) is uniform for correct posteriors.

    `posterior_of` is an amortised fit, with `sample_many(key, observed, num)` or else `posterior(observed)`, or a function (key,
    observed) that returns a posterior or at least `num_draws` draws (n, d), of which evenly spaced ones are taken: chains must be long
    enough for these to be nearly independent. `quantities` maps names to functions f(theta, observed), which broadcast over leading axes
    and are ranked beside the parameters. Pass the log likelihood where it is known: ranks of parameters cannot see data that were
    ignored, so that `posterior = prior` passes without it. The tests and their power are described in `Calibration`.

    References: Talts et al. (2018); Sailynoja, Burkner and Vehtari (2022); Modrak et al. (2023).

    >>> import numpyro.distributions as dist, noisewise as nw
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"a": dist.Normal(0.0, 1.0)}),
    ...     simulator=nw.simulators.JaxSimulator(lambda key, theta: theta + jax.random.normal(key, (1,))),
    ...     query=lambda x: x,
    ...     mechanism=nw.mechanisms.Gaussian(scale=1.0),
    ... )
    >>> def right(key, observed, stretch=1.0):
    ...     return observed / 3 + stretch * np.sqrt(2 / 3) * np.asarray(jax.random.normal(key, (100, 1)))
    >>> def narrow(key, observed):
    ...     return right(key, observed, 0.7)
    >>> calibrate(jax.random.key(0), right, model).passed, calibrate(jax.random.key(0), narrow, model).passed
    (True, False)
    """
    num_trials = integer("num_trials", at_least=_FEW)(num_trials)
    num_draws = integer("num_draws", at_least=10)(num_draws)
    alpha = number("alpha", above=0.0, below=1.0)(alpha)
    _check(posterior_of, model)
    theta_key, simulate_key, draw_key, tie_key = jax.random.split(as_key(key), 4)
    theta = model.prior.sample(theta_key, num_trials)
    observed = model.simulate(simulate_key, theta, executor=executor)
    good = np.isfinite(observed).all(axis=1)
    if good.sum() < _FEW:
        raise InvalidInputError(
            f"Of {num_trials} simulated observations {good.sum()} are finite: {_FEW} are the least. Check the simulator with "
            "model.simulate(key, model.prior.sample(key, 100))."
        )
    theta, observed = theta[good], observed[good]
    draws = _draws(draw_key, posterior_of, observed, num_draws, model.prior.dim)
    columns = _columns(np.concatenate([theta[:, None], draws], axis=1), observed, quantities or {})
    return Calibration(
        names=(*model.names, *(quantities or {})),
        uniforms=_randomised_ranks(tie_key, columns),
        num_draws=num_draws,
        num_failed=int((~good).sum()),
        alpha=alpha,
    )


def _check(posterior_of: Any, model: Any) -> None:
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            f"calibrate(key, posterior_of, model) needs a PrivateModel third, got {describe(model)}."
        )
    if not isinstance(posterior_of, (SamplesMany, Amortised)) and not callable(posterior_of):
        raise InvalidTypeError(
            "posterior_of must be an amortised fit, with sample_many(key, observed, num) or posterior(observed), or a function "
            f"(key, observed) that returns a posterior or draws; got {describe(posterior_of)}."
        )
    if Capability.SAMPLE not in model.mechanism.capabilities:
        raise MissingCapabilityError(
            f"calibrate simulates releases, and {type(model.mechanism).__name__} cannot be sampled. Use certify, which only needs "
            "its density."
        )


def _draws(key: Array, posterior_of: Any, observed: np.ndarray, num: int, dim: int) -> np.ndarray:
    """Draws (N, num, d), one posterior per row of observed (N, k')."""
    if isinstance(posterior_of, SamplesMany):
        draws = np.asarray(posterior_of.sample_many(key, observed, num), dtype=np.float64)
    else:
        keys = fold_in_rows(key, np.arange(len(observed)))
        draws = np.stack([_one(k, posterior_of, row, num, dim) for k, row in zip(keys, observed, strict=True)])
    if draws.shape != (len(observed), num, dim) or np.isnan(draws).any():
        raise InvalidInputError(
            f"posterior_of must give draws of shape {(len(observed), num, dim)} without NaN, got {describe(draws)}."
        )
    return draws


def _one(key: Array, posterior_of: Any, observed: np.ndarray, num: int, dim: int) -> np.ndarray:
    infer_key, sample_key = jax.random.split(key)
    found = (
        _posterior_of_fit(infer_key, posterior_of, observed)
        if isinstance(posterior_of, Amortised)
        else posterior_of(infer_key, observed)
    )
    if isinstance(found, AbstractPosterior):
        return np.asarray(found.sample(sample_key, num))
    draws = np.asarray(found, dtype=np.float64)
    if draws.ndim != 2 or draws.shape[1] != dim or len(draws) < num:
        raise InvalidInputError(
            f"posterior_of must return a posterior or at least num_draws={num} draws (n, {dim}), got {describe(found)}."
        )
    return draws[np.linspace(0, len(draws) - 1, num).astype(int)]


def _posterior_of_fit(key: Array, fit: Any, observed: np.ndarray) -> Any:
    """fit.posterior(observed), or fit.posterior(key, observed) where posteriors are drawn by chains."""
    takes_key = next(iter(inspect.signature(fit.posterior).parameters), "") == "key"
    return fit.posterior(key, observed) if takes_key else fit.posterior(observed)


def _columns(theta: np.ndarray, observed: np.ndarray, quantities: Mapping[str, Quantity]) -> np.ndarray:
    """What is ranked (N, 1 + L, m), the truth first."""
    columns = [theta]
    for name, quantity in quantities.items():
        values = np.asarray(quantity(theta, observed[:, None, :]), dtype=np.float64)
        if values.shape != theta.shape[:2] or np.isnan(values).any():
            raise InvalidInputError(
                f"The quantity {name!r} must turn theta {theta.shape} and observed {observed[:, None, :].shape} into "
                f"{theta.shape[:2]} without NaN, got {describe(values)}."
            )
        columns.append(values[..., None])
    return np.concatenate(columns, axis=-1)


def _randomised_ranks(key: Array, columns: np.ndarray) -> np.ndarray:
    truth, draws = columns[:, :1], columns[:, 1:]
    below, ties = (draws < truth).sum(axis=1), (draws == truth).sum(axis=1)
    u = generator(key).random(below.shape)
    return np.clip((below + (ties + 1) * u) / (draws.shape[1] + 1), _EDGE, 1.0 - _EDGE)
