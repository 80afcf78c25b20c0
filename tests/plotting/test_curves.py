"""Plots of numbers over time, rounds and levels."""

import types

import numpy as np
import pytest

from noisewise import plotting
from noisewise.diagnostics import Calibration
from noisewise.posteriors import Draws, Report


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_convergence_shows_means_and_quartiles(rng):
    values = rng.random((20, 5))
    ax = plotting.convergence({"SPPE": values, "SPLE": values[:, ::-1]}, metric="MMD", floor=0.0)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("round", "MMD")
    assert texts(ax) == ["SPPE", "SPLE", "exact draws"]
    assert ax.lines[0].get_ydata() == pytest.approx(values.mean(axis=0))
    bars = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
    assert bars == pytest.approx(np.quantile(values, [0.25, 0.75], axis=0).T)


def test_convergence_against_simulations_and_of_one_trial(rng):
    ax = plotting.convergence(
        {"SPPE": rng.random(3)}, rounds=[1000, 2000, 4000], xlabel="simulations"
    )
    assert ax.lines[0].get_xdata() == pytest.approx([1000, 2000, 4000])


@pytest.mark.parametrize(
    "plot", [plotting.rank_ecdf, plotting.coverage_curve], ids=lambda plot: plot.__name__
)
def test_uniform_ranks_stay_inside_the_band_and_others_leave_it(plot, rng):
    u = rng.random(500)
    ax = plot(np.column_stack([u, 0.35 + 0.3 * u]), names=["exact", "wide"])
    assert texts(ax) == ["95% band", "exact", "wide"]
    band = ax.collections[0].get_paths()[0]
    curves = {
        line.get_label(): line.get_xydata()[5:-5]
        for line in ax.lines
        if not line.get_label().startswith("_")
    }
    assert band.contains_points(curves["exact"]).all()
    assert not band.contains_points(curves["wide"]).all()


def test_coverage_is_the_share_of_intervals_that_hold_the_truth(rng):
    u = rng.random(400)
    line = plotting.coverage_curve(u, names=["a"]).lines[0]
    at = dict(zip(np.round(line.get_xdata(), 2), line.get_ydata(), strict=True))
    assert at[0.9] == pytest.approx(np.mean((u >= 0.05) & (u <= 0.95)))


def test_what_calibrate_gives_is_understood(rng):
    found = Calibration(
        names=("mu", "loglik"),
        uniforms=rng.random((100, 2)),
        num_draws=99,
        num_failed=0,
        alpha=0.05,
    )
    assert texts(plotting.rank_ecdf(found)) == ["95% band", r"$\mu$", "loglik"]


def test_predictive_check_marks_what_the_model_does_not_say(rng):
    simulated = np.column_stack(
        [rng.normal(size=500), 10.0 * rng.normal(size=500), np.full(500, 3.0)]
    )
    ax = plotting.predictive_check(simulated, [0.0, 80.0, 3.0], names=["mean", "x1*y", "count"])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["mean", r"$x_{1}\,y$", "count"]
    assert texts(ax) == ["simulated, 50% and 95%", "observed", "outside 95%"]
    outside = next(line for line in ax.lines if line.get_label() == "outside 95%")
    assert outside.get_ydata().tolist() == [-1.0]
    assert [text.get_text() for text in ax.texts][1:] == ["p < .01", "p = 1.00"]


def test_loss_curves_of_training_with_members_that_stop():
    losses = np.array([[3.0, 3.0], [2.0, 1.0], [1.0, np.nan], [np.nan, np.nan]])
    trained = types.SimpleNamespace(train_losses=losses, validation_losses=losses)
    ax = plotting.loss_curves(trained)
    assert texts(ax) == ["training", "validation"]
    mean = next(line for line in ax.lines if line.get_label() == "validation")
    assert mean.get_ydata() == pytest.approx([3.0, 1.5])  # while both members train
    dots = [line.get_xydata().ravel().tolist() for line in ax.lines if line.get_marker() == "o"]
    assert dots == [[2.0, 1.5]]  # the best epoch in which all members were trained


def test_loss_curves_of_a_report_go_over_rounds(rng):
    report = Report(
        "sppe", rounds=({"validation_loss": 2.0}, {"atomic_loss": 0.5}, {"atomic_loss": 0.4})
    )
    posterior = Draws(rng.normal(size=(20, 1)), ("a",), report)
    ax = plotting.loss_curves(posterior)
    assert ax.get_xlabel() == "round"
    assert texts(ax) == ["validation", "validation, atomic"]
    assert next(
        line for line in ax.lines if line.get_label() == "validation, atomic"
    ).get_xdata().tolist() == [2, 3]


def test_infection_fan_nests_its_bands(rng):
    curves = rng.normal(size=(500, 4)).cumsum(axis=1)
    ax = plotting.infection_fan(
        curves,
        times=[0.0, 1.0, 2.0, 4.0],
        observed=[0.1, 0.3],
        observed_times=[1.0, 4.0],
        truth=np.zeros(4),
    )
    assert texts(ax) == ["95%", "80%", "50%", "median", "truth", "private release"]
    widths = [np.ptp(band.get_paths()[0].vertices[:, 1]) for band in ax.collections]
    assert widths == sorted(widths, reverse=True)
    assert ax.lines[0].get_ydata() == pytest.approx(np.median(curves, axis=0))
    assert ax.get_xlim() == (0.0, 4.0)


def test_infection_fan_of_a_posterior_shows_its_confidential_statistics(rng):
    statistics = rng.normal(size=(100, 3))
    posterior = Draws(rng.normal(size=(100, 1)), ("a",), Report("exact-smc"), statistics=statistics)
    assert plotting.infection_fan(posterior).lines[0].get_ydata() == pytest.approx(
        np.median(statistics, axis=0)
    )


def test_uncertainty_bars_add_up():
    parts = {"sampling": [1.0, 1.0], "clamping": [0.0, 0.0], "privacy": [3.0, 0.0]}
    ax = plotting.uncertainty_bars(parts, names=["mu", "b"])
    assert texts(ax) == ["sampling", "clamping", "privacy"]
    widths = np.array([[bar.get_width() for bar in bars] for bars in ax.containers])
    assert widths.sum(axis=0) == pytest.approx([1.0, 1.0])
    assert widths[2].tolist() == [0.75, 0.0]
    assert [text.get_text() for text in ax.texts] == ["25%", "100%", "75%", "sd 2", "sd 1"]
    absolute = plotting.uncertainty_bars(parts, scale="variance")
    assert absolute.containers[2][0].get_width() == 3.0
