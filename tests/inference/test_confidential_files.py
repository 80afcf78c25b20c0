"""The learnt law of confidential statistics as an object to keep: its text, its files, its hints."""

import functools

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.estimators import Training, masked_autoregressive_flow
from noisewise.inference import ConfidentialLikelihoodEstimation
from noisewise.inference.learned.common.space_files import (
    read_statistic_space,
    statistic_space_arrays,
    statistic_space_spec,
)
from noisewise.inference.learned.common.statistic_space import StatisticSpace
from tests.inference.fit_files import a_model, check_refuses, check_survives

KEY = jax.random.key(6)


@pytest.fixture(scope="module")
def rate_fit():
    network = functools.partial(masked_autoregressive_flow, num_layers=1, num_units=8, num_hidden=1)
    method = ConfidentialLikelihoodEstimation(
        num_simulations=200,
        num_members=1,
        estimator=network,
        training=Training(learning_rate=2e-3, max_epochs=5),
        num_chains=20,
        num_warmup=20,
        target_ess=100,
    )
    return method.fit(KEY, a_model(), progress=False)


def test_a_fit_tells_what_it_is(rate_fit):
    text = repr(rate_fit)
    assert "LearnedConfidentialLikelihood: q(s | theta), theta = (rate), s = (total)" in text
    assert "200 simulations, 5 epochs, validation loss" in text
    assert "posterior(key, observed), posterior(key, observed, mechanism)" in text


def test_a_fit_survives_a_file_and_serves_another_mechanism(rate_fit, tmp_path):
    theta, s = np.linspace(0.1, 4.0, 30)[:, None], np.linspace(-1.0, 5.0, 30)[:, None]
    again = check_survives(rate_fit, tmp_path / "a", lambda fit: fit.log_prob(s, theta))
    assert np.array_equal(again.sample(KEY, theta), rate_fit.sample(KEY, theta))
    other = type(rate_fit).load(tmp_path / "a", a_model(scale=0.7))
    assert np.array_equal(other.log_prob(s, theta), rate_fit.log_prob(s, theta))
    assert other.model.mechanism.scale == 0.7


@pytest.mark.slow
def test_a_posterior_of_a_loaded_fit_is_the_same(rate_fit, tmp_path):
    rate_fit.save(tmp_path / "a")
    again = type(rate_fit).load(tmp_path / "a", a_model())
    assert np.array_equal(again.posterior(KEY, [1.2]).theta, rate_fit.posterior(KEY, [1.2]).theta)


def test_a_fit_refuses_other_models_and_damaged_files(rate_fit, tmp_path):
    others = {
        r"parameters \(rate\), but this one has \(speed\)": a_model(parameter="speed"),
        "another prior": a_model(sd=0.6),
        r"statistics \(total\), but this one has \(mean\)": a_model(statistic="mean"),
    }
    check_refuses(rate_fit, tmp_path / "a", others)


def test_a_fit_is_no_posterior_and_says_what_to_write(rate_fit):
    with pytest.raises(InvalidInputError, match="for k, row in zip"):
        rate_fit.posterior(KEY, np.ones((3, 1)))
    with pytest.raises(
        InvalidTypeError, match=r"certify\(key, fit\.posterior\(key, observed\), model, observed\)"
    ):
        nw.diagnostics.certify(KEY, rate_fit, rate_fit.model, [1.2])


# Parts --------------------------------------------------------------------------------------------


@pytest.fixture
def space():
    """A real column with an atom, a lattice with one end that is reached, their sum, and a constant."""
    rng = np.random.default_rng(0)
    real, count = rng.normal(size=400), 0.5 * rng.poisson(2.0, 400)
    real = np.maximum(real, -1.0)  # an atom
    return StatisticSpace.of(np.stack([real, count, real + count, np.full(400, 7.0)], axis=1))


def test_a_space_survives_a_file(space):
    assert (space.dim, len(space.lattices)) == (2, 1)
    again = read_statistic_space(statistic_space_spec(space), statistic_space_arrays(space), 4)
    t = np.random.default_rng(1).normal(size=(20, 2))
    with jax.enable_x64(True):
        assert np.array_equal(again.statistics(t), space.statistics(t))
    assert (again.free, again.lattices, again.log_cell) == (
        space.free,
        space.lattices,
        space.log_cell,
    )


@pytest.mark.parametrize(
    ("name", "value"), [("at", -np.inf), ("at", np.inf), ("width", 0.0), ("width", -1.0)]
)
def test_atoms_that_do_not_fit_are_refused(space, name, value):
    arrays = statistic_space_arrays(space)
    assert space.atoms.any
    changed = arrays | {f"space.atoms.{name}": np.full_like(space.atoms.at, value)}
    with pytest.raises(FileFormatError):
        read_statistic_space(statistic_space_spec(space), changed, 4)


@pytest.mark.parametrize(
    "change",
    [{"free": [0, 9]}, {"free": [1, 0]}, {"lattices": []}, {"lattices": [0, 1]}, {"more": 1}],
)
def test_a_space_that_does_not_fit_is_refused(space, change):
    with pytest.raises(FileFormatError):
        read_statistic_space(
            {**statistic_space_spec(space), **change}, statistic_space_arrays(space), 4
        )
