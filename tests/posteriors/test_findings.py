"""Findings and stops: numbers that files keep, what replaces what, and what is refused."""

import copy
import json
import pickle

import numpy as np
import pytest

from noisewise import errors
from noisewise.inference.contract.run import InferenceRun
from noisewise.posteriors import Finding, Kind, Report, Stop, StopKind
from noisewise.posteriors.findings import with_finding, without
from noisewise.problems import gaussian_mean
from tests.posteriors.examples import FINDINGS, STOPS

ALL = [Finding(kind, numbers) for kind, several in FINDINGS.items() for numbers in several]
ENDS = [Stop(kind, numbers) for kind, several in STOPS.items() for numbers in several]


def through_json(spec):
    return json.loads(json.dumps(spec, allow_nan=False))


@pytest.mark.parametrize("finding", ALL, ids=repr)
def test_findings_survive_files_copies_and_pickles(finding):
    assert Finding.from_spec(through_json(finding.to_spec())) == finding
    assert copy.deepcopy(finding) == finding
    assert pickle.loads(pickle.dumps(finding)) == finding
    assert hash(copy.copy(finding)) == hash(finding)


@pytest.mark.parametrize("stop", ENDS, ids=repr)
def test_stops_survive_files_and_journals(stop):
    assert Stop.from_spec(through_json(stop.to_spec())) == stop
    assert Stop.from_record(stop.to_record()) == stop
    assert stop.finished == (stop.kind is StopKind.FINISHED)


def test_journals_of_earlier_versions_are_understood():
    """Planted: the words of a journal are a file format, so that they are repeated here."""
    known = {
        "finished": Stop(),
        "the time budget is spent": Stop(StopKind.TIME_SPENT),
        "the budget of 10 simulations is spent": Stop(StopKind.SIMULATIONS_SPENT, {"budget": 10}),
        "the budget of 1,234,567 simulations is spent": Stop(
            StopKind.SIMULATIONS_SPENT, {"budget": 1_234_567}
        ),
    }
    for text, stop in known.items():
        assert Stop.from_record(text) == stop
        assert stop.to_record() == text
    limit = Stop.from_record("max_steps = 5,000 steps are made")
    assert (limit.kind, str(limit)) == (StopKind.STATED, "max_steps = 5,000 steps are made")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_not_finite_are_kept_and_names_like_them_too(value):
    finding = Finding(Kind.WEIGHTS_POOR, {"effective_size": np.float32(1.5), "pareto_k": value})
    again = Finding.from_spec(through_json(finding.to_spec()))
    assert np.array_equal(again.numbers["pareto_k"], value, equal_nan=True)
    assert again.numbers["effective_size"] == 1.5
    named = Finding(Kind.STATISTICS_LEFT_OUT, {"names": ["NaN", "Infinity", "not finite"]})
    report = Report("x", findings=(named, again))
    assert Report.from_spec(through_json(report.to_spec())).findings[0] == named


HOSTILE = [
    None,
    1,
    "stated",
    {},
    {"kind": "stated"},
    {"kind": "stated", "numbers": {}},
    {"kind": "stated", "numbers": {"text": None}},
    {"kind": "stated", "numbers": {"text": {"not finite": "1e9"}}},
    {"kind": "stated", "numbers": [1]},
    {"kind": "unheard of", "numbers": {}},
    {"kind": ["stated"], "numbers": {"text": "a"}},
    {"kind": "weights poor", "numbers": {"effective_size": "many", "pareto_k": 1.0}},
    {"kind": "surprising observation", "numbers": {"p": 10**400}},
    {"kind": "certified", "numbers": {"effective_size": 0.0, "cost": 1.0}},
    {"kind": "statistics left out", "numbers": {"names": [1]}},
    {"kind": "learnt from less", "numbers": {"stop": "whim"}},
    {"kind": "only prior draws", "numbers": {}, "more": 1},
]


@pytest.mark.parametrize("spec", HOSTILE, ids=str)
def test_what_has_no_sentence_is_refused(spec):
    with pytest.raises(errors.FileFormatError):
        Finding.from_spec(spec)
    with pytest.raises(errors.FileFormatError):
        Report.from_spec({**Report("x").to_spec(), "findings": [spec]})
    with pytest.raises(errors.FileFormatError):
        Report.from_spec({**Report("x").to_spec(), "stop": spec})


def test_a_finding_replaces_one_of_its_kind():
    first, second = (Finding(Kind.MASS_LEAKED, {"share": share}) for share in (0.1, 0.2))
    other = Finding(Kind.CONFIDENTIAL)
    assert with_finding((first, other), second) == (other, second)
    assert with_finding((first, other), first) == (first, other)
    assert without((first, other), Kind.MASS_LEAKED) == (other,)
    notes = [Finding.stated(text) for text in "ab"]
    assert with_finding(notes[:1], notes[1]) == tuple(notes)
    assert with_finding(notes, notes[0]) == tuple(notes)


def test_work_replaces_and_withdraws_by_kind():
    problem = gaussian_mean(1.0)
    run = InferenceRun("x", {}, problem.model, problem.observed)
    run.warn(Kind.TRAINING_CUT_SHORT, epochs=5)
    run.warn(Kind.MASS_LEAKED, share=0.1)
    run.warn(Kind.TRAINING_CUT_SHORT, epochs=6)
    assert [finding.kind for finding in run.findings] == [
        Kind.MASS_LEAKED,
        Kind.TRAINING_CUT_SHORT,
    ]
    run.withdraw(Kind.MASS_LEAKED)
    (finding,) = run.report(exact=False).findings
    assert finding.numbers == {"epochs": 6}


def test_a_report_shows_its_parts_in_words():
    stop = Stop(StopKind.SIMULATIONS_SPENT, {"budget": 1000})
    finding = Finding(Kind.ENDED_EARLY_AT_POWER, {"power": 0.5})
    report = Report("x", stop=stop, numbers={"k": 1.0}, power=0.5, findings=(finding,))
    assert report.stopped == "the budget of 1,000 simulations is spent"
    assert report.warnings == (finding.sentence,)
    assert report.diagnostics == {"k": 1.0, "power": 0.5}
    assert report.found(Kind.ENDED_EARLY_AT_POWER)
    assert not report.found(Kind.CONFIDENTIAL)
    assert Report.from_spec(through_json(report.to_spec())) == report


def test_findings_hold_plain_values_alone():
    with pytest.raises(TypeError, match="numbers, strings and lists"):
        Finding(Kind.STATED, {"text": object()})
