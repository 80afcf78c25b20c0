"""Checks of posteriors that diagnostics make first."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisewise._core.arrays import describe
from noisewise._core.draws import MIN_DRAWS
from noisewise.diagnostics.certificates.certificate import Certificate
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.inference.learned.common.fits import AbstractFit
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior


def check_posterior(posterior: Any, what: str, model: PrivateModel | None = None) -> None:
    """Refuse what is not a posterior, or is of other parameters than the model, of fewer than ten
    draws, or with some that are not finite.
    """
    if isinstance(posterior, AbstractFit):
        raise InvalidTypeError(
            f"{what} must be the posterior of one observation, got a {type(posterior).__name__}:"
            f" write fit.{posterior.usage[0]}."
        )
    if not isinstance(posterior, AbstractPosterior):
        raise InvalidTypeError(
            f"{what} must be a posterior, as infer returns it, got"
            f" {describe(posterior)}{instead_of(posterior)}."
        )
    if model is not None and posterior.names != model.names:
        raise InvalidInputError(
            f"{what} must be of {', '.join(model.names)}, as the model is; got one of"
            f" {', '.join(posterior.names)}."
        )
    if len(posterior.theta) < MIN_DRAWS:
        raise InvalidInputError(
            f"{what} must hold at least {MIN_DRAWS} draws, got {len(posterior.theta)}: draw more."
        )
    columns = {**dict(zip(posterior.names, posterior.theta.T, strict=True)), **posterior.derived}
    for name, values in columns.items():
        bad = int((~np.isfinite(values[posterior.weights > 0.0])).sum())
        if bad:
            raise InvalidInputError(
                f"{what} must be finite, but {bad} of {len(values)} draws of {name} are NaN or"
                " infinite: leave them out."
            )


def instead_of(given: Any) -> str:
    """What to pass in place of something that holds draws without being a posterior."""
    if isinstance(given, Certificate):
        return ": pass certificate.corrected"
    if isinstance(given, (np.ndarray, list, tuple)) or hasattr(given, "__array__"):
        return (
            ': pass nw.posteriors.Draws(draws, names, nw.posteriors.Report("my method")) for draws'
            " (N, d)"
        )
    return ""
