"""The learner that all learning methods share: when its networks go on, and when they start again."""

import functools

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learner import AbstractTask, Columns, Learner, rescaled
from noisewise.inference.learned.common.simulations import Simulations

KEY = jax.random.key(0)
SMALL = functools.partial(
    nw.estimators.mixture_density_network, num_components=1, num_units=4, num_hidden=1
)
METHOD = nw.inference.ConfidentialLikelihoodEstimation(num_members=1, estimator=SMALL)


class Task(AbstractTask[str]):
    """Targets and conditions as a test sets them."""

    degree = 1

    def __init__(self, model):
        self.simulations = Simulations(model, 100)
        self.scale, self.layout, self.space, self.keeps_old = 1.0, (0,), "first", False
        self.firsts = []

    def columns(self, key, *, first):
        self.firsts.append(first)
        rng = np.random.default_rng(0)
        condition = self.scale * rng.normal(size=(50, 1))
        return Columns(rng.normal(size=(50, 1)), condition, self.space, self.layout)

    def space_to_keep(self, old, new):
        return old if self.keeps_old else new

    def pairs(self, key, space, scale, whitening):
        return space, scale, whitening


@pytest.fixture
def learner():
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    run = InferenceRun("test", {}, problem.model, problem.observed)
    made = Learner(Task(problem.model), run, METHOD, SMALL)
    made.prepare(KEY, KEY)
    return made


def changed(learner):
    """Whether networks start again at the next call."""
    before, scale = learner.members, learner.scale
    learner.prepare(KEY, jax.random.key(1))
    assert (learner.members is before) == (learner.scale is scale)
    return learner.members is not before


@pytest.mark.parametrize(("factor", "expected"), [(1.0, False), (1.4, False), (1.6, True)])
def test_networks_start_again_where_a_scale_changed_by_half(learner, factor, expected):
    learner.task.scale = factor
    assert changed(learner) == expected
    assert learner.task.firsts == [True, False]


def test_networks_start_again_where_other_columns_are_learnt(learner):
    learner.task.layout = (1,)
    assert changed(learner)


@pytest.mark.parametrize(("keeps_old", "expected"), [(True, "first"), (False, "second")])
def test_a_task_says_which_coordinates_networks_go_on_with(learner, keeps_old, expected):
    learner.task.space, learner.task.keeps_old = "second", keeps_old
    assert not changed(learner)
    assert learner.space == expected


def test_a_learner_without_networks_has_no_density():
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    run = InferenceRun("test", {}, problem.model, problem.observed)
    with pytest.raises(ValueError, match="prepare"):
        _ = Learner(Task(problem.model), run, METHOD, SMALL).density


def test_scales_of_zero_count_as_unchanged():
    old, new = np.array([0.0, 1.0, 2.0]), np.array([3.0, 0.0, 2.9])
    assert not rescaled((old, new))
    assert rescaled((old, new), (np.ones(1), np.full(1, 0.6)))
