"""Entries of the public registry: YAML that a YAML parser reads back."""

import pytest

import noisewise as nw
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.readers import registry_entry

yaml = pytest.importorskip("yaml")

NOISE = nw.mechanisms.DiscreteLaplace(
    scale=2.0, sensitivity=1.0, neighbours=nw.AddRemoveOne(unit="visit", max_contributions=3)
)


def read(release, **given):
    return yaml.safe_load(registry_entry(release, **given))


def test_what_the_release_says_is_filled_in():
    found = read(
        nw.Release([3.0], NOISE, description="stays: by day # 1"),
        name='The "Stays"',
        curators=["A: b", "C"],
        authors=["- D"],
        publication_date="2026-01-31",
    )
    assert found["url_slug"] == "the-stays"
    entry = found["deployment"]
    assert entry["basic"]["name"] == 'The "Stays"'
    assert entry["basic"]["description"] == "stays: by day # 1"
    assert entry["basic"]["publication_date"] == "2026-01-31"
    assert entry["basic"]["data_curators"] == [
        {"data_curator_name": "A: b"},
        {"data_curator_name": "C"},
    ]
    assert entry["dp_variant"]["variant_name"] == "Pure DP"
    assert entry["privacy_loss"]["privacy_unit"] == "visit"
    assert "at most 3" in entry["privacy_loss"]["privacy_unit_details"]
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5}
    assert entry["privacy_loss"]["privacy_parameters_details"] == "Follows from the noise."
    assert "scale 2" in entry["implementation"]["mechanisms"]
    assert entry["administrative"] == {"status": "Draft", "registry_authors": ["- D"]}


def test_numbers_stay_numbers():
    stated = nw.ApproximateDP(1.0, 1e-10)
    found = read(nw.Release([3.0], nw.mechanisms.Laplace(scale=2.0), guarantee=stated))
    loss = found["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-10}
    assert loss["privacy_parameters_details"] == "Stated by the publisher."


def test_gaussian_guarantees_become_concentrated_ones():
    noise = nw.mechanisms.Gaussian(scale=2.0, sensitivity=1.0)
    found = read(nw.Release([3.0], noise))["deployment"]
    assert found["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"rho": 0.125}
    assert "GaussianDP(mu=0.5)" in found["privacy_loss"]["privacy_parameters_details"]


def test_releases_without_a_guarantee_are_refused():
    with pytest.raises(MissingCapabilityError, match="sensitivity is not known"):
        registry_entry(nw.Release([3.0], nw.mechanisms.Laplace(scale=2.0)))
    with pytest.raises(MissingCapabilityError, match="NoGuarantee"):
        registry_entry(nw.Release([3.0], nw.mechanisms.Rounded(base=3)))


@pytest.mark.parametrize(
    "given", [{"name": "a\nb: c"}, {"publication_date": "today"}, {"authors": ["\x1b[2J"]}]
)
def test_texts_that_are_no_lines_are_refused(given):
    with pytest.raises(InvalidInputError):
        registry_entry(nw.Release([3.0], NOISE), **given)
