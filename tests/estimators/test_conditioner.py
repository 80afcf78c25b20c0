"""What networks see of conditions: predictions by least squares, tamed tails, one network for all
layers.
"""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.conditioner import Conditioner
from noisewise.estimators.embedding import Embedding
from noisewise.estimators.files import density_arrays, read_density, to_spec
from noisewise.estimators.members import ensemble
from noisewise.estimators.whitening import Whitening
from tests.estimators.catalogue import FACTORIES, perturbed

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
NUM = 2000


def left(values, target, rows=slice(None)):
    """The share of a target's variance that the predictions leave, by a line through them."""
    seen = Conditioner.fit(values[:NUM], target[:NUM])(values)[rows]
    return [
        1.0 - np.corrcoef(seen[:, j], target[rows, j])[0, 1] ** 2 for j in range(target.shape[1])
    ]


def test_predictions_are_those_of_least_squares_with_unit_variance():
    """With 40 rows per column ridge and least squares differ by less than the variance that chance
    explains, 50 / 2000 of what is left.
    """
    values = RNG.normal(size=(NUM, 50))
    target = values[:, :2] - values[:, 2:4] + RNG.normal(size=(NUM, 2))
    seen = Conditioner.fit(values, target)(values)
    assert seen.shape == (NUM, 52)
    np.testing.assert_allclose(seen.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(seen.std(axis=0), 1.0, rtol=1e-6)
    design = np.column_stack([np.ones(NUM), values])
    fitted = design @ np.linalg.lstsq(design, target, rcond=None)[0]
    for j in range(2):
        assert np.corrcoef(seen[:, j], fitted[:, j])[0, 1] ** 2 > 1.0 - 2.0 * 50 / NUM


def test_contributions_bend_only_where_that_predicts_better():
    """|c| has correlation 0 with c, and four pieces follow it; pure noise is predicted no better
    than by nothing: with 400 rows and 81 terms, unpenalised least squares would leave 1.2 times the
    variance in fresh rows.
    """
    values = RNG.normal(size=(2 * NUM, 3))
    assert left(values, np.abs(values[:, :1]), slice(NUM, None))[0] < 0.02
    noise, many = RNG.normal(size=(4400, 1)), RNG.normal(size=(4400, 20))
    fit = Conditioner.fit(many[:400], noise[:400])
    slope = np.cov(fit(many[400:])[:, 0], noise[400:, 0])[0, 1]
    assert abs(slope) < 4.5 / np.sqrt(4000)


def test_heavy_tails_are_tamed_and_others_are_not():
    heavy, normal = np.exp(1.5 * RNG.normal(size=(NUM, 1))), RNG.normal(size=(NUM, 1))
    values = np.concatenate([heavy, normal], axis=1)
    found = Conditioner.fit(values, np.log(heavy))
    assert found.inverse_width[0] > 0.0
    assert found.inverse_width[1] == 0.0
    u = found(values)[:, 1:]
    assert np.abs(u[:, 0]).max() < 6.0 < np.abs((heavy - heavy.mean()) / heavy.std()).max()
    np.testing.assert_allclose(u[:, 1], (normal[:, 0] - normal.mean()) / normal.std(), atol=1e-12)


def test_one_heavy_tail_is_tamed_from_the_other_end():
    """Distances of the median from the 95th and from the 5th percentile of counts of lognormal
    rates: 5 to 1, 2.6 with the inverse hyperbolic sine around the median, 2.1 from the light end;
    the same with the tail below.
    """
    rng = np.random.default_rng(1)
    log_rate = 3.5 + rng.normal(size=4 * NUM)
    counts = rng.poisson(np.exp(log_rate)) + 0.0
    found = Conditioner.fit(np.stack([counts, -counts], axis=1), log_rate[:, None])
    u = found(np.stack([counts, -counts], axis=1))[:, 1:]
    np.testing.assert_allclose(u[:, 0], -u[:, 1], atol=1e-9)
    low, middle, high = np.quantile(u[:, 0], [0.05, 0.5, 0.95])
    assert (high - middle) / (middle - low) < 2.3


@pytest.mark.parametrize(
    "column",
    [
        np.zeros(NUM),
        np.full(NUM, 1e9),
        (RNG.uniform(size=NUM) < 0.02) * 1.0,
        RNG.poisson(0.1, NUM) * 5.0,
        RNG.standard_cauchy(NUM) * 1e100,
        np.r_[np.zeros(NUM - 1), 1e100],
    ],
    ids=["zero", "constant", "rare", "lattice", "cauchy", "one outlier"],
)
def test_odd_columns_stay_finite(column):
    values = np.stack([column, RNG.normal(size=NUM)], axis=1)
    target = values[:, 1:] + 0.1 * RNG.normal(size=(NUM, 1))
    seen = Conditioner.fit(values, target)(values)
    assert np.isfinite(seen).all()
    assert np.corrcoef(seen[:, 0], target[:, 0])[0, 1] > 0.98


def test_what_says_nothing_predicts_nothing():
    seen = Conditioner.fit(np.ones((50, 2)), RNG.normal(size=(50, 1)))(np.ones((3, 2)))
    np.testing.assert_array_equal(seen, 0.0)


def test_numpy_and_compiled_programs_agree():
    values = np.concatenate([RNG.normal(size=(NUM, 2)), RNG.standard_cauchy((NUM, 1))], axis=1)
    found = Conditioner.fit(values, values[:, :1] ** 2)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda c, v: c(v))(found, jnp.asarray(values))
    np.testing.assert_allclose(compiled, found(values), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("num_columns", [0, 3])
def test_an_embedded_estimator_is_a_density(name, num_columns):
    """It integrates to 1 over a fine grid, batches agree with single points, and every weight gets
    a gradient.
    """
    embedding = Embedding(num_columns=num_columns, num_units=8, num_hidden=1)
    made = perturbed(embedding.around(FACTORIES[name])(KEY, 1, 4))
    condition = jnp.asarray([0.3, -1.0, 0.5, 2.0], jnp.float32)
    grid = jnp.linspace(-15.0, 15.0, 6001, dtype=jnp.float32)[:, None]
    rows = jnp.stack([condition, 2.0 * condition])
    points = jax.random.normal(KEY, (40, 1))

    @eqx.filter_jit
    def evaluated(made):
        return (
            made.log_prob(grid, condition),
            made.log_prob(jnp.ones((2, 1)), rows),
            made.log_prob(jnp.ones(1), rows[1]),
            made.sample(KEY, (5,), rows),
            eqx.filter_grad(lambda m: m.log_prob(points, rows[:1]).sum())(made),
        )

    log_density, both, alone, drawn, gradient = evaluated(made)
    density = np.exp(np.asarray(log_density, dtype=float))
    assert abs(np.trapezoid(density, np.asarray(grid)[:, 0]) - 1.0) < 2e-3
    np.testing.assert_allclose(both[1], alone, rtol=1e-4)
    assert drawn.shape == (5, 2, 1)
    if made.network is not None:
        assert all(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(gradient.network))


def test_too_few_columns_and_bad_sizes_are_refused():
    with pytest.raises(InvalidInputError, match="predictions of all 3 targets"):
        Embedding().around(FACTORIES["mixture density"])(KEY, 3, 2)
    with pytest.raises(InvalidInputError, match="num_units"):
        Embedding(num_units=0)


def saved():
    values = np.concatenate([RNG.normal(size=(300, 2)), RNG.standard_cauchy((300, 1))], axis=1)
    target = values[:, :2] + RNG.normal(size=(300, 2))
    conditioner = Conditioner.fit(values, target)
    whitening = Whitening.fit(target, conditioner(values)[:, :2]).widened(3)
    factory = Embedding(num_units=8).around(FACTORIES["masked autoregressive"])
    members = perturbed(ensemble(KEY, factory, 1, 2, 5))
    density = ConditionalDensity(members, conditioner, whitening)
    spec = json.loads(json.dumps(to_spec(factory, 2, 5, num_members=1)))
    return density, spec, density_arrays(density), values, target


def test_a_density_with_an_embedding_comes_back_from_files_bit_by_bit():
    density, spec, arrays, values, target = saved()
    again = read_density(spec, 1, arrays)
    assert again.dims == density.dims == (2, 3)
    np.testing.assert_array_equal(again.log_prob(target, values), density.log_prob(target, values))


HOSTILE = {
    "no sizes": {},
    "not sizes": [4, 50, 2],
    "more sizes": {"num_columns": 4, "num_units": 8, "num_hidden": 2, "code": 1},
    "another size": {"num_columns": 5, "num_units": 8, "num_hidden": 2},
    "huge": {"num_columns": 4, "num_units": 2**62, "num_hidden": 2},
    "text": {"num_columns": "4", "num_units": 8, "num_hidden": 2},
    "none": {"num_columns": None, "num_units": 8, "num_hidden": 2},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_embeddings_are_refused(case):
    _, spec, arrays, *_ = saved()
    with pytest.raises(FileFormatError):
        read_density({**spec, "embedding": HOSTILE[case]}, 1, arrays)


@pytest.mark.parametrize("name", ["centre", "inverse_width", "knots", "coefficients"])
def test_wrong_conditioners_are_refused(name):
    _, spec, arrays, *_ = saved()
    whole = arrays[f"conditioner.{name}"]
    for bad in (whole[:1], np.full_like(whole, np.nan), whole.astype(np.float32)):
        with pytest.raises(FileFormatError, match=name):
            read_density(spec, 1, {**arrays, f"conditioner.{name}": bad})
    plain = {key: value for key, value in spec.items() if key != "embedding"}
    with pytest.raises(FileFormatError):
        read_density(plain, 1, arrays)
