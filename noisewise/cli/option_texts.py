"""What the options of `noisewise release` mean: texts such as "age=0,100" and "rho=0.5"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise.cli.exits import did_you_mean
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    from noisewise._core.neighbours import AbstractNeighbours
    from noisewise.mechanisms.guarantees import AbstractGuarantee

_BOUNDS = "--bounds"


def bounds_apart(words: list[str]) -> Iterator[str]:
    """The words of a command line, with bounds that are joined by a comma taken apart.

    Args:
        words: The words after the command's name.

    >>> list(bounds_apart(["--bounds", "0,100", "--edges", "1,2"]))
    ['--bounds', '0', '100', '--edges', '1,2']
    >>> list(bounds_apart(["--bounds=-5,5"]))
    ['--bounds', '-5', '5']
    """
    after = False
    for word in words:
        flag, equals, ends = word.partition("=")
        joined = equals == "=" and flag == _BOUNDS
        if joined:
            yield flag
        yield from (ends if joined else word).split(",", 1) if joined or after else [word]
        after = word == _BOUNDS


def stated(**values: float | None) -> dict[str, float]:
    """The parameters of the guarantee that are given, by name.

    Args:
        values: epsilon, delta and rho, each a number or None.

    Raises:
        InvalidInputError: If they state no guarantee, or more than one.

    >>> stated(epsilon=1.0, delta=None, rho=None)
    {'epsilon': 1.0}
    """
    given = {name: value for name, value in values.items() if value is not None}
    if set(given) not in ({"epsilon"}, {"epsilon", "delta"}, {"rho"}):
        raise InvalidInputError(
            "State one guarantee: --epsilon 1, or --epsilon 1 --delta 1e-6, or --rho 0.1."
        )
    return given


def neighbours_if_given(
    label: str | None, unit: str | None, max_contributions: int | None, max_per_cell: int | None
) -> AbstractNeighbours | None:
    """The relation that options state, as `neighbours_from` reads them; None where none is given.

    Raises:
        InvalidInputError: If there is no such relation, or something about it is given without it.
    """
    about = {
        "--unit": unit,
        "--max-contributions": max_contributions,
        "--max-per-cell": max_per_cell,
    }
    given = [flag for flag, value in about.items() if value is not None]
    if label is not None:
        return neighbours_from(label, unit, max_contributions, max_per_cell)
    if given:
        raise InvalidInputError(f"{given[0]} goes with --neighbours: say which ones.")
    return None


def neighbours_from(
    label: str,
    unit: str | None = None,
    max_contributions: int | None = None,
    max_per_cell: int | None = None,
) -> AbstractNeighbours:
    """The relation that --neighbours, --unit, --max-contributions and --max-per-cell state.

    Args:
        label: "replace-one" or "add-remove".
        unit: What a line of the data belongs to; None for a person.
        max_contributions: The most lines of one unit, None where the option is not given.
        max_per_cell: The most of them in one cell, None where the option is not given.

    Raises:
        InvalidInputError: If there is no such relation, or it has no bound of contributions.

    >>> neighbours_from("add-remove", None, 3).label
    'add-remove'
    """
    from noisewise._core.neighbours import DEFAULT_UNIT, AddRemoveOne, ReplaceOne

    known = {kind(DEFAULT_UNIT).label: kind for kind in (ReplaceOne, AddRemoveOne)}
    bounds = {"--max-contributions": max_contributions, "--max-per-cell": max_per_cell}
    given = [flag for flag, bound in bounds.items() if bound is not None]
    kind = known.get(label.strip().lower().replace("_", "-"))
    if kind is None:
        raise InvalidInputError(
            f"--neighbours takes {' or '.join(known)}, got {label!r}:"
            f" {did_you_mean(label, list(known))}"
        )
    unit = DEFAULT_UNIT if unit is None else unit
    if not given:
        return kind(unit)
    if kind is not AddRemoveOne:
        raise InvalidInputError(
            f"{given[0]} bounds the lines of a unit that is added or removed: pass"
            " --neighbours add-remove too."
        )
    if max_contributions is None:
        raise InvalidInputError(
            "--max-per-cell says how many of a unit's lines fall into one cell: pass"
            " --max-contributions, how many there are in all, too."
        )
    return AddRemoveOne(unit, max_contributions, max_per_cell)  # type: ignore[arg-type]


def guarantee_from(given: dict[str, float]) -> AbstractGuarantee:
    """The guarantee that parameters state.

    Args:
        given: epsilon, epsilon and delta, or rho.
    """
    from noisewise.mechanisms.guarantees import ApproximateDP, PureDP, ZeroConcentratedDP

    if "rho" in given:
        return ZeroConcentratedDP(given["rho"])
    return (
        ApproximateDP(given["epsilon"], given["delta"])
        if "delta" in given
        else PureDP(given["epsilon"])
    )


def limit_of(text: str | None, ledger: Path | None) -> AbstractGuarantee | None:
    """The limit of a ledger that --budget states.

    Args:
        text: "EPSILON", "EPSILON,DELTA" or "rho=RHO"; None where the option is not given.
        ledger: The file that --ledger names.

    Returns:
        A guarantee, or None for a ledger that has its limit.

    Raises:
        InvalidInputError: If a new ledger lacks a limit, or the text states none.
    """
    from noisewise.disclosure.seal import lock_path

    if text is None:
        if ledger is not None and not ledger.exists() and not lock_path(ledger).exists():
            raise InvalidInputError(
                f"There is no ledger {ledger}: to begin one, pass its limit, as in --budget 2."
            )
        return None
    if ledger is None:
        raise InvalidInputError("--budget is the limit of a ledger: pass --ledger ledger.json too.")
    rho = text.startswith("rho=")
    parts = numbers("--budget", text.removeprefix("rho="))
    if len(parts) > (1 if rho else 2):
        raise InvalidInputError(
            f"--budget takes EPSILON, or EPSILON,DELTA, or rho=RHO, got {text!r}."
        )
    return guarantee_from(dict(zip(("rho",) if rho else ("epsilon", "delta"), parts, strict=False)))


def numbers(flag: str, text: str | None) -> tuple[float, ...]:
    """Numbers separated by commas.

    Args:
        flag: The option, as messages name it.
        text: What was given; None for none.

    Raises:
        InvalidInputError: If a part is not a number.
    """
    try:
        return () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"{flag} takes numbers separated by commas, got {text!r}."
        ) from None


def assignments(
    flag: str, texts: list[str] | None, *, example: str = "smoker=no,yes"
) -> dict[str, str]:
    """Options such as "age=0,100", given once for each column.

    Args:
        flag: The option, as messages name it.
        texts: What was given.
        example: A column and its values, for messages.

    Returns:
        The texts after the equals signs, by column.

    Raises:
        InvalidInputError: If a column or its values are missing, or a column is given twice.
    """
    pairs = [text.partition("=") for text in texts or ()]
    for (name, equals, value), text in zip(pairs, texts or (), strict=True):
        if not (name.strip() and equals and value.strip()):
            raise InvalidInputError(
                f"{flag} takes NAME=VALUE here, such as {example}, got {text!r}."
            )
    found = {name.strip(): value for name, _, value in pairs}
    if len(found) < len(pairs):
        twice = next(name for name in found if sum(name == pair[0].strip() for pair in pairs) > 1)
        raise InvalidInputError(f"{flag} is given twice for {twice!r}: choose one.")
    return found


def pair(text: str, name: str) -> tuple[float, float]:
    """Two ends such as "0,100".

    Args:
        text: What was given.
        name: The column, for messages.

    Raises:
        InvalidInputError: If there are not two numbers.
    """
    ends = numbers(f"--bounds-of {name}", text)
    if len(ends) != 2:
        raise InvalidInputError(
            f"--bounds-of {name} takes LOW,HIGH, such as {name}=0,100, got {text!r}."
        )
    return ends[0], ends[1]


def labels_of(text: str) -> tuple[str, ...]:
    """The levels of a column: 'a,b,c', or '3' for 0, 1, 2.

    >>> labels_of("no, yes"), labels_of("3")
    (('no', 'yes'), ('0', '1', '2'))
    """
    labels = tuple(label.strip() for label in text.split(","))
    if len(labels) == 1 and labels[0].isdigit():
        return tuple(str(number) for number in range(int(labels[0])))
    return labels
