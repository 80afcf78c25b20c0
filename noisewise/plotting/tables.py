"""What plots are drawn from: named draws, of posteriors or of plain arrays, one set or several."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, describe
from noisewise._core.draws import one_sample, real_array
from noisewise._core.weights import systematic_rows
from noisewise.diagnostics import Certificate
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Draws, Report

_MIN_RESAMPLED = 1000
"""Rows taken from weighted draws, at least: few draws of uneven weight still make smooth curves."""

_PRIOR_DRAWS = 4000
"""Draws from the prior of a model: enough for a smooth density, drawn in a fraction of a second."""

DrawsOf = AbstractPosterior | Certificate | ArrayLike
"""One set of draws: a posterior, a certificate (its corrected draws), or an array (n, p)."""

DrawsLike = DrawsOf | Mapping[str, DrawsOf]
"""One set of draws, or one for each method."""


@runtime_checkable
class HasTruth(Protocol):
    """A problem: a model, and the parameter behind the observation where it is known."""

    model: PrivateModel
    truth: np.ndarray | None


TruthLike = HasTruth | Mapping[str, float] | ArrayLike | None
"""Known values: a problem, values by name, an array of the parameters or columns, or none."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Equally weighted draws with one name per column.

    Attributes:
        names: Names of the columns.
        values: Draws, shape (N, p).
        theta: Those of the names that are parameters, in the order of the model.
    """

    names: tuple[str, ...]
    values: np.ndarray
    theta: tuple[str, ...]

    def select(self, columns: Sequence[str], what: str) -> Table:
        """The named columns, in this order.

        Args:
            columns: Names of columns.
            what: Name of the draws in messages.

        Returns:
            A table of these columns.

        Raises:
            InvalidInputError: If a name is not known, or a chosen value is not finite.
        """
        missing = [name for name in columns if name not in self.names]
        if missing or not columns:
            raise InvalidInputError(
                f"columns must be among {', '.join(self.names)} for {what}, got {list(columns)}."
            )
        chosen = self.values[:, [self.names.index(name) for name in columns]]
        return Table(tuple(columns), one_sample(chosen, what), self.theta)


def named_draws(model: PrivateModel, theta: Float[Array, "n d"]) -> Draws:
    """Draws of theta under the names of the model, with its derived quantities.

    Use it to show draws of your own, such as those of the prior, next to posteriors.

    Args:
        model: Gives names and derived quantities.
        theta: Parameters, shape (n, d).

    Returns:
        Draws that every plot accepts.

    Raises:
        InvalidTypeError: If the model is not a `PrivateModel`.
        InvalidInputError: If theta does not have a column for each name.

    Example:
        >>> import jax, noisewise as nw
        >>> problem = nw.problems.sir()
        >>> prior = named_draws(problem.model, problem.model.prior.sample(jax.random.key(0), 100))
        >>> prior.names, list(prior.derived)
        (('log_beta', 'log_gamma'), ['R0'])
    """
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            f"named_draws(model, theta) needs a PrivateModel first, got {describe(model)}."
        )
    theta = numbers(theta, "theta")
    if theta.ndim != 2 or theta.shape[1] != len(model.names):
        raise InvalidInputError(
            f"theta must be draws (N, {len(model.names)}), a column for each of"
            f" {', '.join(model.names)}; got {describe(theta)}."
        )
    return Draws(theta, model.names, Report("draws"), derived=model.derived_quantities(theta))


def named_truth(model: PrivateModel, theta: Float[Array, " d"]) -> dict[str, float]:
    """One theta by name, with the derived quantities of the model: what plots take as `truth`.

    Args:
        model: Gives names and derived quantities.
        theta: Parameters, shape (d,).

    Returns:
        Values by name.

    Raises:
        InvalidInputError: If theta does not have an entry for each name.

    Example:
        >>> import noisewise as nw
        >>> problem = nw.problems.sir()
        >>> truth = named_truth(problem.model, problem.truth)
        >>> {name: round(value, 2) for name, value in truth.items()}
        {'log_beta': -0.5, 'log_gamma': -3.0, 'R0': 12.18}
    """
    draws = named_draws(model, np.atleast_2d(numbers(theta, "theta")))
    return {name: float(values[0]) for name, values in _columns(draws).items()}


def tables(
    draws: DrawsLike, names: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> dict[str, Table]:
    """One table per method, all with the same columns.

    Args:
        draws: A posterior, an array (n, p), or a dictionary from methods to these. A single one is
            called "posterior".
        names: Names of the columns of arrays; numbered ones by default.
        columns: Which columns to keep, in this order; all by default.

    Returns:
        Tables by method.

    Raises:
        InvalidInputError: If there are no draws, or methods differ in their columns.
        InvalidTypeError: If something is neither a posterior nor an array of draws.
    """
    given = dict(draws) if isinstance(draws, Mapping) else {"posterior": draws}
    if not given:
        raise InvalidInputError(
            'draws must hold at least one method, such as {"SPPE": posterior}; got none.'
        )
    first = next((value for value in given.values() if isinstance(value, AbstractPosterior)), None)
    made = {str(name): _table(value, _what(name), names, first) for name, value in given.items()}
    made = {name: each.select(columns or each.names, _what(name)) for name, each in made.items()}
    _check_same(made)
    return made


def like(
    draws: PrivateModel | DrawsOf,
    made: Mapping[str, Table],
    what: str,
    names: Sequence[str] | None = None,
) -> Float[np.ndarray, "n p"]:
    """More draws with the columns of the tables `made`, such as those of the prior.

    Args:
        draws: A posterior, an array, or a model, which gives draws from its prior.
        made: Tables of the draws that are shown.
        what: Name of these draws in messages.
        names: Names of the columns of an array; those of `made` by default.

    Returns:
        Draws, shape (n, p).

    Raises:
        InvalidInputError: If a column is missing.
    """
    table = next(iter(made.values()))
    if isinstance(draws, PrivateModel):
        draws = named_draws(draws, draws.prior.sample(jax.random.key(0), _PRIOR_DRAWS))
    found = _table(draws, what, table.names if names is None else names, None)
    return found.select(table.names, what).values


def truths(truth: TruthLike, made: Mapping[str, Table]) -> dict[str, float]:
    """Known values by name, of the columns of the tables `made`.

    Args:
        truth: A problem, a dictionary from names to values, or an array that holds the parameters
            or, if it has another length, the columns shown; None for none.
        made: Tables of the draws that are shown.

    Returns:
        Finite values by name; names that are not shown are left out.

    Raises:
        InvalidInputError: If no shown column has a known value, or one is not finite.
    """
    if truth is None:
        return {}
    table = next(iter(made.values()))
    if isinstance(truth, HasTruth):
        truth = {} if truth.truth is None else named_truth(truth.model, truth.truth)
    if not isinstance(truth, Mapping):
        truth = _by_name(truth, table)
    chosen = {
        name: float(real_array(truth[name], f"truth[{name!r}]"))
        for name in table.names
        if name in truth
    }
    if not chosen or not np.isfinite(list(chosen.values())).all():
        raise InvalidInputError(
            f"truth must give finite values of some of {', '.join(table.names)}, got"
            f" {', '.join(map(str, truth)) or 'none'}: leave out what is unknown."
        )
    return chosen


def _by_name(truth: ArrayLike, table: Table) -> dict[str, float]:
    values = np.atleast_1d(numbers(truth, "truth"))
    names = table.theta if values.shape == (len(table.theta),) else table.names
    if values.shape != (len(names),):
        raise InvalidInputError(
            f"truth must hold one value for each of {', '.join(table.names)}, got"
            f" {describe(values)}: a dictionary from names to values may leave some out, and"
            " named_truth(model, theta) adds derived quantities."
        )
    return dict(zip(names, values.tolist(), strict=True))


def _what(name: object) -> str:
    return f"draws[{str(name)!r}]"


def _table(
    value: DrawsOf, what: str, names: Sequence[str] | None, first: AbstractPosterior | None
) -> Table:
    if isinstance(value, Certificate):
        value = value.corrected
    if isinstance(value, AbstractPosterior):
        columns = _columns(value)
        rows = even_rows(value.weights)
        return Table(tuple(columns), np.stack(list(columns.values()), axis=1)[rows], value.names)
    if isinstance(value, (str, bytes)) or value is None or isinstance(value, Mapping):
        raise InvalidTypeError(
            f"{what} must be a posterior or an array of draws (N, p), got {describe(value)}."
        )
    array = one_sample(
        value,
        what,
        advice="pass a posterior, such as fit.posterior(observed), or an array of draws",
    )
    if names is None and first is not None:
        names = first.names if array.shape[1] == len(first.names) else tuple(_columns(first))
    chosen = column_names(names, array.shape[1], what)
    return Table(chosen, array, chosen if first is None else first.names)


def numbers(value: ArrayLike | None, name: str) -> np.ndarray:
    """The value as a float64 array."""
    return real_array(value, name, advice="pass an array")


def column_names(
    names: Sequence[str] | None, width: int, what: str, *, stem: str = "theta"
) -> tuple[str, ...]:
    """The names given, checked, or numbered ones."""
    given = (names,) if isinstance(names, str) else names
    if given is not None and not isinstance(given, Iterable):
        raise InvalidTypeError(
            f"names must be {width} strings, one per column of {what}, got {describe(given)}."
        )
    chosen = tuple(f"{stem}[{j}]" for j in range(width)) if given is None else tuple(given)
    if not all(isinstance(name, str) for name in chosen):
        raise InvalidTypeError(
            f"names must be strings, one per column of {what}, got {', '.join(map(repr, chosen))}."
        )
    if len(chosen) != width or len(set(chosen)) != width:
        raise InvalidInputError(
            f"{what} has {width} columns and needs as many different names, got {len(chosen)}:"
            f" {', '.join(chosen)}. named_draws(model, theta) names draws of theta and adds derived"
            " quantities."
        )
    return chosen


def even_rows(weights: Float[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """Rows at evenly spaced points of cumulated weights: equally weighted draws, without
    randomness.

    Args:
        weights: Weights of draws, shape (n,), with sum 1.

    Returns:
        Numbers of rows: all of them if weights are equal, else at least 1000.
    """
    if np.ptp(weights) <= 1e-12:
        return np.arange(len(weights))
    num = max(len(weights), _MIN_RESAMPLED)
    return systematic_rows(weights, num, 0.5)


def _check_same(made: Mapping[str, Table]) -> None:
    (first, table), *others = made.items()
    for name, other in others:
        if other.names != table.names:
            shared = [column for column in table.names if column in other.names]
            advice = f"pass columns={shared!r}" if shared else "pass names= for arrays"
            raise InvalidInputError(
                f"All methods must have the same columns, got {', '.join(table.names)} for"
                f" {first!r} and {', '.join(other.names)} for {name!r}: {advice}, or add derived"
                " quantities by named_draws(model, theta)."
            )


def _columns(posterior: AbstractPosterior) -> dict[str, np.ndarray]:
    return {**dict(zip(posterior.names, posterior.theta.T, strict=True)), **posterior.derived}
