"""Geweke's joint-distribution test of every Markov kernel on records and particles, with planted
bugs.

From exact joint draws (theta, x), s_dp is drawn given x and then (theta, x) is moved given s_dp, in
turn. If the move leaves the posterior invariant, (theta, x, s_dp) keeps its joint law for ever.
Replicates are independent, so means of test functions are compared with those of fresh draws by
plain z-scores. The functions see s_dp too: a move that forgets the observation keeps the law of
(theta, x).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.exact.particles import SimulatedParticles
from noisewise.inference.exact.record_moves import RecordMoves
from noisewise.inference.exact.record_state import Seen, Walk

KEY = jax.random.key(8)
NUM = 20_000
LIMIT = 4.0


def normal_model():
    """The mean is positive a priori, which its conjugate prior is not: the Jacobian and the
    correction both matter.
    """
    query = nw.queries.ClampedMean(bounds=(-2.0, 2.0), num_records=4)
    return nw.PrivateModel(
        prior=nw.Prior({"mean": dist.LogNormal(-0.3, 0.6)}),
        simulator=nw.simulators.NormalRecords(num_records=4, sd=0.8, prior_variance=1.5),
        query=query,
        mechanism=nw.mechanisms.Laplace(scale=0.3),
    )


def table_model():
    simulator = nw.simulators.LogLinear(
        num_records=6, num_classes=2, num_values=(2,), concentration=1.5
    )
    vectors = {
        name: dist.Dirichlet(np.array([2.0, 1.0])) for name in ("first", "second", "classes")
    }
    query = nw.queries.CategoryProportions(num_classes=2, num_values=(2,), num_records=6)
    mechanism = nw.mechanisms.Laplace(scale=0.15)
    return nw.PrivateModel(
        prior=nw.Prior(vectors), simulator=simulator, query=query, mechanism=mechanism
    )


def regression_model():
    """The noise is unknown, so that theta is walked given the records."""
    simulator = nw.simulators.LinearRegression(num_records=4, num_predictors=1, unknown="noise_sd")
    prior = nw.Prior(
        {
            "beta": dist.Normal(0.0, 1.0).expand([2]).to_event(1),
            "noise_sd": dist.LogNormal(0.0, 0.4),
        }
    )
    query = nw.queries.RegressionMoments(num_records=4, num_predictors=1, bounds=(-3.0, 3.0))
    mechanism = nw.mechanisms.Gaussian(scale=0.2)
    return nw.PrivateModel(prior=prior, simulator=simulator, query=query, mechanism=mechanism)


MODELS = {"normal": normal_model, "tables": table_model, "regression": regression_model}


def moments(z, s, s_dp):
    """Moments of unconstrained parameters and statistics, how they go together, and how far the
    noise is.
    """
    z, s, s_dp = (np.asarray(part) for part in (z, s, s_dp))
    return np.concatenate(
        [z, s, z**2, s**2, z[:, :1] * s, z[:, :1] * s_dp, np.abs(s_dp - s), s * s_dp], axis=1
    )


def z_scores(moved, fresh):
    error = np.sqrt(moved.var(0) / len(moved) + fresh.var(0) / len(fresh))
    return np.abs(moved.mean(0) - fresh.mean(0)) / error


def geweke(model, kind=RecordMoves, *, rounds=6, joint=True, num_moves=2, temperature=1.0):
    """The largest z-score after `rounds` of noise and moves by `kind`. A power of a Laplace density
    is one of another scale.
    """
    noise = (
        model.mechanism
        if temperature == 1.0
        else nw.mechanisms.Laplace(model.mechanism.scale / temperature)
    )
    moves = kind(model.prior, model.simulator, model.query, num_moves, joint)
    theta = model.prior.sample(KEY, 2 * NUM)
    nothing = Seen(model.mechanism, np.zeros(model.private_width), 1.0)
    states = moves.start(jax.random.fold_in(KEY, 1), theta, nothing)
    spread = np.atleast_2d(np.cov(states.z.T))
    walk = Walk(np.linalg.cholesky(spread), np.full(3, 0.7))

    @jax.jit
    def one_round(key, state):
        noise_key, move_key = jax.random.split(key)
        s = moves.statistic(state.total)
        observed = noise.sample(noise_key, s)
        seen = Seen(model.mechanism, observed, temperature)
        state = moves._at(state.z, state.theta, state.records, seen)
        return moves.sweep(move_key, state, seen, walk)[0], observed

    with jax.enable_x64(True):
        state = jax.tree.map(lambda part: part[:NUM], states)
        for number in range(rounds):
            keys = jax.random.split(jax.random.fold_in(KEY, 100 + number), NUM)
            state, observed = jax.vmap(one_round)(keys, state)
        moved = moments(state.z, moves.statistic(state.total), observed)
    s = np.asarray(moves.statistic(states.total[NUM:]))
    fresh = moments(states.z[NUM:], s, noise.sample(jax.random.fold_in(KEY, 2), s))
    return z_scores(moved, fresh).max()


@pytest.mark.parametrize(
    "name",
    [
        "normal",
        pytest.param("tables", marks=pytest.mark.slow),
        pytest.param("regression", marks=pytest.mark.slow),
    ],
)
def test_record_moves_keep_the_joint_law(name):
    """Up to 36 z-scores: the chance that the largest passes 4 is below .3%."""
    assert geweke(MODELS[name]()) < LIMIT


@pytest.mark.slow
def test_record_moves_keep_the_joint_law_of_a_power_of_the_density():
    assert geweke(normal_model(), temperature=0.4) < LIMIT


class EveryRecordAccepted(RecordMoves):
    def _records(self, key, state, seen):
        return super()._records(key, state, seen._replace(temperature=0.0))


class NoiseTooNarrow(RecordMoves):
    def _log_eta(self, total, seen):
        narrow = nw.mechanisms.Laplace(scale=0.9 * seen.mechanism.scale)
        return narrow.log_prob(seen.observed, self.statistic(total))


class PriorForgotten(RecordMoves):
    def _metropolis(self, key, proposed, current, seen):
        (state, _), accepted = super()._metropolis(
            key, proposed, (current[0], current[1] * 0.0), seen
        )
        return (state, current[1]), accepted


class JacobianForgotten(RecordMoves):
    def _metropolis(self, key, proposed, current, seen):
        log_prior = self.prior.log_prob(proposed.theta)
        before = self.prior.log_prob(current[0].theta)
        change = seen.temperature * (proposed.log_eta - current[0].log_eta)
        accepted = jnp.log(jax.random.uniform(key, dtype=float)) < log_prior - before + change
        chosen = jax.tree.map(
            lambda new, old: jnp.where(accepted, new, old), (proposed, log_prior), current
        )
        return chosen, accepted.astype(float)


class PriorNotCorrected(RecordMoves):
    def _prior_correction(self, theta):
        return jnp.zeros(())


class NoiseKeptFixed(RecordMoves):
    """Moves theta without its records."""

    def _not_centred(self, key, state, seen, walk):
        new, share = super()._not_centred(key, state, seen, walk)
        kept = {
            "records": state.records,
            "terms": state.terms,
            "total": state.total,
            "log_eta": state.log_eta,
        }
        return new._replace(**kept), share


BUGS = [
    EveryRecordAccepted,
    NoiseTooNarrow,
    PriorForgotten,
    JacobianForgotten,
    PriorNotCorrected,
    NoiseKeptFixed,
]


class WalkForgetsRecords(RecordMoves):
    """The walk given the records sees half of them."""

    def _centred(self, key, state, walk):
        half = state._replace(records=jax.tree.map(lambda part: part[::2], state.records))
        moved, share = super()._centred(key, half, walk)
        return state._replace(z=moved.z, theta=moved.theta), share


class TablesSwapped(RecordMoves):
    """The noise of records is drawn as if all cells were as likely."""

    def _not_centred(self, key, state, seen, walk):
        flat = state._replace(theta=jnp.full_like(state.theta, 0.5))
        moved, share = super()._not_centred(key, flat, seen, walk)
        return moved, share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bug"), [("regression", WalkForgetsRecords), ("tables", TablesSwapped)]
)
def test_planted_bugs_in_other_models_are_caught(name, bug):
    assert geweke(MODELS[name](), bug) > LIMIT + 1.0


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bugs_in_record_moves_are_caught(bug):
    assert geweke(normal_model(), bug) > LIMIT + 1.0


class StaleSum(RecordMoves):
    def _records(self, key, state, seen):
        new, share = super()._records(key, state, seen)
        return new._replace(total=state.total, log_eta=state.log_eta), share


def drift(kind=RecordMoves):
    """How far sums and log eta are from what the records say, after 20 sweeps."""
    model = normal_model()
    moves = kind(model.prior, model.simulator, model.query, 2, True)
    seen = Seen(model.mechanism, np.array([0.4]), 1.0)
    state = moves.start(KEY, model.prior.sample(KEY, 50), seen)
    state, _, _ = moves.sweeps(KEY, state, seen, Walk(np.eye(1), np.full(3, 0.7)), 20)
    s = np.stack([model.query(records) for records in state.records])
    log_eta = model.mechanism.log_prob(np.array([0.4]), s)
    return max(
        np.abs(moves.statistic(state.total) - s).max(), np.abs(state.log_eta - log_eta).max()
    )


@pytest.mark.slow
def test_sums_and_densities_are_kept_up_to_date():
    """Rounding errors of 20 sweeps over 4 records stay below 1e-12; a sum that is not updated shows
    at once.
    """
    assert drift() < 1e-12
    assert drift(StaleSum) > 1e-3


# Particles of any simulator -----------------------------------------------------------------------


class ManyObservations(InferenceRun):
    """Work in which every particle has an observation of its own."""

    each = None

    def log_eta(self, s):
        return self.model.mechanism.log_prob(self.observed if self.each is None else self.each, s)


def geweke_particles(kind=SimulatedParticles, rounds=6):
    model = normal_model()
    run = ManyObservations("test", {}, model, np.zeros(1))
    particles = kind(KEY, run, 2 * NUM)
    particles.tune(np.full(2 * NUM, 0.5 / NUM))
    particles._temperature = 1.0
    s_dp = model.mechanism.sample(jax.random.fold_in(KEY, 2), particles.s[NUM:])
    fresh = moments(particles.z[NUM:], particles.s[NUM:], s_dp)
    z, s = particles.z[:NUM], particles.s[:NUM]
    for number in range(rounds):
        noise_key, move_key = jax.random.split(jax.random.fold_in(KEY, number))
        run.each = model.mechanism.sample(noise_key, s)
        z, s, _ = (part[-1] for part in particles._run(move_key, run, (z, s, run.log_eta(s)), 1))
    return z_scores(moments(z, s, run.each), fresh).max()


class ProposalForgotten(SimulatedParticles):
    def tune(self, weights):
        super().tune(weights)
        self._proposal = functools.partial(_Flat, self._proposal)()


class _Flat:
    def __init__(self, proposal):
        self.sample = proposal.sample

    def log_prob(self, z):
        return np.zeros(len(z))


class OldStatisticKept(SimulatedParticles):
    def _step(self, key, run, z, s, log_eta):
        (z, _, new), taken = super()._step(key, run, z, s, log_eta)
        return (z, s, new), taken


class HalfTemperature(SimulatedParticles):
    def _run(self, key, run, state, num):
        self._temperature = 0.5
        return super()._run(key, run, state, num)


def test_particle_moves_keep_the_joint_law():
    """Eight z-scores: the chance that the largest passes 4 is below .06%."""
    assert geweke_particles() < LIMIT


@pytest.mark.parametrize(
    "bug", [ProposalForgotten, OldStatisticKept, HalfTemperature], ids=lambda bug: bug.__name__
)
def test_planted_bugs_in_particle_moves_are_caught(bug):
    assert geweke_particles(bug) > LIMIT + 1.0
