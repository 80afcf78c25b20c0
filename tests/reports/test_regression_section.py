"""The section of a regression: sentences, averages, and the highest likelihood beside them."""

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.posteriors import Draws, Report
from noisewise.reports import write_report
from noisewise.reports.regression import _shared, averages, regression_section

M = nw.mechanisms


@pytest.fixture(scope="module")
def fitted():
    """Of 400 answers 80 are yes where 66.7 are forced: a skewed likelihood."""
    frame = pd.DataFrame({"rr": (np.arange(400) < 80) * 1.0, "female": np.resize([0, 1], 400)})
    forced = M.ForcedResponse(truth=2 / 3)
    analysis = nw.regression("rr ~ female", frame, law="bernoulli", mechanism=forced)
    theta = np.random.default_rng(0).normal([-3.0, 0.1], 0.4, (400, 2))
    return analysis, Draws(theta, analysis.model.names, Report("made", exact=True))


def test_the_section_says_what_an_analyst_reads(fitted):
    text = regression_section(*fitted)
    for words in (
        "Where female is 1 and not 0, the odds of a true yes to rr are multiplied by",
        "The share of a true yes to rr over all rows is about 0.05",
        "1 in place of 0",
        "The likelihood is skewed in",
        "Intercept ~ Normal(0, 5)",
        "Forest plot.",
    ):
        assert words in text, words
    assert text.count("<img") == 1


def test_an_optimum_at_infinity_is_said_and_not_raised(fitted):
    analysis, posterior = fitted
    frame = analysis.data.assign(rr=0.0)
    never = nw.regression("rr ~ female", frame, law="bernoulli", mechanism=M.Exact())
    text = regression_section(never, posterior)
    assert "has no single highest point" in text
    assert "Yes and no are separated by" in text


def test_a_column_in_several_terms_is_told(fitted):
    frame = fitted[0].data.assign(age=np.resize(np.linspace(2.0, 7.0, 9), 400))
    forced = M.ForcedResponse(truth=2 / 3)
    for formula, told in (("rr ~ age + I(age**2)", True), ("rr ~ age + female", False)):
        analysis = nw.regression(formula, frame, law="bernoulli", mechanism=forced)
        assert ("age stands in several terms" in _shared(analysis)) == told


def test_the_page_of_a_regression_speaks_of_its_rows(fitted, tmp_path):
    frame = pd.DataFrame({"visits": [12.0, np.nan, 15.0, 30.0], "rural": [0, 1, 0, 1]}).set_axis(
        [2, 3, 4, 5]
    )
    noise = M.Thresholded(M.DiscreteGaussian(scale=2.0), above=5.0)
    analysis = nw.regression("visits ~ rural", frame, law="poisson", mechanism=noise)
    theta = np.random.default_rng(0).normal([2.5, 0.2], 0.1, (400, 2))
    posterior = Draws(theta, analysis.model.names, Report("made", exact=True))
    page = write_report(tmp_path / "a.html", posterior, title="Visits", model=analysis).read_text()
    for words in (
        "The average over all rows of the expected visits is about",
        ">row 3<",
        "of them 1 suppressed",
        ">2.5<",
    ):
        assert words in page, words
    for words in ("rural is about", "FunctionQuery", "Records", "Neighbours", "s[0]"):
        assert words not in page, words


def test_weights_move_the_average(fitted):
    analysis, posterior = fitted
    assert regression_section(None, posterior) == ""
    by_women = averages(analysis, posterior, np.resize([0.0, 1.0], 400))
    assert "weighted" in by_women
    assert by_women != averages(analysis, posterior, None)
    rough = Draws(posterior.theta, posterior.names, Report("made"))
    assert "if the approximation is right" in averages(analysis, rough, None)
    assert "approximation" not in by_women
