"""Entries for the public registry of deployments of differential privacy."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from noisewise._core.json_files import json_line, require_text
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.mechanisms.guarantees import (
    AbstractGuarantee,
    ApproximateDP,
    PureDP,
    ZeroConcentratedDP,
)

if TYPE_CHECKING:
    from noisewise.disclosure import Release

_VARIANTS: dict[type[AbstractGuarantee], str] = {
    PureDP: "Pure DP",
    ApproximateDP: "Approximate DP",
    ZeroConcentratedDP: "Zero-concentrated DP",
}
"""What the registry calls guarantees, which has no name for others."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def registry_entry(
    release: Release,
    *,
    name: str = "",
    curators: Sequence[str] = (),
    description: str = "",
    intended_use: str = "",
    region: str = "",
    publication_date: str = "",
    authors: Sequence[str] = (),
    slug: str = "",
) -> str:
    r"""The YAML of an entry in the public registry of deployments, as a draft.

    What the release says is filled in: the guarantee, the unit, the neighbours, and the mechanism
    in words. What it does not say and is not given stays empty, for a person to fill in.

    Args:
        release: What was published.
        name: The name of the product.
        curators: Who publishes it.
        description: What it is; by default the release's description.
        intended_use: What it is for.
        region: The region that it covers.
        publication_date: The day, as in 2026-01-31.
        authors: Who wrote the entry.
        slug: The short name of the entry; by default made of its name.

    Returns:
        The text of the file.

    Raises:
        MissingCapabilityError: If the release has no guarantee, or promises nothing.
        InvalidInputError: If a text is no printable line, or the date is none.

    Reference:
        https://github.com/opendp/deployments-registry-data

    >>> import noisewise as nw
    >>> noise = nw.mechanisms.Laplace(scale=2.0, sensitivity=1.0)
    >>> text = registry_entry(nw.Release([12.0], noise), name="Stays")
    >>> print("\n".join(line for line in text.splitlines() if "epsilon" in line))
          epsilon: 0.5
    """
    given = {
        "name": name,
        "description": description,
        "intended_use": intended_use,
        "region": region,
        "slug": slug,
        **{f"curators[{place}]": each for place, each in enumerate(curators)},
        **{f"authors[{place}]": each for place, each in enumerate(authors)},
    }
    for argument, text in given.items():
        require_text(text, argument, empty=True)
    if publication_date and not _DATE.fullmatch(publication_date):
        raise InvalidInputError("publication_date must be a day such as '2026-01-31'.")
    variant, parameters, how = _guarantee(release)
    entry: dict[str, Any] = {
        "url_slug": slug or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [{"data_curator_name": each} for each in curators],
                "description": description or release.description,
                "intended_use": intended_use,
                "data_product_type": "Summary statistics",
                "data_product_region": region,
                "publication_date": publication_date,
            },
            "dp_variant": {"variant_name": variant},
            "privacy_loss": {
                "privacy_unit": release.neighbours.unit,
                "privacy_unit_details": f"Neighbours are {release.neighbours.describe()}.",
                "privacy_parameters": parameters,
                "privacy_parameters_details": how,
            },
            "deployment_model": {"model_name": "Central", "access_type": "Non-interactive"},
            "implementation": {"mechanisms": release.mechanism.describe()},
            "administrative": {"status": "Draft", "registry_authors": list(authors)},
        },
    }
    return "\n".join(_lines(entry, "")) + "\n"


def _guarantee(release: Release) -> tuple[str, dict[str, float], str]:
    """The guarantee in the registry's words, its numbers, and how it is known."""
    found = release.guarantee
    if found is None:
        raise MissingCapabilityError(
            "This release has no guarantee to register: its sensitivity is not known. State what"
            " the publisher states, Release(..., guarantee=...)."
        )
    how = "Stated by the publisher." if release.guarantee_is_stated else "Follows from the noise."
    if type(found) not in _VARIANTS:
        how = f"{how} Converted from {found!r}."
        found = _converted(found)
    numbers = {
        field.name: value
        for field in dataclasses.fields(found)
        if isinstance(value := getattr(found, field.name), float)
    }
    return _VARIANTS[type(found)], numbers, how


def _converted(guarantee: AbstractGuarantee) -> AbstractGuarantee:
    """A guarantee that the registry has a name for."""
    try:
        return guarantee.to(ZeroConcentratedDP)
    except ValueError:
        raise MissingCapabilityError(
            f"The registry has no name for {guarantee!r}, and it implies none that has one."
        ) from None


def _lines(value: Any, indent: str) -> Iterator[str]:
    """YAML in block style; every text is quoted as JSON quotes it, which YAML reads alike."""
    for key, item in value.items():
        if isinstance(item, dict):
            yield f"{indent}{key}:"
            yield from _lines(item, indent + "  ")
        elif isinstance(item, list) and item:
            yield f"{indent}{key}:"
            for entry in item:
                if isinstance(entry, dict):
                    ((name, text),) = entry.items()
                    yield f"{indent}  - {name}: {_scalar(text)}"
                else:
                    yield f"{indent}  - {_scalar(entry)}"
        else:
            yield f"{indent}{key}: {'[]' if isinstance(item, list) else _scalar(item)}"


def _scalar(value: str | float) -> str:
    r"""A text or a number; YAML takes a number with an exponent for a text if it has no point.

    >>> _scalar(1e-10), _scalar(0.5), _scalar('a "b": c')
    ('1.0e-10', '0.5', '"a \\"b\\": c"')
    """
    if isinstance(value, str):
        return json_line(value)
    text = repr(value) if math.isfinite(value) else ".inf"
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
