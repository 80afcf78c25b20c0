import dataclasses
import hashlib
import json

import jax
import numpy as np
import pytest

import noisewise as nw
from experiments import items, synthetic_trials
from experiments import outbreak_coverage as item
from experiments.items import QUICK


def setting(num):
    truth = np.linspace(1.0, 3.0, 20)
    found = {"mean": truth.tolist(), "low": (truth * 0.5).tolist(), "high": (truth * 2.0).tolist()}
    found["exact"] = 19
    found["high"][num:] = (truth * 0.9).tolist()[num:]
    cells = {slug: {**found, **item.covered(found, truth)} for slug in ("infer", "ppe", "ple")}
    return {"outbreak": "influenza", "epsilon": 1.0, "truth": truth.tolist(), "methods": cells}


@pytest.fixture
def result():
    return {
        "num_outbreaks": 20,
        "level": 0.95,
        "least": 17,
        "settings": {"good": setting(17), "bad": setting(16)},
    }


def test_intervals_and_coverage():
    rng = np.random.default_rng(0)
    made = item.intervals([rng.normal(2.0, 0.1, 100_000), rng.normal(3.0, 0.1, 100_000)])
    # the standard error of a 2.5% quantile of 1e5 normal draws of sd .1 is .0008
    np.testing.assert_allclose(made["low"], [1.804, 2.804], atol=0.004)
    found = item.covered(made, np.array([2.1, 3.3]))
    assert found["covers"] == [True, False]
    assert found["num"] == 1


def test_synthetic_outbreaks_show_one():
    model = nw.problems.outbreak("influenza").model
    theta, observed = item.synthetic(jax.random.key(0), model, 5)
    assert theta.shape == (5, 2)
    # padding 100 of 763 + 200: a tenth of the boys makes 100 (76.3 + 100) / 963; nobody 10.4 + 3 *
    # 3.05
    assert item.shows_outbreak(model) == pytest.approx(
        100 * 100 / 963 + 3 * np.sqrt(100 * (100 / 963) * (863 / 963))
    )
    assert (observed.max(axis=1) >= item.shows_outbreak(model)).all()


def test_too_few_outbreaks_are_an_error(monkeypatch):
    monkeypatch.setattr(item, "shows_outbreak", lambda _: np.inf)
    with pytest.raises(
        nw.errors.SimulationError,
        match="Of 2,000 simulated releases only 0 show an outbreak, of 2 wanted",
    ):
        item.synthetic(jax.random.key(0), nw.problems.outbreak("influenza").model, 2)


def test_what_a_method_found_is_kept_for_the_same_settings_alone(tmp_path):
    scale, calls = dataclasses.replace(QUICK, cache=tmp_path), []

    def make():
        calls.append(1)
        return {"mean": np.array([1.0 / 3.0]), "exact": np.int64(1)}

    scale.store.mkdir(parents=True)
    seen = np.arange(6.0).reshape(2, 3)
    first = item._kept(0, "infer", scale, seen, make)
    assert first == item._kept(0, "infer", scale, seen.astype(int), make)
    origin = first.pop("origin")
    assert first == {"mean": [0.333333], "exact": 1}
    assert (origin["source"], origin["hardware"]) == (items.source_hash(), items.hardware())
    assert origin["seconds"] >= 0.0
    item._kept(0, "infer", dataclasses.replace(scale, num_draws=7), seen, make)
    item._kept(1, "infer", scale, seen, make)
    assert len(calls) == 3


def test_what_was_found_from_other_releases_is_not_taken(tmp_path):
    """Stored before releases had digests it is: nothing says that they were others."""
    scale, seen = dataclasses.replace(QUICK, cache=tmp_path), np.arange(6.0).reshape(2, 3)
    scale.store.mkdir(parents=True)
    item._kept(0, "infer", scale, seen, lambda: {"mean": [1.0]})
    assert item._kept(0, "infer", scale, seen + 1.0, lambda: {"mean": [2.0]})["mean"] == [2.0]
    (path,) = scale.store.glob("coverage-*")
    stored = json.loads(path.read_text())
    assert (
        stored["found"]["origin"]["observed"] == hashlib.sha256((seen + 1.0).tobytes()).hexdigest()
    )
    del stored["found"]["origin"]
    path.write_text(json.dumps(stored))
    assert item._kept(0, "infer", scale, seen, lambda: {"mean": [3.0]}) == {"mean": [2.0]}


def test_why_the_work_ended_is_kept():
    model, observed = nw.problems.outbreak("influenza").model, np.full((2, 14), 50.0)
    reports = [
        nw.posteriors.Report.stated("sple", stopped=why, exact=True)
        for why in ("finished", "out of time")
    ]
    draws = np.random.default_rng(0).normal(size=(100, 2))
    found = item._intervals(
        lambda *_: ((draws, report) for report in reports), None, model, observed
    )
    assert (found["stopped"], found["exact"]) == (["finished", "out of time"], 2)


def test_releases_are_drawn_once_and_every_trial_has_its_seed(tmp_path):
    scale = dataclasses.replace(QUICK, cache=tmp_path, num_draws=100)
    model, theta, observed = item.outbreaks(2, scale)
    again = item.outbreaks(2, scale)
    np.testing.assert_array_equal(observed, again[2])
    assert (theta.shape, observed.shape) == ((3, 2), (3, 10))
    other = item.outbreaks(2, dataclasses.replace(scale, seed=2))
    assert not np.array_equal(observed, other[2])
    assert len({synthetic_trials.cell(2, i, "sppe", scale).seed for i in range(20)}) == 20
    found = synthetic_trials.get(2, 0, "smc-abc", model, observed[0], scale)
    same = synthetic_trials.get(2, 0, "smc-abc", model, observed[0], scale)
    np.testing.assert_array_equal(found.draws, same.draws)


def test_intervals_that_are_too_narrow_fail():
    """A planted bug: intervals of a tenth of their width do not cover."""
    rng = np.random.default_rng(1)
    truth = rng.normal(3.0, 0.3, 20)
    centres = truth + rng.normal(0.0, 0.3, 20)
    good, narrow = (
        item.covered(item.intervals([rng.normal(c, s, 4000) for c in centres]), truth)["num"]
        for s in (0.3, 0.03)
    )
    assert good >= item.LEAST
    assert narrow < item.LEAST


def test_what_is_asked_of_fewer():
    assert [item.needed(n) for n in (20, 3, 10)] == [17, 2, 8]


def test_table_and_paragraph_hold_the_numbers(result):
    lines = item.table(result).splitlines()
    # Clopper and Pearson of 33 of 40: quantiles .025 of Beta(33, 8) and .975 of Beta(34, 7)
    assert lines[2] == "| nw.infer | 33 of 40 | 0.82 (0.67, 0.93) | 7 | 0 |"
    assert "| good | nw.infer | 17 | yes | 3 | 0 |" in lines[8]
    assert "| bad | nw.infer | 16 | no | 4 | 0 |" in lines[11]
    text = item.paragraph(result)
    assert "nw.infer 33 of 40, 0.82 (0.67, 0.93)" in text
    assert "3 of 6 cells do, not nw.infer at bad (16)" in text
    assert "38 of its 40 posteriors are exact" in text
    # P(Bin(20, p) >= 17)
    assert (
        "coverage of 0.95 reach with probability 0.984, but those with 0.85 with 0.648 too" in text
    )
    assert "not independent tests" in text
    assert "SPLE was not tried" in text


def test_misses_on_one_side_are_told(result):
    """All intervals that miss end below the truth; 7 of 7 have probability 2 / 2^7."""
    assert (
        "misses 7, 7 with the truth above and 0 with it below the interval: all on one side"
        in item.paragraph(result)
    )
    assert "probability 0.016" in item.paragraph(result)
    assert "(PPE 7 and PLE 7)" in item.paragraph(result)
    cell = result["settings"]["bad"]["methods"]["infer"]
    cell["low"][-1], cell["high"][-1] = 4.0, 5.0
    assert item.pooled(result)["infer"] == {"tried": 40, "num": 33, "above": 6, "below": 1}
    assert "all on one side" not in item.paragraph(result)


def test_what_stored_intervals_do_not_say_is_told(result):
    text = item.paragraph(result)
    assert "intervals of nw.infer, PPE and PLE carry no hash of the sources" in text
    assert "Chains of PLE are cut at 2 minutes; how many were is not known" in text
    for setting in result["settings"].values():
        for cell in setting["methods"].values():
            cell.update(origin={}, stopped=["finished"] * 19 + ["out of time"])
    text = item.paragraph(result)
    assert "carry no hash" not in text
    assert "Chains of PLE are cut at 2 minutes; 2 of 40 were" in text


def test_the_figure_orders_outbreaks_by_their_truth(result):
    figure = item.figure(result)
    assert [ax.get_title() for ax in figure.axes] == ["good", "bad"]
    (marks,) = figure.axes[0].lines
    assert np.all(np.diff(marks.get_ydata()) > 0)
