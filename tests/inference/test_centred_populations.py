"""Particles under a hierarchical prior: effects move by their shares, and the law is the same."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import noisewise as nw
from noisewise.inference.contract.effects import blocks_of
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common import sampling as module
from noisewise.inference.learned.common.populations import Populations
from noisewise.inference.learned.common.sampling import Sampling
from noisewise.samplers.hierarchies.centring import Centred

KEY = jax.random.key(3)
OBSERVED, SD = np.array([0.4, 0.2, 0.9, -0.3]), np.array([0.05, 0.3, 2.0, 2.0])
PRIOR = nw.Prior(
    {
        "mu": dist.Normal(0, 1),
        "tau": dist.HalfNormal(1),
        "effect": lambda mu, tau: dist.Normal(mu, tau).expand([4]),
    }
)


class LogPrior(eqx.Module):
    def __call__(self, z):
        return PRIOR.log_prob_unconstrained(z)


class LogPosterior(eqx.Module):
    """s_j ~ N(effect_j, sd_j^2), with one column of noise behind the parameters."""

    def __call__(self, z):
        data = -0.5 * jnp.sum(((OBSERVED - PRIOR.constrain(z[:6])[2:]) / SD) ** 2)
        return PRIOR.log_prob_unconstrained(z[:6]) + data


class Forgetful(Centred):
    """A planted bug: no Jacobian."""

    def __call__(self, w):
        return self.log_density(self.to_z(w))


def moments_of_log_tau():
    """Mean and sd, with mu and effects integrated out, on a grid."""
    log_tau = np.linspace(-9.0, 2.0, 2000)
    v = np.exp(2.0 * log_tau)[:, None] + SD**2
    precision = 1.0 + (1.0 / v).sum(axis=1)
    centre = (OBSERVED / v).sum(axis=1) / precision
    log_density = -0.5 * np.exp(2.0 * log_tau) + log_tau - 0.5 * np.log(v).sum(axis=1)
    log_density += 0.5 * precision * centre**2 - 0.5 * (OBSERVED**2 / v).sum(axis=1)
    log_density -= 0.5 * np.log(precision)
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ log_tau
    return mean, np.sqrt(weights @ (log_tau - mean) ** 2)


def a_run():
    return InferenceRun("sple", {}, nw.problems.gaussian_mean(1.0).model, np.zeros(1))


def drawn(blocks, **options):
    """Populations that were started, and measured."""

    def draw(key, num):
        return PRIOR.unconstrain(PRIOR.sample(key, num))

    numbers = {"num_chains": 512, "num_warmup": 10, "length": 10, "target_ess": 1000}
    found = Populations(Sampling(LogPosterior(), LogPrior(), draw, blocks=blocks, **numbers))
    found.start(KEY, a_run(), **options)
    found.look()
    return found


def error_of(found):
    """The error of the mean of log tau in its Monte Carlo errors."""
    mean, sd = moments_of_log_tau()
    return abs(found.chosen()[:, 1].mean() - mean) / (sd / np.sqrt(found.effective_size))


def test_effects_move_by_their_shares_to_the_same_law():
    """The mean of log tau within 5 Monte Carlo errors of quadrature. The effect with a sd of .05 is
    centred by it, those with a sd of 2 by the others; steps are longer than on effects as written.
    """
    found, plain = drawn(blocks_of(PRIOR)), drawn(())
    assert error_of(found) < 5
    assert error_of(plain) < 5
    (shares,) = found.sampling.shares
    assert shares[0] > 0.95
    assert 0.1 < shares[1] < 0.95
    assert (shares[2:] < 0.2).all()
    assert found._runs[0].tuning.step_size > 1.3 * plain._runs[0].tuning.step_size
    before = found.sampling.shares
    found.start(jax.random.fold_in(KEY, 1), a_run())
    assert found.sampling.shares is before, "they are sought once"
    assert error_of(found) < 5


def test_a_forgotten_jacobian_is_caught(monkeypatch):
    monkeypatch.setattr(module, "Centred", Forgetful)
    assert error_of(drawn(blocks_of(PRIOR))) > 10


def test_rows_go_there_and_back_with_more_columns_behind():
    """Noise behind the parameters, as CLE has, stays what it is."""
    found = drawn(blocks_of(PRIOR), finds_shares=False).sampling
    assert found.lacks_shares
    rows = np.random.default_rng(0).normal(size=(7, 3, 9))
    there = found.to_moved(rows)
    np.testing.assert_array_equal(there[..., [0, 1, 6, 7, 8]], rows[..., [0, 1, 6, 7, 8]])
    assert np.abs(there[..., 2:6] - rows[..., 2:6]).min() > 1e-6
    np.testing.assert_allclose(found.from_moved(there), rows, rtol=1e-12)
