"""The route for statistics whose law is known: the confidential statistic is summed out, or the
cells that released numbers add up are drawn with the parameters; nothing is simulated.

If the chains have not settled when the target should be met, the routes that simulate get a turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from noisewise.automatic.ranking import Candidate
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.inference import CountAugmentationMCMC, MarginalNUTS

_METHODS = (MarginalNUTS, CountAugmentationMCMC)


def _applies(search: Search) -> bool:
    return any(method().supports(search.model) for method in _METHODS)


def _candidates(search: Search) -> Iterator[Candidate]:
    method = next(method for method in _METHODS if method().supports(search.model))
    yield Candidate(search.run(Use.KNOWN_LAW, method(target_ess=search.target_ess)))


ROUTE = Route(
    name="known law",
    when="the simulator is a `StatisticLaw` whose sum with the noise is known, or of cells that"
    " released numbers add up",
    methods="`MarginalNUTS`, or `CountAugmentationMCMC` with `sums=`",
    evidence="R-hat, effective size and divergences",
    applies=_applies,
    candidates=_candidates,
)
