"""When chains may be believed."""

import arviz
import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.inference.contract.chains import Trace

KEY = jax.random.key(4)


def trace_of(theta, target=400):
    trace = Trace(target)
    trace.add(theta=theta, s=theta)
    return trace


def test_independent_draws_are_complete():
    rng = np.random.default_rng(0)
    assert trace_of(rng.normal(size=(200, 16, 2))).complete()


def test_many_chains_on_their_way_from_a_wide_start_are_not_settled():
    """600 autoregressive chains, started three times too wide: R-hat 1.2, yet no more than the
    number of chains explains,

    sqrt(1 + 2 C / ESS); a rule that allowed for as much would believe them.
    """
    rng = np.random.default_rng(0)
    theta = [3.0 * rng.normal(size=(600, 1))]
    for _ in range(49):
        theta.append(0.8 * theta[-1] + 0.6 * rng.normal(size=(600, 1)))
    trace = trace_of(np.stack(theta))
    assert not trace.complete()
    assert trace.effective_size > 400
    assert trace.r_hat < np.sqrt(1 + 2 * 600 / trace.effective_size)
    assert not trace.settled


def test_one_parameter_that_is_not_a_number_is_not_overlooked():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(200, 8, 3))
    theta[:, :, 1] = np.nan
    trace = trace_of(theta)
    assert not trace.complete()
    assert np.isinf(trace.r_hat)
    assert trace.effective_size == 0.0


def slow_scale(rng, sweeps=400, chains=16):
    """Draws of a scale that changes slowly, with independent signs: their mean is known well, their
    sd and tails are not.
    """
    log_scale = [rng.normal(size=(chains, 1))]
    for _ in range(sweeps - 1):
        log_scale.append(0.98 * log_scale[-1] + np.sqrt(1 - 0.98**2) * rng.normal(size=(chains, 1)))
    return np.exp(0.7 * np.stack(log_scale)) * rng.normal(size=(sweeps, chains, 1))


def test_effective_draws_hold_for_standard_deviations():
    """Planted: by the bulk effective size alone, that of ranks, these chains would be done."""
    trace = trace_of(slow_scale(np.random.default_rng(0)), target=2000)
    assert arviz.ess(np.concatenate(trace._parts["theta"])[..., 0].T, method="bulk") > 4000
    assert not trace.complete()
    assert trace.effective_size < 1000


def test_chains_whose_tails_are_unknown_are_not_exact():
    """Planted: a mean and an sd known from 400 draws, tails from 100 at most."""
    trace = trace_of(np.random.default_rng(0).normal(size=(200, 16, 2)))
    trace.look()
    assert trace.exact
    trace.tail_size = 99.0
    assert trace.settled
    assert trace.effective_size > 400
    assert not trace.exact


@pytest.mark.slow
def test_chains_leave_a_start_that_cannot_be():
    """Noise uniform on +-.2 around a mean of 20 records: most starts from the prior have density
    zero, and must find their way.

    The posterior is that of a normal mean known within .2 of 1: sd below .35, where chains that
    stay behind gave more than 1.
    """
    import jax.numpy as jnp
    import numpyro.distributions as dist

    uniform = nw.mechanisms.DensityMechanism(
        lambda s_dp, s: jnp.where(jnp.abs(s_dp - s) <= 0.2, -jnp.log(0.4), -jnp.inf).sum(-1)
    )
    model = nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Normal(0.0, 1.5)}),
        simulator=nw.simulators.NormalRecords(num_records=20, prior_variance=2.25),
        query=nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=20),
        mechanism=uniform,
    )
    method = nw.inference.DataAugmentationMCMC(num_chains=16, num_warmup=200, target_ess=400)
    posterior = method.infer(KEY, model, [1.0], progress=False)
    row = posterior.summary().iloc[0]
    assert row["mean"] == pytest.approx(1.0, abs=0.1)
    assert row["sd"] < 0.35


def test_a_wrong_inverse_of_records_is_refused():
    class Wrong(nw.simulators.AbstractRecordModel):
        num_records = 5

        def record_noise(self, key):
            return jax.random.normal(key)

        def record(self, u, theta):
            return theta[0] + u

        def noise_of_record(self, key, x_i, theta):
            return x_i + theta[0]

        def log_prob_record(self, x_i, theta):
            return jax.scipy.stats.norm.logpdf(x_i, theta[0])

    problem = nw.problems.gaussian_mean(1.0)
    model = nw.PrivateModel(
        prior=problem.model.prior,
        simulator=Wrong(),
        query=nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=5),
        mechanism=problem.model.mechanism.__class__(scale=0.3),
    )
    with pytest.raises(errors.InvalidInputError, match="noise_of_record of Wrong"):
        nw.inference.DataAugmentationMCMC(num_chains=4).infer(KEY, model, [0.3], progress=False)


def test_a_folder_that_holds_a_posterior_is_kept(tmp_path):
    problem = nw.problems.gaussian_mean(1.0)
    method = nw.inference.NaivePlugIn(num_draws=10)
    method.infer(KEY, problem.model, problem.observed, progress=False).save(tmp_path / "run")
    with pytest.raises(errors.InvalidInputError, match="holds an archive and is kept"):
        method.infer(KEY, problem.model, problem.observed, run_dir=tmp_path / "run", progress=False)
