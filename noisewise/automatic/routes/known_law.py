"""The route for statistics whose law is known: the confidential statistic is summed out, nothing is
simulated.

If the chains have not settled when the target should be met, the routes that simulate get a turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from noisewise.automatic.ranking import Candidate
from noisewise.automatic.routes.route import Route
from noisewise.automatic.search import Search, Use
from noisewise.inference import MarginalNUTS


def _applies(search: Search) -> bool:
    return MarginalNUTS().supports(search.model)


def _candidates(search: Search) -> Iterator[Candidate]:
    method = MarginalNUTS(target_ess=search.target_ess)
    yield Candidate(search.run(Use.KNOWN_LAW, method))


ROUTE = Route(
    name="known law",
    when="the simulator is a `StatisticLaw` whose sum with the noise is known",
    methods="`MarginalNUTS`",
    evidence="R-hat, effective size and divergences",
    applies=_applies,
    candidates=_candidates,
)
