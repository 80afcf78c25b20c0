"""What is committed: complete cells, and a page that says what the files say."""

import json

import pytest

from benchmarks import headline, history, memory, page
from benchmarks.contenders import CONTENDERS
from benchmarks.contest import stored
from benchmarks.timing import in_turns, ratios, summary

CELLS = stored()


@pytest.mark.parametrize(
    "cell", CELLS, ids=lambda cell: f"{cell['contender']}-{cell['problem']}-{cell['seed']}"
)
def test_a_cell_is_complete(cell):
    assert cell["contender"] in CONTENDERS
    assert cell["problem"] in CONTENDERS[cell["contender"]].problems
    assert cell["ended"] in {"limit", "budget", "finished"}
    assert set(cell["versions"]) == set(CONTENDERS[cell["contender"]].packages)
    seconds = [stage["seconds"] for stage in cell["stages"]]
    assert seconds == sorted(seconds)
    assert all(0.0 <= stage["c2st"] <= 1.0 for stage in cell["stages"])
    assert cell["ended"] == "limit" or cell["stages"]


def test_the_page_says_what_the_files_say():
    """No number is typed by hand; `python -m benchmarks.page` writes it."""
    assert (page.DOCS / "benchmarks.md").read_text() == page.page()


def test_reasons_are_given_for_what_is_missed_alone():
    row = {"asked": "", "text": "2 times"}
    refused = row | {"target": "CLE against sbi NPE-C, SIR", "met": False}
    slow = row | {"target": "CLE against sbi NPE-C, the regression: seconds to 0.60", "met": False}
    peak = row | {"target": "its peak over a tiny inference, as it is", "met": False}
    bound = row | {
        "target": "SPLE against sbi NPE-C, SIR: seconds to 0.60",
        "text": "> 8 times",
        "met": None,
    }
    assert headline.why([each | {"met": True} for each in (refused, slow, peak, bound)]) == ""
    assert headline.why([refused]) == f"Why targets are missed. {headline.REFUSED}"
    assert (
        headline.why([peak, bound]) == f"Why targets are missed. {headline.MEMORY} {headline.BOUND}"
    )
    assert headline.profile() in headline.why([slow])
    assert "seconds of CLE" in headline.profile()


def test_its_pictures_are_there():
    for name, _ in page.figures():
        assert (page.DOCS / page.PICTURES / f"{name}.png").stat().st_size > 5000


def test_a_result_is_kept_with_its_circumstances_and_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "yardstick", lambda: 50.0)
    for value in (1.0, 1.05, 2.0):
        history.keep("part", {"a": summary([value] * 3), "b": [{"c": 1}]}, tmp_path)
    record = json.loads((tmp_path / "part.json").read_text())
    assert record["result"]["a"]["median"] == 2.0
    assert {"date", "processor", "versions", "noisewise"} <= set(record)
    lines = list(history.compared(tmp_path / "history.jsonl"))
    assert [line for line in lines if "a:" in line] == ["  a: 1.05 to 2, 1.90 times"]


def test_cells_that_were_run_again_are_compared(tmp_path):
    path = tmp_path / "cells.jsonl"
    place = {
        "contender": "sppe",
        "problem": "sir",
        "seed": 1,
        "threads": 2,
        "large": False,
        "ended": "budget",
    }
    runs = [
        place | {"noisewise": "old", "seconds": 40.0, "stages": [{"c2st": 0.52}]},
        place | {"noisewise": "new", "seconds": 30.0, "stages": [{"c2st": 0.51}]},
        place | {"seed": 2, "noisewise": "new", "seconds": 30.0, "stages": []},
    ]
    path.write_text("\n".join(map(json.dumps, runs)) + "\n")
    (line,) = history.cells_compared(path)
    assert line == "sppe, sir, seed 1, 2 threads: old to new, 40 to 30 s, C2ST 0.520 to 0.510"


def a_run(values, peak=900.0):
    rows = [{"simulations": 1, "seconds": 1.0, "MB": value} for value in values]
    about = {
        "baseline MB": 500.0,
        "peak MB": 1200.0,
        "peak once compiled MB": peak,
        "arrays MB": 200.0,
    }
    return about | {"copied for training MB": 100.0, "rounds": rows}


def test_memory_is_judged_by_both_runs():
    flat, growing = [700.0] * 20, [700.0 + 5.0 * i for i in range(20)]
    wobbling = [
        700.0 + 60.0 * (i % 2) for i in range(20)
    ]  # 8.6% from round 5 to 20, nothing by a line
    found = memory.judged({"resident": a_run(flat), "in use": a_run(flat)})
    assert found["holds"] == {"growth": True, "peak": False, "peak without compilers": True}
    assert found["peaks, in arrays"] == {"peak": 3.5, "peak without compilers": 2.0}
    assert not memory.judged({"resident": a_run(flat), "in use": a_run(growing)})["holds"]["growth"]
    assert not memory.judged({"resident": a_run(wobbling), "in use": a_run(flat)})["holds"][
        "growth"
    ]
    higher = memory.judged({"resident": a_run(flat), "in use": a_run(flat, peak=1101.0)})
    assert not higher["holds"]["peak without compilers"]


def test_timings_are_in_turns():
    order = []
    seconds = in_turns({name: lambda name=name: order.append(name) for name in "ab"}, 3)
    assert order == ["a", "b"] * 4
    assert [len(values) for values in seconds.values()] == [3, 3]
    assert ratios([2.0, 4.0, 9.0], [1.0, 1.0, 3.0]) == {
        "median": 3.0,
        "low": 2.0,
        "high": 4.0,
        "repetitions": 3,
    }
