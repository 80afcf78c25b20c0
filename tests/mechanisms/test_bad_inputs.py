"""Bad inputs to mechanisms: each a typed error that says what was expected, what came and what to
do.
"""

import re

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.mechanisms import (
    Clamped,
    DensityMechanism,
    DiscreteGaussian,
    DiscreteLaplace,
    EuclideanLaplace,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PaddedBinomial,
    Product,
    RandomizedResponse,
    SampledMechanism,
    from_spec,
)

KEY = jax.random.key(0)
LAPLACE = Laplace(scale=1.0, sensitivity=1.0)
COUNTS = PaddedBinomial(trials=10, padding=5, population=100, num_times=2)
CHOICE = ExponentialMechanism(candidates=(1.0, 2.0, 3.0), scale=1.0)

VALUE, TYPE = errors.InvalidInputError, errors.InvalidTypeError
MISSING, FILE = errors.MissingCapabilityError, errors.FileFormatError

BAD = {
    "negative scale": (
        lambda: Laplace(scale=-1.0),
        VALUE,
        "scale must be a finite number > 0, got -1",
    ),
    "zero scale": (lambda: Gaussian(scale=0.0), VALUE, "scale must be a finite number > 0, got 0"),
    "infinite scale": (
        lambda: Laplace(scale=np.inf),
        VALUE,
        "scale must be a finite number > 0, got inf",
    ),
    "NaN sensitivity": (
        lambda: Gaussian(scale=1.0, sensitivity=np.nan),
        VALUE,
        "sensitivity must be a finite number",
    ),
    "scale as text": (lambda: DiscreteLaplace(scale="1"), TYPE, "scale must be .*, got str"),
    "scale as array": (
        lambda: EuclideanLaplace(scale=np.ones(2)),
        TYPE,
        "scale must be .*, got ndarray of shape",
    ),
    "zero step": (
        lambda: DiscreteGaussian(scale=1.0, step=0),
        VALUE,
        "step must be a finite number > 0",
    ),
    "epsilon instead of a guarantee": (
        lambda: Laplace.calibrate(sensitivity=1.0, guarantee=1.0),
        TYPE,
        r"guarantee must be PureDP, such as PureDP\(1.0\), got 1.0",
    ),
    "a guarantee Laplace noise is not made for": (
        lambda: Laplace.calibrate(sensitivity=1.0, guarantee=nw.GaussianDP(1.0)),
        VALUE,
        "Laplace is calibrated to PureDP, got GaussianDP",
    ),
    "pure privacy by Gaussian noise": (
        lambda: DiscreteGaussian.calibrate(sensitivity=1.0, guarantee=nw.PureDP(1.0)),
        VALUE,
        "calibrated to ZeroConcentratedDP or ApproximateDP",
    ),
    "a guarantee that implies none it could be calibrated to": (
        lambda: Laplace.calibrate(sensitivity=1.0, guarantee=nw.ZeroConcentratedDP(0.5)),
        VALUE,
        "It implies none: take another mechanism, or ask for PureDP",
    ),
    "a guarantee that implies a weaker one": (
        lambda: DiscreteGaussian.calibrate(sensitivity=1.0, guarantee=nw.GaussianDP(1.0)),
        VALUE,
        r"the weaker ZeroConcentratedDP\(rho=0.5\), which is guarantee.to\(ZeroConcentratedDP\)",
    ),
    "delta of zero by Gaussian noise": (
        lambda: Gaussian.calibrate(sensitivity=1.0, guarantee=nw.ApproximateDP(1.0, 0.0)),
        errors.ConversionError,
        "No Gaussian noise gives delta = 0",
    ),
    "delta of zero by discrete Gaussian noise": (
        lambda: DiscreteGaussian.calibrate(sensitivity=1.0, guarantee=nw.ApproximateDP(1.0, 0.0)),
        errors.ConversionError,
        "positive delta",
    ),
    "epsilon of zero": (
        lambda: Laplace.calibrate(sensitivity=1.0, guarantee=nw.PureDP(0.0)),
        VALUE,
        "would need infinite noise",
    ),
    "guarantee without a sensitivity": (
        lambda: Laplace(scale=1.0).guarantee,
        MISSING,
        "pass sensitivity=",
    ),
    "neighbours without a sensitivity": (
        lambda: DiscreteLaplace(scale=1.0).adjacent_pairs(2),
        MISSING,
        "pass sensitivity=",
    ),
    "single number as s": (
        lambda: LAPLACE.sample(KEY, 1.0),
        VALUE,
        r"s must have shape \(..., k\), got a single number",
    ),
    "empty s": (lambda: LAPLACE.sample(KEY, []), VALUE, "s must have at least one column"),
    "ragged s": (
        lambda: LAPLACE.sample(KEY, [[1.0], [1.0, 2.0]]),
        TYPE,
        "s must be a rectangular array",
    ),
    "s and key swapped": (lambda: LAPLACE.sample([1.0], KEY), TYPE, "must be one JAX PRNG key"),
    "a switch instead of a key": (
        lambda: LAPLACE.sample(True, [1.0]),
        TYPE,
        r"such as jax.random.key\(0\), or an integer in its place; got bool",
    ),
    "a negative seed": (
        lambda: LAPLACE.sample(-1, [1.0]),
        VALUE,
        r"between 0 and 2\^32 - 1, got -1",
    ),
    "key as s": (
        lambda: LAPLACE.log_prob([1.0], KEY),
        TYPE,
        "got a PRNG key: are two arguments swapped",
    ),
    "widths of s_dp and s differ": (
        lambda: LAPLACE.log_prob([1.0, 2.0], [1.0]),
        VALUE,
        r"s_dp must have shape \(..., 1\), got \(2,\)",
    ),
    "too few uniforms": (
        lambda: EuclideanLaplace(scale=1.0).transport([0.5, 0.5], [1.0, 2.0]),
        VALUE,
        r"u must have shape \(..., 3\), got \(2,\)",
    ),
    "uniform of 1": (
        lambda: LAPLACE.transport([1.0], [0.0]),
        VALUE,
        r"u must lie strictly inside \(0, 1\)",
    ),
    "cdf of dependent columns": (
        lambda: EuclideanLaplace(scale=1.0).log_cdf([1.0], [1.0]),
        MISSING,
        "EuclideanLaplace has no log_cdf",
    ),
    "law of each of dependent columns": (
        lambda: EuclideanLaplace(scale=1.0).log_prob_each([1.0, 2.0], [1.0, 1.0]),
        MISSING,
        "columns depend on each other: take log_prob",
    ),
    "s off the lattice": (
        lambda: DiscreteLaplace(scale=1.0, step=0.5).sample(KEY, [0.25]),
        VALUE,
        "whole multiples of step=0.5",
    ),
    "infinite s on a lattice": (
        lambda: DiscreteGaussian(scale=1.0).sample(KEY, [np.inf]),
        VALUE,
        "whole multiples",
    ),
    "count above the population": (
        lambda: COUNTS.sample(KEY, [0, 101]),
        VALUE,
        "between 0 and population=100",
    ),
    "negative count": (
        lambda: COUNTS.log_prob([0, 1], [-1, 5]),
        VALUE,
        "between 0 and population=100",
    ),
    "wrong number of times": (
        lambda: COUNTS.sample(KEY, [1, 2, 3]),
        VALUE,
        r"s must have shape \(..., 2\), got \(3,\)",
    ),
    "half a trial": (
        lambda: PaddedBinomial(trials=1.5, padding=1, population=9, num_times=1),
        TYPE,
        "trials must be a whole number >= 1",
    ),
    "no padding": (
        lambda: PaddedBinomial(trials=5, padding=0, population=9, num_times=1),
        VALUE,
        "padding must be a finite number > 0",
    ),
    "unknown category": (
        lambda: RandomizedResponse(3, 0.5).sample(KEY, [3]),
        VALUE,
        "categories 0..2",
    ),
    "one category": (
        lambda: RandomizedResponse(1, 0.5),
        VALUE,
        "num_categories must be a whole number >= 2",
    ),
    "certain truth": (
        lambda: RandomizedResponse(2, 1.0),
        VALUE,
        "truth_probability must be .* < 1",
    ),
    "less than a guess": (
        lambda: RandomizedResponse(4, 0.2),
        VALUE,
        "at least that of a blind guess",
    ),
    "one candidate": (
        lambda: ExponentialMechanism((1.0,), 1.0),
        VALUE,
        "at least two different numbers",
    ),
    "repeated candidates": (
        lambda: ExponentialMechanism((1.0, 1.0), 1.0),
        VALUE,
        "at least two different numbers",
    ),
    "candidates as text": (
        lambda: ExponentialMechanism("abc", 1.0),
        TYPE,
        "candidates must be a sequence of numbers",
    ),
    "NaN candidate": (
        lambda: ExponentialMechanism((1.0, np.nan), 1.0),
        VALUE,
        "candidates must be a finite number",
    ),
    "wrong number of utilities": (
        lambda: CHOICE.sample(KEY, [1.0, 2.0]),
        VALUE,
        r"\(..., 3\), got \(2,\)",
    ),
    "infinite utility": (lambda: CHOICE.sample(KEY, [1.0, np.inf, 0.0]), VALUE, "finite utilities"),
    "low above high": (
        lambda: Clamped(LAPLACE, low=1.0, high=0.0),
        VALUE,
        "low must be below high, got low=1 and high=0",
    ),
    "nothing to clamp": (lambda: Clamped(LAPLACE), VALUE, "at least one of low, high and step"),
    "NaN end": (lambda: Clamped(LAPLACE, low=np.nan), VALUE, "low must be a number, got nan"),
    "end between multiples": (
        lambda: Clamped(LAPLACE, low=0.3, step=0.5),
        VALUE,
        "low=0.3 must be a multiple of the step",
    ),
    "end off the inner lattice": (
        lambda: Clamped(DiscreteLaplace(scale=1.0), high=2.5),
        VALUE,
        "high=2.5 must be a multiple of the step, 1",
    ),
    "rounding to a finer lattice": (
        lambda: Clamped(DiscreteLaplace(scale=1.0, step=2.0), step=3.0),
        VALUE,
        "step=3 must be a multiple of the mechanism's own step, 2",
    ),
    "rounding of counts": (lambda: Clamped(COUNTS, step=5.0), VALUE, "leave step out"),
    "clamping what has no cdf": (
        lambda: Clamped(EuclideanLaplace(scale=1.0), low=0.0),
        MISSING,
        "independent columns and a log_cdf",
    ),
    "clamping twice": (
        lambda: Clamped(Clamped(LAPLACE, low=0.0), high=1.0),
        VALUE,
        "one Clamped with low, high and step",
    ),
    "clamping candidates": (lambda: Clamped(CHOICE, low=0.0), VALUE, "leave candidates outside"),
    "clamping a product": (lambda: Clamped(Product([LAPLACE]), low=0.0), VALUE, "clamp its blocks"),
    "clamping a number": (lambda: Clamped(3.0, low=0.0), TYPE, "Clamped wraps a mechanism"),
    "empty product": (lambda: Product([]), VALUE, "at least one mechanism"),
    "product of one mechanism without a list": (
        lambda: Product(LAPLACE),
        TYPE,
        "takes a list of mechanisms, got Laplace",
    ),
    "product with a number": (lambda: Product([LAPLACE, 2.0]), TYPE, "got float in it"),
    "too few widths": (
        lambda: Product([LAPLACE, LAPLACE], widths=[1]),
        VALUE,
        "one entry per mechanism, 2, got 1",
    ),
    "width against a fixed one": (
        lambda: Product([COUNTS], widths=[3]),
        VALUE,
        "takes 2 columns, but widths gives it 3",
    ),
    "sampler that is no function": (
        lambda: SampledMechanism(3.0),
        TYPE,
        r"a function sample\(key, s\)",
    ),
    "guarantee as a number": (
        lambda: DensityMechanism(abs, guarantee=1.0),
        TYPE,
        r"one such as PureDP\(1.0\)",
    ),
    "unknown norm": (
        lambda: SampledMechanism(max, norm=3),
        VALUE,
        "norm must be 0, 1, 2 or infinity, got 3",
    ),
    "sampler of the wrong shape": (
        lambda: SampledMechanism(lambda key, s: s[:1]).sample(KEY, [1.0, 2.0]),
        VALUE,
        r"must return shape \(2,\) for one statistic, got \(1,\)",
    ),
    "sampler in NumPy": (
        lambda: SampledMechanism(lambda key, s: np.sort(s)).sample(KEY, [1.0, 2.0]),
        TYPE,
        "must be written with jax.numpy",
    ),
    "spec that is no object": (
        lambda: from_spec([1]),
        FILE,
        "whose 'type' is one of Clamped, Crosswise",
    ),
    "spec of an unknown type": (lambda: from_spec({"type": "Cauchy"}), FILE, "'type' is one of"),
    "spec with a foreign field": (
        lambda: from_spec({"type": "Laplace", "scale": 1.0, "sensitivity": 1.0, "seed": 3}),
        FILE,
        "Laplace has the fields",
    ),
    "spec with a bad value": (
        lambda: from_spec({"type": "Laplace", "scale": -1.0, "sensitivity": 1.0}),
        FILE,
        "The fields of Laplace do not fit: scale must be",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_a_sentence(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind) as caught:
        call()
    assert re.search(message, str(caught.value)), str(caught.value)
    assert isinstance(caught.value, errors.NoisewiseError)


def test_messages_do_not_repeat_the_confidential_statistic():
    secret = 123.4567
    for call in (
        lambda: DiscreteLaplace(scale=1.0).sample(KEY, [secret]),
        lambda: COUNTS.sample(KEY, [secret, 1.0]),
        lambda: RandomizedResponse(3, 0.5).sample(KEY, [secret]),
    ):
        with pytest.raises(errors.NoisewiseError) as caught:
            call()
        assert "123" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (nw.mechanisms.DiscreteGaussian, {"sd": 5.0}, "'sd': it takes scale, sensitivity"),
        (nw.mechanisms.ForcedResponse, {"p": 0.5}, "'p': it takes truth, yes"),
        (nw.mechanisms.Exact, {"scale": 1.0}, "Exact has no argument 'scale'"),
    ],
)
def test_unknown_arguments_are_named_with_those_that_there_are(kind, given, words):
    with pytest.raises(errors.InvalidTypeError, match=words):
        kind(**given)
