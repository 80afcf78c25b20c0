"""Trials that were never run, with the shape of real ones, so that items run in no time at any
scale.
"""

import numpy as np

from experiments import items, outbreak_trials, outbreaks, table_cost, trials
from noisewise.errors import InvalidInputError

CENTRES = {
    "sir": np.array([-0.5, -3.0]),
    "linear_regression": np.array([-0.6, -2.7, 0.5]),
    "log_linear": np.array([0.4, 0.6, 0.75, 0.25, 0.65, 0.35, 0.6, 0.4, 0.85, 0.15]),
}
SD = 0.05
ROUNDS = ("sppe", "sppe-atomic", "sple")
SPEED = {"sppe": 1.2, "sppe-atomic": 0.6, "sple": 0.9}
ABC_COUNTS = (10_000, 20_000, 36_000, 56_000, 108_000, 280_000)
STOPPED = "the acceptance fell below min_acceptance=0.001 at the tolerance 0.01412"


def refused(problem, epsilon, method):
    if method == "naive" and epsilon < 10.0:
        return "The covariance matrix is not positive definite."
    return (
        "It serves the regression."
        if method in ("da-mcmc", "gibbs-ss", "rnpe") and problem != "linear_regression"
        else None
    )


def get(problem, epsilon, method, seed, scale, *, layers=None, progress=items.silent):
    """As `trials.get`."""
    seed = scale.seed if method in trials.ONCE else seed
    layers = None if layers == scale.layers else layers
    rng = np.random.default_rng(
        [seed, len(problem), int(10 * epsilon), sum(map(ord, method)), layers or 0]
    )
    reason = refused(problem, epsilon, method)
    counts = [] if reason else _counts(method, scale)
    rounds = [_round(rng, problem, method, r, count, len(counts)) for r, count in enumerate(counts)]
    draws = (
        np.stack([each.pop("draws")(scale.num_draws) for each in rounds])
        if rounds
        else np.zeros((0, 0, 0))
    )
    if method == "smc-abc":
        rounds.append({**rounds[-1], "num_simulations": counts[-1] + 25_600, "stopped": STOPPED})
        draws = np.concatenate([draws, draws[-1:]])
    record = {
        "problem": problem,
        "epsilon": epsilon,
        "method": method,
        "seed": seed,
        "layers": layers,
        "scale": scale.settings(),
        "settings": method,
        "source": "none",
        "hardware": "no machine",
        "backend": "numba",
        "trained together": 1,
        "refused": reason,
        "rounds": rounds,
    }
    items.note(record)
    return trials.Trial(
        record, draws.astype(np.float32), tuple(np.zeros((4, draws.shape[-1])) for _ in rounds)
    )


def _counts(method, scale):
    if method in ROUNDS:
        return [scale.num_simulations * r for r in range(1, scale.rounds + 1)]
    return list(ABC_COUNTS) if method == "smc-abc" else [0 if method in trials.ONCE else 50_000]


def _round(rng, problem, method, r, count, num):
    centre = CENTRES[problem] + 0.02 * SD * rng.normal(size=len(CENTRES[problem]))
    away = np.exp(-SPEED.get(method, 0.5) * (r + 1)) if num > 1 else 0.0
    values = {
        "mean": centre,
        "sd": np.full_like(centre, SD),
        "low": centre - 2 * SD,
        "high": centre + 2 * SD,
    }
    found = {
        **values,
        "num_simulations": count,
        "seconds": {
            "simulation": 1.0,
            "training": 2.0 if method in ROUNDS else 0.0,
            "sampling": 1.0,
        },
        "effective_size": 1000.0,
        "tolerance": 0.5 * 0.7 ** (r + 1) if method == "smc-abc" else None,
        "stopped": "finished",
        "mmd": 0.5 * away + 5e-4 * rng.normal(),
        "c2st": 0.52 + 0.4 * away + 0.01 * rng.normal(),
        "nlog": -4.0 + away + 0.1 * rng.normal(),
        "nlog_paper": -0.6 + away,
        "lmd": -2.6 + away + 0.1 * rng.normal(),
        "ks": np.full(len(centre), 0.03 + 0.3 * away),
        "draws": lambda size: centre + SD * rng.normal(size=(size, len(centre))),
    }
    return (
        {
            **found,
            "error": {name: np.full_like(centre, 0.01 * SD) for name in ("mean", "low", "high")},
        }
        if method == "exact"
        else found
    )


def outbreak(name, variant, slug, seed, scale, progress=items.silent):
    """As `outbreak_trials.get`."""
    rng = np.random.default_rng([seed, sum(map(ord, name + slug))])
    mean = 2.0 + 0.05 * rng.normal()
    part = {"mean": mean, "sd": 0.2, "low": mean - 0.4, "high": mean + 0.4}
    found = {
        "quantities": dict.fromkeys(outbreak_trials.QUANTITIES, part),
        "num_simulations": 10_000,
        "seconds": 1.0,
    }
    draws = np.array([-2.0, -2.7]) + 0.1 * rng.normal(size=(1, scale.num_draws, 2))
    return trials.Trial({"rounds": [found]}, draws, (np.zeros((4, 2)),))


class Clock:
    """As the clock of the table of costs."""

    num = 4

    def __init__(self, scale):
        pass

    def __call__(self, theta):
        return 0.1


def replace(monkeypatch):
    """Let items read these trials."""
    monkeypatch.setattr(trials, "get", get)
    monkeypatch.setattr(outbreak_trials, "get", outbreak)
    monkeypatch.setattr(outbreaks, "_predictive", lambda name, variant, scale: 0.5)
    monkeypatch.setattr(table_cost, "_Clock", Clock)
    monkeypatch.setattr(table_cost, "hardware", lambda: "no machine")
    monkeypatch.setattr(trials, "run", _never)


def _never(*_, **__):
    raise InvalidInputError("No trial is to be run here.")
