"""What learning a posterior from a proposal is made of: batches of noisy pairs, atoms, and
truncated proposals.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.inference import TruncatedProposals
from noisewise.inference.learned.common.simulations import one_point_set
from noisewise.inference.learned.posterior.corrections import atomic_loss
from noisewise.inference.learned.posterior.posterior_task import NoisyPairs
from noisewise.inference.learned.posterior.regions import Estimate, Region, Regions, in_all
from tests.inference.methods import SMALL

KEY = jax.random.key(0)


def pairs(num_atoms, rows=30, num_noise=4):
    rng = np.random.default_rng(0)
    z, bank = rng.normal(size=(rows, 2)), rng.normal(size=(rows, 8, 3))
    scale = nw.estimators.Affine.fit(bank[:, 0])
    whitening = nw.estimators.Whitening.fit(z, scale(bank[:, 0]))
    return NoisyPairs(z, -0.5 * (z**2).sum(axis=1), bank, scale, whitening, num_noise, num_atoms)


def test_a_batch_takes_one_whole_net_of_each_row():
    data = pairs(0)
    with jax.enable_x64(True):
        noisy = np.asarray(one_point_set(KEY, jnp.asarray(data.bank), jnp.arange(30), 4))
    for row in range(30):
        assert any(
            np.array_equal(noisy[row], data.bank[row, first : first + 4]) for first in (0, 4)
        )
    firsts = {float(noisy[row, 0, 0] == data.bank[row, 0, 0]) for row in range(30)}
    assert firsts == {0.0, 1.0}


def test_atoms_are_the_row_itself_and_different_others():
    data = pairs(5)
    with jax.enable_x64(True):
        atoms = np.asarray(data._atoms(KEY, jnp.arange(30)))
    assert atoms.shape == (30, 5)
    assert np.array_equal(atoms[:, 0], np.arange(30))
    assert all(len(set(row)) == 5 for row in atoms.tolist())


def test_a_parameter_that_stands_twice_in_a_batch_is_no_atom_of_its_own():
    data = pairs(5)
    with jax.enable_x64(True):
        rows = jnp.asarray([3, 7] * 5)
        (_, log_prior), _ = data(KEY, rows)
        atoms = np.asarray(data._atoms(jax.random.split(KEY)[1], rows))
    same = (atoms == np.asarray(rows)[:, None]) & (np.arange(5) > 0)
    assert same.any()
    assert np.array_equal(np.isposinf(np.asarray(log_prior)), same)


class _Shifted:
    """A density with a factor that depends on the condition alone."""

    def __init__(self, shift):
        self.shift = shift

    def log_prob(self, target, condition):
        return (
            -0.5 * ((target - condition[..., :2]) ** 2).sum(axis=-1)
            + self.shift * condition[..., 0]
        )


def test_the_atomic_loss_does_not_see_a_factor_of_the_condition():
    rng = np.random.default_rng(1)
    target = (jnp.asarray(rng.normal(size=(6, 4, 3, 2))), jnp.asarray(rng.normal(size=(6, 4))))
    condition = jnp.asarray(rng.normal(size=(6, 1, 3, 3)))
    gradient = jax.grad(lambda shift: atomic_loss(_Shifted(shift), target, condition).sum())(0.3)
    plain = jax.grad(
        lambda shift: -_Shifted(shift).log_prob(target[0][:, 0], condition[:, 0]).sum()
    )(0.3)
    assert abs(float(gradient)) < 1e-4 < 1e-1 < abs(float(plain))


class _Normal:
    """Stands in for a learnt density: N(m, sd^2 I)."""

    def __init__(self, mean, sd):
        self.mean, self.sd = mean, sd

    def sample(self, key, condition, num):
        return self.mean + self.sd * np.asarray(jax.random.normal(key, (num, 2)), dtype=float)

    def log_prob(self, z, condition):
        return -0.5 * (((z - self.mean) / self.sd) ** 2).sum(axis=1) - 2 * np.log(
            self.sd * np.sqrt(2 * np.pi)
        )


@pytest.mark.parametrize("sd", [0.3, 0.005], ids=["from the prior", "from a fit"])
def test_truncated_proposals_follow_the_prior_inside_the_region(sd):
    """Means of 2000 draws within 4.5 standard errors of N(0, 1) truncated to a disc, on both ways
    to draw; a prior twice as narrow is seen.

    The prior N(0, .5^2) varies by a factor of 20 over the disc of radius 4.3 * .3; that of 4.3 *
    .005 it hardly ever hits.
    """
    prior = nw.Prior({"a": dist.Normal(0.0, 0.5), "b": dist.Normal(0.0, 0.5)})
    estimate = Estimate(_Normal(np.array([0.3, -0.2]), sd), np.zeros(1), prior)
    proposal = TruncatedProposals().propose(KEY, estimate, 2000)
    z, region = proposal.z, proposal.region
    assert estimate.regions == ()
    assert z.shape == (2000, 2)
    assert region.contains(z).all()
    assert len(np.unique(z[:, 0])) == 2000
    rng = np.random.default_rng(2)
    radius = np.sqrt(-2.0 * (region.level + 2 * np.log(sd * np.sqrt(2 * np.pi)))) * sd
    uniform = rng.uniform(-1, 1, (400_000, 2)) * radius
    uniform = uniform[(uniform**2).sum(axis=1) < radius**2] + [0.3, -0.2]
    weights = np.exp(prior.log_prob(uniform))
    centre = weights @ uniform / weights.sum()
    spread = np.sqrt(weights @ (uniform - centre) ** 2 / weights.sum())
    assert (np.abs(z.mean(axis=0) - centre) < 4.5 * spread / np.sqrt(2000)).all()
    assert (np.abs(z.std(axis=0) / spread - 1.0) < 0.07).all()
    if sd == 0.3:
        narrow = np.exp(4.0 * prior.log_prob(uniform))
        assert (
            np.abs(narrow @ uniform / narrow.sum() - centre) > 4.5 * spread / np.sqrt(2000)
        ).any()


def test_a_region_that_the_prior_never_reaches_is_given_up():
    """An estimate 100 prior standard deviations away, all but a point: draws come from the whole
    prior, and there is no region to add.
    """
    prior = nw.Prior({"a": dist.Normal(0.0, 0.5), "b": dist.Normal(0.0, 0.5)})
    estimate = Estimate(_Normal(np.array([50.0, -50.0]), 1e-12), np.zeros(1), prior)
    proposal = TruncatedProposals().propose(KEY, estimate, 500)
    assert proposal.gave_up
    assert proposal.region is None
    assert proposal.z.shape == (500, 2)
    # the mean of 500 draws has sd .5 / sqrt(500) = .022: 5 of them
    assert (np.abs(proposal.z.mean(axis=0)) < 0.11).all()


def test_simulations_are_asked_about_each_region_once(monkeypatch):
    """Planted: a region that is not asked about old simulations leaves rows in that the whole test
    puts out.
    """
    asked, found = [], []
    contains, holding = Region.contains, Regions.holding

    def counted(region, z):
        asked.append(len(z))
        return contains(region, z)

    def compared(regions, z):
        result = holding(regions, z)
        found.append(
            (
                np.array_equal(result, in_all(regions.all, z)),
                int(result.sum()),
                len(result),
            )
        )
        return result

    monkeypatch.setattr(Region, "contains", counted)
    monkeypatch.setattr(Regions, "holding", compared)
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    method = nw.inference.PrivatePosteriorEstimation(
        num_rounds=4,
        num_simulations=200,
        num_noise=1,
        noise_bank=4,
        correction=TruncatedProposals(outside=0.2),
        estimator=SMALL,
        training=nw.estimators.Training(max_epochs=3),
    )
    method.infer(KEY, problem.model, problem.observed, progress=False)
    assert [same for same, *_ in found] == [True] * 4
    assert found[-1][1] < found[-1][2]
