"""Whether the cells of a release, of a model and of a prior are the same ones, in one order."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisewise.errors import InvalidInputError, MissingCapabilityError

if TYPE_CHECKING:
    from noisewise.disclosure import Release
    from noisewise.mechanisms.base import AbstractMechanism
    from noisewise.priors.prior import Prior

_SHOWN = 3
"""Cells that a message names of each side: enough to see the order."""

_COMPARED = 2_000
"""Cells whose noise is compared one by one for a message, at most: a second of work."""


def check_cells(names: tuple[str, ...], release: Release, *, are_labels: bool) -> None:
    """Refuse a release of other cells than the model's, or of the same in another order, where both
    name theirs.

    Args:
        names: The names of the model's numbers; none where it does not know them.
        release: A release.
        are_labels: Whether they were made of labels; else only the same names in another order are
            refused, as a user's function names its numbers as it likes.

    Raises:
        InvalidInputError: If the names differ; the message says what to write.
    """
    theirs = release.names or ()
    if not names or release.labels is None or names == theirs:
        return
    reordered = sorted(names) == sorted(theirs)
    if not (reordered or are_labels):
        return
    same, line = "", ""
    if reordered:
        dimensions, first = list(release.labels), theirs.index(names[0])
        row = tuple(column[first] for column in release.labels.values())
        index, place = (dimensions, row) if len(row) > 1 else (dimensions[0], row[0])
        same = ": the same in another order"
        line = f", as in frame.set_index({index!r}).loc[[{place!r}, ...]].reset_index()"
    raise InvalidInputError(
        f"The release's cells are {_few(theirs, names)}, the model's are {_few(names, theirs)}"
        f"{same}. Give nw.Release.from_table the rows in the model's order{line}, or make the model"
        " from this release, with a law of the cells in its order. If they are the same cells under"
        " other names, pass release.observed."
    )


def same_noise_in_another_order(mine: AbstractMechanism, theirs: AbstractMechanism) -> bool:
    """Whether two mechanisms of k cells are those of the same cells, in another order."""
    width = mine.width
    if width is None or width != theirs.width or width > _COMPARED:
        return False
    try:
        found = [
            sorted(repr(noise.of_columns([j])) for j in range(width)) for noise in (mine, theirs)
        ]
    except MissingCapabilityError:
        return False
    return found[0] == found[1]


def warn_of_labels(prior: Prior, labels: Mapping[str, Sequence[Any]]) -> None:
    """Warn where a parameter has one entry for each cell of a table, in another order: a law such
    as `dist.Poisson(theta["rate"])` takes them by their place.

    Args:
        prior: The prior, whose labels are texts.
        labels: The labels of the cells.
    """
    for name, axes in prior.labels.items():
        for (dimension, column), axis in itertools.product(labels.items(), axes):
            cells = tuple(map(str, column))
            if axis != cells and sorted(axis) == sorted(cells):
                warnings.warn(
                    f"The entries of {name!r} are {_few(axis, cells)}, the cells of the release are"
                    f" {_few(cells, axis)}: a law of the cells has the order of the release. Unless"
                    " yours brings them into it, write labels={"
                    f'"{name}": list(release.table["{dimension}"])}}.',
                    stacklevel=4,
                )


def _few(names: Sequence[Any], others: Sequence[Any]) -> str:
    """Some names, from the first on that differs."""
    pairs = itertools.zip_longest(names, others)
    start = next((j for j, (one, other) in enumerate(pairs) if one != other), 0)
    start = min(start, len(names) - 1)
    listed = [str(name) for name in names[start : start + _SHOWN]]
    comma = "; " if any("," in name for name in listed) else ", "
    more = ["..."] if start + _SHOWN < len(names) else []
    return comma.join([*(["..."] if start else []), *listed, *more])
