"""The pages that list all items, made from the committed results alone.

python -m experiments.index           write experiments/README.md and docs/reproduction.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments import items
from experiments.methods import NAMES, method
from experiments.words import joined, markdown
from noisewise._files import write_atomically

README = Path("experiments") / "README.md"
PAGE = Path("docs") / "reproduction.md"

_README = """# Every table and figure of the paper

Each item is a module of this folder and runs by itself, from a checkout of the repository:

    noisewise reproduce --list
    noisewise reproduce sir-accuracy            5 trials of 10 rounds of 1000 simulations: what is committed
    noisewise reproduce sir-accuracy --full     20 trials, as in the paper
    noisewise reproduce all --quick             one small trial each, to runs/reproduce-quick: does everything work?

It writes `results/ITEM.json` (all numbers, with seed, versions and machine), `ITEM.md`, `ITEM.png` and `ITEM.pdf` (which is not
committed). Tables, figures and paragraphs are functions of the JSON; `python -m experiments.index` makes this page and
`docs/reproduction.md` from the JSON files, and the test suite checks that all agree.

Items share trials, which lie in `.cache/reproduce` and are never run twice. They can be made elsewhere, on a GPU for instance, and
copied:

    python -m experiments.trials --problem sir --epsilon 10 1 .1 --method sppe --seeds 1 2 3 4 5 --together --backend jax


"""

_PAGE = """# The paper, reproduced

What *Simulation-based Bayesian inference from privacy protected data* (Xiong, Ju and Zhang) reports, what this library gets, and what
the exact answer is. Posteriors are measured against draws of the exact posterior (`problem.reference`), not against SMC-ABC draws
as in the paper. All numbers on this page are formatted from the JSON files in `experiments/results/`;
`experiments/README.md` says how to make them.

*SPPE* learns with truncated proposals, the default here; *SPPE, atomic* with the paper's loss. NLOG is of a kernel estimate that
follows the scale of the draws. MMD² is the squared maximum mean discrepancy, which the paper calls MMD.

"""

PAPER_TRAINING = {"learning_rate": 5e-4, "weight_decay": 1e-4, "batch_size": 100, "patience": 20}
PAPER_VALIDATION = 0.05
_LEARNERS = ("sppe", "sppe-atomic", "sple")


def settings() -> str:
    """How the learning methods of the committed results differ from the paper's, read off their settings."""
    found = {slug: method(slug, items.STANDARD, 10.0) for slug in _LEARNERS}
    noise = "; ".join(f"{NAMES[slug]}: {each.num_noise}" for slug, each in found.items())
    training = found["sppe"].training
    pairs = {name.replace("_", " "): (getattr(training, name), paper) for name, paper in PAPER_TRAINING.items()}
    pairs["share of simulations kept for validation"] = (found["sppe"].validation_share, PAPER_VALIDATION)
    same = [f"{name} {ours:g}" for name, (ours, paper) in pairs.items() if ours == paper]
    other = [f"{name} {ours:g} (paper: {paper:g})" for name, (ours, paper) in pairs.items() if ours != paper]
    extra = f"weights averaged over steps ({training.averaging:g}), and a learning rate multiplied by {training.decay:g} on plateaus"
    return (
        f"Noisy versions of a simulation per training step (M) of {noise}. Training as in the paper: {joined(same)}. Not as in the paper: "
        f"{joined([*other, extra])}.\n\n"
    )


def readme(records: dict[str, dict[str, Any]]) -> str:
    """The table of items: where in the paper, the command, the time, the outcome."""
    rows = []
    for slug in items.ITEMS:
        module, record = items.load(slug), records.get(slug)
        name = slug.replace("_", "-")
        outcome = "not run yet" if record is None else f"[{slug}.md](results/{slug}.md)"
        seconds = "" if record is None else f"{record['seconds']:,.0f} s"
        rows.append([module.TITLE, module.PAPER, f"`noisewise reproduce {name}`", seconds, outcome])
    return _README + markdown(["item", "in the paper", "command", "time", "outcome"], rows) + "\n"


def page(records: dict[str, dict[str, Any]]) -> str:
    """The documentation: one section per item that has a result."""
    parts = []
    for slug, record in records.items():
        picture = f"![{slug}](../experiments/results/{slug}.png)"
        parts.append(f"## {items.load(slug).TITLE}\n\n{items.body(record)}\n{picture}\n")
    return _PAGE + settings() + "\n".join(parts)


def main() -> None:
    records = items.records()
    write_atomically(README, readme(records), overwrite=True)
    write_atomically(PAGE, page(records), overwrite=True)
    print(f"{len(records)} of {len(items.ITEMS)} items: {README}, {PAGE}")


if __name__ == "__main__":
    main()
