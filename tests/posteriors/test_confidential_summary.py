"""Confidential numbers as a table, with the labels of the release."""

import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.posteriors import Draws, Report, WeightedSamples

NOISE = nw.mechanisms.Thresholded(nw.mechanisms.DiscreteLaplace(2.0), above=10.0)
RELEASE = nw.Release([31.0, np.nan], NOISE, labels={"district": ["North", "South"]})


def posterior(statistics, kind=Draws, **more):
    theta = np.zeros((3, 1))
    return kind(theta, ("rate",), Report("nuts"), statistics=statistics, **more)


def test_labels_and_released_numbers_stand_beside_the_draws():
    answer = posterior(np.array([[30.0, 2.0], [31.0, 4.0], [33.0, 9.0]]))
    found = answer.confidential_summary(RELEASE, level=0.5).set_index("district")
    assert found.loc["South", ["absent", "mean", "25%", "median", "75%"]].tolist() == [
        True,
        5,
        2,
        4,
        9,
    ]
    assert found.loc["North", "value"] == 31.0
    assert answer.confidential_summary().columns.tolist() == [
        "mean",
        "sd",
        "median",
        "2.5%",
        "97.5%",
    ]


def test_weights_count():
    s, log_weights = np.array([[1.0], [2.0], [3.0]]), np.log([0.5, 0.25, 0.25])
    found = posterior(
        s, WeightedSamples, log_weights=log_weights, statistic_names=("North",)
    ).confidential_summary()
    assert found.loc["North", ["mean", "median"]].tolist() == [1.75, 1.0]


def test_what_does_not_fit_is_refused():
    with pytest.raises(errors.MissingCapabilityError, match="CountAugmentationMCMC"):
        posterior(None).confidential_summary(RELEASE)
    with pytest.raises(errors.InvalidInputError, match="1 confidential numbers, the release 2"):
        posterior(np.ones((3, 1))).confidential_summary(RELEASE)
