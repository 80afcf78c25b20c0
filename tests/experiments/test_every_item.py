"""Every item at the smallest and at the committed scale, on trials that were never run: judges, tables, paragraphs and figures."""

import dataclasses
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments import claims, complexity, items, noise_rmse
from experiments.plain import plain
from experiments.verdicts import MISSING, UNJUDGED
from tests.experiments import fakes

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
    made = {"num_simulations": 200, "epsilon": 10.0, "dimensions": 9, **noise_rmse.summarised(values, sizes)}
    problems = dict.fromkeys(noise_rmse.PROBLEMS, made)
    return {"sizes": sizes, "num_pairs": 4, "repeats": 8, "problems": problems}


def run(slug, scale):
    return rmse_of(scale) if slug == "noise_rmse" else items.load(slug).run(scale, items.silent)


@pytest.fixture(scope="module", params=list(SCALES))
def results(request, tmp_path_factory):
    """The result of every item, as it is read from its file, which claims read too."""
    scale = dataclasses.replace(SCALES[request.param], folder=tmp_path_factory.mktemp("results"))
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
    "slug", ["flow_layers", "sir_accuracy", "ks_heatmaps", "abc_accuracy", "sir_scatter", "claims"]
)
def test_figures_are_made(results, slug):
    figure = items.load(slug).figure(results[slug])
    figure.canvas.draw()
    assert figure.axes
    plt.close(figure)
