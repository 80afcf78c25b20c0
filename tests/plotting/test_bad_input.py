"""Every plot on what an analyst may pass by mistake: a typed error, and no figure left behind."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise import plotting
from noisewise.errors import NoisewiseError
from noisewise.posteriors import Draws, Report, WeightedSamples

RNG = np.random.default_rng(0)
GOOD = RNG.random((50, 2))


def changed(value):
    array = GOOD.copy()
    array[7, 1] = value
    return array


ARRAYS = {
    "empty": [],
    "no rows": GOOD[:0],
    "no columns": GOOD[:, :0],
    "three axes": GOOD[None],
    "few": GOOD[:9],
    "nan": changed(np.nan),
    "infinity": changed(np.inf),
    "overflow": 1e200 * (1.0 + GOOD),
    "texts": [["1.0", "2.0"]] * 20,
    "ragged": [[1.0, 2.0], [1.0]] * 10,
}
THINGS = {
    "none": None,
    "text": "posterior.npz",
    "a number": 3.0,
    "an object": object(),
    "a key": jax.random.key(0),
    "a class": Draws,
    "a model": nw.problems.gaussian_mean().model,
    "a method": nw.inference.ImportanceSampling(),
    "an empty dictionary": {},
    "an empty table": pd.DataFrame(),
    "a posterior of nine draws": Draws(GOOD[:9], ("a", "b"), Report("few")),
    "a posterior with nan": WeightedSamples(
        changed(np.nan), ("a", "b"), Report("given"), log_weights=np.zeros(50)
    ),
}

CALLS = {
    "pair_plot": plotting.pair_plot,
    "marginals": plotting.marginals,
    "forest": plotting.forest,
    "ks_heatmap": lambda given: plotting.ks_heatmap({"good": GOOD, "given": given}),
    "rank_ecdf": plotting.rank_ecdf,
    "coverage_curve": plotting.coverage_curve,
    "predictive_check": lambda given: plotting.predictive_check(given, [0.5, 0.5]),
    "infection_fan": plotting.infection_fan,
    "privacy_utility": lambda given: plotting.privacy_utility({0.1: GOOD, 1.0: given}),
    "convergence": lambda given: plotting.convergence({"good": GOOD, "given": given}),
    "loss_curves": plotting.loss_curves,
    "uncertainty_bars": plotting.uncertainty_bars,
}
FINE = {
    "convergence": {"few", "overflow"},
    "loss_curves": {"few", "overflow", "a number", "three axes"},
}
"""Tables of a metric or of losses need not have ten rows, nor be squared; losses of several trials
have three axes.
"""


def test_all_plots_are_in_these_tables():
    assert {name for name in plotting.__all__ if not name.startswith("named")} == set(CALLS)


BAD_FIRST = [
    (name, what) for name in CALLS for what in (*ARRAYS, *THINGS) if what not in FINE.get(name, ())
]


@pytest.mark.parametrize(("name", "what"), BAD_FIRST)
def test_bad_first_arguments(name, what):
    with pytest.raises(NoisewiseError):
        CALLS[name]({**ARRAYS, **THINGS}[what])
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name not in ("ks_heatmap", "privacy_utility", "convergence")]
)
@pytest.mark.parametrize("what", ["none", "text", "an object", "an empty dictionary"])
def test_bad_members_of_dictionaries(name, what):
    with pytest.raises(NoisewiseError):
        CALLS[name]({"given": THINGS[what]})
    assert not plt.get_fignums()


@pytest.mark.parametrize("name", ["ks_heatmap", "privacy_utility", "convergence"])
@pytest.mark.parametrize("what", [*ARRAYS, *THINGS])
def test_what_must_be_a_dictionary(name, what):
    with pytest.raises(NoisewiseError):
        getattr(plotting, name)({**ARRAYS, **THINGS}[what])
    assert not plt.get_fignums()


def posterior():
    return Draws(GOOD, ("a", "b"), Report("given"))


SIR = nw.problems.sir(0.02, dynamics="ode", trials=100)
EPIDEMIC = Draws(SIR.truth + 0.01 * GOOD, SIR.model.names, Report("given"))
NESTED = pd.concat({1.0: posterior().summary()})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plotting.convergence([posterior()]), "pass reference="),
        (
            lambda: plotting.convergence({"a": [posterior()]}, reference=GOOD, metric="accuracy"),
            "metric must be one of",
        ),
        (
            lambda: plotting.convergence({"a": [[posterior()], [posterior()] * 2]}, reference=GOOD),
            "same number of rounds",
        ),
        (
            lambda: plotting.convergence({"a": posterior()}, reference=GOOD),
            "posteriors of all rounds",
        ),
        (
            lambda: plotting.convergence({"a": [posterior()]}, reference=GOOD[:, :1]),
            "same number of columns",
        ),
        (lambda: plotting.convergence({"a": [1.0, 2.0]}, rounds=[1.0, np.nan]), "rising"),
        (lambda: plotting.rank_ecdf({"a": GOOD, "b": 3.0 * GOOD}), "between 0 and 1"),
        (lambda: plotting.rank_ecdf(GOOD, alpha=2.0), "alpha"),
        (lambda: plotting.marginals(GOOD, names=[1, 2]), "names must be strings"),
        (lambda: plotting.marginals(GOOD, names=3), "names must be 2 strings"),
        (lambda: plotting.marginals(GOOD, truth="truth"), "truth must be a rectangular array"),
        (lambda: plotting.marginals(GOOD, truth={"theta[0]": "high"}), "truth"),
        (lambda: plotting.marginals(GOOD, truth={"theta[0]": None}), "truth"),
        (
            lambda: plotting.marginals(GOOD, prior=nw.problems.sir().model),
            "columns must be among log_beta",
        ),
        (lambda: plotting.predictive_check(GOOD), "observed must be a rectangular array"),
        (lambda: plotting.predictive_check(GOOD, [0.5, np.nan]), "2 finite values"),
        (
            lambda: plotting.infection_fan(GOOD, model=SIR.model),
            "first argument must be a posterior",
        ),
        (
            lambda: plotting.infection_fan(posterior(), model=nw.problems.gaussian_mean().model),
            "nw.simulators.SIR",
        ),
        (
            lambda: plotting.infection_fan(EPIDEMIC, model=SIR.model, times=[1.0]),
            "the times come from the model",
        ),
        (lambda: plotting.infection_fan(EPIDEMIC, model=SIR.model, observed=[1.0]), "observed"),
        (
            lambda: plotting.infection_fan(EPIDEMIC, model=SIR.model, truth=[1.0, 2.0, 3.0]),
            "at the 10 times",
        ),
        (
            lambda: plotting.infection_fan(
                EPIDEMIC, model=nw.problems.sir().model, truth=SIR.truth
            ),
            "does not determine",
        ),
        (lambda: plotting.infection_fan(GOOD, times=[2.0, 1.0]), "times must be increasing"),
        (lambda: plotting.infection_fan(GOOD, levels=[1.5]), "levels"),
        (
            lambda: plotting.privacy_utility(NESTED.drop(columns="median")),
            "columns median and two interval ends",
        ),
        (lambda: plotting.privacy_utility(NESTED, columns=["c"]), "hold"),
        (
            lambda: plotting.privacy_utility(pd.DataFrame({"a": [1.0]}, index=[-1.0])),
            "epsilons above 0",
        ),
        (
            lambda: plotting.privacy_utility(pd.DataFrame({"a": [np.nan]}, index=[1.0])),
            "finite values of a",
        ),
        (
            lambda: plotting.privacy_utility(pd.DataFrame({"a": [1.0, 2.0]}, index=[1.0, 1.0])),
            "once",
        ),
        (
            lambda: plotting.privacy_utility(pd.DataFrame({"a": [1.0]}, index=["low"])),
            "index of the table",
        ),
        (lambda: plotting.privacy_utility({1.0: {}}), "that is empty"),
        (lambda: plotting.uncertainty_bars(pd.DataFrame({"a": [-1.0]})), "not negative"),
        (
            lambda: plotting.uncertainty_bars(pd.DataFrame({"a": ["x"]})),
            "rectangular array of numbers",
        ),
        (lambda: plotting.uncertainty_bars(GOOD), "parts must be a decomposition"),
        (lambda: plotting.named_draws("model", GOOD), "PrivateModel"),
        (lambda: plotting.named_truth(SIR.model, [1.0]), "log_beta, log_gamma"),
        (lambda: plotting.named_truth(SIR.model, "theta"), "theta must be a rectangular array"),
    ],
)
def test_other_arguments(call, message):
    with pytest.raises(NoisewiseError, match=message):
        call()
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "name",
    [name for name in CALLS if name not in ("rank_ecdf", "coverage_curve", "uncertainty_bars")],
)
def test_constant_columns_are_drawn(name):
    constant = np.c_[GOOD[:, 0], np.full(50, 0.1)]
    axes = np.asarray(CALLS[name](constant), dtype=object).ravel()
    assert all(np.isfinite([*ax.get_xlim(), *ax.get_ylim()]).all() for ax in axes)
