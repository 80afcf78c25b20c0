"""Files of version 1, written before releases were tables: they load, are written as they were, and
give the same posterior.
"""

import json
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw

m = nw.mechanisms
FIXTURES = Path(__file__).parent / "fixtures" / "schema_1"
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
    """The numbers were made by the version that wrote the files; on the machine where they were
    made they agree to the last bit, elsewhere to the rounding of another instruction set.
    """
    release = nw.Release.load(FIXTURES / f"{name}.json")
    found = posterior(release)
    expected = json.loads((FIXTURES / f"{name}_posterior.json").read_text())
    np.testing.assert_allclose(
        found.sample(jax.random.key(5), 50)[:, 0], expected["draws"], rtol=1e-12
    )
    np.testing.assert_allclose(found.log_weights[:50], expected["log_weights"], rtol=1e-12)
    by_hand = posterior(release, *BY_HAND[name])
    np.testing.assert_array_equal(found.log_weights, by_hand.log_weights)
    np.testing.assert_array_equal(found.theta, by_hand.theta)
