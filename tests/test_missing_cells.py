"""Tables with absent and missing cells in models, inference, checks and reports: an absent cell
counts by its probability, a missing one not at all.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import noisewise as nw
from noisewise.diagnostics import misspecification, predictive_check
from noisewise.mechanisms import DiscreteLaplace, Laplace, Thresholded
from noisewise.reports import write_report
from tests.test_absent_cells import SMALL
from tests.test_cells_by_infer import CENTRE, MOST, NUM, WIDTH, distance, finite_sum

KEY, DRAW_KEY = jax.random.split(jax.random.key(7))
FRAME = pd.DataFrame(
    {
        "day": ["Mon", "Tue", "Wed", "Thu"],
        "views": [463.0, np.nan, np.nan, 455.0],
        "lost": [False, False, True, False],
    }
)
NOISE = Thresholded(DiscreteLaplace(scale=30.0, sensitivity=1.0), above=450.0)


def released(frame=FRAME, **changes):
    settings = {"value": "views", "labels": ["day"], "mechanism": NOISE, "missing": "lost"}
    return nw.Release.from_table(frame, **{**settings, **changes})


def model_of(release):
    num = len(release.values)

    def counts(key, theta):
        return jax.random.poisson(key, jnp.exp(theta[0]), (num,)).astype(float)

    return nw.PrivateModel.from_release(
        release,
        prior=nw.Prior({"log_rate": dist.Normal(CENTRE, WIDTH)}),
        simulator=nw.simulators.JaxSimulator(counts),
    )


RELEASE = released()
MODEL = model_of(RELEASE)


def test_a_model_of_a_table_has_its_cells():
    assert MODEL.statistic_names == RELEASE.names == ("Mon", "Tue", "Wed", "Thu")
    np.testing.assert_array_equal(MODEL.observation(RELEASE), RELEASE.observed)
    with pytest.raises(nw.errors.InvalidInputError, match="does not name its query"):
        model_of(nw.Release([1.0], Laplace(1.0)))
    both = nw.PrivateModel.from_release(
        RELEASE, prior=MODEL.prior, simulator=MODEL.simulator, query=lambda x: 2.0 * x
    )
    s = both.statistics(KEY, np.full((1, 1), 6.0))
    np.testing.assert_array_equal(s, 2.0 * MODEL.statistics(KEY, np.full((1, 1), 6.0)))


def test_missing_cells_leave_the_posterior_as_it_is_and_absent_ones_move_it():
    posterior = nw.infer(KEY, MODEL, RELEASE, target_ess=NUM, progress=False)
    draws = posterior.sample(DRAW_KEY, NUM)[:, 0]
    assert distance(draws, finite_sum([463.0, np.nan, 455.0])) <= MOST
    for wrong in (
        [463.0, 455.0],
        [463.0, np.nan, np.nan, 455.0],
    ):  # absent left out; missing absent
        assert distance(draws, finite_sum(wrong)) > MOST


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_checks_summaries_and_reports_know_missing_cells(tmp_path):
    posterior = nw.inference.ImportanceSampling(max_simulations=20_000).infer(
        KEY, MODEL, RELEASE, progress=False
    )
    assert np.isfinite(posterior.summary()["mean"]).all()
    check = predictive_check(DRAW_KEY, posterior, MODEL, RELEASE)
    assert check.passed
    assert check.p_values["Wed"] == 1.0
    assert misspecification(DRAW_KEY, MODEL, RELEASE).passed
    page = write_report(
        tmp_path / "r.html", posterior, title="Views", model=MODEL, observed=RELEASE
    ).read_text()
    assert "missing" in page
    assert "absent" in page
    wrong = released(FRAME.assign(views=[900.0, np.nan, np.nan, 1.0e4]))
    assert not predictive_check(DRAW_KEY, posterior, MODEL, wrong).passed


LEARNING = {
    "num_rounds": 1,
    "max_simulations": 1000,
    "estimator": SMALL,
    "training": nw.estimators.Training(learning_rate=2e-3, max_epochs=10),
    "noise_bank": 16,
    "num_noise": 4,
}
METHODS = {
    "rejection": nw.inference.RejectionABC(num_draws=50, max_simulations=4000),
    "smc": nw.inference.SMCABC(max_simulations=4000),
    "posterior": nw.inference.PrivatePosteriorEstimation(**LEARNING),
    "likelihood": nw.inference.PrivateLikelihoodEstimation(**LEARNING, target_ess=100),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", METHODS)
def test_methods_take_tables_with_missing_cells(name):
    posterior = METHODS[name].infer(KEY, MODEL, RELEASE, progress=False)
    draws = posterior.sample(DRAW_KEY, 100)
    assert np.isfinite(draws).all()
    assert abs(draws.mean() - CENTRE) < 3 * WIDTH
