"""Queries and mechanisms to release with, and every way to release one record."""

import dataclasses

import numpy as np

import noisewise as nw

m, q = nw.mechanisms, nw.queries

CODES = q.FunctionQuery(np.ravel, sensitivity={0: 1, 1: 1})
MEAN = q.ClampedMean(bounds=(0.0, 1.0), num_records=1)
CURVE = q.InfectionCurve(population=1, num_times=1)
MEDIAN = q.Median(candidates=(0.1, 0.3, 0.7), num_records=1)
EPSILON = 1.0
PURE, RHO = nw.PureDP(EPSILON), nw.ZeroConcentratedDP(EPSILON**2 / 2)

# Every way to release one record that is 0 or 1, at epsilon = 1 or the zCDP that it implies.
PATHS = {
    "discrete laplace": (MEAN, {"guarantee": PURE}),
    "step that is no power of two": (dataclasses.replace(MEAN, grid=0.1), {"guarantee": PURE}),
    "discrete gaussian": (dataclasses.replace(MEAN, grid=0.1), {"guarantee": RHO}),
    "approximate": (MEAN, {"guarantee": nw.ApproximateDP(EPSILON, 1e-6)}),
    "histogram": (q.Histogram(edges=(-1.0, 0.5, 2.0)), {"guarantee": PURE}),
    "exponential mechanism": (MEDIAN, {"guarantee": PURE}),
    "padded binomial": (CURVE, {"mechanism": m.PaddedBinomial.calibrate(
        trials=9, population=1, num_times=1, guarantee=PURE)}),
    "randomized response": (CODES, {"mechanism": m.RandomizedResponse.calibrate(num_categories=2, guarantee=PURE)}),
    "clamped": (CODES, {"mechanism": m.Clamped(m.DiscreteLaplace(1.0, 1.0, 0.1), low=-0.4, high=1.2, step=0.2)}),
    "joint": (q.Joint([dataclasses.replace(MEAN, grid=0.1), MEDIAN]), {"guarantee": PURE}),
}  # fmt: skip

SURE = nw.PureDP(1e12)
SECRET = 31337.125
MEAN3 = q.ClampedMean(bounds=(0.0, 1e5), num_records=3)
LAPLACE = m.Laplace(scale=0.5, sensitivity=0.25)
