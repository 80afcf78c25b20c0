"""How far may posteriors be trusted? `certify` one by fresh simulations; `calibrate` a method on
data that it makes itself.
"""

from noisewise.diagnostics.calibrate import calibrate
from noisewise.diagnostics.calibration import Calibration
from noisewise.diagnostics.certificates.certificate import Certificate
from noisewise.diagnostics.certificates.certify import certify
from noisewise.diagnostics.compare import Comparison, compare
from noisewise.diagnostics.coverage import coverage
from noisewise.diagnostics.decomposition.decompose_uncertainty import decompose_uncertainty
from noisewise.diagnostics.decomposition.decomposition import Decomposition
from noisewise.diagnostics.predictive import PredictiveCheck, misspecification, predictive_check
from noisewise.diagnostics.prior_sensitivity import prior_sensitivity
from noisewise.diagnostics.tarp import tarp
from noisewise.diagnostics.trials import Trials, draw_trials

__all__ = [
    "Calibration",
    "Certificate",
    "Comparison",
    "Decomposition",
    "PredictiveCheck",
    "Trials",
    "calibrate",
    "certify",
    "compare",
    "coverage",
    "decompose_uncertainty",
    "draw_trials",
    "misspecification",
    "predictive_check",
    "prior_sensitivity",
    "tarp",
]
