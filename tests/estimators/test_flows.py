"""Every estimator of the catalogue is a density and samples from it, and planted bugs break the
laws.
"""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
import pytest
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import AbstractDistribution
from scipy.stats import kstest, norm

from noisewise.errors import InvalidInputError, InvalidTypeError, NoisewiseError
from noisewise.estimators import _columns, _spline, flows
from tests.estimators.catalogue import CONDITION, DEFAULTS, FACTORIES, example

HALF_WIDTH, CELLS = 9.0, 360
STEP = 2.0 * HALF_WIDTH / CELLS
CENTRES = (np.arange(CELLS) + 0.5) * STEP - HALF_WIDTH
GRID = np.stack(np.meshgrid(CENTRES, CENTRES, indexing="ij"), axis=-1).astype(np.float32)
NUM_DRAWS = 20_000

catalogue = pytest.mark.parametrize("name", FACTORIES)


def compiled():
    """A density of its own, so that planted bugs neither meet nor leave compiled programs."""
    return eqx.filter_jit(lambda estimator, x: estimator.log_prob(x, CONDITION))


log_prob = compiled()
value_and_gradient = eqx.filter_jit(
    eqx.filter_value_and_grad(lambda e, x, condition: e.log_prob(x, condition).mean())
)


def density_on_grid(estimator, log_prob=log_prob):
    return np.exp(np.asarray(log_prob(estimator, GRID), np.float64))


def mass_and_error(density):
    """The mass by the midpoint rule and a bound of its error.

    In a cell of width h the rule errs by at most h^2 / 24 |f''| where f is smooth and h^2 / 8 times
    the jump of f' where it has a kink; both are at most |second difference| / 8. What lies outside
    the grid is below the border's density times a tail of width 1.
    """
    curvature = sum(np.abs(np.diff(density, 2, axis=axis)).sum() for axis in (0, 1)) * STEP**2 / 8.0
    border = np.concatenate([density[[0, -1]].ravel(), density[:, [0, -1]].ravel()])
    return density.sum() * STEP**2, curvature + border.sum() * STEP + 1e-5


def integrates_to_one(density):
    mass, error = mass_and_error(density)
    assert error < 0.01
    assert abs(mass - 1.0) <= error


@catalogue
def test_density_integrates_to_one(name):
    integrates_to_one(density_on_grid(example(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFAULTS)
def test_density_of_default_size_integrates_to_one(name):
    integrates_to_one(density_on_grid(example(name, factories=DEFAULTS, scale=0.05)))


@pytest.mark.parametrize("name", ["spline coupling", "masked autoregressive"])
def test_wrong_sign_of_the_determinant_is_caught(name, monkeypatch):
    right = flows._log_normal
    monkeypatch.setattr(flows, "_log_normal", lambda z, log_det: right(z, -log_det))
    with pytest.raises(AssertionError):
        integrates_to_one(density_on_grid(example(name), compiled()))


def test_weights_that_do_not_add_up_are_caught(monkeypatch):
    monkeypatch.setattr(jax.nn, "log_softmax", lambda logits, axis: logits)
    with pytest.raises(AssertionError):
        integrates_to_one(density_on_grid(example("mixture density"), compiled()))


def samples_follow_density(draws, log_density_of_draws, density):
    """E log q by draws and by the grid within 4.5 standard errors, and both margins by
    Kolmogorov-Smirnov at 0.0005.

    The grid's margins are exact at the edges of cells up to the midpoint rule's error, below 0.002
    here, where the test resolves 0.014.
    """
    entropy = np.sum(density * np.log(np.maximum(density, 1e-300))) * STEP**2
    error = log_density_of_draws.std() / math.sqrt(len(draws))
    assert abs(log_density_of_draws.mean() - entropy) < 4.5 * error + 0.005
    edges = np.linspace(-HALF_WIDTH, HALF_WIDTH, CELLS + 1)
    for axis in (0, 1):
        cumulative = np.concatenate([[0.0], np.cumsum(density.sum(axis=1 - axis)) * STEP**2])
        cdf = functools.partial(np.interp, xp=edges, fp=cumulative / cumulative[-1])
        assert kstest(draws[:, axis], cdf).pvalue > 0.0005


@catalogue
@pytest.mark.slow
def test_samples_follow_the_density(name):
    estimator = example(name)
    draws = eqx.filter_jit(lambda e: e.sample(jax.random.key(3), GRID.shape[:2], CONDITION))(
        estimator
    )
    rows = [
        np.asarray(part, np.float64).reshape(CELLS**2, -1)
        for part in (draws, log_prob(estimator, draws))
    ]
    draws, log_density = rows[0][:NUM_DRAWS], rows[1][:NUM_DRAWS, 0]
    density = density_on_grid(estimator)
    samples_follow_density(draws, log_density, density)
    with pytest.raises(AssertionError):
        samples_follow_density(0.95 * draws, log_density, density)


def networks_of(estimator):
    """The networks of an estimator, each with its owner."""
    if hasattr(estimator, "steps"):
        return [(estimator.network, estimator), *networks_of(estimator.steps)]
    return [(getattr(estimator, "network", None) or estimator.networks, estimator)]


def with_all_units_active(estimator):
    """A unit that is off wherever another is on says nothing about the connection between them."""

    def parts(e, name, start):
        return [leaf for n, _ in networks_of(e) for leaf in getattr(n, name)[start:-1]]

    raised = eqx.tree_at(lambda e: parts(e, "biases", 0), estimator, replace_fn=lambda b: b + 1.0)
    return eqx.tree_at(lambda e: parts(e, "weights", 1), raised, replace_fn=jnp.abs)


@catalogue
def test_gradient_reaches_every_parameter(name):
    """Each entry has a non-zero gradient, but for connections that the autoregressive order
    forbids.
    """
    estimator = with_all_units_active(example(name, scale=0.05))
    rng = np.random.default_rng(5)
    x, condition = (3.0 * rng.normal(size=(2000, 2)).astype(np.float32) for _ in range(2))
    _, gradient = value_and_gradient(estimator, x, condition)
    count = 0
    for networks, owner in networks_of(gradient):
        masks = getattr(owner, "masks", [np.ones(1)] * len(networks.weights))
        for weight, mask in zip(networks.weights, masks, strict=True):
            np.testing.assert_array_equal(weight != 0.0, np.broadcast_to(mask != 0.0, weight.shape))
        assert all(np.all(bias != 0.0) for bias in networks.biases)
        count += 2 * len(networks.weights)
    leaves = [leaf for leaf in jax.tree.leaves(gradient) if eqx.is_inexact_array(leaf)]
    assert len(leaves) == count


@catalogue
@jax.enable_x64(True)
def test_batches_and_single_points_agree_in_float32_whatever_the_flag(name):
    """Rows in a batch, single points under vmap, and broadcast conditions: float32 rounding of sums
    of 10 terms.
    """
    estimator = example(name)
    rng = np.random.default_rng(6)
    x, condition = rng.normal(size=(3, 1, 2)), rng.normal(size=(4, 2))

    @eqx.filter_jit
    def evaluate(estimator, x, condition):
        single = jax.vmap(lambda x: jax.vmap(lambda c: estimator.log_prob(x[0], c))(condition))(x)
        empty = estimator.log_prob(jnp.zeros((0, 2)), condition[0])
        return (
            estimator.log_prob(x, condition),
            single,
            empty,
            estimator.sample(jax.random.key(0), (5,), condition),
        )

    batch, single, empty, draws = evaluate(estimator, x, condition)
    assert batch.shape == single.shape == (3, 4)
    assert empty.shape == (0,)
    assert draws.shape == (5, 4, 2)
    assert {part.dtype for part in (batch, single, draws)} == {np.dtype(np.float32)}
    np.testing.assert_allclose(single, batch, rtol=1e-4, atol=1e-4)
    assert isinstance(estimator, AbstractDistribution)
    assert paramax.unwrap(estimator).shape == (2,)


@pytest.mark.slow
def test_blocks_change_nothing(monkeypatch):
    """Values, draws and gradients of 30 rows, in blocks of 8 at most or at once, to float32
    rounding.
    """
    estimator = example("mixture density")
    x = np.random.default_rng(9).normal(size=(30, 2)).astype(np.float32)

    def evaluate():
        run = lambda e: (e.log_prob(x, CONDITION), e.sample(jax.random.key(1), (30,), CONDITION))
        loss = lambda e: e.log_prob(x, CONDITION).mean()
        return eqx.filter_jit(lambda e: (run(e), jax.tree.leaves(eqx.filter_grad(loss)(e))))(
            estimator
        )

    at_once = evaluate()
    monkeypatch.setattr(_columns, "_BLOCK", 8)
    for one, other in zip(jax.tree.leaves(at_once), jax.tree.leaves(evaluate()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@catalogue
@pytest.mark.parametrize(
    ("target_dim", "condition_dim"), [(1, 3), pytest.param(2, None, marks=pytest.mark.slow)]
)
def test_narrow_estimators(name, target_dim, condition_dim):
    """One target or no condition: finite densities, and a mass of 1 on the line."""
    estimator = example(name, target_dim, condition_dim)
    condition = None if condition_dim is None else np.zeros(condition_dim)
    x = np.zeros((CELLS, target_dim), np.float32)
    x[:, 0] = CENTRES
    run = eqx.filter_jit(
        lambda e, x: (e.log_prob(x, condition), e.sample(jax.random.key(0), (7,), condition))
    )
    log_density, draws = run(estimator, x)
    density = np.exp(np.asarray(log_density, np.float64))
    assert np.all(np.isfinite(density))
    assert draws.shape == (7, target_dim)
    if target_dim == 1:
        curvature = np.abs(np.diff(density, 2)).sum() * STEP / 8.0
        assert density.sum() * STEP == pytest.approx(1.0, abs=curvature + 1e-5)


@catalogue
@pytest.mark.slow
def test_far_points_give_finite_densities_and_gradients(name):
    x = np.array([[1e6, -1e6], [0.0, 0.0], [30.0, 0.0], [0.0, 5.0]], np.float32)
    condition = np.array([[0.0, 0.0], [1e4, -1e4], [100.0, 100.0], [0.0, 0.0]], np.float32)
    value, gradients = value_and_gradient(
        example(name), np.tile(x, (500, 1)), np.tile(condition, (500, 1))
    )
    assert np.isfinite(value)
    assert all(
        np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients) if eqx.is_inexact_array(leaf)
    )


@pytest.mark.parametrize("name", ["spline coupling", "masked autoregressive"])
def test_flows_start_as_the_standard_normal(name):
    flow = FACTORIES[name](jax.random.key(0), 2, 2)
    np.testing.assert_allclose(
        log_prob(flow, GRID), norm.logpdf(GRID).sum(axis=-1), rtol=1e-5, atol=1e-4
    )


@catalogue
def test_bad_arguments(name):
    factory, key = FACTORIES[name], jax.random.key(0)
    for bad in ((0, 2), (2, -1), (2.5, 2), ("2", 2)):
        with pytest.raises(NoisewiseError, match="dim must be a whole number"):
            factory(key, *bad)
    with pytest.raises(InvalidInputError, match="num_units"):
        factory(key, 2, 2, num_units=0)
    with pytest.raises(InvalidTypeError, match="PRNG key"):
        factory(True, 2, 2)
    estimator = factory(key, 2, 2)
    with pytest.raises(InvalidInputError, match=r"x must have shape \(\.\.\., 2\)"):
        estimator.log_prob(np.zeros(3), np.zeros(2))
    with pytest.raises(InvalidInputError, match=r"condition must have shape"):
        estimator.log_prob(np.zeros(2), np.zeros(3))
    with pytest.raises(InvalidTypeError, match="condition must be an array"):
        estimator.sample(key)
    with pytest.raises(InvalidInputError, match="no condition"):
        factory(key, 2, None).log_prob(np.zeros(2), np.zeros(2))


def test_bad_splines():
    for settings in (
        {"num_bins": 1},
        {"bound": 0.0},
        {"bound": math.nan},
        {"num_bins": 100, "bound": 0.1},
    ):
        with pytest.raises(NoisewiseError, match=next(iter(settings))):
            flows.neural_spline_flow(jax.random.key(0), 2, 2, **settings)


# The spline ---------------------------------------------------------------------------------------

BINS, BOUND = 10, 5.0


def flowjax_spline(parameters, x, *, inverse=False):
    """flowjax's spline with our parameters: its end slopes are free, and set to 1 here."""

    def one(raw, x):
        slopes = jnp.concatenate([jnp.zeros(1), raw[2 * BINS :], jnp.zeros(1)]) + _spline._SLOPE_ONE
        made = eqx.tree_at(
            lambda spline: (spline.x_pos.arr, spline.y_pos.arr, spline.derivatives.args[0]),
            RationalQuadraticSpline(knots=BINS - 1, interval=BOUND),
            (raw[:BINS], raw[BINS : 2 * BINS], slopes),
        )
        made = paramax.unwrap(made)
        return made.inverse_and_log_det(x) if inverse else made.transform_and_log_det(x)

    y, log_det = jax.vmap(one, in_axes=(1, 0))(parameters, x)
    return y, -log_det if inverse else log_det


@jax.jit
def all_splines(parameters, x):
    """Ours, theirs, and what must cancel: the inverse of the image, and the logarithm of the
    derivative.
    """
    forward = lambda x, raw: _spline.spline(x, raw, BOUND)[0]
    y, log_slope = _spline.spline(x, parameters, BOUND)
    slope = jax.vmap(jax.grad(forward), in_axes=(0, 1))(x, parameters)
    return {
        "ours": (y, log_slope, *_spline.inverse_spline(x, parameters, BOUND)),
        "theirs": (*flowjax_spline(parameters, x), *flowjax_spline(parameters, x, inverse=True)),
        "back": _spline.inverse_spline(y, parameters, BOUND),
        "log derivative": jnp.log(slope),
    }


@pytest.fixture(scope="module")
def splines():
    """In float64 and in float32, at random parameters and points, one sixth of them outside the
    interval.
    """
    rng = np.random.default_rng(8)
    case = 2.0 * rng.normal(size=(3 * BINS - 1, 1000)), rng.uniform(-6.0, 6.0, size=1000)
    with jax.enable_x64(True):
        exact = jax.tree.map(np.asarray, all_splines(*map(jnp.asarray, case)))
    with jax.enable_x64(False):
        rounded = jax.tree.map(
            np.asarray, all_splines(*(jnp.asarray(part, jnp.float32) for part in case))
        )
    return case[1], exact, rounded


def test_spline_is_flowjaxs(splines):
    """Equal in float64 to 1e-9, which no other formula would be; in float32 no further from that
    than flowjax's own.
    """
    _, exact, rounded = splines
    for ours, theirs in zip(exact["ours"], exact["theirs"], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    for ours, theirs, truth in zip(rounded["ours"], rounded["theirs"], exact["ours"], strict=True):
        assert np.abs(ours - truth).max() < 3.0 * np.abs(theirs - truth).max()


def test_spline_and_its_inverse_cancel(splines):
    x, exact, _ = splines
    back, log_slope_back = exact["back"]
    np.testing.assert_allclose(back, x, atol=1e-9)
    np.testing.assert_allclose(log_slope_back, exact["ours"][1], atol=1e-7)
    np.testing.assert_allclose(exact["log derivative"], exact["ours"][1], atol=1e-9)
