"""Assessments in words: every kind has some, and nothing depends on them."""

import re

import pytest

from noisewise.assessment import Evidence, Level, Reason, ReasonKind, judge, sentences
from noisewise.assessment.evidence import Source
from tests.assessment.cases import CASES, EXACT, METHOD

EXAMPLES = {
    reason.kind: reason for case in CASES.values() for reason in judge(case.evidence).reasons
}


def test_every_kind_has_a_sentence():
    assert set(sentences.REASONS) == set(ReasonKind) == set(EXAMPLES)


@pytest.mark.parametrize("kind", ReasonKind)
def test_every_sentence_is_whole(kind):
    sentence = EXAMPLES[kind].sentence
    assert re.fullmatch(r"[A-Z].*\.", sentence)
    assert "{" not in sentence
    assert "  " not in sentence


def test_numbers_are_in_the_sentences():
    assert "250 independent" in Reason(ReasonKind.SOME_DRAWS, {"worth": 250.0}).sentence
    assert "error of 6%" in Reason(ReasonKind.SOME_DRAWS, {"worth": 250.0}).sentence
    off = {"name": "rate", "shift": -0.5, "ratio": 1.5}
    assert "rate by -0.50 sd" in Reason(ReasonKind.DIFFERS_FROM_CERTIFIED, off).sentence


def test_the_sentence_says_the_worst():
    found = judge(CASES["everything at once"].evidence)
    assert found.sentence == f"{found.about_level} {found.reasons[0].sentence}"
    assert judge(EXACT).sentence == judge(EXACT).about_level


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (EXACT, "come from the exact posterior and are worth 1,000 independent ones."),
        (CASES["99 draws"].evidence, "too few for intervals. Give the method more simulations"),
        (CASES["dropped simulations"].evidence, "not failing (it failed 3 times), and are worth"),
        (CASES["naive"].evidence, "for comparison"),
        (METHOD, "certify it"),
        (CASES["certifiable or not"].evidence, "the mechanism has no density"),
    ],
)
def test_verdicts_in_a_sentence(evidence, words):
    assert words in judge(evidence).about_verdict


def facts(evidence):
    """All of a judgement but its words."""
    found = judge(evidence)
    reasons = [(reason.kind, reason.numbers, reason.level) for reason in found.reasons]
    return found.level, found.verdict, found.trustworthy, reasons


def test_rewording_changes_no_judgement(monkeypatch):
    usual = [facts(case.evidence) for case in CASES.values()]
    monkeypatch.setattr(sentences, "reason", lambda name, numbers: "reworded")
    monkeypatch.setattr(sentences, "level", lambda name: "reworded")
    assert judge(EXACT).sentence == "reworded"
    assert [facts(case.evidence) for case in CASES.values()] == usual


# To look at ---------------------------------------------------------------------------------------

EVIL = "<script>alert(1)</script>"


def hostile():
    pair = {EVIL: (2.0, 1.0)}
    certificate = CASES["certified"].evidence.certificate
    facts = {**vars(certificate), "comparison": pair}
    return judge(
        Evidence(
            source=Source.METHOD, exact=False, worth=500.0, certificate=type(certificate)(**facts)
        )
    )


def test_names_are_only_text_in_a_notebook():
    page = hostile()._repr_html_()
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    assert EVIL in str(hostile())


def test_terminals_are_not_commanded():
    found = judge(CASES["warned"].evidence)
    text = str(found)
    assert text.startswith("Trust with care. ")
    assert "  ! There are warnings" in text
    assert "Warning: Beware." in text
    assert "Verdict: exact. " in text


def test_levels_are_words_in_order():
    assert [level.severity for level in Level] == [0, 1, 2]
    assert Level.CARE == "trust with care"


def test_a_notebook_shows_all():
    page = judge(CASES["everything at once"].evidence)._repr_html_()
    for text in ("Do not trust", "too wide", "Verdict", "Beware."):
        assert text in page
    assert page.count("<li>") == 4
