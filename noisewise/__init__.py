"""Bayesian inference from differentially private releases, for models you can only simulate.

    theta --simulator--> x --query--> s --mechanism--> s_dp          (what the curator did)
    posterior  <--inference method--  (model, s_dp)                  (what the analyst wants)

Names load on first use, so that `import noisewise` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from noisewise import audit, errors, mechanisms, metrics, queries, simulators
    from noisewise.disclosure import Release, release
    from noisewise.ledger import Ledger
    from noisewise.mechanisms.guarantees import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
    from noisewise.priors import Prior
    from noisewise.private_model import PrivateModel

_MODULES = ("audit", "errors", "mechanisms", "metrics", "queries", "simulators")
_NAMES = {
    "ApproximateDP": "noisewise.mechanisms.guarantees",
    "GaussianDP": "noisewise.mechanisms.guarantees",
    "PureDP": "noisewise.mechanisms.guarantees",
    "ZeroConcentratedDP": "noisewise.mechanisms.guarantees",
    "Ledger": "noisewise.ledger",
    "Prior": "noisewise.priors",
    "PrivateModel": "noisewise.private_model",
    "Release": "noisewise.disclosure",
    "release": "noisewise.disclosure",
}

__all__ = [
    "ApproximateDP",
    "GaussianDP",
    "Ledger",
    "Prior",
    "PrivateModel",
    "PureDP",
    "Release",
    "ZeroConcentratedDP",
    "audit",
    "errors",
    "mechanisms",
    "metrics",
    "queries",
    "release",
    "simulators",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"noisewise.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"noisewise has no {name!r}; it has {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
