"""What the README says of its picture is true, and its lines of code are about the same problem.

Its code is run by test_docs.py.
"""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
MOST_BYTES = 150_000
"""Of the picture: a page on a phone still loads it quickly."""


@pytest.fixture(scope="module")
def picture():
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_release_of_the_code_is_that_of_the_picture(picture):
    model = picture.clinic()
    assert f"model, [{picture.releases(model)[0]}])" in README
    (low, high) = picture.naive_interval(model, 17.3)
    assert f"gives {low:.1f} to {high:.1f} minutes in place of 7.3 to 27.1" in README
    assert re.search(r"^mean  16.9 .* 7.3   27.1 ", README, flags=re.MULTILINE)
    assert not low <= picture.TRUTH <= high


def test_the_number_of_naive_intervals_that_hold_the_truth(picture):
    """Planted: with a tenth of the noise nearly all of them would."""
    model = picture.clinic()
    released = picture.releases(model)
    naive = [picture.naive_interval(model, value) for value in released]
    assert f"Ignoring the noise, {picture.holding(naive)}\nof them contain the truth" in README
    close = picture.TRUTH + 0.1 * (released - picture.TRUTH)
    assert picture.holding([picture.naive_interval(model, value) for value in close]) > 35


@pytest.mark.slow
def test_all_intervals_of_noisewise_do(picture):
    model = picture.clinic()
    wide = [picture.aware_interval(model, value) for value in picture.releases(model)]
    assert "with noisewise, all 40 do" in README
    assert picture.holding(wide) == len(wide) == 40


def test_the_picture_is_there_and_small(picture):
    content = picture.PATH.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) < MOST_BYTES
    assert len(README.splitlines()) <= 120
