"""Models of some of the parameters: the others are drawn inside each simulation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from noisewise._core.arrays import Array
from noisewise.errors import InvalidInputError
from noisewise.model.derived import Derived
from noisewise.priors.prior import Prior
from noisewise.simulators.completed import CompletedSimulator

if TYPE_CHECKING:
    from noisewise.model.private_model import PrivateModel

_NUM_TRIED = 8
"""Draws of the prior at which derived quantities are tried: one that needs what is left out hardly
ever gives the same for all.
"""


def focused(model: PrivateModel, names: Sequence[str]) -> PrivateModel:
    """The model whose theta is `names` alone.

    Args:
        model: The model of all parameters.
        names: Names of its prior, of which none depends on one that is left out.

    Raises:
        InvalidInputError: If names are unknown or repeated, or depend on others.
    """
    sites = tuple(model.prior.distributions)
    unknown = [name for name in names if name not in sites]
    if unknown or not names or len(set(names)) < len(names):
        raise InvalidInputError(
            "model.focus takes different names of the prior, each with all its entries:"
            f" {', '.join(map(repr, sites))}; got {', '.join(map(repr, names)) or 'none'}."
        )
    if len(names) == len(sites):
        return model
    if isinstance(model.simulator, CompletedSimulator):  # rest and rest are drawn at once
        whole = model.simulator.whole
        return dataclasses.replace(focused(whole, names), mechanism=model.mechanism)
    drawn = tuple(name for name in sites if name not in names)
    complete = functools.partial(_completed, model.prior, frozenset(names))
    columns = _columns(model.prior, names)
    wide: dict[str, Derived] = {
        name: functools.partial(_at_kept, fn, columns, model.prior.dim)
        for name, fn in model.derived.items()
    }
    return dataclasses.replace(
        model,
        prior=model.prior.only(names),
        simulator=CompletedSimulator(model.simulator, complete, drawn, whole=model),
        derived=_known(wide, model.prior, columns),
    )


def _completed(prior: Prior, kept: frozenset[str], keys: Array, theta: np.ndarray) -> np.ndarray:
    """All parameters where those that are kept have the given values."""
    return np.asarray(prior.sample_rest(keys, theta, kept))


def _columns(prior: Prior, names: Sequence[str]) -> np.ndarray:
    """The columns of theta that belong to some of the names."""
    numbers = prior.as_dict(np.arange(float(prior.dim)))
    parts = [np.ravel(values) for name, values in numbers.items() if name in names]
    return np.concatenate(parts).astype(int)


def _at_kept(fn: Derived, columns: np.ndarray, dim: int, theta: np.ndarray) -> np.ndarray:
    """A derived quantity where all but some columns of theta are NaN."""
    full = np.full((*np.shape(theta)[:-1], dim), np.nan)
    full[..., columns] = theta
    return np.asarray(fn(full))


def _known(derived: dict[str, Derived], prior: Prior, columns: np.ndarray) -> dict[str, Derived]:
    """The quantities that the columns kept determine: NaN in the others does not reach them, nor do
    other draws of the prior change them.
    """
    theta, others = np.split(prior.sample(jax.random.key(0), 2 * _NUM_TRIED), 2)
    kept = others.copy()
    kept[:, columns] = theta[:, columns]
    return {
        name: fn
        for name, fn in derived.items()
        if not np.isnan(fn(theta[:, columns])).any()
        and np.array_equal(_whole(fn)(theta), _whole(fn)(kept))
    }


def _whole(fn: Derived) -> Derived:
    """The quantity of all parameters that `_at_kept` gave some of."""
    inner: Derived = fn.args[0]  # type: ignore[attr-defined]
    return inner
