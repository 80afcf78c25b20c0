"""Trials, TARP and coverage: right posteriors pass, planted faults are caught, any number of
workers gives the same.
"""

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise._core.keys import generator
from noisewise.diagnostics import Trials, calibrate, coverage, draw_trials, tarp
from noisewise.diagnostics.uniformity import p_values

KEY = jax.random.key(2)


def model():
    """Two independent parameters, N(0, 1) and N(0, 2^2), each seen through unit noise and unit
    privacy noise.
    """
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 2.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: theta + jax.random.normal(key, (2,))
        ),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )


PRIOR = np.array([1.0, 2.0])
FACTOR = PRIOR**2 / (PRIOR**2 + 2.0)
SD = np.sqrt(2.0 * FACTOR)


class Exact:
    def __init__(self, bias=0.0, stretch=1.0, swapped=False, ignores=False):
        self.bias, self.stretch, self.swapped, self.ignores = bias, stretch, swapped, ignores

    def sample_many(self, key, observed, num):
        noise = generator(key).normal(size=(len(observed), num, 2))
        if self.ignores:
            return PRIOR * noise
        draws = (FACTOR * observed)[:, None] + SD * (self.bias + self.stretch * noise)
        return draws[..., ::-1] if self.swapped else draws


def test_right_posteriors_pass_both():
    trials = draw_trials(KEY, Exact(), model(), 1000)
    assert isinstance(trials, Trials)
    found = tarp(KEY, trials)
    assert found.passed
    assert found.gap < 1.36 / np.sqrt(1000)  # the 95% point of the Kolmogorov distance
    assert calibrate(KEY, trials).passed
    assert coverage(KEY, trials)["right"].all()


@pytest.mark.parametrize(
    "wrong", [{"ignores": True}, {"swapped": True}, {"stretch": 0.75}], ids=str
)
def test_tarp_catches_planted_faults(wrong):
    assert not tarp(KEY, draw_trials(KEY, Exact(**wrong), model(), 1000)).passed


def test_a_bias_is_for_ranks_to_see():
    trials = draw_trials(KEY, Exact(bias=0.2), model(), 1000)
    assert not calibrate(KEY, trials).passed
    assert tarp(KEY, trials).gap < 0.1


def test_ignored_data_are_seen():
    trials = draw_trials(KEY, Exact(ignores=True), model(), 500)
    assert not calibrate(KEY, trials).passed
    assert not tarp(KEY, trials).passed


def test_false_alarms_of_tarp_are_as_rare_as_stated():
    """200 sets of 100 trials at alpha .05, Bonferroni over three tests: at most 5% + 4 standard
    errors.
    """
    rng, alarms = np.random.default_rng(0), 0
    for number in range(200):
        theta = PRIOR * rng.normal(size=(100, 2))
        observed = theta + np.sqrt(2.0) * rng.normal(size=(100, 2))
        draws = Exact().sample_many(jax.random.key(number), observed, 50)
        alarms += not tarp(
            jax.random.key(number), Trials(("a", "b"), theta, observed, draws, 0)
        ).passed
    assert alarms / 200 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


def test_coverage_counts_intervals():
    """Against the intervals themselves, with as many draws as to make randomisation negligible; an
    sd of .7 is caught at every level.
    """
    trials = draw_trials(KEY, Exact(), model(), 400, num_draws=2000)
    table = coverage(KEY, trials, levels=(0.5, 0.9))
    for level in (0.5, 0.9):
        low, high = np.quantile(trials.draws, [(1 - level) / 2, (1 + level) / 2], axis=1)
        inside = ((trials.theta > low) & (trials.theta < high)).mean(axis=0)
        found = [table.loc[(name, level), "coverage"] for name in ("a", "b")]
        np.testing.assert_allclose(found, inside, atol=0.01)
    narrow = coverage(KEY, Exact(stretch=0.7), model(), 1000)
    assert not narrow["right"].any()
    assert (narrow["coverage"] < narrow.index.get_level_values("level")).all()


class Slow:
    """A function, as a method would be: one posterior for one observation."""

    def __call__(self, key, observed):
        return Exact().sample_many(key, observed[None], 60)[0]


def test_any_number_of_workers_gives_the_same_trials():
    alone = draw_trials(KEY, Slow(), model(), 40, num_draws=20, progress=False)
    with ThreadPoolExecutor(3) as pool:
        together = draw_trials(
            KEY, Slow(), model(), 40, num_draws=20, executor=pool, progress=False
        )
    np.testing.assert_array_equal(alone.draws, together.draws)
    assert min(p_values(calibrate(KEY, alone).uniforms[:, 0]).values()) > 0.001


def test_a_method_serves_as_it_is():
    method = nw.inference.ImportanceSampling(num_stages=0, num_final=2000)
    trials = draw_trials(KEY, method, model(), 25, num_draws=20, progress=False)
    assert trials.draws.shape == (25, 20, 2)
    correlation = np.corrcoef(trials.draws.mean(axis=1)[:, 1], (FACTOR * trials.observed)[:, 1])[
        0, 1
    ]
    assert correlation > 0.9


def test_bad_input_is_refused():
    with pytest.raises(errors.InvalidTypeError, match="PrivateModel"):
        tarp(KEY, Exact())
    with pytest.raises(errors.InvalidInputError, match="num_trials"):
        coverage(KEY, Exact(), model(), 3)
    with pytest.raises(errors.InvalidInputError, match="levels"):
        coverage(KEY, Exact(), model(), 30, levels=(95,))
