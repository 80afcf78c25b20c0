"""The problems: defaults are chosen on TUNED, and judged on HELD_OUT."""

from __future__ import annotations

from functools import partial

from benchmarks.learning.count_problems import (
    district_effects,
    districts,
)
from benchmarks.learning.gaussian_problems import groups, linear, moons, points
from benchmarks.learning.income_problems import incomes
from benchmarks.learning.problem import Catalogue, Problem
from noisewise.mechanisms import DiscreteGaussian, Gaussian

TUNED: Catalogue = {
    "linear-10": partial(linear, seed=11, dim=10, width=10, sd=0.3, noise=0.3),
    "points-a": partial(points, seed=12, truth=(0.7, -1.9, -1.2, 1.0, 0.8), noise=0.3),
    "moons-a": partial(moons, seed=13, truth=(0.3, 0.2), noise=0.03),
    "districts-12": partial(
        districts, seed=14, num=12, typical=40.0, mechanism=Gaussian(scale=4.0)
    ),
    "effects-12": partial(
        district_effects, seed=15, num=12, typical=40.0, mechanism=DiscreteGaussian(scale=5.0)
    ),
    "incomes-24": partial(
        incomes, seed=16, records=2000, bins=24, top=8.0, mechanism=DiscreteGaussian(scale=4.0)
    ),
    "groups-6": partial(groups, seed=17, num=6, sd=0.5, noise=0.5),
}
HELD_OUT: Catalogue = {}


def problem(name: str) -> Problem:
    """The problem of this name."""
    return (dict(TUNED) | dict(HELD_OUT))[name](name)
