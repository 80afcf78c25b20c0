"""More laws and mechanisms for the catalogue: every law through a mechanism of another kind."""

import numpy as np
import numpyro.distributions as dist

from noisewise.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exact,
    Laplace,
    Product,
    Rounded,
    Thresholded,
)
from tests.laws import reference
from tests.laws.catalogue import (
    CHANCES,
    GROUPS,
    KINDS,
    MEAN_SCALES,
    MEANS,
    NAN,
    SHAPES,
    TRIAL_PLACES,
    TRIAL_SCALES,
    TRIALS,
    array,
    noisy,
    of_mean,
    same,
    through,
)

SD = np.sqrt(TRIALS * CHANCES * (1.0 - CHANCES))
FAR = array(2.0, 50.0, -40.0)
"""Places in sds of the noise around 40, far in both tails of everything."""


def binomial_of(noise):
    return noisy(
        lambda n, p: dist.BinomialProbs(p, total_count=n),
        reference.binomial,
        (TRIALS, CHANCES),
        (TRIALS * CHANCES, SD),
        noise,
        TRIAL_SCALES,
        TRIAL_PLACES,
        spread=(None, 0.1 * SD / TRIALS),
    )


def product():
    """Blocks of columns with noise of their own."""
    mechanism = Product(
        [DiscreteLaplace(scale=2.0), Exact(), DiscreteGaussian(scale=5.0)], widths=[2, 1, 1]
    )
    laplace = reference.discrete_laplace(2.0)
    etas = [laplace, laplace, reference.exact(), reference.discrete_gaussian(5.0)]
    y = (12.0, 44.0, 8.0, 120.0)
    rates = array(10.0, 60.0, 11.0, 90.0)
    return through(dist.Poisson, reference.poisson, (rates,), mechanism, etas, y, y)


def suppressed():
    """Negative binomial counts below and above a threshold."""
    scale, y = 3.0, (NAN, 52.0, NAN, NAN)
    below = reference.absent(reference.below(scale, "laplace"), 10.0)
    etas = [below, reference.discrete_laplace(scale), below, below]
    shapes, means = array(0.5, 2.0, 30.0, 0.05), array(4.0, 60.0, 40.0, 1e5)
    mechanism = Thresholded(DiscreteLaplace(scale=scale), above=10.0)
    near = (5.0, 52.0, 9.0, 5.0)
    parameters = (shapes, shapes / means)
    exact = reference.negative_binomial
    return through(dist.GammaPoisson, exact, parameters, mechanism, etas, y, near)


def few(law, exact, scales=(2.0, 0.5, 30.0)):
    """A law of few numbers through Laplace noise, far away too."""
    scales = array(*scales)
    etas = [reference.laplace(scale) for scale in scales]
    y = 1.25 + FAR * scales
    return through(law, exact, (), Laplace(scale=scales), etas, y, y)


def inflated_negative_binomial():
    gates, shapes, means = array(0.7, 0.05, 0.5), array(0.5, 2.0, 30.0), array(40.0, 9.0, 1e4)
    group = through(
        lambda shape, rate: dist.ZeroInflatedDistribution(
            dist.GammaPoisson(shape, rate), gate=gates
        ),
        reference.negative_binomial,
        (shapes, shapes / means),
        DiscreteGaussian(scale=array(3.0, 2.0, 200.0)),
        [reference.discrete_gaussian(scale) for scale in (3.0, 2.0, 200.0)],
        (2.0, 4.0, 9_800.0),
        (2.0, 4.0, 9_800.0),
        atom=gates,
    )
    return group


FURTHER = {
    "binomial, discrete Laplace": binomial_of("discrete Laplace"),
    "binomial, Gaussian": binomial_of("Gaussian"),
    "negative binomial, Gaussian": of_mean(
        MEANS, SHAPES, "Gaussian", MEAN_SCALES, (0.0, 5.0, -2.0, 20.0, 2.0, 1.0)
    ),
    "negative binomial, Laplace": of_mean(
        MEANS, SHAPES, "Laplace", MEAN_SCALES, (0.0, 5.0, -2.0, 20.0, 2.0, 1.0)
    ),
    "negative binomial by mean, nearly Poisson": noisy(
        lambda mean, shape: dist.NegativeBinomial2(mean=mean, concentration=shape),
        reference.negative_binomial_of_mean,
        (array(40.0, 1e6, 3.0), array(1e8, 1e12, 1e5)),
        (array(40.0, 1e6, 3.0), np.sqrt(array(40.0, 1e6, 3.0))),
        "discrete Laplace",
        array(3.0, 500.0, 1.0),
        (2.0, -20.0, 1.0),
    ),
    "negative binomial, thresholded discrete Laplace": suppressed(),
    "zero-inflated negative binomial, discrete Gaussian": inflated_negative_binomial(),
    "wide geometric, discrete Gaussian": noisy(
        lambda p: dist.GeometricProbs(probs=p),
        reference.geometric,
        (array(0.3, 1e-3, 1e-6),),
        (array(2.3, 1e3, 1e6), array(2.8, 1e3, 1e6)),
        "discrete Gaussian",
        array(40.0, 10.0, 1e5),
        (20.0, 3.0, 1.0),
    ),
    "beta-binomial, discrete Laplace": noisy(
        lambda a, b, n: dist.BetaBinomial(a, b, total_count=n),
        reference.beta_binomial,
        (array(2.0, 0.3, 0.1), array(3.0, 0.3, 50.0), array(2000, 100_000, 1_000_000)),
        (array(800.0, 5e4, 2e3), array(400.0, 4e4, 6e3)),
        "discrete Laplace",
        array(5.0, 50.0, 20.0),
        (1.0, 1.1, 3.0),
    ),
    "beta-binomial, rounded at random": through(
        lambda a, b: dist.BetaBinomial(a, b, total_count=500),
        lambda a, b: reference.beta_binomial(a, b, 500),
        (array(0.5, 8.0), array(2.0, 3.0)),
        Rounded(base=5),
        same(reference.rounded(5, random=True), 2),
        (0.0, 370.0),
        (0.0, 370.0),
    ),
    "Bernoulli of logits, Laplace": few(
        lambda: dist.BernoulliLogits(-1.5),
        lambda: reference.binomial_of_logits(1, -1.5),
    ),
    "categories, Laplace": few(
        lambda: dist.CategoricalProbs(KINDS), lambda: reference.categories(KINDS)
    ),
    "Poisson, blocks of columns": product(),
}
EVERYTHING = {**GROUPS, **FURTHER}
