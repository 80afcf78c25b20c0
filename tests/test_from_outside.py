"""A mechanism, a query and a method from outside the package, each one class: released, planned
with, inferred from, reported.

Nothing in the package knows them by name: what it needs they say of themselves.
"""

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise._core.arrays import integer, number
from noisewise.errors import InvalidInputError, InvalidTypeError, ReleaseError
from noisewise.mechanisms.lattice_noise import AbstractLatticeNoise
from noisewise.queries.base import AbstractCountQuery
from noisewise.reports import write_report

HALF = math.log(2.0)


@nw.mechanisms.register
class Halving(AbstractLatticeNoise):
    """s_dp = s + N with P(N = n) = 2^-|n| / 3: each step further out is half as likely. epsilon =
    sensitivity log 2.
    """

    norm: ClassVar[float] = 1.0

    sensitivity: float | None = eqx.field(
        default=None, converter=number("sensitivity", above=0.0, optional=True)
    )

    step: ClassVar[float] = 1.0
    scale: ClassVar[float] = 1.0 / HALF

    @property
    def guarantee(self):
        return nw.PureDP(self._stated_sensitivity() * HALF)

    def describe(self):
        return "noise that is half as likely with every step"

    def _noise_sd(self, k):
        return 2.0

    def exact_sampler(self, noise, step):
        def geometric():
            return next(count for count in range(10_000) if not noise.bernoulli(Fraction(1, 2)))

        return lambda integers: [float(number + geometric() - geometric()) for number in integers]

    def _quantile(self, u):
        below = jnp.minimum(jnp.ceil(jnp.log2(1.5 * u)), -1.0)
        above = jnp.maximum(jnp.ceil(-jnp.log2(1.5 * (1.0 - u)) - 1.0), 0.0)
        return jnp.where(u <= 1.0 / 3.0, below, above)

    def _log_mass(self, n):
        return -HALF * jnp.abs(n) - math.log(3.0)

    def _log_tail(self, n):
        return jnp.where(n > 0.0, HALF * (1.0 - n) - math.log(3.0), math.log(2.0 / 3.0))


@nw.queries.register
@dataclasses.dataclass(frozen=True)
class Tall(AbstractCountQuery):
    """How many records lie above a threshold. One record changes it by one."""

    threshold: float
    num_records: int

    def __post_init__(self):
        object.__setattr__(
            self, "num_records", integer("num_records", at_least=1)(self.num_records)
        )

    @property
    def names(self):
        return ("tall",)

    @property
    def width(self):
        return 1

    @property
    def domain(self):
        return nw.queries.Box(low=(self.threshold - 1.0,), high=(self.threshold + 1.0,))

    @property
    def divisor(self):
        return 1.0

    def _cells(self, records):
        return nw.queries.namespace(records).where(records > self.threshold, 0, 1)

    def _total(self, records):
        return (records > self.threshold).sum(0).astype(float)

    def _sensitivity(self, norm):
        return 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class PriorWeights(nw.inference.AbstractMethod):
    """Draws from the prior, weighted by eta."""

    slug: ClassVar[str] = "prior-weights"
    needs: ClassVar = frozenset({nw.mechanisms.Capability.DENSITY})

    num_draws: int = 4000

    def _infer(self, key, run):
        theta, s = run.prior_draws(key, self.num_draws)
        return run.weighted(theta, run.log_eta(s), s, exact=True)


NUM = 60
QUERY = Tall(threshold=1.8, num_records=NUM)
PRIOR = nw.Prior({"share": dist.Uniform(0.0, 1.0)})
SIMULATOR = nw.simulators.JaxSimulator(
    lambda key, theta: jnp.where(jax.random.uniform(key, (NUM, 1)) < theta[0], 2.0, 1.0)
)
HEIGHTS = np.where(np.arange(NUM) < 45, 1.9, 1.7)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    pytest.importorskip("opendp")
    folder = tmp_path_factory.mktemp("outside")
    ledger = nw.Ledger(folder / "ledger.json", limit=nw.PureDP(1.0))
    mechanism = Halving(sensitivity=1.0)
    path = folder / "release.json"
    nw.release(
        HEIGHTS, QUERY, mechanism=mechanism, ledger=ledger, save_to=path, description="tall people"
    )
    assert ledger.spent == nw.PureDP(HALF)
    return nw.Release.load(path)


def model_of(release):
    return nw.PrivateModel.from_release(release, prior=PRIOR, simulator=SIMULATOR)


def exact_mean(observed):
    """By summing over the count: a uniform share makes every count from 0 to NUM equally likely."""
    counts = np.arange(NUM + 1)
    weights = 0.5 ** np.abs(observed - counts)
    return np.sum(weights * (counts + 1) / (NUM + 2)) / weights.sum()


def test_release(released):
    assert isinstance(released.mechanism, Halving)
    assert released.query == QUERY.to_spec()
    assert abs(released.observed[0] - 45) < 40
    assert "± 2" in repr(released)


def test_audits():
    assert nw.audit.sensitivity(QUERY).ratio == pytest.approx(1.0)
    assert nw.audit.sampler_against_density(
        jax.random.key(0), Halving(sensitivity=1.0), [3.0], num_draws=20_000
    )
    assert nw.audit.privacy_loss(Halving(sensitivity=1.0))


def test_exact_noise_has_its_law():
    """A chi-square of five cells; 30,000 draws of released noise, at alpha 1e-6: 33.4 with 4
    degrees of freedom.
    """
    from noisewise.disclosure.exact_mechanisms import Columns, exact_sampler

    draw = exact_sampler(Halving(sensitivity=1.0), Columns(30_000, (1.0,), (None,)))
    counts = np.bincount(np.clip(np.array(draw([0] * 30_000)), -2, 2).astype(int) + 2)
    expected = 30_000 * np.array([1 / 6, 1 / 6, 1 / 3, 1 / 6, 1 / 6])
    assert np.sum((counts - expected) ** 2 / expected) < 33.4


@pytest.mark.parametrize(
    "method", [PriorWeights(), nw.inference.ImportanceSampling(num_stages=0, num_final=4000)]
)
def test_infer(released, method):
    """The posterior sd is about .07. The release has no seed, so the tolerance is six Monte Carlo
    errors.
    """
    posterior = method.infer(jax.random.key(0), model_of(released), released, progress=False)
    error = 6.0 * 0.07 / math.sqrt(posterior.effective_size)
    assert float(posterior.weights @ posterior.theta[:, 0]) == pytest.approx(
        exact_mean(released.observed[0]), abs=error
    )


def test_plan(released):
    mechanisms = {
        "half": Halving(sensitivity=1.0),
        "laplace": nw.mechanisms.DiscreteLaplace(5.0, 1.0),
    }
    found = nw.plan(
        jax.random.key(0),
        model_of(released),
        mechanisms=mechanisms,
        num_simulations=2000,
        progress=False,
    )
    assert "half" in str(found)


def test_report(released, tmp_path):
    model = model_of(released)
    posterior = PriorWeights().infer(jax.random.key(1), model, released, progress=False)
    page = write_report(
        tmp_path / "r.html",
        posterior,
        title="tall people",
        model=model,
        observed=released,
        release=released,
    )
    text = page.read_text()
    assert "half as likely with every step" in text
    assert "Tall" in text


def test_an_unregistered_class_is_not_named_by_a_file(released):
    text = released.to_json().replace('"type": "Halving"', '"type": "Doubling"')
    with pytest.raises(nw.errors.FileFormatError, match=r"one of .*Halving"):
        nw.Release.from_json(text)


def test_registering():
    class Laplace(Halving):
        pass

    with pytest.raises(InvalidInputError, match="class is registered as Laplace"):
        nw.mechanisms.register(Laplace)
    with pytest.raises(InvalidTypeError, match="extends AbstractQuery"):
        nw.queries.register(Halving)
    with pytest.raises(ReleaseError, match="floating-point noise"):
        nw.release(HEIGHTS, QUERY, mechanism=nw.mechanisms.Laplace(1.0, 1.0))
    assert nw.queries.register(Tall) is Tall
