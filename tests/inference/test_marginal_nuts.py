"""Chains on the exact law of what was released, against sums over the confidential counts."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import noisewise as nw
from noisewise import errors
from noisewise.inference.marginal import chains
from noisewise.posteriors import Kind
from noisewise.simulators import JaxSimulator, PythonSimulator, StatisticLaw

KEY = jax.random.key(5)
SHAPE, RATE = 2.0, 0.1
NOISE = nw.mechanisms.Thresholded(nw.mechanisms.DiscreteLaplace(scale=3.0), above=10.0)
OBSERVED = np.array([24.0, np.nan, 61.0])
S = np.arange(400.0)


def model(law=lambda theta: dist.Poisson(theta["rate"]), mechanism=NOISE, **more):
    prior = nw.Prior({"rate": dist.Gamma(SHAPE, RATE).expand([3])})
    return nw.PrivateModel(prior=prior, simulator=StatisticLaw(law), mechanism=mechanism, **more)


@pytest.fixture(scope="module")
def posterior():
    method = nw.inference.MarginalNUTS(num_warmup=200, target_ess=1000)
    return method.infer(KEY, model(), OBSERVED, progress=False)


def exact_counts():
    """p(s_j | y) of each cell: s is negative binomial before its noise."""
    prior = scipy.stats.nbinom.pmf(S, SHAPE, RATE / (1.0 + RATE))
    noise = np.exp(
        NOISE.log_prob(np.broadcast_to(OBSERVED[:, None, None], (3, len(S), 1)), S[:, None])
    )
    joint = prior * noise
    return joint / joint.sum(1, keepdims=True)


def ks(draws, weights, cdf):
    """KS distance of draws from a mixture over s."""
    values = np.sort(draws)
    exact = weights @ cdf(values)
    steps = np.arange(len(values) + 1) / len(values)
    return max(np.abs(exact - steps[1:]).max(), np.abs(exact - steps[:-1]).max())


def test_rates_follow_the_enumerated_posterior(posterior):
    """KS of 1,000 effective draws exceeds .062 with probability .001."""
    assert posterior.report.exact
    assert posterior.report.num_simulations == 0
    for draws, weights in zip(posterior.theta.T, exact_counts(), strict=True):
        assert (
            ks(
                draws,
                weights,
                lambda x: scipy.stats.gamma.cdf(x, SHAPE + S[:, None], scale=1 / (1 + RATE)),
            )
            < 0.062
        )


def test_confidential_counts_come_with_the_draws(posterior):
    counts = posterior.confidential_statistics
    assert counts.shape == posterior.theta.shape
    for column, weights in zip(counts.T, exact_counts(), strict=True):
        assert (column == np.round(column)).all()
        found = np.cumsum(np.bincount(column.astype(int), minlength=len(S))) / len(column)
        assert np.abs(found - np.cumsum(weights)).max() < 0.062


def test_a_likelihood_without_the_noise_is_caught(posterior):
    """The gate fails for counts that are taken as they were released."""
    seen = scipy.stats.gamma(SHAPE + OBSERVED[0], scale=1 / (1 + RATE)).rvs(4000, random_state=0)
    weights = exact_counts()[0]
    assert (
        ks(
            seen,
            weights,
            lambda x: scipy.stats.gamma.cdf(x, SHAPE + S[:, None], scale=1 / (1 + RATE)),
        )
        > 0.062
    )


def test_infer_takes_this_route(posterior):
    found = nw.infer(KEY, model(), OBSERVED, progress=False)
    assert found.report.diagnostics["route"] == "nuts"
    assert found.report.exact


def test_a_resumed_run_is_the_same_to_the_last_bit(tmp_path):
    method = nw.inference.MarginalNUTS(num_warmup=200, target_ess=1000)
    first = method.infer(KEY, model(), OBSERVED, run_dir=tmp_path / "run", progress=False)
    for file in (tmp_path / "run" / "posterior").iterdir():
        file.unlink()
    again = method.infer(KEY, model(), OBSERVED, run_dir=tmp_path / "run", progress=False)
    np.testing.assert_array_equal(first.theta, again.theta)
    np.testing.assert_array_equal(first.statistics, again.statistics)


def test_a_total_beside_its_cells_is_warned_of():
    noise = nw.mechanisms.Product(
        [nw.mechanisms.DiscreteLaplace(scale=3.0), nw.mechanisms.Exact()], widths=[2, 1]
    )
    method = nw.inference.MarginalNUTS(num_warmup=60, target_ess=20, num_chains=2)
    found = method.infer(KEY, model(mechanism=noise), [10.0, 20.0, 30.0], progress=False)
    assert found.report.found(Kind.EXACT_NUMBERS_INDEPENDENT)


def test_every_method_simulates_from_the_law():
    theta = np.array([[5.0, 50.0, 500.0]]).repeat(2000, 0)
    s = model().statistics(KEY, theta)
    assert (np.abs(s.mean(0) - theta[0]) < 4 * np.sqrt(theta[0] / 2000)).all()
    np.testing.assert_array_equal(model().statistics(KEY, theta[:3]), s[:3])


def test_effects_are_found_in_priors():
    from noisewise.priors.effects import effects_of

    prior = nw.Prior(
        {
            "mu": dist.Normal(0, 1),
            "tau": dist.HalfNormal(1),
            "a": lambda mu, tau: dist.Normal(mu, tau).expand([2]),
            "b": lambda tau: dist.LogNormal(0.5, tau).expand([2]),
            "t": lambda tau: dist.StudentT(4.0, 1.0, tau),
            "w": lambda tau: dist.GaussianRandomWalk(tau, num_steps=3),
            "c": lambda mu: dist.Gamma(2.0, jnp.exp(mu)),
        }
    )
    found = {effects.name: effects for effects in effects_of(prior)}
    assert list(found) == ["a", "b", "t", "w"]
    assert found["w"].increments
    z = jnp.asarray(prior.unconstrain(prior.sample(KEY, 1))[0])
    with jax.enable_x64(True):
        for name, effects in found.items():
            loc, scale = (
                np.broadcast_to(part, len(effects.columns))
                for part in effects.law(jnp.asarray(z, jnp.float64))
            )
            e = np.asarray(z)[list(effects.columns)]
            steps = np.diff(e, prepend=0.0) if effects.increments else e
            law = float(
                np.sum(effects.log_density(jnp.asarray((steps - loc) / scale)) - np.log(scale))
            )
            whole = prior.only([n for n in prior.distributions if n in ("mu", "tau", name)])
            rest = prior.only(["mu", "tau"])
            kept = [0, 1, *effects.columns]
            expected = whole.log_prob_unconstrained(
                np.asarray(z)[kept]
            ) - rest.log_prob_unconstrained(np.asarray(z)[:2])
            assert law == pytest.approx(float(expected), abs=1e-9)


# By name ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["jax", "python"])
def test_simulators_read_parameters_by_name(kind):
    prior = nw.Prior({"mu": dist.Normal(0, 1), "rate": dist.Gamma(2.0, 1.0).expand([2])})
    simulator = (
        JaxSimulator(
            lambda key, theta: theta["rate"] + theta["mu"] + 0 * jax.random.normal(key), named=True
        )
        if kind == "jax"
        else PythonSimulator(
            lambda rng, theta: theta["rate"] + theta["mu"] + 0 * rng.normal(), named=True
        )
    )
    with pytest.raises(errors.NoisewiseError, match=r"nw\.PrivateModel"):
        simulator.statistics(KEY, np.ones((1, 3)), lambda x: x)
    built = nw.PrivateModel(prior=prior, simulator=simulator, query=lambda x: x, mechanism=NOISE)
    np.testing.assert_allclose(built.statistics(KEY, [[1.0, 2.0, 3.0]]), [[3.0, 4.0]])


@pytest.mark.parametrize(
    ("law", "kind", "message"),
    [
        (lambda theta: dist.Poisson(theta["rat"]), errors.InvalidInputError, "Did you mean 'rate'"),
        (lambda theta: dist.Poisson(theta[0]), errors.InvalidInputError, "by name"),
        (lambda theta: theta["rate"], errors.InvalidTypeError, "must be a numpyro distribution"),
        (lambda theta: dist.Poisson(np.exp(theta["rate"])), errors.SimulationError, r"jax\.numpy"),
        (lambda theta: dist.Poisson(jnp.ones((2, 2))), errors.InvalidInputError, "one axis of k"),
    ],
)
def test_laws_are_checked_when_the_model_is_built(law, kind, message):
    with pytest.raises(kind, match=message):
        model(law)


def test_models_without_a_route_are_refused():
    method = nw.inference.MarginalNUTS()
    gamma = model(
        lambda theta: dist.MultivariateNormal(theta["rate"], jnp.eye(3)),
        nw.mechanisms.Laplace(scale=1.0),
    )
    with pytest.raises(errors.MissingCapabilityError, match="No sum or integral is known"):
        method.infer(KEY, gamma, [1.0, 2.0, 3.0])
    black_box = nw.PrivateModel(
        prior=nw.Prior({"mu": dist.Normal(0, 1)}),
        simulator=JaxSimulator(lambda key, theta: theta + jax.random.normal(key)),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
    )
    with pytest.raises(errors.MissingCapabilityError, match="StatisticLaw"):
        method.infer(KEY, black_box, [1.0])


def test_an_edited_law_is_noticed_on_resuming(tmp_path):
    method = nw.inference.MarginalNUTS(num_warmup=200, target_ess=1000)
    method.infer(KEY, model(), OBSERVED, run_dir=tmp_path / "run", progress=False)
    edited = model(lambda theta: dist.Poisson(10.0 * theta["rate"]))
    with pytest.raises(errors.ResumeError):
        method.infer(KEY, edited, OBSERVED, run_dir=tmp_path / "run", progress=False)


def test_a_law_of_another_width_is_refused_when_the_model_is_built():
    with pytest.raises(errors.InvalidInputError, match="gives 3 numbers, but the Laplace has 2"):
        model(mechanism=nw.mechanisms.Laplace(scale=[1.0, 2.0]))


@pytest.mark.slow
@pytest.mark.parametrize("halvings", [3, 0])
def test_steps_are_halved_where_a_spread_may_be_near_zero(halvings, monkeypatch):
    """Four districts, one of them suppressed. Planted: steps that stay as they are."""
    monkeypatch.setattr(chains, "_MOST_HALVINGS", halvings)
    people = jnp.array([2100, 4900, 11200, 20800])
    model = nw.PrivateModel(
        prior=nw.Prior(
            {
                "mean": dist.Normal(-5, 1),
                "spread": dist.HalfNormal(0.5),
                "log_rate": lambda mean, spread: dist.Normal(mean, spread).expand([4]),
            }
        ),
        simulator=nw.simulators.StatisticLaw(
            lambda theta: dist.Poisson(people * jnp.exp(theta["log_rate"]))
        ),
        mechanism=nw.mechanisms.Thresholded(nw.mechanisms.DiscreteLaplace(scale=4.0), above=20.0),
    )
    released = [np.nan, 31.0, 90.0, 174.0]
    posterior = nw.inference.MarginalNUTS(target_ess=400).infer(1, model, released, progress=False)
    share = posterior.report.diagnostics["divergent"] / len(posterior.theta)
    assert (share < 0.01) == (halvings > 0)
    assert posterior.report.exact == (halvings > 0)
