import dataclasses

import pytest

from experiments import index, methods


def test_settings_that_differ_from_the_paper_are_told():
    text = index.settings()
    assert "in a training step: SPPE: 8; SPPE, atomic: 1; SPLE: 1." in text
    assert "learning rate 0.001 (paper: 0.0005)" in text
    assert "Training as in the paper: weight decay 0.0001, batch size 100, patience 20" in text
    assert text in index.page({})


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
