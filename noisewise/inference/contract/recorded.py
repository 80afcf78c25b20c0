"""Inference with a run directory: what identifies a run, and what happens if it was begun
before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array, sum_by_place
from noisewise._core.row_keys import key_words
from noisewise._core.specs import described
from noisewise.errors import FileFormatError, NoisewiseError
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, load_posterior
from noisewise.priors.identity import fixed_points
from noisewise.runs import Journal, RunDirectory, run_directory
from noisewise.simulators import StatisticLaw

T = TypeVar("T")

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def recorded(
    run_dir: str | os.PathLike[str],
    identity: dict[str, Any],
    infer: Callable[[Journal], AbstractPosterior],
) -> AbstractPosterior:
    """Run an inference in a run directory.

    Args:
        run_dir: The folder.
        identity: What identifies the run, as `identity_of` makes it; a folder with another is
            refused.
        infer: Infers with the journal of the run.

    Returns:
        The stored posterior if the run is finished, else what `infer` returns, which is stored.
    """
    with run_directory(run_dir, identity) as run:
        posterior = _stored(run)
        if posterior is None:
            posterior = infer(run.journal)
            run.finish(posterior)
    return posterior


def _stored(run: RunDirectory) -> AbstractPosterior | None:
    """The posterior on disk, if it is whole and all that the method gave; else None, as for a
    learnt likelihood, which the journal gives.
    """
    if run.record.finished:
        with contextlib.suppress(NoisewiseError):
            posterior = load_posterior(run.posterior_path)
            return posterior if type(posterior).__name__ == run.record.posterior else None
    return None


def identity_of(
    method: str,
    settings: Mapping[str, Any],
    key: Array,
    model: PrivateModel,
    observed: Float[np.ndarray, " kp"],
    **data: Any,
) -> dict[str, Any]:
    """What identifies a run, JSON-ready.

    Args:
        method: The method's slug.
        settings: Its settings, JSON-ready.
        key: The key, of which the words are kept.
        model: The model; of functions only the names are kept.
        observed: The private statistic, shape (k',).
        **data: What settings leave out, such as confidential data: only a digest is kept.
    """
    words, implementation = key_words(key)
    return {
        "method": method,
        "settings": _anonymous(dict(settings)),
        "data": {name: _digest(value) for name, value in data.items() if value is not None},
        "key": [*map(int, words.ravel()), "raw" if implementation is None else str(implementation)],
        "observed": observed.tolist(),
        "model": {
            "names": list(model.names),
            "statistics": list(model.statistic_names),
            "derived": list(model.derived),
            "prior": model.prior.fingerprint(),
            "simulator": _with_law(model),
            "query": described(model.query),
            "mechanism": _with_numbers(model),
        },
    }


def _with_law(model: PrivateModel) -> Any:
    """The description of the simulator, and what its law says at fixed points where it has one: an
    edited function says something else.
    """
    found = described(model.simulator)
    if not isinstance(model.simulator, StatisticLaw):
        return found
    theta = model.prior.constrain(fixed_points(model.prior.unconstrained_dim))
    return {**found, "at fixed points": model.simulator.at_fixed_points(theta)}


def _with_numbers(model: PrivateModel) -> Any:
    """The description of the mechanism, and its numbers at fixed points where it depends on
    parameters: an edited function gives others.
    """
    mechanism = model.mechanism
    if not mechanism.unknown:
        return described(mechanism)
    theta = model.prior.constrain(fixed_points(model.prior.unconstrained_dim))
    with jax.enable_x64(True):
        sums = [
            [float(sum_by_place(leaf)) for leaf in jax.tree.leaves(model.mechanism_at(row))]
            for row in theta
        ]
    return {
        "type": repr(mechanism),
        "unknown": list(mechanism.unknown),
        "at fixed points": [" ".join(f"{total:.7e}" for total in row) for row in sums],
    }


def _anonymous(value: Any) -> Any:
    """The value without addresses in memory, which differ from process to process."""
    if isinstance(value, dict):
        return {name: _anonymous(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_anonymous(item) for item in value]
    return _ADDRESS.sub("", value) if isinstance(value, str) else value


def _digest(value: Any) -> str:
    arrays = (
        {"theta": value.theta, **value._own_arrays()}
        if isinstance(value, AbstractPosterior)
        else {"": value}
    )
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        array = np.asarray(array)
        digest.update(repr((name, array.shape, str(array.dtype))).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def refilled(state: T, leaves: list[np.ndarray]) -> T:
    """A pytree of the same structure with other arrays."""
    old, structure = jax.tree.flatten(state)
    if [(np.shape(a), np.asarray(a).dtype) for a in old] != [(a.shape, a.dtype) for a in leaves]:
        raise FileFormatError(
            "The state of chains in the journal does not fit this run: delete state.safetensors."
        )
    return jax.tree.unflatten(structure, leaves)
