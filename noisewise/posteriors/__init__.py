"""What inference returns: named draws, weighted or in chains, with summaries, reports and files."""

from __future__ import annotations

from typing import Any

from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.posteriors.base import AbstractPosterior
from noisewise.posteriors.draws import Draws
from noisewise.posteriors.report import Report
from noisewise.posteriors.weighted_samples import WeightedSamples
from noisewise.runs import read_archive

__all__ = ["AbstractPosterior", "Draws", "Report", "WeightedSamples", "load_posterior"]


def load_posterior(path: Any) -> AbstractPosterior:
    """Read what `posterior.save(path)` wrote. Altered or foreign files give a `FileFormatError`, and nothing in them is run."""
    kind, content, arrays = read_archive(path, ("Draws", "WeightedSamples"))
    try:
        names, derived = _strings(content["names"]), _strings(content["derived"])
        more: dict[str, Any] = {
            "derived": {name: arrays[f"derived_{j}"] for j, name in enumerate(derived)},
            "statistics": arrays.get("statistics"),
            "statistic_names": _strings(content["statistic_names"]),
        }
        report = Report.from_spec(content["report"])
        if kind == "Draws":
            return Draws(arrays["theta"], names, report, num_chains=content["num_chains"], **more)
        return WeightedSamples(arrays["theta"], names, report, log_weights=arrays["log_weights"], **more)
    except (KeyError, InvalidInputError, InvalidTypeError, TypeError):
        raise FileFormatError("The archive does not hold a posterior as this version writes it.") from None


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise FileFormatError("Names must be a list of strings.")
    return tuple(value)
