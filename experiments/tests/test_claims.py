"""Judges of cost and speed, and all claims together, with cases of several trials for each verdict."""

import json

import numpy as np
import pytest

from experiments import claims as item
from experiments import items
from experiments.tests.judging import SPREAD, judge, method, panel, trials
from experiments.verdicts import (
    HOLDS,
    MISSING,
    NOT,
    PARTLY,
    UNJUDGED,
    UNTOLD,
    Gap,
    above,
    average,
    large,
)
from tests.cli.conftest import ROOT

# Cost and speed


def costs(sppe=1.0, reached=5, machine="A", together=1, spread=0.0, num=5):
    """SMC-ABC takes 20 minutes in all; the method `sppe` of them and one of training, times exp of
    +- spread by trial.
    """

    def rows(minutes, simulations, name, reached, signs):
        return [
            {
                "reached": i < reached,
                "simulations": simulations,
                "simulation_minutes": {
                    "leap": 0.1,
                    "gillespie": minutes * np.exp(spread * signs[i]) - 1.0,
                },
                "training_minutes": 1.0,
                "trained_on": name,
                "trained_together": together if name != "A" or machine == "A" else 1,
            }
            for i in range(num)
        ]

    signs = np.array([1, -1, 1, -1, 0])
    abc = rows(20.0, 80_000, "A", num, 0 * signs)
    methods = {
        "smc-abc": {"trials": abc},
        "sppe": {"trials": rows(sppe, 2000, machine, reached, signs)},
    }
    return {"methods": methods, "simulated on": "A"}


SIX = "SPPE reaches MMD < 0.1 on SIR 6 times faster than SMC-ABC"


@pytest.mark.parametrize(
    ("case", "verdict", "evidence"),
    [
        (
            {"sppe": 2.0},
            HOLDS,
            (
                "10.0 (10.0 to 10.0) times faster, with Gillespie, against the paper's 6; 40.0"
                " (40.0 to 40.0) times fewer"
            ),
        ),
        ({"sppe": 5.0}, PARTLY, "4.0 (4.0 to 4.0) times faster"),
        ({"sppe": 40.0}, NOT, "0.5 (0.5 to 0.5) times faster"),
        # sd of the logarithms .4, error .4 / 2.236 = .18, times 2.776: 6.7 times faster lies within
        # exp(.50) of 6
        ({"sppe": 3.0, "spread": 0.4}, UNTOLD, "6.7 (4.1 to 11.0) times faster"),
        ({"sppe": 19.0, "spread": 0.4}, UNTOLD, "1.1 (0.6 to 1.7) times faster"),
        # 9.1 times: within 2.776 errors of 6 and not within 2
        ({"sppe": 2.2, "spread": 0.4}, UNTOLD, "9.1 (5.5 to 14.9) times faster"),
        ({"sppe": 2.0, "num": 1, "reached": 1}, UNTOLD, "10.0 times faster"),
        (
            {"sppe": 2.0, "machine": "B"},
            UNJUDGED,
            "different machines, or of trials that trained side by side; 40.0",
        ),
        ({"sppe": 2.0, "together": 15}, UNJUDGED, "2,000 for 80,000"),
        ({"sppe": 2.0, "reached": 3}, NOT, "SPPE reaches MMD² < 0.1 in 3 of 5 trials"),
    ],
)
def test_how_many_times_faster(case, verdict, evidence):
    found, said = judge(SIX, costs(**case))
    assert found == verdict
    assert evidence in said


def test_a_bound_is_called_one():
    short = costs(2.0)
    short["methods"]["smc-abc"]["trials"][0]["reached"] = False
    assert judge(SIX, short)[1].startswith("at least")


FIRST = "SPPE converges faster than SPLE on SIR"
LOW = [0.6, 0.55, 0.5]


@pytest.mark.parametrize(
    ("sppe", "sple", "verdict"),
    [
        (method(LOW), method([0.9, 0.6, 0.5]), HOLDS),
        (method([0.9, 0.6, 0.5]), method(LOW), NOT),
        # fewer rounds to the threshold, but a larger C2ST on average
        (method([0.68, 0.68, 0.68]), method([0.8, 0.5, 0.5]), PARTLY),
        # both below the threshold at once: the C2ST decides, either way
        (method(LOW), method([0.65, 0.6, 0.5], seed=1), HOLDS),
        (method([0.65, 0.6, 0.5], seed=1), method(LOW), NOT),
        # .005 apart with errors of .01: nothing is told apart
        (method([0.6, 0.55, 0.5], 1.0), method([0.605, 0.555, 0.505], 1.0, seed=1), UNTOLD),
        (method(LOW, 0.0), method(LOW, 0.0), UNTOLD),
    ],
)
def test_who_converges_first(sppe, sple, verdict):
    assert judge(FIRST, {"panel": panel(sppe=sppe, sple=sple)})[0] == verdict


def test_one_trial_tells_nothing_apart():
    shown = panel(sppe=method(LOW), sple=method([0.9, 0.9, 0.9]))
    one = {
        slug: {name: rows[:1] for name, rows in each.items()}
        for slug, each in shown["methods"].items()
    }
    found, evidence = judge(FIRST, {"panel": {**shown, "methods": one}})
    assert found == UNTOLD
    assert "nan" not in evidence
    assert "SPLE 4.0" in evidence


@pytest.mark.parametrize(
    ("away", "wobble", "verdict"),
    [(0.005, 0.1, HOLDS), (-0.005, 0.1, HOLDS), (0.05, 0.1, NOT), (0.015, 1.0, UNTOLD)],
)
def test_similar_after_round_five(away, wobble, verdict):
    """Rounds up to the fifth are .3 apart and must not count."""
    early, late = [0.9] * 5, [0.55] * 5
    shown = panel(
        sppe=method([0.6] * 5 + late, wobble),
        sple=method(early + [0.55 + away] * 5, wobble, seed=1),
    )
    assert (
        judge("SPPE and SPLE have similar accuracy on SIR after round 5", {"panel": shown})[0]
        == verdict
    )


EARLY, LATE = [0.8, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5], [0.9, 0.8, 0.8, 0.7, 0.5, 0.5, 0.5]
FALLING = [0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6]


@pytest.mark.parametrize(
    ("sppe", "sple", "verdict"),
    [(EARLY, EARLY, HOLDS), (EARLY, LATE, PARTLY), (LATE, FALLING, NOT)],
)
def test_rounds_until_stable(sppe, sple, verdict):
    shown = {"panel": panel(sppe=method(sppe), sple=method(sple))}
    assert judge("on the log-linear model both methods are stable by round 3", shown)[0] == verdict


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [(LATE, LATE, HOLDS), (LATE, EARLY, PARTLY), (EARLY, FALLING, NOT)],
)
def test_about_five_rounds(first, second, verdict):
    shown = {"panels": {"1": panel(sple=method(first)), "0.1": panel(sple=method(second))}}
    found, evidence = judge("SPLE needs about 5 rounds on SIR at ε = 1 and 0.1", shown)
    assert found == verdict
    assert ("in no round at ε = 0.1" in evidence) == (second is FALLING)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((EARLY, LATE), (EARLY, FALLING), HOLDS),
        ((EARLY, LATE), (LATE, EARLY), PARTLY),
        ((EARLY, EARLY), (FALLING, LATE), NOT),
        ((FALLING, FALLING), (EARLY, LATE), UNTOLD),
    ],
)
def test_who_settles_first(first, second, verdict):
    pairs = {"1": first, "0.1": second}
    shown = {
        "panels": {
            e: panel(sppe=method(sppe), sple=method(sple)) for e, (sppe, sple) in pairs.items()
        }
    }
    found, evidence = judge("SPPE settles before SPLE on SIR at ε = 1 and 0.1", shown)
    assert found == verdict
    assert evidence.count("SPLE") == 2


def abc(sppe, sple, wobble=0.1):
    """SMC-ABC has C2ST .9, .8, .7 and .6 after 36, 56, 108 and 280 thousand simulations."""
    counts = [36_000, 56_000, 108_000, 280_000]
    rows = trials([0.9, 0.8, 0.7, 0.6], wobble)
    learnt = {
        slug: {"c2st": (value + wobble * SPREAD[::-1]).tolist(), "num_simulations": [10_000] * 5}
        for slug, value in (("sppe", sppe), ("sple", sple))
    }
    return {"trials": [{"num_simulations": counts, "c2st": row} for row in rows], "learnt": learnt}


@pytest.mark.parametrize(
    ("sppe", "sple", "wobble", "verdict"),
    [
        (0.55, 0.65, 0.1, HOLDS),
        (0.7, 0.699, 0.1, HOLDS),
        (0.55, 0.75, 0.1, PARTLY),
        (0.75, 0.85, 0.1, NOT),
        (0.7, 0.7, 20.0, UNTOLD),
    ],
)
def test_simulations_that_match(sppe, sple, wobble, verdict):
    text = "10,000 simulations of SPPE and SPLE match or beat about 100,000 of SMC-ABC"
    assert judge(text, abc(sppe, sple, wobble))[0] == verdict


def test_between_which_counts_they_match():
    _, evidence = judge(
        "10,000 simulations of SPPE and SPLE match or beat about 100,000 of SMC-ABC",
        abc(0.55, 0.75),
    )
    assert (
        "SPPE has C2ST 0.550 after 10,000 simulations, which SMC-ABC does not come to within"
        " 280,000" in evidence
    )
    assert "which SMC-ABC comes to between 56,000 and 108,000" in evidence
    assert "difference after 108,000" in evidence


def layers(fewer, usual, more):
    """Numbers of layers of a small scale: roles are what counts."""
    by_role = {
        "fewer": panel(1, sppe=fewer, sple=fewer),
        "usual": panel(2, sppe=usual, sple=usual),
        "more": panel(4, sppe=usual, sple=more),
    }
    return {"panels": {"sir": by_role}}


@pytest.mark.parametrize(
    ("fewer", "verdict"),
    [
        (method([0.9, 0.55], seed=1), HOLDS),
        (method([0.55, 0.45], seed=1), NOT),
        (method([0.6, 0.5], 1.0, seed=1), UNTOLD),
        (method([0.75, 0.3], seed=1), PARTLY),
    ],
)
def test_fewer_layers(fewer, verdict):
    found, evidence = judge(
        "5 layers are slower than 8 for SPLE on SIR", layers(fewer, method([0.6, 0.5]), None)
    )
    assert found == verdict
    assert "2 layers 1.0, 1 layers" in evidence


@pytest.mark.parametrize(
    ("usual", "more", "verdict"),
    [
        (method([0.6, 0.5]), method([0.6, 0.5], seed=1), HOLDS),
        (method([0.6, 0.5]), method([0.6, 0.4], seed=1), PARTLY),
        (method([0.6, 0.5], 2.0), method([0.6, 0.5], 2.0, seed=1), UNTOLD),
    ],
)
def test_more_layers(usual, more, verdict):
    """SPPE has the same with more layers, which in the last case must not be told: it gets the
    trials of another order.

    Of two rounds both count.
    """
    result = layers(None, usual, more)
    if verdict == UNTOLD:
        result["panels"]["sir"]["more"]["methods"]["sppe"] = more
    assert judge("10 layers are no better than 8", result)[0] == verdict


def test_more_layers_that_are_better_everywhere():
    better = method([0.6, 0.4], seed=1)
    result = layers(None, method([0.6, 0.5]), better)
    result["panels"]["sir"]["more"]["methods"]["sppe"] = better
    found, evidence = judge("10 layers are no better than 8", result)
    assert found == NOT
    assert "SPLE on SIR 0.050" in evidence


def test_a_lucky_last_round_of_more_layers_is_no_gain():
    """.03 better in the last round alone: .01 over the last three, less than the margin."""
    more = method([0.6, 0.5, 0.5, 0.47], seed=1)
    result = layers(None, method([0.6, 0.5, 0.5, 0.5]), more)
    result["panels"]["sir"]["more"]["methods"]["sppe"] = more
    assert judge("10 layers are no better than 8", result)[0] == HOLDS


# Errors


def test_chance_is_not_taken_for_a_difference():
    """A 95% interval of five differences leaves out 0 by chance in .05 of cases: 400 have .05 +- 4
    x .011.

    A bound of two standard errors would give .116, of one .37, means compared as they are 1.
    """
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(400):
        both = [rng.normal(0.55, 0.015, size=(5, 4)) for _ in range(2)]
        methods = [{"c2st": each.tolist(), "mmd": (0.0 * each).tolist()} for each in both]
        verdicts.append(judge(FIRST, {"panel": panel(sppe=methods[0], sple=methods[1])})[0])
    told = np.mean([verdict != UNTOLD for verdict in verdicts])
    assert 0.006 < told < 0.094


@pytest.mark.parametrize(("num", "quantile"), [(2, 12.706), (5, 2.776), (20, 2.093)])
def test_intervals_have_the_quantile_of_t(num, quantile):
    gap = Gap(1.0, 0.1, num)
    assert gap.high - 1.0 == pytest.approx(0.1 * quantile, rel=1e-3)
    assert 1.0 - gap.low == pytest.approx(0.1 * quantile, rel=1e-3)
    assert [above(Gap(shift * 0.1, 0.1, num)) for shift in (0.99 * quantile, 1.01 * quantile)] == [
        UNTOLD,
        HOLDS,
    ]


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(0.53, HOLDS), (-0.53, HOLDS), (0.5, UNTOLD), (0.0, UNTOLD), (0.26, UNTOLD)],
)
def test_what_is_large_is_beyond_the_bound_with_its_interval(mean, verdict):
    """Errors of .1, intervals of .278 to either side: .5 is told apart from 0 and not from .25."""
    assert large(Gap(mean, 0.1, 5), 0.25) == verdict
    assert large(Gap(mean, 1e-3, 5), 0.25) == (HOLDS if mean else NOT)


def test_the_standard_error_is_that_of_the_mean():
    assert average(SPREAD).se == pytest.approx(np.sqrt(2.5e-4) / np.sqrt(5), rel=1e-9)


# All claims


def test_what_was_not_run_is_said(tmp_path):
    (tmp_path / "table_cost.json").write_text(
        json.dumps({"result": {**costs(), "methods": {**costs()["methods"], "sple": {}}}})
    )
    found = {"claims": item.judged(tmp_path)}
    verdicts = [each["verdict"] for each in found["claims"]]
    assert verdicts.count(MISSING) == len(item.CLAIMS) - 2
    text = item.table(found)
    assert "needs sir-accuracy" in text
    assert len(text.splitlines()) == 2 + len(item.CLAIMS)
    assert f"not yet run: {len(item.CLAIMS) - 2}" in item.paragraph(found)
    marks = item.figure(found).axes[0].lines
    assert [int(mark.get_xdata()[0]) for mark in marks[:3]] == [0, 2, 5]


def test_every_claim_is_judged_by_an_item():
    assert {claim.item for claim in item.CLAIMS} <= set(items.ITEMS)
    assert list(items.ITEMS)[-1] == "claims"


def test_committed_verdicts_are_those_of_the_committed_results():
    path = ROOT / items.RESULTS / "claims.json"
    assert json.loads(path.read_text())["result"]["claims"] == item.judged(path.parent)
