"""All that is shown of the committed results, made from their JSON files alone.

python -m experiments.index           write pages and figures of results, experiments/README.md and
docs/reproduction.md
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import items
from experiments.claims import of_item
from experiments.methods import NAMES, method
from experiments.verdicts import HOLDS, MISSING, NOT, PARTLY, UNJUDGED, UNTOLD
from experiments.words import joined, markdown
from noisewise._core.files import write_atomically

README = Path("experiments") / "README.md"
PAGE = Path("docs") / "reproduction.md"
CLAIMS = "claims"
"""The item whose result the page opens with."""
MAIN = "table_cost"
"""The item that judges the paper's main claim."""
SENTENCES = {
    "sir_posteriors_by_round": (0,),
    "sir_accuracy": (1, 3),
    "ks_heatmaps": (0,),
    "table_cost": (0, 2),
    "regression_epsilons": (1,),
    "regression_tables": (1, 2),
    "outbreaks": (2, 7),
    "outbreak_coverage": (1, 2),
    "noise_rmse": (1, 3),
}
"""The sentences of an item's paragraph that its section shows, where they are not the first two:
those that answer its question, misses included."""

_README = """# Every table and figure of the paper

Each item is a module of this folder. It runs by itself, from a checkout of the repository:

    make install && . .venv/bin/activate
    noisewise reproduce --list
    noisewise reproduce sir-accuracy            # 5 trials of 10 rounds of 1000 simulations: what is committed
    noisewise reproduce sir-accuracy --full     # 20 trials, as in the paper
    noisewise reproduce all --quick             # one small trial each, to runs/reproduce-quick: does everything work?

It writes `results/ITEM.json` (all numbers, with seed, versions and machine), `ITEM.md`, `ITEM.png` and `ITEM.pdf` (not committed) over
what is committed, so that `git diff` compares. `--out` writes them elsewhere. Trials of one seed are the same on one machine and one version
of JAX. Elsewhere their last digits differ, and training makes these differences grow: such trials agree as trials of different seeds do.

Tables, figures and paragraphs are functions of the JSON. `python -m experiments.index` makes all of them again, with this page and
[the summary](../docs/reproduction.md), and the tests check that they agree.

Items share trials, which lie in `.cache/reproduce` and are never run twice. The times below are those of the item and of the trials
that it found there (a trial that trained beside others on a GPU counts with its share). Trials can be made on another machine, for
example on a GPU, and copied:

    python -m experiments.trials --problem sir --epsilon 10 1 .1 --method sppe --seeds 1 2 3 4 5 --together --backend jax


"""

_PAGE = """# The paper, reproduced

Every table and figure of *Simulation-based Bayesian inference from privacy protected data* (Xiong, Ju and Zhang), made again with
noisewise. Posteriors are measured against draws of the exact posterior (`problem.reference`); the paper measures against SMC-ABC draws.
For SIR these are exact in the limit of a large population: with a million people that moves means by .01 posterior sds at most, and sds by
1.4%.

"""

_CAVEATS = """- Gillespie's simulator makes one event after the other. The leap makes many at once: it is nearly exact and much faster, so that fewer
  simulations save little time.
- Most items have five trials where the paper has 20; one trial alone decides nothing.
- Gibbs-SS and RNPE are our implementations, because the paper's are not published.
- SPPE is ours, with truncated proposals, and `MMD < 0.1` is judged as MMD² < 0.1.
- Some of the rules were changed after the results were known; [the list of claims](../experiments/results/claims.md) says which.
"""

_TERMS = """## Terms

| method | |
|---|---|
| SPPE | sequential private posterior estimation, with truncated proposals, the default here |
| SPPE, atomic | the same with the paper's atomic loss |
| SPLE | sequential private likelihood estimation |
| SMC-ABC | sequential Monte Carlo approximate Bayesian computation |
| DA-MCMC | data augmentation Markov chain Monte Carlo over all confidential records |
| Gibbs-SS | Gibbs sampling with sufficient statistics, by normal approximations |
| RNPE | robust neural posterior estimation, which does not know the mechanism |
| ExactSMC, CLE | new here: tempered sequential Monte Carlo on the mechanism's density; confidential likelihood estimation |

| measure | | best |
|---|---|---|
| C2ST | accuracy of a classifier that separates draws from exact ones | 0.5 |
| MMD² | squared maximum mean discrepancy to exact draws, unbiased; the paper calls it MMD | 0, within ±0.0005 |
| KS | largest distance between marginal distribution functions | that of exact draws |
| NLOG | minus the log density of draws at the true parameters, by a kernel estimate that follows their scale | that of exact draws |
| LMD | log of the median distance between the observation and data simulated at draws | that of exact draws |

In tables ± is a standard deviation over trials, [..] are quartiles (of five trials the second and the fourth value, which need not enclose
the mean), and (..) are 95% intervals. In sentences ± is a standard error. Figures of draws show the first trial.

"""

PAPER_TRAINING = {"learning_rate": 5e-4, "weight_decay": 1e-4, "batch_size": 100, "patience": 20}
PAPER_VALIDATION = 0.05
_LEARNERS = ("sppe", "sppe-atomic", "sple")


def settings() -> str:
    """How the settings of learning methods differ from the paper's."""
    found = {slug: method(slug, items.STANDARD, 10.0) for slug in _LEARNERS}
    noise = "; ".join(f"{NAMES[slug]}: {each.num_noise}" for slug, each in found.items())
    training = found["sppe"].training
    pairs = {
        name.replace("_", " "): (getattr(training, name), paper)
        for name, paper in PAPER_TRAINING.items()
    }
    pairs["share of simulations kept for validation"] = (
        found["sppe"].validation_share,
        PAPER_VALIDATION,
    )
    same = [f"{name} {ours:g}" for name, (ours, paper) in pairs.items() if ours == paper]
    other = [
        f"{name} {ours:g} (paper: {paper:g})"
        for name, (ours, paper) in pairs.items()
        if ours != paper
    ]
    extra = [
        f"weights averaged over steps ({training.averaging:g})",
        f"a learning rate multiplied by {training.decay:g} on plateaus",
    ]
    return (
        f"M, the number of noisy versions of a simulation in a training step: {noise}. Training as"
        f" in the paper: {joined(same)}. Different from the paper: {joined([*other, *extra])}.\n\n"
    )


def readme(records: dict[str, dict[str, Any]]) -> str:
    """The table of items: where in the paper, the command, the time, the outcome."""
    rows = []
    for slug in items.ITEMS:
        module, record = items.load(slug), records.get(slug)
        name = slug.replace("_", "-")
        outcome = "not run yet" if record is None else f"[{slug}.md](results/{slug}.md)"
        seconds = "" if record is None else _times(record)
        rows.append([module.TITLE, module.PAPER, f"`noisewise reproduce {name}`", seconds, outcome])
    return _README + markdown(["item", "in the paper", "command", "time", "outcome"], rows) + "\n"


def _times(record: dict[str, Any]) -> str:
    """Of the item, and of the trials that it found in the store."""
    trials = record["trials"].get("seconds", 0.0)
    own = f"{record['seconds']:,.0f} s"
    return f"{own}, trials {trials / 3600.0:.1f} h" if trials else own


def page(records: dict[str, dict[str, Any]]) -> str:
    """The documentation: what became of the claims, then each item that has a result."""
    sections = [section(record) for slug, record in records.items() if slug != CLAIMS]
    each = "## Item by item\n\n" + "\n".join(sections) + "\n" if sections else ""
    return _PAGE + in_short(records) + each + _TERMS + settings().rstrip() + "\n"


def in_short(records: dict[str, dict[str, Any]]) -> str:
    """How many claims hold and which, with the caveats; nothing where claims were not judged."""
    if CLAIMS not in records:
        return ""
    judged = records[CLAIMS]["result"]["claims"]
    counts = _ordered(Counter(each["verdict"] for each in judged))
    found = joined([f"{number} {_words(verdict, number)}" for verdict, number in counts])
    rows = [
        [
            each["claim"],
            f"**{each['verdict']}**",
            f"[{each['item'].replace('_', '-')}](../{items.RESULTS}/{each['item']}.md)",
        ]
        for each in judged
    ]
    table = markdown(["claim", "verdict", "judged by"], rows).replace("--:", "---")
    return (
        f"**Of {len(judged)} claims of the paper {found}.** Verdicts follow from the numbers by fixed"
        f" rules. [The evidence for each](../{items.RESULTS}/{CLAIMS}.md) is a page of its own.\n\n"
        f"{headlines(judged)}{_CAVEATS}\n## The paper's claims\n\n{table}\n\n"
    )


def headlines(judged: list[dict[str, str]]) -> str:
    """The paper's main claim, and those that do not hold, with their evidence."""
    chosen = [each for each in judged if each["item"] == MAIN or each["verdict"] == NOT]
    return "".join(
        f"- {each['claim']}: **{each['verdict']}**. Here: {each['evidence']}.\n" for each in chosen
    )


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    order = (HOLDS, PARTLY, NOT, UNTOLD, UNJUDGED, MISSING)
    return [(verdict, counts[verdict]) for verdict in order if counts[verdict]]


def _words(verdict: str, number: int) -> str:
    """A verdict as a verb.

    >>> _words("holds", 10), _words("holds", 1), _words("undecided", 2)
    ('hold', 'holds', 'are undecided')
    """
    one = number == 1
    return {
        HOLDS: "holds" if one else "hold",
        PARTLY: "holds in part" if one else "hold in part",
        NOT: "does not hold" if one else "do not hold",
        UNTOLD: "is undecided" if one else "are undecided",
    }.get(verdict, verdict)


def section(record: dict[str, Any]) -> str:
    """An item: its question, what was found, its picture, and where its tables are."""
    slug, result = record["item"], record["result"]
    module, command = items.load(slug), slug.replace("_", "-")
    claims = [f"{each['claim']}: **{each['verdict']}**" for each in of_item(slug, result)]
    parts = [
        f"### {module.TITLE}",
        f"{module.PAPER}. *In question:* {module.QUESTION}",
        opening(module.paragraph(result), SENTENCES.get(slug, (0, 1))),
        f"*Claims:* {'; '.join(claims)}." if claims else "",
        f"![{module.TITLE}](../{items.RESULTS}/{slug}.png)",
        (
            f"[Tables and details](../{items.RESULTS}/{slug}.md),"
            f" [numbers](../{items.RESULTS}/{slug}.json); `noisewise reproduce {command}`."
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def opening(text: str, numbers: Sequence[int]) -> str:
    """The sentences of a paragraph with these numbers.

    >>> opening("SPPE needs 1.8 rounds. SPLE needs 1.4. Both are quick.", (0, 2))
    'SPPE needs 1.8 rounds. Both are quick.'
    """
    parts = re.split(r"(?<=[.])\s+(?=[A-Z0-9])", text.strip())
    return " ".join(parts[i] for i in numbers if i < len(parts))


def main() -> None:
    """Every page and figure, from the JSON files."""
    import matplotlib

    matplotlib.use("Agg")
    records = items.records()
    for record in records.values():
        items.write(record, items.RESULTS)
    write_atomically(README, readme(records), overwrite=True)
    write_atomically(PAGE, page(records), overwrite=True)
    print(f"{len(records)} of {len(items.ITEMS)} items: {README}, {PAGE}")


if __name__ == "__main__":
    main()
