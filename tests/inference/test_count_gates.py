"""Calibration of chains on cells, coverage in a geography, and Geweke's test of their moves.

Data sets run side by side in one program. Planted: windows of which one place is never taken, a
margin that moves forget, theta given half of the cells, and theta with its cells accepted without
their density.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.diagnostics import calibrate, draw_trials
from noisewise.inference.marginal import count_chains
from noisewise.inference.marginal.count_target import CountTarget
from noisewise.samplers.lattices import windows
from noisewise.samplers.lattices.directions import directions_for
from noisewise.simulators import StatisticLaw
from tests.inference.many_counts import ManyCounts, target_of

KEY = jax.random.key(29)
LIMIT = 4.0
SUMS = np.array(
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]
)
X = np.array([1.0, -1.0, 0.5, -0.5])


def rates(theta):
    return dist.Poisson(jnp.exp(theta["a"] + theta["b"] * X))


@functools.cache
def model(scale=2.0):
    return nw.PrivateModel(
        prior=nw.Prior({"a": dist.Normal(1.5, 0.7), "b": dist.Normal(0.0, 0.7)}),
        simulator=StatisticLaw(rates, sums=SUMS),
        mechanism=nw.mechanisms.DiscreteGaussian(scale=scale),
    )


# Planted bugs -------------------------------------------------------------------------------------


class HalfOfTheCells(CountTarget):
    """Theta given cells with another law."""

    def given_cells(self, z, cells):
        return super().given_cells(z, jnp.round(cells / 2))


class EndsNotCorrected(CountTarget):
    """Theta with its cells is accepted by its momentum alone."""

    def given_residuals(self, z, kept):
        return jnp.zeros(())


class MarginForgotten(CountTarget):
    """Moves of cells do not see the last margin."""

    def cells_moved(self, key, z, cells, sums):
        seen = [dataclasses.replace(one, turn_amount=0.0 * one.turn_amount) for one in self.passes]
        return CountTarget.cells_moved(
            dataclasses.replace(self, passes=tuple(seen)), key, z, cells, sums
        )


@pytest.fixture
def short_window(monkeypatch):
    monkeypatch.setattr(windows, "_PLACES", windows.WINDOW - 1)


# Geweke -------------------------------------------------------------------------------------------


def geweke(kind=CountTarget, *, exact=False, num=10_000, rounds=5):
    """The largest |z| of moments after rounds of noise and sweeps, against fresh joint draws."""
    theta = model().prior.sample(KEY, 2 * num)
    blocks, target = (), target_of(model(), kind)
    if exact:
        directions = directions_for(SUMS[-1:], SUMS[3:5])
        made = CountTarget.of(
            model().prior,
            model().simulator,
            model().mechanism,
            np.zeros(5),
            SUMS[:5],
            directions,
            free=False,
        ).as_arrays()
        target = kind(**{f.name: getattr(made, f.name) for f in dataclasses.fields(made)})
    noise, sums = model().mechanism, SUMS[:5] if exact else SUMS
    target = dataclasses.replace(target, few=jnp.array([True, True, True, False]))
    with jax.enable_x64(True):
        z = jnp.asarray(model().prior.unconstrain(theta))
        keys = jax.random.split(jax.random.fold_in(KEY, 1), 2 * num)
        cells = jax.vmap(lambda key, row: rates_of(row).sample(key))(keys, jnp.asarray(theta))
        cells = cells.astype(float)

        def observe(key, cells):
            return noise.sample(key, cells @ jnp.asarray(sums.T, float))

        def one_round(key, z, cells):
            noise_key, move_key = jax.random.split(key)
            y = observe(noise_key, cells)
            state = count_chains.CountState(
                z[None],
                cells[None],
                (cells @ jnp.asarray(sums.T, float))[None],
                jnp.array([0.5, 0.7]),
                jnp.array([0.2, 0.3]),
                (),
                (),
                (),
                jnp.zeros((), int),
                ((), ()),
            )
            state, _ = count_chains.swept(move_key, target.observing(y), blocks, state)
            return state.z[0], state.cells[0], y

        run = jax.jit(jax.vmap(one_round))
        now = z[:num], cells[:num]
        for number in range(rounds):
            keys = jax.random.split(jax.random.fold_in(KEY, 100 + number), num)
            *now, y = run(keys, *now)
        fresh_y = jax.jit(jax.vmap(observe))(keys, cells[num:])
        return z_scores(moments(*now, y), moments(z[num:], cells[num:], fresh_y)).max()


def rates_of(theta):
    return dist.Poisson(jnp.exp(theta[0] + theta[1] * X))


def moments(z, cells, y):
    z, cells, y = (np.asarray(part) for part in (z, cells, y))
    roots, total = np.sqrt(cells), cells.sum(axis=1, keepdims=True)
    gap = y[:, -1:] - (cells[:, 2:].sum(axis=1, keepdims=True) if y.shape[1] == 5 else total)
    parts = [z, z**2, roots, roots * z[:, 1:], roots[:, :1] * roots[:, 1:], np.abs(gap)]
    return np.concatenate(
        [*parts, np.sqrt(total), cells == 0, (y[:, :3] - cells[:, :3]) * z[:, :1]], 1
    )


def z_scores(moved, fresh):
    error = np.sqrt(moved.var(0) / len(moved) + fresh.var(0) / len(fresh))
    return np.abs(moved.mean(0) - fresh.mean(0)) / error


@pytest.mark.parametrize("exact", [False, True])
def test_moves_of_cells_keep_the_joint_law(exact):
    """24 z-scores: the chance that the largest passes 4 is below .2%."""
    assert geweke(exact=exact, num=4000, rounds=3) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_moves_of_cells_keep_the_joint_law_for_long(exact):
    assert geweke(exact=exact, num=40_000, rounds=6) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("bug", [HalfOfTheCells, EndsNotCorrected, MarginForgotten])
def test_planted_bugs_in_moves_are_caught(bug):
    assert geweke(bug, num=20_000) > LIMIT + 1.0


@pytest.mark.slow
@pytest.mark.usefixtures("short_window")
def test_a_window_one_short_is_caught():
    assert geweke(num=20_000) > LIMIT + 1.0


# Calibration --------------------------------------------------------------------------------------


def log_complete(theta, observed):
    """About the log likelihood: each sum normal by itself."""
    mean = np.exp(theta[..., :1] + theta[..., 1:] * X) @ SUMS.T
    return (-0.5 * (observed - mean) ** 2 / (mean + 4.0) - 0.5 * np.log(mean + 4.0)).sum(axis=-1)


def calibrated(kind=CountTarget, num=500):
    chains = ManyCounts(model(), target_of(model(), kind))
    trials = draw_trials(KEY, chains, model(), num, num_draws=100, progress=False)
    return calibrate(KEY, trials, quantities={"log likelihood": log_complete}, alpha=0.05)


@pytest.mark.slow
def test_chains_are_calibrated(record_property):
    found = calibrated()
    record_property("calibration", found.to_spec())
    assert found.passed, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [HalfOfTheCells, MarginForgotten])
def test_chains_with_planted_bugs_are_not_calibrated(bug):
    assert not calibrated(bug).passed


# A geography --------------------------------------------------------------------------------------

STATES, COUNTIES, NOISE = 5, 20, 6.0
PEOPLE = np.tile(np.exp(np.linspace(1.5, 4.5, COUNTIES)), STATES)


def county_counts(theta):
    return dist.GammaPoisson(theta["shape"], theta["shape"] / (theta["rate"] * PEOPLE))


def geography():
    counties = np.eye(STATES * COUNTIES, dtype=int)
    states = np.kron(np.eye(STATES, dtype=int), np.ones((1, COUNTIES), int))
    return nw.PrivateModel(
        prior=nw.Prior({"rate": dist.LogNormal(0.0, 0.4), "shape": dist.LogNormal(1.0, 0.5)}),
        simulator=StatisticLaw(county_counts, sums=np.concatenate([counties, states])),
        mechanism=nw.mechanisms.DiscreteGaussian(scale=NOISE),
    )


def county_intervals(num, **settings):
    """Coverage of 90% intervals by randomised ranks, their mean width, and that of intervals by the
    noise of each county alone.
    """
    made, num_cells = geography(), STATES * COUNTIES
    theta = made.prior.sample(KEY, num)
    s = made.statistics(jax.random.fold_in(KEY, 1), theta)
    observed = made.mechanism.sample(jax.random.fold_in(KEY, 2), s)
    _, draws = ManyCounts(made, target_of(made), **settings).draws(KEY, observed)
    truth, rng = s[:, None, :num_cells], np.random.default_rng(0)
    below, same = (draws < truth).sum(axis=1), (draws == truth).sum(axis=1)
    place = (below + rng.random(below.shape) * (same + 1)) / (draws.shape[1] + 1)
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    return np.mean((place > 0.05) & (place < 0.95)), np.mean(high - low), 2 * 1.645 * NOISE


@pytest.mark.slow
def test_county_intervals_cover(record_property):
    """20,000 intervals: the standard error is .002 if they were independent; counties of a data set
    share two parameters, which hardly matter.
    """
    coverage, width, by_noise = county_intervals(200, tuning=3, stepping=1, drawing=4, thin=4)
    record_property("coverage", coverage)
    assert 0.885 <= coverage <= 0.915
    assert width < by_noise
