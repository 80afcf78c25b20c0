"""Tables whose cells have different mechanisms, and cells of which nothing was measured."""

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingCapabilityError,
    SensitivityError,
)
from noisewise.mechanisms import from_spec
from noisewise.model.sensitivity_check import check_sensitivity

m = nw.mechanisms
COUNTS = m.Thresholded(m.DiscreteLaplace(scale=30.0, sensitivity=1.0), above=[450.0, 90.0])
TABLE = m.PerCell([COUNTS, m.Rounded(base=3), m.Unmeasured()], [1, 0, 2, 0, 1])
S = np.array([4.0, 460.0, 1e6, 80.0, 9.0])


def by_hand(mechanism, s_dp, s):
    """The sum over cells of the one mechanism of each, with the numbers of its columns."""
    total, seen = 0.0, [0] * len(mechanism.mechanisms)
    for j, number in enumerate(mechanism.which):
        part = mechanism.mechanisms[number]
        if part.width is not None:
            part = part.of_columns([seen[number]])
        seen[number] += 1
        total += part.log_prob(s_dp[j : j + 1], s[j : j + 1])
    return total


def test_each_cell_has_the_law_of_its_mechanism():
    draws = TABLE.sample(jax.random.key(0), np.tile(S, (200, 1)))
    expected = [by_hand(TABLE, row, S) for row in draws]
    np.testing.assert_allclose(TABLE.log_prob(draws, S), expected, rtol=1e-13)
    swapped = m.PerCell(TABLE.mechanisms, [0, 1, 2, 0, 1])  # the planted bug: two cells exchanged
    found = [by_hand(TABLE, row, S) for row in draws]
    assert not np.allclose(swapped.log_prob(draws, S), found)


def test_missing_cells_say_nothing_and_absent_ones_do():
    s = np.tile(S, (3, 1))
    s[:, 2] = [0.0, 1.0, 1e9]
    observed = np.array([3.0, 470.0, np.nan, np.nan, 9.0])
    assert np.ptp(TABLE.log_prob(observed, s)) == 0.0
    assert TABLE.measured(5).tolist() == [True, True, False, True, True]
    s = np.tile(S, (2, 1))
    s[:, 3] = [10.0, 200.0]
    first, second = TABLE.log_prob(observed, s)
    assert first > second + 1.0
    with pytest.raises(MissingCapabilityError, match="nothing was measured"):
        m.Unmeasured().estimate(np.array([np.nan]))


@pytest.mark.parametrize("columns", [[0], [3, 1], [2], [4, 3, 2, 1, 0], [1, 2], [0, 4]])
def test_columns_are_taken_with_their_mechanisms(columns):
    observed = np.array([3.0, 470.0, np.nan, np.nan, 9.0])
    part = TABLE.of_columns(columns)
    whole = np.array([by_hand(m.PerCell([TABLE.of_columns([j])], [0]), observed[[j]], S[[j]])
                      for j in columns])  # fmt: skip
    np.testing.assert_allclose(part.log_prob(observed[columns], S[columns]), whole.sum())
    assert part.support.contains(observed[columns]).all()
    assert from_spec(part.to_spec()) == part


def test_columns_of_other_mechanisms():
    both = m.Product([m.Laplace(scale=[1.0, 2.0, 3.0]), m.EuclideanLaplace(1.0)], widths=[3, 2])
    part = both.of_columns([0, 2, 3, 4])
    assert part.blocks[0].scale.tolist() == [1.0, 3.0]
    assert part.width == 4
    with pytest.raises(MissingCapabilityError, match="none can be left out"):
        both.of_columns([0, 3])
    with pytest.raises(MissingCapabilityError, match="in their order"):
        both.of_columns([3, 4, 0])


def test_the_sensitivity_of_cells_that_share_a_mechanism_is_that_of_all_of_them():
    """Checking each run of cells by itself would let a mechanism for half the change pass."""
    bins = nw.queries.Histogram(edges=(0.0, 1.0, 2.0, 3.0, 4.0), num_records=9)

    def noise(sensitivity):
        return m.PerCell(
            [m.DiscreteLaplace(4.0, sensitivity), m.DiscreteLaplace(8.0, 2.0)], [0, 1, 0, 1]
        )

    check_sensitivity(noise(2.0), bins)
    with pytest.raises(SensitivityError, match="calibrated for a sensitivity of 1"):
        check_sensitivity(noise(1.0), bins)
    halves = nw.queries.Joint(
        [nw.queries.Histogram(edges=(0.0, 1.0, 2.0), num_records=9) for _ in range(2)]
    )
    with pytest.raises(SensitivityError, match="calibrated for a sensitivity of 1"):
        check_sensitivity(noise(1.0), halves)
    assert noise(2.0).guarantee == nw.PureDP(0.75)


def test_unmeasured_cells_cost_nothing():
    noise = m.Gaussian(scale=2.0, sensitivity=1.0)
    table = m.PerCell([noise, m.Unmeasured()], [0, 1, 0])
    assert table.guarantee == noise.guarantee
    added = table.for_neighbours(nw.AddRemoveOne())
    assert added.guarantee == noise.guarantee.with_neighbours(nw.AddRemoveOne())
    assert table.recalibrated(nw.GaussianDP(1.0)).guarantee == nw.GaussianDP(1.0)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: m.PerCell([], []), InvalidTypeError, "one or more mechanisms"),
        (lambda: m.PerCell(m.Exact(), [0]), InvalidTypeError, "one or more mechanisms"),
        (lambda: m.PerCell([m.Exact()], "0"), InvalidTypeError, "which must be a list"),
        (lambda: m.PerCell([m.Exact()], [1]), InvalidInputError, "from 0 to 0"),
        (lambda: m.PerCell([m.Exact(), m.Rounded()], [0, 0]), InvalidInputError, "at least once"),
        (lambda: m.PerCell([m.EuclideanLaplace(1.0)], [0]), MissingCapabilityError, "independent"),
        (lambda: m.PerCell([m.Product([m.Exact()])], [0]), MissingCapabilityError, "Product"),
        (lambda: m.PerCell([COUNTS], [0]), InvalidInputError, "numbers for 2 columns"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_per_cell_inside_gives_way_to_its_mechanisms():
    M = nw.mechanisms
    warner, exact, unmeasured = M.Warner(p=0.8), M.DirectQuestion(), M.Unmeasured()
    inner = M.PerCell([warner, exact], [0, 1, 0])
    nested = M.PerCell([inner, unmeasured], [0, 1, 0, 0])
    flat = M.PerCell([warner, exact, unmeasured], [0, 2, 1, 0])
    assert nested == flat
    answers, s = np.array([1.0, np.nan, 1.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0])
    assert np.allclose(np.exp(nested.log_prob_each(answers, s)), [0.8, 1.0, 0.0, 0.2])
