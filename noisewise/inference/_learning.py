"""What the learning methods share: checks of their settings, and when to start from new weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisewise._arrays import Array, describe
from noisewise.errors import InvalidInputError, InvalidTypeError

_EXAMPLES = {
    "AbstractCorrection": "TruncatedProposals() or AtomicProposals()",
    "AbstractPointSet": "ScrambledSobol() or IndependentUniforms()",
    "AbstractPosterior": "a posterior, as infer returns it",
    "Training": "a Training, such as nw.estimators.Training(max_epochs=200)",
}

RESCALED = 1.5
"""Where a scale changes by more than this factor between rounds, data are standardised anew and networks start from new weights."""


def check_factory(name: str, value: Any) -> None:
    """Refuse what does not make networks."""
    if not callable(value):
        raise InvalidTypeError(
            f"{name} must be a factory (key, target_dim, condition_dim) -> flow, got {describe(value)}."
        )


def check_kinds(settings: Any, **kinds: type) -> None:
    """Refuse settings of another kind than stated."""
    for name, kind in kinds.items():
        value = getattr(settings, name)
        if not isinstance(value, kind):
            got = (
                f"the class {value.__name__}: write {value.__name__}()" if isinstance(value, type) else describe(value)
            )
            raise InvalidTypeError(f"{name} must be {_EXAMPLES.get(kind.__name__, kind.__name__)}, got {got}.")


def check_bank(settings: Any) -> None:
    """Refuse a bank of noise that is not made of whole nets."""
    if settings.noise_bank % settings.num_noise:
        raise InvalidInputError(
            f"noise_bank must be a multiple of num_noise, got {settings.noise_bank} and {settings.num_noise}."
        )


def check_members(name: str, members: Any, target_dim: int, condition_dim: int) -> Any:
    """The members, if they have the dimensions that were asked for."""
    if tuple(members.shape) != (target_dim,) or members.cond_shape != (condition_dim,):
        raise InvalidInputError(
            f"{name}(key, {target_dim}, {condition_dim}) must make a distribution of shape ({target_dim},) given ({condition_dim},), got "
            f"{members.shape} given {members.cond_shape}: pass a factory, such as neural_spline_flow, as it is."
        )
    return members


def rescaled(*pairs: tuple[Array, Array]) -> bool:
    """Whether any positive number has changed much, given pairs of old and new ones; zeros stay zeros."""
    for old, new in pairs:
        both = (np.asarray(old) > 0) & (np.asarray(new) > 0)
        if np.abs(np.log(np.where(both, old, 1.0) / np.where(both, new, 1.0))).max() >= np.log(RESCALED):
            return True
    return False


def failures_bias(instead: str) -> str:
    """What to say where simulations failed, and a method learns from the others alone."""
    return (
        "Simulations failed. If that depends on the parameters, this method does not see it, while exact ones count a failure as "
        f"impossible: mend the simulator, or use {instead}."
    )
