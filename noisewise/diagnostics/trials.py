"""Trials of a method on data that it makes itself: a true parameter, an observation simulated from
it, and draws of its posterior.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Protocol, runtime_checkable

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, as_key, describe, integer, stage_key
from noisewise._core.draws import MIN_DRAWS, filled_below, real_array
from noisewise._core.row_keys import fold_in_rows
from noisewise._core.user_functions import check_call
from noisewise.diagnostics.observations import simulated_observations
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.inference.contract.base import AbstractMethod
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior

FEWEST = 20
"""Trials below which nothing can be said."""

TRIALS, DRAWS = 200, 100
"""How many are drawn unless the caller says otherwise."""

_ARRAYS = ("theta", "observed", "draws")


@runtime_checkable
class SamplesMany(Protocol):
    """An amortised posterior that serves many observations at once."""

    def sample_many(
        self, key: Array, observed: Float[np.ndarray, "N kp"], num: int
    ) -> Float[np.ndarray, "N num d"]:
        """`num` draws of theta for each row of observed (N, k'): (N, num, d)."""
        ...


@runtime_checkable
class Amortised(Protocol):
    """A fit that gives a posterior for any observation."""

    def posterior(self, observed: np.ndarray) -> AbstractPosterior:
        """The posterior given observed (k',)."""
        ...


PosteriorOf = SamplesMany | Amortised | AbstractMethod | Callable[[Array, np.ndarray], Any]


@dataclasses.dataclass(frozen=True)
class Trials:
    """N trials that several diagnostics may share: theta (N, d) from the prior, observed (N, k'),
    draws (N, L, d) given observed.

    Attributes:
        names: The parameters.
        theta: True parameters from the prior, shape (N, d).
        observed: Observations simulated from them, shape (N, k').
        draws: Draws given each observation, shape (N, L, d).
        num_failed: Trials left out because the simulated observation was NaN.
    """

    names: tuple[str, ...]
    theta: Float[np.ndarray, "N d"] = dataclasses.field(repr=False)
    observed: Float[np.ndarray, "N kp"] = dataclasses.field(repr=False)
    draws: Float[np.ndarray, "N L d"] = dataclasses.field(repr=False)
    num_failed: int

    def __post_init__(self) -> None:
        theta, observed, draws = (
            real_array(
                getattr(self, name), name, advice="Trials hold arrays, which draw_trials makes"
            )
            for name in _ARRAYS
        )
        shapes = f"theta {theta.shape}, observed {observed.shape} and draws {draws.shape}"
        fit = theta.ndim == observed.ndim == 2 and draws.ndim == 3
        if not fit or (len(theta), len(draws), draws.shape[2]) != (
            len(observed),
            len(theta),
            theta.shape[1],
        ):
            raise InvalidInputError(
                f"Trials need theta (N, d), observed (N, k') and draws (N, L, d), got {shapes}."
            )
        if len(self.names) != theta.shape[1] or len(theta) < FEWEST or draws.shape[1] < MIN_DRAWS:
            raise InvalidInputError(
                f"Trials need at least {FEWEST} trials, {MIN_DRAWS} draws in each, and one name per"
                f" parameter, got {shapes} and {len(self.names)} names."
            )
        for name, array in zip(_ARRAYS, (theta, observed, draws), strict=True):
            absent = np.isnan(array) if name == "observed" else False
            if not np.all(np.isfinite(array) | absent):
                raise InvalidInputError(
                    f"{name} must be finite, without NaN or infinity: leave such trials out."
                )
            object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        failed = f", {self.num_failed:,} left out (NaN)" if self.num_failed else ""
        return (
            f"Trials({self.num:,} trials of {', '.join(self.names)}, {self.num_draws:,} draws"
            f" each{failed})"
        )

    @functools.cached_property
    def scores(self) -> Float[np.ndarray, "N p"]:
        """Each statistic of s_dp between -1 and 1, so that no outlier spoils a regression, and its
        square: (N, 2 k').
        """
        observed = filled_below(self.observed)
        centre = np.median(observed, axis=0)
        spread = np.median(np.abs(observed - centre), axis=0)
        spread = np.where(spread > 0.0, spread, np.maximum(observed.std(axis=0), 1e-300))
        bounded = np.tanh((observed - centre) / (3.0 * spread))
        return np.concatenate([bounded, bounded**2], axis=1)

    @property
    def num(self) -> int:
        """N."""
        return len(self.theta)

    @property
    def num_draws(self) -> int:
        """L."""
        return self.draws.shape[1]


def draw_trials(
    key: Array,
    posterior_of: PosteriorOf,
    model: PrivateModel,
    num_trials: int = TRIALS,
    *,
    num_draws: int = DRAWS,
    executor: Executor | None = None,
    progress: bool = True,
) -> Trials:
    """theta_i ~ pi, s_dp,i ~ f(. | theta_i), and `num_draws` draws of the posterior given s_dp,i,
    for `num_trials` i.

    `posterior_of` is an amortised fit, with `sample_many(key, observed, num)` or else
    `posterior(observed)`; a method, whose `infer` is run for every observation; or a function (key,
    observed) that returns a posterior or at least `num_draws` draws (n, d), of which evenly spaced
    ones are taken: chains must be long enough for these to be nearly independent. Methods and
    functions run in `executor` where one is given, with the same result for any number of workers.

    Args:
        key: JAX PRNG key.
        posterior_of: What gives a posterior for each observation.
        model: The model that makes the observations.
        num_trials: Trials, 20 or more.
        num_draws: Draws of each posterior.
        executor: Where methods and functions run; None is this process.
        progress: Whether to show a progress bar.

    Returns:
        `Trials`, which `calibrate`, `coverage` and `tarp` take in place of `posterior_of`.

    Raises:
        InvalidInputError: If fewer than 20 simulated observations are finite, or draws are of
            another shape.
        MissingCapabilityError: If the mechanism cannot be sampled.
    """
    num_trials = integer("num_trials", at_least=FEWEST)(num_trials)
    num_draws = integer("num_draws", at_least=MIN_DRAWS)(num_draws)
    _check(posterior_of, model)
    theta_key, simulate_key, draw_key = jax.random.split(stage_key(as_key(key), "trials"), 3)
    theta = model.prior.sample(theta_key, num_trials)
    observed, good = simulated_observations(simulate_key, model, theta, executor)
    if good.sum() < FEWEST:
        raise InvalidInputError(
            f"Of {num_trials} simulated observations {good.sum()} are finite: at least"
            f" {FEWEST} are needed. Check the simulator with model.simulate(key,"
            " model.prior.sample(key, 100))."
        )
    theta, observed = theta[good], observed[good]
    one = _One(posterior_of, model, num_draws)
    if isinstance(posterior_of, SamplesMany):
        draws = real_array(
            posterior_of.sample_many(draw_key, observed, num_draws), "what sample_many gives"
        )
    else:
        keys = fold_in_rows(draw_key, np.arange(len(observed)))
        draws = np.stack(
            list(_shown(_each(one, keys, observed, executor), len(observed), progress))
        )
    if draws.shape != (len(observed), num_draws, model.prior.dim) or not np.isfinite(draws).all():
        raise InvalidInputError(
            f"posterior_of must give draws of shape {(len(observed), num_draws, model.prior.dim)}"
            " without NaN or infinity, got"
            f" {describe(draws)}{'' if np.isfinite(draws).all() else ' with some'}."
        )
    return Trials(model.names, theta, observed, draws, int((~good).sum()))


def as_trials(
    key: Array,
    posterior_of: Any,
    model: Any,
    num_trials: int | None,
    num_draws: int | None,
    *,
    usual_trials: int = TRIALS,
    **more: Any,
) -> Trials:
    """Trials as they are, or drawn now.

    Args:
        key: JAX PRNG key.
        posterior_of: `Trials`, or what `draw_trials` takes.
        model: The model; needed unless there are trials already.
        num_trials: Trials to draw; refused with ready trials, which have their own.
        num_draws: Draws of each posterior; likewise.
        usual_trials: Trials if `num_trials` is None.
        more: Further options of `draw_trials`.
    """
    if isinstance(posterior_of, Trials):
        if num_trials is not None or num_draws is not None:
            raise InvalidInputError(
                f"These trials are drawn already, {posterior_of.num} with {posterior_of.num_draws}"
                " draws each: leave num_trials and num_draws out, or write draw_trials(key, ...,"
                " num_trials, num_draws=...)."
            )
        return posterior_of
    if model is None:
        raise InvalidTypeError(
            "Pass the PrivateModel as third argument, after the key and"
            f" {describe(posterior_of)}: only trials from draw_trials need none."
        )
    numbers = (
        usual_trials if num_trials is None else num_trials,
        (DRAWS if num_draws is None else num_draws),
    )
    return draw_trials(key, posterior_of, model, numbers[0], num_draws=numbers[1], **more)


def _check(posterior_of: Any, model: Any) -> None:
    """Refuse what gives no posterior for each observation, and models that cannot simulate."""
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(f"The third argument must be a PrivateModel, got {describe(model)}.")
    if isinstance(posterior_of, AbstractPosterior):
        raise InvalidTypeError(
            f"A posterior ({posterior_of.report.method}) is for one observation: pass the method"
            " or the fit that made it, which serves every observation."
        )
    if isinstance(posterior_of, type):
        raise InvalidTypeError(
            f"posterior_of is the class {posterior_of.__name__}: write"
            f" {posterior_of.__name__}(...)."
        )
    known = isinstance(posterior_of, (SamplesMany, Amortised, AbstractMethod))
    if not known and not callable(posterior_of):
        raise InvalidTypeError(
            "posterior_of must be an amortised fit, with sample_many(key, observed, num) or"
            " posterior(observed), a method, or a function (key, observed) that returns a"
            f" posterior or draws; got {describe(posterior_of)}."
        )
    if isinstance(posterior_of, SamplesMany):
        check_call(
            posterior_of.sample_many, "sample_many(key, observed, num)", "key", "observed", "num"
        )
    elif not known:
        check_call(posterior_of, "posterior_of(key, observed)", "key", "observed")
    if isinstance(posterior_of, AbstractMethod):
        posterior_of.check(model)
    if Capability.SAMPLE not in model.mechanism.capabilities:
        raise MissingCapabilityError(
            f"Trials simulate releases, and {type(model.mechanism).__name__} cannot be sampled. Use"
            " certify, which only needs its density."
        )


@dataclasses.dataclass(frozen=True)
class _One:
    """The draws of one posterior."""

    posterior_of: Any
    model: PrivateModel
    num: int

    def __call__(self, key: Array, observed: np.ndarray) -> np.ndarray:
        infer_key, sample_key = jax.random.split(key)
        found = self._posterior(infer_key, observed)
        if isinstance(found, AbstractPosterior):
            return np.asarray(found.sample(sample_key, self.num))
        draws, dim = (
            real_array(found, "what posterior_of returns", advice="return a posterior or draws"),
            self.model.prior.dim,
        )
        if draws.ndim != 2 or draws.shape[1] != dim or len(draws) < self.num:
            raise InvalidInputError(
                f"posterior_of must return a posterior or at least num_draws={self.num} draws (n,"
                f" {dim}), got {describe(found)}."
            )
        return draws[np.linspace(0, len(draws) - 1, self.num).astype(int)]

    def _posterior(self, key: Array, observed: np.ndarray) -> Any:
        """The posterior, or the draws, that the method, fit or function gives."""
        given: Any = self.posterior_of
        if isinstance(given, AbstractMethod):
            return given.infer(key, self.model, observed, progress=False)
        if not hasattr(given, "posterior"):
            return given(key, observed)
        takes_key = next(iter(inspect.signature(given.posterior).parameters), "") == "key"
        return given.posterior(key, observed) if takes_key else given.posterior(observed)


def _each(
    one: _One, keys: Any, observed: np.ndarray, executor: Executor | None
) -> Iterator[np.ndarray]:
    """Draws (L, d) for each observation in turn, from this process or from the executor."""
    if executor is None:
        yield from (one(key, row) for key, row in zip(keys, observed, strict=True))
        return
    payload = cloudpickle.dumps(one)
    words = [np.asarray(jax.random.key_data(key)) for key in keys]
    yield from executor.map(_remote, [payload] * len(observed), words, list(observed))


def _remote(payload: bytes, words: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """One trial in a worker process; keys travel as their words."""
    return _loaded(payload)(jax.random.wrap_key_data(jnp.asarray(words)), observed)


@functools.lru_cache(maxsize=2)
def _loaded(payload: bytes) -> _One:
    """One object for all trials of a worker, so that what was compiled for it serves them all."""
    return cloudpickle.loads(payload)


def _shown(each: Iterator[np.ndarray], total: int, progress: bool) -> Iterator[np.ndarray]:
    """The same, with a bar on terminals."""
    if not progress:
        yield from each
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(
        each,
        "trials",
        total=total,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
