"""OpenDP measurements built in many ways, as they are serialised, and draws of their noise."""

import dataclasses
import json
from collections.abc import Callable

import numpy as np
import opendp.prelude as dp

import noisewise as nw
from noisewise.mechanisms import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Thresholded,
)

dp.enable_features("contrib", "idealized-numerics")
ONE = nw.AddRemoveOne(max_contributions=1)
STATED = {"sensitivity": 1.0, "neighbours": ONE}


@dataclasses.dataclass(frozen=True)
class Case:
    """A measurement.

    Attributes:
        serialised: Its JSON, as far as OpenDP writes it.
        expected: The mechanism that is imported.
        s: The statistic that the draws are given.
        draw: A function of a number of draws.
        output: What it once released.
        given: What the file does not say.
    """

    serialised: str
    expected: object
    s: float
    draw: Callable[[int], np.ndarray]
    output: object
    given: dict


def scalar(measurement, s, expected, given=STATED, data=None):
    argument = s if data is None else data

    def draw(num):
        return np.array([measurement(argument) for _ in range(num)], dtype=float)

    return Case(dp.serialize(measurement), expected, float(s), draw, measurement(argument), given)


def vector(measurement, s, expected):
    def draw(num):
        return np.array(measurement([s] * num), dtype=float)

    return Case(dp.serialize(measurement), expected, float(s), draw, measurement([s] * 3), STATED)


def by_key(measurement, s, expected, key_type=str):
    """A measurement that leaves out keys: `dp.serialize` of OpenDP 0.16 stops at its measure, which
    is written here as its text.
    """

    def draw(num):
        given = {f"{place:07d}": s for place in range(num)}
        kept = measurement(given)
        return np.array([kept.get(key, np.nan) for key in given], dtype=float)

    written = dict(measurement.__opendp_dict__)
    arguments = dict(written["__kwargs__"])
    arguments["MO"] = str(arguments["MO"])
    arguments["input_domain"] = json.loads(dp.serialize(arguments["input_domain"]))
    arguments["input_metric"] = str(arguments["input_metric"])
    written["__kwargs__"] = arguments
    given = STATED | {"cells": ["a", "b"]}
    output = {"a": s + 1}
    return Case(json.dumps(written), expected, float(s), draw, output, given)


def context(loss, contributions=1):
    return dp.Context.compositor(
        data=[1, 2, 3, 40],
        privacy_unit=dp.unit_of(contributions=contributions),
        privacy_loss=loss,
        domain=dp.vector_domain(dp.atom_domain(T="i64")),
        split_evenly_over=2,
    )


def cases():
    floats = dp.atom_domain(T=float, nan=False)
    i64, i32, u32 = (dp.atom_domain(T=name) for name in ("i64", "i32", "u32"))
    keyed = dp.map_domain(dp.atom_domain(T=str), i64)
    reals = dp.map_domain(dp.atom_domain(T=str), floats)
    one = {"sensitivity": 1.0, "neighbours": ONE}
    two = nw.AddRemoveOne(max_contributions=2)
    data = [1, 2, 3, 40]
    total = context(dp.loss_of(epsilon=1.0)).query().clamp((0, 10)).sum().laplace().resolve()
    count = context(dp.loss_of(rho=0.02), 2).query().count().gaussian().resolve()
    wrapped = (
        context(dp.loss_of(epsilon=1.0, delta=1e-6))
        .query()
        .clamp((0, 10))
        .sum()
        .gaussian()
        .resolve()
    )
    return {
        "Laplace, real": scalar(
            dp.m.make_laplace(floats, dp.absolute_distance(T=float), scale=2.5),
            3.25,
            Laplace(scale=2.5, **one),
        ),
        "Laplace, whole": scalar(
            dp.m.make_laplace(i64, dp.absolute_distance(T="i64"), scale=7.0),
            12,
            DiscreteLaplace(scale=7.0, **one),
        ),
        "Gaussian, real": scalar(
            dp.m.make_gaussian(floats, dp.absolute_distance(T=float), scale=2.5),
            3.25,
            Gaussian(scale=2.5, **one),
        ),
        "Gaussian, whole": scalar(
            dp.m.make_gaussian(i32, dp.absolute_distance(T=float), scale=7.0),
            -12,
            DiscreteGaussian(scale=7.0, **one),
        ),
        "Laplace, vector": vector(
            dp.m.make_laplace(dp.vector_domain(floats), dp.l1_distance(T=float), scale=30.0),
            3.25,
            Laplace(scale=30.0, **one),
        ),
        "Laplace, vector of whole": vector(
            dp.m.make_laplace(dp.vector_domain(i64), dp.l1_distance(T="i64"), scale=0.7),
            3,
            DiscreteLaplace(scale=0.7, **one),
        ),
        "Gaussian, vector": vector(
            dp.m.make_gaussian(dp.vector_domain(floats), dp.l2_distance(T=float), scale=0.1),
            0.5,
            Gaussian(scale=0.1, **one),
        ),
        "sum of a Context": scalar(
            total,
            16,
            DiscreteLaplace(scale=20.0, sensitivity=10.0, neighbours=ONE),
            {"sensitivity": 10.0},
            data,
        ),
        "count of a Context": scalar(
            count,
            4,
            DiscreteGaussian(scale=SCALE_OF_COUNT, sensitivity=2.0, neighbours=two),
            {"sensitivity": 2.0},
            data,
        ),
        "threshold, whole": by_key(
            dp.m.make_laplace_threshold(
                keyed, dp.l01inf_distance(dp.absolute_distance(T="i64")), scale=5.0, threshold=22
            ),
            30,
            Thresholded(DiscreteLaplace(scale=5.0, **one), 22.0),
        ),
        "threshold, real": by_key(
            dp.m.make_gaussian_threshold(
                reals, dp.l02inf_distance(dp.absolute_distance(T=float)), scale=5.0, threshold=18.0
            ),
            20.0,
            Thresholded(Gaussian(scale=5.0, **one), 18.0),
        ),
        "without a sign": scalar(
            dp.m.make_laplace(u32, dp.absolute_distance(T="u32"), scale=7.0),
            12,
            Clamped(DiscreteLaplace(scale=7.0, **one), low=0.0),
        ),
        "geometric, cut off": scalar(
            dp.m.make_geometric(i64, dp.absolute_distance(T="i64"), scale=3.0, bounds=(4, 30)),
            12,
            Clamped(DiscreteLaplace(scale=3.0, **one), low=4.0, high=30.0),
        ),
        "approximate, by a Context": scalar(wrapped, 16, None, {"sensitivity": 10.0}, data),
    }


SCALE_OF_COUNT = 14.142135623730953
"""Of a count with 2 contributions and rho .01: 2 / sqrt(2 rho), found by a search."""
