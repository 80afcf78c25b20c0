"""The route for mechanisms without a density: learn the posterior, without a certificate.

Weights, chains and certificates all need the density, so nothing can show how good the answer is.
"""

from __future__ import annotations

from collections.abc import Iterator

from noisewise.automatic.ranking import Candidate
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.inference import PrivatePosteriorEstimation
from noisewise.mechanisms.base import Capability


def _applies(search: Search) -> bool:
    return Capability.DENSITY not in search.model.mechanism.capabilities


def _candidates(search: Search) -> Iterator[Candidate]:
    yield Candidate(search.run(Use.NO_DENSITY, PrivatePosteriorEstimation(num_noise=1)))


ROUTE = Route(
    name="no density",
    when="the mechanism has no density",
    methods="`PrivatePosteriorEstimation`",
    evidence="none, `report.exact` is False",
    applies=_applies,
    candidates=_candidates,
    is_last=True,
)
