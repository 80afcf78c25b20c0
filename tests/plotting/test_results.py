"""Plots take what methods and diagnostics give, as it comes."""

import functools
import types

import jax
import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise import plotting
from noisewise._core.keys import generator
from noisewise.diagnostics import (
    calibrate,
    certify,
    compare,
    coverage,
    draw_trials,
    misspecification,
    predictive_check,
    tarp,
)
from noisewise.errors import NoisewiseError
from noisewise.posteriors import Draws, Report

KEY = jax.random.key(0)


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@functools.cache
def problem():
    return nw.problems.gaussian_mean(1.0, bounds=None, noise="gaussian")


@functools.cache
def exact():
    return Draws(problem().reference(KEY, 400), problem().model.names, Report("exact"))


class Exact:
    def sample_many(self, key, observed, num):
        variance = 0.01 + float(problem().model.mechanism.scale) ** 2
        precision = 1 / 4 + 1 / variance
        noise = generator(key).normal(size=(len(observed), num, 1))
        return observed[:, None] / variance / precision + noise / np.sqrt(precision)


@functools.cache
def trials():
    return draw_trials(jax.random.key(2), Exact(), problem().model, 300)


@pytest.mark.parametrize(
    "plot",
    [plotting.rank_ecdf, pytest.param(plotting.coverage_curve, marks=pytest.mark.slow)],
    ids=lambda plot: plot.__name__,
)
def test_calibrations_alone_and_side_by_side(plot):
    ranks, distances = calibrate(KEY, trials(), alpha=0.1), tarp(KEY, trials())
    assert texts(plot(ranks)) == ["90% band", "mean"]
    assert texts(plot(distances)) == ["95% band", "the distance"]
    ax = plot({"exact": ranks, "TARP": distances})
    assert texts(ax) == ["95% band", "exact", "TARP"]
    band = ax.collections[0].get_paths()[0]
    curves = [line.get_xydata()[5:-5] for line in ax.lines if line.get_label() in ("exact", "TARP")]
    assert all(band.contains_points(curve).all() for curve in curves)


def test_calibrations_of_several_quantities_are_named_after_both():
    ranks = calibrate(KEY, trials(), quantities={"square": lambda theta, y: theta[..., 0] ** 2})
    assert texts(plotting.rank_ecdf({"SPPE": ranks})) == ["95% band", "SPPE, mean", "SPPE, square"]


def test_the_coverage_of_tarp_is_that_of_the_nearest_draws():
    found = tarp(KEY, trials())
    line = plotting.coverage_curve(found).lines[0]
    at = dict(zip(np.round(line.get_xdata(), 2), line.get_ydata(), strict=True))
    assert at[0.3] == pytest.approx(np.mean(found.uniforms <= 0.3))


def test_a_table_of_coverage_is_drawn_with_its_limits():
    table = coverage(KEY, trials(), levels=(0.5, 0.9))
    ax = plotting.coverage_curve(table)
    (bars,) = ax.containers
    data, _, (lines,) = bars
    assert data.get_ydata() == pytest.approx(table["coverage"].to_numpy())
    ends = np.array([segment[:, 1] for segment in lines.get_segments()])
    assert ends == pytest.approx(table[["low", "high"]].to_numpy())
    assert texts(ax) == ["mean"]


def test_comparisons_are_heat_maps():
    moved = Draws(exact().theta + 1.0, exact().names, Report("moved"))
    found = compare({"exact": exact(), "moved": moved}, num_draws=100)
    (ax,) = plotting.ks_heatmap(found)
    expected = found.kolmogorov_smirnov.loc[("exact", "moved"), "mean"]
    assert np.asarray(ax.images[0].get_array()) == pytest.approx(
        np.array([[0.0, expected], [expected, 0.0]])
    )
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["exact", "moved"]
    with pytest.raises(NoisewiseError, match="among mean"):
        plotting.ks_heatmap(found, columns=["R0"])


def test_predictive_checks_of_posterior_and_prior():
    for found in (
        predictive_check(KEY, exact(), problem().model, problem().observed),
        misspecification(KEY, problem().model, problem().observed),
    ):
        ax = plotting.predictive_check(found)
        (p,) = found.p_values.values()
        assert [text.get_text() for text in ax.texts] == ["p = " + f"{p:.2f}".removeprefix("0")]
        with pytest.raises(NoisewiseError, match="pass it alone"):
            plotting.predictive_check(found, problem().observed)


@pytest.mark.parametrize(
    "plot",
    [plotting.pair_plot, plotting.marginals, plotting.forest],
    ids=lambda plot: plot.__name__,
)
def test_certificates_models_and_problems(plot):
    certificate = certify(KEY, exact(), problem().model, problem().observed, 2000)
    background = {} if plot is plotting.forest else {"prior": problem().model}
    axes = plot({"exact": exact(), "corrected": certificate}, truth=problem(), **background)
    ax = np.asarray(axes, dtype=object).flat[0]
    legend = ax.get_legend() or ax.figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [
        "exact",
        "corrected",
        *background,
        "truth",
    ]


def test_the_truth_of_a_problem_fits_posteriors_with_derived_quantities():
    """An array of the parameters is enough; a problem also knows what follows from them."""
    epidemic = nw.problems.sir()
    theta = np.array([-0.5, -3.0]) + 0.1 * np.random.default_rng(0).normal(size=(50, 2))
    posterior = plotting.named_draws(epidemic.model, theta)
    marked = lambda truth: [len(ax.lines) - 1 for ax in plotting.marginals(posterior, truth=truth)]
    assert marked(epidemic.truth) == [1, 1, 0]
    assert marked(epidemic) == [1, 1, 1]
    reversed_columns = plotting.marginals(
        posterior, columns=["log_gamma", "log_beta"], truth=epidemic.truth
    )
    assert [ax.lines[-1].get_xdata()[0] for ax in reversed_columns] == [-3.0, -0.5]


@functools.cache
def rounds():
    network = functools.partial(
        nw.estimators.mixture_density_network, num_components=2, num_units=16, num_hidden=1
    )
    quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
    method = nw.inference.PrivatePosteriorEstimation(
        num_rounds=2,
        num_simulations=100,
        estimator=network,
        training=quick,
        num_noise=2,
        noise_bank=8,
    )
    return list(method.rounds(KEY, problem().model, problem().observed, progress=False))


@pytest.mark.slow
def test_posteriors_of_rounds_are_measured():
    reference = problem().reference(KEY, 400)
    ax = plotting.convergence(rounds(), reference=reference, metric="KS")
    expected = [
        nw.metrics.kolmogorov_smirnov(
            reference, posterior.sample(jax.random.key(20_261_115), 400)
        ).max()
        for posterior in rounds()
    ]
    assert ax.lines[0].get_ydata() == pytest.approx(expected)
    ax = plotting.convergence({"SPPE": [rounds(), rounds()]}, reference=reference, metric="KS")
    assert ax.lines[0].get_ydata() == pytest.approx(expected)
    assert texts(
        plotting.convergence({"SPPE": iter(rounds())}, reference=reference, metric="KS", floor=0.03)
    ) == [
        "SPPE",
        "exact draws",
    ]


def test_tables_of_a_metric():
    table = pd.DataFrame([[0.9, 0.6], [0.8, 0.5]])
    assert plotting.convergence({"SPPE": table}).lines[0].get_ydata() == pytest.approx([0.85, 0.55])


@pytest.mark.slow
def test_losses_of_posteriors_fits_and_reports():
    posterior = rounds()[-1]
    values = [record["validation_loss"] for record in posterior.report.rounds]
    for given in (posterior, posterior.report, {"SPPE": posterior}):
        ax = plotting.loss_curves(given)
        assert ax.get_xlabel() == "round"
        assert ax.lines[0].get_ydata() == pytest.approx(values)
    network = functools.partial(
        nw.estimators.mixture_density_network, num_components=2, num_units=16, num_hidden=1
    )
    quick = nw.estimators.Training(learning_rate=2e-3, max_epochs=3)
    fit = nw.inference.PrivatePosteriorEstimation(
        num_rounds=1,
        num_simulations=100,
        estimator=network,
        training=quick,
        num_noise=2,
        noise_bank=8,
    ).fit(KEY, problem().model, progress=False)
    assert len(plotting.loss_curves(fit).lines[0].get_ydata()) == 1
    assert texts(plotting.loss_curves({"one": posterior, "two": fit})) == ["one", "two"]
    with pytest.raises(NoisewiseError, match=r"fit\.posterior\(observed\)"):
        plotting.forest(fit)


def decomposition(factor=1.0):
    table = pd.DataFrame(
        {"sampling": [1.0, 2.0], "clamping": [0.0, 1.0], "privacy": [3.0 * factor, 1.0]},
        index=["beta[0]", "beta[1]"],
    )
    return types.SimpleNamespace(table=table, total=table.sum(axis=1))


def rows(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]


def test_decompositions_and_their_tables():
    for given in (decomposition(), decomposition().table, decomposition().table.assign(total=4.0)):
        ax = plotting.uncertainty_bars(given)
        assert texts(ax) == ["sampling", "clamping", "privacy"]
        assert rows(ax) == [r"$\beta_{0}$", r"$\beta_{1}$"]
        assert [bar.get_width() for bar in ax.containers[2]] == pytest.approx([0.75, 0.25])
        assert [text.get_text() for text in ax.texts][-2:] == ["sd 2", "sd 2"]


def test_decompositions_by_budget_are_grouped_by_parameter():
    ax = plotting.uncertainty_bars({10.0: decomposition(), 0.1: decomposition(5.0)})
    assert [row.split("    ") for row in rows(ax)] == [
        [r"$\beta_{0}$", r"$\epsilon$ = 10"],
        [r"$\epsilon$ = 0.1"],
        [r"$\beta_{1}$", r"$\epsilon$ = 10"],
        [r"$\epsilon$ = 0.1"],
    ]
    assert [bar.get_width() for bar in ax.containers[2]] == pytest.approx(
        [0.75, 15 / 16, 0.25, 0.25]
    )
    two_parts = pd.DataFrame({"sampling and clamping": [1.0], "privacy": [1.0]}, index=["mu"])
    assert rows(plotting.uncertainty_bars({"a": two_parts, "b": two_parts})) == ["$a$", "$b$"]
    with pytest.raises(NoisewiseError, match="All decompositions must have the rows"):
        plotting.uncertainty_bars({1.0: decomposition(), 2.0: two_parts})


def epidemic_posterior():
    epidemic = nw.problems.sir(0.02, dynamics="ode", trials=100)
    theta = epidemic.truth + 0.05 * np.random.default_rng(0).normal(size=(50, 2))
    return epidemic, plotting.named_draws(epidemic.model, theta)


def test_infection_fans_of_a_posterior_and_its_model():
    epidemic, posterior = epidemic_posterior()
    ax = plotting.infection_fan(
        posterior, model=epidemic.model, observed=epidemic.observed, truth=epidemic.truth
    )
    assert texts(ax) == ["95%", "80%", "50%", "median", "truth", "private release"]
    assert ax.get_ylabel() == "infected (% of the population)"
    truth = next(line for line in ax.lines if line.get_label() == "truth")
    curve = epidemic.model.simulator.simulate(KEY, epidemic.truth[None])[0]
    at = dict(zip(truth.get_xdata(), truth.get_ydata(), strict=True))
    assert [at[time] for time in epidemic.model.simulator.times] == pytest.approx(
        curve / 1e4, rel=1e-9, abs=1e-9
    )
    release = next(line for line in ax.lines if line.get_label() == "private release")
    mechanism = epidemic.model.mechanism
    share = (release.get_ydata() * 1e4 + mechanism.padding) / (1e6 + 2 * mechanism.padding)
    assert mechanism.trials * share == pytest.approx(epidemic.observed)


def test_infection_fans_show_confidential_statistics_where_there_are_some():
    epidemic, posterior = epidemic_posterior()
    statistics = 1e6 * np.random.default_rng(0).random((50, 10))
    exact_method = Draws(
        posterior.theta, posterior.names, Report("exact-smc"), statistics=statistics
    )
    ax = plotting.infection_fan(exact_method, model=epidemic.model)
    assert ax.lines[0].get_ydata() == pytest.approx(np.median(statistics, axis=0) / 1e4)


def test_privacy_utility_of_summaries_and_of_plans():
    summaries = pd.concat({epsilon: exact().summary() for epsilon in (0.1, 1.0)})
    (ax,) = plotting.privacy_utility(summaries)
    low, high = exact().summary().loc["mean", ["2.5%", "97.5%"]]
    assert ax.collections[0].get_segments()[0][:, 1] == pytest.approx([low, high])
    plan = pd.DataFrame({"beta[0]": [0.5, 0.2], "beta[1]": [0.4, 0.1]}, index=[0.1, 1.0])
    axes = plotting.privacy_utility(plan, columns=["beta[1]"])
    assert [ax.get_ylabel() for ax in axes] == [r"$\beta_{1}$"]
    assert axes[0].lines[0].get_ydata().tolist() == [0.4, 0.1]
    assert axes[0].get_ylim()[0] == 0.0
