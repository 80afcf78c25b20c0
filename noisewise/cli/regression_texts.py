"""What the options of `noisewise regress` mean: laws such as "age=Normal(0,1)", and mechanisms with
their parameters. Both come from closed lists: no text is run.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisewise.cli.catalogue import slug_of
from noisewise.cli.exits import did_you_mean
from noisewise.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    import numpyro.distributions as dist
    import pandas as pd

    from noisewise.mechanisms.base import AbstractMechanism

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
_FRACTION = re.compile(rf"\s*({_NUMBER})\s*(?:/\s*({_NUMBER}))?\s*", re.ASCII)
_PRIOR = re.compile(r"\s*(.+?)\s*=\s*(\w+)\s*\(([^()]*)\)\s*")
_LAWS = {
    "Normal": ("loc", "scale"),
    "HalfNormal": ("scale",),
    "StudentT": ("df", "loc", "scale"),
    "Cauchy": ("loc", "scale"),
    "HalfCauchy": ("scale",),
    "Laplace": ("loc", "scale"),
    "Uniform": ("low", "high"),
    "Beta": ("concentration1", "concentration0"),
    "Gamma": ("concentration", "rate"),
    "InverseGamma": ("concentration", "rate"),
    "Exponential": ("rate",),
    "LogNormal": ("loc", "scale"),
}
"""The laws that a prior may have, by their names in numpyro, with their numbers in order."""

_ABOVE = "threshold"
"""The parameter that suppresses small numbers of any mechanism of noise."""


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A mechanism by its Python name, the parameters that it needs, and those it may have."""

    name: str
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional)


_MECHANISMS = {
    "forced-response": _Kind("ForcedResponse", ("truth",), ("yes",)),
    "warner": _Kind("Warner", ("p",)),
    "unrelated-question": _Kind("UnrelatedQuestion", ("p", "prevalence")),
    "crosswise": _Kind("Crosswise", ("p",)),
    "triangular": _Kind("Triangular", ("p",)),
    "stochastic-lie-detector": _Kind("StochasticLieDetector", ("truth", "p")),
    "direct-question": _Kind("DirectQuestion"),
    "laplace": _Kind("Laplace", ("scale",), (_ABOVE,)),
    "gaussian": _Kind("Gaussian", ("scale",), (_ABOVE,)),
    "discrete-laplace": _Kind("DiscreteLaplace", ("scale",), (_ABOVE,)),
    "discrete-gaussian": _Kind("DiscreteGaussian", ("scale",), (_ABOVE,)),
    "rounded": _Kind("Rounded", ("base",)),
    "exact": _Kind("Exact", (), (_ABOVE,)),
}
"""The mechanisms that a regression on the command line may have."""

MECHANISMS = tuple(_MECHANISMS)
"""Their names on the command line."""


def number_in(text: str) -> float | None:
    """A number or a fraction; None for other texts.

    >>> number_in("2/3") == 2 / 3, number_in("0.25"), number_in("p1")
    (True, 0.25, None)
    """
    found = _FRACTION.fullmatch(text)
    if found is None:
        return None
    above, below = float(found[1]), float(found[2] or 1.0)
    return above / below if below else math.nan


def priors_in(texts: Sequence[str]) -> dict[str, dist.Distribution]:
    """Laws by the names of parameters, from texts such as "age=Normal(0,1)".

    Raises:
        InvalidInputError: If a text is something else, a law is not known, or its numbers are not
            those of such a law.

    >>> {name: type(law).__name__ for name, law in priors_in(["sd(area)=HalfNormal(1/2)"]).items()}
    {'sd(area)': 'HalfNormal'}
    """
    laws: dict[str, Any] = {}
    for text in texts:
        found = _PRIOR.fullmatch(text)
        if found is None:
            raise InvalidInputError(
                f'--prior takes NAME=LAW(NUMBERS), such as "age=Normal(0,1)", got {text!r}.'
            )
        if found[1] in laws:
            raise InvalidInputError(f"--prior is given twice for {found[1]!r}: choose one.")
        laws[found[1]] = _law(found[2], found[3], text)
    return laws


def _law(name: str, inside: str, text: str) -> dist.Distribution:
    import numpyro.distributions as dist

    if name not in _LAWS:
        raise InvalidInputError(
            f"--prior {text!r}: {name} is no law that it takes: {did_you_mean(name, list(_LAWS))}"
        )
    numbers = [number_in(part) for part in inside.split(",")] if inside.strip() else []
    names = _LAWS[name]
    if len(numbers) != len(names) or any(n is None or not math.isfinite(n) for n in numbers):
        raise InvalidInputError(
            f"--prior {text!r}: write {name}({', '.join(names)}) with numbers for these."
        )
    try:
        law: dist.Distribution = getattr(dist, name)(*numbers, validate_args=True)
    except ValueError:
        raise InvalidInputError(
            f"--prior {text!r}: these are no numbers of a {name} law; {_limits(name)}."
        ) from None
    return law


def _limits(name: str) -> str:
    if name == "Uniform":
        return "low must be below high"
    positive = [part for part in _LAWS[name] if part not in ("loc",)]
    return f"{' and '.join(positive)} must be above 0"


# Mechanisms -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Setting:
    """A parameter of a mechanism: a number, a column, or the name of what is not known."""

    value: float | np.ndarray | str

    def of_rows(self, rows: Any, theta: Any) -> Any:
        """Its value in some of the rows, where unknown ones have those of theta."""
        if isinstance(self.value, str):
            return theta[self.value]
        return self.value if isinstance(self.value, float) else self.value[rows]


def mechanism_in(
    names: Sequence[str],
    texts: Sequence[str],
    frame: pd.DataFrame,
    *,
    by: str | None,
    priors: Mapping[str, Any],
    file: str,
) -> AbstractMechanism | Callable[[Any], AbstractMechanism]:
    """The mechanism, or a function of unknown parameters that makes it.

    Args:
        names: What --mechanism says: one name, or with `by` ENTRY=NAME for each entry of a column.
        texts: What --set says: NAME=VALUE, or ENTRY.NAME=VALUE.
        frame: The data.
        by: The column whose entries choose among several mechanisms.
        priors: Laws by name: a value may be such a name, of a parameter that is not known.
        file: The name of the file, for messages.
    """
    chosen = _by_entry(names, by, frame, file)
    given = _settings(texts, chosen, frame, priors, file)
    for entry, slug in chosen.items():
        _check_known(slug, given[entry], entry)

    def make(theta: Any) -> AbstractMechanism:
        return _combined(chosen, given, frame, by, theta)

    settings = [setting for own in given.values() for setting in own.values()]
    unknown = any(isinstance(setting.value, str) for setting in settings)
    return make if unknown else make(None)


def _by_entry(
    names: Sequence[str], by: str | None, frame: pd.DataFrame, file: str
) -> dict[str, str]:
    """The mechanism of each entry of the column; of "" where there is none."""
    pairs = [name.rpartition("=") for name in names]
    if by is None:
        if len(pairs) != 1 or pairs[0][1]:
            raise InvalidInputError(
                "--mechanism takes one name; where rows have different ones, --by COLUMN"
                " --mechanism ENTRY=NAME for each entry of that column."
            )
        return {"": _slug(names[0])}
    require_column(by, frame, file, "--by")
    if not all(equals for _, equals, _ in pairs):
        raise InvalidInputError(f"Beside --by {by} write --mechanism ENTRY=NAME for each entry.")
    chosen = {entry.strip(): _slug(name) for entry, _, name in pairs}
    for entry in map(str, frame[by].unique()):
        if entry not in chosen:
            raise InvalidInputError(
                f"Rows whose {by} is {entry!r} have no mechanism: write --mechanism {entry}=NAME."
            )
    return {entry: slug for entry, slug in chosen.items() if (frame[by].astype(str) == entry).any()}


def _slug(name: str) -> str:
    slug = slug_of(name)
    if slug not in _MECHANISMS:
        raise InvalidInputError(
            f"There is no mechanism {name!r}: {did_you_mean(slug, list(_MECHANISMS))}"
        )
    return slug


def _settings(
    texts: Sequence[str],
    chosen: Mapping[str, str],
    frame: pd.DataFrame,
    priors: Mapping[str, Any],
    file: str,
) -> dict[str, dict[str, _Setting]]:
    """The parameters of the mechanism of each entry."""
    given: dict[str, dict[str, _Setting]] = {entry: {} for entry in chosen}
    for text in texts:
        left, equals, value = text.partition("=")
        entry, _, name = left.strip().rpartition(".")
        name = name.replace("-", "_")
        if not (equals and name and value.strip()):
            raise InvalidInputError(f"--set takes NAME=VALUE, such as truth=2/3, got {text!r}.")
        if entry not in chosen and entry:
            raise InvalidInputError(
                f"--set {text!r}: no mechanism is of the entry {entry!r}:"
                f" {did_you_mean(entry, list(chosen))}"
            )
        of_these = [entry] if entry else [e for e, s in chosen.items() if _takes(s, name)]
        if not of_these:
            raise InvalidInputError(_not_a_parameter(name, chosen))
        setting = _setting(text, value.strip(), frame, priors, file)
        for each in of_these:
            if name in given[each]:
                raise InvalidInputError(f"--set gives {left.strip()} twice: choose one value.")
            given[each][name] = setting
    return given


def _takes(slug: str, name: str) -> bool:
    return name in _MECHANISMS[slug].known


def _not_a_parameter(name: str, chosen: Mapping[str, str]) -> str:
    slugs = list(dict.fromkeys(chosen.values()))
    known = list(dict.fromkeys(part for slug in slugs for part in _MECHANISMS[slug].known))
    hint = did_you_mean(name, known) if known else "it has none."
    return f"{' and '.join(slugs)} has no parameter {name!r}: {hint}"


def _setting(
    text: str, value: str, frame: pd.DataFrame, priors: Mapping[str, Any], file: str
) -> _Setting:
    from noisewise.regressions.frames import numbers

    found = number_in(value)
    if found is not None:
        if not math.isfinite(found):
            raise InvalidInputError(f"--set {text!r} is no finite number.")
        return _Setting(found)
    if value in frame.columns:
        column = numbers(frame, value, f"--set {text}: the column")
        if (column != column).any():
            raise InvalidInputError(
                f"--set {text}: the column {value!r} has missing numbers, but the mechanism of"
                " every row must be known."
            )
        return _Setting(column)
    if value in priors:
        return _Setting(value)
    raise InvalidInputError(
        f"--set {text}: {value!r} is no number, no column of {file}, and no parameter with a"
        f' --prior (for one that is not known: --prior "{value}=Uniform(0,1)"):'
        f" {did_you_mean(value, [str(column) for column in frame.columns])}"
    )


def _check_known(slug: str, given: Mapping[str, Any], entry: str) -> None:
    kind = _MECHANISMS[slug]
    prefix = f"{entry}." if entry else ""
    for name in given:
        if name not in kind.known:
            raise InvalidInputError(_not_a_parameter(name, {entry: slug}))
    for name in kind.needed:
        if name not in given:
            raise InvalidInputError(
                f"{slug} needs its parameter {name!r}: write --set {prefix}{name}=NUMBER, or the"
                " name of a column."
            )


def _combined(
    chosen: Mapping[str, str],
    given: Mapping[str, Mapping[str, _Setting]],
    frame: pd.DataFrame,
    by: str | None,
    theta: Any,
) -> AbstractMechanism:
    import numpy as np

    from noisewise.mechanisms import PerCell

    if by is None:
        return _made(chosen[""], given[""], np.arange(len(frame)), theta)
    entries = list(chosen)
    which = np.array([entries.index(str(entry)) for entry in frame[by]])
    made = [
        _made(chosen[entry], given[entry], np.flatnonzero(which == number), theta)
        for number, entry in enumerate(entries)
    ]
    return PerCell(made, which.tolist()) if len(made) > 1 else made[0]


def _made(
    slug: str, given: Mapping[str, _Setting], rows: np.ndarray, theta: Any
) -> AbstractMechanism:
    """One mechanism of some rows."""
    from noisewise import mechanisms

    kind = _MECHANISMS[slug]
    values = {name: setting.of_rows(rows, theta) for name, setting in given.items()}
    above = values.pop(_ABOVE, None)
    if "base" in values:
        values["base"] = _whole(values["base"])
    made: AbstractMechanism = getattr(mechanisms, kind.name)(**values)
    return made if above is None else mechanisms.Thresholded(made, above=above)


def _whole(base: Any) -> int:
    if isinstance(base, float) and base.is_integer():
        return int(base)
    raise InvalidInputError("The base of rounded is one whole number, such as --set base=3.")


def require_column(name: str, frame: pd.DataFrame, file: str, flag: str) -> None:
    """Refuse a name that is no column of the file."""
    if name not in frame.columns:
        raise InvalidInputError(
            f"{flag} names {name!r}, but {file} has no such column:"
            f" {did_you_mean(name, [str(column) for column in frame.columns])}"
        )
