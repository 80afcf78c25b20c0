"""Numbers that a release publishes without noise, because they are public: its invariants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from noisewise._core.arrays import describe
from noisewise.disclosure.fields import implied_by
from noisewise.errors import InvalidInputError, InvalidTypeError, ReleaseError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee, compose


def protected_by(
    mechanism: AbstractMechanism, names: tuple[str, ...] | None, invariants: Any
) -> AbstractGuarantee:
    """The guarantee of the numbers with noise, where the others are declared to be public.

    It is what they would promise alone. About what the invariants tell apart nothing is promised,
    and the release as a whole claims no privacy.

    Args:
        mechanism: The noise.
        names: The names of the values, if they are known.
        invariants: The names of those that are published as they are.

    Raises:
        ReleaseError: If a number would be published as it is and is not declared, or the reverse,
            or no number has noise.
    """
    declared = _as_names(invariants)
    parts = [block for block, _ in mechanism.calibrated_blocks(len(names or ()))]
    private = [block for block in parts if _private(block)]
    if len(private) == len(parts) and not declared:
        return mechanism.guarantee
    if not private or names is None:
        raise ReleaseError(_nothing(mechanism))
    plain = set(without_noise(mechanism, names))
    if plain - declared:
        raise ReleaseError(
            f"{_nothing(mechanism)} If {_listed(plain - declared)} may be known to everybody,"
            f" declare it: invariants={sorted(plain)!r}."
        )
    if declared - plain:
        raise ReleaseError(
            f"{_listed(declared - plain)} is declared an invariant, but is not published as it is:"
            " give it the mechanism Exact(), or leave it out of invariants."
        )
    return compose([block.guarantee for block in private])


def _as_names(invariants: Any) -> set[str]:
    listed = not isinstance(invariants, str) and isinstance(invariants, Iterable)
    names: list[Any] = list(invariants) if listed else [None]
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(
            'invariants must be a list of names of values, as in invariants=["total"], got'
            f" {describe(invariants)}."
        )
    if len(set(names)) < len(names):
        raise InvalidInputError("invariants must be different names, but one occurs twice.")
    return set(names)


def _private(block: AbstractMechanism) -> bool:
    """Whether a block promises something, or states no sensitivity, which is refused elsewhere."""
    implied = implied_by(block)
    return implied is None or implied.promises


def without_noise(mechanism: AbstractMechanism, names: tuple[str, ...]) -> Iterator[str]:
    """The names of the values of blocks that promise nothing."""
    start = 0
    for block, width in zip(mechanism.blocks, mechanism.block_widths(len(names)), strict=True):
        if not _private(block):
            yield from names[start : start + width]
        start += block.output_width(width)


def _nothing(mechanism: AbstractMechanism) -> str:
    return (
        f"{type(mechanism).__name__} promises nothing about anybody: a release of confidential data"
        " needs noise with a guarantee."
    )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
