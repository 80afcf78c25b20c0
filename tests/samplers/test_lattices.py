"""Directions that keep sums, their tables, and the laws of cells."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from noisewise.errors import MissingCapabilityError
from noisewise.laws.cells import cells_of
from noisewise.samplers.lattices.directions import directions_for
from noisewise.samplers.lattices.passes import passes_for

NONE = np.zeros((0, 6), dtype=int)
ROWS = np.kron(np.eye(2, dtype=int), np.ones((1, 3), dtype=int))
COLUMNS = np.kron(np.ones((1, 2), dtype=int), np.eye(3, dtype=int))
ALL = np.ones((1, 6), dtype=int)


def all_directions(found, num):
    rows = []
    for cells, amounts in (move for kind in found.kinds for one in kind for move in one):
        rows.append(np.zeros(num, dtype=int))
        rows[-1][list(cells)] = amounts
    return np.array(rows)


@pytest.mark.parametrize(
    "fixed",
    [
        ALL,
        ROWS,
        np.concatenate([ROWS, ALL]),
        ROWS[:1],
        np.array([[1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0]]),
        np.concatenate([ROWS, COLUMNS]),
        np.concatenate([ROWS, COLUMNS, ALL]),
    ],
    ids=[
        "total",
        "rows",
        "rows, total",
        "one row",
        "nested",
        "two-way",
        "two-way, total",
    ],
)
def test_directions_keep_fixed_sums_and_lead_everywhere(fixed):
    found = all_directions(directions_for(fixed, NONE), 6)
    assert not (found @ fixed.T).any()
    assert np.linalg.matrix_rank(found) == 6 - np.linalg.matrix_rank(fixed)


@pytest.mark.parametrize(
    ("fixed", "more"),
    [
        (np.array([[1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]]), {}),
        (np.concatenate([ROWS, COLUMNS]), {"bounded": True}),
        (np.concatenate([ROWS, COLUMNS]), {"still": np.arange(6) == 2}),
        (np.concatenate([ROWS, COLUMNS[:2]]), {}),
        (np.array([[2, 2, 1, 1, 0, 0]]), {}),
    ],
    ids=["chain", "bounded cells", "a structural zero", "a column too few", "weights"],
)
def test_other_patterns_are_refused(fixed, more):
    with pytest.raises(MissingCapabilityError, match="moves="):
        directions_for(fixed, NONE, **more)


def test_directions_of_one_turn_share_no_sum():
    sums = np.concatenate([np.eye(6, dtype=int), ROWS, COLUMNS])
    (passes,) = passes_for(directions_for(NONE, NONE), sums, np.ones(len(sums)))
    assert passes.own == tuple(range(6))
    assert passes.shared == tuple(range(6, 11))
    for turn in passes.turns[0]:
        cells = [passes.cells[0, d, 0] for d in turn if d < 6]
        assert sums[6:, cells].sum(axis=1).max() == 1
    assert sorted(d for d in passes.turns.ravel() if d < 6) == list(range(6))


def test_structural_zeros_have_slopes():
    present = jnp.array([1.0, 0.0])
    with jax.enable_x64(True):

        def log_law(z):
            return cells_of(dist.Poisson(present * jnp.exp(z))).log_prob(jnp.array([3.0, 0.0]))

        assert float(jax.grad(log_law)(jnp.float64(0.0))) == pytest.approx(2.0)


def test_laws_that_are_no_counts_are_refused():
    for law in (dist.Normal(jnp.zeros(2), 1.0), dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2))):
        with pytest.raises(MissingCapabilityError, match="give their own law"):
            cells_of(law)
