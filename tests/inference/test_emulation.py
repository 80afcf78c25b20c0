"""Posteriors of learnt laws by weights: laws that are known, modes that are missed, ends of data."""

import dataclasses
import types

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise._core.keys import generator
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.confidential import emulation
from noisewise.inference.learned.confidential.emulation import LearntSimulator, drawn_by_weights

KEY = jax.random.key(5)


def law_of(draw, *, high=20.0, width=1, matrix=None):
    """A law of `width` free columns, drawn by a function of a NumPy generator and theta."""
    matrix = np.eye(width) if matrix is None else matrix
    space = types.SimpleNamespace(
        free=tuple(range(width)), offset=np.zeros(matrix.shape[1]), matrix=matrix
    )
    bounds = high * np.array([[-1.0], [1.0]]) * np.ones(matrix.shape[1])
    sample = lambda key, theta: draw(generator(key), np.asarray(theta)) @ matrix
    return types.SimpleNamespace(
        space=space, bounds=bounds, sample=sample, num_kept=8000, target_ess=2000
    )


def run_of(prior, observed, scale):
    simulator = nw.simulators.JaxSimulator(
        lambda key, theta: jax.random.normal(key, (1, len(observed)))
    )
    model = nw.PrivateModel(
        prior=nw.Prior(prior),
        simulator=simulator,
        query=lambda x: x[0],
        mechanism=nw.mechanisms.Gaussian(scale=scale),
    )
    return InferenceRun("cle", {}, model, np.asarray(observed, dtype=float))


def test_a_known_law_gives_its_posterior_row_by_row_with_the_statistics():
    """theta ~ N(0, 1), s ~ N(theta, .5^2), noise .5: theta given 1.2 is N(.8, 1/3), and s - theta
    has an sd of .5 sqrt(2/3) = .41 where rows belong together; .7 if they were shuffled. With 400
    draws or more the mean is known to .03 and sds to 4%: four times as much is allowed.
    """
    law = law_of(lambda rng, theta: theta + 0.5 * rng.normal(size=theta.shape))
    run = run_of({"theta": dist.Normal(0, 1)}, [1.2], 0.5)
    found = drawn_by_weights(KEY, law, run)
    assert run.diagnostics["effective size"] > 10_000
    assert run.diagnostics["1 + rv"] < 2.0
    assert abs(found.theta.mean() - 0.8) < 0.12
    assert abs(found.theta.std() / np.sqrt(1 / 3) - 1.0) < 0.16
    apart = (found.statistics - found.theta).std()
    assert abs(apart / (0.5 * np.sqrt(2 / 3)) - 1.0) < 0.16
    assert (found.statistics[::-1] - found.theta).std() > 0.6


@pytest.mark.parametrize("seed", [0, 1])
def test_where_importance_sampling_distrusts_itself_particles_are_asked(seed):
    """Four parameters, and a corner of the prior, a ten-thousandth of it, that explains the
    observation better than the wide mode: importance sampling may miss it, and knows.
    """

    def draw(rng, theta):
        s = theta + 0.02 * rng.normal(size=theta.shape)
        corner = (np.abs(theta + 5.0) < 1.0).all(axis=1)
        s[corner] = 5.0 + 0.02 * rng.normal(size=(corner.sum(), 4))
        return s

    prior = {f"t{i}": dist.Uniform(-10, 10) for i in range(4)}
    run = run_of(prior, [5.0] * 4, 0.8)
    found = drawn_by_weights(jax.random.key(seed), law_of(draw, width=4), run)
    assert found is None or 0.4 < np.mean(found.theta[:, 0] < 0.0) < 0.95


def test_draws_beyond_all_simulations_count_for_their_end_and_keep_their_relation():
    """A column and minus half of it: what is clipped is the free one, of which the law draws 30."""
    matrix = np.array([[1.0, -0.5]])
    law = law_of(lambda rng, theta: 30.0 * theta, high=20.0, matrix=matrix)
    s = LearntSimulator(law).draws(KEY, np.array([[-1.0], [0.1], [1.0]]))
    np.testing.assert_array_equal(s, [[-20.0, 10.0], [3.0, -1.5], [20.0, -10.0]])


def test_an_answer_that_is_not_called_exact_is_not_taken(monkeypatch):
    """The same weighted draws, worth thousands, with and without that word in their report."""
    law = law_of(lambda rng, theta: theta + 0.5 * rng.normal(size=theta.shape))
    weighted = emulation._weighted

    def doubted(*arguments):
        found = weighted(*arguments)
        return found.with_report(dataclasses.replace(found.report, exact=False))

    run = run_of({"theta": dist.Normal(0, 1)}, [1.2], 0.5)
    assert drawn_by_weights(KEY, law, run) is not None
    monkeypatch.setattr(emulation, "_weighted", doubted)
    assert drawn_by_weights(KEY, law, run) is None


def test_too_many_parameters_or_statistics_known_too_well_are_left_to_particles():
    """Thirty columns as noisy as the simulator: an effective draw would take 1.15^30 = 72 at best,
    some 1e5 here. With seven parameters nothing is drawn.
    """

    def draw(rng, theta):
        return theta[:, :1] + rng.normal(size=(len(theta), 30))

    run = run_of({"theta": dist.Normal(0, 1)}, [0.3] * 30, 0.5)
    assert drawn_by_weights(KEY, law_of(draw, width=30), run) is None
    many = {f"t{i}": dist.Normal(0, 1) for i in range(7)}
    assert drawn_by_weights(KEY, None, run_of(many, [0.3], 0.5)) is None


def test_draws_that_are_nan_are_lost_and_mentioned():
    """A tenth of them is NaN; the answer is that of the others."""

    def draw(rng, theta):
        s = theta + 0.5 * rng.normal(size=theta.shape)
        return np.where(rng.random(theta.shape) < 0.1, np.nan, s)

    run = run_of({"theta": dist.Normal(0, 1)}, [1.2], 0.5)
    found = drawn_by_weights(KEY, law_of(draw), run)
    (lost,) = [f for f in run.findings if f.kind is nw.posteriors.Kind.LEARNT_DRAWS_NOT_FINITE]
    assert 0.08 < lost.numbers["failed"] / lost.numbers["draws"] < 0.12
    assert abs(found.theta.mean() - 0.8) < 0.12
