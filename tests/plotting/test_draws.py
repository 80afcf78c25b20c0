"""Plots of draws: panels, names, legends, and what is drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import noisewise as nw
from noisewise import plotting
from noisewise.posteriors import Draws, Report, WeightedSamples

NAMES = ["beta[0]", "b"]


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


@pytest.fixture
def draws(rng):
    return {"exact": rng.normal(size=(400, 2)), "naive": 1.0 + rng.normal(size=(300, 2))}


@pytest.fixture
def epidemic(rng):
    model = nw.problems.sir().model
    return model, np.array([-0.5, -3.0]) + 0.1 * rng.normal(size=(200, 2))


def test_pair_plot_has_densities_on_the_diagonal_and_regions_below(draws, rng):
    axes = plotting.pair_plot(
        draws, names=NAMES, prior=3.0 * rng.normal(size=(200, 2)), truth=[0.0, 0.5]
    )
    assert axes.shape == (2, 2)
    assert not axes[0, 1].axison
    assert [len(axes[i, i].lines) for i in range(2)] == [3, 3]  # two methods, the truth
    assert [len(axes[i, i].collections) for i in range(2)] == [
        3,
        3,
    ]  # areas under the methods and the prior
    kinds = [type(artist).__name__ for artist in axes[1, 0].collections]
    assert kinds == ["QuadContourSet"] * 4  # areas and edges of the prior, edges of the methods
    assert (axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()) == (r"$\beta_{0}$", "$b$")
    assert axes[0, 0].get_xlim() == axes[1, 0].get_xlim()
    assert texts(axes[0, 1].get_legend()) == ["exact", "naive", "prior", "truth"]


def test_limits_of_a_pair_plot_follow_the_posterior_and_the_truth(rng):
    axes = plotting.pair_plot(
        rng.normal(size=(300, 2)), prior=100.0 * rng.normal(size=(300, 2)), truth=[8.0, 0.0]
    )
    low, high = axes[1, 0].get_xlim()
    assert -5.0 < low < -2.0
    assert 8.0 < high < 10.0


@pytest.mark.parametrize(
    "plot", [plotting.pair_plot, plotting.marginals], ids=lambda plot: plot.__name__
)
def test_constant_columns_are_drawn(plot, rng):
    values = np.column_stack([rng.normal(size=50), np.full(50, 2.0), np.zeros(50)])
    axes = plot({"a": values, "b": values + 1e-3 * rng.normal(size=(50, 3))}, prior=values)
    assert all(np.isfinite(ax.get_xlim()).all() for ax in axes.flat)


def test_columns_on_a_line_are_points(rng):
    p = rng.random(200)
    axes = plotting.pair_plot(np.column_stack([p, 1.0 - p]))
    assert [type(artist).__name__ for artist in axes[1, 0].collections] == ["PathCollection"]


def test_marginals_have_a_panel_per_column(draws):
    axes = plotting.marginals(draws, names=NAMES, truth={"b": 0.2})
    assert [ax.get_xlabel() for ax in axes] == [r"$\beta_{0}$", "$b$"]
    assert [len(ax.lines) for ax in axes] == [2, 3]
    assert axes[1].lines[-1].get_xdata() == [0.2, 0.2]
    assert len(axes[0].figure.legends) == 1


def test_many_marginals_wrap_and_spare_panels_are_empty(rng):
    axes = plotting.marginals(rng.normal(size=(50, 6)))
    assert len(axes) == 6
    assert sum(not ax.axison for ax in axes[0].figure.axes) == 2


def test_derived_quantities_stand_beside_parameters(epidemic):
    model, theta = epidemic
    truth = plotting.named_truth(model, [-0.5, -3.0])
    axes = plotting.marginals(plotting.named_draws(model, theta), truth=truth)
    assert [ax.get_xlabel() for ax in axes] == [r"$\log\,\beta$", r"$\log\,\gamma$", "$R_{0}$"]
    assert axes[2].lines[-1].get_xdata()[0] == pytest.approx(np.exp(2.5))
    (only,) = plotting.marginals(plotting.named_draws(model, theta), columns=["R0"])
    assert only.get_xlabel() == "$R_{0}$"


def test_arrays_take_the_names_of_posteriors_beside_them(epidemic):
    model, theta = epidemic
    posterior = Draws(theta, model.names, Report("exact"))
    axes = plotting.marginals({"array": theta, "posterior": posterior})
    assert axes[0].get_xlabel() == r"$\log\,\beta$"


def test_weights_count(rng):
    theta = np.concatenate([np.zeros((500, 1)), np.ones((500, 1))]) + 0.01 * rng.normal(
        size=(1000, 1)
    )
    log_weights = np.repeat([0.0, -50.0], 500)
    posterior = WeightedSamples(theta, ("a",), Report("importance"), log_weights=log_weights)
    (ax,) = plotting.marginals(posterior)
    assert ax.get_xlim()[1] < 0.5


def test_forest_groups_methods_by_parameter(draws):
    ax = plotting.forest(draws, names=NAMES, truth=[0.0, 0.0])
    assert len(ax.get_yticks()) == 2
    medians = [line for line in ax.lines if line.get_marker() != "None"]
    assert len(medians) == 2
    assert medians[1].get_xdata() == pytest.approx(np.median(draws["naive"], axis=0))
    assert len(ax.collections) == 6  # two intervals per method, one mark of the truth per parameter
    assert texts(ax.get_legend()) == ["exact", "naive", "truth"]


def test_forest_of_ratios_has_a_log_axis_and_a_line_at_one(draws):
    ratios = np.exp(draws["exact"])
    ax = plotting.forest(ratios, names=NAMES, reference=1.0, scale="log")
    assert ax.get_xscale() == "log"
    assert [line.get_linestyle() for line in ax.lines if set(line.get_xdata()) == {1.0}] == ["--"]
    formatter = ax.xaxis.get_major_formatter()
    assert [formatter(value, 0) for value in (0.5, 20.0)] == ["0.5", "20"]


def test_forest_intervals_are_central_quantiles(rng):
    values = rng.normal(size=(1000, 1))
    outer, inner = plotting.forest(values, level=0.9).collections[:2]
    assert outer.get_segments()[0][:, 0] == pytest.approx(np.quantile(values, [0.05, 0.95]))
    assert inner.get_segments()[0][:, 0] == pytest.approx(np.quantile(values, [0.25, 0.75]))


def test_ks_heatmap_is_symmetric_and_says_its_numbers(draws):
    axes = plotting.ks_heatmap(draws, names=NAMES)
    assert len(axes) == 2
    image = np.asarray(axes[0].images[0].get_array())
    expected = nw.metrics.kolmogorov_smirnov(draws["exact"], draws["naive"])[0]
    assert image == pytest.approx(np.array([[0.0, expected], [expected, 0.0]]))
    assert len(axes[0].texts) == 4
    assert len(axes[0].figure.axes) == 3  # one colour bar for both


def test_privacy_utility_has_an_interval_per_budget(rng):
    by_epsilon = {e: rng.normal(size=(200, 2)) / e for e in (10.0, 0.1, 1.0)}
    methods = {"Laplace": by_epsilon, "Gaussian": by_epsilon}
    axes = plotting.privacy_utility(
        methods, names=NAMES, confidential=rng.normal(size=(200, 2)), truth=[0.0, 0.0]
    )
    assert len(axes) == 2
    assert [tick.get_text() for tick in axes[0].get_xticklabels()] == ["0.1", "1", "10"]
    assert texts(axes[0].figure.legends[0]) == ["Laplace", "Gaussian", "confidential", "truth"]
    lengths = [np.ptp(segment[:, 1]) for segment in axes[0].collections[0].get_segments()]
    assert lengths == sorted(lengths, reverse=True)


def test_axes_given_are_the_axes_returned(draws):
    figure, given = plt.subplots(1, 2)
    assert plotting.marginals(draws, names=NAMES, axes=given).tolist() == given.tolist()
    assert plotting.forest(draws, names=NAMES, ax=given[0]) is given[0]
    assert plt.get_fignums() == [figure.number]
    assert not figure.legends
