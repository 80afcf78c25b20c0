import dataclasses

import pytest

from experiments import index, items, methods


def test_settings_that_differ_from_the_paper_are_told():
    text = index.settings()
    assert "in a training step: SPPE: 8; SPPE, atomic: 1; SPLE: 1." in text
    assert "learning rate 0.001 (paper: 0.0005)" in text
    assert "Training as in the paper: weight decay 0.0001, batch size 100, patience 20" in text
    assert text.strip() in index.page({})


@pytest.mark.parametrize(
    ("change", "words"),
    [({"patience": 7}, "patience 7 (paper: 20)"), ({"learning_rate": 5e-4}, "rate 0.0005,")],
)
def test_they_are_read_off_the_methods(monkeypatch, change, words):
    def changed(*arguments):
        found = methods.method(*arguments)
        return dataclasses.replace(found, training=dataclasses.replace(found.training, **change))

    monkeypatch.setattr(index, "method", changed)
    assert words in index.settings()


def record(verdict):
    claim = {"claim": "it is fast", "item": "table_cost", "verdict": verdict, "evidence": "6 times"}
    other = claim | {"claim": "it is good", "item": "sir_accuracy"}
    return {"item": "claims", "result": {"claims": [claim, other]}}


def test_the_page_opens_with_what_became_of_the_claims():
    """Planted: a claim that does not hold is said, whichever item judges it."""
    text = index.in_short({"claims": record("holds")})
    assert text.startswith("**Of 2 claims of the paper 2 hold.**")
    assert "- it is fast: **holds**. Here: 6 times.\n" in text
    assert "- it is good" not in text
    text = index.in_short({"claims": record("does not hold")})
    assert text.startswith("**Of 2 claims of the paper 2 do not hold.**")
    assert "- it is good: **does not hold**. Here: 6 times.\n" in text
    assert index.in_short({}) == ""


def test_sections_say_what_was_missed():
    """Sentences are chosen by number: these must be among them."""
    records = items.records()
    sections = {slug: index.section(each) for slug, each in records.items() if slug != index.CLAIMS}
    assert "is not reproduced" in sections["noise_rmse"]
    assert "Astray are draws" in sections["outbreaks"]
    assert "misses 7" in sections["outbreak_coverage"]
    assert "times slower" in sections["table_cost"]
    for slug, numbers in index.SENTENCES.items():
        paragraph = items.load(slug).paragraph(records[slug]["result"])
        assert len(index.opening(paragraph, range(99))) == len(" ".join(paragraph.split()))
        assert all(index.opening(paragraph, (i,)).endswith(".") for i in numbers)
