"""Every item at the smallest and at the committed scale, on trials that were never run: judges,
tables, paragraphs and figures.
"""

import copy
import dataclasses
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments import claims, completeness, complexity, items, noise_rmse
from experiments.plain import plain
from experiments.tests import fakes
from experiments.verdicts import MISSING, UNJUDGED

SCALES = {"quick": items.QUICK, "standard": dataclasses.replace(items.STANDARD, num_draws=400)}
UNFAKED = ("outbreak_coverage",)
"""Items without trials of the store, whose own tests build their results."""


def rmse_of(scale):
    """As `noise_rmse.run`, of noise that was never drawn."""
    sizes = noise_rmse.SIZES[: 5 if scale.quick else None]
    rng = np.random.default_rng(0)
    values = {
        kind: np.array([rng.normal(scale=float(num) ** slope, size=(8, 4)) for num in sizes])
        for kind, slope in (("MC", -0.5), ("RQMC", -0.8))
    }
    made = {
        "num_simulations": 200,
        "epsilon": 10.0,
        "dimensions": 9,
        **noise_rmse.summarised(values, sizes),
    }
    problems = dict.fromkeys(noise_rmse.PROBLEMS, made)
    return {"sizes": sizes, "num_pairs": 4, "repeats": 8, "problems": problems}


def run(slug, scale):
    return rmse_of(scale) if slug == "noise_rmse" else items.load(slug).run(scale, items.silent)


@pytest.fixture(scope="module", params=["quick", pytest.param("standard", marks=pytest.mark.slow)])
def scale(request, tmp_path_factory):
    return dataclasses.replace(SCALES[request.param], folder=tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def results(scale):
    """The result of every item, as it is read from its file, which claims read too."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        fakes.replace(patch)
        patch.setattr(
            complexity,
            "step_cost",
            lambda kind, sizes: {"operations": complexity.formula(kind, sizes), "seconds": 1e-3},
        )
        patch.setattr(complexity, "least_seconds", lambda call: 1e-3)
        for slug in items.ITEMS:
            if slug not in UNFAKED:
                text = json.dumps({"result": plain(run(slug, scale))})
                (scale.folder / f"{slug}.json").write_text(text)
                found[slug] = json.loads(text)["result"]
    return found


def test_every_claim_is_judged(results):
    found = results["claims"]["claims"]
    assert [each["claim"] for each in found] == [claim.text for claim in claims.CLAIMS]
    assert not {MISSING, UNJUDGED} & {each["verdict"] for each in found}
    assert all(each["evidence"] and "nan" not in each["evidence"] for each in found)


@pytest.mark.parametrize("slug", [slug for slug in items.ITEMS if slug not in UNFAKED])
def test_tables_and_paragraphs_are_made(results, slug):
    module, result = items.load(slug), results[slug]
    texts = [module.table(result), module.paragraph(result)]
    assert all("nan" not in text.replace("finances", "") and "None" not in text for text in texts)
    assert len({line.count("|") for line in texts[0].splitlines() if line.startswith("|")}) <= 2


@pytest.mark.parametrize(
    "slug",
    [
        "flow_layers",
        "sir_accuracy",
        "ks_heatmaps",
        "abc_accuracy",
        "sir_posteriors_by_round",
        "claims",
    ],
)
def test_figures_are_made(results, slug):
    figure = items.load(slug).figure(results[slug])
    figure.canvas.draw()
    assert figure.axes
    plt.close(figure)


# Completeness


def record(slug, results, scale):
    return {"item": slug, "scale": scale.settings(), "result": copy.deepcopy(results[slug])}


@pytest.mark.parametrize("slug", [slug for slug in items.ITEMS if slug not in UNFAKED])
def test_whole_records_are_complete(results, scale, slug):
    assert completeness.missing(record(slug, results, scale)) == []


def at(value, path):
    for step in path:
        value = value[step]
    return value


DAMAGES = {
    "sir_accuracy": [
        (("panel", "methods"), "sple"),
        (("panel", "methods", "sppe", "mmd"), 0),
        (("panel", "exact"), "lmd"),
    ],
    "sir_accuracy_low_epsilon": [
        (("panels",), "0.1"),
        (("panels", "1", "methods", "sppe", "nlog", 0), -1),
    ],
    "regression_accuracy": [(("panel", "methods"), "sppe-atomic")],
    "log_linear_accuracy": [(("panel", "methods", "sple"), "c2st")],
    "flow_layers": [
        (("panels", "sir"), "more"),
        (("panels",), "sir"),
        (("panels", "sir", "fewer", "methods"), "sple"),
    ],
    "sir_scatter": [(("methods",), "sppe"), (("methods", "sple", "mean", 0), 0), (("rounds",), -1)],
    "sir_posteriors_by_round": [(("methods", "sppe", "draws"), "1")],
    "ks_heatmaps": [
        (("distances",), "0.1"),
        (("distances", "1"), -1),
        (("distances", "10", 3, 1), 0),
        (("floor",), "1"),
    ],
    "table_cost": [(("methods",), "cle"), (("methods", "sppe", "trials"), 0)],
    "abc_accuracy": [
        (("trials",), 0),
        (("trials", 0, "c2st"), 0),
        (("learnt",), "sple"),
        (("learnt", "sppe", "c2st"), 0),
    ],
    "sir_marginals": [(("moments",), "exact"), (("moments", "sppe"), 0)],
    "log_linear_marginals": [(("sd",), "sple"), (("mean", "sple"), 0)],
    "regression_scatter": [(("c2st",), "sppe"), (("mmd", "sppe"), 0)],
    "regression_tables": [
        (("rows",), "1"),
        (("rows", "10"), "rnpe"),
        (("rows", "10", "sple", "low"), 0),
    ],
    "regression_epsilons": [(("posteriors",), "30"), (("posteriors", "3"), "sple")],
    "outbreaks": [
        (("outbreaks",), "covid-clark"),
        (("outbreaks", "influenza", "variants", "released", "sppe", "trials"), 0),
    ],
    "noise_rmse": [
        (("problems",), "sir"),
        (("problems", "sir"), "MC"),
        (("problems", "sir", "RQMC", "rmse"), 0),
    ],
    "complexity": [(("sweeps",), 0), (("sweeps",), -1)],
    "claims": [(("claims",), 3)],
}


@pytest.mark.parametrize("slug", list(completeness.CHECKS))
def test_damaged_records_are_not(results, scale, slug):
    for path, last in DAMAGES[slug]:
        damaged = record(slug, results, scale)
        del at(damaged["result"], path)[last]
        assert completeness.missing(damaged), (path, last)


def numbers(value, path=()):
    """Paths of all numbers."""
    if isinstance(value, (dict, list)):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            if name not in completeness.MAY_BE_NONE:
                yield from numbers(each, (*path, name))
    elif isinstance(value, (int, float)):
        yield path


@pytest.mark.parametrize("slug", [slug for slug in items.ITEMS if slug not in (*UNFAKED, "claims")])
def test_a_number_that_is_none_is_found(results, scale, slug):
    damaged = record(slug, results, scale)
    *path, last = list(numbers(damaged["result"]))[-1]
    at(damaged["result"], path)[last] = None
    assert any(
        str(last) in found and found.endswith("is None") for found in completeness.missing(damaged)
    )


def test_a_claim_that_was_not_judged_is_found(results, scale):
    damaged = record("claims", results, scale)
    damaged["result"]["claims"][0]["verdict"] = MISSING
    assert completeness.missing(damaged) == [f"{claims.CLAIMS[0].text} is not judged yet"]
