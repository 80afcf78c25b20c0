"""Laws of cells whose sums are the statistic."""

import dataclasses

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors

SUMS = np.array([[1, 0, 0], [0, 1, 2], [1, 1, 1]])
NOISE = nw.mechanisms.DiscreteLaplace(scale=2.0)


def law(theta):
    return dist.Poisson(theta["rate"])


def model(sums=SUMS, noise=NOISE):
    prior = nw.Prior({"rate": dist.Gamma(2.0, 0.1).expand([3])})
    simulator = nw.simulators.StatisticLaw(law, sums=sums)
    return nw.PrivateModel(prior=prior, simulator=simulator, mechanism=noise)


def test_statistics_are_sums_of_the_simulated_cells():
    theta = np.array([[5.0, 50.0, 500.0]])
    s = model().statistics(jax.random.key(1), theta)
    cells = model(sums=None).statistics(jax.random.key(1), theta)
    np.testing.assert_array_equal(s, cells @ SUMS.T)


def test_the_order_of_cells_identifies_the_law():
    theta = np.array([[5.0, 50.0, 500.0]])
    simulator = model(sums=None).simulator
    other = dataclasses.replace(simulator, fn=lambda theta: dist.Poisson(theta["rate"][::-1]))
    pairs = zip(simulator.at_fixed_points(theta), other.at_fixed_points(theta), strict=True)
    assert all(first != second for first, second in pairs)


def test_the_sums_identify_the_law():
    theta = np.array([[5.0, 50.0, 500.0]])
    first, other = (model(sums).simulator.at_fixed_points(theta) for sums in (SUMS, SUMS[::-1]))
    assert first[:-1] == other[:-1]
    assert first[-1] != other[-1]


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        ([[1.0, 0.5, 0.0]], "whole numbers of 0 or more"),
        ([[1, -1, 0]], "whole numbers of 0 or more"),
        ([1, 1, 1], "a row for each released number"),
        ([[1, 1, 1], [0, 0, 0]], "Row 1 of sums adds up no cell"),
        ([[1, 1]], "adds up 2 cells, but the law gives 3"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(sums, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        model(sums)


def test_a_mechanism_of_another_width_is_refused():
    with pytest.raises(errors.InvalidInputError, match="sums makes 3 numbers of the cells"):
        model(noise=nw.mechanisms.DiscreteLaplace(scale=[1.0, 2.0]))


def test_sums_are_no_numbers_of_their_own():
    with pytest.raises(errors.MissingCapabilityError, match="CountAugmentationMCMC"):
        nw.inference.MarginalNUTS().infer(0, model(), [1.0, 2.0, 3.0])


def test_parameters_are_not_attributes():
    law = nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta.rate))
    with pytest.raises(errors.SimulationError, match=r'no theta.rate: write theta\["rate"\]'):
        law.named_by((("rate", ()),))
