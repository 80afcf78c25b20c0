"""What inference returns: named draws, weighted or from chains, with summaries, reports and
files.
"""

from __future__ import annotations

import os
from typing import Any

from noisewise._core.text import printable
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.posteriors.base import AbstractPosterior
from noisewise.posteriors.draws import Draws
from noisewise.posteriors.findings import Finding
from noisewise.posteriors.kinds import Kind, StopKind
from noisewise.posteriors.report import Report
from noisewise.posteriors.stop import Stop
from noisewise.posteriors.weighted_samples import WeightedSamples
from noisewise.runs import posterior_folder, read_archive

__all__ = [
    "AbstractPosterior",
    "Draws",
    "Finding",
    "Kind",
    "Report",
    "Stop",
    "StopKind",
    "WeightedSamples",
    "load_posterior",
]


def load_posterior(path: str | os.PathLike[str]) -> AbstractPosterior:
    """Read what `posterior.save(path)` wrote, or the posterior of a run directory.

    Args:
        path: The folder.

    Returns:
        The posterior, with the report that it was saved with.

    Raises:
        FileFormatError: If the files were altered, or are not a posterior's. Nothing in them is
            run.
    """
    folder = posterior_folder(path)
    kind, content, arrays = read_archive(folder, ("Draws", "WeightedSamples", "LearnedPosterior"))
    try:
        names, derived = _strings(content["names"]), _strings(content["derived"])
        more: dict[str, Any] = {
            "derived": {name: arrays[f"derived_{j}"] for j, name in enumerate(derived)},
            "statistics": arrays.get("statistics"),
            "statistic_names": _strings(content["statistic_names"]),
            "prior_draws": arrays.get("prior_draws"),
        }
        report = Report.from_spec(content["report"])
        if kind == "LearnedPosterior":
            return _learned(content, arrays, names, report, more)
        if kind == "Draws":
            return Draws(arrays["theta"], names, report, num_chains=content["num_chains"], **more)
        return WeightedSamples(
            arrays["theta"], names, report, log_weights=arrays["log_weights"], **more
        )
    except (KeyError, InvalidInputError, InvalidTypeError, TypeError):
        raise FileFormatError(
            "The archive does not hold a posterior as this version writes it."
        ) from None


def _learned(
    content: dict[str, Any], arrays: dict[str, Any], names: Any, report: Report, more: Any
) -> AbstractPosterior:
    from noisewise.estimators.files import read_density
    from noisewise.posteriors.learned import LearnedPosterior
    from noisewise.priors.prior import Prior

    prior = Prior.from_spec(content["prior"])
    condition = arrays["condition"]
    if prior.names != names or condition.ndim != 1:
        raise FileFormatError("The prior of the archive does not fit its parameters.")
    density = read_density(content["estimator"], content["degree"], arrays)
    if density.dims != (prior.unconstrained_dim, len(condition)):
        raise FileFormatError("The density of the archive does not fit its parameters.")
    own = {
        "density": density,
        "condition": condition,
        "prior": prior,
        "estimator": content["estimator"],
    }
    return LearnedPosterior(arrays["theta"], names, report, **own, **more)


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(
        isinstance(item, str) and item == printable(item) for item in value
    ):
        raise FileFormatError("Names must be a list of strings that can be printed.")
    return tuple(value)
