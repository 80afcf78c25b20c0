"""Record models: statistics and databases agree, large databases are summed in bounded memory,
missing draws are refused.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.simulators import AbstractRecordModel, AdditiveQuery, record_model

KEY = jax.random.key(3)
THETA = np.array([[-1.0, 0.5], [0.0, 0.0], [2.0, -0.5]])


@dataclasses.dataclass(frozen=True)
class Normals(AbstractRecordModel):
    """x_i ~ N(theta_0, exp(2 theta_1)), two columns."""

    num_records: int

    def record_noise(self, key):
        return jax.random.normal(key, (2,))

    def record(self, u, theta):
        return theta[0] + jnp.exp(theta[1]) * u

    def log_prob_record(self, x_i, theta):
        return jax.scipy.stats.norm.logpdf(x_i, theta[0], jnp.exp(theta[1])).sum()


@dataclasses.dataclass(frozen=True)
class Conjugate(AbstractRecordModel):
    """x_i ~ N(theta, 1), theta ~ N(0, 1)."""

    num_records: int = 5

    def record_noise(self, key):
        return jax.random.normal(key)

    def record(self, u, theta):
        return theta[0] + u

    def log_prob_record(self, x_i, theta):
        return jax.scipy.stats.norm.logpdf(x_i, theta[0])

    def sample_parameters(self, key, records, theta):
        precision = 1.0 + len(records)
        return records.sum() / precision + jax.random.normal(key, (1,)) / jnp.sqrt(precision)


def moments(num_records):
    return nw.queries.RegressionMoments(
        num_records=num_records, num_predictors=1, bounds=(-4.0, 4.0)
    )


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(record_model, "MAX_RECORDS_HELD", 64)


def test_databases_have_a_row_per_record():
    x = Normals(30).simulate(KEY, THETA)
    assert x.shape == (3, 30, 2)
    assert x.dtype == np.float64
    assert len(np.unique(x)) == x.size


def test_statistics_are_those_of_the_simulated_databases():
    s = Normals(30).statistics(KEY, THETA, moments(30))
    np.testing.assert_allclose(
        s, [moments(30)(x) for x in Normals(30).simulate(KEY, THETA)], rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("num_records", [pytest.param(65, marks=pytest.mark.slow), 128, 200])
def test_sums_over_chunks_are_those_of_the_whole(small_chunks, num_records):
    """65 and 200 leave a chunk unfinished: the records that only fill it up must not count."""
    model, query = Normals(num_records), moments(num_records)
    databases = model.simulate(KEY, THETA)
    s = model.statistics(KEY, THETA, query)
    np.testing.assert_allclose(s, [query(x) for x in databases], rtol=1e-12, atol=1e-15)
    filled = moments(256)(np.asarray(Normals(256).simulate(KEY, THETA)[0]))
    assert not np.allclose(s[0], filled, rtol=1e-3), "counting the filling would be seen"


def test_chunks_do_not_change_records(small_chunks):
    first = Normals(30).simulate(KEY, THETA)
    assert np.array_equal(Normals(200).simulate(KEY, THETA)[:, :30], first)


def temporary_memory(make, num_records):
    one = make(Normals(num_records), moments(num_records))
    with jax.enable_x64(True):
        arguments = (
            jax.ShapeDtypeStruct(KEY.shape, KEY.dtype),
            jax.ShapeDtypeStruct((2,), np.float64),
        )
        return jax.jit(one).lower(*arguments).compile().memory_analysis().temp_size_in_bytes


def test_a_million_records_need_little_memory():
    """Of the compiled program: megabytes when streamed, where holding a million records takes at
    least 16 MB for x alone.
    """
    streamed = temporary_memory(record_model._streamed_statistic, 1_000_000)
    whole = temporary_memory(record_model._statistic, 1_000_000)
    assert streamed < 2**22
    assert whole > 2**24


def test_only_additive_queries_are_streamed(small_chunks):
    query = nw.queries.Median(candidates=(-1.0, 0.0, 1.0), num_records=100)
    assert isinstance(moments(5), AdditiveQuery)
    assert not isinstance(query, AdditiveQuery)
    assert not isinstance(nw.queries.FunctionQuery(lambda x: x), AdditiveQuery)
    model = Conjugate(100)
    s = model.statistics(KEY, THETA[:, :1], query)
    assert np.array_equal(s, [query(x) for x in model.simulate(KEY, THETA[:, :1])])


def test_records_follow_their_density():
    """E[exp(log f(x | theta'))/f(x | theta)] = 1 over 20,000 records, within 5 standard errors; a
    wrong scale is caught.
    """
    theta, other = np.array([0.3, 0.1]), np.array([0.4, 0.0])
    model = Normals(20_000)
    x = model.simulate(KEY, theta[None])[0]
    with jax.enable_x64(True):
        log_prob = jax.jit(jax.vmap(model.log_prob_record, (0, None)))
        ratio = np.exp(np.asarray(log_prob(x, other) - log_prob(x, theta)))
        planted = np.exp(np.asarray(log_prob(1.05 * x, other) - log_prob(1.05 * x, theta)))
    assert abs(ratio.mean() - 1.0) < 5 * ratio.std() / np.sqrt(len(ratio))
    assert abs(planted.mean() - 1.0) > 5 * planted.std() / np.sqrt(len(planted))


def test_width_is_found_by_tracing():
    assert Normals(30).statistic_width(KEY, THETA, moments(30)) == 5


def test_parameter_draws_are_a_stated_capability():
    assert Conjugate().can_sample_parameters
    assert not Normals(5).can_sample_parameters
    with pytest.raises(errors.MissingCapabilityError, match="sample_parameters"):
        Normals(5).sample_parameters(KEY, np.zeros((5, 2)), THETA[0])
    with jax.enable_x64(True):
        theta = Conjugate().sample_parameters(KEY, jnp.ones(5), jnp.zeros(1))
    assert theta.shape == (1,)


def test_abstract_methods_are_demanded():
    class Half(AbstractRecordModel):
        num_records = 3

        def record_noise(self, key):
            return key

    with pytest.raises(TypeError, match="record"):
        Half()


def test_a_column_that_theta_does_not_have_is_refused():
    with pytest.raises(
        errors.SimulationError, match=r"Normals reads theta\[1\], but theta has 1 column"
    ):
        Normals(5).simulate(KEY, THETA[:, :1])


def test_noise_that_does_not_come_from_the_key_is_refused():
    class Frozen(Normals):
        def record_noise(self, key):
            return np.random.default_rng().normal(size=2)

    for num_records in (5, 20_000):
        with pytest.raises(
            errors.SimulationError, match="Frozen draws numbers that do not come from its key"
        ):
            Frozen(num_records).statistics(KEY, THETA, moments(num_records))


def test_a_failure_inside_a_record_is_reported():
    class Broken(Normals):
        def record(self, u, theta):
            return np.sin(theta) + u

    with pytest.raises(errors.SimulationError, match="Broken"):
        Broken(3).simulate(KEY, THETA)
