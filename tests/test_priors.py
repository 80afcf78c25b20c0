"""Priors: laws over a table of supports, edges and points off the support, unconstrained
coordinates, fingerprints.
"""

import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as st

import noisewise as nw
from noisewise import errors
from noisewise.priors import coordinates
from tests.catalogue_priors import ALL, ONE

KEY = jax.random.key(11)
RNG = np.random.default_rng(3)
Z = RNG.normal(0.0, 1.5, size=(2001, 60))
"""Unconstrained points, cut to the width a test needs (drawing from a law compiles slowly)."""


@pytest.fixture(scope="module", params=ALL, ids=str)
def made(request):
    """(case, prior, points of its support)."""
    case = ALL[request.param]
    with jax.enable_x64(True):
        prior = nw.Prior({"a": case.make()})
    return case, prior, prior.constrain(Z[:, : prior.unconstrained_dim])


def test_round_trip_through_unconstrained_coordinates(made):
    _, prior, theta = made
    assert theta.shape == (len(Z), prior.dim)
    assert theta.dtype == np.float64
    z = prior.unconstrain(theta)
    np.testing.assert_allclose(z, Z[:, : prior.unconstrained_dim], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(prior.constrain(z), theta, rtol=1e-10, atol=1e-10)


def test_density_equals_scipys(made):
    case, prior, theta = made
    if case.twin is None:
        pytest.skip("scipy has no such law")
    theirs = case.twin.logpdf(
        theta.T if "dirichlet" in type(case.twin).__name__ else theta.squeeze()
    )
    np.testing.assert_allclose(prior.log_prob(theta), theirs, rtol=1e-10, atol=1e-10)


def test_off_the_support_is_minus_infinity_without_a_warning(made):
    """Warnings are errors in this suite; numpyro's own log_prob warns, or gives the density of a
    uniform anywhere.
    """
    case, prior, theta = made
    rows = theta.copy()
    rows[0] = np.nan
    rows[1] = np.inf if case.off is None else case.off
    values = prior.log_prob(rows)
    assert np.isneginf(values[:2]).all()
    assert np.isfinite(values[2:]).all()
    assert prior.support_contains(rows).tolist() == np.isfinite(values).tolist()
    assert np.isnan(prior.unconstrain(rows)).all(1).tolist() == np.isneginf(values).tolist()


def test_jacobian_equals_automatic_differentiation(made):
    """The matrix of derivatives of the free entries of theta, from which the other entries follow."""
    case, prior, theta = made
    free = np.arange(prior.dim) if case.free is None else np.array(case.free)
    if prior.unconstrained_dim != len(free) or len(free) > 20:
        pytest.skip(
            "zero-sum coordinates are no choice of entries, and the small simplex stands for the"
            " large one"
        )
    z = Z[:, : len(free)]
    with jax.enable_x64(True):
        jacobian = jax.jit(jax.jacfwd(lambda z: prior.constrain(z)[free]))(jnp.asarray(z[0]))
    claimed = prior.log_prob_unconstrained(z) - prior.log_prob(theta)
    assert claimed[0] == pytest.approx(
        np.linalg.slogdet(np.asarray(jacobian))[1], rel=1e-7, abs=1e-7
    )


T = np.linspace(-12.0, 12.0, len(Z))
LINE = np.sinh(T)[:, None]
"""Points of the real line up to 81,000, dense at zero; beyond them Student's t with 3 degrees has
mass 1e-14.
"""


def total_mass(log_density):
    """The trapezoidal rule in t, z = sinh(t): exponentially accurate for smooth densities, far
    below 1e-6 here.
    """
    return (np.exp(log_density) * np.cosh(T)).sum() * (T[1] - T[0])


@pytest.mark.parametrize("name", ONE, ids=str)
def test_density_of_z_integrates_to_one_and_needs_its_jacobian(name):
    with jax.enable_x64(True):
        prior = nw.Prior({"a": ONE[name].make()})
    assert total_mass(prior.log_prob_unconstrained(LINE)) == pytest.approx(1.0, abs=1e-6)
    theta = prior.constrain(LINE)
    if not np.array_equal(theta, LINE):
        forgotten = total_mass(prior.log_prob(theta))
        assert abs(forgotten - 1.0) > 0.05, "without the Jacobian the mass must be visibly wrong"


@pytest.mark.parametrize(
    "concentration",
    [pytest.param([2.0, 1.0, 3.5], marks=pytest.mark.slow), [0.5, 0.5, 0.5]],
    ids=str,
)
def test_density_of_z_on_the_simplex_integrates_to_one(concentration):
    prior = nw.Prior({"p": dist.Dirichlet(np.array(concentration))})
    axis = np.linspace(-50.0, 50.0, 801)
    z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    cell = (axis[1] - axis[0]) ** 2
    assert np.exp(prior.log_prob_unconstrained(z)).sum() * cell == pytest.approx(1.0, abs=1e-6)
    forgotten = np.exp(prior.log_prob(prior.constrain(z))).sum() * cell
    assert abs(forgotten - 1.0) > 0.05


# Edges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "edges"),
    [
        (dist.Uniform(-1, 2), [-1.0, 2.0]),
        (dist.Uniform(1e6, 1e6 + 1), [1e6, 1e6 + 1]),
        (dist.Beta(2, 3), [0.0, 1.0]),
    ],
    ids=["uniform", "narrow", "beta"],
)
def test_closed_edges_have_finite_unconstrained_coordinates(law, edges):
    prior = nw.Prior({"a": law})
    theta = np.array(edges)[:, None]
    z = prior.unconstrain(theta)
    assert np.isfinite(z).all()
    np.testing.assert_allclose(prior.constrain(z), theta, rtol=1e-10, atol=1e-10)


def test_infinite_density_on_an_edge_counts_as_off_the_support():
    prior = nw.Prior({"a": dist.Beta(0.5, 0.5)})
    assert prior.log_prob([[0.0], [0.5]]).tolist() == [
        -np.inf,
        pytest.approx(st.beta(0.5, 0.5).logpdf(0.5)),
    ]


def test_extreme_coordinates_never_give_nan():
    prior = nw.Prior(
        {"g": dist.Gamma(2.0, 3.0), "u": dist.Uniform(0, 1), "p": dist.Dirichlet(np.ones(3))}
    )
    z = np.array([[sign * size] * 4 for sign in (-1.0, 1.0) for size in (50.0, 800.0, 1e6)])
    assert not np.isnan(prior.log_prob_unconstrained(z)).any()
    assert np.isneginf(prior.log_prob_unconstrained(np.full((1, 4), np.nan))).all()


# Structure ----------------------------------------------------------------------------------------


def mixed():
    return nw.Prior(
        {
            "beta": dist.Normal(0, 1).expand([3]).to_event(1),
            "rate": dist.LogNormal(0, 1),
            "L": dist.LKJCholesky(2, 1.0),
            "p": dist.Dirichlet(np.ones((2, 3))),
        }
    )


def test_names_and_widths():
    prior = mixed()
    names = (
        "beta[0] beta[1] beta[2] rate L[0,0] L[0,1] L[1,0] L[1,1] p[0,0] p[0,1] p[0,2] p[1,0]"
        " p[1,1] p[1,2]"
    )
    assert prior.names == tuple(names.split())
    assert (prior.dim, prior.unconstrained_dim) == (14, 3 + 1 + 1 + 4)
    assert (
        repr(prior)
        == "Prior(beta: Normal[3], rate: LogNormal, L: LKJCholesky[2, 2], p: Dirichlet[2, 3])"
    )
    assert list(prior.distributions) == ["beta", "rate", "L", "p"]


def test_densities_of_the_parameters_add_up():
    prior = nw.Prior({"a": dist.Gamma(2.0, 3.0), "b": dist.Beta(2, 3)})
    theta = prior.constrain(Z[:, :2])
    parts = st.gamma(2, scale=1 / 3).logpdf(theta[:, 0]) + st.beta(2, 3).logpdf(theta[:, 1])
    np.testing.assert_allclose(prior.log_prob(theta), parts, rtol=1e-10)


def test_batch_axes_need_no_to_event():
    plain = nw.Prior({"a": dist.Normal(np.arange(3.0), 1.0)})
    event = nw.Prior({"a": dist.Normal(np.arange(3.0), 1.0).to_event(1)})
    assert plain == event
    assert np.array_equal(plain.log_prob(Z[:, :3]), event.log_prob(Z[:, :3]))
    assert plain.log_prob(Z[:, :3]).shape == (len(Z),)


def test_dictionaries_and_back():
    prior = mixed()
    theta = prior.constrain(Z[:4, :9]).reshape(2, 2, 14)
    values = prior.as_dict(theta)
    assert {name: value.shape for name, value in values.items()} == {
        "beta": (2, 2, 3), "rate": (2, 2), "L": (2, 2, 2, 2), "p": (2, 2, 2, 3),
    }  # fmt: skip
    assert list(values) == ["beta", "rate", "L", "p"]
    assert np.array_equal(prior.from_dict(values), theta)
    values["beta"] = values["beta"][0, 0]
    assert prior.from_dict(values).shape == (2, 2, 14)


def test_works_under_transformations_and_both_flags(x64_flag):
    prior = nw.Prior(
        {
            "beta": dist.Normal(0, 1).expand([2]),
            "rate": dist.LogNormal(0, 1),
            "p": dist.Dirichlet(np.ones(3)),
        }
    )
    z = Z[:4, :5]
    theta = prior.constrain(z)
    expected = prior.log_prob_unconstrained(z)
    assert theta.dtype == expected.dtype == np.float64
    tolerance = 1e-12 if x64_flag else 1e-5
    np.testing.assert_allclose(jax.jit(prior.log_prob_unconstrained)(z), expected, rtol=tolerance)
    np.testing.assert_allclose(
        jax.vmap(prior.log_prob)(theta), prior.log_prob(theta), rtol=tolerance
    )
    gradient = jax.grad(lambda z: prior.log_prob_unconstrained(z))(jnp.asarray(z[0]))
    step = 1e-6 * np.eye(z.shape[1])
    numerical = (
        prior.log_prob_unconstrained(z[0] + step) - prior.log_prob_unconstrained(z[0] - step)
    ) / 2e-6
    np.testing.assert_allclose(gradient, numerical, atol=1e-4)


def test_draws_under_jit_are_the_same():
    """In float64 only: JAX lowers the caller's program, 64-bit draws included, under the caller's
    own setting.
    """
    prior = nw.Prior({"a": dist.Normal(0, 1)})
    with jax.enable_x64(True):
        for num in (4, 1500):
            assert np.array_equal(
                jax.jit(lambda key, num=num: prior.sample(key, num))(KEY), prior.sample(KEY, num)
            )
        assert np.array_equal(jax.jit(lambda: prior.sample(KEY, 4))(), prior.sample(KEY, 4))


def test_gradients_off_the_support_are_finite():
    prior = nw.Prior({"g": dist.Gamma(2.0, 3.0), "p": dist.Dirichlet(np.ones(3))})
    gradient = jax.grad(lambda theta: prior.log_prob(theta))(jnp.array([-1.0, 0.2, 0.3, 0.9]))
    assert np.isfinite(gradient).all()


def test_one_program_serves_all_priors_of_one_structure():
    theta = np.full((7, 1), 0.5)
    nw.Prior({"a": dist.Beta(2.0, 3.0)}).log_prob(theta)
    before = coordinates.log_prob.num_compiled
    nw.Prior({"a": dist.Beta(4.0, 1.5)}).log_prob(theta)
    assert coordinates.log_prob.num_compiled == before
    assert before > 0


# Fingerprints -------------------------------------------------------------------------------------


def test_fingerprints_tell_priors_apart():
    base = {"a": dist.Normal(0, 1), "b": dist.LKJCholesky(2, 1.0)}
    same = nw.Prior({"a": dist.Normal(0.0, 1.0), "b": dist.LKJCholesky(2, 1.0)})
    others = [
        {**base, "a": dist.Normal(0, 1.0000001)},
        {**base, "a": dist.Cauchy(0, 1)},
        {"b": base["b"], "a": base["a"]},
        {"c": base["a"], "b": base["b"]},
        {
            **base,
            "a": dist.TransformedDistribution(dist.Normal(0, 1), dist.transforms.ExpTransform()),
        },
        {**base, "a": dist.Normal(0, 1).expand([2])},
        {**base, "b": dist.LKJCholesky(3, 1.0)},
    ]
    assert nw.Prior(base) == same
    assert hash(nw.Prior(base)) == hash(same)
    fingerprints = {nw.Prior(other).fingerprint() for other in [base, *others]}
    assert len(fingerprints) == len(others) + 1
    assert nw.Prior(base) != "prior"


def test_fingerprint_does_not_depend_on_the_process():
    code = (
        "import numpy as np, numpyro.distributions as dist, noisewise as nw\nprint(nw.Prior({'a':"
        " dist.TruncatedNormal(0, 1, low=0.5), 'p': dist.Dirichlet(np.ones((2,"
        " 3)))}).fingerprint())"
    )
    here = nw.Prior(
        {"a": dist.TruncatedNormal(0, 1, low=0.5), "p": dist.Dirichlet(np.ones((2, 3)))}
    ).fingerprint()
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == here


def test_survives_pickling_in_float64():
    prior = nw.Prior({"a": dist.Normal(0.1, 0.3), "p": dist.Dirichlet(np.array([0.1, 0.7, 1.3]))})
    assert pickle.loads(pickle.dumps(prior)) == prior


# Bad input ----------------------------------------------------------------------------------------

GOOD = nw.Prior({"a": dist.Normal(0, 1), "p": dist.Dirichlet(np.ones(3))})
BAD = {
    "not a mapping": (lambda: nw.Prior([dist.Normal(0, 1)]), errors.InvalidTypeError, "mapping"),
    "empty": (lambda: nw.Prior({}), errors.InvalidInputError, "at least one"),
    "not a distribution": (
        lambda: nw.Prior({"a": 1.0}),
        errors.InvalidTypeError,
        "numpyro distribution",
    ),
    "a class": (lambda: nw.Prior({"a": dist.Normal}), errors.InvalidTypeError, r"Normal\(\.\.\.\)"),
    "a scipy law": (
        lambda: nw.Prior({"a": st.norm(0, 1)}),
        errors.InvalidTypeError,
        "numpyro distribution",
    ),
    "name with bracket": (
        lambda: nw.Prior({"a[0]": dist.Normal(0, 1)}),
        errors.InvalidInputError,
        "brackets",
    ),
    "empty name": (lambda: nw.Prior({"": dist.Normal(0, 1)}), errors.InvalidInputError, "names"),
    "number as name": (lambda: nw.Prior({1: dist.Normal(0, 1)}), errors.InvalidInputError, "names"),
    "discrete": (lambda: nw.Prior({"a": dist.Poisson(3.0)}), errors.InvalidInputError, "discrete"),
    "categorical": (
        lambda: nw.Prior({"a": dist.Categorical(np.ones(3) / 3)}),
        errors.InvalidInputError,
        "simulator",
    ),
    "point mass": (
        lambda: nw.Prior({"a": dist.Delta(1.0)}),
        errors.InvalidInputError,
        "no density",
    ),
    "improper": (
        lambda: nw.Prior({"a": dist.ImproperUniform(dist.constraints.real, (), ())}),
        errors.InvalidInputError,
        "density",
    ),
    "sphere": (
        lambda: nw.Prior({"a": dist.ProjectedNormal(np.ones(3))}),
        errors.MissingCapabilityError,
        "coordinates",
    ),
    "empty interval": (
        lambda: nw.Prior({"a": dist.Uniform(2, -1)}),
        errors.InvalidInputError,
        "lower bound",
    ),
    "no entries": (
        lambda: nw.Prior({"a": dist.Normal(0, 1).expand([0])}),
        errors.InvalidInputError,
        "constant",
    ),
    "simplex of one": (
        lambda: nw.Prior({"a": dist.Dirichlet(np.ones(1))}),
        errors.InvalidInputError,
        "constant",
    ),
    "NaN parameter": (
        lambda: nw.Prior({"a": dist.Normal(np.nan, 1, validate_args=False)}),
        errors.InvalidInputError,
        "NaN",
    ),
    "traced parameter": (
        lambda: jax.jit(lambda m: nw.Prior({"a": dist.Normal(m, 1)}).dim)(1.0),
        errors.InvalidInputError,
        "outside",
    ),
    "no key": (lambda: GOOD.sample(True, 5), errors.InvalidTypeError, "PRNG key"),
    "num of zero": (lambda: GOOD.sample(KEY, 0), errors.InvalidInputError, "num"),
    "fractional num": (lambda: GOOD.sample(KEY, 2.5), errors.InvalidTypeError, "num"),
    "wrong width": (
        lambda: GOOD.log_prob(np.zeros((2, 3))),
        errors.InvalidInputError,
        r"\(\.\.\., 4\)",
    ),
    "theta as z": (
        lambda: GOOD.constrain(np.zeros((2, 4))),
        errors.InvalidInputError,
        r"\(\.\.\., 3\)",
    ),
    "a number": (lambda: GOOD.log_prob(1.0), errors.InvalidInputError, "single number"),
    "text": (lambda: GOOD.unconstrain("theta"), errors.InvalidTypeError, "numbers"),
    "missing name": (lambda: GOOD.from_dict({"a": 0.0}), errors.InvalidInputError, "'p'"),
    "wrong block": (
        lambda: GOOD.from_dict({"a": 0.0, "p": np.ones(2)}),
        errors.InvalidInputError,
        r"\(3,\)",
    ),
    "not a dictionary": (lambda: GOOD.from_dict(np.zeros(4)), errors.InvalidInputError, "mapping"),
}


@pytest.mark.parametrize("name", BAD, ids=str)
def test_bad_input_is_refused_with_a_reason(name):
    attempt, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        attempt()
