import json

import numpy as np
import pytest

from experiments import claims as item
from experiments import items, ks_heatmaps
from tests.cli.conftest import ROOT


def judge(text, result):
    (claim,) = [claim for claim in item.CLAIMS if claim.text == text]
    return claim.judge(result)


def panel(**c2st):
    """C2ST of rounds by method, one trial; MMD^2 falls below .1 where C2ST falls below .7."""
    methods = {slug: {"c2st": [row], "mmd": [[0.05 if v < 0.7 else 0.5 for v in row]]} for slug, row in c2st.items()}
    return {"methods": methods}


def trial(reached, simulations, minutes):
    return {
        "reached": reached,
        "simulations": simulations,
        "simulation_minutes": {"leap": 0.1, "gillespie": minutes},
        "training_minutes": 1.0,
    }


COSTS = {
    "methods": {
        "smc-abc": {"trials": [trial(True, 80_000, 19.0)]},
        "sppe": {"trials": [trial(True, 2000, 1.0)]},
        "sple": {"trials": [trial(True, 4000, 14.0)]},
    }
}


def test_how_many_times_faster():
    verdict, evidence = judge("SPPE reaches MMD < 0.1 on SIR 6 times faster than SMC-ABC", COSTS)
    assert verdict == item.HOLDS
    assert "10.0 times faster" in evidence
    assert "40.0 times fewer" in evidence
    assert judge("SPLE reaches MMD < 0.1 on SIR 2 times faster than SMC-ABC", COSTS)[0] == item.PARTLY
    short = {"methods": {**COSTS["methods"], "smc-abc": {"trials": [trial(False, 80_000, 19.0)]}}}
    assert judge("SPPE reaches MMD < 0.1 on SIR 6 times faster than SMC-ABC", short)[1].startswith("at least")
    never = {"methods": {**COSTS["methods"], "sppe": {"trials": [trial(False, 2000, 1.0)]}}}
    assert judge("SPPE reaches MMD < 0.1 on SIR 6 times faster than SMC-ABC", never)[0] == item.NOT


def test_who_converges_first():
    shown = {"panel": panel(sppe=[0.6, 0.55, 0.5], sple=[0.9, 0.6, 0.5])}
    assert judge("SPPE converges faster than SPLE on SIR", shown)[0] == item.HOLDS
    verdict, evidence = judge("SPLE converges faster than SPPE on the regression", shown)
    assert verdict == item.NOT
    assert "SPLE 2.0, SPPE 1.0" in evidence
    mixed = {"panel": panel(sppe=[0.69, 0.69, 0.69], sple=[0.71, 0.5, 0.5])}
    assert judge("SPPE converges faster than SPLE on SIR", mixed)[0] == item.PARTLY
    nowhere = {"panel": panel(sppe=[0.9, 0.9, 0.9], sple=[0.8, 0.8, 0.8])}
    assert "SPPE 4.0, SPLE 4.0" in judge("SPPE converges faster than SPLE on SIR", nowhere)[1]


def test_who_is_closest_to_data_augmentation():
    distances = np.full((len(ks_heatmaps.METHODS),) * 2 + (3,), 0.2)
    place = ks_heatmaps.METHODS.index
    distances[place("sple"), place("da-mcmc")] = 0.05
    text = "of SMC-ABC, SPPE and SPLE, SPLE is the closest to DA-MCMC"
    other = distances.copy()
    other[place("sppe"), place("da-mcmc")] = 0.01
    assert judge(text, {"distances": {"10": distances.tolist(), "1": distances.tolist()}})[0] == item.HOLDS
    assert judge(text, {"distances": {"10": distances.tolist(), "1": other.tolist()}})[0] == item.PARTLY
    assert judge(text, {"distances": {"10": other.tolist()}})[0] == item.NOT


@pytest.mark.parametrize(("shift", "verdict"), [(0.2, item.NOT), (0.3, item.HOLDS), (-0.3, item.HOLDS)])
def test_what_is_biased(shift, verdict):
    row = {"sd": [[2.0] * 3], "low": [[-4.0] * 3], "high": [[4.0] * 3]}
    rows = {"exact": {"mean": [[0.0] * 3], **row}, "rnpe": {"mean": [[0.0, 0.0, 2.0 * shift]], **row}}
    found, evidence = judge("RNPE is biased", {"rows": {"10": rows}})
    assert found == verdict
    assert f"{abs(shift):.2f} at ε = 10" in evidence


def test_rounds_until_stable():
    early, late = [0.8, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5], [0.9, 0.8, 0.8, 0.7, 0.5, 0.5, 0.5]
    text = "on the log-linear model both methods are stable by round 3"
    assert judge(text, {"panel": panel(sppe=early, sple=early)})[0] == item.HOLDS
    assert judge(text, {"panel": panel(sppe=early, sple=late)})[0] == item.PARTLY
    text = "SPLE needs about 5 rounds on SIR at ε = 1 and 0.1"
    shown = {"panels": {"1": panel(sple=late), "0.1": panel(sple=late)}}
    assert judge(text, shown) == (
        item.HOLDS,
        "SPLE's C2ST stays within .02 of its last value from round 5 at ε = 1 and from round 5 at ε = 0.1",
    )
    assert judge(text, {"panels": {"1": panel(sple=early)}})[0] == item.NOT


def test_simulations_that_match():
    text = "10,000 simulations of SPPE and SPLE match 100,000 of SMC-ABC"
    abc = [{"num_simulations": [1e4, 5e4, 2e5], "c2st": [0.9, 0.7, 0.6]}]
    learnt = {"sppe": {"c2st": 0.5, "num_simulations": 1e4}, "sple": {"c2st": 0.6, "num_simulations": 1e4}}
    verdict, evidence = judge(text, {"trials": abc, "learnt": learnt})
    assert verdict == item.HOLDS
    assert "not by SMC-ABC within 200,000" in evidence
    assert "by SMC-ABC after 200,000" in evidence
    worse = {**learnt, "sple": {"c2st": 0.8, "num_simulations": 1e4}}
    assert judge(text, {"trials": abc, "learnt": worse})[0] == item.PARTLY


def test_layers():
    fast, slow = [0.6, 0.5], [0.9, 0.55]
    layers = {
        "5": panel(sppe=slow, sple=slow),
        "8": panel(sppe=fast, sple=fast),
        "10": panel(sppe=fast, sple=[0.5, 0.4]),
    }
    result = {"panels": {"sir": layers}}
    assert judge("5 layers are slower than 8 for SPLE on SIR", result)[0] == item.HOLDS
    verdict, evidence = judge("10 layers are no better than 8", result)
    assert verdict == item.PARTLY
    assert "SPLE on sir 0.400 against 0.500" in evidence


def test_exponents():
    sweep = {"operations_last": 1.9, "seconds_last": 0.3}
    sweeps = [{"kind": kind, "size": "units", **sweep} for kind in ("PLE", "PPE")]
    assert judge("the cost is quadratic in the units", {"sweeps": sweeps})[0] == item.HOLDS
    clocked = {"operations_last": None, "seconds_last": 1.1}
    sweeps = [
        {"kind": "simulation", "size": "n", **clocked},
        {"kind": "noise", "size": "n", **clocked, "seconds_last": 0.1},
    ]
    assert judge("the cost is linear in n", {"sweeps": sweeps})[0] == item.PARTLY


def outbreak(low, high):
    exact = {"R0": {"mean": (low + high) / 2, "low": low, "high": high}}
    return {"literature": [1.5, 2.5], "variants": {"released": {"exact": exact}}}


def test_the_literature_excepts_influenza():
    text = "R0 of Ebola and COVID-19 agrees with the literature"
    found = {"influenza": outbreak(3.0, 5.0), "ebola-guinea": outbreak(1.4, 1.8)}
    assert judge(text, {"outbreaks": found})[0] == item.HOLDS
    assert judge(text, {"outbreaks": {**found, "covid-clark": outbreak(2.6, 3.0)}})[0] == item.PARTLY


def test_nets_and_the_proposition():
    made = {"RQMC": {"slope": -0.8}, "MC": {"slope": -0.5}, "paper_slope": False, "steeper": True, "smaller": True}
    assert judge("the RMSE of nets falls as 1/M", {"problems": {"sir": made}})[0] == item.PARTLY
    assert judge("the RMSE of nets falls as 1/M", {"problems": {"sir": {**made, "steeper": False}}})[0] == item.NOT
    points = [{"holds": True, "audit": 0.9, "paper": 1.0}]
    text = "a released curve is n L / m differentially private"
    assert judge(text, {"rows": points, "sweeps": {"m": points}})[0] == item.HOLDS
    assert judge(text, {"rows": [{**points[0], "holds": False}], "sweeps": {}})[0] == item.NOT


def test_what_was_not_run_is_said(tmp_path):
    (tmp_path / "table_cost.json").write_text(json.dumps({"result": COSTS}))
    found = {"claims": item.judged(tmp_path)}
    verdicts = [each["verdict"] for each in found["claims"]]
    assert verdicts.count(item.MISSING) == len(item.CLAIMS) - 2
    text = item.table(found)
    assert "needs sir-accuracy" in text
    assert len(text.splitlines()) == 2 + len(item.CLAIMS)
    assert f"not yet run: {len(item.CLAIMS) - 2}" in item.paragraph(found)
    marks = item.figure(found).axes[0].lines
    assert [int(mark.get_xdata()[0]) for mark in marks[:3]] == [0, 1, 3]


def test_every_claim_is_judged_by_an_item():
    assert {claim.item for claim in item.CLAIMS} <= set(items.ITEMS)
    assert list(items.ITEMS)[-1] == "claims"


def test_committed_verdicts_are_those_of_the_committed_results():
    path = ROOT / items.RESULTS / "claims.json"
    if not path.exists():
        pytest.skip("no verdicts are committed yet")
    assert json.loads(path.read_text())["result"]["claims"] == item.judged(path.parent)
