"""The confidential numbers as the answer sees them, beside the released."""

import numpy as np

from noisewise.posteriors import Draws, Report
from noisewise.reports.hidden import hidden

NAMES = ("north", "south")
RELEASED = np.array([-3.0, np.nan])
ALL = np.array([True, True])


def draws(statistics):
    theta = np.random.default_rng(0).normal(size=(len(statistics), 1))
    report = Report(method="nuts", exact=True, num_simulations=0)
    return Draws(theta, ("mu",), report, statistics=statistics, statistic_names=NAMES)


def test_estimates_and_intervals_are_those_of_the_draws():
    counts = np.column_stack([np.arange(1001.0), np.arange(1001.0) + 5000.0])
    text = str(hidden(draws(counts), RELEASED, NAMES, (2.0, 2.0), ALL))
    assert "<td>-3</td>" in text
    assert "absent" in text
    assert "missing" in str(
        hidden(draws(counts), RELEASED, NAMES, (2.0, 2.0), np.array([True, False]))
    )
    assert "25 to 975" in text
    assert "5,025 to 5,975" in text
    assert "25 to 975" not in str(hidden(draws(counts + 10.0), RELEASED, NAMES, (2.0, 2.0), ALL))


def test_there_is_no_table_of_single_answers_or_without_a_release():
    answers = np.random.default_rng(0).integers(0, 2, size=(100, 2)).astype(float)
    assert str(hidden(draws(answers), RELEASED, NAMES, (None, None), ALL)) == ""
    assert str(hidden(draws(answers), None, NAMES, (None, None), ALL)) == ""
