"""theta -> x: models one can simulate. One simulator per file; names load on first use.

Worker processes import this package to find their entry point, so nothing heavy may load with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.simulators.base import AbstractSimulator, AdditiveQuery, KnowsLikelihood
    from noisewise.simulators.faults import Faults
    from noisewise.simulators.jax_simulator import JaxSimulator
    from noisewise.simulators.linear_regression import LinearRegression
    from noisewise.simulators.log_linear import LogLinear
    from noisewise.simulators.normal_records import NormalRecords
    from noisewise.simulators.python_simulator import PythonSimulator
    from noisewise.simulators.record_model import AbstractRecordModel
    from noisewise.simulators.sir import SIR
    from noisewise.simulators.statistic_law import StatisticLaw
    from noisewise.simulators.workers import Workers

_NAMES = {
    "AbstractRecordModel": "noisewise.simulators.record_model",
    "AbstractSimulator": "noisewise.simulators.base",
    "AdditiveQuery": "noisewise.simulators.base",
    "Faults": "noisewise.simulators.faults",
    "JaxSimulator": "noisewise.simulators.jax_simulator",
    "KnowsLikelihood": "noisewise.simulators.base",
    "LinearRegression": "noisewise.simulators.linear_regression",
    "LogLinear": "noisewise.simulators.log_linear",
    "NormalRecords": "noisewise.simulators.normal_records",
    "PythonSimulator": "noisewise.simulators.python_simulator",
    "SIR": "noisewise.simulators.sir",
    "StatisticLaw": "noisewise.simulators.statistic_law",
    "Workers": "noisewise.simulators.workers",
}

__all__ = [
    "SIR",
    "AbstractRecordModel",
    "AbstractSimulator",
    "AdditiveQuery",
    "Faults",
    "JaxSimulator",
    "KnowsLikelihood",
    "LinearRegression",
    "LogLinear",
    "NormalRecords",
    "PythonSimulator",
    "StatisticLaw",
    "Workers",
]

__getattr__, __dir__ = attach(__name__, _NAMES)
