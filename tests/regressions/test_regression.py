"""Regressions: the log density against plain NumPy formulas, names, missing rows and mistakes."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import special, stats

import noisewise as nw
from noisewise.errors import InvalidInputError
from noisewise.regressions.families import family_of

M = nw.mechanisms
TRUTH = 0.6
YES = 0.3


def survey(num=12):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "answer": rng.integers(0, 2, num) * 1.0,
            "age": rng.normal(4.0, 1.5, num).round(1),
            "sex": np.resize(["f", "m", "m"], num),
            "district": np.resize(["South", "North", "West"], num),
            "exposure": rng.uniform(0.5, 2.0, num),
            "count": rng.poisson(20.0, num) * 1.0,
        }
    )


def forced(frame, formula="answer ~ age + sex + (age | district)", **kwargs):
    return nw.regression(
        formula, frame, law="bernoulli", mechanism=M.ForcedResponse(truth=TRUTH, yes=YES), **kwargs
    )


def values_of(analysis, seed=1):
    """A point of the parameters, by entry."""
    theta = np.random.default_rng(seed).uniform(0.2, 0.8, analysis.model.prior.dim)
    return theta, dict(zip(analysis.model.names, theta, strict=True))


def predictor(frame, at, shift=0):
    """The linear predictor, row by row; planted: a group's labels shifted."""
    districts = sorted(set(frame["district"]))
    eta = []
    for row in frame.itertuples():
        own = districts[(districts.index(row.district) + shift) % 3]
        fixed = at["Intercept"] + at["age"] * row.age + at["sex[m]"] * (row.sex == "m")
        eta.append(fixed + at[f"district[{own}]"] + at[f"age|district[{own}]"] * row.age)
    return np.array(eta)


def answered(eta, answers, truth=TRUTH, yes=YES):
    p = yes + truth * special.expit(eta)
    return np.where(answers == 1.0, np.log(p), np.log1p(-p))


def test_the_likelihood_is_the_formula_and_bugs_are_not():
    frame = survey()
    analysis = forced(frame)
    theta, at = values_of(analysis)
    found = analysis.model.log_likelihood(theta[None], analysis.observed)[0]
    assert np.allclose(found, answered(predictor(frame, at), frame["answer"]), atol=1e-10)
    planted = {
        "forced no for forced yes": answered(predictor(frame, at), frame["answer"], yes=0.1),
        "p for 1 - p": answered(predictor(frame, at), 1.0 - frame["answer"]),
        "labels shifted": answered(predictor(frame, at, shift=1), frame["answer"]),
    }
    for wrong in planted.values():
        assert not np.allclose(found, wrong, atol=1e-3)


def test_names_priors_and_findings():
    frame = survey()
    frame["income"] = 1000.0 * frame["exposure"]
    analysis = forced(
        frame,
        "answer ~ sex + I((income / 10)**2) + (1 | district)",
        prior={"sex": dist.Normal(0, 1)},
    )
    assert analysis.model.names == (
        "Intercept",
        "sex[m]",
        "I((income/10)**2)",
        "sd(district)",
        "district[North]",
        "district[South]",
        "district[West]",
    )
    shown = repr(analysis)
    for line in (
        "Intercept ~ Normal(0, 5)",
        "sex ~ Normal(0, 1)",
        "sd(district) ~ HalfNormal(1)",
        "district ~ Normal(0, sd(district)) for each of 3 groups",
    ):
        assert line in shown
    assert [finding.column for finding in analysis.findings] == ["I((income/10)**2)"]
    column = analysis.formula.design.columns[2].values[:, 0]
    assert np.allclose(column, (frame["income"] / 10.0) ** 2)  # the parentheses count


def test_the_prior_of_effects_is_normal_with_their_spread():
    analysis = forced(survey(), "answer ~ 1 + (1 | district)")
    theta = np.array([0.5, 0.7, 0.1, -0.2, 0.3])
    expected = (
        stats.norm.logpdf(0.5, 0, 5)
        + stats.halfnorm.logpdf(0.7)
        + stats.norm.logpdf(theta[2:], 0, 0.7).sum()
    )
    assert np.isclose(analysis.model.prior.log_prob(theta), expected, atol=1e-6)


@pytest.mark.parametrize("offset", ["log_exposure", "array"])
def test_an_offset_is_on_the_scale_of_the_linear_predictor(offset):
    frame = survey(6)
    frame["log_exposure"] = np.log(frame["exposure"])
    given = frame["log_exposure"].to_numpy() if offset == "array" else offset
    analysis = nw.regression("count ~ age", frame, law="poisson", mechanism=M.Exact(), offset=given)
    theta = np.array([2.0, 0.2])
    found = analysis.model.log_likelihood(theta[None], analysis.observed)[0]
    rate = frame["exposure"] * np.exp(2.0 + 0.2 * frame["age"])
    assert np.allclose(found, stats.poisson.logpmf(frame["count"], rate), atol=1e-9)
    wrong = np.exp(frame["exposure"]) * np.exp(2.0 + 0.2 * frame["age"])  # planted
    assert not np.allclose(found, stats.poisson.logpmf(frame["count"], wrong), atol=0.1)


LAWS = {
    "binomial": ("p(count, asked) ~ age", [-1.0, 0.3]),
    "negative binomial": ("count ~ age", [2.0, 0.2, 0.5]),
    "normal": ("count ~ age", [2.0, 0.2, 3.0]),
    "poisson": ("count ~ age", [2.0, 0.2]),
}


@pytest.mark.parametrize("law", LAWS)
def test_other_laws(law):
    frame = survey(5).assign(asked=50.0)
    formula, theta = LAWS[law]
    mechanism = M.Gaussian(scale=1.0) if law == "normal" else M.Exact()
    analysis = nw.regression(formula, frame, law=law, mechanism=mechanism)
    found = analysis.model.log_likelihood(np.array([theta]), analysis.observed)[0]
    eta, y = theta[0] + theta[1] * frame["age"], frame["count"]
    mean, size = np.exp(eta), theta[-1] ** -2.0
    expected = {
        "binomial": lambda: stats.binom.logpmf(y, 50, special.expit(eta)),
        "negative binomial": lambda: stats.nbinom.logpmf(y, size, size / (size + mean)),
        "poisson": lambda: stats.poisson.logpmf(y, mean),
        "normal": lambda: stats.norm.logpdf(y, eta, np.hypot(theta[-1], 1.0)),
    }[law]()
    # the overdispersion has a floor of 1e-8
    assert np.allclose(found, expected, atol=1e-6)


def test_columns_of_the_mechanism_and_missing_outcomes_go_row_by_row():
    frame = survey().assign(truth=np.linspace(0.3, 0.6, 12))
    frame.loc[[2, 7], "answer"] = np.nan
    analysis = nw.regression(
        "answer ~ age",
        frame,
        law="bernoulli",
        mechanism=M.ForcedResponse(truth=frame["truth"], yes=0.3),
    )
    found = analysis.model.log_likelihood(np.array([[-1.0, 0.2]]), analysis.observed)[0]
    expected = answered(-1.0 + 0.2 * frame["age"], frame["answer"], frame["truth"])
    expected[[2, 7]] = 0.0
    assert np.allclose(found, expected, atol=1e-10)
    assert "12 rows, of them 2 without an outcome" in repr(analysis)


def test_a_suppressed_outcome_is_not_a_missing_one():
    frame = survey(5)
    frame.loc[1, "count"] = np.nan
    noise = M.Thresholded(M.DiscreteLaplace(scale=2.0), above=5.0)
    analysis = nw.regression("count ~ 1", frame, law="poisson", mechanism=noise)
    few, many = analysis.model.log_likelihood(np.array([[0.0], [3.0]]), analysis.observed)[:, 1]
    assert few > -0.2
    assert many < -3.0


def test_a_parameter_of_the_mechanism_may_be_unknown():
    frame = survey()
    frame.loc[3, "answer"] = np.nan

    def fit(prior):
        return nw.regression(
            "answer ~ age",
            frame,
            law="bernoulli",
            mechanism=lambda theta: M.ForcedResponse(truth=theta["t"], yes=0.3),
            prior=prior,
        )

    analysis = fit({"t": dist.Uniform(0.2, 0.7)})
    theta = np.array([[0.45, -1.0, 0.2]])
    assert analysis.model.names == ("t", "Intercept", "age")
    found = analysis.model.log_likelihood(theta, analysis.observed)[0]
    expected = answered(-1.0 + 0.2 * frame["age"], frame["answer"], truth=0.45)
    expected[3] = 0.0
    assert np.allclose(found, expected, atol=1e-10)
    with pytest.raises(InvalidInputError, match=r"'agee'.*did you mean 'age'"):
        fit({"t": dist.Uniform(0.2, 0.7), "agee": dist.Normal(0, 1)})


@pytest.mark.parametrize("name", ["negative binomial", "negative-binomial", "Negative_Binomial"])
def test_laws_are_named_as_people_type_them(name):
    assert family_of(name).name == "negative binomial"


def with_(**columns):
    return survey().assign(**columns)


MISTAKES = {
    "unknown column": (lambda: forced(survey(), "answer ~ agee"), "did you mean 'age'"),
    "unknown outcome": (lambda: forced(survey(), "anwser ~ age"), "did you mean 'answer'"),
    "text among numbers": (
        lambda: forced(with_(age=["1"] * 11 + ["12a"]), "answer ~ age"),
        "'12a' is no number",
    ),
    "text as outcome": (lambda: forced(survey(), "sex ~ age"), "must hold numbers"),
    "missing covariate": (
        lambda: forced(with_(age=[np.nan] + [1.0] * 11), "answer ~ age"),
        "missing or infinite in 1 of 12 rows",
    ),
    "impossible answer": (lambda: forced(survey(), "count ~ age"), "mechanism releases"),
    "counts through a survey": (
        lambda: nw.regression(
            "answer ~ 1", survey(), law="poisson", mechanism=M.ForcedResponse(truth=0.5)
        ),
        "law='bernoulli'",
    ),
    "counts for answers": (
        lambda: nw.regression("count ~ 1", survey(), law="bernoulli", mechanism=M.Exact()),
        "there is no noise",
    ),
    "unknown prior": (
        lambda: forced(survey(), "answer ~ age", prior={"agee": dist.Normal(0, 1)}),
        "did you mean 'age'",
    ),
    "unknown law": (
        lambda: nw.regression("answer ~ 1", survey(), law="poison", mechanism=M.Exact()),
        "Did you mean 'poisson'?",
    ),
    "a law by another name": (
        lambda: nw.regression("answer ~ 1", survey(), law="Logistic", mechanism=M.Exact()),
        "Did you mean 'bernoulli'?",
    ),
    "binomial as in glm": (
        lambda: nw.regression("answer ~ 1", survey(), law="binomial", mechanism=M.Exact()),
        'law="bernoulli"',
    ),
    "no tilde": (lambda: forced(survey(), "answer"), "must name an outcome"),
    "a power as in R": (lambda: forced(survey(), "answer ~ I(age^2)"), "has a power with ^"),
    "a power that formulae drops": (
        lambda: forced(survey(), "answer ~ age + age**2"),
        "outside of I()",
    ),
    "offset inside": (lambda: forced(survey(), "answer ~ offset(age)"), "argument offset="),
    "no trials": (
        lambda: nw.regression("count ~ 1", survey(), law="binomial", mechanism=M.Exact()),
        "p(yes, asked)",
    ),
    "offset of another length": (
        lambda: forced(survey(), "answer ~ 1", offset=np.zeros(3)),
        "got shape",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_sentence_before_anything_runs(name):
    call, words = MISTAKES[name]
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert words in str(caught.value)


class Drawn:
    """Stands for a posterior."""

    def __init__(self, analysis, theta):
        self.names, self._theta = analysis.model.names, theta

    def sample(self, key, num):
        return self._theta


def test_predictions_are_the_formula_for_new_rows_too():
    frame = survey().assign(log_exposure=0.3)
    analysis = forced(frame, offset="log_exposure")
    theta = np.random.default_rng(2).uniform(0.1, 0.4, (200, analysis.model.prior.dim))
    posterior = Drawn(analysis, theta)
    draws = np.stack(
        [predictor(frame, dict(zip(analysis.model.names, row, strict=True))) for row in theta]
    )
    expected = special.expit(draws + 0.3)
    found = analysis.predict(posterior)
    assert np.allclose(found["mean"], expected.mean(axis=0))
    assert np.allclose(found["97.5%"], np.quantile(expected, 0.975, axis=0))
    fewer = frame.iloc[[5, 2]].drop(columns="answer")
    assert np.allclose(analysis.predict(posterior, fewer), found.iloc[[5, 2]])
    weights = np.arange(12.0)
    overall = analysis.prevalence(posterior, weights=weights)
    assert np.isclose(overall["mean"], (expected @ weights).mean() / weights.sum())
    with pytest.raises(InvalidInputError, match="East"):
        analysis.predict(posterior, frame.assign(district="East"))
