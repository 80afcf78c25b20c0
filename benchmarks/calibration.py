"""Calibration of every method on the private normal mean, with the exact log likelihood beside the
parameter.

    python -m benchmarks.calibration [NAMES]          run them, write results/calibration.json and docs/calibration.md
    python -m benchmarks.calibration --table          write docs/calibration.md again from the JSON

theta ~ N(0, 2^2), 100 records of N(theta, 1) clamped to [-2, 2], their mean released with Laplace
noise at epsilon .3: of theta = 0 the noise has an sd of .19 and sampling one of .1, and a third of
the thetas lie beyond the bounds. Settings are small where that keeps a method what it is. Where
nearly all records are clamped s hardly varies, and the chains of CLE on (theta, s) mix slowly: it
is reported for these bounds, from fewer trials, and must pass for [-8, 8].
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

import noisewise as nw
from noisewise._core.keys import generator
from noisewise.diagnostics import Calibration, calibrate, draw_trials
from noisewise.diagnostics.uniformity import WEIGHTS
from noisewise.problems.gaussian_mean import PRIOR_SD, _law_of_mean

RESULT = Path(__file__).parent / "results" / "calibration.json"
PAGE = Path(__file__).parents[1] / "docs" / "calibration.md"
EPSILON = 0.3
NUM_DRAWS = 100
WORKERS = 2
KEY = jax.random.key(20_260)
I = nw.inference
mdn = functools.partial(
    nw.estimators.mixture_density_network, num_components=6, num_units=32, num_hidden=2
)
spline = functools.partial(nw.estimators.neural_spline_flow, num_layers=2, num_bins=8)
CONFIDENTIAL = I.ConfidentialLikelihoodEstimation(
    num_simulations=10_000, num_members=1, num_chains=32, num_warmup=50, target_ess=200
)
ROBUST: dict[str, Any] = {
    "num_simulations": 1000,
    "estimator": mdn,
    "marginal": spline,
    "target_ess": 400,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A method, the number of trials, and whether it should pass: None where there is nothing that
    it should.
    """

    method: Any
    num_trials: int
    passes: bool | None
    amortised: bool = False
    bounds: tuple[float, float] = (-2.0, 2.0)


CASES = {
    "ImportanceSampling": Case(
        I.ImportanceSampling(num_stages=1, num_adapt=2000, num_final=4000), 500, True
    ),
    "ExactSMC": Case(I.ExactSMC(num_particles=200, target_ess=200), 500, True),
    "PseudoMarginalMCMC": Case(
        I.PseudoMarginalMCMC(num_chains=64, num_warmup=50, max_sweeps=50), 500, True
    ),
    "DataAugmentationMCMC": Case(
        I.DataAugmentationMCMC(num_chains=16, num_warmup=100, target_ess=400), 500, True
    ),
    "RejectionABC, exact": Case(I.RejectionABC(num_draws=NUM_DRAWS), 500, True),
    "PPE": Case(
        I.PrivatePosteriorEstimation(num_rounds=1, num_simulations=10_000),
        500,
        True,
        amortised=True,
    ),
    "PLE": Case(
        I.PrivateLikelihoodEstimation(
            num_rounds=1, num_simulations=10_000, estimator=spline, target_ess=400
        ),
        500,
        True,
        amortised=True,
    ),
    "CLE, bounds [-8, 8]": Case(CONFIDENTIAL, 500, True, amortised=True, bounds=(-8.0, 8.0)),
    "CLE": Case(CONFIDENTIAL, 100, None, amortised=True),
    "SPPE, 2 rounds": Case(
        I.PrivatePosteriorEstimation(num_rounds=2, num_simulations=1000, estimator=mdn), 100, True
    ),
    "SPLE, 2 rounds": Case(
        I.PrivateLikelihoodEstimation(
            num_rounds=2, num_simulations=1000, estimator=mdn, target_ess=400
        ),
        100,
        True,
    ),
    "RNPE, MechanismError": Case(
        I.RobustPosteriorEstimation(error=I.MechanismError(), **ROBUST), 100, True
    ),
    "RNPE, SpikeAndSlab": Case(I.RobustPosteriorEstimation(**ROBUST), 250, False),
    "NaivePlugIn": Case(I.NaivePlugIn(num_draws=NUM_DRAWS), 500, False),
    "SMCABC, 6 rounds": Case(I.SMCABC(num_particles=200, num_rounds=6), 500, None),
    "RejectionABC, tolerance .2": Case(
        I.RejectionABC(tolerance=0.2, num_draws=NUM_DRAWS), 500, None
    ),
}
ALPHA = 0.05 / 11
"""Eleven methods should pass: if all are right, one or more of them fails in at most 5% of choices
of the key.
"""


@functools.cache
def model(bounds: tuple[float, float] = Case.bounds) -> nw.PrivateModel:
    return nw.problems.gaussian_mean(EPSILON, bounds=bounds).model


class ExactLikelihood:
    """log f(s_dp | theta) from the law of s on a grid of theta, linear in between."""

    def __init__(self, bounds: tuple[float, float]) -> None:
        self.grid, self._mechanism = np.linspace(-10.0, 10.0, 2001), model(bounds).mechanism
        self._s, self._law = _law_of_mean(model(bounds).query, self.grid)

    def table(self, observed: np.ndarray) -> np.ndarray:
        """The log likelihood of observed (N, 1) at each theta of the grid: (N, 2001)."""
        log_noise = self._mechanism.log_prob(observed[:, None], self._s[:, None])
        top = log_noise.max(axis=1, keepdims=True)
        return top + np.log(np.exp(log_noise - top) @ self._law.T)

    def __call__(self, theta: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """For theta (N, M, 1) and observed (N, 1, 1): (N, M)."""
        rows = zip(theta[..., 0], self.table(observed[:, 0]), strict=True)
        return np.stack([np.interp(row, self.grid, values) for row, values in rows])


@functools.cache
def likelihood(bounds: tuple[float, float] = Case.bounds) -> ExactLikelihood:
    return ExactLikelihood(bounds)


@dataclasses.dataclass(frozen=True)
class Exact:
    """Draws of the exact posterior on the grid, moved by `bias` of its sds and stretched about its
    mean.
    """

    bias: float = 0.0
    stretch: float = 1.0

    def sample_many(self, key: Any, observed: np.ndarray, num: int) -> np.ndarray:
        grid, rng = likelihood().grid, generator(key)
        log_density = likelihood().table(observed) - 0.5 * (grid / PRIOR_SD) ** 2
        weights = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        mean = weights @ grid
        sd = np.sqrt(weights @ grid**2 - mean**2)
        places = np.stack(
            [np.interp(rng.random(num), np.cumsum(w), grid) for w in weights]
        ) + 0.5 * (grid[1] - grid[0])
        return (mean[:, None] + self.stretch * (places - mean[:, None]) + self.bias * sd[:, None])[
            ..., None
        ]


@contextlib.contextmanager
def workers() -> Iterator[Executor]:
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def calibrated(
    posterior_of: Any,
    num_trials: int,
    executor: Executor | None = None,
    bounds: tuple[float, float] = Case.bounds,
) -> Calibration:
    """Ranks of theta and of its log likelihood."""
    trials = draw_trials(
        KEY,
        posterior_of,
        model(bounds),
        num_trials,
        num_draws=NUM_DRAWS,
        executor=executor,
        progress=False,
    )
    return calibrate(KEY, trials, quantities={"log likelihood": likelihood(bounds)}, alpha=ALPHA)


def run(name: str, executor: Executor | None = None) -> Calibration:
    """The calibration of one case."""
    case = CASES[name]
    posterior_of = (
        case.method.fit(KEY, model(case.bounds), progress=False) if case.amortised else case.method
    )
    return calibrated(posterior_of, case.num_trials, executor, case.bounds)


def record(name: str, executor: Executor | None = None) -> dict[str, Any]:
    """The same, JSON-ready."""
    started = time.perf_counter()
    found = run(name, executor)
    smallest = {test: min(p[test] for p in found.p_values.values()) for test in WEIGHTS}
    rounded = {test: float(f"{p:.3g}") for test, p in {"all": found.p_value, **smallest}.items()}
    return {
        "method": name,
        "trials": found.num_trials,
        "draws": found.num_draws,
        "p": rounded,
        "passed": found.passed,
        "should pass": CASES[name].passes,
        "seconds": round(time.perf_counter() - started, 1),
        "settings": CASES[name].method.settings(),
    }


INTRODUCTION = """# Calibration of the methods

Does a method's posterior contain the truth as often as it says? Simulation-based calibration answers this over many simulated data sets.
Of the configurations (9 methods) that should pass, {good} do. Of those that should fail, because they ignore the noise or model it wrongly, {bad} do.

The problem is the private normal mean at epsilon .3: 100 records clamped to [-2, 2], with Laplace noise. For each data set the true
mean and its exact log likelihood are ranked among 100 draws of the posterior. The table has the smaller p-value of the two for each
test; *p* is for all tests together (weighted Bonferroni). A method fails below {alpha:.4f}, which is .05 shared by the eleven that
should pass. All methods see the same data sets, so their p-values are not independent.

CLE must pass with wide bounds. Where nearly all records are clamped its particles mix slowly, and its report says so. Settings are small;
they are kept with the numbers in [`calibration.json`](../benchmarks/results/calibration.json). `python -m benchmarks.calibration` writes
that file and this page, and `make verify` runs the same.
"""


def page(result: dict[str, Any]) -> str:
    """The table for readers."""
    rows = result["rows"]
    good = [row for row in rows if row["should pass"]]
    bad = [row for row in rows if row["should pass"] is False]
    lines = [
        INTRODUCTION.format(
            alpha=ALPHA,
            good=f"{sum(row['passed'] for row in good)} of {len(good)}",
            bad=f"{sum(not row['passed'] for row in bad)} of {len(bad)}",
        ),
        "| method | trials | ECDF | location | dispersion | dependence | p | result | should |",
        "|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    words = {True: "pass", False: "fail", None: "be reported"}
    for row in rows:
        p = row["p"]
        numbers = " | ".join(
            f"{p[test]:.2g}" for test in ("ecdf", "location", "dispersion", "dependence", "all")
        )
        found = "passes" if row["passed"] else "fails"
        lines.append(
            f"| {row['method']} | {row['trials']} | {numbers} | {found} |"
            f" {words[row['should pass']]} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None, write: Callable[[str], Any] = print) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", choices=[*CASES, []], help="which cases; all by default"
    )
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    rows = (
        {row["method"]: row for row in json.loads(RESULT.read_text())["rows"]}
        if RESULT.exists()
        else {}
    )
    if not options.table:
        with workers() as pool:
            for name in options.names or CASES:
                rows[name] = record(name, pool)
                write(f"{name}: {rows[name]['p']}, {rows[name]['seconds']} s")
                result = {
                    "made by": "python -m benchmarks.calibration",
                    "rows": [rows[n] for n in CASES if n in rows],
                }
                RESULT.write_text(json.dumps(result, indent=1) + "\n")
    PAGE.write_text(page(json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()
