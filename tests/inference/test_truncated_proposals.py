"""Regions that grow with the number of parameters, draws inside them, and rounds that are not
adopted: by densities in closed form, and by a training that is spoilt.
"""

import dataclasses

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import chi2

import noisewise as nw
from noisewise.estimators import Training
from noisewise.inference import PrivatePosteriorEstimation, TruncatedProposals
from noisewise.inference.learned.posterior import corrections, held_out, posterior_rounds
from noisewise.inference.learned.posterior.held_out import compared
from noisewise.inference.learned.posterior.regions import Estimate, NextRound, Region, in_all
from tests.inference.methods import SMALL

KEY = jax.random.key(0)


@dataclasses.dataclass(frozen=True)
class Normal:
    """Stands in for a learnt density: N(slope c, sd^2 I) given c."""

    dim: int
    sd: float = 1.0
    slope: float = 1.0

    def sample(self, key, condition, num=None):
        rng = np.random.default_rng(int(jax.random.key_data(key)[-1]))
        centre = np.broadcast_to(self.slope * condition, (num or len(condition), self.dim))
        return centre + self.sd * rng.normal(size=centre.shape)

    def log_prob(self, z, condition):
        square = (((z - self.slope * condition) / self.sd) ** 2).sum(axis=1)
        return -0.5 * square - self.dim * np.log(self.sd * np.sqrt(2 * np.pi))


def prior(dim, sd=30.0):
    return nw.Prior({f"t{i}": dist.Normal(0.0, sd) for i in range(dim)})


def estimate(dim, **more):
    return Estimate(Normal(dim), np.zeros(dim), prior(dim), **more)


def square(region):
    """The squared radius of the region of a standard normal density."""
    return -2.0 * (region.level + 0.5 * len(region.low) * np.log(2 * np.pi))


# Regions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 3, 6, 12])
def test_a_region_grows_with_the_number_of_parameters(dim):
    """r^2 = d + 12 (d - 1), whose error is that of a mean over 10,240 draws of chi2_d, 4.5 sds; with
    one and two parameters the quantile 1e-4 of chi2_d, which is about the largest of the draws but
    one.
    """
    own = estimate(dim).sample(KEY, 10_240)
    region = corrections._region(estimate(dim), own, 1e-4)
    if dim > 2:
        assert abs(square(region) - (13 * dim - 12)) < 4.5 * np.sqrt(2 * dim / 10_240)
    else:
        low, high = chi2.isf([1e-3, 2e-6], dim)
        assert low < square(region) < high
    assert (region.high > 12.0).all()


def learnt_ratio(dim, num):
    """The sd that a linear regression learns from pairs inside a region, over the exact one."""
    z = TruncatedProposals().propose(KEY, estimate(dim), num).z
    assert len(z) == num
    s = z + np.random.default_rng(3).normal(size=z.shape)
    left = z - s @ np.linalg.lstsq(s, z, rcond=None)[0]
    return np.sqrt((left**2).sum() / (dim * (num - dim)))


def test_widths_learnt_inside_a_region_are_those_of_the_derivation(monkeypatch):
    """The ratio sqrt(v / (1 + v)), v = r^2 / (d + 2), within 4.5 sds: that of the residual sd is
    1 / sqrt(2 n d). Planted: regions by the quantile alone give .86.
    """
    dim, num = 12, 1500
    error, v = 1 / np.sqrt(2 * num * dim), (13 * dim - 12) / (dim + 2)
    assert abs(learnt_ratio(dim, num) - np.sqrt(v / (1 + v))) < 4.5 * error
    assert learnt_ratio(dim, num) > 0.94
    monkeypatch.setattr(corrections, "_NATS_PER_DIMENSION", 0.0)
    monkeypatch.setattr(corrections, "_MARGIN", 0.5)
    assert learnt_ratio(dim, num) < 0.9


# Draws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [4, 12, 20])
@pytest.mark.parametrize("known", [0, 300], ids=["own draws", "simulations too"])
def test_all_parameters_are_delivered_and_fill_the_region(dim, known):
    """A region that the prior hardly ever hits: as many draws as asked for, all different, and
    |z|^2 / r^2 as in a ball, with mean d / (d + 2), within 4.5 standard errors.
    """
    rng = np.random.default_rng(1)
    inside = rng.normal(size=(known, dim))
    inside *= np.sqrt(13 * dim - 13) / np.linalg.norm(inside, axis=1, keepdims=True)
    past = inside * rng.uniform(size=(known, 1)) ** (1 / dim)
    found = TruncatedProposals().propose(KEY, estimate(dim, past=past), 1000)
    assert len(np.unique(found.z[:, 0])) == 1000
    assert in_all((found.region,), found.z).all()
    share = (found.z**2).sum(axis=1) / square(found.region)
    sd = np.sqrt(dim / (dim + 4) - (dim / (dim + 2)) ** 2)
    assert abs(share.mean() - dim / (dim + 2)) < 4.5 * sd / np.sqrt(1000)


def test_a_round_of_one_simulation_is_delivered():
    assert TruncatedProposals().propose(KEY, estimate(6), 1).z.shape == (1, 6)


def test_a_density_that_did_not_change_keeps_its_region():
    first = estimate(3)
    region = TruncatedProposals().propose(KEY, first, 50).region
    second = dataclasses.replace(first, regions=(region,))
    again = TruncatedProposals().propose(jax.random.key(1), second, 50)
    assert again.region is None
    assert not again.gave_up
    assert region.contains(again.z).all()


@dataclasses.dataclass(frozen=True)
class Short(TruncatedProposals):
    """Delivers 30 parameters fewer than asked for."""

    def propose(self, key, estimate, num):
        found = super().propose(key, estimate, num)
        return NextRound(found.z[30:], found.region)


def method(**settings):
    return PrivatePosteriorEstimation(
        **{
            "num_rounds": 3,
            "num_simulations": 300,
            "num_noise": 1,
            "noise_bank": 4,
            "validation_share": 0.2,
            "estimator": SMALL,
            "training": Training(learning_rate=2e-3, max_epochs=10),
            **settings,
        }
    )


def findings(posterior):
    return {str(found.kind): found.numbers for found in posterior.report.findings}


def test_parameters_that_were_not_found_are_counted():
    """30 missing of 300 in each of two rounds; the sentence has the numbers."""
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    short = method(correction=Short()).infer(KEY, problem.model, problem.observed, progress=False)
    first, *_, last = (entry["num_simulations"] for entry in short.report.rounds)
    assert last - first == 540
    assert findings(short)["parameters not found"] == {"missing": 60, "asked": 600}
    assert any("60 of the 600 simulations" in text for text in short.report.warnings)


# Rounds -------------------------------------------------------------------------------------------


def truncated_pairs(dim, region, num=4000):
    """z uniform in a ball, c = z + noise: N(c, I) is the posterior, cut off by the ball."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(num, dim))
    z *= np.sqrt(square(region)) / np.linalg.norm(z, axis=1, keepdims=True)
    z *= rng.uniform(size=(num, 1)) ** (1 / dim)
    return z, z[:, None] + rng.normal(size=(num, 1, dim))


def test_densities_are_compared_as_cut_off_by_the_region(monkeypatch):
    """A ball of r^2 = 39 in 12 dimensions, v = 39 / 14. The regression of z on c inside it, of slope
    v / (1 + v) and sd .86, is worse than the exact density; the exact one is better than one that
    is too wide, and a density is as good as itself. Planted: without masses the regression wins.
    """
    dim = 12
    box = np.full(dim, 50.0)
    region = Region(Normal(dim), np.zeros(dim), -19.5 - 6 * np.log(2 * np.pi), -box, box)
    pairs = truncated_pairs(dim, region, 400)

    def change(old, new):
        former = Estimate(old, np.zeros(dim), prior(dim), (region,))
        return compared(KEY, former, new, *pairs)

    share = 39 / 14 / (1 + 39 / 14)
    exact, narrow, wide = Normal(dim), Normal(dim, np.sqrt(share), share), Normal(dim, 1.25)
    found, same = change(wide, exact), change(exact, exact)
    assert change(exact, narrow).worse
    assert found.change > 2 * found.error
    assert same.change == same.error == 0.0
    assert not same.worse
    assert compared(KEY, estimate(dim), Normal(dim), *(part[:19] for part in pairs)) is None
    monkeypatch.setattr(held_out, "_log_mass", lambda key, density, former, c: np.zeros(len(c)))
    found = change(exact, narrow)
    assert found.change > 2 * found.error


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "planted: not watched"])
def test_a_round_that_spoils_the_networks_is_not_adopted(watched, monkeypatch):
    """The second round makes the density four times too narrow: its posterior is that of the first
    round, and says so; the third round is adopted, and says nothing.
    """
    train, calls = posterior_rounds.train_together, []

    def spoilt(learners, keys, pairs, **options):
        summaries = train(learners, keys, pairs, **options)
        calls.append(len(learners))
        if len(calls) == 2:
            for learner in learners:
                old = learner.whitening
                learner.whitening = dataclasses.replace(
                    old, root=old.root / 4, inverse_root=old.inverse_root * 4
                )
        return summaries

    monkeypatch.setattr(posterior_rounds, "train_together", spoilt)
    if not watched:
        monkeypatch.setattr(held_out, "_WORSE", np.inf)
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    first, second, third = method().rounds(KEY, problem.model, problem.observed, progress=False)
    grid = first.sample(KEY, 50)
    assert np.array_equal(first.log_prob(grid), second.log_prob(grid)) == watched
    assert ("round not adopted" in findings(second)) == watched
    assert second.report.rounds[1]["adopted"] == (not watched)
    if watched:
        numbers = findings(second)["round not adopted"]
        assert (numbers["round"], numbers["kept"]) == (2, 1)
        assert numbers["loss"] > 2 * numbers["error"]
        assert any("this is the posterior of round 1" in text for text in second.report.warnings)
        assert third.report.rounds[2]["adopted"]
        assert "round not adopted" not in findings(third)
