import numpy as np

from experiments import regression_tables
from experiments.trials import NUM_BATCHES


def row(rng, num, trials=1, shift=0.0):
    """A row as `run` makes it, of standard normal draws for three coefficients."""
    draws = rng.normal(size=(trials, num, 3)) + shift
    ends = np.quantile(draws, [0.025, 0.975], axis=1)
    batches = draws[0].reshape(NUM_BATCHES, -1, 3)
    found = {
        "mean": batches.mean(axis=1),
        "low": np.quantile(batches, 0.025, axis=1),
        "high": np.quantile(batches, 0.975, axis=1),
    }
    return {
        "mean": draws.mean(axis=1),
        "low": ends[0],
        "high": ends[1],
        "sd": draws.std(axis=1),
        "effective_size": [num] * trials,
        "error": {
            name: values.std(axis=0, ddof=1) / np.sqrt(NUM_BATCHES)
            for name, values in found.items()
        },
    }


def test_exact_rows_lie_within_their_monte_carlo_error_and_shifted_ones_do_not():
    """The largest of 9 distances of a t with 49 degrees of freedom is below 3.9 with probability
    .997; .04 sd are 9 errors of the mean.

    Without the row's own error exact rows of 4,000 draws would be some ten errors off.
    """
    rng = np.random.default_rng(0)
    rows = {
        "exact": row(rng, 100_000),
        "same": row(rng, 20_000, 5),
        "few": row(rng, 800, 5),
        "shifted": row(rng, 20_000, 5, 0.04),
    }
    result = {"rows": {"10": rows}}
    assert regression_tables.monte_carlo(result, "10", "same") < 3.9
    assert 0.3 < regression_tables.monte_carlo(result, "10", "few") < 3.9
    assert regression_tables.monte_carlo(result, "10", "shifted") > 7.0


def test_the_largest_distance_is_of_all_cells():
    """Ends .3 away while means agree: the mean alone would not tell."""
    exact = {"mean": [[0.0] * 3], "low": [[-2.0] * 3], "high": [[2.0] * 3], "sd": [[1.0] * 3]}
    wide = {**exact, "low": [[-2.0, -2.3, -2.0]]}
    result = {"rows": {"10": {"exact": exact, "sppe": exact}, "1": {"exact": exact, "sppe": wide}}}
    assert np.isclose(regression_tables.largest(result, "sppe"), 0.3)


def test_trials_that_differ_by_more_than_they_say_count_as_they_differ():
    rng = np.random.default_rng(1)
    rows = {"exact": row(rng, 100_000), "loose": row(rng, 20_000, 5)}
    rows["loose"]["mean"] = rows["loose"]["mean"] + np.array([-0.2, -0.1, 0.0, 0.1, 0.3])[:, None]
    # .02 off on average, that is 4.5 errors of the draws, but trials differ by .19
    assert regression_tables.monte_carlo({"rows": {"10": rows}}, "10", "loose") < 3.9
