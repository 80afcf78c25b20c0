"""The naive plug-in and the confidential posterior in the paper's rows, and what they and Gibbs-SS
refuse.
"""

import dataclasses

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import noisewise as nw
from noisewise import errors
from noisewise.inference.baselines.confidential_posterior import ConfidentialPosterior
from noisewise.inference.baselines.gibbs_sufficient_statistics import GibbsSufficientStatistics
from noisewise.inference.baselines.naive_plug_in import NaivePlugIn
from noisewise.queries import RegressionMoments
from noisewise.simulators import LinearRegression
from tests.inference.regressions import KEY, SHORT, infer, infer_problem

pytestmark = pytest.mark.usefixtures("own_cache")

GRAM = [[100.0, 93.7906, -126.9742], [93.7906, 179.9853, -93.5167], [-126.9742, -93.5167, 280.0132]]
CROSS, SQUARES = [-375.2591, -631.6069, 299.4140], 2521.1204
"""The paper's confidential sums, before clamping."""


# The plug-in and the confidential posterior -------------------------------------------------------


def records_with_sums():
    """100 records with exactly the sums of the paper's confidential data."""
    sums = np.block([[np.array(GRAM), np.array(CROSS)[:, None]], [np.array(CROSS), SQUARES]])
    basis = np.column_stack([np.ones(100), np.random.default_rng(0).normal(size=(100, 3))])
    q, r = np.linalg.qr(basis)
    return (q * np.sign(np.diagonal(r)) @ np.linalg.cholesky(sums).T)[:, 1:]


def rows(posterior):
    table = posterior.summary()
    return table[["mean", "2.5%", "97.5%"]].to_numpy()


def test_the_papers_rows():
    """40,000 independent draws: means within 4 standard errors of the printed rows, ends of the
    intervals within .02.
    """
    problem = nw.problems.linear_regression(10.0)
    confidential = [[-2.15, -2.68, -1.61], [-2.79, -3.08, -2.50], [-0.83, -1.08, -0.58]]
    naive = [[-4.63, -5.04, -4.22], [-6.23, -6.57, -5.90], [-5.10, -5.40, -4.79]]
    found = rows(infer_problem(NaivePlugIn(num_draws=40_000), problem))
    np.testing.assert_allclose(found[:, 0], np.array(naive)[:, 0], atol=0.01)
    np.testing.assert_allclose(found, naive, atol=0.02)
    posterior = infer_problem(
        ConfidentialPosterior(data=records_with_sums(), num_draws=40_000), problem
    )
    np.testing.assert_allclose(rows(posterior)[:, 0], np.array(confidential)[:, 0], atol=0.01)
    np.testing.assert_allclose(rows(posterior), confidential, atol=0.02)
    assert posterior.report.exact
    clamped = infer_problem(
        ConfidentialPosterior(data=problem.confidential, num_draws=40_000), problem
    )
    np.testing.assert_allclose(rows(clamped)[:, 0], [-2.13, -2.78, -0.82], atol=0.01)
    assert not clamped.report.exact


@pytest.mark.parametrize("epsilon", [1.0, 0.1])
def test_the_plug_in_is_refused_where_no_data_have_such_sums(epsilon):
    with pytest.raises(errors.InvalidInputError, match=r"no posterior: .* positive definite"):
        infer_problem(NaivePlugIn(), nw.problems.linear_regression(epsilon))


def test_tables_and_means_are_plugged_in():
    """20,000 draws against the Dirichlet and normal laws by hand, means within 4.5 standard errors;
    KS p > .001 for the normal.
    """
    observed = np.array([0.3, -0.2, 0.25, 0.6, 0.1, 0.4, -0.01, 0.3])
    method = NaivePlugIn(num_draws=20_000, max_simulations=1)
    posterior = infer(method, TABLES.model, observed)
    counts = np.maximum(100 * observed, 0.0).reshape(2, 2, 2)
    classes = counts.sum(2).mean(1)
    parts = [*(2.0 + counts).reshape(4, 2), 2.0 + classes]
    expected = np.concatenate([part / part.sum() for part in parts])
    error = np.sqrt(
        np.concatenate(
            [part / part.sum() * (1 - part / part.sum()) / (part.sum() + 1) for part in parts]
        )
    )
    assert (np.abs(posterior.theta.mean(0) - expected) < 4.5 * error / np.sqrt(20_000)).all()
    assert any("ignored" in text for text in posterior.report.warnings)
    mean = nw.problems.gaussian_mean(1.0)
    draws = infer_problem(method, mean).theta[:, 0]
    law = stats.norm(100 * mean.observed[0] / 100.25, 1 / np.sqrt(100.25))
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3


def test_the_curators_posterior_needs_records_or_what_says_as_much():
    x = np.random.default_rng(0).integers(0, 2, (100, 3))
    by_records, by_tables = (
        infer_problem(ConfidentialPosterior(data=data), TABLES)
        for data in (x, TABLES.model.query(x))
    )
    np.testing.assert_array_equal(by_records.theta, by_tables.theta)
    assert by_records.report.exact
    assert by_tables.report.exact
    mean = nw.problems.gaussian_mean(1.0)
    values = np.linspace(-5.0, 6.0, 100)
    draws = infer_problem(ConfidentialPosterior(data=values, num_draws=20_000), mean)
    assert draws.theta.mean() == pytest.approx(100 * 0.5 / 100.25, abs=4.5 / np.sqrt(100 * 20_000))
    assert draws.report.exact
    assert not infer_problem(ConfidentialPosterior(data=[0.5]), mean).report.exact


def test_confidential_data_do_not_reach_the_report(tmp_path):
    problem = nw.problems.linear_regression(10.0)
    data = np.full((100, 3), 0.123456789) + np.arange(3)
    data[:50] *= -1.0
    method = ConfidentialPosterior(data=data)
    posterior = method.infer(
        KEY, problem.model, problem.observed, progress=False, run_dir=tmp_path / "run"
    )
    saved = "".join(path.read_text() for path in (tmp_path / "run").rglob("*.json"))
    for text in (str(posterior.report.to_spec()), repr(method), saved):
        assert "0.123" not in text
    assert posterior.statistics is None
    assert set(posterior.report.settings) == {"num_draws", "max_simulations", "max_minutes"}
    assert any("not private" in text for text in posterior.report.warnings)
    np.testing.assert_array_equal(posterior.theta, infer_problem(method, problem).theta)
    data[:] = 0.0
    np.testing.assert_array_equal(posterior.theta, infer_problem(method, problem).theta)
    assert method != ConfidentialPosterior(data=method.data)


# Bad input ----------------------------------------------------------------------------------------

PAPER = nw.problems.linear_regression(10.0)
UNKNOWN = LinearRegression(predictor_mean=(0.9, -1.17), unknown=("noise_sd",))


def paper_model(**changes):
    return dataclasses.replace(PAPER.model, **changes)


def wide_prior(law):
    return nw.Prior({"beta": law.expand([3]).to_event(1)})


def unknown_spread():
    prior = nw.Prior(
        {"beta": dist.Normal(0.0, 1.0).expand([3]).to_event(1), "noise_sd": dist.HalfNormal(1.0)}
    )
    return paper_model(simulator=UNKNOWN, prior=prior)


def truncated():
    return paper_model(prior=wide_prior(dist.TruncatedNormal(0.0, 1.0, low=-3.0, high=3.0)))


GRID = RegressionMoments(100, 2, grid=0.01, sensitivity_bound="paper")
LATTICE = nw.mechanisms.DiscreteLaplace(scale=0.013, step=GRID.step)
MISSING, INVALID, TYPE = (
    errors.MissingCapabilityError,
    errors.InvalidInputError,
    errors.InvalidTypeError,
)
CONFIDENTIAL = lambda data: ConfidentialPosterior(data=data)
TABLES = nw.problems.log_linear(10.0)

BAD = {
    "chains": (lambda: GibbsSufficientStatistics(num_chains=0), INVALID, "num_chains"),
    "draws": (lambda: GibbsSufficientStatistics(num_draws=1.5), TYPE, "num_draws"),
    "warm-up": (lambda: GibbsSufficientStatistics(num_warmup=-1), INVALID, "num_warmup"),
    "thin": (lambda: GibbsSufficientStatistics(thin=0), INVALID, "thin"),
    "minutes": (lambda: NaivePlugIn(max_minutes=0.0), INVALID, "max_minutes"),
    "naive draws": (lambda: NaivePlugIn(num_draws=0), INVALID, "num_draws"),
    "no regression": (lambda: infer_problem(SHORT, TABLES), MISSING, "Use DataAugmentationMCMC"),
    "lattice noise": (
        lambda: infer(SHORT, paper_model(query=GRID, mechanism=LATTICE), np.zeros(9)),
        MISSING,
        "without grid. Use DataAugmentationMCMC",
    ),
    "other noise": (
        lambda: infer(
            SHORT, paper_model(mechanism=nw.mechanisms.EuclideanLaplace(scale=0.1)), np.zeros(9)
        ),
        MISSING,
        "Laplace or Gaussian noise",
    ),
    "unknown spread": (lambda: infer(SHORT, unknown_spread(), np.zeros(9)), MISSING, "noise_sd is"),
    "wider prior": (
        lambda: infer(SHORT, paper_model(prior=wide_prior(dist.Normal(0.0, 1.01))), PAPER.observed),
        MISSING,
        "variance 1 in every coordinate",
    ),
    "heavier prior": (
        lambda: infer(
            NaivePlugIn(), paper_model(prior=wide_prior(dist.StudentT(50.0))), PAPER.observed
        ),
        MISSING,
        "conjugate prior",
    ),
    "truncated prior": (
        lambda: infer(SHORT, truncated(), PAPER.observed),
        MISSING,
        "conjugate prior",
    ),
    "other concentration": (
        lambda: infer(
            NaivePlugIn(),
            dataclasses.replace(
                TABLES.model, simulator=nw.simulators.LogLinear(100, 2, (2, 2), concentration=1.0)
            ),
            TABLES.observed,
        ),
        MISSING,
        "Dirichlet with every parameter 1",
    ),
    "no conjugate model": (
        lambda: infer_problem(NaivePlugIn(), nw.problems.sir(10.0)),
        MISSING,
        "not SIR",
    ),
    "observation too short": (
        lambda: infer(NaivePlugIn(), PAPER.model, [0.1]),
        INVALID,
        "observed must have shape (9,)",
    ),
    "not a number": (lambda: infer(SHORT, PAPER.model, np.full(9, np.nan)), INVALID, "NaN"),
    "not a key": (lambda: NaivePlugIn().infer(True, PAPER.model, PAPER.observed), TYPE, "PRNG key"),
    "data are text": (lambda: CONFIDENTIAL("secret"), TYPE, "got str"),
    "data are ragged": (lambda: CONFIDENTIAL([[1.0], [1.0, 2.0]]), TYPE, "got list"),
    "data are missing": (lambda: CONFIDENTIAL([np.nan]), INVALID, "finite"),
    "data of another shape": (
        lambda: infer_problem(CONFIDENTIAL(np.zeros((7, 3))), PAPER),
        INVALID,
        "shape (100, 3), or the statistic, shape (9,); got shape (7, 3)",
    ),
    "noisy tables": (
        lambda: infer_problem(CONFIDENTIAL(TABLES.observed), TABLES),
        INVALID,
        "noise in them",
    ),
    "no categories": (
        lambda: infer_problem(CONFIDENTIAL(np.full((100, 3), 7)), TABLES),
        INVALID,
        "",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
