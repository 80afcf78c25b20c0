import copy
import dataclasses

import numpy as np
import pytest

from experiments import items, outbreak_trials
from experiments import outbreaks as item


def cell(mean, half, num=1):
    part = {"mean": mean, "sd": half / 2, "low": mean - half, "high": mean + half}
    rng = np.random.default_rng(0)
    return {
        **dict.fromkeys(outbreak_trials.QUANTITIES, part),
        "trials": [mean] * num,
        "num_simulations": 1000.0,
        "seconds": 1.0,
        "draws": (np.array([-2.0, -3.0]) + 0.1 * rng.normal(size=(100, 2))).tolist(),
    }


def outbreak(exact, literature):
    cells = {
        "exact": cell(exact, 0.5),
        "smc-abc": cell(exact, 1.0, 2),
        "sppe": cell(exact + 0.1, 0.5, 2),
        "sple": cell(exact, 0.5),
    }
    return {
        "literature": literature,
        "epsilon": 9.95,
        "per_day": 1.0,
        "ode": {"R0": exact + 0.2, "beta_per_day": 0.13, "gamma_per_day": 0.05},
        "variants": {"released": cells, "published": copy.deepcopy(cells)},
    }


@pytest.fixture
def result():
    return {"outbreaks": {"influenza": outbreak(3.8, [0.9, 2.1]), "ebola-guinea": outbreak(1.6, [1.51, 2.53])}}


def test_published_curves_are_the_nearest_counts_and_released_ones_are_not():
    published = outbreak_trials.problem("influenza", "published").observed
    released = outbreak_trials.problem("influenza", "released")
    assert published.astype(int).tolist() == [0, 0, 1, 4, 10, 29, 38, 34, 31, 25]
    assert released.observed.astype(int).tolist() != published.astype(int).tolist()
    # padding of 100 among 763 + 200: about a tenth of the draws come out infected where nobody is
    assert released.observed[0] > 3
    assert "variant" not in released.settings


def test_exact_draws_and_what_is_only_compared_have_one_trial():
    assert outbreak_trials.seeds("sppe", "released", items.STANDARD) == (1, 2, 3, 4, 5)
    assert outbreak_trials.seeds("sppe", "published", items.STANDARD) == (1,)
    assert outbreak_trials.seeds("exact", "released", items.STANDARD) == (1,)


def test_a_trial_is_stored_and_read(tmp_path):
    scale = dataclasses.replace(items.QUICK, cache=tmp_path, num_draws=100)
    said = []
    first = outbreak_trials.get("covid-clark", "released", "smc-abc", 1, scale, said.append)
    again = outbreak_trials.get("covid-clark", "released", "smc-abc", 1, scale, said.append)
    assert said == ["SMC-ABC on covid-clark, released, seed 1"]
    np.testing.assert_array_equal(first.draws, again.draws)
    assert first.rounds == again.rounds
    found = first.rounds[-1]["quantities"]["R0"]
    R0 = np.exp(first.draws[-1][:, 0].astype(float) - first.draws[-1][:, 1])
    assert found["mean"] == pytest.approx(R0.mean(), rel=1e-4)
    assert found["low"] < found["mean"] < found["high"]


def test_trials_are_averaged():
    parts = [{"mean": m, "sd": 1.0, "low": m - 1, "high": m + 1} for m in (1.0, 3.0)]
    rounds = [
        {"quantities": dict.fromkeys(item.QUANTITIES, part), "num_simulations": 10, "seconds": 2.0} for part in parts
    ]
    made = item.pooled(rounds)
    assert made["R0"] == {"mean": 2.0, "sd": 1.0, "low": 1.0, "high": 3.0}
    assert made["trials"] == [1.0, 3.0]


def test_the_table_has_every_method_and_the_baseline(result):
    lines = item.table(result).splitlines()
    assert len(lines) == 2 + 2 * 5
    assert "| influenza | exact | 3.80 (3.30, 4.30) | 3.80 (3.30, 4.30) | 0.9 to 2.1 |" in lines[2]
    assert "| Ebola (Guinea) | ODE, not private | 1.80 |" in lines[-1]


def test_the_paragraph_follows_the_numbers(result):
    text = item.paragraph(result)
    assert "range for Ebola (Guinea) and miss it for influenza" in text
    assert "in 1 of 2 outbreaks, the ODE fit in the exact interval in 2" in text
    # .1 off at an exact sd of .25
    assert "SMC-ABC 0.00; SPPE 0.40; SPLE 0.00" in text
    wide = copy.deepcopy(result)
    wide["outbreaks"]["influenza"]["variants"]["released"]["exact"]["R0"]["low"] = 2.0
    assert "miss it for none" in item.paragraph(wide)


def test_the_figure_has_a_panel_for_each_outbreak_and_one_for_all(result):
    figure = item.figure(result)
    assert [ax.get_title() for ax in figure.axes[:2]] == ["influenza", "Ebola\n(Guinea)"]
    means = [line.get_ydata()[0] for line in figure.axes[-1].lines]
    assert means.count(3.8) == 6
    assert pytest.approx(4.0) in means
