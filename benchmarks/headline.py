"""What a reader of the page wants first: the headline numbers, the targets, and what was missed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import sections
from benchmarks.contenders import CONTENDERS
from benchmarks.contest import PROBLEMS
from benchmarks.contest_tables import ahead, best_pair, measures
from benchmarks.standings import LEVELS, MEASURES, NAMES, Measure, Ratio, Standings, verdicts
from experiments.words import joined, markdown

HEADLINES = (("sppe", "sbi-npe"), ("cle", "sbi-npe"), ("exact-smc", "pyabc-exact"))
"""Ours and the rival it is compared with: the closest method of the other package."""

REFUSED = """CLE needs a density of the statistics given theta. Those of SIR are 0 in every epidemic that dies out at once,
and when this was run CLE refused them; now it learns them, but its particles do not settle. SPLE serves there: it learns the distribution of
the noisy statistics, under one mechanism."""

MEMORY = """Besides the arrays and the copy that training takes, memory holds the temporaries of training (all rows are shuffled in
every epoch) and what compilers took, which the allocator keeps."""

BOUND = """*> x times*: the rival was stopped before it got there. The ratio is larger than x, and by how much is not known."""

WORDS = {True: "met", False: "**missed**", None: "**not shown**"}


def in_short(standings: Standings) -> str:
    """The headline numbers, with what was missed and the caveats."""
    lines = [
        *compared(standings),
        *misses(all_targets(standings)),
        *where_rivals_win(standings),
    ]
    lines.append(
        "These are two problems with one observation each, up to three seeds, on one machine with"
        " two cores. On other problems the ratios will differ."
    )
    bullets = "\n".join(f"- {line}" for line in lines)
    return "\n\n".join(part for part in (best_of_each(standings), bullets) if part)


def compared(standings: Standings) -> Iterator[str]:
    """One line per pair of methods: seconds and simulations to the first level, on each problem."""
    for ours, rival in HEADLINES:
        parts = []
        for problem in PROBLEMS:
            ratios = {
                what: ratio
                for what in MEASURES
                if (ratio := standings.ratio(ours, rival, problem, LEVELS[0], what))
                and ratio.arrives
            }
            if ratios:
                says = joined([_in_words(ratio, what) for what, ratio in ratios.items()])
                bound = any(ratio.bound for ratio in ratios.values())
                stopped = f" ({CONTENDERS[rival].says} did not get there)" if bound else ""
                parts.append(f"on {NAMES[problem]} {says}{stopped}")
        if parts:
            yield (
                f"**{CONTENDERS[ours].says} against {CONTENDERS[rival].says}**, to C2ST"
                f" {LEVELS[0]:.2f}: {'; '.join(parts)}."
            )


def _in_words(ratio: Ratio, what: Measure) -> str:
    """A ratio of what the rival needs to what ours needs."""
    better, worse = (
        ("faster", "slower") if what == "seconds" else ("fewer simulations", "more simulations")
    )
    if ratio.bound:
        return f"more than {ratio.value:.3g} times {better}"
    if ratio.value >= 1.0:
        extent = "" if math.isinf(ratio.high) else f" ({ratio.low:.3g} to {ratio.high:.3g})"
        return f"{ratio.value:.3g} times {better}{extent}"
    extent = "" if math.isinf(ratio.high) else f" ({1 / ratio.high:.3g} to {1 / ratio.low:.3g})"
    return f"{1.0 / ratio.value:.3g} times {worse}{extent}"


def best_of_each(standings: Standings) -> str:
    """The best of ours beside the best of all rivals, to the first level; empty without both."""
    first = [f"{measure} to {LEVELS[0]:.2f}" for measure in MEASURES]
    rows = []
    for problem in PROBLEMS:
        for what, shown, values in measures(standings, problem):
            if what in first and (pair := best_pair(values)):
                rows.append(
                    [
                        f"{NAMES[problem]}: {what.removesuffix(f' to {LEVELS[0]:.2f}')}",
                        *(f"{CONTENDERS[name].says}: {shown(values[name])}" for name in pair),
                    ]
                )
    header = [f"needed for C2ST {LEVELS[0]:.2f}", "the best of ours", "the best of all rivals"]
    return markdown(header, rows).replace("--:", "---") if rows else ""


def misses(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How many targets are met, and which are not."""
    met = sum(row["met"] is True for row in rows)
    text = f"**{met} of {len(rows)} targets are met.**"
    for answer, says in ((False, "Missed"), (None, "Not shown")):
        found = [
            f"{row['target']}: {row['text']}"
            + (f" (asked: {row['asked']})" if row["asked"] != "as above" else "")
            for row in rows
            if row["met"] is answer
        ]
        text += f" {says}: {'; '.join(found)}." if found else ""
    yield text


def where_rivals_win(standings: Standings) -> Iterator[str]:
    """The measures by which the best rival is ahead of the best of ours."""
    found = [f"{row[0]} ({row[1]}; ours {row[2]})" for row in ahead(standings)]
    if found:
        yield f"**A rival is ahead of all of ours in**: {'; '.join(found)}."
    else:
        yield "No rival is ahead of the best of ours in any measure of the contest."


# Targets ------------------------------------------------------------------------------------------


def targets(standings: Standings) -> str:
    """Every target, with what was measured."""
    rows = all_targets(standings)
    table = markdown(
        ["what", "target", "measured: the rival over ours (range over pairs of seeds)", ""],
        [[row["target"], row["asked"], row["text"], WORDS[row["met"]]] for row in rows],
    )
    table = table.replace("|---|--:|--:|--:|", "|---|---|---|---|")
    return f"## Targets\n\n{table}\n\n{why(rows)}".rstrip()


def all_targets(standings: Standings) -> list[dict[str, Any]]:
    """Targets of the contest and our own."""
    return [*verdicts(standings), *own_targets()]


def why(rows: Sequence[dict[str, Any]]) -> str:
    """Why targets are missed, with the profile of CLE where it is one of them; nothing where none
    is.
    """
    missed = [row for row in rows if not row["met"]]
    about = lambda *words: any(all(word in row["target"] for word in words) for row in missed)  # noqa: E731
    reasons = [REFUSED] * about("CLE", NAMES["sir"])
    reasons += [profile()] * about("CLE", NAMES["linear_regression"], "seconds")
    reasons += [MEMORY] * about("its peak")
    reasons += [BOUND] * any(row["text"].startswith(">") for row in missed)
    return " ".join(["Why targets are missed.", *filter(None, reasons)]) if missed else ""


def profile() -> str:
    """What a first inference by CLE spends its time on."""
    found = sections.result("first_inference")
    slow = next((row for row in (found or {"rows": []})["rows"] if row["contender"] == "cle"), None)
    if slow is None:
        return ""
    return (
        f"Of the {slow['first s']:.0f} seconds of CLE to a first posterior"
        f" {slow['first s'] - slow['second s']:.0f} are spent on programs that a second inference"
        " in the same process finds compiled (*Where the seconds go*, below)."
    )


def own_targets() -> Iterator[dict[str, Any]]:
    """Import time and memory."""
    if (found := sections.result("start_up")) is not None:
        yield _import_target(found["imports"])
    if (found := sections.result("memory")) is not None:
        growth, peaks, holds = found["growth"], found["peaks, in arrays"], found["holds"]
        yield {
            "target": "growth of memory from round 5 to 20 of a million simulations",
            "asked": "at most 5%",
            "met": holds["growth"],
            "text": ", ".join(f"{name} {value:+.1%}" for name, value in growth.items()),
        }
        for name, what in (
            ("peak", "all of it"),
            ("peak without compilers", "without what compilers took"),
        ):
            yield {
                "target": f"its peak over a tiny inference, {what}",
                "asked": "at most 3 times the arrays of simulations",
                "met": holds[name],
                "text": f"{peaks[name]:.3g} times",
            }


def _import_target(imports: list[dict[str, Any]]) -> dict[str, Any]:
    (ours,) = [row for row in imports if row["process"] == "import noisewise"]
    heavy = [name for name in ("matplotlib", "arviz", "numba") if name in ours["loaded"]]
    seconds = {row["process"]: row["seconds"] for row in imports}
    method, theirs = (
        "from noisewise.inference import PrivatePosteriorEstimation",
        "from sbi.inference import NPE",
    )
    text = (
        f"{ours['seconds']:.2f} s ({1e3 * ours['beyond an empty process']:.0f} ms more than an"
        f" empty process), {'with ' + ', '.join(heavy) if heavy else 'nothing heavy loaded'};"
        f" with a method {seconds[method]:.2g} s"
    )
    text += f" (sbi's NPE {seconds[theirs]:.2g} s)" if theirs in seconds else ""
    return {
        "target": "`import noisewise`",
        "asked": "under 2 s, without matplotlib, arviz and numba",
        "met": ours["seconds"] < 2.0 and not heavy,
        "text": text,
    }
