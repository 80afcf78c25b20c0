"""Whole runs of `nw.release` with a threshold, where records are added or removed: a black box finds
no more loss than is claimed, and finds what was planted.
"""

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.mechanisms.thresholded import Thresholded

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries

RELEASES = 4_000
"""For each of two databases; each takes 6 ms."""
ONE = nw.AddRemoveOne()
THREE = nw.AddRemoveOne(max_contributions=3)
BINS = q.Histogram(edges=(0.0, 1.0, 2.0))
CLAIMED = 1.0
CLAIM = nw.PureDP(CLAIMED)


def noise(relation, kind=m.DiscreteLaplace, above=1.0, guarantee=CLAIM):
    sensitivity = BINS.sensitivity(kind.norm, relation)
    made = kind.calibrate(sensitivity=sensitivity, guarantee=guarantee, neighbours=relation)
    return m.Thresholded(made, above=above)


PAIRS = {
    "nobody or one": ([0.5], [], ONE, 1.0),
    "one more of three": ([0.5, 1.5, 1.5], [1.5, 0.5], ONE, 2.0),
    "all three of a unit": ([0.5] * 3 + [1.5], [1.5], THREE, 3.0),
}


def bound_of(first, second, mechanism, delta=0.0):
    """The bound for two databases, by releases of their own."""
    databases = {tuple(BINS(data).tolist()): data for data in (first, second)}

    def sampler(_, s):
        rows = np.asarray(s).tolist()
        return np.array(
            [nw.release(databases[tuple(row)], BINS, mechanism=mechanism).observed for row in rows]
        )

    pair = BINS(first), BINS(second)
    return nw.audit.epsilon_lower_bound(
        jax.random.key(0), sampler, *pair, num_draws=RELEASES, delta=delta
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_releases_lose_no_more_than_they_claim(name):
    first, second, relation, above = PAIRS[name]
    mechanism = noise(relation, above=above)
    assert mechanism.guarantee == nw.PureDP(CLAIMED, neighbours=relation)
    bound = bound_of(first, second, mechanism)
    assert not bound.refutes(CLAIMED)
    assert bound.epsilon > 0.5 * CLAIMED  # the pair is the worst one, and is seen


@pytest.mark.slow
def test_gaussian_noise_below_a_threshold_too():
    """By its (epsilon, delta), at the epsilon of the claim."""
    first, second, relation, above = PAIRS["all three of a unit"]
    guarantee = nw.ZeroConcentratedDP(0.1)
    mechanism = noise(relation, m.DiscreteGaussian, above, guarantee)
    delta = 1e-3
    claimed = mechanism.guarantee.to(nw.ApproximateDP, delta=delta).epsilon
    assert not bound_of(first, second, mechanism, delta).refutes(claimed)


@pytest.mark.slow
def test_noise_for_one_record_is_refuted_by_a_unit_of_three():
    """Planted: the claim is about one record of a unit that has three."""
    first, second, _, above = PAIRS["all three of a unit"]
    assert bound_of(first, second, noise(ONE, above=above)).refutes(CLAIMED)


@pytest.mark.slow
def test_a_threshold_on_the_confidential_number_is_refuted(monkeypatch):
    """Planted: what is published is decided by the count, not by the noisy count."""

    def exact_sampler(self, exact, step):
        draw = self.mechanism.exact_sampler(exact, step)
        return lambda integers: [
            max(value, self.above) if integer >= self.above else float("nan")
            for value, integer in zip(draw(integers), integers, strict=True)
        ]

    first, second, relation, above = PAIRS["nobody or one"]
    monkeypatch.setattr(Thresholded, "exact_sampler", exact_sampler)
    assert bound_of(first, second, noise(relation, m.DiscreteLaplace, above)).refutes(CLAIMED)
