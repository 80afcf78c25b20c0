"""The registry, the runner and what it writes, on a toy item."""

import dataclasses
import json

import pytest

from experiments import items
from noisewise.errors import InvalidInputError


@pytest.fixture
def scale(monkeypatch, tmp_path):
    monkeypatch.setattr(items, "ITEMS", {"toy_item": "experiments.tests.toy_item"})
    return dataclasses.replace(items.QUICK, trials=2, seed=7, folder=tmp_path / "results")


def test_an_item_is_written_whole_and_can_be_made_anew(scale):
    said = []
    record = items.reproduce("toy-item", scale, said.append)
    stored = json.loads((scale.folder / "toy_item.json").read_text())
    assert stored == record
    assert said == ["dividing"]
    assert stored["result"] == {
        "third": 0.333333,
        "draws": [[1.0, 2.0], [3.0, None]],
        "seeds": [7, 8],
    }
    assert items.page(stored) == (scale.folder / "toy_item.md").read_text()
    assert "| 0.5 | 0.333333 |" in items.page(stored)
    assert (scale.folder / "toy_item.png").read_bytes().startswith(b"\x89PNG")
    assert (scale.folder / "toy_item.pdf").read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in scale.folder.iterdir()) == [
        f"toy_item.{e}" for e in ("json", "md", "pdf", "png")
    ]


def test_a_record_tells_how_it_came_about(scale):
    record = items.reproduce("toy_item", scale)
    assert {
        "item",
        "scale",
        "seed",
        "versions",
        "hardware",
        "source",
        "trials",
        "seconds",
        "result",
    } == set(record)
    assert record["seed"] == 7
    assert set(record["versions"]) == {"noisewise", "jax", "numpy", "python"}
    assert "CPU core" in record["hardware"]
    assert "folder" not in record["scale"]
    assert "--quick" in items.made_by(record)
    assert record["source"] == items.source_hash()


def test_the_same_result_gives_the_same_bytes(scale):
    record = items.reproduce("toy_item", scale)
    before = (scale.folder / "toy_item.png").read_bytes()
    items.write(record, scale.folder)
    assert (scale.folder / "toy_item.png").read_bytes() == before


def test_results_of_other_items_are_found_or_asked_for(scale):
    with pytest.raises(InvalidInputError, match="noisewise reproduce toy-item first"):
        items.result(scale, "toy_item")
    items.reproduce("toy_item", scale)
    assert items.result(scale, "toy_item")["third"] == 0.333333
    assert list(items.records(scale.folder)) == ["toy_item"]


def test_scales():
    assert items.STANDARD.seeds == (1, 2, 3, 4, 5)
    assert len(items.FULL.seeds) == 20
    assert (items.STANDARD.rounds, items.STANDARD.num_simulations) == (10, 1000)
    assert (items.STANDARD.layers, items.STANDARD.hidden) == (8, 50)
    assert items.QUICK.quick
    assert not items.FULL.quick


@pytest.mark.parametrize("slug", list(items.ITEMS))
def test_items_say_what_they_are(slug):
    module = items.load(slug)
    assert module.__name__ == f"experiments.{slug}"
    assert all(isinstance(getattr(module, name), str) for name in ("TITLE", "PAPER", "QUESTION"))
    assert module.QUESTION.endswith((".", "?"))
    assert all(callable(getattr(module, name)) for name in ("run", "table", "figure", "paragraph"))
