"""What cells say: when an accuracy is reached, accuracy at a budget, ratios and verdicts."""

import math

import pytest

from benchmarks.standings import NEVER, Spread, Standings, at_budget, needed, reached, verdicts


def cell(contender, problem="sir", seed=1, threads=1, stages=(), ended="budget", seconds=None, large=False):
    rows = [{"simulations": n, "seconds": float(t), "c2st": c} for n, t, c in stages]
    spent = seconds if seconds is not None else (rows[-1]["seconds"] if rows else 900.0)
    return {
        "contender": contender,
        "problem": problem,
        "seed": seed,
        "threads": threads,
        "large": large,
        "stages": rows,
        "ended": ended,
        "seconds": spent,
    }


SLOW = [(1000, 10, 0.9), (2000, 40, 0.7), (3000, 90, 0.59), (4000, 160, 0.62)]


def test_the_first_stage_counts():
    assert reached(cell("sbi-npe", stages=SLOW), 0.6) == (90.0, 3000)
    assert reached(cell("sbi-npe", stages=SLOW), 0.55) == (NEVER, NEVER)


def test_what_was_not_reached_needs_at_least_what_was_spent():
    stopped = cell("sbi-npe", stages=SLOW[:2], ended="limit", seconds=900.0)
    assert needed(stopped, 0.6) == (900.0, 2000)
    assert needed(cell("pyabc-exact", ended="limit"), 0.6) == (900.0, 0)


def test_accuracy_at_a_budget():
    made = cell("sbi-npe", stages=SLOW)
    assert [at_budget(made, budget) for budget in (999, 1000, 2500, 4000)] == [None, 0.9, 0.7, 0.62]
    stopped = cell("sbi-npe", stages=SLOW[:2], ended="limit", seconds=900.0)
    assert at_budget(stopped, 2000) == 0.7
    assert at_budget(stopped, 5000) is None
    assert at_budget(cell("exact-smc", stages=[(700, 5, 0.5)], ended="finished"), 5000) == 0.5


def test_the_median_is_infinite_where_most_seeds_fail():
    assert math.isinf(Spread.of([1.0, NEVER, NEVER]).median)
    assert Spread.of([1.0, 2.0, NEVER]) == Spread(2.0, 1.0, NEVER, 3)
    assert math.isinf(Spread.of([1.0, NEVER]).median)


def test_the_faster_number_of_threads_counts():
    slow, fast = cell("sppe", stages=[(1000, 20, 0.6)]), cell("sppe", threads=2, stages=[(1000, 12, 0.6)])
    standings = Standings([slow, fast])
    assert [made["threads"] for made in standings.cells("sppe", "sir")] == [2]
    assert standings.seconds("sppe", "sir", 0.6).median == 12.0


def test_ratios_are_of_medians():
    ours = [cell("sppe", seed=i, stages=[(1000, t, 0.58)]) for i, t in enumerate((8, 10, 20))]
    theirs = [cell("sbi-npe", seed=i, stages=[(3000, t, 0.6)]) for i, t in enumerate((90, 100, 300))]
    found = Standings([*ours, *theirs]).ratio("sppe", "sbi-npe", "sir", 0.6)
    assert (found["ratio"], found["low"], found["high"], found["bound"]) == (10.0, 4.5, 37.5, False)
    assert Standings([*ours, *theirs]).ratio("sppe", "sbi-npe", "sir", 0.6, "simulations")["ratio"] == 3.0


def test_a_rival_that_never_arrives_gives_a_bound():
    """Planted: its time when it was stopped, taken for what it needs, would claim too much by one seed and too little by none."""
    ours = [cell("sppe", stages=[(1000, 10, 0.58)])]
    theirs = [cell("sbi-npe", seed=i, stages=[(3000, 100, 0.7)], ended="limit", seconds=900.0) for i in range(3)]
    found = Standings([*ours, *theirs]).ratio("sppe", "sbi-npe", "sir", 0.6)
    assert (found["ratio"], found["bound"]) == (90.0, True)


def test_nothing_is_claimed_where_ours_fails():
    ours = [cell("sppe", stages=[(1000, 10, 0.9)])]
    theirs = [cell("sbi-npe", stages=[(3000, 100, 0.5)])]
    standings = Standings([*ours, *theirs])
    assert standings.ratio("sppe", "sbi-npe", "sir", 0.6)["ratio"] == 0.0
    row = next(
        row
        for row in verdicts(standings)
        if "10 times" in row["target"] and "of SPPE to" in row["target"] and "on SIR" in row["target"]
    )
    assert row["met"] is False


@pytest.mark.parametrize(("seconds", "met"), [(99.0, False), (101.0, True)])
def test_ten_times_is_the_target(seconds, met):
    ours = [cell("sppe", stages=[(1000, 10, 0.58)])]
    theirs = [cell("sbi-npe", stages=[(3000, seconds, 0.6)])]
    rows = {row["target"]: row["met"] for row in verdicts(Standings([*ours, *theirs]))}
    assert rows["sbi NPE-C needs 10 times the seconds of SPPE to C2ST 0.60 on SIR"] is met
    assert rows["sbi NPE-C needs no fewer simulations than SPPE to C2ST 0.60 on SIR"] is True
    assert rows["pyABC, exact acceptor needs 5 times the seconds of ExactSMC to C2ST 0.60 on SIR"] is None
