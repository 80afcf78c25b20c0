"""Is the stated mechanism believable? Answers through randomising devices, held against what the
devices can produce, and against each other.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from noisewise.errors import NoisewiseError
from noisewise.mechanisms.base import AbstractMechanism, Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import AbstractPosterior, Finding, Kind

ALPHA = 0.01
"""Probability that something is found where the mechanism is as stated: half of it for either
check. That of predictive checks.
"""
_MOST_DESIGNS = 20
"""Designs that are told apart: a device per respondent has no rows to check it with."""
_FEWEST_ROWS = 20
"""Rows of a design that is held against others: a normal approximation needs some."""
_SAME = 1e-9
"""Difference of probabilities that are called the same: the rounding of files has seven digits."""
_DRAWS = 1000
"""Draws of the posterior: covariances are right to 4%."""
_UNLEARNT = 0.8
"""Share of the prior's standard deviation that is left of an unknown parameter of which the data
say little.
"""
_PRIOR_DRAWS = 10_000
"""Draws of the prior: standard deviations are right to 1%."""
_LEFT = 0.2
"""Share of the information about a difference of designs that the model must leave unexplained for
it to be checked: what coefficients explain, such as a column per design, is no contradiction.
"""


@dataclasses.dataclass(frozen=True)
class Answers:
    """Yes-or-no answers, and what devices do to them.

    Attributes:
        y: The answers, 0 or 1, shape (n,).
        no: P(1 | s = 0) of each.
        yes: P(1 | s = 1) of each.
        rows: Where they stand in the observation.
        design: The number of the design of each; all 0 where there are too many.
    """

    y: Float[np.ndarray, " n"]
    no: Float[np.ndarray, " n"]
    yes: Float[np.ndarray, " n"]
    rows: Int[np.ndarray, " n"]
    design: Int[np.ndarray, " n"]

    @classmethod
    def of(cls, mechanism: AbstractMechanism, observed: np.ndarray, k: int) -> Answers | None:
        """The answers of an observation; None where it holds something else.

        Args:
            mechanism: Without unknown parameters.
            observed: Shape (k',), NaN where nothing is known.
            k: The number of statistics.
        """
        answered = ~np.isnan(observed) & mechanism.measured(k)
        if Capability.DENSITY not in mechanism.capabilities or not answered.any():
            return None
        if not np.isin(observed[answered], (0.0, 1.0)).all():
            return None
        try:
            p = np.array(
                [[_probability(mechanism, y, s, observed) for s in (0, 1)] for y in (0, 1)]
            )
        except NoisewiseError:
            return None
        p = p[..., answered]
        if not np.allclose(p.sum(axis=0), 1.0, atol=_SAME):
            return None
        no, yes = p[1]
        return cls(observed[answered], no, yes, np.flatnonzero(answered), _designs(no, yes))

    @property
    def num_designs(self) -> int:
        """How many designs are told apart."""
        return int(self.design.max()) + 1


def _probability(
    mechanism: AbstractMechanism, y: float, s: float, observed: np.ndarray
) -> np.ndarray:
    answers = np.where(np.isnan(observed), np.nan, y)
    return np.exp(mechanism.log_prob_each(answers, np.full(observed.shape, float(s))))


def _designs(no: np.ndarray, yes: np.ndarray) -> np.ndarray:
    pairs = np.stack([no, yes], axis=1).round(-round(math.log10(_SAME)))
    found, which = np.unique(pairs, axis=0, return_inverse=True)
    return which.ravel() if len(found) <= _MOST_DESIGNS else np.zeros(len(no), dtype=int)


# Within what a device can produce -----------------------------------------------------------------


def out_of_range(answers: Answers) -> Finding | None:
    r"""That there are fewer yes than a device forces, or more than it allows.

    Whoever has the attribute, the number of yes is at least as large, in law, as with the smaller
    of P(1 | s = 0) and P(1 | s = 1) in every row, and at most as with the larger. So the tail at
    these, of a Poisson-binomial law, is a p-value, however few the answers are; it is multiplied by
    the number of tails that are looked at (each design by itself, and all together).
    """
    low, high = np.minimum(answers.no, answers.yes), np.maximum(answers.no, answers.yes)
    towards = np.where(answers.yes >= answers.no, answers.y, 1.0 - answers.y)
    flipped = answers.yes < answers.no
    ends = np.where(flipped, 1.0 - high, low), np.where(flipped, 1.0 - low, high)
    groups = [answers.design == number for number in range(answers.num_designs)]
    groups += [np.ones(len(answers.y), dtype=bool)] if len(groups) > 1 else []
    worst: tuple[float, dict[str, Any]] = (1.0, {})
    for group in groups:
        total = int(towards[group].sum())
        for side, p in zip(("few", "many"), (ends[0][group], ends[1][group]), strict=True):
            tail = _tail(p, total, side)
            if tail < worst[0]:
                backwards = flipped[group].all()
                worst = tail, _of_group(total, p, side, backwards=bool(backwards))
    p_value = min(1.0, 2.0 * len(groups) * worst[0])
    if p_value > ALPHA / 2.0:
        return None
    return Finding(Kind.ANSWERS_OUT_OF_RANGE, {**worst[1], "p": p_value})


def _of_group(total: int, p: np.ndarray, side: str, *, backwards: bool) -> dict[str, Any]:
    """Numbers of a group of answers, as they were given."""
    expected, num = float(p.sum()), len(p)
    if backwards:
        side = {"few": "many", "many": "few"}[side]
        total, expected = num - total, num - expected
    return {"side": side, "total": total, "num": num, "expected": expected}


def _tail(p: np.ndarray, total: int, side: str) -> float:
    """P(T <= total), or P(T >= total), of a sum T of independent answers with probabilities p."""
    from scipy import stats

    if np.ptp(p) <= _SAME:
        law = stats.binom(len(p), float(p[0]))
        return float(law.cdf(total) if side == "few" else law.sf(total - 1))
    masses = np.ones(1)
    for one in p:
        masses = np.convolve(masses, (1.0 - one, one))
    return float(masses[: total + 1].sum() if side == "few" else masses[total:].sum())


# Designs against each other -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class DesignTest:
    """A test of designs against each other.

    Attributes:
        statistic: About chi-square.
        df: Its degrees of freedom; 0 where nothing could be tested.
        p_value: Its upper tail.
    """

    statistic: float
    df: int
    p_value: float


def compare_designs(
    answers: Answers, probabilities: Float[np.ndarray, "draws n"]
) -> DesignTest | None:
    r"""Does one model serve all designs, or has each its own share of yes?

    Let p_j be P(answer j is 1), with posterior mean p'_j and covariance C. For each design k the
    score of an effect of its own on the log odds of the true answer is

        U_k = sum_{j in k} a_j (y_j - p'_j),
        a_j = (yes_j - no_j) q_j (1 - q_j) / (p'_j (1 - p'_j)),

    where q_j is the probability of a true yes, and where the model holds its covariance is

        V = diag_k(sum_{j in k} a_j^2 p'_j (1 - p'_j)) - A C A',

    as least squares leave of it (exactly so for linear normal models). U' V^-1 U is about
    chi-square, over the directions that the model leaves open: coefficients that tell designs apart
    explain their differences, and nothing is tested then.

    Args:
        answers: Answers of two designs or more.
        probabilities: Draws of p.

    Returns:
        The test; None where there are no two designs of 20 rows that tell something.

    Reference: Rao (1948), Proc. Camb. Phil. Soc. 44, 50-57, whose score test it is.
    """
    from scipy import stats

    slope = answers.yes - answers.no
    telling = np.bincount(answers.design, np.abs(slope) > _SAME)
    chosen = np.flatnonzero(telling >= _FEWEST_ROWS)
    if len(chosen) < 2:
        return None
    p = np.clip(probabilities.mean(axis=0), _SAME, 1.0 - _SAME)
    q = np.clip((p - answers.no) / np.where(slope == 0.0, 1.0, slope), _SAME, 1.0 - _SAME)
    a = slope * q * (1.0 - q) / (p * (1.0 - p))
    by_design = (answers.design == chosen[:, None]) * a
    scores = by_design @ (answers.y - p)
    information = (by_design**2) @ (p * (1.0 - p))
    explained = np.atleast_2d(np.cov((probabilities @ by_design.T).T))
    size = np.sqrt(information)
    if not (size > 0.0).all():
        return None
    left, directions = np.linalg.eigh(np.eye(len(chosen)) - explained / np.outer(size, size))
    kept = left >= _LEFT
    if not kept.any():
        return DesignTest(0.0, 0, 1.0)
    along = directions.T @ (scores / size)
    statistic, df = float(np.sum(along[kept] ** 2 / left[kept])), int(kept.sum())
    return DesignTest(statistic, df, float(stats.chi2.sf(statistic, df)))


def _disagreement(answers: Answers, test: DesignTest) -> Finding:
    """The finding, with what each design tells by itself."""
    shares, errors, names, nums = [], [], [], []
    for number in range(answers.num_designs):
        rows = answers.design == number
        slope = float(answers.yes[rows][0] - answers.no[rows][0])
        mean, num = float(answers.y[rows].mean()), int(rows.sum())
        if slope == 0.0 or num < _FEWEST_ROWS:
            continue
        shares.append((mean - float(answers.no[rows][0])) / slope)
        errors.append(math.sqrt(mean * (1.0 - mean) / num) / abs(slope))
        names.append(f"{answers.no[rows][0]:.3g} to {answers.yes[rows][0]:.3g}")
        nums.append(num)
    return Finding(
        Kind.DESIGNS_DISAGREE,
        {
            "p": test.p_value,
            "statistic": test.statistic,
            "df": test.df,
            "designs": names,
            "rows": nums,
            "shares": shares,
            "errors": errors,
        },
    )


# All of it ----------------------------------------------------------------------------------------


def mechanism_findings(
    posterior: AbstractPosterior, model: PrivateModel, observed: Any
) -> tuple[Finding, ...]:
    """What speaks against the stated mechanism, where released numbers are yes-or-no answers: with
    probability .01 at most in all where it is as stated. And unknown parameters of a mechanism of
    which the data say little.

    Args:
        posterior: The answer.
        model: Its model.
        observed: What was released.
    """
    return (*_unlearnt(posterior, model), *_against(posterior, model, model.observation(observed)))


def _unlearnt(posterior: AbstractPosterior, model: PrivateModel) -> list[Finding]:
    """That the prior decides about parameters of the mechanism, where it does."""
    if not model.mechanism.unknown:
        return []
    columns = model.unknown_columns
    before = model.prior.sample(jax.random.key(0), _PRIOR_DRAWS)[:, columns].std(axis=0)
    mean = posterior.weights @ posterior.theta[:, columns]
    after = np.sqrt(posterior.weights @ (posterior.theta[:, columns] - mean) ** 2)
    chosen = np.flatnonzero(after >= _UNLEARNT * before)
    if not chosen.size:
        return []
    names = [model.names[columns[j]] for j in chosen]
    numbers = {"names": names, "before": before[chosen], "after": after[chosen]}
    return [Finding(Kind.PRIOR_DECIDES, numbers)]


def _against(
    posterior: AbstractPosterior, model: PrivateModel, observed: np.ndarray
) -> tuple[Finding, ...]:
    known = ~np.isnan(observed)
    if not np.isin(observed[known], (0.0, 1.0)).all():
        return ()
    theta = posterior.sample(jax.random.key(0), _DRAWS)
    mechanism = model.mechanism_at(theta.mean(axis=0))
    answers = Answers.of(mechanism, observed, model.statistic_width - model.mechanism.num_unknown)
    if answers is None:
        return ()
    outside = None if model.mechanism.unknown else out_of_range(answers)
    found = [] if outside is None else [outside]
    if answers.num_designs > 1:
        found += _designs_apart(answers, model, theta, observed)
    return tuple(found)


def _designs_apart(
    answers: Answers, model: PrivateModel, theta: np.ndarray, observed: np.ndarray
) -> list[Finding]:
    log_p = model.log_likelihood(theta, np.where(np.isnan(observed), np.nan, 1.0))
    if log_p is None:
        return []
    test = compare_designs(answers, np.exp(log_p[:, answers.rows]))
    if test is None or test.p_value > ALPHA / 2.0:
        return []
    return [_disagreement(answers, test)]


def check_range(
    mechanism: AbstractMechanism, observed: Float[np.ndarray, " n"]
) -> tuple[Finding, ...]:
    """The part that needs no posterior, for a mechanism without unknown parameters."""
    if mechanism.unknown:
        return ()
    answers = Answers.of(mechanism, observed, len(observed))
    outside = None if answers is None else out_of_range(answers)
    return () if outside is None else (outside,)
