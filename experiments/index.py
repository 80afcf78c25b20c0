"""The pages that list all items, made from the committed results alone.

python -m experiments.index           write experiments/README.md and docs/reproduction.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments import items
from experiments.words import markdown
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
    return _PAGE + "\n".join(parts)


def main() -> None:
    records = items.records()
    write_atomically(README, readme(records), overwrite=True)
    write_atomically(PAGE, page(records), overwrite=True)
    print(f"{len(records)} of {len(items.ITEMS)} items: {README}, {PAGE}")


if __name__ == "__main__":
    main()
