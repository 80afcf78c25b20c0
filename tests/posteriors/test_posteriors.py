"""Posteriors: weighted and chained draws, their summaries, and files that survive nothing but
themselves.
"""

import pickle

import jax
import numpy as np
import pytest
from scipy.stats import norm

from noisewise import errors
from noisewise.posteriors import Draws, Report, WeightedSamples, load_posterior
from noisewise.runs import read_archive, write_archive
from tests.hostile import damaged
from tests.runs.old_archives import to_version_1

RNG = np.random.default_rng(4)
KEY = jax.random.key(0)
REPORT = Report.stated(
    "example",
    settings={"num": 3},
    diagnostics={"k": 0.25},
    warnings=("careful",),
    rounds=({"n": 1},),
)


def chains(num=4000, shift=0.0):
    theta = RNG.normal(size=(num, 2)) * [1.0, 2.0] + shift
    more = {
        "derived": {"sum": theta.sum(1)},
        "statistics": RNG.normal(size=(num, 3)),
        "statistic_names": ("s", "t", "u"),
    }
    return Draws(theta, ("a", "b"), REPORT, num_chains=4, **more)


def weighted(num=20_000):
    """Draws from N(0, 2^2) weighted to N(1, 1)."""
    theta = 2.0 * RNG.normal(size=(num, 1))
    log_weights = norm.logpdf(theta[:, 0], 1.0, 1.0) - norm.logpdf(theta[:, 0], 0.0, 2.0)
    return WeightedSamples(theta, ("a",), REPORT, log_weights=log_weights)


def test_summary_of_chains():
    """Standard errors at 4000 draws: .016 of a mean, .011 of an sd, .045 of a 2.5% point; 4 of them
    are allowed.
    """
    table = chains().summary()
    assert list(table.index) == ["a", "b", "sum"]
    assert table.loc["a", "mean"] == pytest.approx(0.0, abs=0.064)
    assert table.loc["b", "sd"] == pytest.approx(2.0, abs=0.09)
    assert table.loc["a", "2.5%"] == pytest.approx(-1.96, abs=0.18)
    assert table.loc["sum", "sd"] == pytest.approx(np.sqrt(5), abs=0.1)
    assert (
        table.loc["a", "hdi high"] - table.loc["a", "hdi low"]
        <= table.loc["a", "97.5%"] - table.loc["a", "2.5%"] + 0.02
    )


def test_a_table_of_draws_holds_all_that_belongs_to_a_draw():
    posterior = chains(num=40)
    table = posterior.to_frame()
    assert list(table.columns) == ["a", "b", "sum", "weight", "chain"]
    np.testing.assert_array_equal(table[["a", "b"]].to_numpy(), posterior.theta)
    np.testing.assert_array_equal(table["sum"], posterior.derived["sum"])
    assert table["chain"].tolist() == sorted(10 * [0, 1, 2, 3])
    posterior = weighted(num=50)
    assert list(posterior.to_frame().columns) == ["a", "weight"]
    np.testing.assert_array_equal(posterior.to_frame()["weight"], posterior.weights)
    with pytest.raises(errors.InvalidInputError, match="column 'weight'"):
        Draws(np.zeros((10, 1)), ("weight",), REPORT).to_frame()


def test_another_report_leaves_the_first_posterior_alone():
    posterior = weighted(num=50)
    other = posterior.with_report(Report("other"))
    assert (posterior.report, other.report) == (REPORT, Report("other"))
    assert type(other) is WeightedSamples
    assert other.log_weights is posterior.log_weights


def test_summary_of_weights_is_that_of_the_target():
    """The effective size is about 9700 of 20,000: 4 standard errors of the mean are .04."""
    posterior = weighted()
    table = posterior.summary()
    assert table.loc["a", "mean"] == pytest.approx(1.0, abs=0.04)
    assert table.loc["a", "sd"] == pytest.approx(1.0, abs=0.04)
    assert table.loc["a", "median"] == pytest.approx(1.0, abs=0.06)
    assert table.loc["a", "97.5%"] == pytest.approx(2.96, abs=0.15)
    assert 8000 < posterior.effective_size < 12_000
    assert posterior.pareto_k < 0.5
    assert posterior.sample(KEY, 5000).mean() == pytest.approx(1.0, abs=0.06)


def test_weights_with_infinite_variance_are_told():
    theta = RNG.normal(size=(20_000, 1))
    heavy = WeightedSamples(theta, ("a",), REPORT, log_weights=0.95 * theta[:, 0] ** 2 / 2)
    assert heavy.pareto_k > 0.7


def test_the_shortest_interval_of_a_skewed_law_starts_at_its_end():
    posterior = Draws(RNG.exponential(size=(40_000, 1)), ("a",), REPORT)
    table = posterior.summary()
    assert table.loc["a", "hdi low"] < 0.01
    assert table.loc["a", "hdi high"] == pytest.approx(-np.log(0.05), abs=0.12)


def test_chain_diagnostics_see_a_chain_apart():
    assert chains().diagnostics()["r_hat"].max() < 1.01
    theta = RNG.normal(size=(4000, 1))
    theta[:1000] += 0.5
    apart = Draws(theta, ("a",), REPORT, num_chains=4)
    assert apart.diagnostics().loc["a", "r_hat"] > 1.02


def test_arviz_gets_the_chains():
    data = chains().to_arviz()
    assert data.posterior["a"].shape == (4, 1000)
    assert "sum" in data.posterior


@pytest.mark.parametrize("make", [chains, weighted], ids=["chains", "weighted"])
def test_files_give_back_every_bit(make, tmp_path):
    posterior = make()
    posterior.save(tmp_path / "p")
    again = load_posterior(tmp_path / "p")
    assert type(again) is type(posterior)
    np.testing.assert_array_equal(again.theta, posterior.theta)
    np.testing.assert_array_equal(again.weights, posterior.weights)
    assert again.report == posterior.report
    assert again.names == posterior.names
    assert list(again.derived) == list(posterior.derived)
    np.testing.assert_array_equal(again.sample(KEY, 10), posterior.sample(KEY, 10))
    with pytest.raises(errors.InvalidInputError, match="overwrite"):
        posterior.save(tmp_path / "p")
    posterior.save(tmp_path / "p", overwrite=True)


def broken(content, rng, count):
    """Copies cut short, with bytes changed, or with a stretch repeated."""
    for number in range(count):
        place = int(rng.integers(len(content)))
        if number % 3 == 0:
            yield content[:place]
        elif number % 3 == 1:
            yield (
                content[:place]
                + bytes([content[place] ^ (1 << int(rng.integers(8)))])
                + content[place + 1 :]
            )
        else:
            yield content[:place] + content[max(0, place - 50) :]


@pytest.mark.parametrize("file", ["manifest.json", "arrays.safetensors", "arrays.npz"])
def test_damaged_files_give_typed_errors(file, tmp_path):
    """Seeded damage: a typed error, or, for bytes that nothing depends on, the same posterior;
    never another exception.
    """
    posterior = chains(40)
    posterior.save(tmp_path / "p")
    if file == "arrays.npz":
        to_version_1(tmp_path / "p")
    path = tmp_path / "p" / file
    rng = np.random.default_rng(1)
    copies = (
        damaged(path.read_text(), rng, 150)
        if file.endswith("json")
        else broken(path.read_bytes(), rng, 150)
    )
    refused = 0
    for content in copies:
        path.write_bytes(content)
        try:
            again = load_posterior(tmp_path / "p")
        except errors.NoisewiseError:
            refused += 1
        else:
            np.testing.assert_array_equal(again.theta, posterior.theta)
    assert refused > 75


@pytest.mark.parametrize("version", [1, 2])
def test_pickles_are_never_loaded(version, tmp_path):
    write_archive(tmp_path / "p", "Draws", {}, {"theta": np.zeros(3)})
    if version == 1:
        to_version_1(tmp_path / "p")
    else:
        (tmp_path / "p" / "arrays.safetensors").write_bytes(pickle.dumps([1]))
    np.savez(tmp_path / "p" / "arrays.npz", theta=np.array([{"a": 1}], dtype=object))
    with pytest.raises(errors.FileFormatError):
        read_archive(tmp_path / "p", ("Draws",))


BAD = [
    (lambda: Draws(np.zeros((0, 1)), ("a",), REPORT), errors.InvalidInputError, "needs draws"),
    (lambda: Draws(np.zeros((5, 2)), ("a",), REPORT), errors.InvalidInputError, "needs draws"),
    (
        lambda: Draws(np.zeros((5, 1)), ("a",), REPORT, num_chains=2),
        errors.InvalidInputError,
        "divide",
    ),
    (
        lambda: WeightedSamples(np.zeros((5, 1)), ("a",), REPORT, log_weights=np.zeros(4)),
        errors.InvalidInputError,
        "shape",
    ),
    (
        lambda: WeightedSamples(np.zeros((5, 1)), ("a",), REPORT, log_weights=np.full(5, -np.inf)),
        errors.InvalidInputError,
        "above -inf",
    ),
    (lambda: chains(8).sample(KEY, 0), errors.InvalidInputError, "num"),
    (lambda: chains(8).sample(True, 1), errors.InvalidTypeError, "PRNG key"),
    (lambda: chains(8).log_prob([0.0, 0.0]), errors.MissingCapabilityError, "draws, not a density"),
    (lambda: load_posterior("nowhere/at/all"), errors.InvalidInputError, "no folder"),
    (lambda: load_posterior(3), errors.InvalidTypeError, "path"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_weighted_quantiles_are_symmetric_and_blind_to_weights_of_zero():
    report = Report("test")
    values = np.array([[-3.0], [-1.0], [0.0], [2.0], [4.0]])
    weights = np.log([0.1, 0.3, 0.2, 0.3, 0.1])
    rows = [
        WeightedSamples(sign * values, ("a",), report, log_weights=weights).summary().iloc[0]
        for sign in (1.0, -1.0)
    ]
    assert rows[0]["median"] == pytest.approx(-rows[1]["median"])
    assert rows[0]["2.5%"] == pytest.approx(-rows[1]["97.5%"])
    more = np.concatenate([values, [[-1000.0]]])
    padded = (
        WeightedSamples(more, ("a",), report, log_weights=np.append(weights, -np.inf))
        .summary()
        .iloc[0]
    )
    np.testing.assert_allclose(padded, rows[0])
    sure = WeightedSamples(
        values[:3], ("a",), report, log_weights=np.log([0.05, 0.9, 0.05])
    ).summary()
    assert sure.iloc[0]["median"] == -1.0


def test_reports_with_infinite_numbers_can_be_saved(tmp_path):
    report = Report("test", numbers={"R-hat": np.inf, "k": np.nan}, rounds=({"x": -np.inf},))
    Draws(np.zeros((4, 1)), ("a",), report).save(tmp_path / "p")
    again = load_posterior(tmp_path / "p").report
    assert again.diagnostics["R-hat"] == np.inf
    assert np.isnan(again.diagnostics["k"])
    assert again.rounds[0]["x"] == -np.inf


@pytest.mark.parametrize("rows", [[3], [5, 7]])
def test_draws_are_numbers(rows):
    theta = np.ones((10, 2))
    theta[rows, 1] = np.nan
    with pytest.raises(
        errors.InvalidInputError,
        match=f"{len(rows)} of 10 draws hold NaN, the first in row {rows[0]}: leave such rows out",
    ):
        Draws(theta, ("a", "b"), Report("test"))


@pytest.mark.parametrize("wrong", [{"rounds": ["n"]}, {"findings": 1}, {"rounds": [None]}], ids=str)
def test_reports_with_items_of_another_kind_are_refused(wrong):
    with pytest.raises(errors.FileFormatError, match="must be a list"):
        Report.from_spec({**REPORT.to_spec(), **wrong})
