"""Laws that depend on earlier names: against numpyro's own draws and densities."""

import pickle

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.contrib.control_flow import scan
from numpyro.infer import Predictive
from numpyro.infer.util import constrain_fn, log_density, potential_energy, transform_fn

import noisewise as nw
from noisewise import errors
from noisewise.priors import coordinates
from noisewise.priors.dependent import DependentLaw

KEY = jax.random.key(0)
NUM = 4000
"""Draws of each side: the two-sample KS distance of equal laws exceeds .0436 with probability
.001."""
KS_LIMIT = 0.0436


def eight_schools():
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        numpyro.sample("effect", dist.Normal(mu, tau))


def years():
    step = numpyro.sample("step", dist.HalfNormal(0.3))
    start = numpyro.sample("start", dist.Normal(2, 1))
    walk = dist.GaussianRandomWalk(step, num_steps=40)
    numpyro.sample(
        "level", dist.TransformedDistribution(walk, dist.transforms.AffineTransform(start, 1.0))
    )


def half_cauchy_spread():
    top = numpyro.sample("scale", dist.HalfCauchy(1.0))
    numpyro.sample("rate", dist.LogNormal(jnp.log(3.0), 0.1 + top).expand([3]).to_event(1))


def upper_limit():
    top = numpyro.sample("top", dist.Gamma(2.0, 1.0))
    low = numpyro.sample("low", dist.Uniform(0, top))
    numpyro.sample("between", dist.Uniform(low, top).expand([2]).to_event(1))


def dirichlet_concentration():
    concentration = numpyro.sample("concentration", dist.Gamma(2.0, 0.5))
    numpyro.sample("share", dist.Dirichlet(concentration * jnp.array([1.0, 2.0, 3.0])))


def dependent_simplex():
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
    numpyro.sample("inner", dist.Dirichlet(1.0 + 5.0 * share))
    cov = 0.5 * jnp.eye(3) + 0.5 * share.max()
    numpyro.sample("normal", dist.MultivariateNormal(share, covariance_matrix=cov))


def autoregressive():
    share = numpyro.sample("share", dist.Uniform(-0.9, 0.9))
    step = numpyro.sample("step", dist.HalfNormal(1.0))
    chain = dist.GaussianStateSpace(6, share * jnp.eye(2), scale_tril=step * jnp.eye(2))
    numpyro.sample("level", chain)


LINE = np.eye(5, k=1) + np.eye(5, k=-1)
"""Five places, each beside the next."""


def neighbours():
    alike = numpyro.sample("alike", dist.Beta(2.0, 2.0))
    tight = numpyro.sample("tight", dist.Gamma(2.0, 1.0))
    numpyro.sample("place", dist.CAR(jnp.zeros(5), alike, tight, LINE))


def normal_with_a_scale():
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.3).expand([2]).to_event(1))
    alike = numpyro.sample("alike", dist.Uniform(-0.9, 0.9))
    numpyro.sample("pair", dist.MultivariateNormal(0.0, covariance(scale, alike)))


def covariance(scale, alike):
    return scale[:, None] * scale * jnp.where(np.eye(2) == 1, 1.0, alike)


def written(name):
    """The same priors as mappings with functions."""
    return {
        "eight schools": lambda: {
            "mu": dist.Normal(0, 5),
            "tau": dist.HalfCauchy(5),
            "effect": lambda mu, tau: dist.Normal(mu, tau).expand([8]),
        },
        "years": lambda: {
            "step": dist.HalfNormal(0.3),
            "start": dist.Normal(2, 1),
            "level": lambda step, start: dist.TransformedDistribution(
                dist.GaussianRandomWalk(step, num_steps=40),
                dist.transforms.AffineTransform(start, 1.0),
            ),
        },
        "half-Cauchy spread": lambda: {
            "scale": dist.HalfCauchy(1.0),
            "rate": lambda scale: dist.LogNormal(jnp.log(3.0), 0.1 + scale).expand([3]),
        },
        "upper limit": lambda: {
            "top": dist.Gamma(2.0, 1.0),
            "low": lambda top: dist.Uniform(0, top),
            "between": lambda low, top: dist.Uniform(low, top).expand([2]),
        },
        "Dirichlet with a concentration": lambda: {
            "concentration": dist.Gamma(2.0, 0.5),
            "share": lambda concentration: dist.Dirichlet(
                concentration * jnp.array([1.0, 2.0, 3.0])
            ),
        },
        "simplex with dependent weights": lambda: {
            "share": dist.Dirichlet(np.ones(3)),
            "inner": lambda share: dist.Dirichlet(1.0 + 5.0 * share),
            "normal": lambda share: dist.MultivariateNormal(
                share, covariance_matrix=0.5 * jnp.eye(3) + 0.5 * share.max()
            ),
        },
        "autoregressive": lambda: {
            "share": dist.Uniform(-0.9, 0.9),
            "step": dist.HalfNormal(1.0),
            "level": lambda share, step: dist.GaussianStateSpace(
                6, share * jnp.eye(2), scale_tril=step * jnp.eye(2)
            ),
        },
        "neighbours": lambda: {
            "alike": dist.Beta(2.0, 2.0),
            "tight": dist.Gamma(2.0, 1.0),
            "place": lambda alike, tight: dist.CAR(jnp.zeros(5), alike, tight, LINE),
        },
        "normal with a scale": lambda: {
            "scale": dist.LogNormal(0.0, 0.3).expand([2]),
            "alike": dist.Uniform(-0.9, 0.9),
            "pair": lambda scale, alike: dist.MultivariateNormal(0.0, covariance(scale, alike)),
        },
    }[name]()


PROGRAMS = {
    "eight schools": eight_schools,
    "years": years,
    "half-Cauchy spread": half_cauchy_spread,
    "upper limit": upper_limit,
    "Dirichlet with a concentration": dirichlet_concentration,
    "simplex with dependent weights": dependent_simplex,
    "autoregressive": autoregressive,
    "neighbours": neighbours,
    "normal with a scale": normal_with_a_scale,
}
PRIORS = {name: nw.Prior(written(name)) for name in PROGRAMS}


def blocks(prior, theta):
    return {name: jnp.asarray(value) for name, value in prior.as_dict(theta).items()}


FAST = ["eight schools", "upper limit", "simplex with dependent weights"]
SLOW = ["autoregressive", "neighbours"]
"""Their programs take seconds to compile."""
EACH = pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS]
)


def ks_of(name, prior):
    """The largest KS distance over entries between the prior's draws and numpyro's own."""
    ours = prior.as_dict(prior.sample(KEY, NUM))
    with jax.enable_x64(True):
        theirs = Predictive(PROGRAMS[name], num_samples=NUM)(jax.random.key(1))
    return max(
        scipy.stats.ks_2samp(mine, other).statistic
        for site, values in ours.items()
        for mine, other in zip(
            np.asarray(values).reshape(NUM, -1).T[:: max(1, values[0].size // 5)],
            np.asarray(theirs[site]).reshape(NUM, -1).T[:: max(1, values[0].size // 5)],
            strict=True,
        )
    )


def density_gap(name, prior):
    """The largest difference to numpyro's log density, of theta and of z."""
    theta = prior.sample(KEY, 20)
    theirs, free = [], []
    with jax.enable_x64(True):
        for row in theta:
            values = blocks(prior, row)
            theirs.append(log_density(PROGRAMS[name], (), {}, values)[0])
            free.append(_numpyro_unconstrained(PROGRAMS[name], values))
    ours, z = prior.log_prob(theta), prior.unconstrain(theta)
    gap = np.abs(ours - np.array(theirs)) / np.maximum(1.0, np.abs(ours))
    known = np.isfinite(free)  # simplexes have other free coordinates here than in numpyro
    free_gap = np.abs(prior.log_prob_unconstrained(z) - np.array(free))[known]
    return max(gap.max(), free_gap.max(initial=0.0))


def _numpyro_unconstrained(program, values):
    """numpyro's log density of its own unconstrained coordinates; NaN where there is a simplex."""
    if any(v.ndim == 1 and v.size == 3 and abs(v.sum() - 1.0) < 1e-9 for v in values.values()):
        return np.nan
    transforms, rest = {}, {}
    seeded = numpyro.handlers.seed(program, KEY)
    trace = numpyro.handlers.trace(numpyro.handlers.substitute(seeded, data=values)).get_trace()
    for name, site in trace.items():
        if site["type"] == "sample":
            transforms[name] = dist.biject_to(site["fn"].support)
    free = transform_fn(transforms, values, invert=True)
    back = constrain_fn(program, (), {}, free)
    rest = max(float(jnp.abs(back[name] - values[name]).max()) for name in values)
    assert rest < 1e-8, "numpyro's own coordinates do not lead back to the point"
    return -potential_energy(program, (), {}, free)


@EACH
def test_draws_are_those_of_numpyro(name):
    assert ks_of(name, PRIORS[name]) < KS_LIMIT


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PROGRAMS]
)
def test_densities_are_those_of_numpyro(name):
    assert density_gap(name, PRIORS[name]) < 1e-9


@EACH
def test_round_trips_and_gradients(name):
    prior = PRIORS[name]
    theta = prior.sample(KEY, 20)
    z = prior.unconstrain(theta)
    assert prior.support_contains(theta).all()
    np.testing.assert_allclose(prior.constrain(z), theta, rtol=1e-9, atol=1e-12)
    with jax.enable_x64(True):
        at = jnp.asarray(z[0])
        ours = jax.grad(prior.log_prob_unconstrained)(at)
        step = 1e-5
        numbers = np.stack([at + step * np.eye(len(at)), at - step * np.eye(len(at))])
        up, down = prior.log_prob_unconstrained(numbers)
    np.testing.assert_allclose(ours, (up - down) / (2 * step), rtol=1e-5, atol=1e-5)


@EACH
def test_the_jacobian_is_that_of_the_map(name):
    """log_prob_unconstrained - log_prob is log |d theta / d z|, by the matrix of derivatives."""
    prior = PRIORS[name]
    z = prior.unconstrain(prior.sample(KEY, 1))[0]
    with jax.enable_x64(True):
        matrix = np.asarray(jax.jacobian(prior.constrain)(jnp.asarray(z)))
    kept = [j for j, n in enumerate(prior.names) if not n.endswith("[2]") or "share" not in n]
    kept = [
        j
        for j in kept
        if not (prior.names[j].startswith("inner") and prior.names[j].endswith("[2]"))
    ]
    expected = np.linalg.slogdet(matrix[kept])[1]
    found = prior.log_prob_unconstrained(z) - prior.log_prob(prior.constrain(z))
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_a_forgotten_jacobian_is_caught(monkeypatch):
    prior = nw.Prior(written("upper limit"))
    whole = coordinates.log_prob_unconstrained

    def without(sites, laws, z):
        return coordinates.log_prob(sites, laws, coordinates.constrain(sites, laws, z))

    monkeypatch.setattr(coordinates, "log_prob_unconstrained", without)
    assert density_gap("upper limit", prior) > 1e-3
    monkeypatch.setattr(coordinates, "log_prob_unconstrained", whole)
    assert density_gap("upper limit", prior) < 1e-9


@pytest.mark.parametrize(
    ("name", "site"), [("eight schools", "tau"), ("upper limit", "top"), ("autoregressive", "step")]
)
def test_a_parent_of_another_row_is_caught(name, site, monkeypatch):
    sound = coordinates.sample

    def shifted(sites, laws, key, num):
        theta = np.array(sound(sites, laws, key, num))
        column = PRIORS[name].names.index(site)
        theta[:, column] = np.roll(theta[:, column], 1)
        return theta

    prior = nw.Prior(written(name))
    monkeypatch.setattr(coordinates, "sample", shifted)
    theta = prior.sample(KEY, NUM)
    with jax.enable_x64(True):
        theirs = Predictive(PROGRAMS[name], num_samples=NUM)(jax.random.key(1))
    *_, child = PRIORS[name].distributions
    both = {
        "ours": prior.as_dict(theta),
        "theirs": {key: np.asarray(value) for key, value in theirs.items()},
    }
    ranks = [
        scipy.stats.spearmanr(
            values[site], np.abs(np.asarray(values[child]).reshape(NUM, -1) - 0.5).max(1)
        ).statistic
        for values in both.values()
    ]
    assert abs(ranks[0] - ranks[1]) > 5 / np.sqrt(NUM)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_same_prior(name):
    prior, mapping = nw.Prior.from_numpyro(PROGRAMS[name]), PRIORS[name]
    assert prior.names == mapping.names
    assert prior.dependent == mapping.dependent
    assert [law.parents for law in prior.distributions.values() if isinstance(law, DependentLaw)]
    theta = mapping.sample(KEY, 10)
    np.testing.assert_allclose(prior.sample(KEY, 10), theta, rtol=1e-6)
    np.testing.assert_allclose(prior.log_prob(theta), mapping.log_prob(theta), rtol=1e-6, atol=1e-6)


def test_outside_the_support_of_a_parent():
    prior = PRIORS["upper limit"]
    rows = np.array(
        [[2.0, 1.0, 1.5, 1.2], [2.0, 2.5, 1.5, 1.2], [-1.0, 0.5, 0.6, 0.7], [2.0, 1.0, 0.5, 1.2]]
    )
    assert prior.support_contains(rows).tolist() == [True, False, False, False]
    assert np.isfinite(prior.log_prob(rows)).tolist() == [True, False, False, False]
    with jax.enable_x64(True):
        slopes = jax.vmap(jax.grad(prior.log_prob))(jnp.asarray(rows))
    assert np.isfinite(slopes).all()


def test_derived_quantities_of_a_program():
    def program(size):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("place", size):
            effect = numpyro.sample("effect", dist.Normal(mu, 1))
        numpyro.deterministic("best", effect.max())
        numpyro.deterministic("rate", jnp.exp(effect))

    prior = nw.Prior.from_numpyro(program, 3, labels={"effect": ["A", "B", "C"]})
    model = model_of(prior, lambda key, theta: theta[:1])
    theta = prior.sample(KEY, 5)
    found = model.derived_quantities(theta)
    assert list(found) == ["best", "rate[0]", "rate[1]", "rate[2]"]
    np.testing.assert_allclose(found["best"], theta[:, 1:].max(1), rtol=1e-12)
    np.testing.assert_allclose(found["rate[1]"], np.exp(theta[:, 2]), rtol=1e-12)


def model_of(prior, draw, **more):
    def drawn(key, theta):
        x = draw(key, theta)
        return x + 0.1 * jax.random.normal(key, x.shape)

    return nw.PrivateModel(
        prior=prior,
        simulator=nw.simulators.JaxSimulator(drawn),
        query=lambda x: x,
        mechanism=nw.mechanisms.Gaussian(scale=1.0),
        **more,
    )


def scan_program():
    def step(level, _):
        level = numpyro.sample("level", dist.Normal(level, 1.0))
        return level, None

    scan(step, 0.0, jnp.arange(3))


def releasing():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    law = dist.Poisson(jnp.exp(mu) * jnp.ones(2)).to_event(1)
    numpyro.sample("y", nw.Privatized(law, nw.mechanisms.DiscreteLaplace(2.0)))


def observing():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=1.0)


def with_factor():
    numpyro.factor("more", -(numpyro.sample("mu", dist.Normal(0, 1)) ** 2))


def subsampling():
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("place", 10, subsample_size=3):
        numpyro.sample("effect", dist.Normal(mu, 1))


NORMAL = dist.Normal(0, 1)
BAD = {
    "later": (
        {"a": lambda b: dist.Normal(b, 1), "b": NORMAL},
        errors.InvalidInputError,
        "write 'b' before 'a'",
    ),
    "itself": ({"a": lambda a: dist.Normal(a, 1)}, errors.InvalidInputError, "depends on itself"),
    "near miss": (
        {"mu": NORMAL, "a": lambda muu: dist.Normal(muu, 1)},
        errors.InvalidInputError,
        "did you mean 'mu'",
    ),
    "cycle": (
        {"a": lambda b: dist.Normal(b, 1), "b": lambda a: dist.Normal(a, 1)},
        errors.InvalidInputError,
        "one joint law",
    ),
    "no parents": ({"a": lambda: NORMAL}, errors.InvalidInputError, "give the distribution itself"),
    "star": (
        {"mu": NORMAL, "a": lambda *mu: NORMAL},
        errors.InvalidInputError,
        "name the parameters",
    ),
    "numpy": (
        {"mu": NORMAL, "a": lambda mu: dist.Normal(np.exp(mu), 1)},
        errors.InvalidTypeError,
        "jnp in place of np",
    ),
    "if": (
        {"mu": NORMAL, "a": lambda mu: NORMAL if mu > 0 else dist.Normal(mu, 1)},
        errors.InvalidTypeError,
        "jnp.where",
    ),
    "a number": ({"mu": NORMAL, "a": lambda mu: 3.0}, errors.InvalidTypeError, "it returned float"),
    "discrete": (
        {"mu": NORMAL, "a": lambda mu: dist.Poisson(jnp.exp(mu))},
        errors.InvalidInputError,
        "discrete",
    ),
    "failing": (
        {"mu": NORMAL, "a": lambda mu: dist.Normal(mu, 1 / 0)},
        errors.InvalidInputError,
        "ZeroDivisionError",
    ),
    "constant": (
        {"mu": NORMAL, "a": lambda mu: dist.Delta(mu)},
        errors.InvalidInputError,
        "has no density",
    ),
}
BAD_PROGRAMS = {
    "released": (releasing, r"'y' is Privatized, .*hide=\[\"y\"\]"),
    "observed": (observing, "'y' is observed"),
    "factor": (with_factor, "'more' is observed"),
    "subsample": (subsampling, "subsamples"),
    "scan": (scan_program, "inside a scan"),
    "empty": (lambda: None, "samples nothing"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_functions_are_refused_when_the_prior_is_built(name):
    mapping, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        nw.Prior(mapping)


@pytest.mark.parametrize("name", BAD_PROGRAMS)
def test_programs_that_are_no_priors_are_refused(name):
    program, message = BAD_PROGRAMS[name]
    with pytest.raises(errors.InvalidInputError, match=message):
        nw.Prior.from_numpyro(program)


def test_arguments_with_defaults_are_constants():
    prior = nw.Prior(
        {"mu": NORMAL, "e": lambda mu, size=4, scale=2.0: dist.Normal(mu, scale).expand([size])}
    )
    assert prior.dim == 5
    assert prior.distributions["e"].parents == ("mu",)


def test_an_edited_function_is_another_prior():
    def prior(scale):
        return nw.Prior({"mu": NORMAL, "e": lambda mu: dist.Normal(mu, scale).expand([3])})

    assert prior(1.0).fingerprint() == prior(1.0).fingerprint() != prior(1.001).fingerprint()
    one = prior(1.0)
    assert one != prior(1.0), "equal functions are the same object"


def test_it_travels_to_other_processes_and_not_into_files():
    prior = nw.Prior({"mu": NORMAL, "e": lambda mu: dist.Normal(mu, 1.0).expand([3])})
    other = pickle.loads(cloudpickle.dumps(prior))
    assert (other.sample(KEY, 3) == prior.sample(KEY, 3)).all()
    with pytest.raises(errors.MissingCapabilityError, match="no file holds code"):
        prior.to_spec()


# Labels -------------------------------------------------------------------------------------------


def test_labels_stand_in_names():
    prior = nw.Prior(
        {"rate": dist.LogNormal(0, 1).expand([2]), "table": NORMAL.expand([2, 2])},
        labels={"rate": np.array(["North Shore", "South"]), "table": (["a", "b"], [1, 2])},
    )
    assert prior.names == (
        "rate[North Shore]",
        "rate[South]",
        "table[a,1]",
        "table[a,2]",
        "table[b,1]",
        "table[b,2]",
    )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"rat": ["a", "b"]}, "no name of the prior"),
        ({"rate": ["a"]}, "needs 2 labels, got 1"),
        ({"rate": ["a", "a"]}, "must differ"),
        ({"rate": ["a", ""]}, "empty"),
        ({"mu": ["a"]}, "single number"),
        ({"table": ["a", "b"]}, "a tuple of 2 sequences"),
        (["a"], "must map names"),
        ({"rate": 3}, "must be a sequence"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises((errors.InvalidInputError, errors.InvalidTypeError), match=message):
        nw.Prior(
            {"mu": NORMAL, "rate": NORMAL.expand([2]), "table": NORMAL.expand([2, 2])},
            labels=labels,
        )


# A part of the parameters -------------------------------------------------------------------------

DISTRICTS = nw.Prior(
    {"mu": NORMAL, "tau": dist.HalfNormal(1), "e": lambda mu, tau: dist.Normal(mu, tau).expand([5])}
)


def test_the_rest_is_drawn_from_its_law_given_what_is_kept():
    model = model_of(
        DISTRICTS,
        lambda key, theta: theta[2:],
        derived={"twice": lambda t: 2 * t[..., 0], "first": lambda t: t[..., 2]},
    )
    part = model.focus("mu", "tau")
    assert part.names == ("mu", "tau")
    assert list(part.derived) == ["twice"]
    assert part.integrated_out == ("e",)
    theta = np.tile([[0.7, 1.5]], (NUM, 1))
    s = part.statistics(KEY, theta)
    sd = np.hypot(1.5, 0.1)
    # four standard errors of means, and of log sds, of 5 columns
    assert (np.abs(s.mean(0) - 0.7) < 4 * sd / np.sqrt(NUM)).all()
    assert (np.abs(np.log(s.std(0) / sd)) < 4 / np.sqrt(2 * NUM)).all()
    assert abs(np.corrcoef(s.T)[0, 1]) < 4 / np.sqrt(NUM)
    np.testing.assert_array_equal(part.statistics(KEY, theta[:3]), s[:3])
    x = part.simulator.simulate(KEY, theta[:3])
    np.testing.assert_array_equal(x, s[:3])


def test_what_depends_on_the_rest_cannot_be_kept_alone():
    model = model_of(DISTRICTS, lambda key, theta: theta[2:])
    with pytest.raises(errors.InvalidInputError, match="'e' depends on 'mu', which is left out"):
        model.focus("e")
    with pytest.raises(errors.InvalidInputError, match="got 'nu'"):
        model.focus("nu")
    assert model.focus("mu", "tau", "e") is model


THREE = {"a": NORMAL, "c": NORMAL, "b": NORMAL}


def test_a_focus_of_a_focus_is_one_focus():
    """Each name that is left out has draws of its own."""
    derived = {"positive": lambda t: (t[..., 2] > 0) * 1.0, "twice": lambda t: 2 * t[..., 0]}
    model = model_of(nw.Prior(THREE), lambda key, theta: theta, derived=derived)
    theta = np.zeros((200, 1))
    once, again = model.focus("a"), model.focus("a", "b").focus("a")
    s = again.statistics(KEY, theta)
    np.testing.assert_array_equal(s, once.statistics(KEY, theta))
    assert abs(np.corrcoef(s[:, 1:].T)[0, 1]) < 4 / np.sqrt(200)
    assert again.integrated_out == ("c", "b")
    assert list(again.derived) == ["twice"], "what absorbs NaN is no function of a alone"


def test_what_is_drawn_identifies_a_run():
    from noisewise.inference.contract.recorded import identity_of

    def identity(prior):
        model = model_of(nw.Prior(prior), lambda key, theta: theta[:1]).focus("a")
        return identity_of("sppe", {}, KEY, model, np.zeros(1))

    assert identity(THREE) == identity(dict(THREE))
    assert identity(THREE) != identity(THREE | {"c": dist.Normal(0, 50)})


def test_edits_of_tails_are_noticed():
    plain = {"mu": NORMAL, "e": lambda mu: dist.Normal(mu, 1)}
    clipped = {"mu": NORMAL, "e": lambda mu: dist.Normal(jnp.clip(mu, -2.5, 2.5), 1)}
    assert nw.Prior(plain).fingerprint() != nw.Prior(clipped).fingerprint()
