"""The paper's verbal claims, each with a verdict computed from the results of the other items."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments import formula_judges, judges
from experiments.judges import PAPER_VALUES as PAPER_VALUES
from experiments.methods import NAMES
from experiments.verdicts import HOLDS, MISSING, NOT, PARTLY, UNJUDGED, UNTOLD
from experiments.words import markdown
from noisewise._core.json_files import read_json
from noisewise.errors import InvalidInputError
from noisewise.plotting.style import OKABE_ITO, PRIOR, styled

TITLE = "What the paper claims in words"
PAPER = "Sections 4 and 5 and the appendix"
QUESTION = "Which of the paper's verbal claims hold, judged by exact posteriors?"
WORK = "nothing is simulated"


@dataclasses.dataclass(frozen=True)
class Claim:
    """What is claimed, the item by which it is judged, and how; and what other items add to the
    evidence.
    """

    text: str
    item: str
    judge: judges.Judge
    remarks: dict[str, judges.Remark] = dataclasses.field(default_factory=dict)


_AGREEING = ("da-mcmc", "smc-abc", "sppe", "sple")
CLAIMS = (
    Claim(
        "SPPE reaches MMD < 0.1 on SIR 6 times faster than SMC-ABC",
        "table_cost",
        judges.faster("sppe"),
    ),
    Claim(
        "SPLE reaches MMD < 0.1 on SIR 2 times faster than SMC-ABC",
        "table_cost",
        judges.faster("sple"),
    ),
    Claim(
        "SPPE converges faster than SPLE on SIR",
        "sir_accuracy",
        judges.converges_first("sppe", "sple"),
    ),
    Claim(
        "SPPE and SPLE have similar accuracy on SIR after round 5",
        "sir_accuracy",
        judges.similar_later,
    ),
    Claim(
        "SPLE converges faster than SPPE on the regression",
        "regression_accuracy",
        judges.converges_first("sple", "sppe"),
    ),
    Claim(
        "of SMC-ABC, SPPE and SPLE, SPLE is the closest to DA-MCMC at ε = 10",
        "ks_heatmaps",
        judges.closest,
    ),
    Claim(
        "SPPE, SPLE, SMC-ABC and DA-MCMC agree at ε = 10",
        "regression_tables",
        judges.aligned(_AGREEING, ("10",)),
    ),
    *(
        Claim(
            f"{NAMES[slug]} is biased at ε = 10",
            "regression_tables",
            judges.biased(slug, "10"),
            {"ks_heatmaps": judges.from_exact(slug, "10")},
        )
        for slug in ("gibbs-ss", "rnpe")
    ),
    Claim(
        "these four and Gibbs-SS are closely aligned at ε = 1 and 0.1",
        "regression_tables",
        judges.aligned((*_AGREEING, "gibbs-ss"), ("1", "0.1")),
    ),
    Claim(
        "RNPE is farther off than all others at ε = 1 and 0.1",
        "ks_heatmaps",
        judges.farthest("rnpe", ("1", "0.1")),
    ),
    Claim(
        "on the log-linear model both methods are stable by round 3",
        "log_linear_accuracy",
        judges.stable,
    ),
    Claim(
        "SPLE needs about 5 rounds on SIR at ε = 1 and 0.1",
        "sir_accuracy_low_epsilon",
        judges.five_rounds,
    ),
    Claim(
        "SPPE settles before SPLE on SIR at ε = 1 and 0.1",
        "sir_accuracy_low_epsilon",
        judges.settles_first,
    ),
    Claim(
        "10,000 simulations of SPPE and SPLE match or beat about 100,000 of SMC-ABC",
        "abc_accuracy",
        judges.ten_thousand,
    ),
    Claim("5 layers are slower than 8 for SPLE on SIR", "flow_layers", judges.fewer_layers),
    Claim("10 layers are no better than 8", "flow_layers", judges.more_layers),
    Claim("the cost is linear in n", "complexity", formula_judges.linear_in_records),
    Claim("the cost is linear in dim(s)", "complexity", formula_judges.grows("dim_s", 1)),
    Claim("the cost is linear in dim(theta)", "complexity", formula_judges.grows("dim_theta", 1)),
    Claim("the cost is quadratic in the units", "complexity", formula_judges.grows("units", 2)),
    Claim(
        "R0 of Ebola and COVID-19 agrees with the literature",
        "outbreaks",
        formula_judges.literature,
    ),
    Claim("the RMSE of nets falls approximately as 1/M", "noise_rmse", formula_judges.nets),
    Claim(
        "a released curve is n L / m differentially private",
        "privacy_proposition",
        formula_judges.proposition,
    ),
)


def run(scale: Any, progress: Any) -> dict[str, Any]:
    """Judge every claim by the results in the folder of the scale; nothing is simulated."""
    found = judged(scale.folder)
    if all(each["verdict"] == MISSING for each in found):
        raise InvalidInputError(
            f"There is nothing to judge claims by in {scale.folder}: run other items first, or all"
            " (noisewise reproduce --list)."
        )
    return {"claims": found}


def of_item(slug: str, result: dict[str, Any]) -> list[dict[str, str]]:
    """The claims that are judged by one item."""
    found = [(claim, *claim.judge(result)) for claim in CLAIMS if claim.item == slug]
    return [
        {"claim": claim.text, "item": slug, "verdict": v, "evidence": evidence}
        for claim, v, evidence in found
    ]


def judged(folder: Path) -> list[dict[str, str]]:
    """One record per claim."""
    made = []
    for claim in CLAIMS:
        verdict, evidence = MISSING, f"needs {claim.item.replace('_', '-')}"
        if (result := _result(folder, claim.item)) is not None:
            verdict, evidence = claim.judge(result)
            others = {slug: _result(folder, slug) for slug in claim.remarks}
            remarks = [
                claim.remarks[slug](found) for slug, found in others.items() if found is not None
            ]
            evidence = "; ".join([evidence, *remarks])
        made.append(
            {"claim": claim.text, "item": claim.item, "verdict": verdict, "evidence": evidence}
        )
    return made


def _result(folder: Path, slug: str) -> dict[str, Any] | None:
    path = folder / f"{slug}.json"
    return dict(read_json(path, "the result")["result"]) if path.exists() else None


# Showing ------------------------------------------------------------------------------------------


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
    verdicts = {
        HOLDS: OKABE_ITO[2],
        PARTLY: OKABE_ITO[4],
        NOT: OKABE_ITO[1],
        **dict.fromkeys((UNTOLD, UNJUDGED, MISSING), PRIOR),
    }
    claims = result["claims"]
    made, ax = plt.subplots(figsize=(9.6, 0.9 + 0.24 * len(claims)))
    for place, each in enumerate(claims):
        column = list(verdicts).index(each["verdict"])
        ax.plot(column, place, "o", color=verdicts[each["verdict"]], markersize=8.0)
    ax.set_yticks(range(len(claims)), [each["claim"] for each in claims])
    ax.set_xticks(range(len(verdicts)), [verdict.replace(" ", "\n") for verdict in verdicts])
    ax.xaxis.tick_top()
    ax.set(xlim=(-0.5, len(verdicts) - 0.5), ylim=(len(claims) - 0.5, -0.5))
    ax.grid(axis="y", linewidth=0.4, color=PRIOR, alpha=0.4)
    ax.tick_params(length=0.0)
    ax.spines[:].set_visible(False)
    return made


def paragraph(result: dict[str, Any]) -> str:
    """The honest paragraph."""
    verdicts = (HOLDS, PARTLY, NOT, UNTOLD, UNJUDGED, MISSING)
    counts = {v: [c["claim"] for c in result["claims"] if c["verdict"] == v] for v in verdicts}
    parts = [f"{verdict}: {len(found)}" for verdict, found in counts.items() if found]
    failed = f" Not confirmed: {'; '.join(counts[NOT])}." if counts[NOT] else ""
    return (
        f"Of {len(result['claims'])} claims {', '.join(parts)}.{failed} Verdicts are computed from"
        " the JSON files of the items named, by rules that stand in `experiments/judges.py` and"
        f" `experiments/formula_judges.py`. {judges.RULES}"
    )
