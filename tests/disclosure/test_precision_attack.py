"""The precision attack learns nothing from a release, breaks floating-point noise, and no such
generator is reached.
"""

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.mechanisms.base import AbstractMechanism
from tests.disclosure.releases import EPSILON, PATHS

pytest.importorskip("opendp.prelude")  # whole, as its first import draws random numbers
m, q = nw.mechanisms, nw.queries


def too_precise(y):
    """The event of the precision attack: some number is not a multiple of 2^-53."""
    return np.any(y * 2.0**53 != np.round(y * 2.0**53), axis=1)


def attack(sampler, num_draws):
    return nw.audit.epsilon_lower_bound(
        jax.random.key(0), sampler, [0.0], [1.0], event=too_precise, num_draws=num_draws, alpha=1e-6
    ).epsilon


MORE = ("joint", "approximate", "histogram", "step that is no power of two")
"""Paths to samplers that others of the fast suite reach too."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in MORE else []) for name in PATHS],
)
def test_precision_attack_learns_nothing_from_a_release(name):
    query, settings = PATHS[name]
    mechanism = nw.release([0.0], query, **settings).mechanism
    query = query.on_default_grid()

    def sampler(key, s):
        return np.stack([nw.release(row, query, mechanism=mechanism).observed for row in s])

    assert attack(sampler, 400) <= EPSILON


def test_precision_attack_breaks_floating_point_noise():
    rng = np.random.default_rng(0)
    leaking = {
        "numpy": lambda key, s: s + rng.laplace(0.0, 1 / EPSILON, s.shape),
        "gaussian": lambda key, s: s + rng.normal(0.0, 1 / EPSILON, s.shape),
        "ours": m.Laplace(scale=1 / EPSILON, sensitivity=1.0),
    }
    assert all(attack(sampler, 400) > EPSILON for sampler in leaking.values())
    assert all(attack(sampler, 100_000) > 5 * EPSILON for sampler in leaking.values())


def forbid_generators(monkeypatch):
    def forbidden(*arguments, **options):
        raise AssertionError("a floating-point generator was used")

    for module in (np.random, jax.random):
        for name in [name for name in dir(module) if not name.startswith("_")]:
            if callable(getattr(module, name)) and not isinstance(getattr(module, name), type):
                monkeypatch.setattr(module, name, forbidden)
    for name in ("sample", "transport"):
        monkeypatch.setattr(AbstractMechanism, name, forbidden)


@pytest.mark.parametrize("name", PATHS)
def test_no_generator_is_reached(name, monkeypatch):
    query, settings = PATHS[name]
    forbid_generators(monkeypatch)
    with pytest.raises(AssertionError, match="generator"):
        m.Laplace(scale=1.0).sample(jax.random.PRNGKey, [0.0])
    assert np.isfinite(nw.release([1.0], query, **settings).observed).all()
