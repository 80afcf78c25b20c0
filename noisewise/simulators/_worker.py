"""What runs in a worker process: a batch of simulations by a plain Python function. Imports next to nothing."""

from __future__ import annotations

import collections
import dataclasses
import traceback
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

_REMEMBERED = 8
_loaded: collections.OrderedDict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = collections.OrderedDict()


@dataclasses.dataclass(frozen=True)
class Failure:
    """What went wrong in a simulation. `error` is kept where it need not travel."""

    reason: str
    trace: str
    error: BaseException | None = None


class BadStatisticError(Exception):
    """The query did not return one vector of real numbers."""


Outcome = Any
"""A statistic (k,), a database, or a `Failure`."""


def run_batch(
    fn: Callable[..., Any], query: Callable[..., Any] | None, words: np.ndarray, indices: np.ndarray, theta: np.ndarray
) -> list[Outcome]:
    """One simulation per row of words (B, w), indices (B,) and theta. Never raises on account of one of them."""
    return [_run_one(fn, query, *row) for row in zip(words, indices, theta, strict=True)]


def run_pickled_batch(
    payload: bytes, digest: str, words: np.ndarray, indices: np.ndarray, theta: np.ndarray
) -> list[Outcome]:
    """The same with (fn, query) as cloudpickle wrote them, unpickled once per process."""
    if digest not in _loaded:
        _loaded[digest] = cloudpickle.loads(payload)
        while len(_loaded) > _REMEMBERED:
            _loaded.popitem(last=False)
    fn, query = _loaded[digest]
    outcomes = run_batch(fn, query, words, indices, theta)
    return [dataclasses.replace(item, error=None) if isinstance(item, Failure) else item for item in outcomes]


def generator(words: np.ndarray, index: int) -> np.random.Generator:
    """The generator of simulation `index` under the key with these words."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words.tolist(), spawn_key=(int(index),))))


def _run_one(
    fn: Callable[..., Any],
    query: Callable[..., Any] | None,
    words: np.ndarray,
    index: int,
    theta: np.ndarray,
) -> Outcome:
    try:
        x = fn(generator(words, index), theta.copy())
        return x if query is None else _vector(query(x))
    except (Exception, SystemExit) as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc(), error)


def _vector(s: Any) -> np.ndarray:
    try:
        array = np.asarray(s)
        numeric = array.dtype.kind in "fiub"
    except ValueError:
        numeric = False
    if not numeric:
        raise BadStatisticError(f"the query must return one array of real numbers, got {type(s).__name__}")
    if array.ndim > 1 or array.size == 0:
        raise BadStatisticError(f"the query must return a statistic of shape (k,), got {array.shape}")
    return np.atleast_1d(array).astype(np.float64)
