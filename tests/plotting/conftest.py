"""Figures are closed after each test, and nothing is ever shown."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def figures(monkeypatch):
    """No test may open a window, leave settings changed or draw what cannot be rendered."""
    plt.close("all")  # of doctests that ran before
    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: pytest.fail("plots must not be shown"))
    before = dict(plt.rcParams)
    yield
    assert dict(plt.rcParams) == before
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


@pytest.fixture
def rng():
    return np.random.default_rng(0)
