"""A model with good draws and trials, and every diagnostic as a call that takes something else in
the place of one of them.
"""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise._core.keys import generator
from noisewise.diagnostics import (
    calibrate,
    certify,
    compare,
    coverage,
    draw_trials,
    misspecification,
    predictive_check,
    prior_sensitivity,
    tarp,
)
from noisewise.diagnostics.trials import Trials
from noisewise.posteriors import Draws, Report

KEY = jax.random.key(3)
RNG = np.random.default_rng(0)
GOOD = 0.5 * RNG.normal(size=(200, 2))


def make_model(prior=None):
    return nw.PrivateModel(
        prior=prior or nw.Prior({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + jax.random.normal(key, (2,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )


MODEL = make_model()


def posterior(theta=GOOD, names=("a", "b"), **more):
    return Draws(np.asarray(theta), names, Report("given"), **more)


class Right:
    def sample_many(self, key, observed, num):
        return observed[:, None] / 3 + np.sqrt(2 / 3) * generator(key).normal(
            size=(len(observed), num, 2)
        )


def good_trials(num=40):
    """As `draw_trials` makes of the model and `Right`, at once."""
    theta = RNG.normal(size=(num, 2))
    observed = theta + np.sqrt(2.0) * RNG.normal(size=(num, 2))
    return Trials(MODEL.names, theta, observed, Right().sample_many(KEY, observed, 20), 0)


OBSERVED = [0.3, -0.2]
TRIALS = good_trials()

OF_TRIALS = {
    "draw_trials": lambda given, *rest, **more: draw_trials(
        KEY, given, *rest, **{"progress": False, **more}
    ),
    "calibrate": lambda given, *rest, **more: calibrate(
        KEY, given, *rest, **{"progress": False, **more}
    ),
    "coverage": lambda given, *rest, **more: coverage(
        KEY, given, *rest, **{"progress": False, **more}
    ),
    "tarp": lambda given, *rest, **more: tarp(KEY, given, *rest, **{"progress": False, **more}),
}
OF_POSTERIORS = {
    "certify": lambda given: certify(KEY, given, MODEL, OBSERVED, 1000),
    "compare": lambda given: compare({"good": posterior(), "given": given}, num_draws=100),
    "predictive_check": lambda given: predictive_check(KEY, given, MODEL, OBSERVED, 200),
    "prior_sensitivity": lambda given: prior_sensitivity(given, MODEL),
}
OF_OBSERVATIONS = {
    "certify": lambda seen: certify(KEY, posterior(), MODEL, seen, 1000),
    "predictive_check": lambda seen: predictive_check(KEY, posterior(), MODEL, seen, 200),
    "misspecification": lambda seen: misspecification(KEY, MODEL, seen, 200),
}


def cases(table):
    return [pytest.param(*row, id=name) for name, row in table.items()]
