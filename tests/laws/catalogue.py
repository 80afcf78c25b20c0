"""Laws and mechanisms, cell by cell: what is compared with sums term by term.

A group is one law and one mechanism with an array of cells, which one program serves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpyro.distributions as dist

from noisewise.mechanisms import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    Exact,
    Gaussian,
    Laplace,
    PaddedBinomial,
    PerCell,
    RandomizedResponse,
    Rounded,
    Thresholded,
    TransitionTable,
    Unmeasured,
)
from tests.laws import reference


@dataclasses.dataclass(frozen=True)
class Group:
    """`law(*parameters)` is numpyro's, `exact(*parameters of one cell)` the reference's;
    `log_eta(j)` is the noise of cell j, `near[j]` a number that its likelihood favours.
    """

    law: Callable
    exact: Callable
    parameters: tuple
    mechanism: object
    log_eta: Callable
    y: np.ndarray
    near: np.ndarray
    tolerance: float = 1e-9
    atom: np.ndarray | None = None
    slow: bool = True
    spread: tuple | None = None
    """What changes of each parameter change log probabilities by about 1, cell by cell."""

    @property
    def num_cells(self):
        return self.y.size

    def references(self):
        """The log probabilities of all cells, term by term."""
        return np.array([self.sum_of(j).log_prob() for j in range(self.num_cells)])

    def sum_of(self, j, parameters=None, y=None):
        own = [np.asarray(part)[j] for part in parameters or self.parameters]
        return reference.Sum(
            self.exact(*own),
            self.log_eta(j),
            self.y[j] if y is None else y,
            self.near[j],
            0.0 if self.atom is None else float(self.atom[j]),
        )


def array(*values):
    return np.array(values, dtype=np.float64)


def released(means, sds, places):
    """Whole numbers this many sds from the means."""
    return np.round(means + array(*places) * sds)


NOISES = {
    "discrete Laplace": (DiscreteLaplace, reference.discrete_laplace, np.sqrt(2.0)),
    "discrete Gaussian": (DiscreteGaussian, reference.discrete_gaussian, 1.0),
    "Laplace": (Laplace, reference.laplace, np.sqrt(2.0)),
    "Gaussian": (Gaussian, reference.gaussian, 1.0),
}


def noisy(law, exact, parameters, moments, noise, scales, places, **settings):
    """Additive noise of these scales, at places in sds of what is released."""
    make, log_eta, unit = NOISES[noise]
    means, sds = moments
    y = released(means, np.hypot(sds, unit * scales), places)
    if noise in ("Laplace", "Gaussian"):
        y = y + 0.25
    return Group(
        law, exact, parameters, make(scale=scales), lambda j: log_eta(scales[j]), y, y, **settings
    )


def poisson(rates, noise, scales, places, **settings):
    return noisy(
        dist.Poisson,
        reference.poisson,
        (rates,),
        (rates, np.sqrt(rates)),
        noise,
        scales,
        places,
        **settings,
    )


SMALL = array(0.3, 5.0, 50.0, 50.0, 700.0, 100.0)
SMALL_SCALES = array(0.5, 2.0, 4.0, 5.0, 20.0, 5.0)
SMALL_PLACES = (1.0, -1.0, 0.0, 3.0, -2.0, 20.0)
LARGE = array(1e9, 1e9, 1e9, 1e6, 1e6, 3e4, 50.0, 1e8)
LARGE_SCALES = array(0.5, 3.0, 1e5, 1e3, 1e5, 100.0, 1e5, 1e4)
LARGE_PLACES = (0.5, -20.0, 1.0, 20.0, -1.0, -20.0, 20.0, 4.0)

MEANS = array(40.0, 40.0, 40.0, 40.0, 2000.0, 2000.0)
SHAPES = array(0.01, 0.3, 2.0, 100.0, 0.05, 10.0)
MEAN_SCALES = array(3.0, 5.0, 5.0, 2.0, 30.0, 300.0)
WIDE_MEANS = array(1e9, 1e9, 1e8, 1e6, 1e5, 1e6)
WIDE_SHAPES = array(0.01, 100.0, 2.0, 0.3, 0.01, 1.0)
WIDE_SCALES = array(5.0, 1e5, 1e4, 1e5, 3e3, 1e5)


def of_mean(means, shapes, noise, scales, places, **settings):
    """Negative binomial laws by shape and rate; places are in sds of the noise around a number near
    the median, because laws of small shape have none of their mass at the mean.
    """
    y = np.round(means * np.minimum(1.0, shapes)) + np.round(array(*places) * scales)
    group = noisy(
        dist.GammaPoisson,
        reference.negative_binomial,
        (shapes, shapes / means),
        (means, 0.0 * means),
        noise,
        scales,
        places,
        **settings,
    )
    y = y + (0.25 if noise in ("Laplace", "Gaussian") else 0.0)
    return dataclasses.replace(group, y=y, near=y)


TRIALS = array(1, 12, 1000, 1000, 1e6, 1e9, 1e9)
CHANCES = array(0.3, 0.9, 0.02, 0.5, 1e-5, 0.3, 1.0 - 1e-6)
TRIAL_SCALES = array(0.5, 2.0, 3.0, 20.0, 4.0, 100.0, 1e4)
TRIAL_PLACES = (1.0, -1.0, 2.0, -20.0, 20.0, -20.0, 3.0)


def binomial(noise, *, of_logits):
    kinds = (
        (dist.BinomialLogits, reference.binomial_of_logits)
        if of_logits
        else (dist.BinomialProbs, reference.binomial)
    )
    sd = np.sqrt(TRIALS * CHANCES * (1.0 - CHANCES))
    second = np.log(CHANCES / (1.0 - CHANCES)) if of_logits else CHANCES
    return noisy(
        lambda n, p: kinds[0](**{"logits" if of_logits else "probs": p}, total_count=n),
        kinds[1],
        (TRIALS, second),
        (TRIALS * CHANCES, sd),
        noise,
        TRIAL_SCALES,
        TRIAL_PLACES,
        spread=(None, 0.1 / sd if of_logits else 0.1 * sd / TRIALS),
    )


def through(law, exact, parameters, mechanism, log_etas, y, near, **settings):
    """Any mechanism, with the noise of each cell."""
    return Group(
        law,
        exact,
        parameters,
        mechanism,
        lambda j: log_etas[j],
        array(*y),
        array(*near),
        **settings,
    )


NAN = np.nan
KINDS = array(0.2, 0.5, 0.05, 0.25)
ROWS = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5], [0.0, 0.5, 0.5]])
THRESHOLD_RATES = array(3.0, 40.0, 60.0, 400.0, 1e6)
THRESHOLDS = array(10.0, 50.0, 50.0, 50.0, 1.001e6)
THRESHOLD_SCALES = array(2.0, 5.0, 5.0, 20.0, 500.0)


def thresholded(kind, **settings):
    make, plain = {
        "laplace": (DiscreteLaplace, reference.discrete_laplace),
        "gaussian": (DiscreteGaussian, reference.discrete_gaussian),
    }[kind]
    y = array(NAN, NAN, 63.0, NAN, NAN)
    etas = [
        reference.absent(reference.below(scale, kind), above) if np.isnan(value) else plain(scale)
        for scale, above, value in zip(THRESHOLD_SCALES, THRESHOLDS, y, strict=True)
    ]
    near = np.where(np.isnan(y), THRESHOLDS, y)
    mechanism = Thresholded(make(scale=THRESHOLD_SCALES), above=THRESHOLDS)
    return through(
        dist.Poisson, reference.poisson, (THRESHOLD_RATES,), mechanism, etas, y, near, **settings
    )


def clamped(kind, **settings):
    """Cut to [0, 90]: at 0, at 90, and between."""
    make, plain = {
        "laplace": (DiscreteLaplace, reference.discrete_laplace),
        "gaussian": (DiscreteGaussian, reference.discrete_gaussian),
    }[kind]
    rates, scales, y = array(2.0, 40.0, 70.0, 20.0, 300.0), array(3.0, 4.0, 6.0, 9.0, 10.0), None
    y = array(0.0, 0.0, 90.0, 31.0, 90.0)

    def of(j):
        at_most = reference.below(scales[j], kind)
        if y[j] == 0.0:
            return lambda value, s: at_most(value, s)
        if y[j] == 90.0:  # P(Y >= 90 | s) = P(Y' <= s | 90), noise being symmetric
            return lambda value, s: at_most(s, reference.LONG(value))
        return plain(scales[j])

    mechanism = Clamped(make(scale=scales), low=0.0, high=90.0)
    etas = [of(j) for j in range(5)]
    return through(dist.Poisson, reference.poisson, (rates,), mechanism, etas, y, y, **settings)


def in_steps_of_five():
    rates, scale, y = array(2.0, 40.0, 300.0), 4.0, array(0.0, 55.0, 300.0)
    inner = reference.discrete_laplace(scale)

    def log_eta(value, s):
        terms = [inner(value + k, s) for k in range(-2, 3)]
        return np.logaddexp.reduce(terms)

    def log_eta_at_low(value, s):
        return reference.below(scale, "laplace")(reference.LONG(2), s)

    etas = [log_eta_at_low, log_eta, log_eta]
    mechanism = Clamped(DiscreteLaplace(scale=scale), low=0.0, step=5.0)
    return through(dist.Poisson, reference.poisson, (rates,), mechanism, etas, y, y)


def clamped_gaussian():
    """A density between the ends, a probability on them."""
    rates, scale, y = array(1.0, 30.0, 50.0), 6.0, array(0.0, 0.0, 41.5)
    at_most = reference.gaussian_at_most(scale)
    etas = [at_most, at_most, reference.gaussian(scale)]
    mechanism = Clamped(Gaussian(scale=scale), low=0.0)
    return through(dist.Poisson, reference.poisson, (rates,), mechanism, etas, y, y)


def of_many_kinds():
    rates = array(5.0, 60.0, 8.0, 30.0, 45.0)
    noise, laplace = DiscreteGaussian(scale=3.0), DiscreteLaplace(scale=2.0)
    mechanism = PerCell(
        [Thresholded(laplace, above=6.0), Exact(), Unmeasured(), noise, Rounded(base=5)],
        [0, 1, 2, 3, 4],
    )
    etas = [
        reference.absent(reference.below(2.0, "laplace"), 6.0),
        reference.exact(),
        reference.unmeasured(),
        reference.discrete_gaussian(3.0),
        reference.rounded(5, random=True),
    ]
    y = (NAN, 52.0, NAN, 37.0, 50.0)
    near = (6.0, 52.0, 8.0, 37.0, 50.0)
    return through(dist.Poisson, reference.poisson, (rates,), mechanism, etas, y, near)


def narrow():
    """Noise far narrower than the law, so that its likelihood is a step."""
    rates = array(1e6, 1e6, 1e6, 1e4)
    laplace, gaussian = (reference.below(10.0, kind) for kind in ("laplace", "gaussian"))
    etas = [
        reference.absent(laplace, 1_000_300.0),
        reference.absent(gaussian, 999_500.0),
        lambda value, s: laplace(s, reference.LONG(value)),
        lambda value, s: np.logaddexp.reduce(
            [reference.discrete_laplace(2.0)(value + k, s) for k in range(-50, 50)]
        ),
    ]
    mechanism = PerCell(
        [
            Thresholded(DiscreteLaplace(scale=10.0), above=1_000_300.0),
            Thresholded(DiscreteGaussian(scale=10.0), above=999_500.0),
            Clamped(DiscreteLaplace(scale=10.0), high=1_000_500.0),
            Clamped(DiscreteLaplace(scale=2.0), step=100.0),
        ],
        [0, 1, 2, 3],
    )
    near = (1_000_300.0, 999_500.0, 1_000_500.0, 10_100.0)
    return through(
        dist.Poisson, reference.poisson, (rates,), mechanism, etas, (NAN, NAN, *near[2:]), near
    )


def plateaus():
    shapes, means = array(0.3, 0.3, 2.0, 0.05), array(2e4, 1e4, 2e5, 3e3)
    at_most = reference.below(5.0, "laplace")
    etas = [
        reference.unmeasured(),
        lambda value, s: at_most(s, reference.LONG(value)),
        reference.rounded(1000, random=True),
        reference.rounded(1000, random=False),
    ]
    mechanism = PerCell(
        [
            Unmeasured(),
            Clamped(DiscreteLaplace(scale=5.0), high=2000.0),
            Rounded(base=1000),
            Rounded(base=1000, random=False),
        ],
        [0, 1, 2, 3],
    )
    near = (100.0, 2000.0, 45_000.0, 0.0)
    return through(
        dist.GammaPoisson,
        reference.negative_binomial,
        (shapes, shapes / means),
        mechanism,
        etas,
        (NAN, *near[1:]),
        near,
    )


def zero_inflated():
    gates, rates = array(0.9, 0.3, 0.01, 0.5), array(40.0, 3.0, 10.0, 1e5)
    scales = array(3.0, 2.0, 5.0, 300.0)
    group = poisson(rates, "discrete Laplace", scales, (0.0, 0.0, 1.0, 0.0))
    y = array(2.0, -1.0, 30.0, 9.7e4)
    return dataclasses.replace(
        group,
        law=lambda rate: dist.ZeroInflatedPoisson(gate=gates, rate=rate),
        atom=gates,
        y=y,
        near=y,
    )


def same(value, count):
    return [value] * count


GROUPS = {
    # known laws
    "Poisson, discrete Gaussian": poisson(
        SMALL, "discrete Gaussian", SMALL_SCALES, SMALL_PLACES, slow=False
    ),
    "Poisson, discrete Laplace": poisson(
        SMALL, "discrete Laplace", SMALL_SCALES, SMALL_PLACES, slow=False
    ),
    "large Poisson, discrete Gaussian": poisson(
        LARGE, "discrete Gaussian", LARGE_SCALES, LARGE_PLACES
    ),
    "large Poisson, discrete Laplace": poisson(
        LARGE, "discrete Laplace", LARGE_SCALES, LARGE_PLACES
    ),
    "Poisson, Gaussian": poisson(SMALL, "Gaussian", SMALL_SCALES, SMALL_PLACES),
    "large Poisson, Gaussian": poisson(LARGE, "Gaussian", LARGE_SCALES, LARGE_PLACES),
    "Poisson, Laplace": poisson(SMALL, "Laplace", SMALL_SCALES, SMALL_PLACES),
    "large Poisson, Laplace": poisson(LARGE, "Laplace", LARGE_SCALES, LARGE_PLACES),
    "binomial, discrete Gaussian": binomial("discrete Gaussian", of_logits=False),
    "binomial of logits, discrete Laplace": binomial("discrete Laplace", of_logits=True),
    "negative binomial, discrete Laplace": of_mean(
        MEANS, SHAPES, "discrete Laplace", MEAN_SCALES, (0.0, 5.0, -2.0, 20.0, 2.0, 1.0), slow=False
    ),
    "negative binomial, discrete Gaussian": of_mean(
        MEANS, SHAPES, "discrete Gaussian", MEAN_SCALES, (5.0, 3.0, -2.0, 20.0, 3.0, 1.0)
    ),
    "wide negative binomial, discrete Laplace": of_mean(
        WIDE_MEANS, WIDE_SHAPES, "discrete Laplace", WIDE_SCALES, (3.0, 1.0, -20.0, 1.0, 1.0, -9.0)
    ),
    "wide negative binomial, discrete Gaussian": of_mean(
        WIDE_MEANS, WIDE_SHAPES, "discrete Gaussian", WIDE_SCALES, (3.0, 1.0, -20.0, 1.0, 1.0, -9.0)
    ),
    "negative binomial by mean, discrete Gaussian": noisy(
        lambda mean, shape: dist.NegativeBinomial2(mean=mean, concentration=shape),
        reference.negative_binomial_of_mean,
        (MEANS, SHAPES),
        (MEANS, np.sqrt(MEANS)),
        "discrete Gaussian",
        MEAN_SCALES,
        (-1.0, 0.0, 1.0, 2.0, 3.0, -3.0),
    ),
    # others
    "geometric, discrete Laplace": noisy(
        lambda p: dist.GeometricProbs(probs=p),
        reference.geometric,
        (array(0.5, 0.1, 0.01, 1e-5),),
        (array(1.0, 9.0, 99.0, 1e5), array(1.0, 9.0, 99.0, 1e5)),
        "discrete Laplace",
        array(2.0, 5.0, 4.0, 1000.0),
        (0.0, 2.0, -1.2, 5.0),
    ),
    "beta-binomial, discrete Gaussian": noisy(
        lambda a, b, n: dist.BetaBinomial(a, b, total_count=n),
        reference.beta_binomial,
        (array(2.0, 0.5, 30.0, 0.1), array(3.0, 0.5, 70.0, 5.0), array(20, 100, 1000, 200)),
        (array(8.0, 50.0, 300.0, 4.0), array(4.0, 35.0, 47.0, 10.0)),
        "discrete Gaussian",
        array(2.0, 4.0, 10.0, 3.0),
        (1.0, 1.4, -10.0, 2.0),
    ),
    "zero-inflated Poisson, discrete Laplace": zero_inflated(),
    "uniform, discrete Gaussian": noisy(
        lambda: dist.DiscreteUniform(2, 61),
        lambda: reference.uniform(2, 61),
        (),
        (array(30.0, 30.0, 30.0), array(17.0, 17.0, 17.0)),
        "discrete Gaussian",
        array(3.0, 1.0, 40.0),
        (0.0, 2.0, -5.0),
    ),
    "categories, randomised response": through(
        lambda: dist.CategoricalProbs(KINDS),
        lambda: reference.categories(KINDS),
        (),
        RandomizedResponse(num_categories=4, truth_probability=0.7),
        same(reference.randomized_response(4, 0.7), 4),
        (0.0, 1.0, 2.0, 3.0),
        (0.0, 1.0, 2.0, 3.0),
        slow=False,
    ),
    "answers, randomised response": through(
        lambda p: dist.BernoulliProbs(p),
        lambda p: reference.categories([1.0 - p, p]),
        (array(0.1, 0.5, 0.9999),),
        RandomizedResponse(num_categories=2, truth_probability=0.9),
        same(reference.randomized_response(2, 0.9), 3),
        (1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
        spread=(array(0.01, 0.01, 1e-5),),
    ),
    "categories, table": through(
        lambda: dist.CategoricalProbs(KINDS),
        lambda: reference.categories(KINDS),
        (),
        TransitionTable(ROWS),
        same(reference.table(ROWS), 3),
        (0.0, 1.0, 2.0),
        (1.0, 1.0, 2.0),
    ),
    # what is done to counts
    "Poisson, thresholded discrete Laplace": thresholded("laplace", slow=False),
    "Poisson, thresholded discrete Gaussian": thresholded("gaussian"),
    "Poisson, clamped discrete Laplace": clamped("laplace"),
    "Poisson, clamped discrete Gaussian": clamped("gaussian"),
    "Poisson, rounded noise": in_steps_of_five(),
    "Poisson, clamped Gaussian": clamped_gaussian(),
    "Poisson, narrow noise at a threshold, a cut and a grid": narrow(),
    "wide negative binomial, unmeasured, cut and rounded": plateaus(),
    "Poisson of a rate far from what is released": poisson(
        array(1e9, 1e6, 1e4, 1.0),
        "discrete Laplace",
        array(2.0, 5.0, 3.0, 4.0),
        (-31_000.0, -900.0, -80.0, 400.0),
    ),
    "Poisson, exact": through(
        dist.Poisson,
        reference.poisson,
        (array(0.5, 50.0, 1e9),),
        Exact(),
        same(reference.exact(), 3),
        (3.0, 20.0, 1e9 + 2e5),
        (3.0, 20.0, 1e9 + 2e5),
    ),
    "negative binomial, rounded at random": through(
        dist.GammaPoisson,
        reference.negative_binomial,
        (array(0.05, 2.0, 10.0), array(0.01, 0.1, 1e-5)),
        Rounded(base=3),
        same(reference.rounded(3, random=True), 3),
        (0.0, 21.0, 999_999.0),
        (0.0, 21.0, 999_999.0),
    ),
    "Poisson, rounded to the nearest": through(
        dist.Poisson,
        reference.poisson,
        (array(2.0, 70.0, 1e6),),
        Rounded(base=10, random=False),
        same(reference.rounded(10, random=False), 3),
        (0.0, 50.0, 1_001_000.0),
        (0.0, 50.0, 1_001_000.0),
    ),
    "Poisson, many kinds": of_many_kinds(),
    "binomial, padded binomial": through(
        lambda p: dist.BinomialProbs(p, total_count=1000),
        lambda p: reference.binomial(1000, p),
        (array(0.2, 0.2),),
        PaddedBinomial(trials=50, padding=20.0, population=1000, num_times=2),
        same(reference.padded_binomial(50, 20.0, 1000), 2),
        (12.0, 30.0),
        (200.0, 500.0),
    ),
}
