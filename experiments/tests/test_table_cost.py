import dataclasses

import numpy as np
import pytest

from experiments import table_cost as item
from experiments import trials

CPU, GPU = "1 CPU core (x86_64)", "A GPU, 16 CPU cores (x86_64)"


def trial(values, *, minutes=1.0, machine=CPU, together=1, step=1000):
    first = item.first_below(values)
    upto = first or len(values)
    return {
        "reached": first is not None,
        "rounds": upto,
        "simulations": step * upto,
        "first": first,
        "stays": item.stays_below(values),
        "strict": item.first_below(values, item.STRICT),
        "first_abc": 1,
        "counts": [step * r for r in range(1, len(values) + 1)],
        "mmd": values,
        "mmd_abc": values,
        "last_mmd": values[-1],
        "simulation_minutes": {"leap": 0.0, "gillespie": minutes},
        "training_minutes": 1.0,
        "trained_on": machine,
        "trained_together": together,
    }


@pytest.fixture
def result():
    back = [0.09, 0.2, 0.05, 0.02]
    methods = {
        "smc-abc": {
            "trials": [
                trial([0.5, 0.05], minutes=7.0, step=40_000),
                trial([0.5, 0.08], minutes=7.0, step=40_000),
            ]
        },
        "sppe": {"trials": [trial(back), trial([0.2, 0.15, 0.09, 0.005])]},
        "sppe-atomic": {"trials": [trial([0.2, 0.09]), trial([0.2, 0.3])]},
        "sple": {"trials": [trial([0.05]), trial([0.3, 0.05])]},
        "exact-smc": {"trials": [trial([0.001])]},
        "cle": {"refused": "No density."},
    }
    return {"methods": methods, "simulated on": CPU, "parameters timed per round": 32}


def test_simulations_by_every_rule(result):
    assert item.thousands(result, "sppe") == [1.0, 3.0]
    assert item.thousands(result, "sppe", "stays") == [3.0, 3.0]
    assert item.thousands(result, "sppe", "strict") == [4.0]
    assert item.thousands(result, "sppe", "first_abc") == [1.0, 1.0]
    first = item.table(result).split("\n\n")[0]
    assert (
        "| **SPPE** | 2.00 ± 1.41 | 3.00 ± 0.00 | 4.00 (1 of 2 trials) | 1.00 ± 0.00 | 0.0125 ±"
        " 0.0106 |" in first
    )
    assert (
        "| **SPPE, atomic** | 2.00 (1 of 2 trials) | 2.00 (1 of 2 trials) | never (0 of 2 trials) |"
        in first
    )
    assert "| CLE | refused |" in first
    assert "| SPPE, paper | - | - | - | 2.12 ± 0.71 | - |" in first


def test_minutes_with_both_simulators(result):
    second = item.table(result).split("\n\n")[1]
    assert (
        "| **SMC-ABC** | 0.000 ± 0.000 | 7.000 ± 0.000 | 1.000 ± 0.000 | 1.000 ± 0.000 | 8.000 ±"
        " 0.000 |" in second
    )
    assert "| SMC-ABC, paper | - | 115.38 ± 1.51 | - | - | 115.38 ± 1.51 |" in second


def test_verdicts_compare_with_the_papers_counts(result):
    text = item.paragraph(result)
    assert (
        "SPPE needs 2.00 ± 1.00 (3.00 until it stays below), no more than the paper's 2.12" in text
    )
    assert "SPPE, atomic comes there in 1 of 2 trials" in text
    assert "SPLE needs 1.50 ± 0.50" in text
    assert "less than half of the paper's 5.40" in text
    assert "SMC-ABC needs 80.00 (paper 82.85)" in text
    result["methods"]["sppe"]["trials"][0] = trial([0.2, 0.2, 0.05])
    assert "SPPE needs 3.00 ± 0.00" in item.paragraph(result)
    assert "more than the paper's 2.12" in item.paragraph(result)


def test_minutes_of_different_machines_are_not_compared(result):
    """SMC-ABC takes 7 + 1 minutes with Gillespie and 1 with the leap, SPPE 1 + 1 and 1."""
    assert "with Gillespie's simulator SPPE 4.0" in item.paragraph(result)
    assert "with the leap SPPE 1.0" in item.paragraph(result)
    assert "cannot be compared" not in item.paragraph(result)
    for change in ({"machine": GPU}, {"together": 15}):
        result["methods"]["sppe"]["trials"][0] = trial([0.05], **change)
        assert not item.one_machine(result, "sppe", "smc-abc")
        text = item.paragraph(result)
        assert "SPPE 4.0" not in text
        assert "SPLE 4.0" in text
    result["methods"]["sppe"]["trials"][0] = trial([0.05], machine=GPU)
    assert "cannot be compared" in item.paragraph(result)


def test_simulations_timed_elsewhere_are_not_compared_either(result):
    assert item.one_machine(result, "sppe", "smc-abc")
    assert not item.one_machine({**result, "simulated on": GPU}, "sppe", "smc-abc")


def test_the_cost_of_a_trial_ends_at_the_threshold():
    """Half of the draws of 100 particles, each stored twice, are these particles once: no distance
    to their own law but chance.
    """
    rng = np.random.default_rng(0)
    abc = np.repeat(rng.normal(size=(100, 2)), 2, axis=0)
    near, far = np.repeat(rng.normal(size=(100, 2)), 2, axis=0), rng.normal(5.0, 1.0, size=(200, 2))
    seconds = {"simulation": 9.0, "training": 30.0, "sampling": 30.0}
    rounds = [
        {"mmd": value, "num_simulations": n, "seconds": seconds}
        for value, n in ((0.5, 10), (0.05, 30), (0.2, 60))
    ]
    record = {"rounds": rounds, "hardware": CPU, "trained together": 1, "refused": None}
    made = trials.Trial(record, np.stack([far, near, near]), (np.zeros((1, 2)),) * 3)
    found = item._cost(made, lambda theta: 2.0, abc)
    assert (found["simulations"], found["first"], found["stays"]) == (30, 2, None)
    assert found["simulation_minutes"] == {"leap": 0.3, "gillespie": 1.0}
    assert found["training_minutes"] == 2.0
    assert found["mmd_abc"][0] > 0.5
    # unbiased, with an sd of 2 / N of the kernel's size: .02
    assert abs(found["mmd_abc"][1]) < 0.08
    assert found["first_abc"] == 2
    never = dataclasses.replace(
        made, record={**record, "rounds": rounds[:1]}, draws=made.draws[:1], theta=made.theta[:1]
    )
    assert item._cost(never, lambda theta: 2.0, abc)["reached"] is False


def test_a_method_that_is_slower_is_called_so(result):
    """SPPE takes 8 minutes of training, SMC-ABC 8 in all with Gillespie and 1 with the leap."""
    for each in result["methods"]["sppe"]["trials"]:
        each["training_minutes"] = 8.0 - each["simulation_minutes"]["leap"]
    assert "with the leap SPPE 8.0" in item.paragraph(result)
    assert "times slower" in item.paragraph(result)
