"""Judges of bias, formulas and data, with cases of several trials for each verdict."""

import numpy as np
import pytest

from experiments import ks_heatmaps
from experiments.verdicts import HOLDS, NOT, PARTLY, UNJUDGED, UNTOLD
from tests.experiments.judging import SPREAD, judge

# Bias


def distances(**to):
    """KS distances .2 between all methods, but those given, "A-B" -> distance, with five trials around them."""
    methods = ks_heatmaps.METHODS
    made = [[[[0.2] * 3] * 5 for _ in range(a)] for a in range(len(methods))]
    for names, (distance, order) in to.items():
        a, b = sorted((methods.index(name.replace("_", "-")) for name in names.split("__")), reverse=True)
        shift = SPREAD[np.random.default_rng(order).permutation(5)]
        made[a][b] = [[distance + s, 0.0, 0.01] for s in shift]
    return made


CLOSEST = "of SMC-ABC, SPPE and SPLE, SPLE is the closest to DA-MCMC at ε = 10"


@pytest.mark.parametrize(("sppe", "verdict"), [((0.2, 1), HOLDS), ((0.051, 1), UNTOLD), ((0.01, 1), NOT)])
def test_who_is_closest_to_data_augmentation(sppe, verdict):
    """At other budgets another is the closest, which must not count."""
    ten = distances(sple__da_mcmc=(0.05, 0), sppe__da_mcmc=sppe, smc_abc__da_mcmc=(0.3, 2))
    one = distances(smc_abc__da_mcmc=(0.01, 0))
    found, evidence = judge(CLOSEST, {"distances": {"10": ten, "1": one}})
    assert found == verdict
    assert "SMC-ABC at 1" in evidence


FAR = "RNPE is farther off than all others at ε = 1 and 0.1"


@pytest.mark.parametrize(
    ("one", "tenth", "verdict"),
    [(0.4, 0.4, HOLDS), (0.4, 0.1, PARTLY), (0.1, 0.1, NOT), (0.2, 0.2, UNTOLD), (0.4, 0.2, UNTOLD)],
)
def test_who_is_farthest_from_exact_draws(one, tenth, verdict):
    made = {"1": distances(rnpe__exact=(one, 0)), "0.1": distances(rnpe__exact=(tenth, 1)), "10": distances()}
    assert judge(FAR, {"distances": made})[0] == verdict


def rows(shift, wobble=1.0, **others):
    """A coefficient that is `shift` exact sds of 2 off, with an error of .0071 `wobble` sds; the others are right."""

    def row(shift, wobble):
        mean = np.zeros((5, 3))
        mean[:, 1] = 2.0 * (shift + wobble * SPREAD)
        return {"mean": mean.tolist(), "low": mean.tolist(), "high": mean.tolist(), "sd": [[2.0] * 3] * 5}

    exact = {
        **{name: [[0.0] * 3] for name in ("mean", "low", "high")},
        "sd": [[2.0] * 3],
        "error": {"mean": [0.001] * 3},
    }
    slugs = ("da-mcmc", "smc-abc", "sppe", "sple", "gibbs-ss", "rnpe")
    made = {slug: row(0.0, 1.0) for slug in slugs}
    return {"exact": exact, **made, "rnpe": row(shift, wobble), "gibbs-ss": row(shift, wobble), **others}


@pytest.mark.parametrize(
    ("shift", "wobble", "verdict"),
    [
        (0.3, 1.0, HOLDS),
        (-0.3, 1.0, HOLDS),
        (0.2, 1.0, NOT),
        (0.05, 1.0, NOT),
        (0.2, 4.0, UNTOLD),
        (0.3, 40.0, UNTOLD),
    ],
)
@pytest.mark.parametrize("name", ["Gibbs-SS", "RNPE"])
def test_what_is_biased(name, shift, wobble, verdict):
    """Errors are .0071 wobbles: .2 is 28, sure but small; .05 is 7; .2 with .028 may be more than .25; .3 with .28 may be nothing."""
    other = rows(0.0 if verdict == HOLDS else 0.5)
    found, evidence = judge(
        f"{name} is biased at ε = 10", {"rows": {"10": rows(shift, wobble), "1": other, "0.1": other}}
    )
    assert found == verdict
    assert f"β₁ {abs(shift):.2f}" in evidence
    assert " se)" in evidence
    assert ("a smaller bias is there" in evidence) == (shift == 0.2 and wobble == 1.0)


def test_a_method_that_refuses_has_no_bias():
    refusing = rows(0.0, rnpe={"refused": "No."})
    assert judge("RNPE is biased at ε = 10", {"rows": {"10": refusing}})[0] == UNJUDGED


ALIGNED = "these four and Gibbs-SS are closely aligned at ε = 1 and 0.1"


@pytest.mark.parametrize(
    ("one", "tenth", "verdict"),
    [
        (rows(0.0), rows(0.1), HOLDS),
        (rows(0.0), rows(0.4), PARTLY),
        (rows(0.4), rows(0.4), NOT),
        (rows(0.0, 40.0),) * 2 + (UNTOLD,),
    ],
)
def test_what_is_aligned(one, tenth, verdict):
    """At ε = 10 nothing is, which must not count."""
    found, evidence = judge(ALIGNED, {"rows": {"10": rows(2.0), "1": one, "0.1": tenth}})
    assert found == verdict
    assert "RNPE" not in evidence


def test_who_agrees():
    text = "SPPE, SPLE, SMC-ABC and DA-MCMC agree at ε = 10"
    assert judge(text, {"rows": {"10": rows(2.0), "1": rows(0.0, sppe=rows(1.0)["rnpe"])}})[0] == HOLDS
    assert judge(text, {"rows": {"10": rows(0.0, sppe=rows(1.0)["rnpe"])}})[0] == NOT


# Formulas and data


def test_exponents():
    sweep = {"operations_last": 1.9, "seconds_last": 0.3, "formula_last": 1.8}
    sweeps = [{"kind": kind, "size": "units", **sweep} for kind in ("PLE", "PPE")]
    assert judge("the cost is quadratic in the units", {"sweeps": sweeps})[0] == HOLDS
    one = [{**sweeps[0], "operations_last": 1.0}, sweeps[1]]
    assert judge("the cost is quadratic in the units", {"sweeps": one})[0] == PARTLY
    mixed = [{**each, "operations_last": 1.6} for each in sweeps]
    assert judge("the cost is quadratic in the units", {"sweeps": mixed})[0] == PARTLY
    none = [{**each, "size": "dim_s", "formula_last": 1.0} for each in sweeps]
    assert judge("the cost is linear in dim(s)", {"sweeps": none})[0] == NOT


@pytest.mark.parametrize(("exponent", "verdict"), [(1.1, HOLDS), (0.2, NOT)])
def test_the_number_of_records_is_judged_by_simulations(exponent, verdict):
    found = [
        {"kind": kind, "size": "n", "operations_last": None, "seconds_last": value, "formula_last": 1.0}
        for kind, value in (("simulation", exponent), ("noise", 0.01))
    ]
    said, evidence = judge("the cost is linear in n", {"sweeps": found})
    assert said == verdict
    assert "simulations alone" in evidence


def outbreak(low, high):
    exact = {"R0": {"mean": (low + high) / 2, "low": low, "high": high}}
    return {"literature": [1.5, 2.5], "variants": {"released": {"exact": exact}}}


@pytest.mark.parametrize(
    ("guinea", "clark", "verdict"),
    [
        ((1.4, 1.8), (1.0, 2.6), HOLDS),
        ((1.4, 1.8), (2.6, 3.0), PARTLY),
        # a wide interval meets any range: its mean is outside
        ((0.1, 9.0), (0.1, 9.0), PARTLY),
        ((2.6, 3.0), (2.7, 3.0), NOT),
    ],
)
def test_the_literature_excepts_influenza(guinea, clark, verdict):
    found = {"influenza": outbreak(3.0, 5.0), "ebola-guinea": outbreak(*guinea), "covid-clark": outbreak(*clark)}
    assert judge("R0 of Ebola and COVID-19 agrees with the literature", {"outbreaks": found})[0] == verdict


NETS = {"RQMC": {"slope": -0.8}, "MC": {"slope": -0.5}, "paper_slope": False, "gain": 0.3}


@pytest.mark.parametrize(
    ("sir", "other", "verdict"),
    [
        ({"paper_slope": True}, {"paper_slope": True}, HOLDS),
        ({"paper_slope": True}, {}, PARTLY),
        ({}, {}, NOT),
    ],
)
def test_nets(sir, other, verdict):
    problems = {"sir": {**NETS, **sir}, "linear_regression": {**NETS, **other}}
    assert judge("the RMSE of nets falls as 1/M", {"problems": problems})[0] == verdict


@pytest.mark.parametrize(
    ("first", "second", "verdict"), [(True, True, HOLDS), (True, False, PARTLY), (False, False, NOT)]
)
def test_the_proposition(first, second, verdict):
    points = [{"holds": held, "audit": 0.9, "paper": 1.0} for held in (first, second)]
    found = judge(
        "a released curve is n L / m differentially private", {"rows": points[:1], "sweeps": {"m": points[1:]}}
    )
    assert found[0] == verdict
