import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments import accuracy, items
from experiments import flow_layers as item
from experiments.tests import fakes


@pytest.fixture(params=["quick", "standard"])
def made(request, monkeypatch):
    fakes.replace(monkeypatch)
    scale = (
        items.QUICK
        if request.param == "quick"
        else dataclasses.replace(items.STANDARD, trials=2, num_draws=100)
    )
    return scale, item.run(scale, items.silent)


def test_panels_go_by_role_and_hold_their_number(made):
    scale, result = made
    numbers = {role: shown["layers"] for role, shown in result["panels"]["sir"].items()}
    assert numbers == (
        {"fewer": 1, "usual": 2, "more": 4} if scale.quick else {"fewer": 5, "usual": 8, "more": 10}
    )
    trial = fakes.get("sir", 10.0, "sple", scale.seed, scale, layers=numbers["more"])
    assert result["panels"]["sir"]["more"]["methods"]["sple"]["c2st"][0] == [
        each["c2st"] for each in trial.rounds
    ]


def test_the_table_has_all_metrics(made):
    _, result = made
    lines = item.table(result).splitlines()
    assert lines[0].endswith("| C2ST, last | MMD², last | NLOG, last | LMD, last |")
    assert len(lines) == 2 + 2 * 2 * 3
    values = result["panels"]["linear_regression"]["more"]["methods"]["sple"]
    assert lines[-1].startswith(
        f"| SPLE, regression | {result['panels']['linear_regression']['more']['layers']} | 2.0 |"
    )
    assert f"| {np.mean(values['lmd'], axis=0)[-1]:.3f}" in lines[-1]
    assert f"| {np.mean(values['nlog'], axis=0)[-1]:.3f}" in lines[-1]


def test_trials_that_do_not_come_below_are_counted(made):
    _, result = made
    shown = result["panels"]["sir"]["fewer"]
    shown["methods"]["sppe"]["mmd"][0] = [0.5] * len(shown["methods"]["sppe"]["mmd"][0])
    num = len(shown["methods"]["sppe"]["mmd"])
    assert f"| {num - 1} of {num} trials |" in item.table(result).splitlines()[2]


def test_panels_are_those_of_the_paper(made):
    scale, result = made
    figure = item.figure(result)
    titles = [ax.get_title(loc="left") for ax in figure.axes[::4]]
    few, many = (1, 4) if scale.quick else (5, 10)
    assert titles == [
        f"A. {few} layers, SIR",
        f"B. {many} layers, SIR",
        f"C. {few} layers, regression",
        f"D. {many} layers, regression",
    ]
    least = accuracy.floor(result["panels"]["sir"]["fewer"])
    labels = [ax.get_ylabel() for ax in figure.axes[:4]]
    assert labels == [f"MMD$^2$, drawn from {least:g} up", "C2ST", "NLOG", "LMD"]
    first, *_, usual = figure.axes[9].lines
    np.testing.assert_allclose(
        first.get_ydata(),
        np.mean(result["panels"]["linear_regression"]["fewer"]["methods"]["sppe"]["c2st"], axis=0),
    )
    np.testing.assert_allclose(
        usual.get_ydata(),
        np.mean(result["panels"]["linear_regression"]["usual"]["methods"]["sple"]["c2st"], axis=0),
    )
    plt.close(figure)
