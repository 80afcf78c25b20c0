"""The paper's verbal claims, each with a verdict computed from the results of the other items."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from experiments import accuracy, complexity, ks_heatmaps, outbreaks, regression_tables
from experiments.methods import NAMES
from experiments.words import joined, markdown
from noisewise._files import read_json
from noisewise.plotting.style import OKABE_ITO, PRIOR, styled

TITLE = "What the paper claims in words"
PAPER = "Sections 4 and 5 and the appendix"
QUESTION = "Which of the paper's verbal claims hold, judged by exact posteriors?"
WORK = "nothing is simulated"
PAPER_VALUES = {"sppe": 6.0, "sple": 2.0, "stable": 3, "rounds": 5, "abc": 100_000, "slope": -1.0}
"""Times faster than SMC-ABC, rounds until stable, rounds of SPLE, simulations of SMC-ABC, slope of nets."""

HOLDS, PARTLY, NOT, MISSING = "holds", "partly", "does not hold", "not yet run"
_BIASED = 0.25
_BETTER = 0.02
_ABOUT = 1

Judged = tuple[str, str]
"""A verdict and its evidence."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """What is claimed, the item by which it is judged, and how."""

    text: str
    item: str
    judge: Callable[[dict[str, Any]], Judged]


def run(scale: Any, progress: Any) -> dict[str, Any]:
    """Judge every claim by the results in the folder of the scale; nothing is simulated."""
    return {"claims": judged(scale.folder)}


def judged(folder: Path) -> list[dict[str, str]]:
    """One record per claim."""
    made = []
    for claim in CLAIMS:
        path = folder / f"{claim.item}.json"
        verdict, evidence = MISSING, f"needs {claim.item.replace('_', '-')}"
        if path.exists():
            verdict, evidence = claim.judge(read_json(path, "the result")["result"])
        made.append({"claim": claim.text, "item": claim.item, "verdict": verdict, "evidence": evidence})
    return made


def graded(parts: list[bool]) -> str:
    """All, some or none.

    >>> graded([True, False]), graded([True]), graded([False])
    ('partly', 'holds', 'does not hold')
    """
    return HOLDS if all(parts) else PARTLY if any(parts) else NOT


# Judges --------------------------------------------------------------------------------------------------------------


def faster(slug: str) -> Callable[[dict[str, Any]], Judged]:
    """Minutes of SMC-ABC over those of a method until the threshold, simulating every event."""

    def judge(result: dict[str, Any]) -> Judged:
        mine, abc = (result["methods"][name].get("trials", []) for name in (slug, "smc-abc"))
        if not mine or not all(trial["reached"] for trial in mine):
            reached = sum(trial["reached"] for trial in mine)
            return NOT, f"{NAMES[slug]} reaches MMD² < {accuracy.THRESHOLD} in {reached} of {len(mine)} trials"
        ratio = _minutes(abc) / _minutes(mine)
        bound = "" if all(trial["reached"] for trial in abc) else "at least (SMC-ABC does not always reach it) "
        text = f"{bound}{ratio:.1f} times faster in minutes, with Gillespie, against the paper's {PAPER_VALUES[slug]:g}"
        simulations = [np.mean([trial["simulations"] for trial in each]) for each in (abc, mine)]
        text += f"; {simulations[0] / simulations[1]:.1f} times fewer simulations"
        return HOLDS if ratio >= PAPER_VALUES[slug] else PARTLY if ratio > 1.0 else NOT, text

    return judge


def _minutes(found: list[dict[str, Any]]) -> float:
    return float(np.mean([t["simulation_minutes"]["gillespie"] + t["training_minutes"] for t in found]))


def converges_first(slug: str, other: str) -> Callable[[dict[str, Any]], Judged]:
    """Rounds until the threshold, and the mean C2ST over rounds, of two methods."""

    def judge(result: dict[str, Any]) -> Judged:
        return _compared([(NAMES[each], result["panel"]["methods"][each]) for each in (slug, other)])

    return judge


def _compared(pairs: list[tuple[str, dict[str, Any]]]) -> Judged:
    """Whether the first is the faster of two by both measures, or by one."""
    rounds = [_rounds(values["mmd"]) for _, values in pairs]
    area = [float(np.mean(values["c2st"])) for _, values in pairs]
    (first, _), (second, _) = pairs
    text = (
        f"rounds to MMD² < {accuracy.THRESHOLD}: {first} {rounds[0]:.1f}, {second} {rounds[1]:.1f}; "
        f"C2ST averaged over rounds: {area[0]:.3f} and {area[1]:.3f}"
    )
    return graded([rounds[0] < rounds[1], area[0] < area[1]]), text


def _rounds(trials: list[list[float]]) -> float:
    """The mean over trials of the first round below the threshold; one more than there are where none is."""
    return float(np.mean([accuracy.first_below(trial) or len(trial) + 1 for trial in trials]))


def _closest(result: dict[str, Any]) -> Judged:
    found = {epsilon: ks_heatmaps.nearest(result, epsilon) for epsilon in result["distances"]}
    told = [
        f"{NAMES[slug]} at ε = {e} (KS {ks_heatmaps.to(result, e, slug, 'da-mcmc'):.3f}, "
        f"SPLE {ks_heatmaps.to(result, e, 'sple', 'da-mcmc'):.3f})"
        for e, slug in found.items()
    ]
    return graded([slug == "sple" for slug in found.values()]), f"closest: {joined(told)}"


def biased(slug: str) -> Callable[[dict[str, Any]], Judged]:
    """The largest distance of a posterior mean from the exact one, in exact sds, at each budget."""

    def judge(result: dict[str, Any]) -> Judged:
        off = {
            epsilon: float(np.abs(regression_tables.off(result, epsilon, slug)[:, 0]).max())
            for epsilon, rows in result["rows"].items()
            if "refused" not in rows[slug]
        }
        told = joined([f"{value:.2f} at ε = {epsilon}" for epsilon, value in off.items()])
        return graded([value > _BIASED for value in off.values()]), f"means off by {told}, in exact sds"

    return judge


def _stable(result: dict[str, Any]) -> Judged:
    found = {slug: accuracy.settled(result["panel"], slug) for slug in ("sppe", "sple")}
    told = joined([f"{NAMES[slug]} from round {r}" for slug, r in found.items()])
    return graded([r <= PAPER_VALUES["stable"] for r in found.values()]), f"C2ST within .02 of its last value: {told}"


def _five_rounds(result: dict[str, Any]) -> Judged:
    found = {epsilon: accuracy.settled(shown, "sple") for epsilon, shown in result["panels"].items()}
    told = joined([f"from round {r} at ε = {epsilon}" for epsilon, r in found.items()])
    near = [abs(r - PAPER_VALUES["rounds"]) <= _ABOUT for r in found.values()]
    return graded(near), f"SPLE's C2ST stays within .02 of its last value {told}"


def _ten_thousand(result: dict[str, Any]) -> Judged:
    length = min(len(trial["c2st"]) for trial in result["trials"])
    num, c2st = (
        np.mean([trial[name][:length] for trial in result["trials"]], axis=0) for name in ("num_simulations", "c2st")
    )
    verdicts, told = [], []
    for slug, learnt in result["learnt"].items():
        enough = np.flatnonzero(c2st <= learnt["c2st"])
        needed = float(num[enough[0]]) if len(enough) else np.inf
        verdicts.append(needed >= PAPER_VALUES["abc"])
        matched = f"by SMC-ABC after {needed:,.0f}" if len(enough) else f"not by SMC-ABC within {num[-1]:,.0f}"
        told.append(
            f"{NAMES[slug]}'s C2ST {learnt['c2st']:.3f} after {learnt['num_simulations']:,.0f} is matched {matched}"
        )
    return graded(verdicts), "; ".join(told)


def _five_layers(result: dict[str, Any]) -> Judged:
    panels = result["panels"]["sir"]
    return _compared([(f"{n} layers", panels[n]["methods"]["sple"]) for n in ("8", "5")])


def _ten_layers(result: dict[str, Any]) -> Judged:
    verdicts, told = [], []
    for problem, by_layers in result["panels"].items():
        for slug in ("sppe", "sple"):
            eight, ten = (float(np.mean(by_layers[n]["methods"][slug]["c2st"], axis=0)[-1]) for n in ("8", "10"))
            verdicts.append(ten > eight - _BETTER)
            told.append(f"{NAMES[slug]} on {problem} {ten:.3f} against {eight:.3f}")
    return graded(verdicts), f"C2ST with ten layers against eight: {'; '.join(told)}"


def grows(exponents: dict[tuple[str, str], float]) -> Callable[[dict[str, Any]], Judged]:
    """The cost over the last step of each sweep, against an exponent."""

    def judge(result: dict[str, Any]) -> Judged:
        found = {(sweep["kind"], sweep["size"]): sweep for sweep in result["sweeps"]}
        last = {place: _last(found[place]) for place in exponents}
        near = [abs(last[place] - wanted) <= complexity.CLOSE for place, wanted in exponents.items()]
        told = [f"{kind} {value:.2f}" for (kind, _), value in last.items()]
        return graded(
            near
        ), f"exponent at the largest sizes: {joined(told)}; claimed {next(iter(exponents.values())):g}"

    return judge


def _last(sweep: dict[str, Any]) -> float:
    return float(sweep["seconds_last"] if sweep["operations_last"] is None else sweep["operations_last"])


def _literature(result: dict[str, Any]) -> Judged:
    verdicts, told = [], []
    for name, made in result["outbreaks"].items():
        exact, (low, high) = made["variants"]["released"]["exact"], made["literature"]
        if name != "influenza":
            verdicts.append(outbreaks.overlaps(exact, made["literature"]))
        part = exact["R0"]
        told.append(
            f"{outbreaks.SHORT[name]} {part['mean']:.2f} ({part['low']:.2f}, {part['high']:.2f}) for {low:g} to {high:g}"
        )
    return graded(verdicts), f"exact R0 and 95% interval: {'; '.join(told)}; influenza is excepted by the paper"


def _nets(result: dict[str, Any]) -> Judged:
    found = result["problems"]
    told = [f"{name} {made['RQMC']['slope']:.2f} (MC {made['MC']['slope']:.2f})" for name, made in found.items()]
    good = [made["paper_slope"] for made in found.values()]
    steeper = all(made["steeper"] and made["smaller"] for made in found.values())
    verdict = graded(good) if any(good) or not steeper else PARTLY
    return verdict, f"slopes: {joined(told)}; steeper than MC by what was asked: {'yes' if steeper else 'no'}"


def _proposition(result: dict[str, Any]) -> Judged:
    points = result["rows"] + [point for sweep in result["sweeps"].values() for point in sweep]
    held = [point["holds"] for point in points]
    ratio = [point["audit"] / point["paper"] for point in points]
    text = f"exact epsilon at most n L / m in {sum(held)} of {len(held)} settings, {min(ratio):.2f} to {max(ratio):.4f} of it"
    return graded(held), text


CLAIMS = (
    Claim("SPPE reaches MMD < 0.1 on SIR 6 times faster than SMC-ABC", "table_cost", faster("sppe")),
    Claim("SPLE reaches MMD < 0.1 on SIR 2 times faster than SMC-ABC", "table_cost", faster("sple")),
    Claim("SPPE converges faster than SPLE on SIR", "sir_accuracy", converges_first("sppe", "sple")),
    Claim("SPLE converges faster than SPPE on the regression", "regression_accuracy", converges_first("sple", "sppe")),
    Claim("of SMC-ABC, SPPE and SPLE, SPLE is the closest to DA-MCMC", "ks_heatmaps", _closest),
    Claim("Gibbs-SS is biased", "regression_tables", biased("gibbs-ss")),
    Claim("RNPE is biased", "regression_tables", biased("rnpe")),
    Claim("on the log-linear model both methods are stable by round 3", "log_linear_accuracy", _stable),
    Claim("SPLE needs about 5 rounds on SIR at ε = 1 and 0.1", "sir_accuracy_low_epsilon", _five_rounds),
    Claim("10,000 simulations of SPPE and SPLE match 100,000 of SMC-ABC", "abc_accuracy", _ten_thousand),
    Claim("5 layers are slower than 8 for SPLE on SIR", "flow_layers", _five_layers),
    Claim("10 layers are no better than 8", "flow_layers", _ten_layers),
    Claim("the cost is linear in n", "complexity", grows({("simulation", "n"): 1.0, ("noise", "n"): 1.0})),
    Claim("the cost is linear in dim(s)", "complexity", grows({("PLE", "dim_s"): 1.0, ("PPE", "dim_s"): 1.0})),
    Claim("the cost is quadratic in the units", "complexity", grows({("PLE", "units"): 2.0, ("PPE", "units"): 2.0})),
    Claim("R0 of Ebola and COVID-19 agrees with the literature", "outbreaks", _literature),
    Claim("the RMSE of nets falls as 1/M", "noise_rmse", _nets),
    Claim("a released curve is n L / m differentially private", "privacy_proposition", _proposition),
)


# Showing -------------------------------------------------------------------------------------------------------------


def table(result: dict[str, Any]) -> str:
    """One line per claim."""
    rows = [
        [each["claim"], f"**{each['verdict']}**", each["evidence"], each["item"].replace("_", "-")]
        for each in result["claims"]
    ]
    return markdown(["claim", "verdict", "evidence", "from"], rows)


@styled
def figure(result: dict[str, Any]) -> Figure:
    """Every claim with a mark in the column of its verdict."""
    verdicts = {HOLDS: OKABE_ITO[2], PARTLY: OKABE_ITO[4], NOT: OKABE_ITO[1], MISSING: PRIOR}
    claims = result["claims"]
    made, ax = plt.subplots(figsize=(7.6, 0.6 + 0.24 * len(claims)))
    for place, each in enumerate(claims):
        column = list(verdicts).index(each["verdict"])
        ax.plot(column, place, "o", color=verdicts[each["verdict"]], markersize=8.0)
    ax.set_yticks(range(len(claims)), [each["claim"] for each in claims])
    ax.set_xticks(range(len(verdicts)), list(verdicts))
    ax.xaxis.tick_top()
    ax.set(xlim=(-0.5, len(verdicts) - 0.5), ylim=(len(claims) - 0.5, -0.5))
    ax.grid(axis="y", linewidth=0.4, color=PRIOR, alpha=0.4)
    ax.tick_params(length=0.0)
    ax.spines[:].set_visible(False)
    return made


def paragraph(result: dict[str, Any]) -> str:
    """The honest paragraph."""
    counts = {v: [c["claim"] for c in result["claims"] if c["verdict"] == v] for v in (HOLDS, PARTLY, NOT, MISSING)}
    parts = [f"{verdict}: {len(found)}" for verdict, found in counts.items() if found]
    failed = f" Not confirmed: {'; '.join(counts[NOT])}." if counts[NOT] else ""
    return (
        f"Of {len(result['claims'])} claims {', '.join(parts)}.{failed} Verdicts are computed from the JSON files of the items named, "
        f"by rules that stand in `experiments/claims.py`: a method is called biased where a mean is more than {_BIASED:g} exact sds "
        f"off at every budget, better where its C2ST is more than {_BETTER:g} lower, `about {PAPER_VALUES['rounds']} rounds` allows "
        "one more or less, and `partly` means that it holds for some of the settings or by one of two measures."
    )
