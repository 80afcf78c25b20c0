"""Draws of many chains as they come, whether they have settled, and the posterior they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.json_files import reading
from noisewise._core.weights import MANY_DRAWS, MIN_DRAWS
from noisewise.errors import FileFormatError
from noisewise.inference.contract.run import InferenceRun
from noisewise.posteriors import Draws, Kind
from noisewise.samplers.chain_diagnostics import effective_draws, r_hat
from noisewise.samplers.hamiltonian import HamiltonianDraws, Tuning, hamiltonian

_KEPT_PER_EFFECTIVE = 4
"""Draws kept for each effective draw: thinner chains would lose information, and denser ones gain
next to none.
"""


MAX_R_HAT = 1.01
"""R-hat up to which chains have settled, as Vehtari et al. (2021) recommend."""

_MAX_R_HAT_OF_MANY = 1.02
"""R-hat up to which chains have settled if each has `_MANY_PER_CHAIN` effective draws: chance alone
then makes it as large, as E[R-hat^2] = 1 + 2 C / ESS = 1.04.
"""

_MANY_PER_CHAIN = 50
"""Effective draws per chain that are many: see `_MAX_R_HAT_OF_MANY`."""


class Trace:
    """Draws of parallel chains, collected segment by segment until they are worth `target_ess`.

    Draws have names, and shape (sweeps, chains, ...) in each segment. Those named `watched` are of
    numbers besides the parameters that must have settled too, and be worth 100 draws.

    The effective size is the smallest of those of the ranks (the bulk effective size), of the
    values, and of the squared distances from the mean. Means and standard deviations are thus as
    accurate as those of so many independent draws; ranks alone overstate it where tails are heavy.

    Attributes:
        target_ess: Effective draws wanted, at the worst parameter.
        effective_size: Effective draws when last measured.
        watched_size: Effective draws of the worst watched number when last measured.
        tail_size: Effective draws of the 5% and 95% quantiles when last measured.
        r_hat: R-hat at the worst parameter when last measured.
    """

    def __init__(self, target_ess: int) -> None:
        self.target_ess = target_ess
        self._forget()

    def add(self, **draws: np.ndarray) -> None:
        """Append a segment of draws, each (sweeps, chains, ...)."""
        for name, values in draws.items():
            self._parts.setdefault(name, []).append(np.asarray(values))

    def restart(self, **draws: np.ndarray) -> None:
        """Drop all draws but these."""
        self._forget()
        self.add(**draws)

    def _forget(self) -> None:
        self.effective_size, self.tail_size, self.r_hat = 0.0, 0.0, np.inf
        self.watched_size = np.inf
        self._parts: dict[str, list[np.ndarray]] = {}
        self._next_look = 0

    @property
    def length(self) -> int:
        """How many sweeps there are."""
        return sum(map(len, self._parts["theta"]))

    @property
    def num_chains(self) -> int:
        """How many chains there are."""
        return self._parts["theta"][0].shape[1]

    def pooled(self, name: str = "z") -> np.ndarray:
        """All draws of one name, (sweeps * chains, ...)."""
        values = np.concatenate(self._parts[name])
        return values.reshape(-1, *values.shape[2:])

    def by_chain(self, name: str, stride: int = 1) -> np.ndarray:
        """Every stride-th draw of one name, chain by chain: (chains * draws, ...)."""
        values = np.concatenate(self._parts[name])
        values = values[(len(values) - 1) % stride :: stride].swapaxes(0, 1)
        return values.reshape(-1, *values.shape[2:])

    def complete(self) -> bool:
        """Whether effective size and R-hat are as wanted. They are measured again when there are a
        fifth more draws than the last time.
        """
        if self.length >= self._next_look:
            self._next_look = int(1.2 * self.length) + 1
            self.look()
        enough = self.effective_size >= self.target_ess and self.watched_size >= MIN_DRAWS
        return enough and self.settled

    @property
    def settled(self) -> bool:
        """Whether R-hat is at most 1.01, or 1.02 with 50 effective draws per chain, which chance
        explains: E[R-hat^2] = 1 + 2 C / ESS.
        """
        return self.r_hat <= MAX_R_HAT or (
            self.r_hat <= _MAX_R_HAT_OF_MANY
            and self.effective_size >= _MANY_PER_CHAIN * self.num_chains
        )

    @property
    def exact(self) -> bool:
        """Whether the draws stand for the law of the chains: settled, and worth 100 independent
        draws for means, standard deviations and the 5% and 95% quantiles.
        """
        sizes = (self.effective_size, self.tail_size, self.watched_size)
        return self.settled and min(sizes) >= MIN_DRAWS

    def look(self) -> None:
        """Measure effective sizes and R-hat at the worst parameter; below 4 sweeps there are
        none.
        """
        theta = np.concatenate(self._parts["theta"])
        if len(theta) < 4:
            return
        columns = [column.T for column in np.moveaxis(theta, 2, 0)]
        watched = self._watched()
        with np.errstate(all="ignore"):  # squares of numbers that are large, or none
            sizes = np.array([_size(column) for column in columns])
            others = np.array([_size(column) for column in watched])
        tails = np.array([effective_draws(column, "tail") for column in columns])
        r_hats = np.array([r_hat(column) for column in columns + watched])
        self.watched_size = float(np.nan_to_num(others).min(initial=np.inf))
        self.effective_size = float(np.nan_to_num(sizes).min())
        self.tail_size = float(np.nan_to_num(tails).min())
        self.r_hat = float(np.nan_to_num(r_hats, nan=np.inf).max())

    def _watched(self) -> list[Float[np.ndarray, "c n"]]:
        """Watched numbers that are not the same in all draws."""
        if "watched" not in self._parts:
            return []
        columns = np.moveaxis(np.concatenate(self._parts["watched"]), 2, 0)
        return [column.T for column in columns if np.ptp(column) > 0.0]

    def stride(self) -> int:
        """Which draws to keep: every stride-th loses next to no information."""
        return max(1, self.length * self.num_chains // (_KEPT_PER_EFFECTIVE * self.target_ess))


def _size(column: Float[np.ndarray, "c n"]) -> float:
    """The effective size of one parameter: of its ranks, values or squares, whichever is
    smallest.
    """
    squares = (column - column.mean()) ** 2
    sizes = [
        effective_draws(column, "bulk"),
        effective_draws(column, "mean"),
        effective_draws(squares, "mean"),
    ]
    return float(np.min(sizes))


def finished_draws(
    run: InferenceRun,
    trace: Trace,
    *,
    settled: bool,
    sound: bool = True,
    statistics: Callable[[np.ndarray], np.ndarray | None] | None = None,
) -> Draws:
    """The posterior of the draws collected, thinned to what they are worth.

    Args:
        run: The run; R-hat and effective size go into its report.
        trace: Draws named theta and s.
        settled: Whether the warm-up is over.
        sound: Whether nothing else speaks against the chains.
        statistics: Draws s given theta, where the trace has none.

    Returns:
        The draws, chain by chain; exact if the chains have settled and are worth 100 draws, in
        the tails too.
    """
    num_chains, stride = trace.num_chains, trace.stride()
    theta = trace.by_chain("theta", stride)
    s = trace.by_chain("s", stride) if statistics is None else statistics(theta)
    trace.look()
    size, r_hat = trace.effective_size, trace.r_hat
    run.diagnostics |= {"effective size": size, "R-hat": r_hat}
    if not settled:
        run.warn(Kind.CHAINS_IN_WARM_UP)
    elif not (size >= MANY_DRAWS and trace.exact):
        size = min(size, trace.tail_size, trace.watched_size)
        limits = {"enough": MANY_DRAWS, "largest_r_hat": MAX_R_HAT}
        run.warn(Kind.CHAINS_NOT_SETTLED, effective_size=size, r_hat=r_hat, **limits)
    return run.draws(theta, s, num_chains=num_chains, exact=settled and sound and trace.exact)


def chain_run(
    run: InferenceRun, key: Array, target: Any, start: np.ndarray, **settings: Any
) -> HamiltonianDraws:
    """`hamiltonian`, recorded in the journal and not run again when a run is resumed.

    Args:
        run: The run.
        key: A PRNG key.
        target: The log density, as `hamiltonian` takes it.
        start: Where the chains start, shape (c, p).
        **settings: Further arguments of `hamiltonian`.
    """

    def compute() -> dict[str, np.ndarray]:
        drawn = hamiltonian(key, target, start, **settings)
        numbers = {
            "acceptance": np.asarray(drawn.acceptance),
            "divergent": np.asarray(drawn.num_divergent),
        }
        tuning = {
            "step size": np.asarray(drawn.tuning.step_size),
            "covariance": np.asarray(drawn.tuning.covariance),
        }
        return {"draws": drawn.draws, "log density": drawn.log_density, **numbers, **tuning}

    found = run.remember("chains", compute)
    with reading("The chains in the journal"):
        if found["draws"].shape != (settings["num_draws"], *start.shape):
            raise FileFormatError("they have another shape.")
        tuning = Tuning(found["step size"], found["covariance"])
        counts = float(found["acceptance"]), int(found["divergent"])
        return HamiltonianDraws(found["draws"], found["log density"], *counts, tuning)


def step_root(z: np.ndarray) -> np.ndarray:
    """A Cholesky root of the covariance of draws z (n, p), which shapes random-walk steps."""
    covariance = np.atleast_2d(np.cov(z.T))
    return np.linalg.cholesky(covariance + 1e-9 * np.diag(np.maximum(np.diag(covariance), 1e-200)))
