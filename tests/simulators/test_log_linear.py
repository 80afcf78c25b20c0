"""The log-linear model: its law by enumeration, counts without records, its conjugate draw, and
what it refuses.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.simulators import LogLinear, log_linear

CLASSES, VALUES = 3, (2, 4)
MODEL = LogLinear(num_records=2, num_classes=CLASSES, num_values=VALUES)
QUERY = nw.queries.CategoryProportions(num_classes=CLASSES, num_values=VALUES, num_records=2)
RECORDS = np.array(list(itertools.product(range(CLASSES), *map(range, VALUES))))


def random_theta(seed=0, classes=CLASSES, values=VALUES):
    rng = np.random.default_rng(seed)
    vectors = [rng.dirichlet(np.full(count, 2.0)) for _ in range(classes) for count in values]
    return np.concatenate([*vectors, rng.dirichlet(np.full(classes, 2.0))])


THETA = random_theta()
OTHER = np.concatenate([THETA[6:12], THETA[:6], THETA[12:]])  # the tables of two classes exchanged


def by_hand(theta):
    """P(record) for each of RECORDS, from names alone."""
    p = dict(zip(MODEL.parameter_names, theta, strict=True))
    return np.array([p[f"p[{c}]"] * p[f"p[{c},0,{a}]"] * p[f"p[{c},1,{b}]"] for c, a, b in RECORDS])


def chi_square(observed, expected):
    """The p-value, cells with fewer than 5 expected pooled."""
    rare = expected < 5.0
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def test_density_is_the_product_and_sums_to_one(x64_flag):
    with jax.enable_x64(True):
        log_prob = jax.vmap(MODEL.log_prob_record, (0, None))
        prob = np.exp(log_prob(jnp.asarray(RECORDS), jnp.asarray(THETA)))
        outside = log_prob(jnp.asarray([[3, 0, 0], [0, 2, 0], [0, 0, -1]]), jnp.asarray(THETA))
    np.testing.assert_allclose(prob, by_hand(THETA), rtol=1e-13)
    assert prob.sum() == pytest.approx(1.0, abs=1e-14)
    assert np.all(np.asarray(outside) == -np.inf)


def test_records_follow_the_density():
    """20,000 records over 24 cells: chi-square p > .001; planted: the tables of two classes
    exchanged.
    """
    model = LogLinear(num_records=20_000, num_classes=CLASSES, num_values=VALUES)
    records = model.simulate(jax.random.key(0), THETA[None])[0]
    assert records.dtype == np.int64
    cells = np.ravel_multi_index(records.T, (CLASSES, *VALUES))
    counts = np.bincount(cells, minlength=len(RECORDS))
    assert chi_square(counts, 20_000 * by_hand(THETA)) > 1e-3
    assert chi_square(counts, 20_000 * by_hand(OTHER)) < 1e-6


def law_of_statistic(theta):
    """P(s) for the statistic of two records, by enumeration of all pairs."""
    law = {}
    prob = by_hand(theta)
    for i, j in itertools.product(range(len(RECORDS)), repeat=2):
        s = tuple(QUERY(RECORDS[[i, j]]).tolist())
        law[s] = law.get(s, 0.0) + prob[i] * prob[j]
    return law


@pytest.mark.parametrize("path", ["records", "counts"])
def test_both_paths_give_the_law_of_the_statistic(path, monkeypatch):
    """20,000 databases of 2 records against enumeration: chi-square p > .001; planted: classes
    exchanged.
    """
    monkeypatch.setattr(log_linear, "MAX_RECORDS_HELD", 0 if path == "counts" else 8192)
    # A model of its own per path, so that no compiled program is shared
    model = LogLinear(2, CLASSES, VALUES, concentration=1.0 if path == "counts" else 2.0)
    assert (model.direct_statistic(QUERY) is None) == (path == "records")
    s = model.statistics(jax.random.key(1), np.tile(THETA, (20_000, 1)), QUERY)
    found = {}
    for row in map(tuple, s.tolist()):
        found[row] = found.get(row, 0) + 1
    for theta, fits in ((THETA, True), (OTHER, False)):
        law = law_of_statistic(theta)
        assert sum(law.values()) == pytest.approx(1.0)
        assert set(found) <= set(law)
        p_value = chi_square(
            np.array([found.get(s, 0) for s in law]), 20_000 * np.array(list(law.values()))
        )
        assert p_value > 1e-3 if fits else p_value < 1e-6


MILLION = LogLinear(1_000_000, CLASSES, VALUES)
MILLION_QUERY = nw.queries.CategoryProportions(CLASSES, VALUES, 1_000_000)


@pytest.mark.slow
def test_counts_of_a_million_records_are_binomial():
    """Every count of 1000 databases is Binomial(n, p_i p_ij), by KS (p > .001/18); planted: half a
    million records.

    Standard deviations are hundreds, so ties do not matter. All features of a class have the same
    total.
    """
    n, model = 1_000_000, MILLION
    s = model.statistics(jax.random.key(2), np.tile(THETA, (1000, 1)), MILLION_QUERY)
    counts = np.rint(n * s)
    np.testing.assert_allclose(counts, n * s, atol=1e-6)
    blocks = counts.reshape(1000, CLASSES, sum(VALUES))
    np.testing.assert_array_equal(blocks[:, :, :2].sum(2), blocks[:, :, 2:].sum(2))
    np.testing.assert_array_equal(blocks[:, :, :2].sum((1, 2)), n)
    tables, p = model.unpack(THETA)
    cells = (p[:, None] * np.concatenate(tables, axis=1)).ravel()

    def worst(size):
        return min(
            stats.kstest(counts[:, j], stats.binom(size, cells[j]).cdf).pvalue
            for j in range(len(cells))
        )

    assert worst(n) > 1e-3 / len(cells)
    assert worst(n // 2) < 1e-6


def test_certain_categories_are_certain():
    theta = np.array(
        [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, *(0.5, 0.5, 0.0, 1.0, 0.0, 0.0) * 2, 1.0, 0.0, 0.0]
    )
    small = LogLinear(100, CLASSES, VALUES).simulate(jax.random.key(0), theta[None])[0]
    np.testing.assert_array_equal(small, np.tile([0, 1, 0], (100, 1)))
    large = MILLION.statistics(jax.random.key(0), np.tile(theta, (9, 1)), MILLION_QUERY)
    np.testing.assert_array_equal(large, np.tile([0, 1, 1, 0, 0, 0, *[0] * 12], (9, 1)))


def test_noise_of_a_record_gives_the_record_back_and_is_uniform():
    """u given x is uniform over all records together: KS p > .001 for 20,000; planted: u of another
    theta.
    """
    model = LogLinear(20_000, CLASSES, VALUES)
    with jax.enable_x64(True):
        records = jnp.asarray(model.simulate(jax.random.key(3), THETA[None])[0])
        keys = jax.random.split(jax.random.key(4), 20_000)
        noise_of = jax.vmap(model.noise_of_record, (0, 0, None))
        u = noise_of(keys, records, jnp.asarray(THETA))
        np.testing.assert_array_equal(
            jax.vmap(model.record, (0, None))(u, jnp.asarray(THETA)), records
        )
        wrong = noise_of(keys, records, jnp.asarray(OTHER))
    assert min(stats.kstest(column, "uniform").pvalue for column in np.asarray(u).T) > 1e-3
    assert min(stats.kstest(column, "uniform").pvalue for column in np.asarray(wrong).T) < 1e-6


@pytest.mark.slow
def test_sampled_parameters_are_dirichlet():
    """20,000 draws of each free coordinate are Beta(alpha + a, J alpha + n - alpha - a): KS p >
    .001/15.
    """
    model = LogLinear(num_records=12, num_classes=CLASSES, num_values=VALUES, concentration=1.5)
    records = model.simulate(jax.random.key(5), THETA[None])[0]
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(6), 20_000)
        draws = np.asarray(
            jax.vmap(lambda key: model.sample_parameters(key, jnp.asarray(records), THETA))(keys)
        )
    model.check_parameters(draws)

    def worst(records):
        values = []
        for name, column in zip(model.parameter_names, draws.T, strict=True):
            numbers = [int(part) for part in name[2:-1].split(",")]
            members = records[records[:, 0] == numbers[0]]
            if len(numbers) == 1:
                hits, total, parts = len(members), len(records), CLASSES
            else:
                _, k, j = numbers
                hits, total, parts = (members[:, 1 + k] == j).sum(), len(members), VALUES[k]
            law = stats.beta(1.5 + hits, 1.5 * (parts - 1) + total - hits)
            values.append(stats.kstest(column, law.cdf).pvalue)
        return min(values)

    assert model.can_sample_parameters
    assert worst(records) > 1e-3 / 21
    assert worst(np.vstack([records[1:], (records[0] + 1) % 2])) < 1e-6


def test_statistics_are_those_of_the_simulated_records():
    model, query = (
        LogLinear(50, CLASSES, VALUES),
        nw.queries.CategoryProportions(CLASSES, VALUES, 50),
    )
    theta = np.stack([THETA, OTHER])
    s, x = (
        model.statistics(jax.random.key(7), theta, query),
        model.simulate(jax.random.key(7), theta),
    )
    np.testing.assert_array_equal(s, [query(database) for database in x])


def test_probabilities_that_do_not_sum_to_one_are_refused():
    theta = np.tile(THETA, (3, 1))
    theta[1, 7] += 0.01
    for call in (
        lambda: MODEL.statistics(jax.random.key(0), theta, QUERY),
        lambda: MODEL.simulate(jax.random.key(0), theta),
    ):
        with pytest.raises(
            InvalidInputError,
            match=r"sum to 1, but in row 1 the one from p\[1,0,0\] on sums to 1.01",
        ):
            call()
    with pytest.raises(InvalidInputError, match="negative"):
        MODEL.simulate(jax.random.key(0), np.concatenate([[-0.5, 1.5], THETA[2:]])[None])
    with pytest.raises(InvalidInputError, match="21 columns for 3 classes"):
        MODEL.simulate(jax.random.key(0), THETA[None, 1:])
    assert MODEL.simulate(jax.random.key(0), THETA[None].astype(np.float32)).shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"num_values": (2, 1)},
            InvalidInputError,
            "num_values must be a whole number >= 2, got 1. .* leave it out",
        ),
        ({"num_values": ()}, InvalidTypeError, "num_values must be a tuple"),
        ({"num_values": 2}, InvalidTypeError, "num_values must be a tuple"),
        ({"num_classes": 1}, InvalidInputError, "num_classes"),
        ({"num_records": 0}, InvalidInputError, "num_records"),
        ({"concentration": 0.0}, InvalidInputError, "concentration"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        LogLinear(**{"num_records": 10, "num_classes": 2, "num_values": (2, 2), **settings})


def test_tables_of_another_shape_are_refused():
    with pytest.raises(InvalidInputError, match="tables must have the shapes"):
        QUERY.statistic_of_tables([np.zeros((3, 2)), np.zeros((3, 3))])
    np.testing.assert_array_equal(
        QUERY.statistic_of_tables([np.eye(3)[:, :2], np.eye(3, 4)]),
        QUERY([[0, 0, 0], [1, 1, 1]]) + 0.5 * np.eye(18)[16],
    )
