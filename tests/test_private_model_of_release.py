"""PrivateModel and releases: what a release brings, observations, and those that do not fit the
model.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.simulators import JaxSimulator
from tests.mean_model import KEY, MEAN, PRIOR, THETA, draw, model

M, Q = nw.mechanisms, nw.queries

GRIDDED = Q.ClampedMean(bounds=(-5.0, 5.0), num_records=50, grid=0.5)
NOISE = M.DiscreteLaplace(scale=0.2, sensitivity=0.2, step=0.01)
RELEASE = nw.Release([0.31], NOISE, query=GRIDDED)
FROM_RELEASE = nw.PrivateModel.from_release(RELEASE, prior=PRIOR, simulator=JaxSimulator(draw))


def test_a_release_brings_its_query_and_mechanism(tmp_path):
    RELEASE.save(tmp_path / "release.json")
    loaded = nw.Release.load(tmp_path / "release.json")
    made = nw.PrivateModel.from_release(
        loaded,
        prior=PRIOR,
        simulator=JaxSimulator(draw),
        derived={"var": lambda theta: theta[..., 1] ** 2},
    )
    assert (made.query, made.mechanism.to_spec()) == (GRIDDED, NOISE.to_spec())
    assert list(made.derived) == ["var"]
    assert FROM_RELEASE.derived == {}
    s = made.statistics(KEY, THETA)
    np.testing.assert_allclose(made.log_prob_observed(loaded, s), NOISE.log_prob([0.31], s), rtol=0)
    assert np.isfinite(made.log_prob_observed([0.31], s)).all()


def test_a_description_serves_as_query():
    assert model(query=MEAN.to_spec()).query == MEAN
    with pytest.raises(errors.FileFormatError, match="'type' is one of"):
        model(query={"kind": "ClampedMean"})


def test_observations_are_arrays_of_their_own():
    for given in (RELEASE, [0.31], np.array([0.31]), jnp.array([0.25]), (1,)):
        observed = FROM_RELEASE.observation(given)
        assert type(observed) is np.ndarray
        assert (observed.shape, observed.dtype) == ((1,), np.float64)
    given = np.array([0.31])
    FROM_RELEASE.observation(given)[0] = 7.0
    assert given.tolist() == [0.31]


def test_densities_of_the_observation_can_be_transformed():
    with jax.enable_x64(True):
        inside = jax.jit(lambda s: FROM_RELEASE.log_prob_observed(RELEASE, s))(
            np.array([[0.3], [0.1]])
        )
        width_unknown = model(query=lambda x: x.mean(), mechanism=NOISE)
        again = jax.jit(lambda s: width_unknown.log_prob_observed([0.31], s))(
            np.array([[0.3], [0.1]])
        )
    expected = FROM_RELEASE.log_prob_observed(RELEASE, [[0.3], [0.1]])
    np.testing.assert_allclose([inside, again], [expected, expected], rtol=1e-12)


def test_functions_as_queries_take_releases_on_trust():
    trusted = model(query=lambda x: x.mean(), mechanism=NOISE)
    assert trusted.observation(RELEASE).tolist() == [0.31]


PAIR = model(query=lambda x: x[:2, 0], mechanism=M.Clamped(M.Laplace(0.1), low=0.0))
SAMPLER = M.SampledMechanism(lambda key, s: s + jax.random.laplace(key, s.shape))
BARE = nw.Release([0.31], NOISE)
UNFIT = {
    "not a release": (
        lambda: nw.PrivateModel.from_release([0.31], prior=PRIOR, simulator=JaxSimulator(draw)),
        errors.InvalidTypeError, "nw.Release",
    ),
    "a release of an unknown query": (
        lambda: nw.PrivateModel.from_release(BARE, prior=PRIOR, simulator=JaxSimulator(draw)),
        errors.InvalidInputError, r"query=\.\.\., mechanism=release\.mechanism",
    ),
    "another mechanism": (
        lambda: model(query=GRIDDED, mechanism=M.DiscreteLaplace(0.3, 0.2, 0.01)).observation(RELEASE),
        errors.InvalidInputError, r"scale=0\.2.*scale=0\.3.*with_mechanism\(release\.mechanism\)",
    ),
    "another query": (
        lambda: model(query=Q.ClampedMean((-4.0, 4.0), 50, grid=0.5), mechanism=NOISE).observation(RELEASE),
        errors.InvalidInputError, r"from_release",
    ),
    "another user's mechanism": (
        lambda: model(mechanism=SAMPLER).observation(RELEASE), errors.InvalidInputError, "made by DiscreteLaplace",
    ),
    "too long": (lambda: FROM_RELEASE.observation([0.3, 0.2]), errors.InvalidInputError, r"shape \(1,\).*mean.* got \(2,\)"),
    "too short": (lambda: PAIR.observation([0.3]), errors.InvalidInputError, r"shape \(2,\).*s\[0\], s\[1\]"),
    "a number": (lambda: FROM_RELEASE.observation(0.31), errors.InvalidInputError, r"got \(\)"),
    "a table": (lambda: FROM_RELEASE.observation([[0.31]]), errors.InvalidInputError, r"write observed\[0\]"),
    "missing": (lambda: PAIR.observation([np.nan, 1.0]), errors.InvalidInputError, r"NaN for s\[0\]"),
    "infinite": (lambda: FROM_RELEASE.observation([np.inf]), errors.InvalidInputError, "multiples of 0.01"),
    "off the lattice": (
        lambda: FROM_RELEASE.observation([0.315]), errors.InvalidInputError, r"multiples of 0\.01, but .* is 0\.315.*Clamped",
    ),
    "below the interval": (lambda: PAIR.observation([1.0, -0.5]), errors.InvalidInputError, r"s\[1\] is -0\.5"),
    "text": (lambda: FROM_RELEASE.observation("0.31"), errors.InvalidTypeError, "numbers"),
    "a key": (lambda: FROM_RELEASE.observation(KEY), errors.InvalidTypeError, "swapped"),
    "a tracer": (
        lambda: jax.jit(FROM_RELEASE.observation)(jnp.array([0.31])), errors.InvalidTypeError, "outside jit",
    ),
    "statistics off the lattice": (
        lambda: model(mechanism=NOISE).simulate(KEY, THETA), errors.InvalidInputError, "query of the release.*from_release",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT, ids=str)
def test_what_does_not_fit_is_refused_with_a_reason(name):
    attempt, kind, text = UNFIT[name]
    with pytest.raises(kind, match=text):
        attempt()
