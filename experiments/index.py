"""All that is shown of the committed results, made from their JSON files alone.

python -m experiments.index           write pages and figures of results, experiments/README.md and
docs/reproduction.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments import items
from experiments.methods import NAMES, method
from experiments.words import joined, markdown
from noisewise._core.files import write_atomically

README = Path("experiments") / "README.md"
PAGE = Path("docs") / "reproduction.md"

_README = """# Every table and figure of the paper

Each item is a module of this folder and runs by itself, from a checkout of the repository, in the environment that `make install` makes:

    make install && . .venv/bin/activate
    noisewise reproduce --list
    noisewise reproduce sir-accuracy            5 trials of 10 rounds of 1000 simulations: what is committed
    noisewise reproduce sir-accuracy --full     20 trials, as in the paper
    noisewise reproduce all --quick             one small trial each, to runs/reproduce-quick: does everything work?

It writes `results/ITEM.json` (all numbers, with seed, versions and machine), `ITEM.md`, `ITEM.png` and `ITEM.pdf` (which is not
committed), in place of what is committed, so that `git diff` compares, or elsewhere with `--out`. Trials of one seed are the same on
one machine and one version of JAX; elsewhere their last digits differ and grow in training, so that trials agree as other seeds do.
Tables, figures and paragraphs are functions of the JSON; `python -m experiments.index` makes them all anew, this page and
`docs/reproduction.md` too, and the test suite checks that all agree.

Items share trials, which lie in `.cache/reproduce` and are never run twice; the times below are what an item took, and what the trials
that it found there had taken (a trial that trained beside others on a GPU counts with its share). They can be made elsewhere, on a GPU
for instance, and copied:

    python -m experiments.trials --problem sir --epsilon 10 1 .1 --method sppe --seeds 1 2 3 4 5 --together --backend jax


"""

_PAGE = """# The paper, reproduced

What *Simulation-based Bayesian inference from privacy protected data* (Xiong, Ju and Zhang) reports, what this library gets, and what
the exact answer is. Posteriors are measured against draws of the exact posterior (`problem.reference`), not against SMC-ABC draws
as in the paper. All numbers on this page are formatted from the JSON files in `experiments/results/`;
`experiments/README.md` says how to make them.

Tables have means over trials, with ± standard deviations or [quartiles] (of five trials the second and the fourth value, which need not
enclose the mean) or, in brackets, 95% intervals; in sentences ± is a standard error. Figures of draws show the first trial. *Sources* in
the line below each item is a hash of the package that ran it, and of those that ran its stored trials: one per method, problem, ε and
seed.

| method | |
|---|---|
| SPPE | sequential private posterior estimation, with truncated proposals, the default here |
| SPPE, atomic | the same with the paper's atomic loss |
| SPLE | sequential private likelihood estimation |
| SMC-ABC | sequential Monte Carlo approximate Bayesian computation |
| DA-MCMC | data augmentation Markov chain Monte Carlo over all confidential records |
| Gibbs-SS | Gibbs sampling with sufficient statistics, by normal approximations |
| RNPE | robust neural posterior estimation, which does not know the mechanism |
| ExactSMC, CLE | tempered sequential Monte Carlo on the mechanism's density; confidential likelihood estimation: ours |

| measure | | best |
|---|---|---|
| C2ST | accuracy of a classifier that tells draws from exact ones | 0.5 |
| MMD² | squared maximum mean discrepancy to exact draws, unbiased; the paper calls it MMD | 0, within ±0.0005 |
| KS | largest distance of marginal distribution functions | that of exact draws |
| NLOG | minus the log density of draws at the true parameters, by a kernel estimate that follows their scale | that of exact draws |
| LMD | log of the median distance of data simulated at draws from the observation | that of exact draws |

"""

PAPER_TRAINING = {"learning_rate": 5e-4, "weight_decay": 1e-4, "batch_size": 100, "patience": 20}
PAPER_VALIDATION = 0.05
_LEARNERS = ("sppe", "sppe-atomic", "sple")


def settings() -> str:
    """How the learning methods of the committed results differ from the paper's, read off their
    settings.
    """
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
    extra = (
        f"weights averaged over steps ({training.averaging:g}), and a learning rate multiplied by"
        f" {training.decay:g} on plateaus"
    )
    return (
        f"M, the number of noisy versions of a simulation in a training step: {noise}. Training as"
        f" in the paper: {joined(same)}. Not as in the paper: {joined([*other, extra])}.\n\n"
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
    """The documentation: one section per item that has a result."""
    parts = []
    for slug, record in records.items():
        picture = f"![{items.load(slug).TITLE}](../experiments/results/{slug}.png)"
        parts.append(f"## {items.load(slug).TITLE}\n\n{items.body(record)}\n{picture}\n")
    return _PAGE + settings() + "\n".join(parts)


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
