"""What a plan found."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from noisewise._core.files import PathLike, as_path, write_atomically
from noisewise._core.json_files import dump_json
from noisewise._core.json_values import jsonable
from noisewise.errors import ConversionError, InvalidInputError, MissingCapabilityError
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.planning.budgets import Label
from noisewise.planning.weighing import Learnt

COLUMNS = (
    "mean sd",
    "mean sd error",
    "share of prior",
    "median width",
    "median width error",
    "coverage",
    "coverage error",
    "effective size",
    "completed",
)
_SCHEMA, _SCHEMA_VERSION = "noisewise.plan", 2  # of files
_MANY_COMPLETED = 0.05
"""Share of completed posteriors above which a reader is warned: fewer hardly change a median."""
_UNLIKELY = 1e-3
"""Probability of a coverage so far off by chance, for all rows of the table together."""
_ROUGH = 0.02
"""Power below which a local law is hardly local: at .05 widths were off by 7%."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """What analysts will learn at each budget, on average over releases; `table` says it, `plot()`
    shows it.

    The columns of `table` are, for each budget and quantity:

    - mean sd: the posterior standard deviation, its mean over releases;
    - share of prior: the same over the prior's, so that 1 means that nothing is learnt;
    - median width: the width of the central interval, its median over releases;
    - coverage: how often that interval holds the truth;
    - ... error: the Monte Carlo standard error over releases;
    - effective size: the median worth of the weights, in draws;
    - completed: the share of releases for which a local normal law completed them.

    `learnt`, `truths` and `released` hold what the averages are of, release by release.

    Attributes:
        names: Parameters, then derived quantities (q).
        mechanisms: The noise of each budget, by label.
        truths: Parameters of the simulated data, shape (J, d).
        true_quantities: The quantities at these, shape (J, q).
        prior_quantities: The quantities of all other simulations, shape (n, q).
        released: The releases at each budget, shape (J, k').
        learnt: The posteriors of these.
        level: The probability of intervals.
        num_failed: Simulations that failed and were left out.
        given_truth: Whether the user gave the truths.
    """

    names: tuple[str, ...]
    mechanisms: Mapping[Label, AbstractMechanism]
    truths: Float[np.ndarray, "j d"]
    true_quantities: Float[np.ndarray, "j q"]
    prior_quantities: Float[np.ndarray, "n q"]
    released: Mapping[Label, Float[np.ndarray, "j kp"]]
    learnt: Mapping[Label, Learnt]
    level: float
    num_simulations: int
    num_failed: int
    given_truth: bool = False
    dropped: str | None = None

    @property
    def budgets(self) -> tuple[Label, ...]:
        """The labels of the budgets, in the order given."""
        return tuple(self.mechanisms)

    @property
    def num_releases(self) -> int:
        """J, the releases that were simulated at each budget."""
        return len(self.truths)

    @functools.cached_property
    def prior_sd(self) -> pd.Series:
        """The prior standard deviation of each quantity: what is known before any release."""
        with np.errstate(invalid="ignore"):
            return pd.Series(
                self.prior_quantities.std(axis=0), index=list(self.names), name="prior sd"
            )

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """One row per budget and quantity."""
        rows = {
            (label, name): self._row(self.learnt[label], j)
            for label in self.budgets
            for j, name in enumerate(self.names)
        }
        index = pd.MultiIndex.from_tuples(rows, names=["budget", "quantity"])
        return pd.DataFrame(list(rows.values()), index=index, columns=list(COLUMNS))

    def _row(self, learnt: Learnt, j: int) -> list[float]:
        """One row of the table: quantity `j` at one budget."""
        sd, width = learnt.sd[:, j], learnt.high[:, j] - learnt.low[:, j]
        truth = self.true_quantities[:, j]
        inside = float(np.mean((learnt.low[:, j] <= truth) & (truth <= learnt.high[:, j])))
        root = math.sqrt(len(sd))
        ends = np.quantile(
            width, [0.5 - 0.5 / root, 0.5 + 0.5 / root]
        )  # one standard error of a median's rank
        spread = (
            math.sqrt(max(inside * (1.0 - inside), self.level * (1.0 - self.level) / 4.0)) / root
        )
        return [
            float(sd.mean()),
            float(sd.std(ddof=1)) / root,
            float(sd.mean() / self.prior_sd.iloc[j]),
            float(np.median(width)),
            float(ends[1] - ends[0]) / 2.0,
            inside,
            spread,
            float(np.median(learnt.effective_size)),
            float(learnt.completed.mean()),
        ]

    @property
    def headline(self) -> str:
        """The quantity about which most is learnt at the last budget."""
        last = self.table.loc[self.budgets[-1]]["share of prior"]
        return str(last.index[int(np.argmin(last.fillna(np.inf).to_numpy()))])

    def sentence(self, budget: Label | None = None, quantity: str | None = None) -> str:
        """What is learnt about one quantity at one budget, in words.

        Args:
            budget: A label; by default the last.
            quantity: A parameter or derived quantity; by default the headline.

        Raises:
            InvalidInputError: If the plan has no such budget or quantity.
        """
        label = (
            self.budgets[-1]
            if budget is None
            else float(budget)
            if isinstance(budget, (int, float))
            else budget
        )
        name = self.headline if quantity is None else quantity
        if label not in self.mechanisms or name not in self.names:
            have = (
                f"budgets {', '.join(map(str, self.budgets))} and quantities"
                f" {', '.join(self.names)}"
            )
            raise InvalidInputError(f"The plan has {have}; got {budget!r} and {quantity!r}.")
        row = self.table.loc[(label, name)]
        what = f"epsilon {label:g}" if isinstance(label, float) else label
        return (
            f"At {what} an analyst learns {name} to +- {row['mean sd']:.2g} (one posterior sd, the"
            f" mean over releases), {100 * row['share of prior']:.0f}% of the prior's"
            f" {self.prior_sd[name]:.2g}."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the table must know, in sentences."""
        found = []
        thin = {
            label: part
            for label, part in self.learnt.items()
            if part.completed.mean() > _MANY_COMPLETED
        }
        if thin:
            share = max(part.completed.mean() for part in thin.values())
            rough = min(np.median(part.power[part.completed]) for part in thin.values()) < _ROUGH
            off = "by factors" if rough else "by 10% on average, by more for single releases"
            found.append(
                f"Few simulations come near up to {100 * share:.0f}% of the releases at"
                f" {_listed(thin)}, for which a local normal law completed the weights: widths may"
                f" be off {off}. More simulations fix that."
            )
        found += self._miscovered()
        if self.num_failed:
            found.append(
                f"{self.num_failed:,} of {self.num_simulations:,} simulations failed and were left"
                " out."
            )
        if self.dropped:
            found.append(self.dropped)
        return tuple(found)

    def _miscovered(self) -> Iterator[str]:
        """Warnings of intervals that hold the truth too often or too rarely.

        The number of intervals that hold truths from the prior is Binomial(J, level); for one truth
        that is given it may be any.
        """
        if self.given_truth:
            return
        from scipy.stats import binom

        table = self.table
        held = np.round(table["coverage"].to_numpy() * self.num_releases)
        tails = [
            binom.cdf(held, self.num_releases, self.level),
            binom.sf(held - 1, self.num_releases, self.level),
        ]
        for tail, words in zip(tails, ("more seldom", "more often"), strict=True):
            wrong = table[tail < _UNLIKELY / (2 * len(table))]
            for label, part in wrong.groupby(level=0, sort=False):
                names = ", ".join(part.index.get_level_values(1))
                yield (
                    f"At {_listed([label])} intervals of {names} hold the truth {words} than they"
                    " should: take more simulations."
                )

    def __repr__(self) -> str:
        head = (
            f"Plan from {self.num_simulations:,} simulations, {self.num_releases:,} releases at"
            f" each of {len(self.budgets)} budgets"
        )
        lines = [head, *(f"  {self.sentence(label)}" for label in self.budgets)]
        return "\n".join([*lines, *(f"  warning: {text}" for text in self.warnings)])

    def to_spec(self) -> dict[str, Any]:
        """The plan, JSON-ready: the table, the prior, and how it was made. Numbers that are not
        finite are null.

        """
        rows = [
            {
                "budget": label,
                "quantity": name,
                **jsonable(row.to_dict()),
            }
            for (label, name), row in self.table.iterrows()
        ]
        guarantees = {
            str(label): _guarantee(mechanism) for label, mechanism in self.mechanisms.items()
        }
        return {
            "schema": _SCHEMA,
            "schema_version": _SCHEMA_VERSION,
            "level": self.level,
            "num_simulations": self.num_simulations,
            "num_failed": self.num_failed,
            "num_releases": self.num_releases,
            "prior_sd": jsonable(self.prior_sd.to_dict()),
            "guarantees": guarantees,
            "table": rows,
            "warnings": list(self.warnings),
        }

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the JSON file, whole or not at all.

        Args:
            path: The name of the file.
            overwrite: Whether a file that exists may be replaced.

        Raises:
            InvalidInputError: If the file exists, or its folder cannot be written.
        """
        write_atomically(as_path(path), dump_json(self.to_spec()), overwrite=overwrite)

    def plot(self, *, columns: Sequence[str] | None = None, axes: Any = None) -> Any:
        """Draw intervals around the posterior mean against the budget, with those of the prior
        dashed.

        The intervals are those of all simulated posteriors together. Where labels are not numbers
        it is a forest plot.

        Args:
            columns: The quantities to draw; by default all that have a prior sd.
            axes: Axes of matplotlib to draw into; by default new ones.

        Returns:
            The axes.
        """
        import matplotlib

        from noisewise.plotting import forest, privacy_utility
        from noisewise.plotting.style import PRIOR, STYLE, label, legend_above

        chosen = [name for name in columns or self.names if np.isfinite(self.prior_sd[name])]
        rows = [self.names.index(name) for name in chosen]
        draws = {budget: self.learnt[budget].deviations[:, rows] for budget in self.budgets}
        if not all(isinstance(budget, float) for budget in self.budgets):
            return forest({str(budget): values for budget, values in draws.items()}, names=chosen)
        grid = privacy_utility(draws, names=chosen, level=self.level, axes=axes)
        tails = [0.5 - self.level / 2.0, 0.5 + self.level / 2.0]
        for ax, name, row in zip(grid, chosen, rows, strict=True):
            prior = self.prior_quantities[:, row]
            for end, text in zip(
                np.quantile(prior - prior.mean(), tails), ("prior", "_"), strict=True
            ):
                ax.axhline(
                    end, color=PRIOR, linestyle=(0, (4, 2)), linewidth=1.0, zorder=0, label=text
                )
            ax.set_ylabel(f"{label(name)}, from its mean")
        with matplotlib.rc_context(STYLE):
            legend_above(
                grid[0],
                outside=axes is None,
                title=f"median and {100 * self.level:g}% interval over all releases",
            )
        return grid


def _listed(labels: Iterable[Label]) -> str:
    return ", ".join(f"{label:g}" if isinstance(label, float) else label for label in labels)


def _guarantee(mechanism: AbstractMechanism) -> dict[str, Any] | None:
    try:
        return mechanism.guarantee.to_spec()
    except (MissingCapabilityError, ConversionError):
        return None
