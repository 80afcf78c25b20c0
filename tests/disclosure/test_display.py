"""Releases as text, to the precision of their noise."""

import dataclasses
import itertools
import math

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.disclosure import display
from tests.disclosure.releases import LAPLACE

pytest.importorskip("opendp")
m, q = nw.mechanisms, nw.queries


def test_a_release_reads_well():
    query = q.ClampedMean(bounds=(0.0, 100.0), num_records=8, grid=1.0)
    published = nw.release([50.0] * 8, query, nw.ApproximateDP(0.5, 1e-6), description="mean age")
    published = dataclasses.replace(published, values=(51.25,))
    text = str(published)
    sd = published.mechanism.scale
    assert text.splitlines()[:3] == [
        "Release: mean age  (value ± standard deviation of the noise)",
        f"  mean        51 ± {sd:.0f}",
        "  mechanism   DiscreteGaussian",
    ]
    assert f"{published.guarantee!r}, requested as {published.requested!r}" in text
    assert "replace-one, one person" in text
    assert text.endswith("records     8")
    assert repr(published) == text


def test_a_wide_release_is_abbreviated():
    candidates = tuple(float(c) for c in range(500))
    chosen = nw.Release([250.0], m.ExponentialMechanism(candidates, 1.0))
    assert "250" in str(chosen)
    assert "±" not in str(chosen)
    assert len(str(chosen)) < 250
    wide = nw.Release(np.arange(1000.0), LAPLACE, names=[f"{j}" + "x" * 500 for j in range(1000)])
    assert "and 994 more" in str(wide)
    assert len(str(wide)) < 1000
    many = nw.Release.combine(chosen, wide, *(nw.Release([j], LAPLACE) for j in range(200)))
    assert "ExponentialMechanism (1), 201 x Laplace (1,200)" in str(many)
    assert len(str(many)) < 1000


def test_mixed_mechanisms_are_counted_by_kind():
    """In a line, also where they take turns; the words of reports are as short."""
    laws = [m.Thresholded(m.DiscreteLaplace(1.0 + j), above=3.0) for j in range(12)]
    noise = m.PerCell([*laws, m.Unmeasured()], [j % 13 for j in range(130)])
    table = nw.Release([None] * 130, noise)
    assert "mechanism   12 x Thresholded (120), Unmeasured (10)\n" in str(table)
    total = nw.Release([7.0], m.Exact())
    both = nw.Release.combine(table, total, nw.Release([8.0], m.Exact(), names=["other"]))
    assert "12 x Thresholded (120), Unmeasured (10), Exact (2)" in str(both)
    assert "no privacy claimed" in str(both)
    words = noise.describe()
    assert words.count("discrete Laplace") == 8
    assert words.endswith("; and 5 more laws")
    assert (
        "the number as it is, without noise (2 of the numbers)"
        in nw.Release.combine(
            total, nw.Release([8.0], m.Exact(), names=["other"])
        ).mechanism.describe()
    )


def test_numbers_are_shown_to_the_precision_of_the_noise():
    shown = {
        0.0123: "3.142 ± 0.012", 12.3: "3 ± 12", 1.23: "3.1 ± 1.2", 1e-20: "3.141592654 ± 1e-20", 3e5: "3 ± 300000",
    }  # fmt: skip
    for sd, expected in shown.items():
        assert display._number(math.pi, sd) == expected
    assert display._number(math.pi, None) == "3.141592654"


NOISE = {
    "laplace": m.Laplace(0.7),
    "gaussian": m.Gaussian(0.7),
    "discrete laplace": m.DiscreteLaplace(0.7, step=0.5),
    "fine discrete laplace": m.DiscreteLaplace(0.7, step=0.01),
    "discrete gaussian": m.DiscreteGaussian(0.3, step=0.5),
    "fine discrete gaussian": m.DiscreteGaussian(0.7, step=0.01),
    "euclidean": m.EuclideanLaplace(0.7),
}


@pytest.mark.parametrize("name", NOISE)
def test_the_standard_deviation_shown_is_that_of_the_noise(name):
    """Within 6 standard errors; those of Laplace noise, of kurtosis 6, are sqrt(5 / 4 / draws) of
    the value.
    """
    draws = NOISE[name].sample(jax.random.key(4), np.zeros((40_000, 2)))
    found, stated = draws.std(axis=0), np.array(NOISE[name].noise_sd(2))
    error = 6 * math.sqrt(5 / 4 / 40_000)
    assert np.all(np.abs(found / stated - 1.0) < error)
    assert not np.all(np.abs(found / (stated * 1.1) - 1.0) < error)


def test_blocks_have_their_own_noise():
    product = m.Product(
        [m.Gaussian(2.0), m.ExponentialMechanism((1.0, 2.0), 1.0), m.EuclideanLaplace(1.0)],
        [2, 2, 3],
    )
    assert product.noise_sd(6) == [2.0, 2.0, None, 2.0, 2.0, 2.0]


EXTREMES = (5e-324, 1e-308, 1e-200, 1e-5, 1.0, 1e10, 1e200, 1e308)


@pytest.mark.parametrize(
    "kind", [m.Laplace, m.Gaussian, m.DiscreteLaplace, m.DiscreteGaussian, m.EuclideanLaplace]
)
def test_any_release_that_can_be_made_or_loaded_can_be_shown(kind):
    """Also with a step of 1e308, which has a noise whose variance float64 does not know."""
    shown = 0
    for scale, step, value in itertools.product(EXTREMES, EXTREMES, (0.0, 1.0, 7e300)):
        more = {"step": step} if "step" in kind.__dataclass_fields__ else {}
        try:
            made = nw.Release([value * step if more else value], kind(scale, 1.0, **more))
            loaded = nw.Release.from_json(made.to_json())
        except nw.errors.NoisewiseError:
            continue
        assert "mechanism" in repr(loaded)
        assert len(repr(loaded)) < 600
        shown += 1
    assert shown > 20
