"""Pseudo-marginal chains: the kernel keeps the joint law, the noise of estimates is told, and
budgets are kept.
"""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import noisewise as nw
from noisewise import errors
from noisewise.inference.exact import pseudo_marginal as kernel
from noisewise.inference.exact.centred_prior import CentredPrior, centred_prior
from noisewise.inference.exact.pilot import variance_of_estimates
from noisewise.inference.exact.pseudo_marginal_mcmc import PseudoMarginalMCMC
from noisewise.problems.gaussian_mean import PRIOR_SD, _law_of_mean
from tests.inference.test_agreement import disagreements
from tests.inference.test_kernels import LIMIT, moments, normal_model, z_scores

KEY = jax.random.key(8)


def infer(method, problem, **more):
    return method.infer(KEY, problem.model, problem.observed, progress=False, **more)


# The kernel ---------------------------------------------------------------------------------------


def target_of(model, s_dp=None):
    """The target of chains with an observation each, (C, k')."""

    def simulate(keys, theta):
        s = model.statistics(keys.reshape(-1, 2), np.repeat(theta, keys.shape[1], axis=0))
        return s.reshape(*keys.shape[:2], -1)

    return kernel.PseudoMarginalTarget(
        CentredPrior(model.prior), simulate, lambda s: model.mechanism.log_prob(s_dp[:, None], s)
    )


def noisy(model, key, state):
    """s_dp given the chains, and what the mechanism has seen: any of the M statistics, with the
    same chance.
    """
    chosen = np.random.default_rng(int(jax.random.bits(key))).integers(
        state.s.shape[1], size=len(state.z)
    )
    s = state.s[np.arange(len(chosen)), chosen]
    return model.mechanism.sample(key, s), s


def functions(state, s, s_dp):
    """Moments with the mean of all M statistics, and with one."""
    return np.concatenate(
        [moments(state.z, state.s.mean(1), s_dp), moments(state.z, s, s_dp)], axis=1
    )


def small_model(scale=0.12):
    """Noise that is narrow beside the spread of s, so that keys matter, and not so narrow that
    nothing moves.
    """
    return normal_model().with_mechanism(nw.mechanisms.Laplace(scale=scale))


def geweke(num_blocks=2, *, believed=None, num=20_000, num_inner=2, rounds=3, moves=12, seed=0):
    """The largest z-score after rounds of noise and moves from `num` exact joint draws, against as
    many fresh ones.

    The joint law is pi(theta) p(u) 1/M sum_j eta(s_dp | s_j). `believed` is the model that the
    kernel knows.
    """
    model, rng = small_model(), np.random.default_rng(seed)
    believed = believed or model
    z = model.prior.unconstrain(model.prior.sample(jax.random.key(seed), 2 * num))
    keys, nothing = kernel.fresh_keys(rng, 2 * num, num_inner), np.zeros((2 * num, num_inner))
    s = target_of(model).simulate(keys, model.prior.constrain(z))
    start = kernel.PseudoMarginalState(
        z, kernel.log_prior_of(CentredPrior(model.prior), z), keys, s, nothing, nothing[:, 0]
    )
    state, fresh = (
        kernel.PseudoMarginalState(*(part[rows] for part in start))
        for rows in (slice(num), slice(num, None))
    )
    for number in range(rounds):
        s_dp, _ = noisy(model, jax.random.fold_in(KEY, number), state)
        target = target_of(believed, s_dp)
        log_eta = target.log_eta(state.s)
        state = state._replace(log_eta=log_eta, log_likelihood=kernel.log_mean_exp(log_eta))
        for _ in range(moves):
            steps = 0.5 * z.std(0) * rng.normal(size=state.z.shape)
            state, _ = kernel.move(rng, target, state, steps, num_blocks)
    new, seen = noisy(model, jax.random.fold_in(KEY, 99), fresh)
    drawn = kernel.drawn_statistics(rng, state)
    return z_scores(functions(state, drawn, s_dp), functions(fresh, seen, new)).max()


@pytest.mark.parametrize("num_blocks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_moves_keep_the_joint_law(num_blocks):
    """Sixteen z-scores: the chance that the largest passes 4 is below .1%."""
    assert geweke(num_blocks, num=8000) < LIMIT


def estimated_again(rng, target, state, steps, num_blocks, move=kernel.move):
    keys = kernel.fresh_keys(rng, *state.keys.shape[:2])
    return move(rng, target, target.at(state.z, keys, state.z), steps, num_blocks)


def keys_kept_on_rejection(accepted, proposed, state, merged=kernel.merged):
    state, accepted = merged(accepted, proposed, state)
    return state._replace(keys=proposed.keys), accepted


def statistics_at_random(rng, state):
    return state.s[np.arange(len(state.s)), rng.integers(state.s.shape[1], size=len(state.s))]


BUGS = {
    "L-hat estimated again for the current state": ("move", estimated_again),
    "no prior": ("log_prior_of", lambda prior, z: np.zeros(len(z))),
    "no Jacobian": ("log_prior_of", lambda prior, z: prior.prior.log_prob(prior.constrain(z))),
    "largest instead of mean": ("log_mean_exp", lambda log_eta: log_eta.max(axis=-1)),
    "mean of logarithms": ("log_mean_exp", lambda log_eta: log_eta.mean(axis=-1)),
    "keys not restored on rejection": ("merged", keys_kept_on_rejection),
    "statistic drawn without regard to eta": ("drawn_statistics", statistics_at_random),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_caught(bug, monkeypatch):
    monkeypatch.setattr(kernel, *BUGS[bug])
    assert geweke() > LIMIT + 1.0


@pytest.mark.slow
def test_noise_taken_ten_per_cent_too_narrow_is_caught():
    assert geweke(believed=small_model(0.9 * 0.12)) > LIMIT + 1.0


@pytest.mark.slow
@pytest.mark.parametrize("num_blocks", [1, 2])
def test_moves_keep_the_joint_law_of_more_draws(num_blocks):
    assert geweke(num_blocks, num=40_000, seed=1) < LIMIT


@pytest.mark.parametrize("bug", ["L-hat estimated again for the current state", "no Jacobian"])
def test_gross_bugs_are_caught_at_once(bug, monkeypatch):
    monkeypatch.setattr(kernel, *BUGS[bug])
    assert geweke(num=3000) > LIMIT + 1.0


def run_chains(num_blocks, num_chains=40, num_inner=4, moves=10):
    model, rng = small_model(), np.random.default_rng(0)
    target = target_of(model, np.full((num_chains, 1), 0.4))
    z = model.prior.unconstrain(model.prior.sample(KEY, num_chains))
    state, shares = target.at(z, kernel.fresh_keys(rng, num_chains, num_inner), z), []
    for _ in range(moves):
        state, accepted = kernel.move(
            rng, target, state, 0.3 * rng.normal(size=z.shape), num_blocks
        )
        shares.append(accepted.mean())
    return target, state, np.mean(shares)


def test_a_state_is_what_its_keys_make_it(monkeypatch):
    """Bit for bit after ten moves, some accepted and some not."""
    target, state, share = run_chains(4)
    assert 0.05 < share < 0.95
    again = target.at(state.z, state.keys, state.z)
    for name, value in state._asdict().items():
        np.testing.assert_array_equal(value, getattr(again, name), err_msg=name)
    monkeypatch.setattr(kernel, "merged", keys_kept_on_rejection)
    target, state, _ = run_chains(4)
    assert not np.array_equal(target.at(state.z, state.keys, state.z).s, state.s)


@pytest.mark.parametrize(
    ("num_inner", "num_blocks", "renewed"), [(8, 1, {8}), (8, 4, {2}), (5, 2, {2, 3}), (1, 1, {1})]
)
def test_one_block_of_keys_is_drawn_anew(num_inner, num_blocks, renewed):
    """Blocks differ by one key at most, and all have the same chance: 2000 chains within 5 standard
    errors.
    """
    rng = np.random.default_rng(0)
    keys = kernel.fresh_keys(rng, 2000, num_inner)
    changed = (kernel.refreshed(rng, keys, num_blocks) != keys).any(axis=2)
    assert set(changed.sum(axis=1)) == renewed
    share = 1.0 / num_blocks
    assert (np.abs(changed.mean(axis=0) - share) <= 5 * np.sqrt(share * (1 - share) / 2000)).all()


def test_off_the_support_nothing_is_accepted_and_nothing_breaks():
    """Steps that overflow, and simulations that fail."""
    target, state, _ = run_chains(1, moves=1)
    steps = np.full(state.z.shape, 1e4)
    after, accepted = kernel.move(np.random.default_rng(0), target, state, steps, 1)
    assert not accepted.any()
    np.testing.assert_array_equal(after.z, state.z)
    failing = target._replace(log_eta=lambda s: np.full(s.shape[:2], -np.inf))
    _, accepted = kernel.move(np.random.default_rng(0), failing, state, 0.1 * steps / 1e4, 1)
    assert not accepted.any()


# The number of simulations per estimate -----------------------------------------------------------


@pytest.mark.parametrize("variance", [0.1, 1.0, 2.0])
def test_variance_of_normal_logarithms(variance):
    """400 places of 64 estimates: within 15%, most of which is the bias of a ratio."""
    log_eta = np.random.default_rng(1).normal(0.0, np.sqrt(variance), size=(400, 64))
    assert variance_of_estimates(log_eta, 1) == pytest.approx(variance, rel=0.15)


def test_estimates_near_zero_count_for_little():
    """A tenth of the simulations have density 0, or nearly: their variance is huge, but they only
    cost a tenth of all moves.
    """
    rng = np.random.default_rng(1)
    log_eta = rng.normal(size=(400, 64))
    for nothing in (-5000.0, -np.inf):
        spoilt = np.where(rng.random(log_eta.shape) < 0.1, nothing, log_eta)
        assert 1.0 < variance_of_estimates(spoilt, 1) < 1.5
    assert variance_of_estimates(np.full((4, 8), -np.inf), 2) == np.inf


# The method ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_blocks", "least"),
    [(1, 150), *(pytest.param(num, 800, marks=pytest.mark.slow) for num in (1, 4))],
)
def test_chains_agree_with_quadrature(num_blocks, least):
    """Of `least` effective draws: means within 4 standard errors, sds within 4 of theirs; s lies where
    the mechanism puts it.
    """
    problem = nw.problems.gaussian_mean(1.0)
    method = PseudoMarginalMCMC(
        num_chains=16, num_warmup=100, target_ess=least, num_inner=4, num_blocks=num_blocks
    )
    posterior = infer(method, problem)
    exact, table, size = (
        problem.reference(KEY, 20_000),
        posterior.summary().loc["mean"],
        posterior.effective_size,
    )
    assert size > 7 / 8 * least
    assert abs(table["mean"] - exact.mean()) < 4 * exact.std() / np.sqrt(size)
    assert abs(np.log(table["sd"] / exact.std())) < 4 * np.sqrt(0.5 / size)
    assert posterior.report.exact
    assert posterior.report.stopped == "finished"
    diagnostics = posterior.report.diagnostics
    assert 0.1 < diagnostics["acceptance"] < 0.6
    assert diagnostics["num_inner"] == 4
    assert 2.0 < diagnostics["1 + rv"] < 8.0
    mean, sd = posterior_of_statistic(problem)
    assert abs(posterior.statistics.mean() - mean) < 4 * sd / np.sqrt(size)
    assert abs(np.log(posterior.statistics.std() / sd)) < 4 * np.sqrt(0.5 / size)


def posterior_of_statistic(problem):
    """The mean and sd of p(s | s_dp), by sums over all values of s and a grid of theta."""
    grid = np.linspace(-8.0, 8.0, 800)
    values, law = _law_of_mean(problem.model.query, grid)
    weights = (
        norm.pdf(grid, 0.0, PRIOR_SD)
        @ law
        * np.exp(problem.model.log_prob_observed(problem.observed, values[:, None]))
    )
    mean = weights @ values / weights.sum()
    return mean, np.sqrt(weights @ (values - mean) ** 2 / weights.sum())


@pytest.mark.slow
def test_the_clock_leaves_no_trace():
    """A time budget that is not spent divides the work but changes no bit of it."""
    problem, settings = (
        nw.problems.gaussian_mean(1.0),
        {"num_chains": 4, "num_warmup": 20, "target_ess": 20, "num_inner": 2},
    )
    posterior = infer(PseudoMarginalMCMC(**settings), problem)
    timed = infer(PseudoMarginalMCMC(**settings, max_minutes=10.0), problem)
    np.testing.assert_array_equal(timed.theta, posterior.theta)
    np.testing.assert_array_equal(timed.statistics, posterior.statistics)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "least", "most"), [(0.1, 1, 1), (10.0, 4, 32)])
def test_simulations_follow_the_noise(epsilon, least, most):
    """M is chosen, larger where epsilon is: 1 + rv is 1.04 and 30."""
    method = PseudoMarginalMCMC(num_chains=4, num_warmup=50, target_ess=50)
    told = infer(method, nw.problems.gaussian_mean(epsilon)).report.diagnostics
    assert least <= told["num_inner"] <= most
    assert told["variance of log L-hat"] < 2.0


@pytest.mark.parametrize(
    ("budget", "kind", "told"),
    [
        (1, "WeightedSamples", "before the chains"),
        (10, "WeightedSamples", "before the chains"),
        (2000, "Draws", "not settled"),
    ],
)
def test_small_budgets_end_with_what_there_is(budget, kind, told):
    posterior = infer(PseudoMarginalMCMC(max_simulations=budget), nw.problems.gaussian_mean(1.0))
    assert type(posterior).__name__ == kind
    assert posterior.report.num_simulations <= budget
    assert f"the budget of {budget:,} simulations is spent" in posterior.report.stopped
    assert any(told in text for text in posterior.report.warnings)


@pytest.mark.slow
def test_chains_that_end_in_their_warm_up_say_so():
    posterior = infer(
        PseudoMarginalMCMC(num_warmup=10**6, max_minutes=0.05), nw.problems.gaussian_mean(1.0)
    )
    assert posterior.report.stopped == "the time budget is spent"
    assert any("warm-up" in text for text in posterior.report.warnings)
    assert not posterior.report.exact


def failing_model(share):
    """A simulator that fails in a share of all cases."""

    def draw(key, theta):
        fails = jax.random.uniform(jax.random.fold_in(key, 1)) < share
        return jax.numpy.where(fails, jax.numpy.nan, theta + jax.random.normal(key, (4, 1)))

    problem = nw.problems.gaussian_mean(1.0)
    simulator, query = nw.simulators.JaxSimulator(draw), lambda x: x.mean(0)
    return nw.PrivateModel(
        prior=problem.model.prior,
        simulator=simulator,
        query=query,
        mechanism=nw.mechanisms.Laplace(scale=0.5),
    )


@pytest.mark.slow
def test_failed_simulations_are_estimates_of_zero():
    """If all fail, the prior is all there is; if a third do, whatever theta, the posterior is what
    it would be without.
    """
    method = PseudoMarginalMCMC(num_chains=10, num_warmup=100, target_ess=500)
    nothing = method.infer(KEY, failing_model(1.1), [0.3], progress=False)
    assert not nothing.report.exact
    assert any("draws from the prior" in text for text in nothing.report.warnings)
    some, none = (
        method.infer(KEY, failing_model(share), [0.3], progress=False) for share in (0.33, -1.0)
    )
    assert 0.2 < some.report.num_failed / some.report.num_simulations < 0.4
    error = none.theta.std() * np.sqrt(1 / some.effective_size + 1 / none.effective_size)
    assert abs(some.theta.mean() - none.theta.mean()) < 4 * error


@pytest.mark.slow
def test_blocks_do_not_change_the_answer():
    problem = nw.problems.linear_regression(10.0)
    posterior = infer(PseudoMarginalMCMC(num_inner=4, num_blocks=4), problem)
    assert disagreements(problem, posterior) == {}, str(posterior.report)
    assert posterior.effective_size > 4000


BAD = [
    (lambda: PseudoMarginalMCMC(num_chains=1), errors.InvalidInputError, "num_chains"),
    (lambda: PseudoMarginalMCMC(num_inner=0), errors.InvalidInputError, "num_inner"),
    (
        lambda: PseudoMarginalMCMC(num_inner=2, num_blocks=3),
        errors.InvalidInputError,
        "at most num_inner = 2",
    ),
    (lambda: PseudoMarginalMCMC(num_blocks=0), errors.InvalidInputError, "num_blocks"),
    (lambda: PseudoMarginalMCMC(target_ess=0.5), errors.InvalidTypeError, "target_ess"),
    (lambda: PseudoMarginalMCMC(max_sweeps=None), errors.InvalidTypeError, "max_sweeps"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_settings_are_refused(number):
    call, kind, message = BAD[number]
    with pytest.raises(kind, match=message):
        call()


def test_a_mechanism_without_density_is_refused_with_what_would_work():
    problem = nw.problems.gaussian_mean(1.0)
    sampled = nw.mechanisms.SampledMechanism(lambda key, s: s + jax.random.laplace(key, s.shape))
    with pytest.raises(errors.MissingCapabilityError, match="Use SMCABC"):
        PseudoMarginalMCMC().infer(KEY, problem.model.with_mechanism(sampled), [0.1])


# Hierarchies --------------------------------------------------------------------------------------


HIERARCHY = nw.Prior(
    {
        "mu": dist.Normal(0, 1),
        "tau": dist.HalfNormal(1),
        "effect": lambda mu, tau: dist.Normal(mu, tau).expand([3]),
    }
)


def posterior_draws(sd, num):
    """Exact draws of z given s_j ~ N(effect_j, sd_j^2) at .5, from many of the prior."""
    z = HIERARCHY.unconstrain(HIERARCHY.sample(KEY, 400_000))
    log_weights = -0.5 * (((0.5 - z[:, 2:]) / sd) ** 2).sum(axis=1)
    rows = np.random.default_rng(0).random(len(z)) < np.exp(log_weights - log_weights.max())
    return z[rows][:num]


def test_shares_are_those_that_draws_show():
    """1 - c = tau^2 / (1 + I tau^2), over tau^2, within .06: 1,500 draws know it to .04."""
    sd = np.array([0.2, 0.7, 3.0])
    z = posterior_draws(sd, 3000)
    (shares,) = centred_prior(HIERARCHY, z, np.full(len(z), 1 / len(z))).shares
    low, high = np.quantile(z[:, 1], [0.25, 0.75])
    squares = np.exp(2.0 * z[(z[:, 1] > low) & (z[:, 1] < high), 1:2])
    left = (squares / (1.0 + squares / sd**2)).mean(axis=0) / squares.mean()
    np.testing.assert_allclose(shares, 1.0 - left, atol=0.06)


def test_coordinates_of_effects_go_back_with_their_jacobian():
    shares = (np.array([0.2, 0.5, 0.9]),)
    centred, z = CentredPrior(HIERARCHY, shares), posterior_draws(np.ones(3), 5)
    w = centred.from_z(z)
    np.testing.assert_allclose(centred.constrain(w), HIERARCHY.constrain(z), rtol=1e-12)
    jacobian = (1.0 - shares[0]).sum() * z[:, 1]
    expected = HIERARCHY.log_prob_unconstrained(z) + jacobian
    np.testing.assert_allclose(centred.log_prob(w), expected, rtol=1e-12)
    plain = CentredPrior(HIERARCHY)
    np.testing.assert_array_equal(plain.from_z(z), z)
    np.testing.assert_allclose(plain.log_prob(z), HIERARCHY.log_prob_unconstrained(z), rtol=1e-12)


def test_too_few_draws_show_no_shares():
    z = posterior_draws(np.ones(3), 50)
    (shares,) = centred_prior(HIERARCHY, z, np.full(len(z), 1 / len(z))).shares
    assert (shares == 0.5).all()
