"""What plots refuse, and what they say."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import noisewise as nw
from noisewise import plotting
from noisewise.errors import NoisewiseError
from noisewise.posteriors import Draws, Report

GOOD = np.random.default_rng(0).normal(size=(50, 2))
HOLES = np.where(np.arange(100).reshape(50, 2) == 7, np.nan, GOOD)
OF_DRAWS = [plotting.pair_plot, plotting.marginals, plotting.forest]
POSTERIOR = Draws(GOOD, ("a", "b"), Report("exact"), derived={"ratio": GOOD[:, 0]})


@pytest.mark.parametrize("plot", OF_DRAWS, ids=lambda plot: plot.__name__)
@pytest.mark.parametrize(
    ("draws", "settings", "message"),
    [
        (GOOD[:5], {}, "at least 10 draws, got 5"),
        (HOLES, {}, "1 of 50 rows hold NaN"),
        (np.zeros((20, 2, 2)), {}, "shape"),
        ("posterior.npz", {}, "a posterior or an array"),
        ({}, {}, "at least one method"),
        (GOOD, {"names": ["a"]}, "2 columns and needs as many"),
        (GOOD, {"names": ["a", "a"]}, "different names"),
        (GOOD, {"columns": ["c"]}, "among theta"),
        ({"one": GOOD, "two": GOOD[:, :1]}, {"names": ["a", "b"]}, "needs as many"),
        ({"one": GOOD, "two": GOOD[:, :1]}, {}, "same columns.*columns="),
        ({"one": GOOD, "two": POSTERIOR}, {}, r"columns=\['a', 'b'\]"),
        (GOOD, {"truth": [1.0]}, "one value for each"),
        (GOOD, {"truth": {"c": 1.0}}, "some of theta"),
        (GOOD, {"truth": [np.nan, 0.0]}, "finite"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_draws_that_cannot_be_drawn(plot, draws, settings, message):
    with pytest.raises(NoisewiseError, match=message):
        plot(draws, **settings)
    assert not plt.get_fignums()


def test_derived_columns_that_are_not_finite_can_be_left_out():
    posterior = Draws(GOOD, ("a", "b"), Report("exact"), derived={"ratio": np.full(50, np.inf)})
    with pytest.raises(NoisewiseError, match="finite"):
        plotting.marginals(posterior)
    assert len(plotting.marginals(posterior, columns=["a", "b"])) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plotting.marginals(GOOD, axes=plt.subplots(1, 3)[1]),
            r"2 matplotlib Axes.*plt.subplots\(1, 2\)",
        ),
        (lambda: plotting.forest(GOOD, ax=plt.subplots(1, 2)[1]), "one matplotlib Axes"),
        (lambda: plotting.forest(GOOD, level=0.3), "level"),
        (lambda: plotting.forest(-np.abs(GOOD), scale="log"), "draws above 0"),
        (lambda: plotting.forest(GOOD, scale="cubic"), "'linear' or 'log'"),
        (lambda: plotting.pair_plot(GOOD, prior=GOOD[:, :1]), "prior has 1 columns"),
        (lambda: plotting.ks_heatmap({"one": GOOD}), "two methods"),
        (lambda: plotting.convergence([1.0]), "map methods"),
        (lambda: plotting.convergence({"a": [[np.nan, 1.0]]}), "leave failed trials out"),
        (lambda: plotting.convergence({"a": [1.0, 2.0], "b": [1.0]}), "same number of rounds"),
        (lambda: plotting.convergence({"a": [1.0, 2.0]}, rounds=[2, 1]), "rising"),
        (lambda: plotting.rank_ecdf(100.0 * GOOD), "between 0 and 1"),
        (lambda: plotting.coverage_curve(np.full((20, 2), 0.5), names=["a"]), "needs as many"),
        (lambda: plotting.predictive_check(GOOD, [1.0]), "2 finite values"),
        (lambda: plotting.loss_curves({"a": [1.0, np.nan, 2.0]}), "NaN only after"),
        (lambda: plotting.loss_curves(POSTERIOR), "holds no losses"),
        (lambda: plotting.infection_fan(GOOD, times=[1.0]), "times must hold 2"),
        (lambda: plotting.infection_fan(GOOD, observed=[1.0]), "observed must hold 2"),
        (lambda: plotting.infection_fan(POSTERIOR), "drew no confidential statistics"),
        (lambda: plotting.privacy_utility(GOOD), "map epsilons"),
        (lambda: plotting.privacy_utility({"Laplace": GOOD}), "epsilon"),
        (lambda: plotting.privacy_utility({-1.0: GOOD}), "epsilon"),
        (lambda: plotting.privacy_utility({1.0: GOOD, 2.0: GOOD[:, :1]}), "same columns"),
        (
            lambda: plotting.predictive_check(GOOD, "release.json"),
            "observed must be a rectangular array",
        ),
        (
            lambda: plotting.infection_fan(GOOD, observed=[1.0], observed_times=["noon"]),
            "observed_times must be",
        ),
        (lambda: plotting.uncertainty_bars({"a": [-1.0]}), "not negative"),
        (lambda: plotting.uncertainty_bars({"a": [1.0], "b": [1.0, 2.0]}), "one length"),
        (lambda: plotting.uncertainty_bars({"a": [1.0]}, scale="sd"), "'share' or 'variance'"),
        (lambda: plotting.named_draws(nw.problems.sir().model, GOOD[:, :1]), "log_beta, log_gamma"),
    ],
)
def test_other_inputs_are_refused_with_advice(call, message):
    with pytest.raises(NoisewiseError, match=message):
        call()
