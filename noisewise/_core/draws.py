"""Checks of draws that metrics, diagnostics and plots make first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import describe
from noisewise.errors import InvalidInputError, InvalidTypeError

MIN_DRAWS = 10
"""Draws below which distances, ranks and densities mean nothing."""

DRAWS_OF = (
    "posterior.sample(key, n) gives draws of a posterior, fit.posterior(observed) the posterior of"
    " a fit"
)
"""What messages say to someone who gives an object where draws are taken."""

_ROUNDING = 1e-12
"""Relative: a spread below is rounding in what computed the draws."""

_LARGEST = 1e150
"""The largest number: squares of larger ones overflow."""


def two_samples(
    reference: Any, draws: Any, *, allow_constant: bool = True
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "m d"]]:
    """Check two sets of draws that are to be compared.

    Args:
        reference: Draws, shape (n, d) or (n,).
        draws: Draws, shape (m, d) or (m,).
        allow_constant: Whether columns of the reference may be constant.

    Returns:
        Both as float64 arrays, (n, d) and (m, d).

    Raises:
        InvalidInputError: If their widths differ, or `one_sample` refuses one of them.
    """
    first, second = one_sample(reference, "reference"), one_sample(draws, "draws")
    if first.shape[1] != second.shape[1]:
        raise InvalidInputError(
            f"reference and draws must have the same number of columns, got {first.shape[1]} and"
            f" {second.shape[1]}."
        )
    if not allow_constant and constant_columns(first).any():
        columns = np.flatnonzero(constant_columns(first)).tolist()
        raise InvalidInputError(
            f"Columns {columns} of the reference are constant: leave them out of the comparison."
        )
    return first, second


def one_sample(value: Any, name: str, *, advice: str = DRAWS_OF) -> Float[np.ndarray, "n d"]:
    """Check one set of draws.

    Args:
        value: Draws, shape (n, d) or (n,).
        name: The argument that they were given for, as messages name it.
        advice: Advice for values that are not arrays.

    Returns:
        The draws as float64, shape (n, d).

    Raises:
        InvalidInputError: If there are fewer than ten, or some are not finite or too large.
        InvalidTypeError: If they are not numbers.
    """
    array = real_array(value, name, advice=advice)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInputError(f"{name} must have shape (n, d), got {array.shape}.")
    if len(array) < MIN_DRAWS:
        raise InvalidInputError(
            f"{name} must hold at least {MIN_DRAWS} draws, got {len(array)}: draw more."
        )
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).any(axis=1).sum())
        raise InvalidInputError(
            f"{name} must be finite; {bad} of {len(array)} rows hold NaN or infinity: leave them"
            " out."
        )
    if np.abs(array).max() > _LARGEST:
        raise InvalidInputError(
            f"{name} holds numbers beyond {_LARGEST:g}, whose squares overflow: change units."
        )
    return array


def point_and_draws(
    point: Any, draws: Any, names: tuple[str, str]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "n d"]]:
    """Check one point and the draws that it is compared with.

    Args:
        point: One row, shape (d,).
        draws: Draws, shape (n, d).
        names: The two arguments, as messages name them.

    Returns:
        The row, shape (d,), and the draws, shape (n, d), both float64 and finite.

    Raises:
        InvalidInputError: If the shapes do not fit; where they say that the two are swapped, so
            does the message.
    """
    row, values = (
        real_array(value, name) for value, name in zip((point, draws), names, strict=True)
    )
    many = row.ndim == 2 and len(row) >= MIN_DRAWS
    if many or (
        row.ndim == 1 and len(row) >= MIN_DRAWS and values.ndim < 2 and values.size < MIN_DRAWS
    ):
        raise InvalidInputError(
            f"{names[0]} comes first and is one row of numbers, {names[1]} second; got shapes"
            f" {row.shape} and {values.shape}: are the two swapped?"
        )
    values = one_sample(values, names[1])
    width = values.shape[1]
    if row.shape != (width,) or not np.isfinite(row).all():
        raise InvalidInputError(
            f"{names[0]} must be {width} finite numbers, one for each column of {names[1]}, got"
            f" shape {row.shape}{'' if np.isfinite(row).all() else ' with NaN or infinity'}."
        )
    return row, values


def real_array(value: Any, name: str, *, advice: str = DRAWS_OF) -> np.ndarray:
    """The value as a float64 array of any shape.

    Args:
        value: Numbers.
        name: The argument that they were given for, as messages name it.
        advice: Advice for values that are not arrays.

    Raises:
        InvalidTypeError: If it holds texts, None or objects.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # rows of several lengths, or a key
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        plain = value is None or isinstance(value, (str, bytes, Sequence, np.ndarray))
        raise InvalidTypeError(
            f"{name} must be a rectangular array of numbers, got"
            f" {describe(value)}{'' if plain else f': {advice}'}."
        )
    return array.astype(np.float64)


def constant_columns(values: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " d"]:
    """Which columns of values (n, d) do not spread, up to rounding."""
    return np.asarray(np.ptp(values, axis=0) <= _ROUNDING * np.abs(values).max(axis=0))


def filled_below(rows: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Rows with a number below all others of its column in place of NaN.

    It is as far below the least as the numbers that are there differ on average, or 1 where they do
    not differ: a function of all rows alike, so that ranks among exchangeable rows stay exact.
    Columns without NaN are as they were; a column of NaN alone is 0.

    >>> filled_below(np.array([[1.0, 5.0], [3.0, np.nan], [np.nan, 5.0]])).tolist()
    [[1.0, 5.0], [3.0, 4.0], [0.0, 5.0]]
    """
    absent = np.isnan(rows)
    columns = np.flatnonzero(absent.any(axis=0))
    filled = rows.copy() if columns.size else rows
    for j in columns:
        there = rows[~absent[:, j], j]
        filled[absent[:, j], j] = there.min() - (there.std() or 1.0) if there.size else 0.0
    return filled
