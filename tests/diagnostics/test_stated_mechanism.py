"""Whether a stated mechanism is believable: exact tails, and designs against each other at their
false-alarm rate.
"""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import special, stats

import noisewise as nw
from noisewise.assessment import Evidence, judge
from noisewise.diagnostics.stated_mechanism import (
    ALPHA,
    Answers,
    check_range,
    compare_designs,
    mechanism_findings,
    out_of_range,
)
from noisewise.posteriors import Draws, Kind, Report

M = nw.mechanisms
GRID = np.linspace(-9.0, 9.0, 721)
"""Log odds, on which posteriors of a single share are computed."""


def answers_of(no, yes, nums, totals):
    """Answers of several designs, with so many yes each."""
    y = np.concatenate([np.arange(num) < total for num, total in zip(nums, totals, strict=True)])
    design = np.repeat(np.arange(len(nums)), nums)
    return Answers(y * 1.0, no[design], yes[design], np.arange(len(y)), design)


def share_draws(rng, answers, num=1000):
    """Draws of P(answer j is 1) under one share of all, with prior N(0, 5^2) on its log odds."""
    p = answers.no + (answers.yes - answers.no) * special.expit(GRID)[:, None]
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    log_density = stats.norm.logpdf(GRID, 0.0, 5.0)
    for k in range(answers.num_designs):
        rows = answers.design == k
        one = p[:, rows][:, 0]
        yes = answers.y[rows].sum()
        log_density = log_density + yes * np.log(one) + (rows.sum() - yes) * np.log1p(-one)
    weights = np.exp(log_density - log_density.max())
    return p[rng.choice(len(GRID), num, p=weights / weights.sum())]


def alarms(rng, no, yes, nums, shares, num_trials):
    """The share of trials in which designs disagree at ALPHA / 2."""
    no, yes = np.array(no), np.array(yes)
    found = 0
    for _ in range(num_trials):
        totals = rng.binomial(nums, no + (yes - no) * shares)
        answers = answers_of(no, yes, nums, totals)
        test = compare_designs(answers, share_draws(rng, answers))
        found += test.p_value <= ALPHA / 2.0
    return found / num_trials


def test_the_range_is_an_exact_binomial_tail():
    """The arm of forced response in the study of dice: 117 of 769 said yes, 128.2 are expected
    without a cheater, p = .15, which is no contradiction.
    """
    survey = M.ForcedResponse(truth=0.75, yes=1 / 6)
    assert np.isclose(stats.binom.cdf(117, 769, 1 / 6), 0.151, atol=5e-4)
    assert check_range(survey, (np.arange(769) < 117) * 1.0) == ()
    limit = int(stats.binom.ppf(ALPHA / 4.0, 769, 1 / 6))  # the largest total with a smaller tail
    assert check_range(survey, (np.arange(769) < limit) * 1.0) == ()
    (found,) = check_range(survey, (np.arange(769) < limit - 1) * 1.0)
    assert found.kind is Kind.ANSWERS_OUT_OF_RANGE
    assert found.numbers["side"] == "few"
    assert np.isclose(found.numbers["p"], 2.0 * stats.binom.cdf(limit - 1, 769, 1 / 6))
    (found,) = check_range(survey, np.ones(769))
    assert (found.numbers["side"], found.numbers["total"]) == ("many", 769)


def test_rows_of_different_designs_have_a_poisson_binomial_tail():
    no = np.array([0.2, 0.5])
    answers = answers_of(no, np.array([0.9, 0.8]), [30, 30], [0, 6])
    found = out_of_range(answers)
    by_hand = {
        "first": stats.binom.cdf(0, 30, 0.2),
        "second": stats.binom.cdf(6, 30, 0.5),
        "both": sum(
            stats.binom.pmf(i, 30, 0.2) * stats.binom.cdf(6 - i, 30, 0.5) for i in range(7)
        ),
    }
    assert min(by_hand, key=by_hand.get) == "both"
    assert np.isclose(found.numbers["p"], 6.0 * by_hand["both"])


def test_answers_of_crosswise_turn_around():
    """P(1 | s) falls from 0.8 to 0.2: too many yes are too few with the attribute."""
    (found,) = check_range(M.Crosswise(p=0.2), np.ones(200))
    assert (found.numbers["side"], found.numbers["total"]) == ("many", 200)
    assert np.isclose(found.numbers["expected"], 160.0)
    (found,) = check_range(M.Crosswise(p=0.2), np.zeros(200))
    assert (found.numbers["side"], found.numbers["expected"]) == ("few", 40.0)


@pytest.mark.parametrize("noise", [M.Laplace(scale=1.0), M.Rounded(base=2), M.DirectQuestion()])
def test_other_numbers_are_left_alone(noise):
    assert check_range(noise, np.zeros(50)) == ()


def test_designs_that_disagree_are_told_and_those_that_agree_are_not():
    rng = np.random.default_rng(0)
    no, yes = np.array([1 / 6, 0.8]), np.array([11 / 12, 0.2])
    apart = answers_of(no, yes, [769, 573], [117, 405])
    found = compare_designs(apart, share_draws(rng, apart))
    assert found.df == 1
    # by hand: a chi-square of homogeneity at the pooled share
    share = special.expit(GRID)
    score = [
        (total - num * (c + d * share)) ** 2 / (num * (c + d * share) * (1 - c - d * share))
        for total, num, c, d in zip([117, 405], [769, 573], no, yes - no, strict=True)
    ]
    assert abs(found.statistic - np.sum(score, axis=0).min()) < 0.15 * found.statistic
    assert found.p_value < 1e-4
    together = answers_of(no, yes, [769, 573], [205, 430])
    assert compare_designs(together, share_draws(rng, together)).p_value > 0.05


def test_a_design_that_tells_nothing_hides_no_disagreement():
    """Answers by the toss of a coin beside two designs that do not agree."""
    rng = np.random.default_rng(0)
    no, yes = np.array([1 / 6, 0.8, 0.5]), np.array([11 / 12, 0.2, 0.5])
    apart = answers_of(no, yes, [769, 573, 40], [117, 405, 21])
    found = compare_designs(apart, share_draws(rng, apart))
    assert found.df == 1
    assert found.p_value < 1e-4


def test_a_column_for_each_design_explains_their_difference():
    rng = np.random.default_rng(0)
    answers = answers_of(np.array([0.2, 0.3]), np.array([0.8, 0.9]), [300, 300], [90, 220])
    own = rng.beta([91, 221], [211, 81], (2000, 2))[:, answers.design]
    assert compare_designs(answers, own).df == 0


def test_false_alarms_are_rare():
    """Of 400 trials at level .005, 9 are exceeded with probability 1e-4."""
    rng = np.random.default_rng(1)
    assert alarms(rng, [1 / 6, 0.2], [5 / 6, 0.7], [60, 60], 0.3, 400) <= 9 / 400
    # planted: the stated design is not that of the first arm
    no, yes = np.array([0.3, 0.2]), np.array([5 / 6, 0.7])
    totals = [int(600 * (1 / 6 + 2 / 3 * 0.3)), int(600 * 0.35)]
    wrong = answers_of(no, yes, [600, 600], totals)
    assert compare_designs(wrong, share_draws(rng, wrong)).p_value < ALPHA / 2.0


def told(analysis, theta):
    """The kinds of findings about the mechanism, for draws of the parameters."""
    posterior = Draws(theta, analysis.model.names, Report("made", exact=True))
    return [f.kind for f in mechanism_findings(posterior, analysis.model, analysis.observed)]


def test_findings_of_a_posterior_and_their_verdict():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": np.r_[np.arange(300) < 40, np.arange(300) < 200] * 1.0})
    mechanism = M.PerCell(
        [M.ForcedResponse(truth=2 / 3), M.ForcedResponse(truth=0.5)], np.repeat([0, 1], 300)
    )
    analysis = nw.regression("y ~ 1", frame, law="bernoulli", mechanism=mechanism)
    theta = rng.normal(-0.7, 0.2, (1000, 1))
    assert told(analysis, theta) == [Kind.DESIGNS_DISAGREE]
    posterior = Draws(theta, analysis.model.names, Report("made", exact=True))
    findings = mechanism_findings(posterior, analysis.model, analysis.observed)
    found = judge(Evidence.of(posterior, found=findings))
    assert found.level == "do not trust"
    assert "mechanism contradicted" in [reason.kind for reason in found.reasons]
    assert not found.trustworthy


def test_an_unknown_parameter_of_which_the_data_say_little_is_told():
    frame = pd.DataFrame({"y": (np.arange(60) < 30) * 1.0})
    analysis = nw.regression(
        "y ~ 1",
        frame,
        law="bernoulli",
        mechanism=lambda theta: M.ForcedResponse(truth=theta["t"], yes=0.2),
        prior={"t": dist.Uniform(0.2, 0.8)},
    )
    rng = np.random.default_rng(0)
    wide = np.stack([rng.uniform(0.2, 0.8, 500), rng.normal(0, 0.3, 500)], axis=1)
    assert told(analysis, wide) == [Kind.PRIOR_DECIDES]
    narrow = np.stack([rng.uniform(0.4, 0.6, 500), rng.normal(0, 0.3, 500)], axis=1)
    assert told(analysis, narrow) == []


LEVEL = ALPHA / 2.0
SURVEYS = {
    "two devices": ([1 / 6, 0.2], [5 / 6, 0.7], [60, 60], 0.3),
    "a small share": ([1 / 6, 0.2], [5 / 6, 0.7], [60, 60], 0.05),
    "few answers": ([0.0, 1 / 6, 0.8], [1.0, 5 / 6, 0.2], [30, 30, 30], 0.1),
    "one is asked directly": ([0.0, 1 / 6], [1.0, 5 / 6], [100, 100], 0.02),
    "five designs": ([0, 1 / 6, 0.8, 0.11, 0.84], [1, 11 / 12, 0.2, 0.89, 0.16], 5 * [200], 0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SURVEYS)
def test_the_false_alarm_rate(name):
    """At most its level, up to 3.5 standard errors of 4,000 trials."""
    rate = alarms(np.random.default_rng(7), *SURVEYS[name], 4000)
    assert rate <= LEVEL + 3.5 * np.sqrt(LEVEL / 4000)


def normal_draws(rng, answers, x, num=1000):
    """Draws of P(answer j is 1) by a normal approximation of a logistic regression on x, with
    priors N(0, 2.5^2).
    """
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        q = special.expit(x @ beta)
        p = answers.no + (answers.yes - answers.no) * q
        slope = (answers.yes - answers.no) * q * (1.0 - q)
        gradient = x.T @ (slope * (answers.y - p) / (p * (1.0 - p))) - beta / 6.25
        expected = (x * (slope**2 / (p * (1.0 - p)))[:, None]).T @ x + np.eye(len(beta)) / 6.25
        beta = beta + np.clip(np.linalg.solve(expected, gradient), -1.0, 1.0)
    spread = np.linalg.cholesky(np.linalg.inv(expected))
    drawn = beta + rng.normal(size=(num, len(beta))) @ spread.T
    return answers.no + (answers.yes - answers.no) * special.expit(drawn @ x.T)


@pytest.mark.slow
def test_the_false_alarm_rate_of_regressions():
    """With two covariates, one of which differs between the designs."""
    rng, num, found = np.random.default_rng(8), 400, 0
    design = np.repeat([0, 1], num // 2)
    no, yes = np.array([1 / 6, 0.25])[design], np.array([5 / 6, 0.75])[design]
    for _ in range(1000):
        x = np.stack([np.ones(num), rng.normal(0.5 * design), rng.normal(size=num)], axis=1)
        s = rng.random(num) < special.expit(x @ [-0.5, 0.6, -0.4])
        y = (rng.random(num) < np.where(s, yes, no)) * 1.0
        answers = Answers(y, no, yes, np.arange(num), design)
        found += compare_designs(answers, normal_draws(rng, answers, x)).p_value <= LEVEL
    assert found / 1000 <= LEVEL + 3.5 * np.sqrt(LEVEL / 1000)
