"""What is read off a regression, against the formulas in NumPy."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

import noisewise as nw
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.posteriors import Draws, Kind, Report

M = nw.mechanisms
FORCED = M.ForcedResponse(truth=0.6, yes=0.3)


def survey():
    rng = np.random.default_rng(0)
    num = 40
    return pd.DataFrame(
        {
            "answer": np.resize([1.0, 0.0, 0.0], num),
            "age": rng.normal(4.0, 1.5, num),
            "female": np.resize([0, 1], num),
            "region": np.resize(["North", "South", "West"], num),
            "count": rng.poisson(9.0, num) * 1.0,
        }
    )


FORMULA = "answer ~ age + I(age**2) + female + region"


@pytest.fixture(scope="module")
def fitted():
    analysis = nw.regression(FORMULA, survey(), law="bernoulli", mechanism=FORCED)
    theta = np.random.default_rng(1).normal(0.0, 0.2, (4000, len(analysis.model.names)))
    s = np.random.default_rng(2).integers(0, 2, (4000, 40)) * 1.0
    return analysis, Draws(theta, analysis.model.names, Report("made"), statistics=s)


def shares(analysis, frame, theta):
    at = dict(zip(analysis.model.names, theta.T[..., None], strict=True))
    eta = at["Intercept"] + at["age"] * frame["age"].to_numpy()
    eta = eta + at["I(age**2)"] * frame["age"].to_numpy() ** 2
    eta = eta + at["female"] * frame["female"].to_numpy()
    for region in ("South", "West"):
        eta = eta + at[f"region[{region}]"] * (frame["region"] == region).to_numpy()
    return special.expit(eta)


def test_ratios_are_exponentials(fitted):
    analysis, posterior = fitted
    found = analysis.ratios(posterior)
    draws = posterior.theta
    j = analysis.model.names.index("female")
    names = ["age", "I(age**2)", "female", "region[South]", "region[West]"]
    assert found.index.tolist() == names
    # draws are resampled: errors are those of medians and quantiles of 4,000
    assert np.isclose(found.loc["female", "median"], np.exp(np.median(draws[:, j])), atol=0.02)
    assert np.isclose(found.loc["female", "97.5%"], np.exp(0.2 * 1.96), atol=0.05)
    assert "Intercept" in analysis.coefficients(posterior).index
    probit = nw.regression(
        "answer ~ age", survey(), law="bernoulli", mechanism=FORCED, link="probit"
    )
    with pytest.raises(MissingCapabilityError, match="marginal_effects"):
        probit.ratios(Draws(np.zeros((20, 2)), probit.model.names, Report("made")))


def test_marginal_effects_change_one_column_in_every_row(fitted):
    analysis, posterior = fitted
    frame, theta = analysis.data, posterior.sample(0, 4000)
    found = analysis.marginal_effects(posterior)
    assert found.index.tolist() == ["age", "female", "region[South]", "region[West]"]

    def difference(**columns):
        before, after = ({name: pair[i] for name, pair in columns.items()} for i in (0, 1))
        pair = [shares(analysis, frame.assign(**values), theta) for values in (before, after)]
        return (pair[1] - pair[0]).mean(axis=1)

    female = difference(female=(0, 1))
    assert np.isclose(found.loc["female", "mean"], female.mean(), atol=1e-9)
    assert np.isclose(found.loc["female", "97.5%"], np.quantile(female, 0.975), atol=1e-9)
    west = difference(region=("North", "West"))
    assert np.isclose(found.loc["region[West]", "mean"], west.mean(), atol=1e-9)
    q = shares(analysis, frame, theta)  # the square moves with its column
    at = dict(zip(analysis.model.names, theta.T[..., None], strict=True))
    slope = at["age"] + 2.0 * at["I(age**2)"] * frame["age"].to_numpy()
    by_calculus = (q * (1.0 - q) * slope).mean(axis=1)
    assert np.isclose(found.loc["age", "mean"], by_calculus.mean(), atol=1e-5)
    planted = (q * (1.0 - q) * at["age"]).mean()  # the square left as it is
    assert not np.isclose(found.loc["age", "mean"], planted, atol=1e-4)


def test_prevalence_by_group_is_weighted_within_it(fitted):
    analysis, posterior = fitted
    frame, theta = analysis.data, posterior.sample(0, 4000)
    w = np.arange(1.0, 41.0)
    found = analysis.prevalence(posterior, weights=w, by="region")
    q = shares(analysis, frame, theta)
    for region, row in found.iterrows():
        inside = (frame["region"] == region).to_numpy()
        own = q[:, inside] @ w[inside] / w[inside].sum()
        assert row["rows"] == inside.sum()
        assert np.isclose(row["mean"], own.mean(), atol=1e-9)
        assert np.isclose(row["2.5%"], np.quantile(own, 0.025), atol=1e-9)
    both = analysis.prevalence(posterior, by=["region", "female"])
    assert both.index.names == ["region", "female"]
    with pytest.raises(InvalidInputError, match="no column"):
        analysis.prevalence(posterior, by="town")


def test_confidential_outcomes_stand_beside_the_released_ones(fitted):
    analysis, posterior = fitted
    found = analysis.confidential(posterior)
    assert np.allclose(found["released"], analysis.observed)
    assert np.allclose(found["mean"], posterior.statistics.mean(axis=0))


def test_coefficients_in_words(fitted):
    analysis, posterior = fitted
    age, _, female, south, _ = analysis.in_words(posterior)
    assert age.startswith("Each further unit of age multiplies the odds of a true yes to answer by")
    assert "(95%: 0." in age
    assert female.startswith("Where female is 1 and not 0, the odds")
    assert south.startswith("region South: the odds of a true yes to answer are ")
    assert south.endswith(" times those of North.")
    counts = nw.regression("count ~ age", survey(), law="poisson", mechanism=M.Exact())
    drawn = Draws(np.random.default_rng(0).normal(size=(50, 2)), counts.model.names, Report("made"))
    assert counts.in_words(drawn)[0].startswith(
        "Each further unit of age multiplies the expected count by"
    )


def kinds(analysis):
    return [getattr(finding, "kind", None) for finding in analysis.findings]


def test_groups_of_one_row_and_separation_are_findings():
    frame = survey().assign(town=["alone", *np.resize(["a", "b"], 39)])
    grouped = nw.regression("answer ~ 1 + (1 | town)", frame, law="bernoulli", mechanism=FORCED)
    (found,) = grouped.findings
    assert found.kind is Kind.GROUPS_OF_ONE_ROW
    assert found.numbers == {"name": "town", "num": 1, "groups": 3, "example": "alone"}

    def direct(outcome):
        return nw.regression(
            "answer ~ age + female",
            frame.assign(answer=outcome * 1.0),
            law="bernoulli",
            mechanism=M.DirectQuestion(),
        )

    apart = direct(frame["age"] > 4.0)
    assert kinds(apart) == [Kind.SEPARATION]
    assert "age" in apart.findings[0].numbers["names"]
    assert kinds(direct(frame["female"] * (frame["age"] > 4.0))) == [Kind.SEPARATION]  # in part
    mixed = direct((frame["age"] + 3.0 * np.resize([0, 1, -1], 40)) > 4.0)
    assert kinds(mixed) == []


def test_rows_that_were_not_measured_are_not_suppressed_ones():
    frame = survey().assign(lost=np.arange(40) == 3)
    frame.loc[[3, 5], "count"] = np.nan
    noise = M.Thresholded(M.DiscreteLaplace(scale=2.0), above=1.0)
    analysis = nw.regression("count ~ 1", frame, law="poisson", mechanism=noise, missing="lost")
    assert np.flatnonzero(~analysis.model.mechanism.measured(40)).tolist() == [3]
    assert np.isnan(analysis.observed[[3, 5]]).all()
    assert "40 rows, of them 1 suppressed and 1 without an outcome" in repr(analysis)
    small = M.Thresholded(M.DiscreteLaplace(scale=2.0), above=5.0)
    with pytest.raises(InvalidInputError, match="releases multiples of 1 that are at least 5, or"):
        nw.regression("count ~ 1", frame, law="poisson", mechanism=small, missing="lost")
    with pytest.raises(InvalidInputError, match="True and False"):
        nw.regression("count ~ 1", frame, law="poisson", mechanism=noise, missing="age")


def effects(formula, frame):
    analysis = nw.regression(formula, frame, law="bernoulli", mechanism=FORCED)
    theta = np.random.default_rng(1).normal(0.0, 0.2, (200, len(analysis.model.names)))
    posterior = Draws(theta, analysis.model.names, Report("made"))
    return analysis, posterior, analysis.marginal_effects(posterior)


def test_marginal_effects_at_the_ends_of_columns():
    """Numbers that are names, categories that do not occur, roots at 0, and a single row."""
    frame = survey().assign(area=np.resize([1, 2, 3], 40), tall=np.arange(40) / 4.0)
    assert effects("answer ~ C(area)", frame)[2].index.tolist() == ["area[2]", "area[3]"]
    levels = ["East", "North", "South", "West"]
    some = frame.assign(region=pd.Categorical(frame["region"], categories=levels))
    found = effects("answer ~ region", some)[2]
    assert found["change"].tolist() == ["South in place of North", "West in place of North"]
    assert np.isfinite(effects("answer ~ sqrt(tall)", frame)[2].loc["tall", "mean"])
    assert np.isfinite(effects("answer ~ age", frame.iloc[:1])[2].loc["age", "mean"])
    analysis, posterior, found = effects("answer ~ tall", frame)  # against the derivative
    at = dict(zip(analysis.model.names, posterior.sample(0, 4000).T[..., None], strict=True))
    q = special.expit(at["Intercept"] + at["tall"] * frame["tall"].to_numpy())
    expected = (q * (1.0 - q) * at["tall"]).mean()
    assert np.isclose(found.loc["tall", "mean"], expected, atol=1e-5)


def test_rows_without_an_entry_are_in_no_group(fitted):
    analysis, posterior = fitted
    frame = survey()
    some = frame.assign(region=frame["region"].where(np.arange(40) >= 10))
    found = analysis.prevalence(posterior, frame.assign(town=some["region"]), by="town")
    expected = analysis.prevalence(posterior, frame.iloc[10:], by="region")
    np.testing.assert_allclose(found, expected)


def test_categories_without_a_base_are_not_compared_with_one():
    analysis, posterior, _ = effects("answer ~ 0 + region", survey())
    (north, *_) = analysis.in_words(posterior)
    assert north.endswith("all else being 0.")
    assert "base" not in north


def test_formulas_call_functions_of_numbers_alone():
    """Planted: modules that formulae finds where it is called."""
    for call in (
        "dataclasses.builtins.eval('1')",
        "np.f2py.os.getpid()",
        "np.load('x.npy')",
        "I(scale.__init__.__globals__)",
        "C.__builtins__.get('exec')",
        "np.log['x'](age) + re.sys.exit['x']('1')",
    ):
        with pytest.raises(InvalidInputError, match=r"cannot be computed|cannot be read|'\._'"):
            nw.regression(f"answer ~ {call}", survey(), law="bernoulli", mechanism=FORCED)
    usable = "answer ~ np.log(age**2) + np.where(age > 4, 1, 0) + scale(age) + exp(female)"
    assert len(effects(usable, survey())[0].model.names) == 5


def test_columns_without_a_say_are_told():
    frame = survey()
    with pytest.raises(InvalidInputError, match="one category"):
        nw.regression(
            "answer ~ region", frame.assign(region="North"), law="bernoulli", mechanism=FORCED
        )
    twice = frame.rename(columns={"female": "age"})
    with pytest.raises(InvalidInputError, match="several columns"):
        nw.regression("answer ~ age", twice, law="bernoulli", mechanism=FORCED)
