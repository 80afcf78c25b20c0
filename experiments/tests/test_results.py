"""Committed results: complete, and all that is shown of them can be made anew from the JSON."""

import json
import math

import pytest

from experiments import completeness, index, items
from noisewise._core.json_files import MAX_BYTES, read_json
from tests.cli.conftest import ROOT

RESULTS = ROOT / items.RESULTS
STORED = list(items.ITEMS)
_LARGEST_PICTURE = 600_000


def record_of(slug):
    return json.loads((RESULTS / f"{slug}.json").read_text())


def test_nothing_else_lies_there():
    expected = {f"{slug}.{kind}" for slug in STORED for kind in ("json", "md", "png", "pdf")}
    found = {path.name for path in RESULTS.glob("*")}
    assert found <= expected
    assert {name for name in expected if not name.endswith(".pdf")} <= found


@pytest.mark.parametrize("slug", STORED)
def test_a_result_is_complete(slug):
    record = read_json(RESULTS / f"{slug}.json", "result")
    assert set(record) == {
        "item",
        "scale",
        "seed",
        "versions",
        "hardware",
        "source",
        "trials",
        "seconds",
        "result",
    }
    assert record["item"] == slug
    assert record["scale"]["name"] in ("standard", "full")
    assert record["scale"]["trials"] >= 5
    assert (record["scale"]["rounds"], record["scale"]["num_simulations"]) == (10, 1000)
    assert (record["scale"]["layers"], record["scale"]["hidden"]) == (8, 50)
    assert record["result"]
    assert (
        (record["trials"]["number"] > 0)
        == bool(record["trials"]["sources"])
        == bool(record["trials"]["hardware"])
    )
    assert 0.0 < record["seconds"] < math.inf
    assert (RESULTS / f"{slug}.json").stat().st_size < MAX_BYTES // 8


@pytest.mark.parametrize("slug", STORED)
def test_nothing_is_missing_in_a_result(slug):
    assert completeness.missing(record_of(slug)) == []


@pytest.mark.parametrize("slug", STORED)
def test_the_page_is_what_the_numbers_say(slug):
    assert (RESULTS / f"{slug}.md").read_text() == items.page(record_of(slug))


@pytest.mark.parametrize("slug", STORED)
def test_the_picture_is_there_and_modest(slug):
    content = (RESULTS / f"{slug}.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) < _LARGEST_PICTURE


def test_the_pages_that_list_them_are_what_the_numbers_say():
    records = {slug: record_of(slug) for slug in STORED}
    assert (ROOT / index.PAGE).read_text() == index.page(records)
    assert (ROOT / index.README).read_text() == index.readme(records)
