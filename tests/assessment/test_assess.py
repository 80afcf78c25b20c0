"""`nw.assess` on posteriors; and that it, the report and the command line say the same."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import noisewise as nw
from noisewise.assessment import Evidence, QuickCheck, judge
from noisewise.cli import outcomes, requests, targets
from noisewise.cli.app import app
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.posteriors import Draws, Kind, Report, WeightedSamples

KEY = jax.random.key(0)
PROBLEM = nw.problems.gaussian_mean(1.0)
GOOD = PROBLEM.reference(KEY, 2000)


def draws(theta=GOOD, **report):
    return Draws(theta, PROBLEM.model.names, Report.stated("learnt", **report))


def assessed(posterior, **options):
    return nw.assess(KEY, posterior, PROBLEM.model, PROBLEM.observed, **options)


def kinds(found):
    return [reason.kind.value for reason in found.reasons]


def test_exact_draws_are_trusted():
    found = assessed(draws(exact=True))
    assert found.level == "trust"
    assert kinds(found) == ["exact method", "enough draws", "predicts"]
    assert found.trustworthy
    assert found.check.passed
    assert len(found.check.simulated) == 400
    assert found.certificate is None


def test_ends_of_intervals_that_rest_on_few_draws_are_a_warning():
    """6,000 draws of N(0, 1), weighted to N(1.5, 1): worth some 600, but few above 3.5."""
    theta = np.random.default_rng(0).normal(size=(6000, 1))
    report = Report("importance-sampling", exact=True)
    thin, full = (
        WeightedSamples(theta, ("a",), report, log_weights=slope * theta[:, 0])
        for slope in (1.5, 0.5)
    )
    found = judge(Evidence.of(thin))
    assert [finding.kind for finding in found.evidence.findings] == [Kind.TAILS_THIN]
    assert "a (97.5%)" in found.warnings[0]
    assert (found.level, found.trustworthy) == ("trust with care", True)
    assert judge(Evidence.of(full)).warnings == ()
    few = WeightedSamples(theta[:90], ("a",), report, log_weights=np.zeros(90))
    assert judge(Evidence.of(few)).warnings == ()  # no interval is shown at all


@pytest.mark.parametrize(
    ("shift", "stretch", "level", "worst"),
    [
        (0.0, 1.0, "trust", "enough draws"),
        (0.5, 1.0, "trust with care", "differs from certified draws"),
        (40.0, 1.0, "do not trust", "certificate against"),
    ],
)
def test_a_certificate_can_be_asked_for(shift, stretch, level, worst):
    theta = GOOD.mean() + stretch * (GOOD - GOOD.mean()) + shift * GOOD.std()
    posterior = draws(theta)
    unchecked = assessed(posterior)
    assert "unchecked" in kinds(unchecked)
    found = assessed(posterior, certify=8000)
    assert found.level == level
    assert worst in kinds(found)
    assert found.certificate.num_simulations == 8000
    assert found.verdict == found.certificate.verdict
    assert assessed(posterior, certificate=found.certificate).level == level
    if shift < 1.0:
        corrected = assessed(found.certificate.corrected, certificate=found.certificate)
        assert corrected.level == "trust"
        assert "corrected draws certified" in kinds(corrected)


def test_the_key_alone_decides():
    one, two = (assessed(draws(exact=True)) for _ in range(2))
    other = nw.assess(jax.random.key(1), draws(exact=True), PROBLEM.model, PROBLEM.observed)
    assert one == two
    assert one.check.p_value == two.check.p_value
    assert not np.array_equal(one.check.simulated, other.check.simulated)


def test_observations_unlike_the_posterior_are_noticed():
    found = nw.assess(KEY, draws(exact=True), PROBLEM.model, PROBLEM.observed + 100.0)
    assert found.level == "do not trust"
    assert kinds(found)[0] == "does not predict"


def test_too_few_draws_to_measure_count_as_they_are():
    """Planted: with the effective size, which is NaN, in place of `worth` the answer is trusted."""
    few = Draws(GOOD[:3], PROBLEM.model.names, Report("exact", exact=True))
    found = judge(Evidence.of(few))
    assert np.isnan(few.effective_size)
    assert (found.level, found.verdict) == ("do not trust", "exact, but few draws")


def without(capability):
    """The problem under a mechanism without a density, or that cannot be sampled."""
    mechanism = (
        nw.mechanisms.SampledMechanism(lambda key, s: s + jax.random.normal(key, s.shape))
        if capability == "density"
        else nw.mechanisms.DensityMechanism(lambda s_dp, s: -((s_dp - s) ** 2).sum(-1))
    )
    model = PROBLEM.model
    return nw.PrivateModel(
        prior=model.prior, simulator=model.simulator, query=model.query, mechanism=mechanism
    )


def test_what_a_mechanism_cannot_do_is_left_out():
    sampled, unsampled = without("density"), without("sample")
    found = nw.assess(KEY, draws(), sampled, PROBLEM.observed)
    assert not found.evidence.certifiable
    assert "has no density" in found.about_verdict
    with pytest.raises(MissingCapabilityError, match="density"):
        nw.assess(KEY, draws(), sampled, PROBLEM.observed, certify=8000)
    assert nw.assess(KEY, draws(), unsampled, PROBLEM.observed).check is None


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"key": True}, InvalidTypeError, "PRNG key"),
        ({"posterior": GOOD}, InvalidTypeError, "must be a posterior"),
        ({"model": 3}, InvalidTypeError, "PrivateModel third"),
        ({"model": nw.problems.sir().model}, InvalidInputError, "must be of log_beta"),
        ({"certificate": 3}, InvalidTypeError, "nw.diagnostics.certify"),
        ({"certify": True}, InvalidTypeError, "num_simulations"),
        ({"certify": 10}, InvalidInputError, "num_simulations"),
        ({"num_simulations": 3}, InvalidInputError, "num_simulations"),
    ],
)
def test_mistakes_are_refused(change, error, words):
    given = {"key": KEY, "posterior": draws(), "model": PROBLEM.model, **change}
    with pytest.raises(error, match=words):
        nw.assess(
            given.pop("key"),
            given.pop("posterior"),
            given.pop("model"),
            PROBLEM.observed,
            **given,
        )


def test_one_certificate_is_enough():
    found = assessed(draws(), certify=4000)
    with pytest.raises(InvalidInputError, match="not both"):
        assessed(draws(), certify=4000, certificate=found.certificate)


# One judgement ------------------------------------------------------------------------------------

ABC = ("--method", "rejection-abc", "--set", "num_draws=400", "--set")
RUNS = {
    "exact": ("--method", "importance", "--set", "num_final=20000", "--set", "num_stages=0"),
    "few": ("--method", "rejection-abc", "--set", "num_draws=40"),
    "naive": ("--method", "naive"),
    "certified": (*ABC, "tolerance=0.2", "--certify", "20000"),
    "poor, corrected": (*ABC, "tolerance=1", "--certify", "4000"),
    "poor": (*ABC, "tolerance=3", "--epsilon", "3", "--certify", "8000"),
}
LEVELS = {
    "exact": "trust",
    "few": "do not trust",
    "naive": "do not trust",
    "certified": "trust",
    "poor, corrected": "trust with care",
    "poor": "do not trust",
}


@pytest.mark.parametrize("name", RUNS)
def test_the_command_line_the_report_and_python_agree(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["infer", "gaussian-mean", *RUNS[name], "--out", "run", "--json", "--seed", "3"]
    result = CliRunner().invoke(app, words)
    said = json.loads(result.stdout)
    request = requests.described(Path("run"))
    target = targets.load(request)
    stored = outcomes.stored(Path("run"), target, seed=request.seed)
    found = nw.assess(
        KEY,
        stored.answer,
        target.model,
        target.observed,
        certificate=stored.certificate,
    )
    page = Path("run/report.html").read_text()
    level = found.level[0].upper() + found.level[1:]
    assert f">{level}</span>" in page
    assert all(reason.sentence.split(" (p =")[0] in page for reason in found.reasons)
    assert said["verdict"] == found.verdict
    assert json.loads(Path("run/certificate.json").read_text())["verdict"] == found.verdict
    assert said["trustworthy"] is found.trustworthy
    assert result.exit_code == (0 if found.trustworthy else 3)
    assert len(said["warnings"]) == len(found.warnings) + (not found.check.passed)
    checked = outcomes.checked(stored, target)
    assert checked.assessment.level == found.level == LEVELS[name]
    assert checked.assessment.reasons[0].kind == found.reasons[0].kind


def test_a_quick_check_needs_a_model_and_time(monkeypatch):
    posterior = draws(exact=True)
    assert QuickCheck.run(posterior, None, None) == QuickCheck()
    observed = PROBLEM.model.observation(PROBLEM.observed)
    quick = QuickCheck.run(posterior, PROBLEM.model, observed)
    assert quick.num_affordable > 400
    assert quick.check.passed
    monkeypatch.setattr("noisewise.assessment.quick_check._MAX_SECONDS", 1e-9)
    slow = QuickCheck.run(posterior, PROBLEM.model, observed)
    assert (slow.num_affordable, slow.check) == (0, None)


@pytest.mark.parametrize(("shift", "stretch"), [(0.0, 0.4), (1.0, 1.0)])
def test_a_certificate_of_other_draws_vouches_for_none(shift, stretch):
    """Draws are compared with the corrected ones whatever the certificate was made for."""
    certificate = assessed(draws(), certify=8000).certificate
    assert assessed(draws(), certificate=certificate).level == "trust"
    theta = GOOD.mean() + stretch * (GOOD - GOOD.mean()) + shift * GOOD.std()
    found = assessed(draws(theta), certificate=certificate)
    assert found.level != "trust"
    assert "differs from certified draws" in kinds(found)
    empty = dataclasses.replace(certificate, comparison={})
    assert "differs from certified draws" in kinds(assessed(draws(theta), certificate=empty))


def test_a_certificate_of_other_parameters_is_refused():
    certificate = assessed(draws(), certify=8000).certificate
    other = Draws(GOOD, ("slope",), Report.stated("learnt"))
    with pytest.raises(
        InvalidInputError, match="The certificate is of mean, the posterior of slope"
    ):
        Evidence.of(other, certificate=certificate)


def test_what_should_not_be_trusted_is_not_trustworthy():
    """An exact answer that does not predict the observation, and a naive one that is certified."""
    far = nw.assess(KEY, draws(exact=True), PROBLEM.model, PROBLEM.observed + 100.0)
    assert (far.verdict, far.level, far.trustworthy) == ("exact", "do not trust", False)
    naive = Draws(GOOD, PROBLEM.model.names, Report.stated("naive"))
    found = assessed(naive, certify=8000)
    assert (found.level, found.trustworthy) == ("do not trust", False)


def test_texts_in_files_and_nan_are_no_reason_to_trust():
    odd = draws(exact=True)
    odd = odd.with_report(dataclasses.replace(odd.report, numbers={"simulations dropped": "many"}))
    assert "many" not in str(assessed(odd))
    nothing = dataclasses.replace(Evidence.of(odd), worth=float("nan"))
    assert judge(nothing).level == "do not trust"
