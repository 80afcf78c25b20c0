"""Files of releases: a JSON object with the fields of a release by name.

Version 2 added `labels` and `source`, numbers that are absent (null), relations of neighbours other
than replace-one, and whether the guarantee is stated. A release that has none of these is written
as version 1, which stays as it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewise import mechanisms
from noisewise._core.json_files import dump_json, read_json, reading, require_keys, require_schema
from noisewise._core.neighbours import ReplaceOne
from noisewise.disclosure.fields import or_none, relation_from, relation_in_file
from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.mechanisms.guarantees import guarantee_from_spec

if TYPE_CHECKING:
    from noisewise.disclosure.publication import Release

SCHEMA = "noisewise.release"
"""What files of releases call themselves."""
_VERSION = 2
"""Of the layout of files."""
_ADDED = ("labels", "source", "part")
"""The fields that files of version 1 do not have."""
_STATED = "guarantee_is_stated"


def text_of(release: Release) -> str:
    """The text of the file of a release.

    Args:
        release: The release.
    """
    fields = {field.name: getattr(release, field.name) for field in dataclasses.fields(release)}
    fields["values"] = [or_none(value) for value in release.values]
    fields["mechanism"] = release.mechanism.to_spec()
    for name in ("guarantee", "requested"):
        said = fields[name]
        fields[name] = None if said is None else said.to_spec(beside=release.neighbours)
    fields["neighbours"] = relation_in_file(release.neighbours)
    if release.guarantee_is_stated:
        fields[_STATED] = True
    if release.part is None:
        del fields["part"]
    version = 1 if _fits_version_1(release) else _VERSION
    if version == 1:
        fields = {name: value for name, value in fields.items() if name not in _ADDED}
    return dump_json({"schema": SCHEMA, "schema_version": version, **fields})


def require_release(path: Path) -> None:
    """Refuse to overwrite a file that is something else than a release.

    Args:
        path: The file.
    """
    if not path.exists():
        return
    with contextlib.suppress(FileFormatError):
        if read_json(path, "The file").get("schema") == SCHEMA:
            return
    raise InvalidInputError(f"{path} exists and is not a release: it is kept. Choose another name.")


def _fits_version_1(release: Release) -> bool:
    """Whether a file of version 1 says all of it: a matter of public facts, not of the values."""
    absent = release.mechanism.support.may_be_absent(len(release.values))
    return (
        release.labels is None
        and release.source is None
        and release.part is None
        and not absent.any()
        and not release.guarantee_is_stated
        and isinstance(release.neighbours, ReplaceOne)
    )


def _refuse_later(content: dict[str, Any], what: str) -> None:
    """Refuse a file of version 1 with what only later versions have."""
    values = content.get("values")
    added = [name for name in (*_ADDED, _STATED) if name in content]
    added += ["neighbours"] if isinstance(content.get("neighbours"), dict) else []
    added += ["absent values"] if isinstance(values, list) and None in values else []
    if added:
        raise FileFormatError(f"{what} is of version 1, which has no {', '.join(added)}.")


def release_of(content: dict[str, Any], what: str, kind: type[Release]) -> Release:
    """The release in a file.

    Args:
        content: The object in the file.
        what: The file, as messages name it.
        kind: The class.

    Raises:
        FileFormatError: If it is not what `text_of` writes, in this version or an older one.
    """
    names = [field.name for field in dataclasses.fields(kind)]
    first = content.get("schema_version") == 1
    require_schema(content, SCHEMA, 1 if first else _VERSION, what)
    if first:
        _refuse_later(content, what)  # the oldest files have no ids
        content = {"ids": [], **content, **dict.fromkeys(_ADDED)}
    content = {"part": None, **content}
    stated = content.pop(_STATED, None)
    require_keys(content, ["schema", "schema_version", *names], what)
    with reading(what):
        fields = {name: content[name] for name in names}
        if not all(isinstance(fields[name], list) for name in ("values", "names", "ids")):
            raise FileFormatError("values, names and ids must be lists.")
        fields["mechanism"] = mechanisms.from_spec(fields["mechanism"])
        relation = relation_from(fields["neighbours"], fields["privacy_unit"])
        for name in ("guarantee", "requested"):
            spec = fields[name]
            fields[name] = None if spec is None else guarantee_from_spec(spec, beside=relation)
        found = kind(**fields | {"neighbours": relation})
        if stated not in (None, found.guarantee_is_stated):
            raise FileFormatError(
                "it says otherwise than its mechanism whether the guarantee is stated or derived."
            )
        return found
