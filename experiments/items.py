"""What can be reproduced, at which scale, and how a result is written.

An item is a module of this folder:

    TITLE, PAPER, QUESTION          what it shows, where the paper shows it, what is claimed there
    PAPER_VALUES                    the numbers that the paper prints (where it prints any)
    WORK                            what is done, in words, where that is not trials of rounds
    run(scale, progress) -> dict    the work; JSON-ready, all that the rest needs
    table(result) -> str            Markdown
    figure(result) -> Figure
    paragraph(result) -> str        the paper's answer, ours, the exact one, and why they differ

The last three are pure functions of the result, so that all that is shown can be made anew from the
JSON.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import noisewise as nw
from experiments.plain import compact_json, plain
from noisewise._core.files import write_atomically
from noisewise._core.json_files import read_json
from noisewise.errors import InvalidInputError

Progress = Callable[[str], None]
"""Told in a few words what is being done."""

RESULTS = Path("experiments") / "results"
QUICK_RESULTS = Path("runs") / "reproduce-quick"

ITEMS: dict[str, str] = {
    slug: f"experiments.{slug}"
    for slug in (
        "sir_posteriors_by_round",
        "sir_accuracy",
        "ks_heatmaps",
        "table_cost",
        "sir_scatter",
        "abc_accuracy",
        "sir_marginals",
        "sir_accuracy_low_epsilon",
        "regression_accuracy",
        "regression_scatter",
        "regression_epsilons",
        "regression_tables",
        "log_linear_accuracy",
        "log_linear_marginals",
        "flow_layers",
        "outbreaks",
        "outbreak_coverage",
        "noise_rmse",
        "complexity",
        "privacy_proposition",
        "claims",
    )
}
"""Slugs and modules, in the order in which they are run and shown."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much work: `trials` trials of `rounds` rounds of `num_simulations`, flows of `layers` x
    `hidden`.

    `max_epochs` bounds the training of one round; None leaves it to the method. `folder` is where
    results lie, `cache` where finished trials do.
    """

    name: str
    trials: int
    rounds: int
    num_simulations: int
    layers: int = 8
    hidden: int = 50
    max_epochs: int | None = None
    num_draws: int = 2000
    seed: int = 1
    folder: Path = RESULTS
    cache: Path = Path(".cache") / "reproduce"

    @property
    def store(self) -> Path:
        """Where trials lie; those of a full run go on from those of a standard one."""
        return self.cache / ("standard" if self.name == "full" else self.name)

    @property
    def seeds(self) -> tuple[int, ...]:
        """One per trial."""
        return tuple(range(self.seed, self.seed + self.trials))

    @property
    def quick(self) -> bool:
        """Whether this only shows that everything works."""
        return self.name not in ("standard", "full")

    def settings(self) -> dict[str, Any]:
        """JSON-ready, without the folders."""
        return {
            name: value for name, value in vars(self).items() if name not in ("folder", "cache")
        }


QUICK = Scale(
    "quick", 1, 3, 200, layers=2, hidden=20, max_epochs=15, num_draws=500, folder=QUICK_RESULTS
)
STANDARD = Scale("standard", 5, 10, 1000)
FULL = Scale("full", 20, 10, 1000)


def load(slug: str) -> Any:
    """The module of an item; dashes are as good as underscores."""
    return importlib.import_module(ITEMS[slug.replace("-", "_")])


def silent(text: str) -> None:
    """Progress that nobody wants to see."""


# Running ------------------------------------------------------------------------------------------


_USED: list[dict[str, Any]] = []


def note(record: dict[str, Any]) -> None:
    """Tell the runner that a stored or new trial takes part in the item that is being run."""
    _USED.append(record)


def reproduce(slug: str, scale: Scale, progress: Progress = silent) -> dict[str, Any]:
    """Run an item and write ITEM.json, .md, .png and .pdf to `scale.folder`; returns the record in
    the JSON file.
    """
    slug = slug.replace("-", "_")
    module, started = load(slug), time.perf_counter()
    _USED.clear()
    result = module.run(scale, progress)
    seconds = time.perf_counter() - started
    record: dict[str, Any] = plain(
        {**provenance(slug, scale), "trials": _origins(), "seconds": seconds, "result": result}
    )
    write(record, scale.folder)
    return record


def provenance(slug: str, scale: Scale) -> dict[str, Any]:
    """How a result came about."""
    import jax

    versions = {"noisewise": nw.__version__, "jax": jax.__version__, "numpy": np.__version__}
    return {
        "item": slug,
        "scale": scale.settings(),
        "seed": scale.seed,
        "versions": {**versions, "python": platform.python_version()},
        "hardware": hardware(),
        "source": source_hash(),
    }


def _origins() -> dict[str, Any]:
    """What made the trials that were used: they may be older than the item, and of other machines."""
    return {
        "number": len({_identity(record) for record in _USED}),
        "sources": sorted({record["source"] for record in _USED}),
        "hardware": sorted({record["hardware"] for record in _USED}),
        "seconds": sum({_identity(record): _seconds(record) for record in _USED}.values()),
    }


def _seconds(record: dict[str, Any]) -> float:
    """How long a trial took, all rounds."""
    each = [part.get("seconds", 0.0) for part in record["rounds"]]
    return float(sum(sum(part.values()) if isinstance(part, Mapping) else part for part in each))


def _identity(record: dict[str, Any]) -> str:
    return json.dumps([record[name] for name in ("problem", "epsilon", "method", "seed", "layers")])


def hardware() -> str:
    """The machine in words."""
    import jax

    device = jax.devices()[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processor = f"{cores} CPU core{'' if cores == 1 else 's'} ({platform.machine()})"
    return processor if device.platform == "cpu" else f"{device.device_kind} GPU, {processor}"


def source_hash() -> str:
    """The version of the code: a hash of the sources of noisewise, which are not always in a
    repository where this runs.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(nw.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# Results ------------------------------------------------------------------------------------------


def write(record: Mapping[str, Any], folder: Path) -> None:
    """The record as JSON, the page as Markdown, the figure as PNG and PDF; each whole or not at
    all.
    """
    slug, result = record["item"], record["result"]
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in pictures(load(slug).figure(result)).items():
        write_atomically(folder / f"{slug}.{name}", content, overwrite=True)
    write_atomically(folder / f"{slug}.md", page(record), overwrite=True)
    write_atomically(folder / f"{slug}.json", compact_json(record), overwrite=True)


def pictures(figure: Any) -> dict[str, bytes]:
    """A figure as PNG and PDF, without a date: the same figure gives the same bytes."""
    import matplotlib.pyplot as plt

    made = {}
    for name, metadata in (
        ("png", {"Software": None}),
        ("pdf", {"CreationDate": None, "Producer": None}),
    ):
        file = io.BytesIO()
        figure.savefig(file, format=name, dpi=150, metadata=metadata)
        made[name] = file.getvalue()
    plt.close(figure)
    return made


def page(record: Mapping[str, Any]) -> str:
    """What ITEM.md holds, a function of what ITEM.json holds."""
    slug = record["item"]
    return f"# {load(slug).TITLE}\n\n{body(record)}\n![{load(slug).TITLE}]({slug}.png)\n"


def body(record: Mapping[str, Any]) -> str:
    """What is in question, the table, what comes of it, and the verdicts on the paper's claims
    about it.
    """
    module, result = load(record["item"]), record["result"]
    parts = [
        f"{module.PAPER}. *In question:* {module.QUESTION}",
        module.table(result).strip(),
        module.paragraph(result).strip(),
        verdicts(record),
        made_by(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdicts(record: Mapping[str, Any]) -> str:
    """What the item says of the paper's claims; nothing of small trials."""
    from experiments.claims import of_item

    judged = (
        [] if record["scale"]["name"] == QUICK.name else of_item(record["item"], record["result"])
    )
    told = [f"{each['claim']}: **{each['verdict']}**" for each in judged]
    return f"*Claimed, and what comes of it here:* {'; '.join(told)}." if told else ""


def made_by(record: Mapping[str, Any]) -> str:
    """One line: the command, its scale, the versions, the machine."""
    scale, versions = record["scale"], record["versions"]
    flag = {"standard": "", "full": " --full"}.get(scale["name"], " --quick")
    seed = "" if record["seed"] == STANDARD.seed else f" --seed {record['seed']}"
    trials = f"{scale['trials']} trial{'' if scale['trials'] == 1 else 's'}"
    sizes = (
        f"{scale['num_simulations']:,} simulations, flows of {scale['layers']} layers of"
        f" {scale['hidden']} units"
    )
    work = (
        getattr(load(record["item"]), "WORK", None)
        or f"{trials} of {scale['rounds']} rounds of {sizes}"
    )
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    origins = record["trials"]
    hours = f" of {origins['seconds'] / 3600.0:.1f} hours in all" if origins.get("seconds") else ""
    made = (
        f"; {origins['number']} stored trials{hours}, by sources {', '.join(origins['sources'])} on"
        f" {'; '.join(origins['hardware'])}"
    )
    return (
        f"*`noisewise reproduce {record['item'].replace('_', '-')}{flag}{seed}`: {work}, seed"
        f" {record['seed']}; {packages}; {record['hardware']}; sources"
        f" {record['source']}{made if origins['number'] else ''}.*"
    )


def result(scale: Scale, slug: str) -> dict[str, Any]:
    """The result of another item at the same scale, which must have been run before."""
    path = scale.folder / f"{slug}.json"
    if not path.exists():
        raise InvalidInputError(
            f"This needs {path}: run noisewise reproduce {slug.replace('_', '-')} first."
        )
    found: dict[str, Any] = read_json(path, "the result")["result"]
    return found


def records(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The records of all items that have one, in order."""
    paths = {slug: folder / f"{slug}.json" for slug in ITEMS}
    return {slug: json.loads(path.read_text()) for slug, path in paths.items() if path.exists()}
