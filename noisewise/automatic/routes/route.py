"""What a route is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from noisewise.automatic.ranking import Candidate
from noisewise.automatic.search import Search


@dataclasses.dataclass(frozen=True, kw_only=True)
class Route:
    """One way from an observation to a posterior.

    Attributes:
        name: What the route is called.
        when: For which models and observations it is tried, in one plain phrase.
        methods: What it runs.
        evidence: What shows how good its answer is.
        applies: Whether to try it, given the search so far. Runs no simulations.
        candidates: Posteriors as they come, best last. The search may stop after any of them.
        is_last: Whether no other route is tried after this one.
    """

    name: str
    when: str
    methods: str
    evidence: str
    applies: Callable[[Search], bool]
    candidates: Callable[[Search], Iterator[Candidate]]
    is_last: bool = False

    @property
    def line(self) -> str:
        """The route in one line, as the documentation of `nw.infer` shows it."""
        return f"{self.name}: {self.when}. Runs {self.methods}; evidence: {self.evidence}."
