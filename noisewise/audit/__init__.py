"""Does the privacy hold? Exact loss, samplers against densities, black-box bounds, sensitivity.

- `privacy_loss`: the loss that a mechanism's own density implies, against its claim.
- `sampler_against_density`: whether draws follow the density that the mechanism states.
- `epsilon_lower_bound`: a lower bound of epsilon from the draws of any sampler.
- `sensitivity`: the largest change of a query between neighbours that a search finds.
"""

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
