"""What there is, one row each, so that lists, help and completion load nothing heavy.

Tests hold the rows against the classes and functions that they name.
"""

from __future__ import annotations

import dataclasses

from noisewise.cli.exits import did_you_mean
from noisewise.errors import InvalidInputError
from noisewise.inference.registry import METHODS


@dataclasses.dataclass(frozen=True)
class Item:
    """A problem, method, mechanism or query.

    Attributes:
        slug: What the command line calls it.
        name: Its Python name.
        line: One line about it.
    """

    slug: str
    name: str
    line: str


_POTENTIAL = "infected proportion of 100000 potential contacts, every"

_PROBLEMS = (
    Item(
        "contingency",
        "contingency",
        "An odds ratio from a noisy 4 x 2 x 2 table of a known number of people.",
    ),
    Item(
        "gaussian-mean",
        "gaussian_mean",
        "The mean of normal records, released with noise: small enough for quadrature and for"
        " every method.",
    ),
    Item(
        "incomes",
        "incomes",
        "The law of incomes from a noisy histogram of a known number of people.",
    ),
    Item(
        "linear-regression",
        "linear_regression",
        "The paper's Bayesian linear regression, released as noisy sufficient statistics.",
    ),
    Item(
        "log-linear",
        "log_linear",
        "The paper's naive Bayes log-linear model, released as noisy proportions.",
    ),
    Item(
        "outbreak-influenza",
        'outbreak("influenza")',
        "Boarding-school influenza, boys in bed each day, as proportions of 763.",
    ),
    Item(
        "outbreak-ebola-guinea",
        'outbreak("ebola-guinea")',
        f"Ebola in Guinea, {_POTENTIAL} 120 days from 2014-03-31.",
    ),
    Item(
        "outbreak-ebola-liberia",
        'outbreak("ebola-liberia")',
        f"Ebola in Liberia, {_POTENTIAL} 120 days from 2014-03-31.",
    ),
    Item(
        "outbreak-ebola-sierra-leone",
        'outbreak("ebola-sierra-leone")',
        f"Ebola in Sierra Leone, {_POTENTIAL} 120 days from 2014-03-31.",
    ),
    Item(
        "outbreak-covid-clark",
        'outbreak("covid-clark")',
        f"COVID-19 in Clark County, Nevada, {_POTENTIAL} 24 days from 2020-09-07.",
    ),
    Item(
        "randomized-response",
        "randomized_response",
        "A logistic regression on answers that were randomised by those who gave them.",
    ),
    Item(
        "sir",
        "sir",
        "The paper's epidemic: a private infection curve in a population of a million.",
    ),
    Item(
        "small-area",
        "small_area",
        "Rates of small areas from noisy counts: twelve districts that share a mean and a spread.",
    ),
)

_USERS_OWN = (
    "Mechanisms of a user's own: a sampler without a density, or a density without a sampler."
)

_MECHANISMS = {
    "Clamped": (
        "Post-processing of a mechanism's output: rounding to a grid, and clipping to an interval."
    ),
    "Crosswise": "The crosswise design: whether two statements have the same answer.",
    "DensityMechanism": _USERS_OWN,
    "DirectQuestion": "The question without a device: answers as they are.",
    "DiscreteGaussian": "Independent discrete Gaussian noise on a lattice.",
    "DiscreteLaplace": "Independent discrete Laplace noise on a lattice.",
    "EuclideanLaplace": (
        "Noise whose density falls with the Euclidean length: Laplace noise for L2 sensitivity."
    ),
    "Exact": "Numbers published as they are, without noise.",
    "ExponentialMechanism": "The exponential mechanism over finitely many candidates.",
    "ForcedResponse": "Forced response: the truth, a forced yes or a forced no.",
    "Gaussian": "Independent Gaussian noise.",
    "Laplace": "Independent Laplace noise.",
    "PaddedBinomial": (
        "Binomial resampling of counts with padded probabilities: private infection curves."
    ),
    "PerCell": "Cells of one table, each with one of a few mechanisms.",
    "Product": "Blocks of columns, each with a mechanism of its own.",
    "RandomizedResponse": "Randomised response over categories.",
    "Rounded": "Counts rounded to multiples of a base, at random or to the nearest.",
    "SampledMechanism": _USERS_OWN,
    "StochasticLieDetector": (
        "The stochastic lie detector: Warner's design where some of those concerned do not keep to"
        " it."
    ),
    "Thresholded": "Noisy numbers that are published only if they reach a threshold.",
    "TransitionTable": "Finitely many values in, finitely many out, with any probabilities.",
    "Triangular": "The triangular design: whether at least one of two statements is true.",
    "Unmeasured": "Cells of which nothing was measured.",
    "UnrelatedQuestion": "The unrelated question design: the sensitive question or a harmless one.",
    "Warner": "Warner's randomised response: the statement or its opposite.",
}

_QUERIES = (
    Item("mean", "ClampedMean", "Means of clamped columns."),
    Item("sum", "ClampedSum", "Sums of clamped columns."),
    Item("count", "Count", "The number of records."),
    Item("median", "Median", "Scores of candidate medians, for the exponential mechanism."),
    Item("histogram", "Histogram", "Counts, or proportions, of a real column in bins."),
    Item("contingency-table", "ContingencyTable", "Joint counts of categorical columns."),
    Item(
        "category-proportions",
        "CategoryProportions",
        "Proportions of (class, value) pairs, feature by feature: the statistic of log-linear"
        " (naive Bayes) models.",
    ),
    Item(
        "regression-moments",
        "RegressionMoments",
        "The sufficient statistics of linear regression, of clamped and rescaled records.",
    ),
    Item(
        "infection-curve",
        "InfectionCurve",
        "The number of people infected at each of several times.",
    ),
    Item("FunctionQuery", "FunctionQuery", "A user's own function as a query."),
    Item("Joint", "Joint", "Several statistics of one database."),
)

RELEASED = {item.name: item.slug for item in _QUERIES if item.slug != item.name}
"""What `noisewise release --query` calls the queries that it can release."""


def problems() -> tuple[Item, ...]:
    """The ready problems, one for each outbreak.

    >>> [item.slug for item in problems() if not item.slug.startswith("outbreak")]
    ['contingency', 'gaussian-mean', 'incomes', 'linear-regression', 'log-linear',
     'randomized-response', 'sir', 'small-area']
    """
    return _PROBLEMS


def methods() -> tuple[Item, ...]:
    """The inference methods, by slug.

    >>> find("method", "sppe", methods()).name
    'PrivatePosteriorEstimation'
    """
    return tuple(Item(row.slug, row.name, row.line) for row in METHODS)


def mechanisms() -> tuple[Item, ...]:
    """The mechanisms, by class name."""
    return tuple(Item(name, name, line) for name, line in _MECHANISMS.items())


def queries() -> tuple[Item, ...]:
    """The queries, those first that `noisewise release` offers, under its name for them."""
    return _QUERIES


def find(kind: str, given: str, items: tuple[Item, ...]) -> Item:
    """The item with this name; `_` and `:` count as `-`.

    Args:
        kind: What the items are, for the message: "method", say.
        given: What the user wrote.
        items: What there is to choose from.

    Raises:
        InvalidInputError: If there is none; names the most similar ones.
    """
    slug = slug_of(given)
    for item in items:
        if item.slug == slug:
            return item
    known = [item.slug for item in items]
    raise InvalidInputError(f"There is no {kind} {given!r}: {did_you_mean(slug, known)}")


def slug_of(given: str) -> str:
    """The one way to write a name that may be written in several.

    >>> slug_of("Gaussian_Mean"), slug_of("outbreak:influenza")
    ('gaussian-mean', 'outbreak-influenza')
    """
    return given.strip().lower().replace("_", "-").replace(":", "-")
