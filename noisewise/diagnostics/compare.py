"""Several posteriors of one problem side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from noisewise._arrays import describe, integer, number
from noisewise.diagnostics._posteriors import check_posterior
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.metrics import c2st, kolmogorov_smirnov
from noisewise.metrics._samples import constant_columns
from noisewise.posteriors import AbstractPosterior

_KEY = 20_261_115


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `compare` found; print it for the whole."""

    table: Any
    """mean, sd and interval ends, one row per quantity and method."""
    kolmogorov_smirnov: Any = dataclasses.field(repr=False)
    """The distance of each pair of methods in each quantity."""
    c2st: Any = dataclasses.field(repr=False)
    """How well a classifier tells two methods apart, for each pair: .5 is not at all."""

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        show = lambda table: table.round(3).to_string()  # noqa: E731
        parts = [show(self.table), "C2ST", show(self.c2st), "Kolmogorov-Smirnov", show(self.kolmogorov_smirnov)]
        return "\n".join(parts)


def compare(posteriors: Mapping[str, AbstractPosterior], *, num_draws: int = 2000, level: float = 0.95) -> Comparison:
    r"""Means, intervals, and all pairwise Kolmogorov-Smirnov distances and C2STs of posteriors of the same parameters.

    Derived quantities that all have appear like parameters. The distances use `num_draws` draws of each, the same ones in every call;
    columns that do not vary are left out of the C2ST, which is 1 where they differ, or vary in one posterior only. Floors: two exact
    posteriors have C2ST .49 with sd .01 and a distance below .043 in 95% of columns, with 2000 draws each, if they are worth as many: a
    posterior worth few draws looks different from itself.

    >>> import noisewise as nw
    >>> problem = nw.problems.gaussian_mean(1.0)
    >>> exact = nw.posteriors.Draws(problem.reference(jax.random.key(0), 1000), problem.model.names, nw.posteriors.Report("exact"))
    >>> moved = nw.posteriors.Draws(exact.theta + 1.0, exact.names, exact.report)
    >>> found = compare({"exact": exact, "moved": moved}, num_draws=500)
    >>> list(found.table.columns), bool(found.c2st.loc["exact", "moved"] > 0.8)
    (['mean', 'sd', '2.5%', '97.5%'], True)
    """
    import pandas as pd

    num_draws, level = integer("num_draws", at_least=10)(num_draws), number("level", above=0.0, below=1.0)(level)
    names = _check(posteriors)
    shared = [n for n in next(iter(posteriors.values())).derived if all(n in p.derived for p in posteriors.values())]
    summaries = {method: posterior.summary(level=level) for method, posterior in posteriors.items()}
    columns = ["mean", "sd", *next(iter(summaries.values())).columns[3:5]]
    rows = {
        (name, method): table.loc[name, columns] for name in (*names, *shared) for method, table in summaries.items()
    }
    table = pd.DataFrame(rows).T.rename_axis(["quantity", "method"])
    draws = {
        method: posterior.sample(jax.random.fold_in(jax.random.key(_KEY), index), num_draws)
        for index, (method, posterior) in enumerate(posteriors.items())
    }
    methods = list(draws)
    told, distances = pd.DataFrame(0.5, index=methods, columns=methods), {}
    for i, first in enumerate(methods):
        for second in methods[i + 1 :]:
            told.loc[first, second] = told.loc[second, first] = _told_apart(draws[first], draws[second])
            distances[first, second] = kolmogorov_smirnov(draws[first], draws[second])
    ks = pd.DataFrame.from_dict(distances, orient="index", columns=list(names))
    ks.index = pd.MultiIndex.from_tuples(ks.index, names=["method", "other"])
    return Comparison(table, ks, told)


def _told_apart(first: np.ndarray, second: np.ndarray) -> float:
    """C2ST; where columns do not vary in both, their values decide, and one that varies in one set only tells all draws apart."""
    constant, other = constant_columns(first), constant_columns(second)
    both = constant & other
    if (constant != other).any() or not np.allclose(first[0, both], second[0, both], rtol=1e-9, atol=0.0):
        return 1.0
    return 0.5 if both.all() else c2st(first[:, ~both], second[:, ~both])


def _check(posteriors: Any) -> tuple[str, ...]:
    if not isinstance(posteriors, Mapping):
        raise InvalidTypeError(f"compare needs a mapping of names to posteriors, got {describe(posteriors)}.")
    for name, posterior in posteriors.items():
        check_posterior(posterior, f"posteriors[{name!r}]")
    if len(posteriors) < 2:
        raise InvalidInputError(f"compare needs two posteriors or more, got {len(posteriors)}.")
    names = [posterior.names for posterior in posteriors.values()]
    if len(set(names)) > 1:
        other = next(given for given in names if given != names[0])
        raise InvalidInputError(
            f"The posteriors must be of the same parameters, got {', '.join(names[0])} and {', '.join(other)}."
        )
    return names[0]
