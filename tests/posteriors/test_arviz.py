"""arviz gets every group that is known, and its LOO is that of the model: with arviz 0.x and 1.x."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.stats import norm

import noisewise as nw
from noisewise import errors
from noisewise.posteriors import Draws, Report, WeightedSamples

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz

M = nw.mechanisms
REPORT = Report("example")
SPREAD, NOISE = 0.5, 1.0
"""Of statistics around theta, and of the noise, which is wider: weights have a finite variance."""
OBSERVED = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 0.6])
NUM = 4000
K = len(OBSERVED)


class Normals(nw.simulators.AbstractRecordModel):
    """s_j ~ N(theta, SPREAD^2), with the law of y_j = s_j + N(0, NOISE^2) given theta."""

    num_records = K

    def record_noise(self, key):
        return jax.random.normal(key)

    def record(self, u, theta):
        return theta[0] + SPREAD * u

    def log_prob_record(self, x_i, theta):
        return jax.scipy.stats.norm.logpdf(x_i, theta[0], SPREAD)


class KnownNormals(Normals):
    def log_likelihood(self, theta, query, mechanism, observed):
        return norm.logpdf(observed, theta, np.hypot(SPREAD, mechanism.scale))


def model(simulator=None, **changes):
    parts = {
        "prior": nw.Prior({"mean": dist.Normal(0.0, 1.0)}),
        "simulator": Normals() if simulator is None else simulator,
        "query": nw.queries.FunctionQuery(lambda x: x, names=[f"n{j}" for j in range(K)]),
        "mechanism": M.Gaussian(scale=NOISE),
        "derived": {"twice": lambda theta: 2.0 * theta[..., 0]},
    }
    return nw.PrivateModel(**{**parts, **changes})


@functools.cache
def joint_draws():
    """Draws of theta and s given OBSERVED, from their normal law."""
    rng = np.random.default_rng(5)
    variance = 1.0 / (1.0 + K / (SPREAD**2 + NOISE**2))
    centre = variance * OBSERVED.sum() / (SPREAD**2 + NOISE**2)
    theta = centre + np.sqrt(variance) * rng.normal(size=(NUM, 1))
    narrow = 1.0 / (SPREAD**-2 + NOISE**-2)
    mean = narrow * (theta / SPREAD**2 + OBSERVED / NOISE**2)
    return theta, mean + np.sqrt(narrow) * rng.normal(size=(NUM, K))


def posterior(kind=Draws, statistics=True, report=REPORT, **more):
    theta, s = joint_draws()
    names = tuple(f"n{j}" for j in range(K))
    more |= {"statistics": s, "statistic_names": names} if statistics else {}
    derived = {"twice": 2.0 * theta[:, 0]}
    return kind(theta, ("mean",), report, derived=derived, **more)


def quiet(function, *args, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **settings)


def elpd(data):
    """What arviz finds for each number left out, and its sum."""
    found = quiet(arviz.loo, data, pointwise=True)
    return np.asarray(found.elpd_i if hasattr(found, "elpd_i") else found.loo_i)


def exact_elpd():
    """log p(y_j | y_-j), which is normal."""
    rest = OBSERVED.sum() - OBSERVED
    variance = 1.0 / (1.0 + (K - 1) / (SPREAD**2 + NOISE**2))
    centre = variance * rest / (SPREAD**2 + NOISE**2)
    return norm.logpdf(OBSERVED, centre, np.sqrt(variance + SPREAD**2 + NOISE**2))


def far_off(data, num=NUM):
    """Numbers j whose elpd is more than 5 standard errors from the truth: those of the mean of
    1 / likelihood over `num` independent draws, and 1% for the smoothing of its tail.
    """
    log_likelihood = np.asarray(data["log_likelihood"]["s_dp"]).reshape(-1, K)
    weights = np.exp(-log_likelihood)
    error = weights.std(axis=0) / weights.mean(axis=0) / np.sqrt(num)
    return np.abs(elpd(data) - exact_elpd()) > 5.0 * error + 0.01


def groups(data):
    return set(data.children if hasattr(data, "children") else data.groups())


def test_all_groups_are_there():
    data = posterior(num_chains=4).to_arviz(model(), OBSERVED)
    expected = {"posterior", "prior", "posterior_predictive", "observed_data", "log_likelihood"}
    assert groups(data) == expected
    assert data["posterior"]["mean"].shape == (4, NUM // 4)
    assert data["prior"]["twice"].shape == (1, NUM)
    np.testing.assert_array_equal(data["prior"]["twice"], 2.0 * data["prior"]["mean"])
    for group in ("posterior_predictive", "log_likelihood"):
        assert data[group]["s_dp"].shape == (4, NUM // 4, K)
        assert data[group]["cell"].values.tolist() == [f"n{j}" for j in range(K)]
    np.testing.assert_array_equal(data["observed_data"]["s_dp"], OBSERVED)
    # predictions have sd hypot(SPREAD, NOISE) around theta: five standard errors of an sd and a mean
    distance = data["posterior_predictive"]["s_dp"] - data["posterior"]["mean"]
    scale = np.hypot(SPREAD, NOISE)
    assert abs(float(distance.std()) / scale - 1.0) < 5.0 / np.sqrt(2 * NUM * K)
    assert abs(float(distance.mean())) < 5.0 * scale / np.sqrt(NUM * K)


def test_groups_need_what_they_are_made_of():
    draws = posterior(statistics=False)
    assert groups(draws.to_arviz()) == {"posterior"}
    assert groups(draws.to_arviz(observed=OBSERVED)) == {"posterior", "observed_data"}
    alone = draws.to_arviz(model())
    assert groups(alone) == {"posterior", "prior", "posterior_predictive"}
    assert "log_likelihood" not in groups(draws.to_arviz(model(), OBSERVED))


def test_draws_of_prior_and_predictions_follow_the_key():
    draws, private = posterior(statistics=False), model()
    one, same, other = (draws.to_arviz(private, key=key) for key in (0, jax.random.key(0), 1))
    for group, name in (("prior", "mean"), ("posterior_predictive", "s_dp")):
        np.testing.assert_array_equal(one[group][name], same[group][name])
        assert not np.array_equal(one[group][name], other[group][name])


def test_loo_given_statistics_is_that_of_the_model():
    data = posterior(num_chains=4).to_arviz(model(), OBSERVED)
    assert data["log_likelihood"].attrs["given"] == "confidential statistics"
    assert not far_off(data).any()


def test_loo_given_theta_is_that_of_the_model():
    data = posterior().to_arviz(model(KnownNormals()), OBSERVED)
    assert data["log_likelihood"].attrs["given"] == "theta"
    assert not far_off(data).any()


def test_loo_of_weighted_draws_is_that_of_the_model():
    """Draws tilted by exp(theta), and weighted back: resampled rows keep theta and s together."""
    theta, s = joint_draws()
    rows = np.random.default_rng(1).choice(NUM, NUM, p=(t := np.exp(theta[:, 0])) / t.sum())
    more = {"statistics": s[rows], "statistic_names": tuple(f"n{j}" for j in range(K))}
    weighted = WeightedSamples(theta[rows], ("mean",), REPORT, log_weights=-theta[rows, 0], **more)
    private = model(derived={})
    data = weighted.to_arviz(private, OBSERVED)
    assert 1000 <= data["posterior"].sizes["draw"] <= NUM
    # draws of draws: half the information of each
    assert not far_off(data, num=weighted.effective_size / 2).any()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s[::-1][:, ::-1],
        lambda s: s + 0.5,
        lambda s: OBSERVED + 0.01 * s,
    ],
    ids=["columns of others", "a shift", "no latent statistics"],
)
def test_wrong_statistics_are_caught(spoil):
    """Planted: the comparison above has the power to see them."""
    theta, s = joint_draws()
    more = {"statistics": spoil(s), "statistic_names": tuple(f"n{j}" for j in range(K))}
    draws = Draws(theta, ("mean",), REPORT, **more)
    assert far_off(draws.to_arviz(model(derived={}), OBSERVED)).any()


def test_arviz_compares_two_models():
    right = posterior().to_arviz(model(KnownNormals()), OBSERVED)
    theta = 3.0 + joint_draws()[0]
    wrong = Draws(theta, ("mean",), REPORT).to_arviz(model(KnownNormals(), derived={}), OBSERVED)
    table = quiet(arviz.compare, {"wrong": wrong, "right": right})
    assert list(table.index) == ["right", "wrong"]


def test_vectors_are_variables_with_coordinates():
    theta = np.random.default_rng(0).normal(size=(100, 8))
    names = ("b[0]", "b[1]", "S[0,0]", "S[0,1]", "S[1,0]", "S[1,1]", "rate[North]", "rate[South]")
    data = Draws(theta, names, REPORT, num_chains=2).to_arviz()
    drawn = data["posterior"]
    assert list(drawn.data_vars) == ["b", "S", "rate"]
    np.testing.assert_array_equal(drawn["S"].values[1, 3], theta[53, 2:6].reshape(2, 2))
    np.testing.assert_array_equal(drawn["rate"].sel(rate_dim_0="South")[0], theta[:50, 7])
    table = quiet(arviz.summary, data)
    assert [name.replace(", ", ",") for name in table.index] == list(names)


def test_names_that_are_no_vector_stay_apart():
    theta = np.random.default_rng(0).normal(size=(10, 3))
    data = Draws(theta, ("b[0]", "b[1]", "b"), REPORT).to_arviz()
    assert list(data["posterior"].data_vars) == ["b[0]", "b[1]", "b"]


def table_release():
    frame = pd.DataFrame(
        {
            "district": ["North", "North", "South", "South"],
            "year": [2020, 2021, 2020, 2021],
            "cases": [17.0, np.nan, 31.0, np.nan],
            "missing": [False, False, False, True],
        }
    )
    noise = M.Thresholded(M.DiscreteLaplace(scale=2.0), above=10.0)
    return nw.Release.from_table(
        frame, value="cases", labels=["district", "year"], mechanism=noise, missing="missing"
    )


def test_cells_of_a_table_keep_their_labels_and_absent_ones_are_nan():
    release = table_release()
    private = nw.PrivateModel.from_release(
        release,
        prior=nw.Prior({"rate": dist.Uniform(5.0, 30.0)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: jax.random.poisson(key, theta[0], (4,)).astype(jnp.float64)
        ),
    )
    theta = private.prior.sample(jax.random.key(0), 1000)
    s = np.random.default_rng(0).poisson(theta, size=(1000, 4)).astype(float)
    draws = Draws(theta, private.names, REPORT, statistics=s, statistic_names=release.names)
    data = draws.to_arviz(private, release)
    seen = data["observed_data"]["s_dp"]
    np.testing.assert_array_equal(seen.values, [17.0, np.nan, 31.0, np.nan])
    assert seen["cell"].values.tolist() == [
        "North, 2020",
        "North, 2021",
        "South, 2020",
        "South, 2021",
    ]
    assert seen["district"].values.tolist() == ["North", "North", "South", "South"]
    assert seen["year"].values.tolist() == [2020, 2021, 2020, 2021]
    predicted = data["posterior_predictive"]["s_dp"].values[0]
    assert 0.0 < np.isnan(predicted[:, 0]).mean() < 0.5
    assert np.isnan(predicted[:, 3]).all()
    weighed = data["log_likelihood"]["s_dp"]
    assert weighed["cell"].values.tolist() == ["North, 2020", "North, 2021", "South, 2020"]
    # absent: P(s + noise < 10), of which the law of the noise is known
    expected = private.mechanism.log_cdf(np.full((1000, 4), np.nan), s)[:, 1]
    np.testing.assert_allclose(weighed.values[0, :, 1], expected, atol=1e-12)
    assert quiet(arviz.loo, data).n_data_points == 3


def test_numbers_that_noise_can_exclude_are_left_out():
    noise = M.Product([M.Gaussian(scale=NOISE), M.Exact()], widths=[K - 1, 1])
    data = posterior().to_arviz(model(mechanism=noise), OBSERVED)
    assert data["log_likelihood"]["cell"].values.tolist() == [f"n{j}" for j in range(K - 1)]


@pytest.mark.parametrize(
    ("report", "mechanism"),
    [
        (Report("example", power=0.5), M.Gaussian(scale=NOISE)),
        (Report("rnpe", numbers={"misspecification n0": 0.2}), M.Gaussian(scale=NOISE)),
        (REPORT, M.EuclideanLaplace(scale=NOISE)),
        (REPORT, M.SampledMechanism(lambda key, s: s + jax.random.normal(key, s.shape))),
    ],
    ids=["tempered", "an error model", "noise of columns together", "no density"],
)
def test_no_likelihood_is_invented(report, mechanism):
    data = posterior(report=report).to_arviz(model(mechanism=mechanism), OBSERVED)
    assert "log_likelihood" not in groups(data)
    assert "posterior_predictive" in groups(data)


def test_a_mechanism_that_cannot_be_sampled_predicts_nothing():
    noise = M.DensityMechanism(lambda s_dp, s: -jnp.abs(s_dp - s).sum())
    data = posterior().to_arviz(model(mechanism=noise), OBSERVED)
    assert groups(data) == {"posterior", "prior", "observed_data"}


def test_wrong_arguments_are_refused():
    draws = posterior(statistics=False)
    with pytest.raises(errors.InvalidInputError, match="inferred with"):
        draws.to_arviz(model(prior=nw.Prior({"other": dist.Normal(0, 1)}), derived={}))
    with pytest.raises(errors.InvalidTypeError, match=r"to_arviz\(model, observed\)"):
        draws.to_arviz(OBSERVED)
    with pytest.raises(errors.InvalidInputError, match="observed must have shape"):
        draws.to_arviz(model(), OBSERVED[:3])
    with pytest.raises(errors.InvalidInputError, match="one entry per released number"):
        draws.to_arviz(observed=OBSERVED[None])
    with pytest.raises(errors.InvalidTypeError, match="key"):
        draws.to_arviz(model(), key=True)
    with pytest.raises(errors.InvalidInputError, match="'draw' of its own"):
        Draws(np.zeros((4, 1)), ("draw",), REPORT).to_arviz()


def test_a_likelihood_of_another_shape_is_refused():
    class Wrong(Normals):
        def log_likelihood(self, theta, query, mechanism, observed):
            return np.zeros(len(theta))

    with pytest.raises(errors.InvalidInputError, match=r"Wrong.log_likelihood must return shape"):
        model(Wrong()).log_likelihood(np.zeros((3, 1)), OBSERVED)
    assert model().log_likelihood(np.zeros((3, 1)), OBSERVED) is None
