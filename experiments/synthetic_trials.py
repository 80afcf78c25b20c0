"""SMC-ABC and SPPE, one inference per outbreak, on the synthetic outbreaks of one setting; stored
one by one.

    python -m experiments.synthetic_trials --method sppe --together --backend jax

With --together all trials of SPPE train side by side, which is how a GPU wants them. The releases
are stored beside the trials, so that all methods and machines see the same.
"""

from __future__ import annotations

import dataclasses
import io
from types import SimpleNamespace
from typing import Any

import numpy as np

from experiments import outbreak_trials
from experiments.items import Progress, Scale, note, silent
from experiments.methods import NAMES
from experiments.trials import Cell, Trial, keep, parser_of, scale_of
from noisewise._core.files import write_atomically

METHODS = ("smc-abc", "sppe")
_EPSILON = 10.0


def released(number: int, scale: Scale, draw: Any) -> tuple[np.ndarray, np.ndarray]:
    """The parameters (N, d) and releases (N, k') of a setting from the store, or as `draw()` makes
    them, and then stored.
    """
    path = scale.store / f"synthetic-{number}-seed{scale.seed}.npz"
    if not path.exists():
        theta, observed = draw()
        file = io.BytesIO()
        np.savez_compressed(file, theta=theta, observed=observed)
        scale.store.mkdir(parents=True, exist_ok=True)
        write_atomically(path, file.getvalue(), overwrite=True)
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["theta"], arrays["observed"]


def cell(number: int, i: int, slug: str, scale: Scale) -> Cell:
    """The place of a trial in the store; each has a seed of its own."""
    return Cell(f"synthetic-{number}-{i}", _EPSILON, slug, 1000 * scale.seed + i)


def get(
    number: int,
    i: int,
    slug: str,
    model: Any,
    observed: np.ndarray,
    scale: Scale,
    progress: Progress = silent,
) -> Trial:
    """The trial of the i-th outbreak of a setting from the store, or run and stored."""
    place = cell(number, i, slug, scale)
    found = outbreak_trials.kept(place, scale)
    if found is None:
        progress(f"{NAMES[slug]} on synthetic outbreak {i + 1}")
        found = outbreak_trials.run(place, SimpleNamespace(model=model, observed=observed), scale)
        keep(found, place, scale)
    note(found.record)
    return found


def main(arguments: list[str] | None = None) -> None:
    from experiments import outbreak_coverage

    parser = parser_of(__doc__)
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=METHODS)
    options = parser.parse_args(arguments)
    scale = scale_of(options)
    number = list(outbreak_coverage.SETTINGS).index(outbreak_coverage.SEQUENTIAL)
    model, _, observed = outbreak_coverage.outbreaks(number, scale)
    model = dataclasses.replace(
        model, simulator=dataclasses.replace(model.simulator, backend=options.backend)
    )
    for slug in options.method:
        missing = [
            i
            for i in range(len(observed))
            if outbreak_trials.kept(cell(number, i, slug, scale), scale) is None
        ]
        if options.together and slug == "sppe" and missing:
            places = [cell(number, i, slug, scale) for i in missing]
            made = [SimpleNamespace(model=model, observed=observed[i]) for i in missing]
            for place, trial in zip(
                places, outbreak_trials.run_together(places, made, scale), strict=True
            ):
                keep(trial, place, scale)
        for i in missing:
            found = get(number, i, slug, model, observed[i], scale).rounds[-1]
            print(
                f"{slug} {i}: R0 {found['quantities']['R0']}, {found['seconds']:.0f} s", flush=True
            )


if __name__ == "__main__":
    main()
