"""What the learning methods share: checks of their settings, training that is recorded, and the
report of a fit.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from noisewise._compile.background import in_background
from noisewise._core.arrays import Array, describe, integer, number, placed
from noisewise._core.json_files import reading
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.estimators.members import Estimator
from noisewise.estimators.training import Resample, Trained, Training, train
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Finding, Kind, Report

_EXAMPLES = {
    "AbstractCorrection": "TruncatedProposals() or AtomicProposals()",
    "AbstractPointSet": "ScrambledSobol() or IndependentUniforms()",
    "AbstractPosterior": "a posterior, as infer returns it",
    "Embedding": "an Embedding, such as nw.estimators.Embedding(num_columns=4), or None",
    "Training": "a Training, such as nw.estimators.Training(max_epochs=200)",
}

_AT_LEAST = {  # smallest values of settings; R-hat needs two chains
    "num_rounds": 1,
    "num_simulations": 1,
    "num_members": 1,
    "num_noise": 1,
    "noise_bank": 1,
    "num_chains": 2,
    "num_warmup": 1,
    "target_ess": 1,
}


def check_settings(method: Any, **kinds: type) -> None:
    """Convert and check those settings that learning methods share which `method` has, and settings
    of other `kinds`.
    """
    names = {field.name for field in dataclasses.fields(method)}
    counts = {name: least for name, least in _AT_LEAST.items() if name in names}
    method._convert(
        **{name: integer(name, at_least=least) for name, least in counts.items()},
        validation_share=number("validation_share", above=0.0, below=1.0),
    )
    if "noise_bank" in counts:
        check_bank(method)
    check_factory("estimator", method.estimator)
    check_kinds(method, **kinds, training=Training)


def check_factory(name: str, value: Any) -> None:
    """Refuse what does not make networks."""
    if not callable(value):
        raise InvalidTypeError(
            f"{name} must be a factory (key, target_dim, condition_dim) -> flow, got"
            f" {describe(value)}."
        )


def check_kinds(settings: Any, **kinds: type) -> None:
    """Refuse settings of another kind than stated."""
    for name, kind in kinds.items():
        value = getattr(settings, name)
        if not isinstance(value, kind):
            got = (
                f"the class {value.__name__}: write {value.__name__}()"
                if isinstance(value, type)
                else describe(value)
            )
            raise InvalidTypeError(
                f"{name} must be {_EXAMPLES.get(kind.__name__, kind.__name__)}, got {got}."
            )


def check_bank(settings: Any) -> None:
    """Refuse a bank of noise that is not made of whole point sets."""
    if settings.noise_bank % settings.num_noise:
        raise InvalidInputError(
            f"noise_bank must be a multiple of num_noise, got {settings.noise_bank} and"
            f" {settings.num_noise}."
        )


def check_members(name: str, members: Estimator, target_dim: int, condition_dim: int) -> Estimator:
    """The members, if they have the dimensions that were asked for."""
    if tuple(members.shape) != (target_dim,) or members.cond_shape != (condition_dim,):
        raise InvalidInputError(
            f"{name}(key, {target_dim}, {condition_dim}) must make a distribution of shape"
            f" ({target_dim},) given ({condition_dim},), got {members.shape} given"
            f" {members.cond_shape}: pass a factory, such as neural_spline_flow, as it is."
        )
    return members


def check_model(call: str, model: object) -> None:
    """Refuse what is not a model."""
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(f"{call} needs a PrivateModel second, got {describe(model)}.")


@contextlib.contextmanager
def something_to_learn() -> Iterator[None]:
    """Turn a budget that allows no simulation into an error: a fit cannot do without."""
    try:
        yield
    except OutOfBudget as end:
        raise InvalidInputError(
            f"There is nothing to learn from: {end}. Raise max_simulations or max_minutes."
        ) from None


def first_parameters(
    key: Array, model: PrivateModel, proposal: AbstractPosterior | None, num: int
) -> Float[np.ndarray, "n p"]:
    """Parameters of the first round.

    Args:
        key: JAX PRNG key.
        model: The model.
        proposal: A posterior of the same parameters to draw from; None draws from the prior.
        num: The number of parameters.

    Returns:
        Unconstrained parameters z, shape (num, p).

    Raises:
        InvalidInputError: If the proposal has other parameters.
    """
    if proposal is None:
        return model.prior.unconstrain(model.prior.sample(key, num))
    if proposal.names != model.names:
        raise InvalidInputError(
            f"proposal must be a posterior of {', '.join(model.names)}, got one of"
            f" {', '.join(proposal.names)}."
        )
    return model.prior.unconstrain(proposal.sample(key, num))


def train_or_recall(
    run: InferenceRun,
    key: Array,
    members: Estimator,
    resample: Resample,
    *,
    warm_up: Callable[[], Any] | None = None,
    **settings: Any,
) -> Trained:
    """`train` until the time of `run` is up; where the journal has the result of an earlier
    session, that is taken instead.

    Args:
        run: The inference, with its journal and its budget of time.
        key: JAX PRNG key.
        members: Networks, as `ensemble` makes them.
        resample: What the training draws from.
        warm_up: Runs in another thread meanwhile, to compile what the trained networks will run.
        settings: Further arguments of `train`.

    Returns:
        The trained members with their losses.

    Raises:
        FileFormatError: If the journal holds networks of another architecture.
    """
    leaves, structure = jax.tree.flatten(members)
    places = [i for i, leaf in enumerate(leaves) if eqx.is_array(leaf)]

    def compute() -> dict[str, np.ndarray]:
        with in_background(warm_up):
            trained = train(key, members, resample, watch=run.out_of_time, **settings)
        found = jax.tree.leaves(trained.members)
        losses = {
            "train losses": trained.train_losses,
            "validation losses": trained.validation_losses,
        }
        return {**{str(i): np.asarray(found[i]) for i in places}, **losses}

    arrays = run.remember("training", compute)
    with reading("The training in the journal"), jax.enable_x64(False):
        train_losses, validation_losses = arrays["train losses"], arrays["validation losses"]
        if any(
            arrays[str(i)].shape != leaves[i].shape or arrays[str(i)].dtype != leaves[i].dtype
            for i in places
        ):
            raise FileFormatError("its networks are of another kind.")
        filled = [placed(arrays[str(i)]) if i in places else leaf for i, leaf in enumerate(leaves)]
    return Trained(
        jax.tree.unflatten(structure, filled), train_losses, validation_losses, len(train_losses)
    )


def fit_report(run: InferenceRun, *own: Finding) -> Report:
    """How a density was learnt, without what `run` says about one observation; `own` are findings
    of the task.
    """
    findings = list(own)
    if run.num_failed > 0:
        numbers = {"failed": run.num_failed, "simulations": run.num_simulations}
        findings.append(Finding(Kind.FAILURES_NOT_LEARNT, numbers))
    if not run.stop.finished:
        reason = {"stop": str(run.stop.kind.value), **run.stop.numbers}
        findings.append(Finding(Kind.LEARNT_FROM_LESS, reason))
    return dataclasses.replace(
        run.report(exact=False), numbers={}, power=None, findings=tuple(findings)
    )
