"""Trials that several items share: one method on one problem, measured after every round, stored as
soon as it is done.

    python -m experiments.trials --problem sir --epsilon 10 1 .1 --method sppe --seeds 1 2 3 4 5 --together --backend jax
    python -m experiments.trials --problem linear_regression --epsilon 10 --method sple --seeds 1 2 3 4 5

fills the store, a folder of files PROBLEM-EPSILON-METHOD-SEED.json and .npz that may be copied from
machine to machine. What is there is not run again. With --together the trials train side by side,
which is how a GPU wants them (SPPE only); with --measure-later the metrics, which want a CPU, are
left to whoever reads the trial first.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import itertools
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import noisewise as nw
from experiments.items import (
    FULL,
    QUICK,
    STANDARD,
    Progress,
    Scale,
    hardware,
    note,
    silent,
    source_hash,
)
from experiments.measures import measured, measures_hash, spaced
from experiments.methods import NAMES, method
from experiments.plain import compact_json, plain
from experiments.stopwatch import Stopwatch, training_timed
from noisewise._core.files import write_atomically
from noisewise.errors import InvalidInputError, MissingCapabilityError

PROBLEMS = ("sir", "linear_regression", "log_linear")
ONCE = ("exact", "confidential", "naive")
"""What has no trials: one seed stands for all."""
REFERENCE, NUM_EXACT, NUM_REFERENCE = jax.random.key(99), 22_000, 2000
ROW, NUM_ROW, NUM_BATCHES = jax.random.key(97), 100_000, 50


@dataclasses.dataclass(frozen=True)
class Trial:
    """`record` is JSON-ready; `draws` (R, 2000, d) are of the posterior after each round, `theta`
    some of the parameters that each round simulated.
    """

    record: dict[str, Any]
    draws: np.ndarray
    theta: tuple[np.ndarray, ...]

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """One record per round."""
        found: list[dict[str, Any]] = self.record["rounds"]
        return found

    @property
    def final(self) -> np.ndarray:
        """The draws after the last round."""
        return np.asarray(self.draws[-1])

    @property
    def unmeasured(self) -> bool:
        """Whether the metrics are still to be taken, or were taken in another way."""
        return bool(self.rounds) and self.record.get("measures") != measures_hash()

    @property
    def refused(self) -> str | None:
        """Why the method does not serve this problem, where it does not."""
        found: str | None = self.record["refused"]
        return found


@dataclasses.dataclass(frozen=True)
class Cell:
    """Which trial."""

    problem: str
    epsilon: float
    method: str
    seed: int
    layers: int | None = None

    @property
    def name(self) -> str:
        """The stem of its files."""
        layers = "" if self.layers is None else f"-{self.layers}layers"
        return f"{self.problem}-{self.epsilon:g}-{self.method}{layers}-{self.seed}"


@dataclasses.dataclass
class Round:
    """One round of one trial, as it comes: a posterior, and what it took since the round before."""

    posterior: Any
    seconds: dict[str, float]
    theta: np.ndarray


# Reading and running ------------------------------------------------------------------------------


def get(
    problem: str,
    epsilon: float,
    method: str,
    seed: int,
    scale: Scale,
    *,
    layers: int | None = None,
    progress: Progress = silent,
) -> Trial:
    """The trial from the store, or run and stored."""
    layers = None if layers == scale.layers else layers
    cell = Cell(problem, float(epsilon), method, scale.seed if method in ONCE else seed, layers)
    found = stored(cell, scale)
    if found is None or found.unmeasured:
        progress(f"{NAMES[method]} on {problem} at {epsilon:g}, seed {cell.seed}")
        found = with_metrics(run(cell, scale) if found is None else found)
        keep(found, cell, scale)
    note(found.record)
    return found


def each(
    problem: str,
    epsilon: float,
    slug: str,
    scale: Scale,
    progress: Progress = silent,
    *,
    layers: int | None = None,
) -> list[Trial]:
    """One trial per seed of the scale."""
    seeds = scale.seeds[:1] if slug in ONCE else scale.seeds
    return [
        get(problem, epsilon, slug, seed, scale, layers=layers, progress=progress) for seed in seeds
    ]


def made(name: str, epsilon: float, backend: str = "numba") -> Any:
    """A ready problem; `backend` says what simulates epidemics."""
    problem = getattr(nw.problems, name)(epsilon=epsilon)
    if name != "sir" or backend == "numba":
        return problem
    simulator = dataclasses.replace(problem.model.simulator, backend=backend)
    return dataclasses.replace(
        problem, model=dataclasses.replace(problem.model, simulator=simulator)
    )


def run(cell: Cell, scale: Scale, backend: str = "numba") -> Trial:
    """One trial by itself."""
    problem = made(cell.problem, cell.epsilon, backend)
    if cell.method == "exact":
        record, draws, theta = _round(exact_posterior(problem, scale), scale, {}, np.zeros((0, 0)))
        return _trial(
            cell, scale, [({**record, "error": exact_error(problem, scale)}, draws, theta)]
        )
    chosen = method(cell.method, scale, cell.epsilon, cell.layers)
    rounds: list[Any] = []
    try:
        for made_round in _rounds(chosen, jax.random.key(cell.seed), problem):
            rounds.append(_round(made_round.posterior, scale, made_round.seconds, made_round.theta))
    except (InvalidInputError, MissingCapabilityError) as error:
        if rounds:
            raise
        return _trial(cell, scale, [], refused=str(error))
    return _trial(cell, scale, rounds, backend=backend)


def run_together(cells: Sequence[Cell], scale: Scale, backend: str = "numba") -> list[Trial]:
    """Several trials of one problem and one architecture, whose networks train side by side; the
    time of training is shared out.
    """
    problems = [made(cell.problem, cell.epsilon, backend) for cell in cells]
    watches = [Stopwatch() for _ in cells]
    models = [watch.timed(problem.model) for watch, problem in zip(watches, problems, strict=True)]
    keys = [jax.random.key(cell.seed) for cell in cells]
    chosen = method(cells[0].method, scale, cells[0].epsilon, cells[0].layers)
    rounds: list[list[Any]] = [[] for _ in cells]
    with training_timed(watches):
        iterator = chosen.rounds_of_many(keys, models, [problem.observed for problem in problems])
        for posteriors, seconds in _timed(iterator):
            others = seconds - sum(watch.simulation + watch.training for watch in watches)
            for i, watch in enumerate(watches):
                spent = _split(watch, watch.simulation + watch.training + others / len(cells))
                rounds[i].append(_round(posteriors[i], scale, spent, watch.theta))
                watch.reset()
    return [
        _trial(cell, scale, found, together=len(cells), backend=backend)
        for cell, found in zip(cells, rounds, strict=True)
    ]


def _rounds(chosen: Any, key: Any, problem: Any) -> Iterator[Round]:
    watch = Stopwatch()
    model = watch.timed(problem.model)
    with training_timed([watch]):
        if hasattr(chosen, "rounds"):
            posteriors = chosen.rounds(key, model, problem.observed, progress=False)
        else:
            posteriors = (
                chosen.infer(key, model, problem.observed, progress=False) for _ in range(1)
            )
        for posterior, seconds in _timed(posteriors):
            yield Round(posterior, _split(watch, seconds), watch.theta)
            watch.reset()


def _timed(iterator: Iterator[Any]) -> Iterator[tuple[Any, float]]:
    """Each item, and the seconds it took to come; what is done with it between is not counted."""
    while True:
        started = time.perf_counter()
        try:
            item = next(iterator)
        except StopIteration:
            return
        yield item, time.perf_counter() - started


def _split(watch: Stopwatch, seconds: float) -> dict[str, float]:
    sampling = max(0.0, seconds - watch.simulation - watch.training)
    return {"simulation": watch.simulation, "training": watch.training, "sampling": sampling}


def exact_reference(problem: Any) -> np.ndarray:
    """Draws (2000, d) of the exact posterior that others are measured against."""
    draws = problem.reference(REFERENCE, NUM_EXACT)
    return np.asarray(draws[np.random.default_rng(0).permutation(NUM_EXACT)][:NUM_REFERENCE])


def _row_draws(problem: Any, scale: Scale) -> np.ndarray:
    return np.asarray(problem.reference(ROW, NUM_ROW // 10 if scale.quick else NUM_ROW))


def exact_posterior(problem: Any, scale: Scale) -> nw.posteriors.Draws:
    """Other draws of the exact posterior, to be measured like those of a method."""
    return nw.posteriors.Draws(
        _row_draws(problem, scale), problem.model.names, nw.posteriors.Report("exact", exact=True)
    )


def exact_error(problem: Any, scale: Scale) -> dict[str, np.ndarray]:
    """Monte Carlo standard errors of the exact mean and interval ends, from batches of the draws."""
    batches = np.split(_row_draws(problem, scale), NUM_BATCHES)
    found = {"mean": [batch.mean(axis=0) for batch in batches]}
    for name, level in (("low", 0.025), ("high", 0.975)):
        found[name] = [np.quantile(batch, level, axis=0) for batch in batches]
    return {
        name: np.std(values, axis=0, ddof=1) / np.sqrt(NUM_BATCHES)
        for name, values in found.items()
    }


def _round(
    posterior: Any, scale: Scale, seconds: dict[str, float], theta: np.ndarray
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """One round without its metrics."""
    draws = posterior.sample(jax.random.key(98), scale.num_draws)
    record = {
        "num_simulations": posterior.report.num_simulations,
        "seconds": seconds,
        **_summary(posterior, draws),
    }
    return record, draws.astype(np.float32), theta


def with_metrics(trial: Trial) -> Trial:
    """The trial with the metrics of every round."""
    if not trial.unmeasured:
        return trial
    problem = made(trial.record["problem"], trial.record["epsilon"])
    reference, key = exact_reference(problem), jax.random.key(1000 + trial.record["seed"])
    num = trial.record["scale"]["num_draws"] // 2
    rounds = [
        {**each, **measured(problem, reference[:num], spaced(draws.astype(float), num), key)}
        for each, draws in zip(trial.rounds, trial.draws, strict=True)
    ]
    return dataclasses.replace(
        trial, record=plain({**trial.record, "rounds": rounds, "measures": measures_hash()})
    )


def _summary(posterior: Any, draws: np.ndarray) -> dict[str, Any]:
    """Mean, sd and 95% interval of each column, from all draws that the posterior holds."""
    table = posterior.summary().iloc[: draws.shape[1]]
    columns = {"mean": "mean", "sd": "sd", "low": "2.5%", "high": "97.5%"}
    return {
        **{name: table[column].to_numpy() for name, column in columns.items()},
        "effective_size": float(posterior.effective_size),
        "tolerance": posterior.report.diagnostics.get("tolerance"),
        "stopped": posterior.report.stopped,
    }


def _trial(
    cell: Cell,
    scale: Scale,
    rounds: list[Any],
    *,
    refused: str | None = None,
    together: int = 1,
    backend: str = "numba",
) -> Trial:
    record = {
        **dataclasses.asdict(cell),
        "scale": scale.settings(),
        "settings": settings(cell, scale),
        "source": source_hash(),
        "hardware": hardware(),
        "backend": backend,
        "trained together": together,
        "refused": refused,
        "rounds": [each_round for each_round, _, _ in rounds],
    }
    draws = (
        np.stack([draws for _, draws, _ in rounds]) if rounds else np.zeros((0, 0, 0), np.float32)
    )
    return Trial(plain(record), draws, tuple(theta for _, _, theta in rounds))


# The store ----------------------------------------------------------------------------------------

_SIZES = ("rounds", "num_simulations", "layers", "hidden", "max_epochs", "num_draws")


def settings(cell: Cell, scale: Scale) -> str:
    """The method with all its settings, in words of Python; of the exact posterior how many draws
    it has.
    """
    return (
        f"{NUM_ROW:,} draws"
        if cell.method == "exact"
        else in_words(method(cell.method, scale, cell.epsilon, cell.layers))
    )


def in_words(chosen: Any) -> str:
    """The `repr` of a method, with names of functions in place of where they lie in memory."""
    return re.sub(r"<function (\w+) at \w+>", r"\1", repr(chosen))


def stored(cell: Cell, scale: Scale, wanted: str | None = None) -> Trial | None:
    """The trial in the store, unless its sizes or its settings (`wanted`, or those of the scale)
    differ; of quick ones, or the sources.
    """
    path = scale.store / f"{cell.name}.json"
    with contextlib.suppress(FileNotFoundError):
        record = json.loads(path.read_text())
        same = all(record["scale"][name] == scale.settings()[name] for name in _SIZES)
        same = same and record.get("settings") in (None, wanted or settings(cell, scale))
        if not same or (scale.quick and record["source"] != source_hash()):
            return None
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
            theta = tuple(arrays[f"theta{i}"] for i in range(len(record["rounds"])))
            return Trial(record, arrays["draws"], theta)
    return None


def keep(trial: Trial, cell: Cell, scale: Scale) -> None:
    """Write the trial; the JSON file comes last and says that it is whole."""
    scale.store.mkdir(parents=True, exist_ok=True)
    file = io.BytesIO()
    theta: dict[str, Any] = {
        f"theta{i}": rows.astype(np.float32) for i, rows in enumerate(trial.theta)
    }
    np.savez_compressed(file, draws=trial.draws, **theta)
    path = scale.store / f"{cell.name}.json"
    write_atomically(path.with_suffix(".npz"), file.getvalue(), overwrite=True)
    write_atomically(path, compact_json(trial.record), overwrite=True)


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """The options that all commands which fill the store share."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="standard", choices=["quick", "standard", "full"])
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--backend", default="numba", choices=["numba", "jax"])
    parser.add_argument("--store", type=Path, help="by default .cache/reproduce")
    return parser


def scale_of(options: argparse.Namespace) -> Scale:
    """The scale that these options name, with their store."""
    scale = {"quick": QUICK, "standard": STANDARD, "full": FULL}[options.scale]
    return scale if options.store is None else dataclasses.replace(scale, cache=options.store)


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--problem", required=True, choices=PROBLEMS)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[10.0])
    parser.add_argument("--method", required=True, nargs="+", choices=list(NAMES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--layers", type=int)
    parser.add_argument(
        "--measure-later", action="store_true", help="leave the metrics to the first reader"
    )
    options = parser.parse_args(arguments)
    scale = scale_of(options)
    for slug in options.method:
        layers = None if options.layers == scale.layers else options.layers
        pairs = itertools.product(
            options.epsilon, options.seeds[:1] if slug in ONCE else options.seeds
        )
        cells = [Cell(options.problem, epsilon, slug, seed, layers) for epsilon, seed in pairs]
        missing = [cell for cell in cells if stored(cell, scale) is None]
        together = options.together and slug.startswith("sppe")
        _fill(missing, scale, options.backend, together=together, measure=not options.measure_later)


def _fill(cells: list[Cell], scale: Scale, backend: str, *, together: bool, measure: bool) -> None:
    for group in [cells] if together and cells else [[cell] for cell in cells]:
        started = time.perf_counter()
        trials = (
            run_together(group, scale, backend) if together else [run(group[0], scale, backend)]
        )
        for cell, trial in zip(group, trials, strict=True):
            done = with_metrics(trial) if measure else trial
            keep(done, cell, scale)
            last = done.rounds[-1].get("c2st", "not measured yet") if done.rounds else done.refused
            print(f"{cell.name}: {last}, {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
