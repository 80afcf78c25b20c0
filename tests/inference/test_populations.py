"""What populations of particles are worth, which draws they choose, and columns that are bent."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np

import noisewise as nw
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.bends import Bend
from noisewise.inference.learned.common.populations import Populations, Sampling
from noisewise.samplers import starts
from noisewise.samplers.hamiltonian import Tuning
from noisewise.samplers.tempered import TemperedDraws

KEY = jax.random.key(1)


def normal(z):
    return -0.5 * jnp.sum(z**2)


def two_modes(z):
    return jnp.logaddexp(-200.0 * jnp.sum((z - 1.0) ** 2), -200.0 * jnp.sum((z + 1.0) ** 2))


def draw(key, num):
    return np.asarray(jax.random.normal(key, (num, 2)), dtype=np.float64)


def sampling(target, **settings):
    numbers = {"num_chains": 512, "num_warmup": 10, "length": 4, "target_ess": 1000, **settings}
    return Sampling(target, normal, draw, **numbers)


def a_run():
    return InferenceRun("sple", {}, nw.problems.gaussian_mean(1.0).model, np.zeros(1))


def held(draws, log_evidence):
    """Populations with these draws (n, g, m, d), without having moved."""
    found = Populations(sampling(normal))
    tuning = Tuning(np.asarray(1.0), np.eye(draws.shape[-1]))
    found._runs.append(TemperedDraws(draws, np.asarray(log_evidence), 1.0, 3, 0.8, 0, tuning))
    found.look()
    return found


def test_independent_draws_are_worth_their_number():
    """Of 20 sets of 16 x 400 draws: an estimate from 16 populations, at the worst of six columns,
    lies within a factor of 3 of the truth.
    """
    rng = np.random.default_rng(0)
    sizes = [held(rng.normal(size=(4, 16, 100, 2)), np.zeros(16)).effective_size for _ in range(20)]
    assert 6400 / 3 < np.median(sizes) <= 6400


def test_populations_that_stay_apart_are_worth_as_much_as_they_agree():
    """Sixteen populations with shares of a mode that scatter by .16 are worth 16 (.5 / .16)^2 = 156
    draws, however many they have; R-hat says so too.
    """
    rng = np.random.default_rng(0)
    shares = 0.5 + 0.16 * np.repeat([-1.0, 1.0], 8)
    modes = rng.random((40, 16, 100)) < shares[:, None]
    draws = np.where(modes, 1.0, -1.0)[..., None] + 0.1 * rng.normal(size=(40, 16, 100, 1))
    found = held(draws, np.zeros(16))
    assert 80 < found.effective_size < 200
    assert not found.settled
    assert found.r_hat > 1.03


def test_a_drift_of_all_populations_counts_as_an_error():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(10, 16, 100, 1)) + np.linspace(-0.5, 0.5, 10)[:, None, None, None]
    assert held(draws, np.zeros(16)).effective_size < 100


def test_draws_are_chosen_by_evidence():
    """A population with nine times the evidence gives nine tenths of the draws."""
    draws = np.stack([np.full((2, 50, 1), -1.0), np.full((2, 50, 1), 1.0)], axis=1)
    found = held(draws + 1e-3 * np.arange(50)[:, None], np.log([1.0, 9.0]))
    assert abs(np.mean(found.chosen(1000) > 0.0) - 0.9) < 0.002


def test_evidence_does_not_matter_where_moves_forget():
    """Evidences that scatter by 2 nats, as in dozens of dimensions: independent draws of all
    populations count alike; where particles stay what they are, or one evidence is far above the
    others, evidence decides.
    """
    rng = np.random.default_rng(0)
    log_evidence = 2.0 * rng.normal(size=16)
    moving = rng.normal(size=(4, 16, 100, 2))
    equal = np.full(16, 1 / 16)
    np.testing.assert_allclose(held(moving, log_evidence)._weights(), equal)
    staying = moving[:1] + 0.1 * rng.normal(size=(4, 16, 100, 2))
    by_evidence = np.exp(log_evidence) / np.exp(log_evidence).sum()
    np.testing.assert_allclose(held(staying, log_evidence)._weights(), by_evidence)
    lonely = held(moving, log_evidence + 20.0 * (np.arange(16) == 3))._weights()
    assert lonely[3] > 0.99
    frozen = moving.copy()
    frozen[:, 3] *= 0.01
    stuck = held(frozen, 8.0 * (np.arange(16) == 3) + 0.1 * log_evidence)._weights()
    assert stuck[3] > 0.99
    scattered = 10.0 * log_evidence
    apart = held(moving, scattered)._weights()
    np.testing.assert_allclose(apart, np.exp(scattered - scattered.max()), atol=1e-3)
    one_draw = held(moving[:1], log_evidence)._weights()
    np.testing.assert_allclose(one_draw, by_evidence)


def test_populations_that_did_not_arrive_do_not_count_beside_others_that_did():
    """Planted as a run that ended at lambda = .5 with a larger evidence."""
    found = held(np.zeros((2, 16, 10, 1)), np.zeros(16))
    lost = dataclasses.replace(
        found._runs[0], draws=np.ones((2, 16, 10, 1)), log_evidence=np.full(16, 9.0), power=0.5
    )
    found._runs.append(lost)
    assert (found.chosen(50) == 0.0).all()
    found._runs = [lost]
    assert (found.chosen(50) == 1.0).all()
    found.look()
    assert found.effective_size == 0.0


def test_one_population_alone_is_worth_nothing():
    rng = np.random.default_rng(0)
    found = held(rng.normal(size=(4, 16, 100, 1)), np.where(np.arange(16) == 3, 0.0, -800.0))
    assert found.effective_size == 0.0


def test_particles_that_are_worth_nothing_are_drawn_anew_and_given_up(monkeypatch):
    """They would go on for ever longer if nothing counted as growth of nothing."""
    found, asked = held(np.zeros((4, 16, 10, 1)), np.zeros(16)), []
    monkeypatch.setattr(found, "look", lambda: None)
    monkeypatch.setattr(found, "go_on", lambda *_: asked.append("go on"))
    monkeypatch.setattr(found, "start", lambda *_: asked.append("start"))
    found.effective_size = 0.0
    found.finish(KEY, a_run())
    assert asked == ["go on"] * 2 + ["start"] * 6


def test_moves_go_on_where_they_help_and_populations_are_drawn_where_not():
    easy, hard = Populations(sampling(normal)), Populations(sampling(two_modes))
    for found in (easy, hard):
        found.start(KEY, a_run())
        found.finish(KEY, a_run())
    assert len(easy._runs) == 1
    assert easy.effective_size >= 1000
    assert len(hard._runs) > 1 or hard.effective_size >= 1000
    assert abs(np.mean(hard.chosen() > 0.0) - 0.5) < 4 * 0.5 / np.sqrt(hard.effective_size)


def test_particles_are_recalled_from_a_journal():
    """A run that remembers takes what it recorded, to the last bit, and moves nothing."""
    kept = []

    def record(name, compute):
        kept.append(compute())
        return kept[-1]

    first = Populations(sampling(normal))
    first.start(KEY, types.SimpleNamespace(remember=record))
    again = Populations(sampling(normal))
    again.start(KEY, types.SimpleNamespace(remember=lambda name, compute: kept[0]))
    np.testing.assert_array_equal(first.chosen(), again.chosen())


# Bends --------------------------------------------------------------------------------------------


def test_only_heavy_tails_are_bent_and_back():
    """Normal and uniform columns stay; a lognormal column of sd 1.5 loses its tail."""
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=5000), rng.random(5000), np.exp(1.5 * rng.normal(size=5000))]
    t = np.stack(columns, axis=1)
    bend = Bend.of(t)
    assert (bend.scale > 0.0).tolist() == [False, False, True]
    bent = bend(t)
    np.testing.assert_array_equal(bent[:, :2], t[:, :2])
    assert np.ptp(bent[:, 2]) / bent[:, 2].std() < np.ptp(t[:, 2]) / t[:, 2].std() / 3.0
    np.testing.assert_allclose(bend.inverse(bent), t, rtol=1e-9)
    step = 1e-6
    slopes = (bend(t + step) - bend(t - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(bend.log_slope(t)), slopes, rtol=1e-4)
    np.testing.assert_array_equal(Bend.none(3)(t), t)


def test_one_tail_is_bent_from_the_other_end():
    """Slopes of a count with one heavy tail only fall; those of a Cauchy column peak at its
    middle.
    """
    rng = np.random.default_rng(0)
    t = np.stack([np.exp(1.5 * rng.normal(size=5000)), rng.standard_cauchy(5000)], axis=1)
    t = np.sort(np.concatenate([t, -t[:, :1]], axis=1), axis=0)
    slopes = Bend.of(t).log_slope(t)
    assert (np.diff(slopes[50:, 0]) <= 0.0).all()
    assert 0.45 < np.argmax(slopes[:, 1]) / 5000 < 0.55
    assert (np.diff(slopes[:-50, 2]) >= 0.0).all()


def test_bent_columns_of_one_value_are_left_alone():
    t = np.append(np.zeros(990), np.arange(10.0))[:, None]
    np.testing.assert_array_equal(Bend.of(t)(t), t)


def asked_of(found, monkeypatch, gains=1.5):
    """What `finish` asks for, if each request makes the effective size `gains` times as large."""
    asked = []

    def grown(what):
        def grow(*_):
            asked.append(what)
            found.effective_size *= gains

        return grow

    monkeypatch.setattr(found, "look", lambda: None)
    monkeypatch.setattr(found, "go_on", grown("go on"))
    monkeypatch.setattr(found, "start", grown("start"))
    found.effective_size = 300.0
    found.finish(KEY, a_run())
    return asked


def test_particles_that_stay_where_they_were_are_drawn_anew_until_they_are_worth_enough(
    monkeypatch,
):
    """Four draws of each that hardly differ: 300 x 1.5 are the 400 that are enough; those that move
    go on to the 1,000 that are wanted.
    """
    rng = np.random.default_rng(0)
    moving = rng.normal(size=(4, 16, 100, 2))
    staying = moving[:1] + 0.01 * rng.normal(size=(4, 16, 100, 2))
    assert asked_of(held(staying, np.zeros(16)), monkeypatch) == ["start"]
    assert asked_of(held(moving, np.zeros(16)), monkeypatch) == ["go on"] * 3


def test_where_moves_crawl_fewer_draws_are_enough(monkeypatch):
    """A step of .01 ends after 32 of the 150 leaps that a trajectory takes."""
    found = held(np.random.default_rng(0).normal(size=(4, 16, 100, 2)), np.zeros(16))
    crawling = dataclasses.replace(found._runs[0], tuning=Tuning(np.asarray(0.01), np.eye(2)))
    found._runs = [crawling]
    assert asked_of(found, monkeypatch) == ["go on"]


def test_populations_without_a_possible_start_count_for_nothing():
    """Four of 16 populations far away, without evidence: the others are worth what they are worth
    alone, in ranks, effective size, R-hat and weights, and none of the four is chosen.
    """
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 16, 100, 2))
    draws[:, 12:] = 50.0 + 1e-3 * draws[0, 12:]  # each particle for ever where it started
    log_evidence = np.where(np.arange(16) < 12, rng.normal(size=16), -np.inf)
    found, alone = held(draws, log_evidence), held(draws[:, :12], log_evidence[:12])
    assert found.effective_size == alone.effective_size > 1000
    assert found._memory == alone._memory < 0.1
    assert found.r_hat == alone.r_hat
    assert found.chosen(200).max() < 10.0
    np.testing.assert_allclose(found._weights(), np.r_[np.full(12, 1 / 12), np.zeros(4)])


def test_a_population_without_a_possible_start_takes_starts_of_others():
    """The second half of the prior draws is impossible; tuning sees every particle."""
    positive = lambda z: jnp.where(z[0] > 0.0, -0.5 * jnp.sum(z**2), -jnp.inf)
    z = (
        np.abs(np.random.default_rng(0).normal(size=(400, 1)))
        * np.repeat([1.0, -1.0], 200)[:, None]
    )
    with jax.enable_x64(True):
        particles, power, evidence = starts.chosen(KEY, positive, normal, z, 2, 100)
    assert power == 1.0
    assert evidence[0] == 0.0
    assert evidence[1] == -np.inf
    assert (particles > 0.0).all()
