"""Centring: the density of w is that of z times the Jacobian, shares are those of the formula."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import log_density as numpyro_density

from noisewise import errors
from noisewise.samplers import Centred, LocationScale, nuts, shares_at
from noisewise.samplers.hierarchies.centring import per_block

RNG = np.random.default_rng(4)
Y = RNG.normal(size=5)
SHARES = np.array([0.0, 0.2, 0.5, 0.9, 1.0])
POINTS = 0.7 * RNG.normal(size=(3, 7))
SCHOOLS = LocationScale(range(2, 7), lambda z: (z[0], jnp.exp(z[1])))


def program():
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    log_tau = numpyro.sample("log_tau", dist.Normal(0.0, 1.0))
    with numpyro.plate("schools", 5):
        e = numpyro.sample("e", dist.Normal(mu, jnp.exp(log_tau)))
        numpyro.sample("y", dist.StudentT(4.0, e, 0.5), obs=Y)


def by_numpyro(model, name, z):
    sites = {"mu": z[0], "log_tau": z[1], name: z[2:]}
    with jax.enable_x64(True):
        return float(numpyro_density(model, (), {}, jax.tree.map(jnp.asarray, sites))[0])


def density(z):
    return numpyro_density(program, (), {}, {"mu": z[0], "log_tau": z[1], "e": z[2:]})[0]


class Forgetful(Centred):
    """A planted bug: the density of z at w, without the Jacobian."""

    def __call__(self, w):
        return self.log_density(self.to_z(w))


def gap(centred):
    """How far a density of w is from numpyro's, at worst."""
    moved = numpyro.handlers.reparam(program, config={"e": LocScaleReparam(centered=SHARES)})
    with jax.enable_x64(True):
        return max(abs(float(centred(w)) - by_numpyro(moved, "e_decentered", w)) for w in POINTS)


def test_the_density_of_w_is_numpyros_and_planted_bugs_are_not():
    """To 1e-9 at random points; without the Jacobian, or with shares of other effects, far off."""
    assert gap(Centred(density, [SCHOOLS], [SHARES])) < 1e-9
    assert gap(Forgetful(density, [SCHOOLS], [SHARES])) > 1e-2
    assert gap(Centred(density, [SCHOOLS], [SHARES[::-1]])) > 1e-2


NESTED = (
    LocationScale(range(2, 5), lambda z: (z[0], jnp.exp(z[1]))),
    LocationScale(range(11, 4, -1), lambda z: (jnp.repeat(z[2:5], np.array([3, 2, 2])), 0.4)),
    LocationScale(range(12, 18), lambda z: (z[0], jnp.exp(z[1])), increments=True),
)
MIXED = [np.array([0.1, 0.6, 1.0]), 0.3, np.linspace(0.0, 1.0, 6)]
SCALES = [2.0, np.linspace(0.5, 2.0, 7), 0.7]
TAU = 0.6


class Nested(eqx.Module):
    """Regions around a mean, districts around their region, and a walk, all but the last point of
    the walk measured with sds from .1 to 10: z = (mean, log spread, 3 regions, 7 districts, 6
    points). A large `rigid` holds the spread at `TAU`, so that the law is normal.
    """

    y: np.ndarray
    rigid: float = 0.0

    def __call__(self, z):
        information = jnp.geomspace(100.0, 0.01, 13).at[-1].set(0.0)
        data = -0.5 * jnp.sum(information * (self.y - z[5:]) ** 2)
        laws = sum(block.log_law(block.take(z), z) for block in NESTED)
        spread = -0.5 * (1.0 + self.rigid) * (z[1] - np.log(TAU)) ** 2
        return data + laws - 0.5 * z[0] ** 2 + spread


OBSERVED = RNG.normal(size=13)


def test_nested_blocks_and_walks_go_there_and_back_with_their_jacobian():
    centred = Centred(Nested(OBSERVED), NESTED, MIXED, SCALES, 0.4)
    w = RNG.normal(size=18)
    with jax.enable_x64(True):
        matrix = np.asarray(jax.jit(lambda w: jax.jacfwd(centred.to_z)(w))(w))
        back = jax.jit(lambda w: centred.from_z(centred.to_z(w)))(w)
        slope = jax.jit(lambda w: jax.grad(centred)(w))(w)
        value = jax.jit(lambda w: centred(w))
        z = centred.to_z(w)
        log_jacobian = float(centred.log_jacobian(z))
        differences = [
            (float(value(w + step)) - float(value(w - step))) / 2e-6 for step in 1e-6 * np.eye(18)
        ]
        assert float(value(w)) == pytest.approx(float(Nested(OBSERVED)(z)) + log_jacobian)
    assert np.allclose(back, w, rtol=0, atol=1e-12)
    assert np.linalg.slogdet(matrix)[1] == pytest.approx(log_jacobian, abs=1e-10)
    assert np.allclose(slope, differences, rtol=1e-5, atol=1e-6)


def test_effects_are_independent_where_shares_say_so():
    """Where spreads are known and tau0 is the spread, the posterior of w is normal, and the Hessian
    has no entries between effects and parents; with shares of 1/2 it has. Numpyro's form with
    tau0 = 1 has some too.
    """
    z = np.zeros(18)
    z[1] = np.log(TAU)
    target = Nested(OBSERVED)
    shares = shares_at(target, NESTED, z)
    spreads = [TAU, 0.4, TAU]

    @jax.jit
    def matrix(shares, scales):
        centred = Centred(target, NESTED, shares, scales)
        return jax.hessian(lambda w: centred(w))(centred.from_z(z))

    def between(shares, scales):
        arrays = [per_block(given, NESTED, "") for given in (shares, scales)]
        with jax.enable_x64(True):
            hessian = np.asarray(matrix(*arrays))
        hessian = np.delete(np.delete(hessian, 1, 0), 1, 1)
        off = hessian - np.diag(np.diag(hessian))
        return np.abs(off / np.sqrt(np.outer(np.diag(hessian), np.diag(hessian)))).max()

    assert between(shares, spreads) < 1e-9
    assert between(0.5, spreads) > 0.3
    assert between(shares, 1.0) > 0.1


def test_shares_are_those_of_the_formula():
    """Of many effects by signs, of Student t by its own law; a law that is taken for another one
    shows.
    """
    information = np.geomspace(1e-3, 1e3, 50)
    many = LocationScale(range(1, 51), lambda z: (z[0], 0.5))
    normal = lambda z: many.log_law(z[1:], z) - 0.5 * jnp.sum(information * z[1:] ** 2)
    (found,) = shares_at(normal, [many], np.zeros(51))
    assert np.allclose(found, information / (information + 4.0), rtol=1e-9)
    t = dist.StudentT(3.0).log_prob
    heavy = LocationScale(range(1, 4), lambda z: (z[0], 0.5), log_density=t)
    silent = lambda z: heavy.log_law(z[1:], z)
    assert shares_at(silent, [heavy], np.zeros(4))[0].max() < 1e-9
    mistaken = LocationScale(range(1, 4), lambda z: (z[0], 0.5))
    assert shares_at(silent, [mistaken], np.zeros(4))[0].min() > 0.2


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: LocationScale([0, 0], lambda z: (0.0, 1.0)), "different whole numbers"),
        (lambda: LocationScale([0], 1.0), "law must be a function"),
        (lambda: Centred(density, [SCHOOLS, SCHOOLS]), "must not share columns"),
        (lambda: Centred(density, [SCHOOLS], 1.5), r"lie in \[0, 1\]"),
        (lambda: Centred(density, [SCHOOLS], scales=0.0), "scales must be positive"),
        (lambda: Centred(density, [SCHOOLS], [0.5, 0.5]), "each of the 1 blocks"),
        (lambda: Centred(density, [SCHOOLS], [np.zeros(3)]), r"shape \(5,\)"),
        (lambda: shares_at(density, [density], np.zeros(7)), "LocationScale"),
        (
            lambda: shares_at(density, [LocationScale([2], lambda z: (z, 1.0))], np.zeros(7)),
            "one for each effect",
        ),
    ],
)
def test_mistakes_are_refused(make, part):
    with pytest.raises((errors.InvalidInputError, errors.InvalidTypeError), match=part):
        make()


@pytest.mark.slow
def test_chains_of_nested_blocks_and_a_walk_have_the_exact_moments():
    """With the spread held, the law is normal: means and variances within 4.5 standard errors."""
    target = Nested(OBSERVED, rigid=1e8)
    with jax.enable_x64(True):
        z = np.zeros(18)
        z[1] = np.log(TAU)
        hessian = np.asarray(jax.jit(lambda z: jax.hessian(target)(z))(z))
        slope = np.asarray(jax.jit(lambda z: jax.grad(target)(z))(z))
    covariance = np.linalg.inv(-hessian)
    mean = z + covariance @ slope
    start = mean + RNG.normal(size=(4, 18))
    start[:, 1] = np.log(TAU)
    run = nuts(jax.random.key(3), target, start, blocks=NESTED, num_draws=2000)
    keep = np.delete(np.arange(18), 1)
    sizes = np.minimum(run.bulk_size, run.tail_size)[keep]
    gaps = run.draws.mean(axis=(0, 1)) - mean
    variances = np.diag(covariance)[keep]
    assert np.abs(gaps[keep] / np.sqrt(variances / sizes)).max() < 4.5
    squares = ((run.draws - mean) ** 2).mean(axis=(0, 1))[keep] / variances
    assert np.abs((squares - 1.0) / np.sqrt(2.0 / sizes)).max() < 4.5
    assert run.r_hat[keep].max() < 1.01
