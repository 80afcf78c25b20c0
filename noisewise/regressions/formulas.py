"""Formulas as named columns and effects of groups, by the library formulae."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from noisewise._core.arrays import Array, describe
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingDependencyError
from noisewise.regressions import functions
from noisewise.regressions.frames import check_covariate, require_columns

if TYPE_CHECKING:
    import pandas as pd

_EXAMPLE = '"answer ~ age + female + (1 | district)"'
_OUTCOME = re.compile(
    r"\s*(?:(?:p|prop|proportion)\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)|([^()]+?))\s*"
)

_CALL = re.compile(r"\w\([^()]*\)|\{[^{}]*\}|(?<!\w)\([^()+:*/|~-]*\)")
"""A function without parentheses inside, or parentheses around a single name or number."""
_POWER = re.compile(r"[\w.]+\s*\*\*\s*\w+")
"""A power of a column; that of a sum of columns, (a + b)**2, stands for their interactions."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns that are multiplied by the coefficients of one name.

    Attributes:
        name: The name of the coefficients.
        labels: One for each column; none for a single one.
        values: Shape (n, m).
    """

    name: str
    labels: tuple[str, ...]
    values: Float[np.ndarray, "n m"]


@dataclasses.dataclass(frozen=True)
class Effects:
    """Effects of groups.

    Attributes:
        name: The name of the effects, such as "district" or "age|district".
        labels: One for each group.
        group: The group of each row, from 0.
        values: What the effect is multiplied by in each row: 1, or a covariate.
    """

    name: str
    labels: tuple[str, ...]
    group: Int[np.ndarray, " n"]
    values: Float[np.ndarray, " n"]


@dataclasses.dataclass(frozen=True)
class Design:
    """The linear predictor of some rows, without offset."""

    columns: tuple[Columns, ...]
    effects: tuple[Effects, ...]

    @property
    def parts(self) -> tuple[Columns | Effects, ...]:
        """Columns, then effects."""
        return (*self.columns, *self.effects)

    def predictor(self, values: Mapping[str, Array], xp: Any = jnp) -> Array:
        """The sum of columns times coefficients and of effects.

        Args:
            values: Coefficients and effects by name, with any leading axes.
            xp: jax.numpy or numpy.

        Returns:
            Shape (..., n).
        """
        parts = [
            xp.asarray(values[part.name])
            if part.labels
            else xp.asarray(values[part.name])[..., None]
            for part in self.columns
        ]
        total: Any = 0.0
        if parts:
            x = np.concatenate([part.values for part in self.columns], axis=1)
            total = xp.concatenate(parts, axis=-1) @ x.T
        for effect in self.effects:
            total = total + effect.values * xp.asarray(values[effect.name])[..., effect.group]
        return total

    def of_rows(self, rows: slice | Sequence[int]) -> Design:
        """Some of the rows."""
        columns = (dataclasses.replace(part, values=part.values[rows]) for part in self.columns)
        effects = (
            dataclasses.replace(part, values=part.values[rows], group=part.group[rows])
            for part in self.effects
        )
        return Design(tuple(columns), tuple(effects))


class Formula:
    """A formula, and the frame whose levels and bases it keeps for later frames.

    Args:
        text: The formula as the user wrote it.
        frame: The data.
    """

    def __init__(self, text: Any, frame: pd.DataFrame) -> None:
        formulae = _formulae()
        from formulae.environment import Environment

        self.text, self.outcome, self.trials, self._right = _sides(text)
        functions.check_names(self.text, self._right)
        self.variables = variables_of(text)
        terms = [_named(term) for term in _described(text, self._right).common_terms]
        self.common_variables = frozenset[str]().union(*terms)
        self.shared_variables = frozenset(
            name for name in self.common_variables if sum(name in term for term in terms) > 1
        )
        self._spelled = _spelled(self._right)
        self._check(frame)
        try:
            self._matrices = formulae.design_matrices(
                self._right, frame, "error", env=Environment([functions.namespace()])
            )
        except Exception as error:
            raise InvalidInputError(
                f"The formula {text!r} cannot be computed: {functions.why(error)}"
            ) from error
        self.design = self._design(self._matrices.common, self._matrices.group)
        self.name_variables = _of_names(self._matrices.common)
        if not self.design.columns and not self.design.effects:
            raise InvalidInputError(f"The formula {text!r} has nothing on its right: write 1.")

    def of(self, frame: pd.DataFrame) -> Design:
        """The linear predictor of the rows of another frame, with the same levels of groups."""
        self._check(frame)
        common, group = self._matrices.common, self._matrices.group
        try:
            return self._design(
                common and common.evaluate_new_data(frame), group and group.evaluate_new_data(frame)
            )
        except ValueError as error:
            raise InvalidInputError(
                f"The frame does not fit the formula {self.text!r}: {error} Leave out rows of"
                " groups that were not in the data."
            ) from error

    def _check(self, frame: pd.DataFrame) -> None:
        require_columns(frame, self.variables, "The formula")
        for name in sorted(self.variables):
            check_covariate(frame, name)

    def _design(self, common: Any, group: Any) -> Design:
        columns = [] if common is None else [self._columns(common, t) for t in common.terms]
        effects = [] if group is None else [self._effects(group, t) for t in group.terms]
        return Design(tuple(columns), tuple(effects))

    def _columns(self, common: Any, name: str) -> Columns:
        term = self._matrices.common.terms[name]
        if term.kind == "offset":
            raise InvalidInputError(
                f"{name} in the formula: give the offset as the argument offset=, a column or an"
                " array on the scale of the linear predictor."
            )
        values = np.asarray(common[name], dtype=np.float64).reshape(len(common.design_matrix), -1)
        if not values.shape[1]:
            raise InvalidInputError(
                f"{name} is of one category in all rows, which the intercept has: leave it out of"
                " the formula."
            )
        spelled = self._spelled.get(_bare(name), _usable(name))
        labels = () if values.shape[1] == 1 and term.kind != "categoric" else term.labels
        return Columns(spelled, tuple(_label(str(label)) for label in labels), values)

    def _effects(self, group: Any, name: str) -> Effects:
        term = self._matrices.group.terms[name]
        matrix = sparse.csr_matrix(group[name])
        labels = tuple(map(str, term.groups))
        if matrix.shape[1] != len(labels):
            raise InvalidInputError(
                f"({name}) has an effect for each of several columns in each group, which is not"
                " served yet: write a column of numbers of its own for each, and its term."
            )
        factor = _usable(term.factor.name)
        is_intercept = term.kind == "intercept"
        # a row whose covariate is 0 may be in any group
        where = (matrix != 0.0).astype(np.float64).argmax(axis=1)
        return Effects(
            factor if is_intercept else f"{_usable(term.expr.name)}|{factor}",
            labels,
            np.asarray(where).ravel(),
            np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel(),
        )


def _of_names(common: Any) -> frozenset[str]:
    """The columns that are categories, such as those in C(...)."""
    terms = [] if common is None else common.terms.values()
    parts = [part for term in terms for part in getattr(term, "components", ())]
    return frozenset[str]().union(*(_named(part) for part in parts if part.kind == "categoric"))


def _formulae() -> Any:
    try:
        import formulae
    except ImportError:
        raise MissingDependencyError(
            "Formulas are read by the library formulae: pip install 'noisewise[formula]'."
        ) from None
    return formulae


def _sides(text: Any) -> tuple[str, str, str | None, str]:
    """The formula, its outcome, the column of trials, and its right side."""
    if not isinstance(text, str):
        raise InvalidTypeError(f"formula must be text, such as {_EXAMPLE}; got {describe(text)}.")
    left, tilde, right = text.partition("~")
    found = _OUTCOME.fullmatch(left)
    if not tilde or found is None or not right.strip():
        raise InvalidInputError(
            f"formula must name an outcome and what it depends on, such as {_EXAMPLE}, or with a"
            f' number of trials "p(yes, asked) ~ age"; got {text!r}.'
        )
    successes, trials, plain = (part and part.strip("` ") for part in found.groups())
    return text, successes or plain, trials, right.strip()


def outcome_of(text: Any) -> str:
    """The column on the left side of a formula, of which nothing else is read.

    >>> outcome_of("p(yes, asked) ~ age")
    'yes'
    """
    return _sides(text)[1]


def variables_of(text: Any) -> frozenset[str]:
    """The columns that the right side of a formula names."""
    terms = _described(text, _sides(text)[3]).terms
    return frozenset[str]().union(*map(_named, terms))


def _named(term: Any) -> frozenset[str]:
    """The columns that a term names."""
    return frozenset(filter(None, getattr(term, "var_names", ())))


def _described(text: Any, right: str) -> Any:
    """The terms of the right side of a formula."""
    _check_powers(text, right)
    try:
        return _formulae().model_description(right)
    except MissingDependencyError:
        raise
    except Exception as error:
        raise InvalidInputError(f"The formula {text!r} cannot be read: {error}") from error


def _check_powers(text: Any, right: str) -> None:
    """Refuse ^, and powers of columns outside of functions, which formulae takes for the columns
    themselves.
    """
    outside, before = re.sub("`[^`]*`", "name", right), ""
    has_caret = "^" in outside
    while outside != before:  # functions are names, those inside of others first
        before, outside = outside, _CALL.sub(" name ", outside)
    if has_caret or _POWER.search(outside):
        raise InvalidInputError(
            f"The formula {text!r} has a power {'with ^' if has_caret else 'outside of I()'}: write"
            ' it with ** inside I(), as in "answer ~ age + I(age**2)".'
        )


def _usable(name: str) -> str:
    """A term's name without spaces and commas, which names of parameters do not have."""
    return name.replace(" ", "").replace(",", ";").replace("[", "{").replace("]", "}")


def _bare(name: str) -> str:
    return re.sub(r"[\s()]", "", name)


def _spelled(right: str) -> dict[str, str]:
    """How the user wrote each term: formulae leaves inner parentheses out of names.

    >>> _spelled("age + I((age / 10) ** 2)")
    {'age': 'age', 'Iage/10**2': 'I((age/10)**2)'}
    """
    terms, depth = [""], 0
    for letter in right:
        depth += (letter == "(") - (letter == ")")
        if letter == "+" and depth == 0:
            terms.append("")
        else:
            terms[-1] += letter
    spelled: dict[str, str] = {}
    for term in filter(None, map(str.strip, terms)):
        if _bare(term) in spelled and "(" in term:
            raise InvalidInputError(
                f"The terms {spelled[_bare(term)]} and {term} differ by parentheses alone: make"
                " columns of them."
            )
        spelled[_bare(term)] = _usable(term)
    return spelled


def _label(label: str) -> str:
    """The level in a label such as "sex[m]"; the whole of others."""
    found = re.fullmatch(r"[^\[\]]*\[([^\[\]]*)\]", label)
    return found.group(1) if found else _usable(label)
