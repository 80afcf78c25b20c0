"""What is asked of columns before anything runs: one sentence for each mistake."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from noisewise._core.arrays import describe
from noisewise.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    import pandas as pd

_MOSTLY = 0.5
"""Share of a text column's values that read as numbers above which it is a column of numbers with a
mistake in it, and none of names.
"""


def check_frame(data: Any) -> pd.DataFrame:
    """The data frame, if it is one with rows."""
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        raise InvalidTypeError(
            "data must be a pandas DataFrame with a row for each answer or cell, such as"
            f' pandas.read_csv("survey.csv"); got {describe(data)}.'
        )
    if data.empty:
        raise InvalidInputError("data has no rows, or no columns.")
    return data


def require_columns(frame: pd.DataFrame, names: Collection[str], where: str) -> None:
    """Refuse names that are no columns, with the nearest one that is."""
    for name in sorted(names):
        if name not in frame.columns:
            columns = [str(column) for column in frame.columns]
            near = difflib.get_close_matches(name, columns, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InvalidInputError(
                f"{where} has {name!r}, which is no column of the data: {hint}Columns are"
                f" {', '.join(map(repr, columns))}."
            )
        if list(frame.columns).count(name) > 1:
            raise InvalidInputError(
                f"{where} has {name!r}, which several columns of the data are called: rename them."
            )


def check_covariate(frame: pd.DataFrame, name: str) -> None:
    """Refuse missing and infinite values, and text among numbers."""
    import pandas as pd

    column = frame[name]
    missing = column.isna().to_numpy()
    is_number = pd.api.types.is_numeric_dtype(column.dtype)
    if is_number:
        missing = missing | ~np.isfinite(column.to_numpy(dtype=float, na_value=np.nan))
    if missing.any():
        row = frame.index[np.flatnonzero(missing)[0]]
        raise InvalidInputError(
            f"Column {name!r} is missing or infinite in {missing.sum()} of {len(column)} rows,"
            f" first in row {row!r}: covariates must be known, so leave these rows out,"
            f" data.dropna(subset=[{name!r}]) or --drop-missing, or fill them in. Only the outcome"
            " may be missing."
        )
    if is_number or isinstance(column.dtype, pd.CategoricalDtype):
        return
    read = pd.to_numeric(column.astype(str), errors="coerce").to_numpy(dtype=float)
    if np.isfinite(read).mean() > _MOSTLY:
        wrong = np.flatnonzero(~np.isfinite(read))
        found = f", but {column.iloc[wrong[0]]!r} is no number" if wrong.size else " as text"
        raise InvalidInputError(
            f"Column {name!r} holds numbers{found}: correct it and write data[{name!r}] ="
            f" pandas.to_numeric(data[{name!r}]), or C({name}) in the formula if these are names of"
            " groups, after data"
            f'[{name!r}] = data[{name!r}].astype("category").'
        )


def numbers(frame: pd.DataFrame, name: str, what: str) -> Float[np.ndarray, " n"]:
    """A column of numbers; missing values are NaN."""
    import pandas as pd

    column = frame[name]
    if not pd.api.types.is_numeric_dtype(column.dtype):
        shown = column.dropna()
        first = repr(shown.iloc[0]) if len(shown) else "nothing"
        raise InvalidInputError(
            f"{what} {name!r} must hold numbers, but holds text such as {first}: write"
            f' data[{name!r}] = (data[{name!r}] == "yes") * 1.0, or'
            f" pandas.to_numeric(data[{name!r}])."
        )
    values = column.to_numpy(dtype=float, na_value=np.nan)
    if np.isinf(values).any():
        row = frame.index[np.flatnonzero(np.isinf(values))[0]]
        raise InvalidInputError(f"{what} {name!r} is infinite in row {row!r}.")
    return values


def rows_where(frame: pd.DataFrame, given: Any) -> Bool[np.ndarray, " n"]:
    """Rows that a column of True and False, or an array, marks; none without one."""
    if given is None:
        return np.zeros(len(frame), dtype=bool)
    if isinstance(given, str):
        require_columns(frame, [given], "missing")
        given = frame[given].to_numpy()
    marks = np.asarray(given)
    if marks.shape != (len(frame),) or not np.isin(marks, (0, 1)).all():
        raise InvalidInputError(
            f"missing must be a column of True and False, or {len(frame)} of them, one per row; got"
            f" {describe(given)}."
        )
    return marks.astype(bool)
