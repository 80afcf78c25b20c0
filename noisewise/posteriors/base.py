"""What every inference method returns: named draws with a summary, a report and a file format."""

from __future__ import annotations

import abc
import copy
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, integer
from noisewise._core.text import printable
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.posteriors.confidential import summary_of
from noisewise.posteriors.monte_carlo_errors import independent
from noisewise.posteriors.report import Report
from noisewise.posteriors.summaries import Quantity
from noisewise.runs import write_archive

if TYPE_CHECKING:
    import pandas as pd

    from noisewise.disclosure import Release
    from noisewise.model.private_model import PrivateModel

_MOST_NAMES = 24
"""Parameters that a posterior names when it is printed: three lines or so."""


class AbstractPosterior(abc.ABC):
    """A posterior represented by draws, which may be weighted, and sometimes also a density.

    Args:
        theta: Draws, shape (n, d).
        names: Names of the d parameters.
        report: How the posterior was computed.
        derived: Quantities of each draw by name, each of shape (n,).
        statistics: Confidential statistics that exact methods draw with theta, shape (n, k):
            their law is p(s | s_dp).
        statistic_names: Names of the k statistics.
        prior_draws: Draws of a prior that no file can hold, shape (m, d): what pictures show beside
            the posterior. None where the prior itself is known, or the model must be given.
    """

    def __init__(
        self,
        theta: Float[np.ndarray, "n d"],
        names: tuple[str, ...],
        report: Report,
        *,
        derived: Mapping[str, np.ndarray] | None = None,
        statistics: Float[np.ndarray, "n k"] | None = None,
        statistic_names: tuple[str, ...] = (),
        prior_draws: Float[np.ndarray, "m d"] | None = None,
    ) -> None:
        self.theta = np.ascontiguousarray(theta, dtype=np.float64)
        self.names = tuple(names)
        self.report = report
        self.derived = {
            name: np.asarray(values, dtype=np.float64) for name, values in (derived or {}).items()
        }
        self.statistics = (
            None if statistics is None else np.ascontiguousarray(statistics, dtype=np.float64)
        )
        self.statistic_names = tuple(statistic_names)
        self.prior_draws = (
            None if prior_draws is None else np.ascontiguousarray(prior_draws, dtype=np.float64)
        )
        if self.theta.ndim != 2 or self.theta.shape[1] != len(self.names) or not len(self.theta):
            raise InvalidInputError(
                f"A posterior of {len(self.names)} parameters needs draws (N, {len(self.names)}),"
                f" got shape {self.theta.shape}."
            )
        if self.prior_draws is not None and self.prior_draws.shape[1:] != self.theta.shape[1:]:
            raise InvalidInputError(
                f"Draws of the prior must have shape (m, {len(self.names)}), got"
                f" {self.prior_draws.shape}."
            )

    @property
    def confidential_statistics(self) -> Float[np.ndarray, "n k"] | None:
        """Draws of the confidential statistic given what was released, row by row with `theta`;
        None where the method has none.
        """
        return self.statistics

    def confidential_summary(
        self, release: Release | None = None, *, level: float = 0.95
    ) -> pd.DataFrame:
        """The confidential statistic given what was released, one row per number.

        Args:
            release: What was published: its labels and values then stand beside.
            level: Probability of the intervals, in (0, 1).

        Returns:
            A DataFrame of mean, sd, median and the ends of the central interval, by the names of
            the statistic; with a release, behind the columns of `release.table`.

        Raises:
            MissingCapabilityError: If the method draws no confidential statistic.
            InvalidInputError: If the release has another number of values.

        >>> from noisewise.posteriors import Draws
        >>> s = np.array([[17.0], [18.0], [22.0], [18.0]])
        >>> drawn = {"statistics": s, "statistic_names": ("North",)}
        >>> posterior = Draws(np.zeros((4, 1)), ("rate",), Report("nuts"), **drawn)
        >>> posterior.confidential_summary().round(1)
               mean   sd  median  2.5%  97.5%
        North  18.8  1.9    18.0  17.0   22.0
        """
        levels, ends = _central(level)
        return summary_of(self, release, levels, ["median", *ends])

    @property
    @abc.abstractmethod
    def weights(self) -> Float[np.ndarray, " n"]:
        """The weight of each draw, shape (n,), summing to 1."""

    @property
    @abc.abstractmethod
    def effective_size(self) -> float:
        """How many independent draws these are worth, at the worst parameter."""

    @abc.abstractmethod
    def sample(self, key: Array, num: int) -> Float[np.ndarray, "num d"]:
        """Draw from the posterior, with equal weights.

        Args:
            key: A JAX PRNG key.
            num: How many draws.

        Returns:
            theta, shape (num, d).
        """

    def log_prob(self, theta: ArrayLike) -> Float[np.ndarray, " n"]:
        """The log density of theta, for methods that have one.

        Args:
            theta: Parameters, shape (n, d).

        Returns:
            Log densities, shape (n,); -inf off the prior's support.

        Raises:
            MissingCapabilityError: If the method gives draws only.
        """
        raise MissingCapabilityError(
            f"{self.report.method} gives draws, not a density: use sample, or a method that learns"
            " the posterior."
        )

    def summary(self, *, level: float = 0.95) -> pd.DataFrame:
        """Means, spreads and intervals, with their Monte Carlo errors.

        An error (mcse) is the standard error of the number: how far it would be off in another run
        of the same length. It belongs to the draws; the error of an approximation is not in it.
        Draws are taken for independent, but for those of chains (`Draws`), whose autocorrelation
        counts.

        Args:
            level: Probability of the intervals, in (0, 1).

        Returns:
            A DataFrame with a row per parameter and derived quantity: mean, sd, median, the ends of
            the central interval, those of the shortest one (hdi), then "mean mcse", "median mcse",
            "2.5% mcse" and "97.5% mcse", named after the numbers that they are the errors of.

        >>> from noisewise.posteriors import Draws
        >>> theta = np.random.default_rng(0).normal(size=(400, 1))
        >>> Draws(theta, ("a",), Report("example")).summary().filter(like="mcse").round(2)
           mean mcse  median mcse  2.5% mcse  97.5% mcse
        a       0.05         0.07       0.21        0.13
        """
        import pandas as pd

        levels, ends = _central(level)
        rows = {}
        with np.errstate(invalid="ignore"):  # derived quantities may be infinite
            for name, quantity in self._quantities():
                rows[name] = [
                    quantity.mean,
                    quantity.sd,
                    *quantity.quantiles(levels),
                    *quantity.shortest_interval(level),
                    quantity.error_of_mean(),
                    *quantity.errors_of_quantiles(levels),
                ]
        columns = ["mean", "sd", "median", *ends, "hdi low", "hdi high"]
        columns += [f"{name} mcse" for name in ("mean", "median", *ends)]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @property
    def thin_tails(self) -> dict[str, tuple[str, ...]]:
        """Ends of 95% intervals beyond which fewer than 10 effective draws lie, by quantity: where
        400 independent draws would have 10. Such an end is hardly known, whatever its error says.

        >>> from noisewise.posteriors import WeightedSamples
        >>> theta = np.random.default_rng(0).normal(size=(4000, 1))
        >>> log_weights = 1.5 * theta[:, 0]  # to N(1.5, 1), whose upper tail few draws reach
        >>> posterior = WeightedSamples(theta, ("a",), Report("example"), log_weights=log_weights)
        >>> round(posterior.effective_size), posterior.thin_tails
        (662, {'a': ('97.5%',)})
        """
        levels, names = _central(0.95)
        thin = {
            name: tuple(
                end for end, few in zip(names, quantity.thin_tails(levels[1:]), strict=True) if few
            )
            for name, quantity in self._quantities()
        }
        return {name: ends for name, ends in thin.items() if ends}

    def to_frame(self) -> pd.DataFrame:
        """The draws as a table: one row per draw.

        Returns:
            A DataFrame with a column per parameter and derived quantity, and `weight`, which sums
            to 1. Draws of chains have a column `chain` too, that counts from 0.

        Raises:
            InvalidInputError: If a parameter or derived quantity has the name of such a column.

        >>> from noisewise.posteriors import Draws
        >>> Draws(np.arange(4.0)[:, None], ("a",), Report("example"), num_chains=2).to_frame()
             a  weight  chain
        0  0.0    0.25      0
        1  1.0    0.25      0
        2  2.0    0.25      1
        3  3.0    0.25      1
        """
        import pandas as pd

        columns, beside = self._columns(), self._beside_draws()
        taken = sorted(set(columns) & set(beside))
        if taken:
            raise InvalidInputError(
                f"A table of draws has a column {taken[0]!r} of its own: give the parameter or"
                " derived quantity of that name another one."
            )
        return pd.DataFrame({**columns, **beside})

    def to_arviz(
        self,
        model: PrivateModel | None = None,
        observed: Release | ArrayLike | None = None,
        key: Array | int = 0,
    ) -> Any:
        r"""The draws as arviz takes them, for its tables, plots, `arviz.loo` and `arviz.compare`.

        | group | needs | holds |
        |---|---|---|
        | posterior | | parameters and derived quantities, (chain, draw, ...) |
        | observed_data | observed | the released numbers y, a variable `s_dp` along `cell` |
        | prior | model | as many draws of the prior |
        | posterior_predictive | model | `s_dp` simulated at each draw |
        | log_likelihood | both | `s_dp`: the log likelihood of each number at each draw |

        Entries "beta[0]", "beta[1]" become one variable `beta`; its coordinates are what stands in
        brackets. Coordinates of `cell` are the names of the numbers, and the labels of a release
        that is a table. An absent cell is NaN in `observed_data` and `posterior_predictive`, as is
        one that was not measured, and a simulation that failed; the likelihood of an absent cell is
        the probability that it is absent. Weighted draws are resampled to equal weights, four for
        each effective one.

        `log_likelihood.attrs["given"]` says which law it is of:

        - "theta": log p(y_j | theta), where the simulator knows it
          (`simulators.KnowsLikelihood`); y_j are independent given theta.
        - "confidential statistics": log eta(y_j | s_j), where draws come with confidential
          statistics s (`statistics`), from the law p(theta, s | y), and the noise of columns is
          independent. With it

              p(y_j | y_-j) = 1 / E[1 / eta(y_j | s_j) | y],

          however statistics depend on each other, if eta(y_j | s_j) > 0 for all s: so LOO with it
          is of the same predictions as with log p(y_j | theta). Its weights are heavier, as s_j
          follows y_j: believe it where Pareto k is low. It is the noise of a normal mechanism that
          must be wider than s_j given the other numbers for a finite variance. Sums over j are no
          log likelihood of theta.

        There is no group log_likelihood where neither law is known, as with most learnt
        posteriors, tempered draws, and an error model in place of the mechanism (RNPE). It leaves
        out numbers of cells that were not measured, and those that the noise excludes at some
        simulation (`Exact`, `Rounded`), for which the identity does not hold. arviz 1.x refuses
        `loo` where all large weights are equal, as with answers by `RandomizedResponse`.

        Args:
            model: The model that the posterior was inferred with.
            observed: The released numbers, shape (k',), or the `Release`.
            key: A JAX PRNG key, or a whole number, for draws of the prior and the predictions.

        Returns:
            `arviz.InferenceData` of arviz 0.x, the `xarray.DataTree` of arviz 1.x.

        Raises:
            InvalidInputError: If the posterior is of other parameters than the model, the
                observation does not fit it, or a parameter is called "chain" or "draw".

        References:
            A. Vehtari, A. Gelman and J. Gabry, Practical Bayesian model evaluation using
            leave-one-out cross-validation and WAIC, Statistics and Computing 27 (2017).

        >>> from noisewise.posteriors import Draws
        >>> theta = np.random.default_rng(0).normal(size=(400, 2))
        >>> posterior = Draws(theta, ("b[0]", "b[1]"), Report("example"), num_chains=4)
        >>> data = posterior.to_arviz(observed=[1.5])
        >>> dict(data.posterior["b"].sizes), data.observed_data["s_dp"].values.tolist()
        ({'chain': 4, 'draw': 100, 'b_dim_0': 2}, [1.5])
        """
        from noisewise.posteriors.arviz_groups import arviz_data

        return arviz_data(self, self._columns(), self._rows(), model, observed, key)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a folder of arrays and JSON, without pickles, that `nw.load_posterior` reads.

        Args:
            path: The folder; must not exist yet.
            overwrite: Whether to replace what an earlier `save` wrote there.
        """
        arrays, content = {"theta": self.theta, **self._own_arrays()}, self._own_content()
        if self.statistics is not None:
            arrays["statistics"] = self.statistics
        if self.prior_draws is not None:
            arrays["prior_draws"] = self.prior_draws
        for j, values in enumerate(self.derived.values()):
            arrays[f"derived_{j}"] = values
        content |= {
            "names": list(self.names),
            "derived": list(self.derived),
            "statistic_names": list(self.statistic_names),
            "report": self.report.to_spec(),
        }
        write_archive(path, type(self).__name__, content, arrays, overwrite=overwrite)

    def with_report(self, report: Report) -> Self:
        """The same posterior with another report; the original keeps its own."""
        other = copy.copy(self)
        other.report = report
        return other

    def _beside_draws(self) -> dict[str, np.ndarray]:
        """What a table of draws holds besides quantities."""
        return {"weight": self.weights}

    def _columns(self) -> dict[str, np.ndarray]:
        return {**dict(zip(self.names, self.theta.T, strict=True)), **self.derived}

    def _quantities(self) -> Iterator[tuple[str, Quantity]]:
        """Each column with its weights, by name."""
        weights = self.weights
        for name, values in self._columns().items():
            yield name, Quantity(values, weights, self._autocorrelation_times)

    def _autocorrelation_times(self, terms: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " m"]:
        """How many draws are worth an independent one, by column: 1 where nothing else is known."""
        return independent(terms)

    def _rows(self) -> Int[np.ndarray, "c m"]:
        """Which draws make chains of equal weights, (chains, draws): all in one chain, where they
        are of one and weigh the same.
        """
        return np.arange(len(self.theta))[None]

    def _own_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _own_content(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        left_out = len(self.names) - _MOST_NAMES
        names = ", ".join(self.names[:_MOST_NAMES])
        more = f", ... ({left_out:,} more)" if left_out > 0 else ""
        text = (
            f"{type(self).__name__}({self.report.method}, {len(self.theta):,} draws of"
            f" {names}{more})"
        )
        return printable(text)


def check_num(num: Any) -> int:
    """The number of draws asked for, checked."""
    return integer("num", at_least=1)(num)


def _central(level: float) -> tuple[Float[np.ndarray, " 3"], list[str]]:
    """The levels of the median and of the ends of the central interval, and the ends' names."""
    tail = (1.0 - level) / 2.0
    return np.array([0.5, tail, 1.0 - tail]), [f"{100 * q:g}%" for q in (tail, 1.0 - tail)]
