"""A posterior of many parameters is printed in part."""

from types import SimpleNamespace

import numpy as np

from noisewise.cli import results
from noisewise.posteriors import Draws, Report


def test_a_thousand_effects_are_cut(capsys):
    names = tuple(f"effect[{j}]" for j in range(50))
    answer = Draws(np.random.default_rng(0).normal(size=(100, 50)), names, Report("example"))
    outcome = SimpleNamespace(answer=answer, posterior=answer, naive=None)
    results._table(SimpleNamespace(truths={}, title="Districts"), outcome)
    shown = capsys.readouterr().out
    assert "effect[39]" in shown
    assert "effect[40]" not in shown
    assert "and 10 more" in shown
    assert repr(answer).endswith("effect[23], ... (26 more))")
