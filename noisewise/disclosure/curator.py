"""How a curator makes a release: every check first, then the ledger, then the noise, then the file."""

from __future__ import annotations

import contextlib
import functools
import platform
import warnings
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from noisewise import __version__
from noisewise._files import as_path, require_new, require_text
from noisewise.disclosure.exact_mechanisms import exact_draw, require_exact
from noisewise.disclosure.fields import as_names, as_requested
from noisewise.disclosure.ledger import Ledger
from noisewise.disclosure.path import check_fit, choose_mechanism, confidential_integers, on_grid
from noisewise.disclosure.publication import Release
from noisewise.errors import InvalidTypeError, NoisewiseError, ReleaseError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.guarantees import AbstractGuarantee
from noisewise.queries import AbstractQuery, FunctionQuery


def release(
    data: Any,
    query: AbstractQuery,
    guarantee: AbstractGuarantee | None = None,
    *,
    mechanism: AbstractMechanism | None = None,
    names: Iterable[str] | None = None,
    privacy_unit: str = "person",
    ledger: Ledger | None = None,
    description: str = "",
    save_to: Any = None,
) -> Release:
    """Release a statistic of confidential data with exact integer noise.

    Give either a `guarantee`, to which noise is then calibrated (discrete Laplace for PureDP, discrete Gaussian for
    ZeroConcentratedDP and ApproximateDP, the exponential mechanism for a Median), or a `mechanism`. A real-valued query
    without a grid gets one from its bounds, and the result records it. Values outside the bounds are clamped, that
    being the query; missing, infinite, misshapen and unknown values are refused.

    With a `ledger` what the mechanism implies, and what was asked for, is written to disk before noise is drawn; where
    the limit would be passed, nothing happens. With `save_to`, the path of a new file, the release is saved there; a path
    that exists or cannot be written is refused before anything is spent, so that running a script twice does not pay
    twice. `description` is public. Errors never contain data. How long a draw takes depends on the noise: do not
    publish it.

    >>> import noisewise as nw
    >>> query = nw.queries.Histogram(edges=(0.0, 30.0, 60.0, 120.0), num_records=5)
    >>> published = release([21.0, 34.0, 35.0, 62.0, 80.0], query, nw.PureDP(1.0))
    >>> published.names, published.mechanism
    (('[0.0, 30.0)', '[30.0, 60.0)', '[60.0, 120.0]'), DiscreteLaplace(scale=2.0, sensitivity=2.0, step=1.0))
    """
    if not isinstance(query, AbstractQuery):
        swapped = " Are data and query swapped?" if isinstance(data, AbstractQuery) else ""
        name = type(query).__name__
        raise InvalidTypeError(f"query must be one such as nw.queries.ClampedMean(...), got {name}.{swapped}")
    path = _new_path(save_to)
    query = query if isinstance(query, FunctionQuery) else on_grid(query)
    mechanism = _mechanism(query, guarantee, mechanism)
    require_exact(mechanism, query)
    check_fit(mechanism, query)
    as_requested(guarantee, mechanism.guarantee)
    _check_ledger(ledger, require_text(privacy_unit, "privacy_unit"))
    description = require_text(description, "description", empty=True)
    integers, steps = confidential_integers(data, query, mechanism)
    draw = exact_draw(mechanism, integers, steps)
    names = as_names(names, query, mechanism.output_width(len(integers)))
    if ledger is not None:
        kind = type(query).__name__
        about = description or f"{kind} by {type(mechanism).__name__}"
        ledger.spend(mechanism.guarantee, about, requested=guarantee, query=kind)
    published = Release(
        values=tuple(draw()),
        mechanism=mechanism,
        names=names,
        requested=guarantee,
        privacy_unit=privacy_unit,
        query=None if isinstance(query, FunctionQuery) else query.to_spec(),
        description=description,
        versions=_used_versions(),
    )
    if path is not None:
        _save_or_warn(published, path)
    return published


def _mechanism(query: AbstractQuery, guarantee: Any, mechanism: Any) -> AbstractMechanism:
    if isinstance(guarantee, AbstractMechanism):
        raise InvalidTypeError(f"guarantee is a mechanism, {type(guarantee).__name__}: pass it as mechanism=...")
    if (guarantee is None) == (mechanism is None):
        raise ReleaseError("Pass either a guarantee, such as PureDP(1.0), or mechanism=..., and not both.")
    if mechanism is not None and not isinstance(mechanism, AbstractMechanism):
        raise InvalidTypeError(f"mechanism must be one such as DiscreteLaplace(...), got {type(mechanism).__name__}.")
    if guarantee is not None and not isinstance(guarantee, AbstractGuarantee):
        raise InvalidTypeError(f"guarantee must be one such as PureDP(1.0), got {type(guarantee).__name__}.")
    return choose_mechanism(query, guarantee) if mechanism is None else mechanism  # type: ignore[arg-type]


def _check_ledger(ledger: Any, privacy_unit: str) -> None:
    if ledger is None:
        return
    if not isinstance(ledger, Ledger):
        raise InvalidTypeError(f"ledger must be a nw.Ledger(path), got {type(ledger).__name__}.")
    if ledger.privacy_unit != privacy_unit:
        raise ReleaseError(f"The ledger counts per {ledger.privacy_unit!r}, the release is per {privacy_unit!r}.")


def _new_path(save_to: Any) -> Path | None:
    if save_to is None:
        return None
    path = as_path(save_to, "save_to")
    require_new(path)
    return path


def _save_or_warn(published: Release, path: Path) -> None:
    # The budget is spent and the noise is drawn: an exception here would lose the values for good.
    try:
        published.save(path)
    except NoisewiseError as error:
        warnings.warn(f"The release is made, but not saved: {error} Save what was returned.", stacklevel=3)


@functools.cache
def _used_versions() -> dict[str, str]:
    versions = {"noisewise": __version__, "python": platform.python_version()}
    with contextlib.suppress(metadata.PackageNotFoundError):
        versions["opendp"] = metadata.version("opendp")
    return versions
