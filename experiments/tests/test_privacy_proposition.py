import equinox as eqx
import numpy as np
import pytest

from experiments import privacy_proposition as item
from noisewise.mechanisms import PaddedBinomial


class HalfPadded(PaddedBinomial):
    """A planted bug: the probabilities have half of the padding that the guarantee counts."""

    def _log_odds(self, s):
        return PaddedBinomial._log_odds(
            eqx.tree_at(lambda made: made.padding, self, self.padding / 2), s
        )


SETTING = {"trials": 20, "padding": 5.0, "population": 30, "num_times": 3}


@pytest.fixture(scope="module")
def result():
    made = [item.measured(PaddedBinomial(**{**SETTING, "padding": m})) for m in (1.0, 5.0)]
    rows = [{"setting": f"row {i}", "stated": 12.0, **point} for i, point in enumerate(made)]
    return {"rows": rows, "sweeps": dict.fromkeys(("n", "m", "L"), made), "base": item.BASE}


def test_the_exact_loss_is_the_logarithm():
    row = item.measured(PaddedBinomial(**SETTING))
    exact = 20 * 3 * np.log(1.2)
    # float64: sums of 60 logarithms of size at most 200
    assert row["audit"] == pytest.approx(exact, rel=1e-11)
    assert row["search"] == pytest.approx(exact, rel=1e-11)
    assert row["paper"] == 12.0
    assert row["holds"]
    assert row["pairs"] == 30


def test_a_release_with_half_the_padding_fails():
    row = item.measured(HalfPadded(**SETTING))
    assert row["audit"] > 1.5 * row["paper"]
    assert not row["holds"]


def test_a_search_sees_a_formula_that_is_too_small(monkeypatch):
    monkeypatch.setattr(PaddedBinomial, "paper_epsilon", property(lambda self: 10.0))
    assert not item.measured(PaddedBinomial(**SETTING))["holds"]


def test_the_largest_loss_of_a_large_population_is_at_its_ends():
    assert {0, 99, 999_900, 999_999} <= set(item.neighbouring_counts(1_000_000))
    every = np.arange(5000)
    assert item.binomial_loss(7, 2.0, 5000, every) == item.binomial_loss(
        7, 2.0, 5000, item.neighbouring_counts(5000)
    )


def test_table_and_paragraph_hold_the_numbers(result):
    lines = item.table(result).splitlines()
    assert len(lines) == 2 + 2 + 3 * 2
    assert f"{result['rows'][1]['audit']:.6g}" in lines[3]
    text = item.paragraph(result)
    assert text.startswith("The proposition holds")
    assert f"{result['rows'][0]['audit']:.4f}" in text
    broken = {**result, "rows": [{**row, "holds": False} for row in result["rows"]]}
    assert item.paragraph(broken).startswith(
        "The proposition FAILS: n L / m is at least the exact loss in 6 of 8"
    )


def test_the_figure_has_a_panel_for_each_number(result):
    figure = item.figure(result)
    assert [ax.get_xlabel()[0] for ax in figure.axes] == ["n", "m", "L", "m"]
    exact = figure.axes[1].lines[1]
    np.testing.assert_allclose(
        exact.get_ydata(), [point["audit"] for point in result["sweeps"]["m"]]
    )
