"""How each of the paper's claims is judged: functions from the result of an item to a verdict and
its evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import (
    abc_accuracy,
    accuracy,
    complexity,
    flow_layers,
    ks_heatmaps,
    noise_rmse,
    regression_tables,
    table_cost,
)
from experiments.methods import NAMES
from experiments.verdicts import (
    HOLDS,
    LEVEL,
    NOT,
    PARTLY,
    UNJUDGED,
    UNTOLD,
    Gap,
    Judged,
    above,
    all_of,
    any_of,
    average,
    below,
    by_measures,
    by_settings,
    difference,
    graded,
    large,
    opposite,
)
from experiments.words import joined

Judge = Callable[[dict[str, Any]], Judged]
Remark = Callable[[dict[str, Any]], str]
"""What the result of another item adds to the evidence."""
PAPER_VALUES = {"sppe": 6.0, "sple": 2.0, "stable": 3, "rounds": 5, "abc": 100_000, "slope": -1.0}
"""Times faster than SMC-ABC, rounds until stable, rounds of SPLE, simulations of SMC-ABC, slope of
nets.
"""
BIASED = 0.25
"""Exact sds by which a mean must be off to be called biased."""
SURE = 8.0
"""Standard errors by trials beyond which a small bias is mentioned: of three, t with 4 degrees of
freedom, one is in 1 of 250 cases.
"""
ABOUT = 1
"""Rounds by which `about` may be off."""

# Cost and speed -----------------------------------------------------------------------------------


def faster(slug: str) -> Judge:
    """Minutes of SMC-ABC over those of a method until the threshold, simulating every event, where
    they are of one machine.
    """

    def judge(result: dict[str, Any]) -> Judged:
        mine, abc = (result["methods"][name].get("trials", []) for name in (slug, "smc-abc"))
        reached = sum(trial["reached"] for trial in mine)
        if not mine or reached < len(mine):
            return (
                NOT,
                (
                    f"{NAMES[slug]} reaches MMD² < {accuracy.THRESHOLD} in {reached} of {len(mine)}"
                    " trials"
                ),
            )
        bound = (
            ""
            if all(trial["reached"] for trial in abc)
            else "at least (SMC-ABC does not always reach it) "
        )
        fewer = difference(
            *(np.log([trial["simulations"] for trial in each]) for each in (abc, mine))
        )
        counts = f"{bound}{table_cost.times(fewer)} times fewer simulations"
        counts += (
            f", {np.mean([t['simulations'] for t in mine]):,.0f} for"
            f" {np.mean([t['simulations'] for t in abc]):,.0f}"
        )
        if not table_cost.one_machine(result, slug, "smc-abc"):
            return (
                UNJUDGED,
                (
                    "minutes are of different machines, or of trials that trained side by side;"
                    f" {counts}"
                ),
            )
        ratio = table_cost.speed(result, slug, "gillespie")
        verdict = _at_least(ratio, PAPER_VALUES[slug])
        return (
            verdict,
            (
                f"{bound}{table_cost.times(ratio)} times faster, with Gillespie, against the"
                f" paper's {PAPER_VALUES[slug]:g}; {counts}; with the leap"
                f" {table_cost.in_words(table_cost.speed(result, slug, 'leap'))}"
            ),
        )

    return judge


def _at_least(ratio: Gap, wanted: float) -> str:
    """Whether something is so many times faster, or at least faster, by the logarithm of the ratio."""
    enough, at_all = above(ratio, float(np.log(wanted))), above(ratio)
    return enough if enough != NOT else PARTLY if at_all == HOLDS else at_all


def converges_first(slug: str, other: str) -> Judge:
    """Rounds until the threshold, and the C2ST averaged over rounds, of two methods."""

    def judge(result: dict[str, Any]) -> Judged:
        methods = result["panel"]["methods"]
        verdict, text = _compared([(NAMES[each], methods[each]) for each in (slug, other)])
        if "sppe-atomic" in methods:
            area = [np.mean(methods[each]["c2st"], axis=1) for each in ("sppe-atomic", "sple")]
            text += (
                f"; with the paper's loss SPPE has {area[0].mean():.3f}, more than SPLE by"
                f" {difference(*area).text()}"
            )
        return verdict, text

    return judge


def _compared(pairs: list[tuple[str, dict[str, Any]]]) -> Judged:
    """Whether the first is the faster of two, by two measures; where one of them tells nothing
    apart the other decides.
    """
    rounds = [
        [accuracy.first_below(trial) or len(trial) + 1 for trial in values["mmd"]]
        for _, values in pairs
    ]
    area = [np.mean(values["c2st"], axis=1) for _, values in pairs]
    (first, _), (second, _) = pairs
    later, worse = (difference(measure[1], measure[0]) for measure in (rounds, area))
    text = (
        f"rounds to MMD² < {accuracy.THRESHOLD}: {first} {np.mean(rounds[0]):.1f}, {second}"
        f" {np.mean(rounds[1]):.1f}, difference {later.text(1)}; C2ST averaged over rounds:"
        f" {area[0].mean():.3f} and {area[1].mean():.3f}, difference {worse.text()}"
    )
    return by_measures([above(later), above(worse)]), text


def similar_later(result: dict[str, Any]) -> Judged:
    """SPPE and SPLE after round 5."""
    verdict, text = accuracy.similar(result["panel"])
    return verdict, f"{text}; similar means within {accuracy.MARGIN:g}"


def stable(result: dict[str, Any]) -> Judged:
    """Rounds until the C2ST stays where it ends, of both methods."""
    found = {slug: accuracy.settled(result["panel"], slug) for slug in ("sppe", "sple")}
    told = joined([f"{NAMES[slug]} {accuracy.settles(r)}" for slug, r in found.items()])
    return (
        graded([r is not None and r <= PAPER_VALUES["stable"] for r in found.values()]),
        f"C2ST as in the end: {told}",
    )


def five_rounds(result: dict[str, Any]) -> Judged:
    """Rounds until the C2ST of SPLE stays where it ends, at each budget."""
    found = {
        epsilon: accuracy.settled(shown, "sple") for epsilon, shown in result["panels"].items()
    }
    told = joined([f"{accuracy.settles(r)} at ε = {epsilon}" for epsilon, r in found.items()])
    near = [r is not None and abs(r - PAPER_VALUES["rounds"]) <= ABOUT for r in found.values()]
    return graded(near), f"SPLE's C2ST is as in the end {told}"


def settles_first(result: dict[str, Any]) -> Judged:
    """Whether the C2ST of SPPE stays where it ends from an earlier round on than that of SPLE, at
    each budget.
    """
    verdicts, told = [], []
    for epsilon, shown in result["panels"].items():
        found = {slug: accuracy.settled(shown, slug) for slug in ("sppe", "sple")}
        sppe, sple = (np.inf if first is None else first for first in found.values())
        verdicts.append(UNTOLD if sppe == sple == np.inf else HOLDS if sppe < sple else NOT)
        each = [f"{NAMES[slug]} {accuracy.settles(first)}" for slug, first in found.items()]
        told.append(f"at ε = {epsilon} {joined(each)}")
    return (
        by_settings(verdicts),
        f"C2ST as in the end: {'; '.join(told)}; the paper calls SPPE rapid and stable",
    )


def ten_thousand(result: dict[str, Any]) -> Judged:
    """The C2ST of learnt posteriors against that of SMC-ABC in the round nearest to so many
    simulations: as low, or lower.
    """
    verdicts, told = [], []
    counts = abc_accuracy.means(result, "num_simulations")
    at = int(np.argmin(np.abs(np.log(counts / PAPER_VALUES["abc"]))))
    for slug, learnt in result["learnt"].items():
        gaps = [
            difference(learnt["c2st"], [t["c2st"][r] for t in result["trials"]])
            for r in range(at + 1)
        ]
        verdicts.append(_matched(gaps))
        told.append(
            f"{abc_accuracy.comes_there(result, slug)} (difference after {counts[at]:,.0f}:"
            f" {gaps[at].text()})"
        )
    return by_settings(verdicts), "; ".join(told)


def _matched(gaps: list[Gap]) -> str:
    """Lower than SMC-ABC in its last round here; or not told apart from it, where the round before
    is told to be worse.
    """
    verdict = below(gaps[-1])
    return HOLDS if verdict == UNTOLD and len(gaps) > 1 and below(gaps[-2]) == HOLDS else verdict


def fewer_layers(result: dict[str, Any]) -> Judged:
    """SPLE on SIR with the usual number of layers against fewer."""
    panels = [result["panels"]["sir"][role] for role in ("usual", "fewer")]
    return _compared([(f"{shown['layers']} layers", shown["methods"]["sple"]) for shown in panels])


def more_layers(result: dict[str, Any]) -> Judged:
    """The C2ST in the end, of the last three rounds, with more layers against the usual number:
    lower by less than the margin.
    """
    verdicts, told = [], []
    for problem, by_role in result["panels"].items():
        for slug in flow_layers.METHODS:
            gain = difference(*(accuracy.end(by_role[role], slug) for role in ("usual", "more")))
            verdicts.append(below(gain, accuracy.MARGIN))
            told.append(f"{NAMES[slug]} on {flow_layers.PROBLEMS[problem]} {gain.text()}")
    text = (
        f"C2ST over the last three rounds lower by: {'; '.join(told)}; better means by more than"
        f" {accuracy.MARGIN:g}"
    )
    return by_settings(verdicts), text


# Bias ---------------------------------------------------------------------------------------------


def closest(result: dict[str, Any]) -> Judged:
    """KS distances to DA-MCMC at ε = 10, where the paper says so, by trial: SPLE's is smaller than
    the others'.
    """
    epsilon = "10"
    mine = ks_heatmaps.by_trial(result, epsilon, "sple", "da-mcmc")
    gaps = {
        s: difference(ks_heatmaps.by_trial(result, epsilon, s, "da-mcmc"), mine)
        for s in ("smc-abc", "sppe")
    }
    told = joined([f"that of {NAMES[slug]} minus it {gap.text()}" for slug, gap in gaps.items()])
    others = [
        f"{NAMES[ks_heatmaps.nearest(result, e)]} at {e}"
        for e in result["distances"]
        if e != epsilon
    ]
    also = f"; smallest means at other ε: {joined(others)}" if others else ""
    return (
        all_of([above(gap) for gap in gaps.values()]),
        f"at ε = 10 SPLE's KS distance is {mine.mean():.3f}; {told}{also}",
    )


def biased(slug: str, epsilon: str) -> Judge:
    """Whether a mean of any coefficient is off, by size and by its Monte Carlo error; one that is
    sure is told in any case.
    """

    def judge(result: dict[str, Any]) -> Judged:
        gaps = _off(result, epsilon, slug)
        if gaps is None:
            return UNJUDGED, f"{NAMES[slug]} refused at ε = {epsilon}"
        verdict = any_of([large(gap, BIASED) for gap in gaps])
        words = {NOT: ", and a smaller bias is there", UNTOLD: ", and a bias is there"}
        sure = words.get(verdict, "") if any(abs(gap.mean) > SURE * gap.se for gap in gaps) else ""
        return (
            verdict,
            (
                f"means at ε = {epsilon} off by {_sizes(gaps)}, in exact sds; called biased beyond"
                f" {BIASED:g}{sure}; this is our implementation, the paper's is not published"
            ),
        )

    return judge


def from_exact(slug: str, epsilon: str) -> Remark:
    """The KS distance of a method to exact draws beside what these show among themselves."""

    def remark(result: dict[str, Any]) -> str:
        floor = result["floor"][epsilon]
        return (
            "its KS distance to exact draws is"
            f" {ks_heatmaps.to(result, epsilon, slug, 'exact'):.3f}, where exact draws have"
            f" {floor['mean']:.3f} (less than {floor['high']:.3f} in 95% of cases)"
        )

    return remark


def aligned(slugs: tuple[str, ...], epsilons: tuple[str, ...]) -> Judge:
    """Whether no mean is off, by method and budget; the paper's own rows are told beside, by their
    distance to its DA-MCMC.
    """

    def judge(result: dict[str, Any]) -> Judged:
        verdicts, told = [], []
        for epsilon in epsilons:
            found = {slug: _off(result, epsilon, slug) for slug in slugs}
            gaps = {
                slug: max(each, key=lambda gap: abs(gap.mean))
                for slug, each in found.items()
                if each is not None
            }
            verdicts += [
                NOT if each is None else opposite(any_of([large(g, BIASED) for g in each]))
                for each in found.values()
            ]
            told.append(
                f"ε = {epsilon}: {joined([f'{NAMES[s]} {_size(gap)}' for s, gap in gaps.items()])}"
                " (the paper's rows, from its DA-MCMC: "
                f"{joined([f'{NAMES[s]} {_printed(result, epsilon, s):.2f}' for s in slugs if s != 'da-mcmc'])})"
            )
        return (
            by_settings(verdicts),
            f"largest distance of a mean from the exact one, in exact sds, at {'; '.join(told)}",
        )

    return judge


def _printed(result: dict[str, Any], epsilon: str, slug: str) -> float:
    """The largest distance of a mean that the paper prints from that of its DA-MCMC, in exact sds."""
    sd = np.mean(result["rows"][epsilon]["exact"]["sd"], axis=0)
    mine, other = (
        np.array(regression_tables.PAPER_VALUES[epsilon][name])[:, 0] for name in (slug, "da-mcmc")
    )
    return float(np.max(np.abs(mine - other) / sd))


def _off(result: dict[str, Any], epsilon: str, slug: str) -> list[Gap] | None:
    """Distances of the three means from the exact ones, in exact sds, with errors by trials and of
    the exact means; None if refused.
    """
    rows = result["rows"][epsilon]
    if regression_tables.ours(result, epsilon, slug) is None:
        return None
    exact, sd = (np.mean(rows["exact"][name], axis=0) for name in ("mean", "sd"))
    found = [average(each) for each in ((np.array(rows[slug]["mean"]) - exact) / sd).T]
    errors = np.array(rows["exact"]["error"]["mean"]) / sd
    return [
        Gap(gap.mean, float(np.hypot(gap.se, error)), gap.num)
        for gap, error in zip(found, errors, strict=True)
    ]


def _size(gap: Gap) -> str:
    significance = "" if np.isnan(gap.se) else f" ({abs(gap.mean) / gap.se:.1f} se)"
    return f"{abs(gap.mean):.2f}{significance}"


def _sizes(gaps: list[Gap]) -> str:
    return joined([f"β{place} {_size(gap)}" for place, gap in zip("₀₁₂", gaps, strict=True)])


def farthest(slug: str, epsilons: tuple[str, ...]) -> Judge:
    """Whether a method has a larger KS distance to the exact posterior than each of the paper's
    others, by trial.
    """

    def judge(result: dict[str, Any]) -> Judged:
        verdicts, told = [], []
        for epsilon in epsilons:
            mine = ks_heatmaps.by_trial(result, epsilon, slug, "exact")
            gaps = {
                other: difference(mine, ks_heatmaps.by_trial(result, epsilon, other, "exact"))
                for other in ("da-mcmc", "smc-abc", "sppe", "sple", "gibbs-ss")
            }
            verdicts.append(all_of([above(gap) for gap in gaps.values()]))
            near = min(gaps, key=lambda other: gaps[other].mean)
            told.append(
                f"{mine.mean():.2f} at ε = {epsilon}, minus that of {NAMES[near]}, the next,"
                f" {gaps[near].text(2)}"
            )
        return (
            by_settings(verdicts),
            f"KS distance of {NAMES[slug]} to exact draws: {'; '.join(told)}",
        )

    return judge


RULES = (
    "SPPE is judged by ours, with truncated proposals; `MMD < 0.1` is judged as MMD² < 0.1."
    f" Standard errors (se) are by trials. A difference is taken by seed; where its {LEVEL:.0%}"
    f" interval, by the quantiles of t, does not decide it is `{UNTOLD}`, and one trial decides"
    " nothing. A method is called biased where the interval of the distance of a mean from the"
    f" exact one lies beyond {BIASED:g} exact sds, unbiased where all lie within; agreement is"
    f" judged method by method. C2STs within {accuracy.MARGIN:g} are similar; a C2ST is as in the"
    f" end where its mean over trials stays within {accuracy.MARGIN:g} of that over the last three"
    f" rounds, whatever its error, and `about {PAPER_VALUES['rounds']} rounds` allows one more or"
    f" less. The slope of nets may be {noise_rmse.STEEPER:g} off; one not so near, but"
    f" {noise_rmse.STEEPER:g} steeper than that of independent noise, makes the claim hold"
    f" `{PARTLY}`. A cost is of a degree in a size where a polynomial of that degree, with a"
    f" positive leading coefficient, is within {complexity.FITS:.0%} of the counted operations at"
    " all sizes, and none of a lower degree is; for n there are seconds alone, whose exponent may"
    f" be {complexity.CLOSE:g} off. Where one of two measures decides nothing the other does;"
    f" `{PARTLY}` means that a claim holds in some of its settings, by one of two measures, or in a"
    f" weaker form; `{UNJUDGED}`, that what it is about was not measured alike. The rules for"
    " orders of cost and for Gibbs-SS were changed after the results were known, and so, on a"
    " review, were those for intervals, settled rounds, agreement, layers, nets and n."
)
"""By which rules verdicts are given."""
