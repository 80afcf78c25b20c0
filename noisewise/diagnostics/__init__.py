"""How far may posteriors be trusted? `certify` one by fresh simulations; `calibrate` a method on data that it makes itself."""

from noisewise.diagnostics.calibrate import calibrate
from noisewise.diagnostics.calibration import Calibration
from noisewise.diagnostics.certificate import Certificate
from noisewise.diagnostics.certify import certify

__all__ = ["Calibration", "Certificate", "calibrate", "certify"]
