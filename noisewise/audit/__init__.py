"""Does the privacy hold? Exact loss, samplers against densities, black-box bounds, sensitivity."""

from noisewise.audit.black_box import EpsilonLowerBound, epsilon_lower_bound
from noisewise.audit.loss import PrivacyLoss, hockey_stick, privacy_loss, renyi_divergence
from noisewise.audit.samplers import SamplerAudit, sampler_against_density
from noisewise.audit.sensitivity import SensitivityAudit, sensitivity

__all__ = [
    "EpsilonLowerBound",
    "PrivacyLoss",
    "SamplerAudit",
    "SensitivityAudit",
    "epsilon_lower_bound",
    "hockey_stick",
    "privacy_loss",
    "renyi_divergence",
    "sampler_against_density",
    "sensitivity",
]
