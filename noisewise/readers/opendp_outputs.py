"""Outputs of OpenDP: of a measurement that was serialised, or of a query that was summarised."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisewise._core.arrays import describe, number
from noisewise._core.files import PathLike
from noisewise._core.json_files import parse_json
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.readers import opendp_summaries
from noisewise.readers.description import TableDescription, reader
from noisewise.readers.files import SourceFile, check_size, read_source
from noisewise.readers.frames import ABSENT, all_cells, frame_of, public_cells
from noisewise.readers.laws import Law, relation_or_given, require_privacy
from noisewise.readers.opendp_recipes import MAX_DEPTH, Recipe, recipe_of

if TYPE_CHECKING:
    import pandas as pd

CELL, VALUE = "cell", "value"
"""The columns of a table that is made of a measurement's output."""


@reader
def opendp(
    path: PathLike,
    *,
    output: Any = None,
    sensitivity: float | Mapping[str, float] | None = None,
    neighbours: Any = None,
    guarantee: Any = None,
    labels: Sequence[str] | str = (),
    columns: Sequence[str] | None = None,
    cells: pd.DataFrame | Sequence[str] | PathLike | None = None,
    atom: str | None = None,
    threshold: float | None = None,
    signed: bool | None = None,
    name: str | None = None,
    description: str = "",
) -> TableDescription:
    r"""Read what an OpenDP measurement or query released.

    The file is either the JSON of `dp.serialize(measurement)`, alone or as {"measurement": ...,
    "output": ...}, or the table of a query's `.summarize()`, saved as CSV or Parquet. It has the
    noise, not the sensitivity: that is asked for. In how many records neighbours differ is said by
    a Context, and asked for otherwise.

    Whole numbers without a sign (u32) end at 0, where OpenDP cuts the noise off, so that their law
    is clamped. Thresholds of constructors are inclusive, those of queries are not: a group is
    published if its noisy length is above the threshold. A sum of a group that is not published is
    no measurement: only the noisy length decided.

    Args:
        path: The file.
        output: What was released. Of a measurement a number, a list, a mapping from labels to
            numbers, or a JSON file with one of them. Of a query its table: a frame, or a CSV or
            Parquet file.
        sensitivity: The largest change of the statistic between neighbours, as the measurement's
            `.map` uses it; of a query for each column.
        neighbours: The relation of neighbours, where the file does not say it.
        guarantee: What the publisher states, in place of `sensitivity`.
        labels: The grouping columns of a query's table.
        columns: The columns of a query that are read; by default all.
        cells: The public list of keys or groups, needed where a threshold leaves some out: a frame,
            a file, or a list of keys.
        atom: The type of numbers, such as "f64", "i64" or "u32", where the file does not say it.
        threshold: The least number that is published, where the file does not say it.
        signed: Whether counts of a query may be negative (`dp.len(signed=True)`).
        name: What the table is called.
        description: A line about it.

    Returns:
        The release; `opendp.describe(...)` gives the `TableDescription`.

    Raises:
        InvalidInputError: If something is missing that the file does not say.
        FileFormatError: If the file is damaged, or its noise is not known.

    Reference:
        The OpenDP library, https://docs.opendp.org.

    >>> import json, pathlib, tempfile
    >>> import noisewise as nw
    >>> numbers = {"__function__": "atom_domain", "__kwargs__": {"T": "i64"}}
    >>> noise = {"input_domain": numbers, "scale": 2.0}
    >>> path = pathlib.Path(tempfile.mkdtemp(), "measurement.json")
    >>> _ = path.write_text(json.dumps({"__function__": "make_laplace", "__kwargs__": noise}))
    >>> found = opendp(path, output=12, sensitivity=1.0, neighbours=nw.AddRemoveOne())
    >>> found.values, found.mechanism.scale, found.guarantee.epsilon
    ((12.0,), 2.0, 0.5)
    """
    source = read_source(path)
    require_privacy(sensitivity, guarantee)
    if not source.content.lstrip().startswith(b"{"):
        if atom is not None or threshold is not None:
            raise InvalidInputError("atom and threshold belong to measurements, not to summaries.")
        return opendp_summaries.described(
            source,
            output=output,
            sensitivity=sensitivity,
            labels=labels,
            columns=columns,
            cells=cells,
            signed=signed,
            neighbours=neighbours,
            guarantee=guarantee,
            name=name,
            description=description,
        )
    if labels or columns is not None or signed is not None:
        raise InvalidInputError("labels, columns and signed belong to summaries of queries.")
    tree, inside = _parts(source)
    recipe = recipe_of(tree)
    values = _released(inside if output is None else output, source)
    relation = relation_or_given(recipe.relation, recipe.contributions, neighbours, guarantee)
    law = dataclasses.replace(recipe.law(atom, sensitivity), neighbours=relation)
    if threshold is not None:
        law = _with_threshold(law, recipe, number("threshold")(threshold))
    if isinstance(sensitivity, Mapping):
        raise InvalidTypeError(
            "The sensitivity of a measurement is one number, not one per column."
        )
    frame = _frame(values, recipe, law.threshold, _keys(cells))
    return TableDescription(
        frame_of(frame),
        value=VALUE,
        labels=(CELL,),
        mechanism=law.mechanism(),
        absent=None if law.threshold is None else ABSENT,
        neighbours=relation,
        guarantee=guarantee,
        source=source.origin("opendp", sensitivity=sensitivity, atom=atom),
        name=name,
        description=description,
    )


def _parts(source: SourceFile) -> tuple[Any, Any]:
    """The measurement in a file, and its output where that is in it too."""
    value = parse_json(source.content, f"The file {source.name}", max_depth=MAX_DEPTH)
    if set(value) == {"measurement", "output"}:
        return value["measurement"], value["output"]
    return value, None


def _released(output: Any, source: SourceFile) -> dict[str, float]:
    """What a measurement released, by label."""
    if output is None:
        raise InvalidInputError(
            f"{source.name} has the measurement, not what it released: give --output FILE"
            " (output=), a number, a list, or labels with numbers."
        )
    if isinstance(output, (str, os.PathLike)):
        file = read_source(output)
        # One value of any kind, in an object that the strict parser takes.
        found = parse_json(b'{"output":' + file.content + b"}", f"The file {file.name}")
        if set(found) != {"output"}:
            raise FileFormatError(f"{file.name} must hold one JSON value.")
        output = found["output"]
    if hasattr(output, "tolist"):
        output = output.tolist()
    if isinstance(output, Mapping):
        values = {str(label): _number(value) for label, value in output.items()}
    else:
        entries = output if isinstance(output, (list, tuple)) else [output]
        values = {str(place): _number(value) for place, value in enumerate(entries)}
    if not values and not isinstance(output, Mapping):
        raise InvalidInputError("The output (output=) is empty.")
    check_size(source, len(values))
    return values


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidTypeError(f"An output of noise is a number, got {describe(value)}.")
    if not abs(value) < float("inf"):
        raise InvalidInputError("An output of noise is a finite number, got NaN or infinity.")
    return float(value)


def _with_threshold(law: Law, recipe: Recipe, threshold: float) -> Law:
    """A law with a threshold that the file does not say."""
    if recipe.threshold is not None:
        raise InvalidInputError("The file has the threshold: leave out --threshold (threshold=).")
    return dataclasses.replace(law, threshold=threshold)


def _keys(cells: Any) -> list[str] | None:
    """The public list of keys; None for none."""
    if cells is None:
        return None
    if isinstance(cells, (list, tuple)):
        return [str(key) for key in cells]
    found = public_cells(cells, (CELL,))
    return None if found is None else found[CELL].tolist()


def _frame(
    values: dict[str, float], recipe: Recipe, threshold: float | None, keys: list[str] | None
) -> dict[str, list[Any]]:
    """One row per public key, in that order: keys that are not in the output are absent."""
    if keys is None and threshold is None and recipe.size not in (None, len(values)):
        raise FileFormatError(
            f"The measurement has {recipe.size} entries, the output {len(values)}."
        )
    labels = all_cells(list(values), keys, "output", suppressed=threshold is not None)
    return {CELL: labels, VALUE: [values.get(label, ABSENT) for label in labels]}
