"""What keeps corrected draws from being called exact, each by itself; and what a certificate then
advises.
"""

import dataclasses
import functools
import importlib

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.diagnostics import certify
from noisewise.diagnostics.certificates.advice import rounded_up
from noisewise.inference.exact.pool import Pool
from noisewise.inference.exact.weighted_draws import ImportanceDraws, UnconstrainedPrior
from noisewise.posteriors import Finding, Kind
from tests.diagnostics.planted import normal_fit
from tests.inference import hidden_modes

KEY = jax.random.key(3)
NUM = 10_000

certifying = importlib.import_module("noisewise.diagnostics.certificates.certify")
measuring = importlib.import_module("noisewise.diagnostics.certificates.measuring")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEWISE_CACHE_DIR", str(tmp_path))


@functools.cache
def close_fit():
    problem = nw.problems.gaussian_mean(1.0)
    exact = problem.reference(jax.random.key(5), 5000)
    return problem, normal_fit(problem.model.names, exact, stretch=1.2)


def certificate():
    problem, fit = close_fit()
    return certify(KEY, fit, problem.model, problem.observed, NUM)


def labels(found):
    return {finding.kind for finding in found.corrected.report.findings}


def test_nothing_planted_is_certified_and_exact():
    found = certificate()
    assert found.certified
    assert found.corrected.report.exact


@pytest.mark.parametrize(
    ("owner", "name", "value", "kind"),
    [
        (Pool, "reliable_share", 1e-4, Kind.APPROXIMATION_POOR),
        (Pool, "tail_share", 1e-6, Kind.TAILS_UNSTEADY),
        (certifying, "contradicted", 0.2, Kind.CONTRADICTED),
        (certifying, "chance_of_noise", 1e-4, Kind.UNEXPLAINED),
    ],
)
def test_each_doubt_takes_the_label_away(monkeypatch, owner, name, value, kind):
    monkeypatch.setattr(owner, name, lambda *_: value)
    monkeypatch.setattr(certifying, "smallest_mode", lambda *_: 1.0)  # nothing bounds the weights
    found = certificate()
    assert not found.certified
    assert not found.corrected.report.exact
    assert kind in labels(found)


def test_an_observation_that_nothing_explains_has_a_verdict_of_its_own(monkeypatch):
    monkeypatch.setattr(certifying, "chance_of_noise", lambda *_: 1e-4)
    monkeypatch.setattr(certifying, "smallest_mode", lambda *_: 1.0)
    found = certificate()
    assert found.verdict == "the observation is not explained"
    assert "poor" not in found.sentence
    assert found.advice == (("check", None),)


def test_draws_that_contradict_the_check_take_it_away(monkeypatch):
    monkeypatch.setattr(ImportanceDraws, "contradicts", lambda *_: True)
    found = certificate()
    assert not found.certified
    assert not found.corrected.report.exact


def test_other_draws_decide_than_those_that_are_reported(monkeypatch):
    """Of the draws, the second fifth decides, and three fifths are reported: none is both."""
    seen = []
    honest = certifying._soundness

    def watched(key, run, check, draws, pool):
        seen.append((check.z, draws.z))
        return honest(key, run, check, draws, pool)

    monkeypatch.setattr(certifying, "_soundness", watched)
    found = certificate()
    [(check, draws)] = seen
    assert not np.isin(check, draws).any()
    assert len(draws) == len(found.corrected.theta) == 3 * len(check)


def test_a_lucky_draw_is_followed_up():
    """One draw in 600 of a mode of half the mass shows its height alone; the draws around it show
    its width, and the log evidence comes within 4 of its errors of 20% to 30%.
    """
    problem = hidden_modes.spikes(2, [[2.0, 1.0]], [0.05], [0.5])
    method = nw.inference.ImportanceSampling()
    run = method.start(problem.model, problem.observed, progress=False)
    start = UnconstrainedPrior(problem.model.prior)
    draws = ImportanceDraws(run, start)
    draws.add(KEY, 600)
    draws.z[0] = [2.03, 1.04]
    draws.s[0] = run.statistics(KEY, problem.model.prior.constrain(draws.z[:1]))[0]
    draws.log_weights[0] = run.log_eta(draws.s[:1])[0]
    before = Pool(run)
    before.include(start, draws.z, draws.s)
    after = certifying._followed_up(KEY, run, (draws,), 600)
    assert abs(after.log_evidence - problem.log_evidence) < 1.0
    assert abs(before.log_evidence - problem.log_evidence) > 1.0


def planted(found, *findings, **changed):
    report = dataclasses.replace(found.corrected.report, findings=findings)
    corrected = found.corrected.with_report(report)
    return dataclasses.replace(
        found, verdict="the approximation is poor", corrected=corrected, **changed
    )


@pytest.mark.parametrize("kind", [Kind.UNEXPLAINED, Kind.FOUND_BY_FEW])
def test_simulations_are_not_advised_against_what_they_do_not_cure(kind):
    numbers = {"p": 0.001} if kind is Kind.UNEXPLAINED else {"share": 0.5}
    found = certificate()
    assert planted(found, Finding(kind, numbers)).advice == (("check", None),)
    assert planted(found).advice[-1][0] == "more"


def test_advice_never_asks_for_fewer_simulations_than_were_made():
    """The effective size suffices; something else was doubtful: twice as many."""
    found = certificate()
    assert found.effective_size > 1000
    assert planted(found).advice[-1] == ("more", rounded_up(2.0 * found.num_simulations))


@pytest.mark.parametrize(("lost", "taken"), [(1.0, False), (0.0, True)])
def test_a_refit_that_lost_mass_is_not_measured(monkeypatch, lost, taken):
    """Its weights look the best, as all its draws lie in one part of the posterior."""
    refits, measured = [], []
    excesses = measuring._excesses

    def steady(_key, run, draws, _proposal, _num):
        refit = ImportanceDraws(run, draws.proposal)
        refit.z, refit.s, refit.log_proposal = draws.z, draws.s, draws.log_proposal
        refit.log_weights = np.full(draws.num, draws.log_evidence - lost)
        refits.append(refit)
        return [refit]

    def watched(key, run, draws, *others):
        measured.append(draws)
        return excesses(key, run, draws, *others)

    monkeypatch.setattr(measuring, "_refits", steady)
    monkeypatch.setattr(measuring, "_excesses", watched)
    monkeypatch.setattr(ImportanceDraws, "contradicts", lambda *_: True)  # not sound: it refits
    certificate()
    assert (measured[0] is refits[0]) == taken
