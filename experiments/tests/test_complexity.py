import dataclasses

import numpy as np
import pytest

from experiments import complexity as item

SMALL = item.Sizes(
    batch=4, M=2, atoms=2, layers=2, hidden=1, units=8, knots=4, dim_s=3, dim_theta=2
)


def sweep(kind, size, operations, formula):
    costs = [{"operations": value, "seconds": 1e-3 * 2**i} for i, value in enumerate(operations)]
    return {
        "kind": kind,
        "size": size,
        "values": [1, 2, 4],
        **item.fitted([1, 2, 4], costs, formula),
    }


@pytest.fixture
def result():
    sweeps = [
        sweep("PLE", "dim_s", [1, 2, 4], [1, 2, 4]),
        sweep("PPE", "dim_s", [1, 1, 1], [1, 2, 4]),
        sweep("PPE", "dim_theta", [1, 2, 4], [1, 2, 4]),
        sweep("PPE", "units", [1, 4, 16], [1, 4, 16]),
        sweep("simulation", "n", [None] * 3, [1, 2, 4]),
        sweep("noise", "n", [None] * 3, [1, 2, 4]),
    ]
    return {"base": dataclasses.asdict(SMALL), "sweeps": sweeps}


def test_the_formulas_of_the_paper():
    sizes = item.Sizes(
        batch=2, M=3, atoms=5, layers=7, hidden=11, units=13, knots=17, dim_s=19, dim_theta=23
    )
    # the paper's layers put out 3 K - 1 numbers for each dimension
    linear, square, knots = (23 + 19) * 13, 11 * 13**2, (3 * 17 - 1) * 19 * 13
    assert item.formula("PLE", sizes) == 7 * 2 * 3 * (linear + square + knots)
    assert item.formula("PPE", sizes) == 7 * 2 * 3 * (linear + 5 * square + 5 * knots)


def test_exponents_are_fitted():
    made = item.fitted(
        [1, 2, 4], [{"operations": v, "seconds": 1.0} for v in (3, 12, 48)], [1, 4, 16]
    )
    assert made["operations_exponent"] == pytest.approx(2.0)
    assert made["operations_last"] == pytest.approx(2.0)
    assert made["seconds_exponent"] == pytest.approx(0.0)
    assert made["close"]
    assert not item.fitted(
        [1, 2, 4], [{"operations": v, "seconds": 1.0} for v in (3, 6, 12)], [1, 4, 16]
    )["close"]


@pytest.mark.parametrize(
    ("operations", "degree"),
    [
        # all within 5% of 102.6
        ([100, 101, 103, 107], 0),
        ([100, 110, 130, 170], 1),
        # a large constant hides the square from any exponent, and not from a fit
        ([1000 + 30 * v**2 for v in (1, 2, 4, 8)], 2),
        ([v**4 for v in (1, 2, 4, 8)], None),
    ],
)
def test_the_least_degree_that_fits(operations, degree):
    assert item.least_degree({"values": [1, 2, 4, 8], "operations": operations}) == degree


def test_as_many_sizes_as_terms_fit_nothing():
    assert item.least_degree({"values": [1, 2], "operations": [1, 2]}) is None


def test_the_formula_is_not_corrected_where_it_is_right(result):
    result["sweeps"][1] = sweep("PPE", "dim_s", [1, 9, 25], [1, 2, 4])
    assert "must read" not in item.swapped(result)


def test_operations_double_with_the_atoms():
    sizes = item.Sizes(
        batch=8, M=2, atoms=2, layers=1, hidden=1, units=4, knots=3, dim_s=3, dim_theta=2
    )
    found = [item.step_cost("PPE", each) for each in (sizes, dataclasses.replace(sizes, atoms=4))]
    # all but sums over the batch is done once per pair and atom
    assert found[1]["operations"] / found[0]["operations"] == pytest.approx(2.0, abs=0.1)
    assert found[0]["seconds"] > 0.0


def test_table_and_paragraph_hold_the_numbers(result):
    lines = item.table(result).splitlines()
    assert "| PLE | dim(s) | 1 | 4 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | yes | 1 (0.0%) |" in lines
    assert "| PPE | dim(s) | 1 | 4 | 1.00 | 0.00 | 1.00 | 1.00 | 0.00 | no | 0 (0.0%) |" in lines
    assert "| simulation | records n | 1 | 4 | 1.00 |  | 1.00 | 1.00 |  | yes |  |" in lines
    text = item.paragraph(result)
    assert "5 of 6 exponents" in text
    assert (
        "one more statistic adds 0 operations and one more parameter 1: the paper's K dim(s)"
        in text
    )
    assert "Not: PPE in dim(s) (0.00 for 1.00)" in text


def test_the_figure_has_a_panel_for_each_size(result):
    figure = item.figure(result)
    assert [ax.get_xlabel() for ax in figure.axes] == list(item.WORDS.values())
    units = figure.axes[5]
    np.testing.assert_allclose(units.lines[0].get_ydata(), [1, 4, 16])
