"""s -> s_dp: the publicly known noise. One mechanism per file.

`law` has what is random (draws, densities), `base` adds privacy, budgets, releases and files; a
concrete mechanism is the formula with its proof.
"""

from __future__ import annotations

from typing import Any

from noisewise._core.specs import concrete, registered, require_few
from noisewise.mechanisms import supports
from noisewise.mechanisms.base import AbstractMechanism, Capability, from_spec_with
from noisewise.mechanisms.clamped import Clamped
from noisewise.mechanisms.crosswise import Crosswise
from noisewise.mechanisms.direct_question import DirectQuestion
from noisewise.mechanisms.discrete_gaussian import DiscreteGaussian
from noisewise.mechanisms.discrete_laplace import DiscreteLaplace
from noisewise.mechanisms.euclidean_laplace import EuclideanLaplace
from noisewise.mechanisms.exact_cells import Exact
from noisewise.mechanisms.exponential_mechanism import ExponentialMechanism
from noisewise.mechanisms.forced_response import ForcedResponse
from noisewise.mechanisms.gaussian import Gaussian
from noisewise.mechanisms.guarantees import compose
from noisewise.mechanisms.laplace import Laplace
from noisewise.mechanisms.padded_binomial import PaddedBinomial
from noisewise.mechanisms.per_cell import PerCell
from noisewise.mechanisms.point_sets import IndependentUniforms, ScrambledSobol
from noisewise.mechanisms.product import Product
from noisewise.mechanisms.randomized_response import RandomizedResponse
from noisewise.mechanisms.rounded import Rounded
from noisewise.mechanisms.stochastic_lie_detector import StochasticLieDetector
from noisewise.mechanisms.thresholded import Thresholded
from noisewise.mechanisms.transition_table import TransitionTable
from noisewise.mechanisms.triangular import Triangular
from noisewise.mechanisms.unmeasured import Unmeasured
from noisewise.mechanisms.unrelated_question import UnrelatedQuestion
from noisewise.mechanisms.user_defined import DensityMechanism, SampledMechanism
from noisewise.mechanisms.warner import Warner

__all__ = [
    "AbstractMechanism",
    "Capability",
    "Clamped",
    "Crosswise",
    "DensityMechanism",
    "DirectQuestion",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "EuclideanLaplace",
    "Exact",
    "ExponentialMechanism",
    "ForcedResponse",
    "Gaussian",
    "IndependentUniforms",
    "Laplace",
    "PaddedBinomial",
    "PerCell",
    "Product",
    "RandomizedResponse",
    "Rounded",
    "SampledMechanism",
    "ScrambledSobol",
    "StochasticLieDetector",
    "Thresholded",
    "TransitionTable",
    "Triangular",
    "Unmeasured",
    "UnrelatedQuestion",
    "Warner",
    "compose",
    "from_spec",
    "register",
    "supports",
]

_KINDS: dict[str, type[AbstractMechanism]] = concrete(
    vars(), AbstractMechanism, but=(DensityMechanism, SampledMechanism)
)
"""The classes that files may name."""


def register(kind: type[AbstractMechanism]) -> type[AbstractMechanism]:
    """Let files name a mechanism of your own: a decorator of its class.

    The class must be imported before a file is read. A file can name only what was registered in
    this process, so no file decides what code runs.

    Returns:
        The class itself.

    Raises:
        InvalidTypeError: If it is not a class that extends `AbstractMechanism`.
        InvalidInputError: If files know another class of this name.
    """
    return registered(kind, AbstractMechanism, _KINDS)


def from_spec(spec: Any) -> AbstractMechanism:
    """The mechanism that `to_spec` described.

    Raises:
        FileFormatError: If `spec` is anything else.

    >>> from_spec({"type": "Laplace", "scale": 0.5, "sensitivity": 1.0})
    Laplace(scale=0.5, sensitivity=1.0)
    """
    require_few(spec, "A mechanism")
    return from_spec_with(spec, _KINDS)
