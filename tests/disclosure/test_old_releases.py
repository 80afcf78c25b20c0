"""Files of version 1, written before releases were tables: they load, are written as they were, and
give the same posterior.
"""

import functools
import json
import os
from pathlib import Path

import jax
import jaxlib
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw

m = nw.mechanisms
FIXTURES = Path(__file__).parent / "fixtures" / "schema_1"
FUSION = "--xla_cpu_use_fusion_emitters=false"
"""With level 0, how `make test` compiles."""
NAMES = ("mean", "histogram", "both")
BY_HAND = {
    "mean": (m.Laplace(scale=0.5, sensitivity=0.25), [0.37]),
    "histogram": (m.Clamped(m.DiscreteLaplace(scale=4.0, sensitivity=2.0), low=0.0), [11, 14, 17]),
    "both": (
        m.Product(
            [m.Gaussian(scale=0.5, sensitivity=0.25), m.DiscreteGaussian(4.0, 2**0.5)],
            widths=[1, 3],
        ),
        [0.37, 11, 14, 17],
    ),
}


MADE_WITH = ("0.10.2", {"avx512f", "avx512dq", "avx512vl", "fma"})
"""The version of jaxlib and what the processor knew where the posteriors were made."""


def compiled():
    """At which level XLA optimises here, and whether all else is as it was where the posteriors
    were made.
    """
    flags = set(os.environ.get("XLA_FLAGS", "").split())
    level = "level 0" if "--xla_backend_optimization_level=0" in flags else "default"
    cpu = Path("/proc/cpuinfo")
    knows = set(cpu.read_text().split()) if cpu.exists() else set()
    others = flags - {"--xla_backend_optimization_level=0"}
    plain = others == ({FUSION} if level == "level 0" else set())
    return level, plain and jaxlib.__version__ == MADE_WITH[0] and knows >= MADE_WITH[1]


def posterior(release, mechanism=None, observed=None):
    def draw(key, theta):
        return theta + 2.0 * jax.random.normal(key, (40, 1))

    model = nw.PrivateModel.from_release(
        release,
        prior=nw.Prior({"mu": dist.Normal(0, 1)}),
        simulator=nw.simulators.JaxSimulator(draw),
    )
    model = model if mechanism is None else model.with_mechanism(mechanism)
    method = nw.inference.ImportanceSampling(num_stages=0, num_final=400)
    return method.infer(jax.random.key(3), model, release if observed is None else observed)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_version_1_is_written_as_it_was(name):
    text = (FIXTURES / f"{name}.json").read_text()
    release = nw.Release.from_json(text)
    assert release.to_json() == text
    assert (release.labels, release.source, release.missing.any()) == (None, None, False)
    assert release.neighbours == nw.ReplaceOne(json.loads(text)["privacy_unit"])
    assert not release.guarantee_is_stated


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_version_1_gives_the_same_posterior(name):
    """The numbers were made by the version that wrote the files, once for each way of compiling,
    since XLA's optimisation changes how sums are rounded: 1e-15 at most, in a tenth of the numbers.
    With the compiler and the instruction set that made them they agree to the last bit.
    """
    release = nw.Release.load(FIXTURES / f"{name}.json")
    found = posterior(release)
    level, same = compiled()
    expected = json.loads((FIXTURES / f"{name}_posterior.json").read_text())[level]
    equal = (
        np.testing.assert_array_equal
        if same
        else functools.partial(np.testing.assert_allclose, rtol=1e-12)
    )
    equal(found.sample(jax.random.key(5), 50)[:, 0], expected["draws"])
    equal(found.log_weights[:50], expected["log_weights"])
    by_hand = posterior(release, *BY_HAND[name])
    np.testing.assert_array_equal(found.log_weights, by_hand.log_weights)
    np.testing.assert_array_equal(found.theta, by_hand.theta)
