"""Which guarantees a mechanism can be calibrated to, and what to ask for instead of others."""

from __future__ import annotations

import contextlib
from typing import Any

from noisewise.errors import ConversionError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP


def require_guarantee(
    guarantee: Any, kinds: tuple[type[AbstractGuarantee], ...], mechanism: str
) -> None:
    """Refuse a guarantee that the named mechanism cannot be calibrated to.

    Args:
        guarantee: What the caller asked for, of any type.
        kinds: The guarantees to which it can be calibrated.
        mechanism: Its name, for the message.

    Raises:
        InvalidTypeError: If `guarantee` is none at all.
        InvalidInputError: If it is of another kind, or allows no privacy loss at all.
    """
    names = " or ".join(kind.__name__ for kind in kinds)
    if not isinstance(guarantee, AbstractGuarantee):
        raise InvalidTypeError(
            f"guarantee must be {names}, such as {kinds[0].__name__}(1.0), got {guarantee!r}."
        )
    if not isinstance(guarantee, kinds):
        raise InvalidInputError(
            f"{mechanism} is calibrated to {names}, got {guarantee!r}. {_instead(guarantee, kinds)}"
        )
    if not any(guarantee.parameters.values()):
        raise InvalidInputError(
            f"{mechanism} cannot reach {guarantee!r}: it would need infinite noise."
        )


def pure_epsilon(guarantee: Any, mechanism: str) -> float:
    """The epsilon of a guarantee, which must be a `PureDP` with a positive epsilon.

    >>> pure_epsilon(PureDP(0.5), "Laplace")
    0.5
    """
    require_guarantee(guarantee, (PureDP,), mechanism)
    return float(guarantee.epsilon)


def _instead(guarantee: AbstractGuarantee, kinds: tuple[type[AbstractGuarantee], ...]) -> str:
    """What to ask for: a guarantee that the refused one implies, if there is such a kind."""
    for kind in kinds:
        with contextlib.suppress(ConversionError, ArithmeticError):
            weaker = guarantee.to(kind)
            return (
                f"Take another mechanism, or the weaker {weaker!r}, which is"
                f" guarantee.to({kind.__name__})."
            )
    return f"It implies none: take another mechanism, or ask for {kinds[0].__name__}."
