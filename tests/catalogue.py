"""The catalogue of mechanisms: every full one, at several widths and epsilons, with asymmetrical
statistics.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from noisewise.mechanisms import (
    AbstractMechanism,
    Clamped,
    Crosswise,
    DirectQuestion,
    DiscreteGaussian,
    DiscreteLaplace,
    EuclideanLaplace,
    Exact,
    ExponentialMechanism,
    ForcedResponse,
    Gaussian,
    Laplace,
    PaddedBinomial,
    PerCell,
    Product,
    RandomizedResponse,
    Rounded,
    StochasticLieDetector,
    Thresholded,
    TransitionTable,
    Triangular,
    Unmeasured,
    UnrelatedQuestion,
    Warner,
)


def around(s: np.ndarray, width: float, step: float | None = None) -> Callable:
    """Statistics spread around s, on the lattice if there is one."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        values = s + width * rng.standard_t(2, size=(n, s.size))
        return values if step is None else step * np.round(values / step)

    return draw


@dataclasses.dataclass(frozen=True)
class Case:
    """A mechanism with a statistic for it.

    `statistics(rng, n)` draws other statistics; `settings` are what `calibrate` takes besides the
    guarantee; `best(s_dp)` is a statistic at which `log_prob_bound` is attained, to a relative
    error of 1e-12; `continuous` says that s is, so that gradients exist.
    """

    mechanism: AbstractMechanism
    s: np.ndarray
    statistics: Callable
    settings: dict | None = None
    best: Callable | None = None
    continuous: bool = True

    @property
    def k(self) -> int:
        return self.s.size

    @property
    def output_width(self) -> int:
        return self.mechanism.output_width(self.k)


def additive(mechanism: AbstractMechanism, s: list[float], **settings: float) -> Case:
    s = np.asarray(s)
    width = 3.0 * mechanism.scale
    step = getattr(mechanism, "step", None)
    settings = {"sensitivity": mechanism.sensitivity, **settings}
    return Case(
        mechanism,
        s,
        around(s, width, step),
        settings if np.ndim(mechanism.scale) == 0 else None,  # calibrate gives one scale
        best=lambda y: y,
        continuous=step is None,
    )


def padded(trials: int, padding: float, population: int, s: list[float]) -> Case:
    mechanism = PaddedBinomial(
        trials=trials, padding=padding, population=population, num_times=len(s)
    )
    settings = {"trials": trials, "population": population, "num_times": len(s)}

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.floor((population + 1) * rng.uniform(size=(n, len(s))) ** 3)

    def best(s_dp: np.ndarray) -> np.ndarray:
        return np.clip(s_dp / trials * (population + 2 * padding) - padding, 0, population)

    return Case(mechanism, np.asarray(s), draw, settings, best)


def response(mechanism: RandomizedResponse, s: list[float]) -> Case:
    settings = {"num_categories": mechanism.num_categories, "sensitivity": mechanism.sensitivity}

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.integers(mechanism.num_categories, size=(n, len(s))).astype(float)

    return Case(mechanism, np.asarray(s), draw, settings, best=lambda y: y, continuous=False)


def exponential(mechanism: ExponentialMechanism, s: list[float]) -> Case:
    candidates = np.asarray(mechanism.candidates)
    settings = {"candidates": mechanism.candidates, "sensitivity": mechanism.sensitivity}
    best = lambda y: 60.0 * mechanism.scale * (candidates == y)
    return Case(mechanism, np.asarray(s), around(np.asarray(s), 2.0), settings, best)


def wrapped(
    mechanism: AbstractMechanism,
    s: list[float],
    *,
    step: float | None = None,
    best: Callable | None = None,
) -> Case:
    return Case(
        mechanism,
        np.asarray(s),
        around(np.asarray(s), 3.0, step),
        best=best,
        continuous=step is None,
    )


def far_from(low: float, high: float) -> Callable:
    """Statistics that push all mass onto the end s_dp lies on, or s_dp itself between the ends."""
    return lambda y: np.where(y <= low, y - 1e4, np.where(y >= high, y + 1e4, y))


def or_absent(best: Callable) -> Callable:
    """Statistics far below the threshold where s_dp is absent, else those of the inner mechanism."""
    return lambda y: np.where(np.isnan(y), -1e6, best(np.nan_to_num(y)))


def counts(mechanism: AbstractMechanism, s: list[float], best: Callable | None) -> Case:
    """Counts around s."""
    return Case(
        mechanism, np.asarray(s), around(np.asarray(s), 3.0, 1.0), best=best, continuous=False
    )


def table(mechanism: TransitionTable, s: list[float]) -> Case:
    inputs, outputs = np.array(mechanism.inputs), np.array(mechanism.outputs)

    def best(y: np.ndarray) -> np.ndarray:
        return inputs[mechanism.table.argmax(axis=0)[np.searchsorted(outputs, y)]]

    return Case(
        mechanism,
        np.asarray(s),
        lambda rng, n: rng.choice(inputs, (n, len(s))),
        best=best,
        continuous=False,
    )


def survey(mechanism: AbstractMechanism, s: list[float]) -> Case:
    """Answers 0 or 1; which of them is the better for an answer depends on the sign of the slope."""
    no, yes = mechanism._yes()

    def best(y: np.ndarray) -> np.ndarray:
        return np.where(np.greater_equal(yes, no), y, 1.0 - y)

    return Case(
        mechanism,
        np.asarray(s),
        lambda rng, n: rng.integers(2, size=(n, len(s))).astype(float),
        best=best,
        continuous=False,
    )


def blocks_best(y: np.ndarray) -> np.ndarray:
    """For the mixed Product below: its clamped column, its candidate, its two counts."""
    utilities = 60.0 * (np.array([1.0, 0.0]) == y[1])
    counts = np.clip(y[2:] / 30 * 108 - 4, 0, 100)
    return np.concatenate([far_from(0.0, math.inf)(y[:1]), utilities, counts])


def blocks_statistics(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.concatenate([rng.normal(size=(n, 3)), rng.integers(101, size=(n, 2))], axis=-1)


MECHANISMS = {
    "Laplace": additive(Laplace(scale=0.5, sensitivity=1.0), [0.3]),
    "Laplace wide": additive(Laplace(scale=70.0, sensitivity=7.0), [-1000.0]),
    "Laplace by column": additive(
        Laplace(scale=[2.0, 0.3, 15.0], sensitivity=[0.2, 0.5, 3.0]), [1.0, -4.0, 30.0]
    ),
    "Laplace k=3": additive(Laplace(scale=2.0, sensitivity=0.2), [1.0, -4.0, 30.0]),
    "Gaussian": additive(Gaussian(scale=0.5, sensitivity=1.0), [0.3]),
    "Gaussian wide": additive(Gaussian(scale=70.0, sensitivity=7.0), [-1000.0]),
    "Gaussian by column": additive(
        Gaussian(scale=[2.0, 0.3, 15.0], sensitivity=[0.2, 0.5, 3.0]), [1.0, -4.0, 30.0]
    ),
    "Gaussian k=3": additive(Gaussian(scale=2.0, sensitivity=0.2), [1.0, -4.0, 30.0]),
    "DiscreteLaplace": additive(DiscreteLaplace(scale=1.7, sensitivity=1.0), [5.0]),
    "DiscreteLaplace narrow": additive(DiscreteLaplace(scale=0.2, sensitivity=2.0), [-3.0]),
    "DiscreteLaplace step": additive(
        DiscreteLaplace(scale=3.0, sensitivity=0.1, step=0.1), [0.7], step=0.1
    ),
    "DiscreteLaplace by column": additive(
        DiscreteLaplace(scale=[0.4, 9.0, 3.0], sensitivity=2.0), [-3.0, 0.0, 7.0]
    ),
    "DiscreteLaplace k=3": additive(
        DiscreteLaplace(scale=4.0, sensitivity=2.0, step=0.5), [-1.5, 0.0, 7.0], step=0.5
    ),
    "DiscreteGaussian": additive(DiscreteGaussian(scale=3.0, sensitivity=1.0), [5.0]),
    "DiscreteGaussian narrow": additive(DiscreteGaussian(scale=0.4, sensitivity=2.0), [-3.0]),
    "DiscreteGaussian step": additive(
        DiscreteGaussian(scale=4.0, sensitivity=0.1, step=0.1), [0.7], step=0.1
    ),
    "DiscreteGaussian by column": additive(
        DiscreteGaussian(scale=[0.4, 9.0, 3.0], sensitivity=[1.0, 2.0, 1.0]), [-3.0, 0.0, 7.0]
    ),
    "DiscreteGaussian k=3": additive(
        DiscreteGaussian(scale=5.0, sensitivity=2.0, step=0.5), [-1.5, 0.0, 7.0], step=0.5
    ),
    "EuclideanLaplace": additive(EuclideanLaplace(scale=0.5, sensitivity=1.0), [0.3]),
    "EuclideanLaplace k=2": additive(EuclideanLaplace(scale=2.0, sensitivity=1.0), [1.0, -2.0]),
    "EuclideanLaplace k=3": additive(
        EuclideanLaplace(scale=2.0, sensitivity=0.2), [1.0, -4.0, 30.0]
    ),
    "PaddedBinomial": padded(30, 4.0, 100, [20.0]),
    "PaddedBinomial paper": padded(1000, 1000.0, 1_000_000, [12_345.0]),
    "PaddedBinomial k=3": padded(1000, 10_000.0, 1_000_000, [0.0, 12_345.0, 999_999.0]),
    "RandomizedResponse": response(
        RandomizedResponse(num_categories=2, truth_probability=0.8), [1.0]
    ),
    "RandomizedResponse k=3": response(RandomizedResponse(5, 0.6, sensitivity=2), [4.0, 0.0, 2.0]),
    "ExponentialMechanism": exponential(
        ExponentialMechanism((3.0, -1.0, 2.0, 8.0, 5.0), 0.5), [0.0, 1.0, 0.3, -0.5, 0.9]
    ),
    "ExponentialMechanism wide": exponential(
        ExponentialMechanism((3.0, -1.0, 2.0, 8.0, 5.0), 20.0, sensitivity=0.5),
        [0.0, 1.0, 0.3, -0.5, 0.9],
    ),
    "Clamped Laplace": wrapped(
        Clamped(Laplace(scale=2.0, sensitivity=1.0), low=0.0, high=4.0),
        [1.2],
        best=far_from(0.0, 4.0),
    ),
    "Clamped Laplace k=3": wrapped(
        Clamped(Laplace(scale=2.0, sensitivity=1.0), low=0.0, high=4.0),
        [1.2, -3.0, 3.9],
        best=far_from(0.0, 4.0),
    ),
    "Clamped by column": wrapped(
        Clamped(Laplace(scale=[2.0, 0.5, 7.0], sensitivity=1.0), low=0.0, high=4.0),
        [1.2, -3.0, 3.9],
        best=far_from(0.0, 4.0),
    ),
    "Clamped non-negative": wrapped(
        Clamped(Gaussian(scale=2.0, sensitivity=1.0), low=0.0), [1.2], best=far_from(0.0, math.inf)
    ),
    "Clamped rounded": wrapped(
        Clamped(Gaussian(scale=2.0, sensitivity=1.0), low=-1.5, high=4.0, step=0.5), [1.2]
    ),
    "Clamped DiscreteLaplace": wrapped(
        Clamped(DiscreteLaplace(scale=3.0, sensitivity=1.0), low=0.0, high=10.0),
        [4.0],
        step=1.0,
        best=far_from(0.0, 10.0),
    ),
    "Clamped coarse even": wrapped(
        Clamped(DiscreteLaplace(scale=3.0, sensitivity=1.0), low=-4.0, step=4.0), [5.0], step=1.0
    ),
    "Clamped coarse odd": wrapped(
        Clamped(DiscreteLaplace(scale=3.0, sensitivity=1.0), low=-6.0, step=3.0), [5.0], step=1.0
    ),
    "Clamped categories": dataclasses.replace(
        response(RandomizedResponse(5, 0.4), [4.0]),
        mechanism=Clamped(RandomizedResponse(5, 0.4), low=1.0, high=7.0),
        settings=None,
        best=None,
    ),
    "Exact": counts(Exact(), [7.0], best=lambda y: y),
    "Exact k=3": counts(Exact(), [7.0, -2.0, 0.5], best=lambda y: y),
    "Thresholded Laplace": wrapped(
        Thresholded(Laplace(scale=2.0, sensitivity=1.0), above=1.0),
        [1.2],
        best=or_absent(lambda y: y),
    ),
    "Thresholded Laplace k=3": wrapped(
        Thresholded(Laplace(scale=[2.0, 0.5, 7.0], sensitivity=1.0), above=[1.0, -2.5, 0.0]),
        [1.2, -3.0, 3.9],
        best=or_absent(lambda y: y),
    ),
    "Thresholded DiscreteLaplace": wrapped(
        Thresholded(DiscreteLaplace(scale=3.0, sensitivity=1.0), above=4.5),
        [4.0],
        step=1.0,
        best=or_absent(lambda y: y),
    ),
    "Thresholded DiscreteGaussian step": wrapped(
        Thresholded(DiscreteGaussian(scale=0.4, sensitivity=1.0, step=0.1), above=0.3),
        [0.7],
        step=0.1,
        best=or_absent(lambda y: y),
    ),
    "Thresholded Clamped": wrapped(
        Thresholded(Clamped(Gaussian(scale=2.0, sensitivity=1.0), low=0.0, high=4.0), above=0.7),
        [1.2],
        best=or_absent(far_from(-math.inf, 4.0)),
    ),
    "Thresholded Clamped end": wrapped(
        Thresholded(Clamped(Laplace(scale=2.0, sensitivity=1.0), low=0.0, high=4.0), above=4.0),
        [3.0],
        best=or_absent(far_from(-math.inf, 4.0)),
    ),
    "Thresholded Clamped lattice": wrapped(
        Thresholded(
            Clamped(DiscreteLaplace(scale=3.0, sensitivity=1.0), low=0.0, high=10.0), above=6.0
        ),
        [4.0],
        step=1.0,
        best=or_absent(far_from(-math.inf, 10.0)),
    ),
    "Thresholded Rounded": counts(Thresholded(Rounded(base=3), above=6.0), [5.0], None),
    "Thresholded TransitionTable": dataclasses.replace(
        table(TransitionTable([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]]), [1.0]),
        mechanism=Thresholded(TransitionTable([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]]), above=1.0),
        best=None,
    ),
    "Rounded": counts(Rounded(base=3), [4.0], best=lambda y: y),
    "Rounded k=3": counts(Rounded(base=5), [4.0, -3.0, 10.0], best=lambda y: y),
    "Rounded nearest": counts(Rounded(base=10, random=False), [15.0], best=lambda y: y),
    "TransitionTable": table(
        TransitionTable([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], outputs=(-1.0, 0.5, 4.0), local=True),
        [1.0],
    ),
    "TransitionTable k=3": table(
        TransitionTable([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]], inputs=(2.0, 5.0)), [2.0, 5.0, 5.0]
    ),
    "Warner": survey(Warner(p=0.3), [1.0]),
    "ForcedResponse": survey(ForcedResponse(truth=0.6, yes=0.1), [1.0]),
    "ForcedResponse by column": survey(
        ForcedResponse(truth=[0.6, 0.75, 0.5], yes=[0.1, 0.2, 0.25], sensitivity=2), [1.0, 0.0, 1.0]
    ),
    "UnrelatedQuestion": survey(UnrelatedQuestion(p=0.7, prevalence=0.4), [0.0]),
    "Crosswise by column": survey(Crosswise(p=[0.2, 0.3, 0.85]), [1.0, 1.0, 0.0]),
    "Triangular": survey(Triangular(p=0.4), [0.0]),
    "DirectQuestion": survey(DirectQuestion(), [1.0]),
    "StochasticLieDetector": survey(StochasticLieDetector(truth=0.6, p=0.8), [1.0]),
    "Product of cells": Case(
        Product(
            [
                Thresholded(DiscreteLaplace(scale=3.0, sensitivity=1.0), above=2.0),
                Exact(),
                Rounded(base=3),
                Clamped(DiscreteGaussian(scale=[2.0, 5.0], sensitivity=1.0), low=0.0),
            ]
        ),
        np.array([3.0, 2.0, 4.0, 1.0, 6.0]),
        around(np.array([3.0, 2.0, 4.0, 1.0, 6.0]), 3.0, 1.0),
        continuous=False,
    ),
    "PerCell": Case(
        PerCell(
            [
                Thresholded(DiscreteLaplace(scale=3.0, sensitivity=1.0), above=[2.0, 5.0]),
                Rounded(base=3),
                DiscreteGaussian(scale=[2.0, 5.0], sensitivity=1.0),
            ],
            [2, 0, 1, 2, 0],
        ),
        np.array([3.0, 2.0, 4.0, 1.0, 6.0]),
        around(np.array([3.0, 2.0, 4.0, 1.0, 6.0]), 3.0, 1.0),
        continuous=False,
    ),
    "PerCell of private cells": wrapped(
        PerCell(
            [Laplace(scale=[2.0, 0.5], sensitivity=1.0), Gaussian(scale=1.0, sensitivity=0.5)],
            [0, 1, 0],
        ),
        [0.5, -1.0, 2.0],
        best=lambda y: y,
    ),
    "PerCell unmeasured": counts(
        PerCell([DiscreteLaplace(scale=3.0, sensitivity=1.0), Unmeasured()], [1, 0]),
        [4.0, 7.0],
        best=np.nan_to_num,
    ),
    "Unmeasured": wrapped(Unmeasured(), [1.2], best=np.nan_to_num),
    "Product": wrapped(
        Product(
            [Gaussian(scale=1.0, sensitivity=0.5), Laplace(scale=3.0, sensitivity=1.0)],
            widths=[1, 2],
        ),
        [0.5, -1.0, 2.0],
        best=lambda y: y,
    ),
    "Product mixed": Case(
        Product(
            [
                Clamped(Laplace(scale=2.0, sensitivity=1.0), low=0.0),
                ExponentialMechanism((1.0, 0.0), scale=1.0),
                PaddedBinomial(trials=30, padding=4.0, population=100, num_times=2),
            ]
        ),
        np.array([0.7, 0.2, 0.5, 20.0, 90.0]),
        blocks_statistics,
        best=blocks_best,
    ),
}
