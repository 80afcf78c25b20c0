"""noisewise's own contenders, with defaults but for what is said here."""

from __future__ import annotations

from typing import Any

import jax

from benchmarks.contenders import Stages
from noisewise import inference

NUM_DRAWS = 1000
ROUNDS = 10


def sppe(made: Any, seed: int, *, threads: int, num: int) -> Stages:
    """Truncated proposals; one noise at a time, as `nw.infer` has it where simulations are cheap."""
    return _stages(
        inference.PrivatePosteriorEstimation(num_rounds=ROUNDS, num_simulations=num, num_noise=1),
        made,
        seed,
    )


def sppe_atomic(made: Any, seed: int, *, threads: int, num: int) -> Stages:
    """The atomic loss of the paper."""
    settings: dict[str, Any] = {"num_rounds": ROUNDS, "num_simulations": num, "num_noise": 1}
    return _stages(
        inference.PrivatePosteriorEstimation(correction=inference.AtomicProposals(), **settings),
        made,
        seed,
    )


def sple(made: Any, seed: int, *, threads: int, num: int) -> Stages:
    """The private likelihood."""
    return _stages(
        inference.PrivateLikelihoodEstimation(num_rounds=ROUNDS, num_simulations=num), made, seed
    )


def cle(made: Any, seed: int, *, threads: int, num: int) -> Stages:
    """The confidential likelihood, in rounds."""
    return _stages(
        inference.ConfidentialLikelihoodEstimation(num_rounds=ROUNDS, num_simulations=num),
        made,
        seed,
    )


def exact_smc(made: Any, seed: int, *, threads: int, num: int) -> Stages:
    """As many particles, and as large an effective size, as the rival's population."""
    return _stages(inference.ExactSMC(num_particles=num, target_ess=num), made, seed)


def smc_abc(made: Any, seed: int, *, threads: int, num: int) -> Stages:
    """Approximate, by distances of private statistics."""
    return _stages(inference.SMCABC(num_particles=num), made, seed)


def _stages(method: Any, made: Any, seed: int) -> Stages:
    """Threads need no setting: XLA and numba take the cores that the process is bound to."""
    for posterior in method.rounds(jax.random.key(seed), made.model, made.observed, progress=False):
        yield (
            posterior.report.num_simulations,
            posterior.sample(jax.random.key(1000 + seed), NUM_DRAWS),
        )
