"""Chains on whole cells, against sums over all tables."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import noisewise as nw
from noisewise.inference.marginal import count_augmentation, count_chains, count_target
from noisewise.samplers.chain_diagnostics import effective_draws
from noisewise.samplers.lattices.directions import directions_for
from noisewise.simulators import StatisticLaw

KEY = jax.random.key(3)
M = nw.mechanisms
LIMIT = 0.05
GRID = np.linspace(-4.0, 4.0, 161)
"""Values of theta ~ N(0, 1): steps of a twentieth of a posterior sd or so."""


def margins(rows, columns):
    """Cells, rows, columns and total of a table."""
    cells = np.eye(rows * columns, dtype=int)
    sums = cells.reshape(rows, columns, -1)
    return np.concatenate([cells, sums.sum(1), sums.sum(0), sums.sum((0, 1))[None]])


@dataclasses.dataclass(frozen=True)
class Case:
    """Cells with rates exp(base + theta slope), and the sums of them that are released.

    `law` is that of cells at rates; `most` ends the enumeration of each cell.
    """

    sums: np.ndarray
    mechanism: object
    observed: tuple
    base: tuple
    slope: tuple
    most: int
    known_total: int | None = None
    law: object = dist.Poisson

    def rates(self, theta, xp=np):
        return xp.exp(xp.asarray(self.base) + theta * xp.asarray(self.slope))

    def model(self):
        law = StatisticLaw(lambda theta: self.law(self.rates(theta["t"], jnp)), sums=self.sums)
        prior = nw.Prior({"t": dist.Normal(0.0, 1.0)})
        return nw.PrivateModel(prior=prior, simulator=law, mechanism=self.mechanism)

    def enumerated(self):
        """All tables (n, c), and the log of their joint probability with theta, (n, grid)."""
        tables = tables_of(self.sums.shape[1], self.most, self.known_total)
        exact = np.array(self.mechanism.noise_sd(len(self.observed)), float) == 0.0
        s = tables @ self.sums.T
        kept = (s[:, exact] == np.array(self.observed)[exact]).all(axis=1)
        tables, s = tables[kept], s[kept].astype(float)
        log_eta = self.mechanism.log_prob(np.array(self.observed), s)
        possible = log_eta > log_eta.max() - 40.0
        tables, log_eta = tables[possible], log_eta[possible]
        with jax.enable_x64(True):
            laws = np.stack([self.log_law(tables, theta) for theta in GRID], axis=1)
        joint = log_eta[:, None] + laws + scipy.stats.norm.logpdf(GRID)
        return tables, joint

    def log_law(self, tables, theta):
        if self.law is dist.Poisson:
            return scipy.stats.poisson.logpmf(tables, self.rates(theta)).sum(axis=1)
        return np.asarray(self.law(jnp.asarray(self.rates(theta))).log_prob(jnp.asarray(tables)))


def tables_of(num, most, total=None):
    """All cells from 0 to most, with a total where there is one."""
    found = np.zeros((1, 0), dtype=int)
    for _ in range(num):
        found = np.concatenate(
            [np.repeat(found, most + 1, 0), np.tile(np.arange(most + 1), len(found))[:, None]], 1
        )
        if total is not None:
            found = found[found.sum(axis=1) <= total]
    return found if total is None else found[found.sum(axis=1) == total]


def multinomial(rates):
    return dist.Multinomial(12, rates / rates.sum())


NOISE = M.DiscreteGaussian(scale=1.5)
ROWS = (1.0, 0.5, 0.8)
SLOPES = (1.0, -1.0, 0.5)
CASES = {
    "two cells and their total": Case(
        np.array([[1, 0], [0, 1], [1, 1]]), NOISE, (3, 9, 15), (1.5, 1.5), (1.0, -0.5), 40
    ),
    "3 x 3, an exact total": Case(
        margins(3, 3),
        M.Product([NOISE, M.Exact()], widths=[15, 1]),
        (1, 2, 0, 3, -1, 1, 0, 1, 4, 2, 4, 3, 5, 1, 3, 8),
        (0.0,) * 9,
        (1.0, 0.5, 0.0, 0.5, 0.0, -0.5, 0.0, -0.5, -1.0),
        8,
        8,
    ),
    "2 x 3, exact rows and columns, thresholds": Case(
        margins(2, 3),
        M.Product([M.Thresholded(M.DiscreteLaplace(scale=1.0), above=2.0), M.Exact()], [6, 6]),
        (3, np.nan, 4, np.nan, 2, np.nan, 8, 5, 5, 3, 5, 13),
        (1.0, 0.5, 0.8, 0.2, 0.5, 0.1),
        (1.0, -1.0, 0.5, -0.5, 0.0, 0.5),
        8,
        13,
    ),
    "2 x 2, random rounding, an unmeasured cell": Case(
        margins(2, 2),
        M.PerCell([M.Rounded(base=3), M.Unmeasured()], [0, 0, 0, 1, 0, 0, 0, 0, 0]),
        (3, 6, 0, np.nan, 9, 3, 6, 9, 12),
        (1.0, 1.5, 0.5, 1.0),
        (1.0, -1.0, 0.5, -0.5),
        15,
    ),
    "2 x 2, multinomial": Case(
        margins(2, 2)[:8],
        M.DiscreteGaussian(scale=[2.0] * 4 + [1.0] * 4),
        (4, 2, 3, 4, 7, 6, 8, 4),
        (0.0,) * 4,
        (1.0, -1.0, 0.5, -0.5),
        12,
        12,
        multinomial,
    ),
}
METHOD = nw.inference.CountAugmentationMCMC(target_ess=3000)


def infer(case, method=METHOD):
    return method.infer(KEY, case.model(), np.array(case.observed, float), progress=False)


def distances(posterior, case):
    """KS distances of theta, and of each sum."""
    tables, joint = case.enumerated()
    weights = np.exp(joint - joint.max())
    weights /= weights.sum()
    theta = np.cumsum(weights.sum(axis=0))
    found = [
        np.abs(
            np.searchsorted(np.sort(posterior.theta[:, 0]), GRID + 0.025) / len(posterior.theta)
            - theta
        ).max()
    ]
    for released, s in zip(
        (tables @ case.sums.T).T, posterior.confidential_statistics.T, strict=True
    ):
        top = int(max(released.max(), s.max())) + 1
        exact = np.bincount(released, weights.sum(axis=1), top)
        seen = np.bincount(s.astype(int), minlength=top) / len(s)
        found.append(np.abs(np.cumsum(exact) - np.cumsum(seen)).max())
    return found


FAST = "two cells and their total"


@pytest.mark.parametrize(
    "name", [name if name == FAST else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_tables_follow_the_sum_over_all_tables(name):
    """KS <= .05 for theta and every sum; 3,000 effective draws exceed .04 with probability 1e-4."""
    posterior = infer(CASES[name])
    assert posterior.report.exact
    assert max(distances(posterior, CASES[name])) <= LIMIT


def test_the_slowest_sums_are_watched():
    """Chains that stay apart come first; exact sums and constants are none of them."""
    rng = np.random.default_rng(0)
    s = rng.poisson(9.0, (250, 4, 7)).astype(float)
    s[:, :, 1] = np.arange(4.0)
    s[:, :, 2] = 5.0
    s[:, :, 3] = np.repeat(rng.poisson(9.0, (10, 4)), 25, axis=0)
    found = count_augmentation._slowest(s, np.arange(7) != 6)
    assert found[:2].tolist() == [1, 3]
    assert sorted(found.tolist()) == [0, 1, 3, 4, 5]


@pytest.mark.slow
def test_an_exact_total_halves_the_variance():
    """Flat cells observed as 30 and 80 with an exact total of 100: the first one is discrete
    Gaussian around 25 with variance sigma^2 / 2. The tolerances are five standard errors.
    """
    sd = 6.0
    model = nw.PrivateModel(
        prior=nw.Prior({"t": dist.Normal(0.0, 1.0)}),
        simulator=StatisticLaw(
            lambda theta: dist.DiscreteUniform(0, jnp.full(2, 1000)), sums=[[1, 0], [0, 1], [1, 1]]
        ),
        mechanism=M.Product([M.DiscreteGaussian(scale=sd), M.Exact()], widths=[2, 1]),
    )
    found = METHOD.infer(KEY, model, [30.0, 80.0, 100.0], progress=False)
    first = found.confidential_statistics[:, 0]
    chains = first.reshape(4, -1)
    size = min(effective_draws(part, "mean") for part in (chains, (chains - first.mean()) ** 2))
    assert size > 300
    assert abs(first.mean() - 25.0) < 5 * sd / np.sqrt(2 * size)
    assert abs(first.var() / (sd**2 / 2) - 1.0) < 5 * np.sqrt(2 / size)


# Counts far out in their laws ---------------------------------------------------------------------

TAIL = nw.PrivateModel(
    prior=nw.Prior({"rate": dist.LogNormal(np.log(0.1), 0.3)}),
    simulator=StatisticLaw(lambda theta: dist.Poisson(theta["rate"][None])),
    mechanism=M.DiscreteLaplace(scale=0.1),
)


def tail_posterior(observed):
    """Mean and sd of the log rate on a grid, and the mean of the cell."""
    t, cells = np.linspace(-5.0, 5.0, 4001), np.arange(100)
    joint = scipy.stats.poisson.pmf(cells, np.exp(t)[:, None])
    joint *= np.exp(-np.abs(observed - cells) / 0.1)
    joint *= scipy.stats.norm.pdf(t, np.log(0.1), 0.3)[:, None]
    joint /= joint.sum()
    of_t = joint.sum(axis=1)
    mean = of_t @ t
    return mean, np.sqrt(of_t @ (t - mean) ** 2), joint.sum(axis=0) @ cells


def tail_scores(observed):
    """z-scores of the mean and the variance of the log rate, and how far the mean cell is off."""
    method = nw.inference.CountAugmentationMCMC(target_ess=1000)
    found = method.infer(KEY, TAIL, [observed], progress=False)
    mean, sd, cell = tail_posterior(observed)
    t = np.log(found.theta[:, 0])
    of_mean = (t.mean() - mean) / (sd / np.sqrt(1000))
    of_variance = (t.var() / sd**2 - 1.0) / np.sqrt(2 / 1000)
    return abs(of_mean), abs(of_variance), abs(found.confidential_statistics.mean() - cell)


@pytest.mark.parametrize("observed", [12.0, 20.0])
def test_a_count_far_out_in_its_law(observed):
    """P(S >= 20) is 1e-27 here. z-scores of 1,000 effective draws; the cell is off by one with
    probability 1e-4.
    """
    of_mean, of_variance, of_cell = tail_scores(observed)
    assert max(of_mean, of_variance) < 4.5
    assert of_cell < 0.02


def test_residuals_lead_back_to_their_cells():
    """In both tails of a table, and beyond it, where cells stay."""
    model = nw.PrivateModel(
        prior=nw.Prior({"t": dist.Normal(0.0, 1.0).expand([4])}),
        simulator=StatisticLaw(lambda theta: dist.Poisson(jnp.exp(theta["t"]))),
        mechanism=M.DiscreteGaussian(scale=200.0),
    )
    eye = np.eye(4, dtype=int)
    parts = (model.prior, model.simulator, model.mechanism, np.zeros(4), eye)
    target = count_target.CountTarget.of(*parts, directions_for(eye[:0], eye[:0]), free=True)
    target = dataclasses.replace(target, few=np.ones(4, bool)).as_arrays()
    with jax.enable_x64(True):
        z, cells = jnp.array([3.0, 2.0, -40.0, 3.0]), jnp.array([0.0, 60.0, 0.0, 70.0])
        kept = target.residuals(KEY, z, cells)
        assert target.cells_at(z, kept).tolist() == cells.tolist()
        assert np.isfinite(target.given_residuals(z, kept))
        assert target.cells_at(z + 0.3, kept)[3] == 70.0


@pytest.mark.slow
def test_places_counted_from_below_are_caught(monkeypatch):
    """Without the guard and without places from above, as u is 1 from there on."""
    monkeypatch.setattr(count_target, "_is_upper", lambda total, above: total < 0.0)
    monkeypatch.setattr(count_chains, "_leads_back", lambda here, cells: jnp.array(True))
    jax.clear_caches()
    try:
        assert max(tail_scores(20.0)) > 10.0
    finally:
        jax.clear_caches()


# Cells that cannot move ---------------------------------------------------------------------------

NOISY_AND_EXACT = M.Product([M.DiscreteLaplace(scale=3.0), M.Exact()], widths=[1, 1])
BRIEF = nw.inference.CountAugmentationMCMC(max_draws=250, num_warmup=100)


def pair(law, sums, mechanism):
    prior = nw.Prior({"rate": dist.LogNormal(2.3, 0.3).expand([2])})
    return nw.PrivateModel(prior=prior, simulator=StatisticLaw(law, sums=sums), mechanism=mechanism)


def with_zero(rates):
    return jnp.stack([rates[0], 0.0 * rates[0], rates[1]])


def exact_with_zero(noisy, total):
    """Means of both rates and of the first cell, from a grid."""
    t, a = np.linspace(0.5, 5.0, 901), np.arange(total + 1)
    each = scipy.stats.poisson.pmf(a[:, None], np.exp(t)) * scipy.stats.norm.pdf(t, 2.3, 0.3)
    given = each @ np.exp(t) / each.sum(axis=1)
    weights = each.sum(axis=1) * each.sum(axis=1)[::-1] * np.exp(-np.abs(a - noisy) / 3.0)
    weights /= weights.sum()
    return weights @ given, weights @ given[::-1], weights @ a


@pytest.mark.slow
def test_structural_zeros_stay_zero_beside_an_exact_total():
    """Means of 1,000 effective draws, to 4 standard errors: sds are 3.2, 5.5 and 3.6."""
    model = pair(
        lambda theta: dist.Poisson(with_zero(theta["rate"])),
        [[1, 0, 0], [0, 1, 0], [1, 1, 1]],
        M.Product([M.DiscreteLaplace(scale=3.0), M.Unmeasured(), M.Exact()], widths=[1, 1, 1]),
    )
    method = nw.inference.CountAugmentationMCMC(target_ess=1000)
    found = method.infer(KEY, model, [12.0, np.nan, 60.0], progress=False)
    s = found.confidential_statistics
    assert (s[:, 1] == 0.0).all()
    seen = np.array([*found.theta.mean(axis=0), s[:, 0].mean()])
    spread = np.array([*found.theta.std(axis=0), s[:, 0].std()])
    assert (np.abs(seen - exact_with_zero(12, 60)) < 4 * spread / np.sqrt(1000)).all()


@pytest.mark.slow
def test_structural_zeros_of_a_multinomial_stay_zero():
    def law(theta):
        return dist.Multinomial(30, with_zero(theta["rate"]) / theta["rate"].sum())

    found = BRIEF.infer(
        KEY,
        pair(law, np.eye(3, dtype=int), M.DiscreteLaplace(scale=3.0)),
        [3.0, 1.0, 8.0],
        progress=False,
    )
    assert (found.confidential_statistics[:, 1] == 0.0).all()
    assert (found.confidential_statistics.sum(axis=1) == 30.0).all()
    assert len(np.unique(found.theta[:, 0])) > 100


FIXED = {
    "exact cells": ([[1, 0], [0, 1]], M.Exact(), [7.0, 3.0], [7.0, 3.0], [1.0, 1.0]),
    "exact cells, noisy total": (
        [[1, 0], [0, 1], [1, 1]],
        M.Product([M.Exact(), M.DiscreteLaplace(scale=1.0)], widths=[2, 1]),
        [7.0, 3.0, 9.0],
        [7.0, 3.0, 10.0],
        [1.0, 1.0],
    ),
    "a structural zero, exact total": (
        [[1, 0], [1, 1]],
        NOISY_AND_EXACT,
        [5.0, 6.0],
        [6.0, 6.0],
        [1.0, 0.0],
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        name if name == "exact cells, noisy total" else pytest.param(name, marks=pytest.mark.slow)
        for name in FIXED
    ],
)
def test_cells_of_which_none_can_move(name):
    sums, mechanism, observed, cells, shares = FIXED[name]
    model = pair(lambda theta: dist.Poisson(theta["rate"] * jnp.array(shares)), sums, mechanism)
    found = BRIEF.infer(KEY, model, observed, progress=False)
    assert (found.confidential_statistics == cells).all()
    assert len(np.unique(found.theta[:, 0])) > 100


@pytest.mark.slow
def test_a_release_that_no_cells_have_is_refused():
    """Random rounding to 3 of two cells, 30 each, and their total as 9."""
    model = pair(
        lambda theta: dist.Poisson(theta["rate"]), [[1, 0], [0, 1], [1, 1]], M.Rounded(base=3)
    )
    with pytest.raises(nw.errors.InvalidInputError, match="is not possible beside"):
        BRIEF.infer(KEY, model, [30.0, 30.0, 9.0], progress=False)
