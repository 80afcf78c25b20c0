import dataclasses

import numpy as np
import pytest

from experiments import abc_accuracy as item
from experiments import items
from experiments.tests import fakes


@pytest.fixture
def result(monkeypatch):
    fakes.replace(monkeypatch)
    return item.run(dataclasses.replace(items.STANDARD, trials=3, num_draws=100), items.silent)


def test_a_round_that_was_given_up_is_no_round():
    tolerances = [0.35, 0.245, 0.1715, 0.1715]
    rounds = [{"tolerance": t, "number": i} for i, t in enumerate(tolerances)]
    assert [each["number"] for each in item.passed(rounds)] == [0, 1, 2]
    assert item.passed(rounds[:3]) == rounds[:3]


def test_only_rounds_that_came_somewhere_are_shown(result):
    assert [trial["num_simulations"] for trial in result["trials"]] == [list(fakes.ABC_COUNTS)] * 3
    lines = item.table(result).splitlines()
    assert len(lines) == 2 + len(fakes.ABC_COUNTS) + 2 + 1
    c2st = [trial["c2st"][-1] for trial in result["trials"]]
    assert f"280,000 | {np.mean([t['mmd'][-1] for t in result['trials']]):.4f}" in lines[7]
    assert (
        f"{np.mean(c2st):.3f} [{np.quantile(c2st, 0.25):.3f}, {np.quantile(c2st, 0.75):.3f}]"
        in lines[7]
    )


def test_why_every_trial_ended_is_told(result):
    text = item.paragraph(result)
    assert f"{fakes.STOPPED} (3 of 3 trials), after 25,600 to 25,600 more simulations" in text
    mixed = {**result, "stopped": [fakes.STOPPED, "finished", fakes.STOPPED]}
    assert f"{fakes.STOPPED} (2 of 3 trials); finished (1 of 3 trials)" in item.paragraph(mixed)
    whole = {**result, "simulations": [fakes.ABC_COUNTS[-1]] * 3}
    assert "given up" not in item.paragraph(whole)


@pytest.mark.parametrize(
    ("c2st", "bracket", "words"),
    [
        (0.75, (56.0, 108.0), "which SMC-ABC comes to between 56 and 108"),
        (0.8, (36.0, 56.0), "between 36 and 56"),
        (0.5, (108.0, None), "which SMC-ABC does not come to within 108"),
        (0.95, (None, 36.0), "which SMC-ABC has within its first 36"),
    ],
)
def test_between_which_rounds(c2st, bracket, words):
    trials = [
        {"num_simulations": [36.0, 56.0, 108.0], "c2st": [0.9 + a, 0.8 - a, 0.7 + a]}
        for a in (-0.05, 0.05)
    ]
    result = {
        "trials": trials,
        "learnt": {"sppe": {"c2st": [c2st - 0.1, c2st + 0.1], "num_simulations": [10, 10]}},
    }
    assert item.bracket(result, "sppe") == pytest.approx(bracket)
    assert words in item.comes_there(result, "sppe")
