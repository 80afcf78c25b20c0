"""Several posteriors of one problem side by side."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import describe, integer, number
from noisewise._core.draws import MIN_DRAWS, constant_columns
from noisewise.diagnostics.posterior_checks import check_posterior
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.metrics import c2st, kolmogorov_smirnov
from noisewise.posteriors import AbstractPosterior
from noisewise.posteriors.learned import LearnedPosterior

_SEED = 20_261_115
"""Seed of the draws that are compared: fixed, so that a comparison gives the same twice."""
_COINS = 2.5
"""Standard deviations of fair coins that a C2ST stays below by chance in 95% of cases, as measured
on normal draws of one to four dimensions."""
_KOLMOGOROV = 1.36
"""The 95% point of the Kolmogorov law."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `compare` found; print it for the whole.

    Attributes:
        table: mean, sd and interval ends, one row per quantity and method.
        kolmogorov_smirnov: The distance of each pair of methods in each quantity.
        c2st: How well a classifier tells two methods apart, for each pair: .5 is not at all.
        chance: What two exact posteriors that are worth as many draws stay below in 95% of cases,
            for each pair: C2ST and, in one quantity, Kolmogorov-Smirnov; `draws` is how many of
            each the classifier saw.
    """

    table: Any
    kolmogorov_smirnov: Any = dataclasses.field(repr=False)
    c2st: Any = dataclasses.field(repr=False)
    chance: Any = dataclasses.field(repr=False)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        show = lambda table: table.round(3).to_string()  # noqa: E731
        parts = [
            show(self.table),
            "C2ST",
            show(self.c2st),
            "Kolmogorov-Smirnov",
            show(self.kolmogorov_smirnov),
        ]
        parts += ["By chance up to", show(self.chance)]
        return "\n".join(parts)


def compare(
    posteriors: Mapping[str, AbstractPosterior], *, num_draws: int = 2000, level: float = 0.95
) -> Comparison:
    r"""Means, intervals, and all pairwise Kolmogorov-Smirnov distances and C2STs of posteriors of
    the same parameters.

    Derived quantities that all have appear like parameters. The same draws are taken in every call.
    Distances use `num_draws` of each, and by chance stay below

        1.36 sqrt(v_1 + v_2),   v = 1 / ESS + max(0, 1 / num_draws - 1 / N),

    in 95% of columns, N being the draws that the posterior holds (v = 1 / num_draws where it makes
    fresh ones). The C2ST uses n draws of each: num_draws, but at most half of what either posterior
    is worth, because repeated draws would give a set away. By chance it stays below .5 + 2.5 (8
    n)^-1/2, 2.5 standard deviations of 2 n fair coins, which covers what classifiers find in normal
    draws of one to four dimensions with 4% of repeats. Columns that do not vary are left out of it;
    it is 1 where they differ, or vary in one posterior only.

    Args:
        posteriors: Two posteriors or more, by name.
        num_draws: Draws of each that are compared.
        level: Probability of the intervals.

    Returns:
        A `Comparison`; print it for the whole.

    Raises:
        InvalidInputError: If the posteriors are of different parameters.

    >>> import noisewise as nw
    >>> problem = nw.problems.gaussian_mean(1.0)
    >>> draws = problem.reference(jax.random.key(0), 1000)
    >>> report = nw.posteriors.Report("exact")
    >>> exact = nw.posteriors.Draws(draws, problem.model.names, report)
    >>> moved = nw.posteriors.Draws(exact.theta + 1.0, exact.names, exact.report)
    >>> found = compare({"exact": exact, "moved": moved}, num_draws=500)
    >>> list(found.table.columns), bool(found.c2st.loc["exact", "moved"] > 0.8)
    (['mean', 'sd', '2.5%', '97.5%'], True)
    """
    import pandas as pd

    num_draws = integer("num_draws", at_least=10)(num_draws)
    level = number("level", above=0.0, below=1.0)(level)
    names = _check(posteriors)
    table = _summaries(posteriors, names, level)
    sampled = [
        _Sampled(index, given, names, num_draws) for index, given in enumerate(posteriors.values())
    ]
    told = pd.DataFrame(0.5, index=list(posteriors), columns=list(posteriors))
    distances, chance = {}, {}
    for (name, one), (other_name, other) in itertools.combinations(
        zip(posteriors, sampled, strict=True), 2
    ):
        pair, num = (name, other_name), _num_told_apart(num_draws, min(one.worth, other.worth))
        told.loc[pair] = told.loc[pair[::-1]] = _told_apart(one.draws(num), other.draws(num))
        distances[pair] = kolmogorov_smirnov(one.draws(num_draws), other.draws(num_draws))
        by_chance = _KOLMOGOROV * math.sqrt(one.variance + other.variance)
        chance[pair] = [num, 0.5 + _COINS / math.sqrt(8.0 * num), by_chance]
    index = pd.MultiIndex.from_tuples(distances, names=["method", "other"])
    columns = ["draws", "C2ST", "Kolmogorov-Smirnov"]
    return Comparison(
        table,
        pd.DataFrame(list(distances.values()), index=index, columns=list(names)),
        told,
        pd.DataFrame(list(chance.values()), index=index, columns=columns),
    )


def _summaries(
    posteriors: Mapping[str, AbstractPosterior], names: tuple[str, ...], level: float
) -> Any:
    """Mean, sd and interval ends, one row per method and quantity that all methods have."""
    import pandas as pd

    derived = [posterior.derived for posterior in posteriors.values()]
    shared = [name for name in derived[0] if all(name in given for given in derived)]
    summaries = {method: posterior.summary(level=level) for method, posterior in posteriors.items()}
    columns = ["mean", "sd", *next(iter(summaries.values())).columns[3:5]]
    rows = {
        (name, method): table.loc[name, columns]
        for name in (*names, *shared)
        for method, table in summaries.items()
    }
    return pd.DataFrame(rows).T.rename_axis(["quantity", "method"])


class _Sampled:
    """One of the posteriors, with the key that its draws come from, and their columns in the order
    of `names`.
    """

    def __init__(
        self, index: int, posterior: AbstractPosterior, names: tuple[str, ...], num_draws: int
    ) -> None:
        self.posterior = posterior
        self._columns = [posterior.names.index(name) for name in names]
        self.worth = _worth(posterior)
        self.variance = _variance(posterior, self.worth, num_draws)
        self._key = jax.random.fold_in(jax.random.key(_SEED), index)

    def draws(self, num: int) -> Float[np.ndarray, "num d"]:
        """Equally weighted draws, the same in every call."""
        return self.posterior.sample(self._key, num)[:, self._columns]


def _worth(posterior: AbstractPosterior) -> float:
    """Independent draws that can be had of it."""
    if isinstance(posterior, LearnedPosterior):
        return math.inf
    size = posterior.effective_size
    return float(len(posterior.theta)) if math.isnan(size) else min(size, len(posterior.theta))


def _num_told_apart(num: int, worth: float) -> int:
    """Draws for the classifier: `num`, or the power of sqrt(2) below half of the worth, as it is
    compiled for each number.
    """
    if worth >= 2.0 * num:
        return num
    return max(MIN_DRAWS, int(2.0 ** (math.floor(2.0 * math.log2(max(worth / 2.0, 1.0))) / 2.0)))


def _variance(posterior: AbstractPosterior, worth: float, num: int) -> float:
    """That of a mean of `num` draws, over the posterior's: few are a sample of all that it holds,
    which are worth few themselves.
    """
    if math.isinf(worth):
        return 1.0 / num
    return 1.0 / worth + max(0.0, 1.0 / num - 1.0 / len(posterior.theta))


def _told_apart(first: Float[np.ndarray, "n d"], second: Float[np.ndarray, "n d"]) -> float:
    """C2ST; where columns do not vary in both, their values decide, and one that varies in one set
    only tells all draws apart.
    """
    constant, other = constant_columns(first), constant_columns(second)
    both = constant & other
    if (constant != other).any() or not np.allclose(
        first[0, both], second[0, both], rtol=1e-9, atol=0.0
    ):
        return 1.0
    return 0.5 if both.all() else c2st(first[:, ~both], second[:, ~both])


def _check(posteriors: Any) -> tuple[str, ...]:
    """Refuse what is not a mapping of posteriors of the same parameters; returns their names."""
    if not isinstance(posteriors, Mapping):
        raise InvalidTypeError(
            f"compare needs a mapping of names to posteriors, got {describe(posteriors)}."
        )
    for name, posterior in posteriors.items():
        check_posterior(posterior, f"posteriors[{name!r}]")
    if len(posteriors) < 2:
        raise InvalidInputError(f"compare needs two posteriors or more, got {len(posteriors)}.")
    names = [posterior.names for posterior in posteriors.values()]
    if len({tuple(sorted(given)) for given in names}) > 1:
        other = next(given for given in names if sorted(given) != sorted(names[0]))
        raise InvalidInputError(
            f"The posteriors must be of the same parameters, got {', '.join(names[0])} and"
            f" {', '.join(other)}."
        )
    return names[0]
