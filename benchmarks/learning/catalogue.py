"""The problems: defaults are chosen on TUNED, and judged on HELD_OUT."""

from __future__ import annotations

from functools import partial

from benchmarks.learning.count_problems import (
    district_effects,
    districts,
    doses,
    two_populations,
    zero_cases,
)
from benchmarks.learning.gaussian_problems import groups, linear, moons, points
from benchmarks.learning.income_problems import incomes
from benchmarks.learning.outbreak_problems import small_outbreak
from benchmarks.learning.problem import Catalogue, Problem
from noisewise.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian

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
    "zeros-12": partial(
        zero_cases, seed=18, num=12, typical=20.0, mechanism=DiscreteGaussian(scale=2.5)
    ),
}
HELD_OUT: Catalogue = {
    "linear-8": partial(linear, seed=31, dim=8, width=8, sd=0.2, noise=0.25),
    "points-b": partial(points, seed=32, truth=(-0.5, 1.2, 1.1, -1.3, -0.6), noise=0.25),
    "moons-b": partial(moons, seed=33, truth=(-0.2, 0.65), noise=0.02),
    "districts-10": partial(
        districts, seed=34, num=10, typical=60.0, mechanism=DiscreteGaussian(scale=6.0)
    ),
    "effects-10": partial(
        district_effects, seed=35, num=10, typical=30.0, mechanism=DiscreteGaussian(scale=4.0)
    ),
    "incomes-20": partial(
        incomes, seed=36, records=1500, bins=20, top=7.0, mechanism=DiscreteLaplace(scale=3.0)
    ),
    "zeros-14": partial(
        zero_cases, seed=37, num=14, typical=12.0, mechanism=DiscreteLaplace(scale=1.5)
    ),
    "doses-10": partial(
        doses, seed=38, num=10, per_group=40, mechanism=DiscreteGaussian(scale=3.0)
    ),
    "mixture-12": partial(
        two_populations, seed=39, num=12, records=300.0, mechanism=Gaussian(scale=5.0)
    ),
    "outbreak-8": partial(
        small_outbreak, seed=40, people=40, weeks=8, mechanism=DiscreteGaussian(scale=1.5)
    ),
}


def problem(name: str) -> Problem:
    """The problem of this name."""
    return (dict(TUNED) | dict(HELD_OUT))[name](name)


def named(given: str) -> list[str]:
    """The names that are meant by tuned, held-out, all, or one name."""
    groups_ = {"tuned": TUNED, "held-out": HELD_OUT, "all": {**TUNED, **HELD_OUT}}
    if given in groups_:
        return list(groups_[given])
    if given not in groups_["all"]:
        raise SystemExit(f"No problem is named {given!r}: there are {', '.join(groups_['all'])}.")
    return [given]
