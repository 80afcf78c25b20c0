"""Who competes: noisewise's methods and its rivals, each a generator of (simulations so far, 1000
draws of theta).
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

Stages = Iterator[tuple[int, np.ndarray]]
BOTH = ("linear_regression", "sir")


@dataclasses.dataclass(frozen=True)
class Contender:
    """A method in the contest.

    `path` is module:function, `says` its name on the page. A `neural` one learns in rounds and could
    go on forever.
    """

    path: str
    says: str
    neural: bool
    packages: tuple[str, ...]
    problems: tuple[str, ...] = BOTH

    def start(self, made: Any, seed: int, *, threads: int, num: int) -> Stages:
        """Its stages; what it imports is imported here, before the clock runs."""
        module, function = self.path.split(":")
        generator: Stages = getattr(importlib.import_module(module), function)(
            made, seed, threads=threads, num=num
        )
        return generator

    @property
    def ours(self) -> bool:
        """Whether it is noisewise."""
        return self.path.startswith("benchmarks.ours")


_OURS, _SBI, _PYABC = ("jax", "flowjax"), ("sbi", "torch"), ("pyabc",)

CONTENDERS: dict[str, Contender] = {
    "sppe": Contender("benchmarks.ours:sppe", "SPPE", True, _OURS),
    "sppe-atomic": Contender("benchmarks.ours:sppe_atomic", "SPPE, atomic loss", True, _OURS),
    "sple": Contender("benchmarks.ours:sple", "SPLE", True, _OURS),
    "cle": Contender("benchmarks.ours:cle", "CLE", True, _OURS, ("linear_regression",)),
    "exact-smc": Contender("benchmarks.ours:exact_smc", "ExactSMC", False, _OURS),
    "smc-abc": Contender("benchmarks.ours:smc_abc", "SMC-ABC", False, _OURS),
    "sbi-npe": Contender("benchmarks.rivals.sbi_tools:npe", "sbi NPE-C", True, _SBI),
    "sbi-npe-paper": Contender(
        "benchmarks.rivals.sbi_tools:npe_paper", "sbi NPE-C, paper's flow", True, _SBI
    ),
    "sbi-nle": Contender("benchmarks.rivals.sbi_tools:nle", "sbi NLE", True, _SBI),
    "sbi-nle-paper": Contender(
        "benchmarks.rivals.sbi_tools:nle_paper", "sbi NLE, paper's flow", True, _SBI
    ),
    "sbi-smc-abc": Contender("benchmarks.rivals.sbi_tools:smc_abc", "sbi SMC-ABC", False, _SBI),
    "pyabc": Contender("benchmarks.rivals.pyabc_tools:abc", "pyABC", False, _PYABC),
    "pyabc-exact": Contender(
        "benchmarks.rivals.pyabc_tools:exact", "pyABC, exact acceptor", False, _PYABC
    ),
    "torch-sppe": Contender(
        "benchmarks.rivals.torch_sppe:torch_sppe", "SPPE in PyTorch", True, ("torch",)
    ),
}
