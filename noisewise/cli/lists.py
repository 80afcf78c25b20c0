"""`noisewise problems`, `methods`, `mechanisms` and `queries`: what there is, one line each."""

from __future__ import annotations

from typing import Any

from noisewise.cli import catalogue, show

EPILOGS = {
    "problems": (
        """
Examples:

  noisewise problems

  noisewise infer outbreak-influenza --epsilon 1
"""
    ),
    "methods": (
        """
Examples:

  noisewise methods

  noisewise methods --json | jq '.[].slug'

  noisewise infer sir --method exact-smc
"""
    ),
    "mechanisms": (
        """
Examples:

  noisewise mechanisms

  noisewise mechanisms --json | jq '.[].line'

In Python: nw.mechanisms.Laplace(scale=2.0, sensitivity=1.0).
"""
    ),
    "queries": (
        """
Examples:

  noisewise queries

  noisewise release --data people.csv --query histogram --column age \\
      --edges 0,18,65,120 --epsilon 0.5 --out ages.json

Those in lower case can be released by noisewise release; the others are
classes of nw.queries.
"""
    ),
}


def problems(as_json: show.Json = False) -> None:
    """Ready problems, each with an observation and, mostly, its exact answer."""
    _list("problem", catalogue.problems(), as_json)


def methods(as_json: show.Json = False) -> None:
    """Inference methods: how a posterior is found from a release."""
    _list("method", catalogue.methods(), as_json)


def mechanisms(as_json: show.Json = False) -> None:
    """Mechanisms: the publicly known noise of a release."""
    _list("mechanism", catalogue.mechanisms(), as_json)


def queries(as_json: show.Json = False) -> None:
    """Queries: the statistics that can be released."""
    _list("query", catalogue.queries(), as_json)


def _list(kind: str, items: tuple[catalogue.Item, ...], as_json: bool) -> None:
    if as_json:
        show.print_json([vars(item) for item in items])
        return
    rows: list[list[Any]] = [[item.slug, item.line] for item in items]
    show.table([kind, ""], rows, numbers=False)
