"""Inference from the five outbreaks, released through the mechanism or, as in the paper, not at
all; stored one by one.

    python -m experiments.outbreak_trials --method sppe --outbreak ebola-guinea covid-clark --together --backend jax
    python -m experiments.outbreak_trials --method smc-abc sple

With --together all trials of SPPE train side by side, which is how a GPU wants them. Influenza is
simulated event by event, which wants a CPU.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import numpy as np

import noisewise as nw
from experiments.items import Progress, Scale, hardware, note, silent, source_hash
from experiments.methods import NAMES as METHOD_NAMES
from experiments.methods import method
from experiments.plain import plain
from experiments.trials import REFERENCE, Cell, Trial, in_words, keep, parser_of, scale_of, stored
from noisewise.problems._epidemic_references import epidemic_references
from noisewise.problems.outbreak import NAMES, outbreak_data

METHODS = ("exact", "smc-abc", "sppe", "sple")
VARIANTS = ("released", "published")
"""A curve that went through the mechanism, and the paper's raw proportions taken for one that did.
"""
QUANTITIES = ("R0", "beta_per_day", "gamma_per_day")
_EPSILON = 10.0


def problem(name: str, variant: str, backend: str = "numba") -> Any:
    """An outbreak; `published` observes the nearest counts out of n to the published proportions,
    without any noise.
    """
    made = nw.problems.outbreak(name)
    if backend != "numba" and made.model.simulator.method == "leap":
        simulator = dataclasses.replace(made.model.simulator, backend=backend)
        made = dataclasses.replace(made, model=dataclasses.replace(made.model, simulator=simulator))
    if variant == "released":
        return made
    observed = np.round(made.model.mechanism.trials * np.asarray(outbreak_data(name).proportions))
    return dataclasses.replace(
        made,
        observed=observed,
        references=epidemic_references(made.model, observed),
        settings={**made.settings, "variant": variant},
    )


def seeds(slug: str, variant: str, scale: Scale) -> tuple[int, ...]:
    """One trial of what is exact and of what is only compared, else those of the scale."""
    return scale.seeds if variant == "released" and slug != "exact" else scale.seeds[:1]


def cell(name: str, variant: str, slug: str, seed: int) -> Cell:
    """The place of a trial in the store."""
    return Cell(f"outbreak-{name}-{variant}", _EPSILON, slug, seed)


def get(
    name: str,
    variant: str,
    slug: str,
    seed: int,
    scale: Scale,
    progress: Progress = silent,
    *,
    backend: str = "numba",
) -> Trial:
    """The trial from the store, or run and stored."""
    place = cell(name, variant, slug, seed)
    found = kept(place, scale)
    if found is None:
        progress(f"{METHOD_NAMES[slug]} on {name}, {variant}, seed {seed}")
        found = run(place, problem(name, variant, backend), scale)
        keep(found, place, scale)
    note(found.record)
    return found


def kept(place: Cell, scale: Scale) -> Trial | None:
    """The trial in the store, if it has these settings."""
    return stored(place, scale, _settings(place, scale))


def _settings(place: Cell, scale: Scale) -> str:
    return (
        f"{scale.num_draws:,} draws"
        if place.method == "exact"
        else in_words(chosen(place.method, scale))
    )


def run(place: Cell, made: Any, scale: Scale) -> Trial:
    """One trial by itself; `made` has a model and an observation."""
    started = time.perf_counter()
    if place.method == "exact":
        draws = made.reference(REFERENCE, scale.num_draws)
        posterior: Any = nw.posteriors.Draws(
            draws, made.model.names, nw.posteriors.Report("exact", exact=True)
        )
    else:
        posterior = chosen(place.method, scale).infer(
            jax.random.key(place.seed), made.model, made.observed, progress=False
        )
    return _trial(place, scale, made, posterior, time.perf_counter() - started)


def chosen(slug: str, scale: Scale) -> Any:
    """The method; tolerances of SMC-ABC are medians, as the paper's steps end far from some of
    these curves.
    """
    found = method(slug, scale, _EPSILON)
    return (
        dataclasses.replace(found, tolerance=nw.inference.QuantileDecay(0.5))
        if slug == "smc-abc"
        else found
    )


def run_together(places: list[Cell], problems: list[Any], scale: Scale) -> list[Trial]:
    """Trials of SPPE whose networks train side by side; the time is shared out."""
    started = time.perf_counter()
    keys = [jax.random.key(place.seed) for place in places]
    models, observed = [made.model for made in problems], [made.observed for made in problems]
    *_, posteriors = chosen("sppe", scale).rounds_of_many(keys, models, observed)
    seconds = (time.perf_counter() - started) / len(places)
    each = zip(places, problems, posteriors, strict=True)
    return [
        _trial(place, scale, made, posterior, seconds, len(places))
        for place, made, posterior in each
    ]


def _trial(
    place: Cell, scale: Scale, made: Any, posterior: Any, seconds: float, together: int = 1
) -> Trial:
    draws = posterior.sample(jax.random.key(98), scale.num_draws)
    result = {
        "num_simulations": posterior.report.num_simulations,
        "seconds": seconds,
        "effective_size": float(posterior.effective_size),
        "tolerance": posterior.report.diagnostics.get("tolerance"),
        "stopped": posterior.report.stopped,
        "quantities": summary(made.model, draws),
    }
    record = {
        **dataclasses.asdict(place),
        "scale": scale.settings(),
        "settings": _settings(place, scale),
        "source": source_hash(),
        "hardware": hardware(),
        "backend": made.model.simulator.backend,
        "trained together": together,
        "refused": None,
        "rounds": [result],
    }
    return Trial(plain(record), draws.astype(np.float32)[None], (np.zeros((0, 0)),))


def summary(model: Any, draws: np.ndarray) -> dict[str, dict[str, float]]:
    """Mean, sd and 95% interval of R0 and of the rates per day, from draws (N, 2) of the log rates."""
    derived = model.derived_quantities(draws)
    return {name: _summary(np.asarray(derived[name])) for name in QUANTITIES}


def _summary(values: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return {
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)),
        "low": float(low),
        "high": float(high),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--outbreak", nargs="+", default=list(NAMES), choices=NAMES)
    options = parser.parse_args(arguments)
    scale = scale_of(options)
    for slug in options.method:
        wanted = [
            (name, v, seed)
            for name in options.outbreak
            for v in VARIANTS
            for seed in seeds(slug, v, scale)
        ]
        missing = [
            each for each in wanted if kept(cell(each[0], each[1], slug, each[2]), scale) is None
        ]
        if options.together and slug == "sppe" and missing:
            places = [cell(name, variant, slug, seed) for name, variant, seed in missing]
            problems = [problem(name, variant, options.backend) for name, variant, _ in missing]
            for place, trial in zip(places, run_together(places, problems, scale), strict=True):
                keep(trial, place, scale)
        for name, variant, seed in missing:
            found = get(name, variant, slug, seed, scale, backend=options.backend).rounds[-1]
            print(
                f"{name} {variant} {slug} {seed}: R0 {found['quantities']['R0']},"
                f" {found['seconds']:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
