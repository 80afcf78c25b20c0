"""What the page says first follows from the cells: ratios either way, misses, and where rivals win."""

from benchmarks import contest_tables, headline
from benchmarks.contest import stored
from benchmarks.standings import NEVER, Standings
from tests.benchmarks.test_standings import cell, everyone


def contest(ours, theirs, rival="sbi-npe"):
    """One cell of SPPE and one of a rival on SIR, each with (simulations, seconds, C2ST) stages."""
    return Standings([cell("sppe", stages=ours), cell(rival, stages=theirs)])


def test_a_ratio_says_who_is_faster():
    """Planted: where ours needs more, the line says so."""
    (line,) = headline.compared(contest([(1000, 10, 0.58)], [(3000, 80, 0.6)]))
    assert "on SIR 8 times faster (8 to 8) and 3 times fewer simulations (3 to 3)" in line
    (line,) = headline.compared(contest([(3000, 80, 0.58)], [(1000, 10, 0.6)]))
    assert "on SIR 8 times slower (8 to 8) and 3 times more simulations (3 to 3)" in line


def test_a_rival_that_was_stopped_is_named():
    (line,) = headline.compared(contest([(1000, 10, 0.58)], [(3000, 80, 0.7)]))
    assert "more than 8 times faster" in line
    assert "(sbi NPE-C did not get there)" in line


def test_nothing_is_claimed_where_ours_does_not_get_there():
    assert list(headline.compared(contest([(1000, 10, 0.7)], [(3000, 80, 0.6)]))) == []


def test_the_best_of_all_rivals_is_shown():
    """Planted: with the rival of the headline alone, the faster one would not be seen."""
    cells = [
        cell("sppe", stages=[(1000, 10, 0.58)]),
        cell("sbi-npe", stages=[(3000, 80, 0.6)]),
        cell("sbi-nle", stages=[(2000, 20, 0.6)]),
    ]
    table = headline.best_of_each(Standings(cells))
    assert "| SIR: seconds | SPPE: 10 | sbi NLE: 20 |" in table
    assert "NPE-C" not in table
    assert headline.best_of_each(Standings(cells[:1])) == ""


def test_misses_are_counted_and_said():
    row = {"asked": "at least 10 times", "text": "2 times"}
    rows = [
        row | {"target": name, "met": met}
        for name, met in zip("abc", (True, False, None), strict=True)
    ]
    (line,) = headline.misses(rows)
    assert line == (
        "**1 of 3 targets are met.** Missed: b: 2 times (asked: at least 10 times). Not shown: c: 2"
        " times (asked: at least 10 times)."
    )
    (line,) = headline.misses(rows[:1])
    assert line == "**1 of 1 targets are met.**"


def test_where_a_rival_wins():
    """Planted: a rival with a better score at every budget that is slower."""
    standings = contest([(1000, 10, 0.59)], [(1000, 30, 0.52)])
    measures = [row[0] for row in contest_tables.ahead(standings)]
    assert "SIR: C2ST with 1,000 simulations" in measures
    assert "SIR: seconds to 0.55" in measures
    assert "SIR: seconds to 0.60" not in measures
    (line,) = headline.where_rivals_win(standings)
    assert "SIR: seconds to 0.55 (sbi NPE-C 30; ours SPPE no)" in line
    (line,) = headline.where_rivals_win(contest([(1000, 10, 0.5)], [(1000, 30, 0.7)]))
    assert line.startswith("No rival is ahead")


def test_a_method_that_does_not_arrive_is_not_listed_measure_by_measure():
    text = dict(contest_tables.behind(contest([(1000, 10, 0.59)], [(1000, 30, 0.52)])))
    assert "seconds to 0.55 no (sbi NPE-C 30)" in text["SPPE, SIR"]
    text = dict(contest_tables.behind(contest([(1000, 10, 0.7)], [(1000, 30, 0.52)])))
    assert text["SPPE, SIR"].startswith("does not get to 0.60; a rival is ahead in ")


def test_every_pair_that_a_rival_wins_is_behind_the_condensed_table():
    """By another road: for each method and measure, whether any rival has a smaller median."""
    standings = Standings(stored())
    behind = dict(contest_tables.behind(standings))
    for problem, says in contest_tables.NAMES.items():
        found = list(contest_tables.measures(standings, problem))
        for name in standings.contenders(problem):
            if not contest_tables.CONTENDERS[name].ours:
                continue
            lost = [
                what
                for what, _, values in found
                if name in values
                and any(
                    rival.median < values[name].median and rival.median < NEVER
                    for other, rival in values.items()
                    if not contest_tables.CONTENDERS[other].ours
                )
            ]
            text = behind.get(f"{contest_tables.CONTENDERS[name].says}, {says}", "")
            if text.startswith("does not"):
                assert f"in {len(lost)} of {len(found)} measures" in text
            else:
                assert all(f"{what} " in text for what in lost)
                assert len(lost) == len([part for part in text.split("; ") if part])


def test_the_summary_is_short_and_on_top():
    text = headline.in_short(Standings(stored()))
    assert 5 <= len(text.splitlines()) <= 14
    assert "targets are met" in text
    assert headline.in_short(Standings(everyone(120.0))).count("\n") >= 3
