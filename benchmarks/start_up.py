"""From nothing: what `import noisewise` costs in a fresh process, and how long the first posterior
takes, compilation included.
"""

import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import time
from typing import Any

LINES = {
    "import noisewise": "noisewise",
    "import sbi": "sbi",
    "import pyabc": "pyabc",
    "from noisewise.inference import PrivatePosteriorEstimation": "noisewise",
    "from sbi.inference import NPE": "sbi",
    "from pyabc import ABCSMC": "pyabc",
    "import jax": "jax",
    "import torch": "torch",
}
"""What a process imports, and the package it needs; `import noisewise` and `import sbi` by
themselves load next to nothing.
"""
WATCHED = ("matplotlib", "arviz", "numba", "pandas", "scipy", "jax", "torch")
TURNS, FEW_TURNS = 7, 3

USES = {
    "nw.infer, a release and its mean": (
        """
import jax
import numpy as np
import numpyro.distributions as dist
import noisewise as nw

times = np.random.default_rng(0).gamma(2.0, 6.0, size=400)
query = nw.queries.ClampedMean(bounds=(0.0, 60.0), num_records=400, grid=0.5)
release = nw.release(times, query, nw.PureDP(1.0))
model = nw.PrivateModel.from_release(
    release,
    prior=nw.Prior({"mean": dist.LogNormal(2.5, 0.5)}),
    simulator=nw.simulators.JaxSimulator(lambda key, theta: theta[0] / 2 * jax.random.gamma(key, 2.0, (400, 1))),
)
posterior = nw.infer(jax.random.key(0), model, release)
"""
    ),
    "ExactSMC, regression at epsilon 1": (
        """
import jax
import noisewise as nw

problem = nw.problems.linear_regression(epsilon=1.0)
posterior = nw.inference.ExactSMC().infer(jax.random.key(0), problem.model, problem.observed)
"""
    ),
    "SPPE, SIR at epsilon 10, 2 x 1000, one noise at a time": (
        """
import jax
import noisewise as nw

problem = nw.problems.sir(epsilon=10.0)
method = nw.inference.PrivatePosteriorEstimation(num_rounds=2, num_noise=1)
posterior = method.infer(jax.random.key(0), problem.model, problem.observed)
"""
    ),
}
_SHOW = "print(posterior.summary().round(2).to_string(), flush=True)"
_TELL = """
import sys, time
ended, loaded = time.time(), set(sys.modules)
import json
high = next((line for line in open("/proc/self/status") if line.startswith("VmHWM")), "VmHWM: 0")
print(json.dumps({"ended": ended, "loaded": sorted(loaded), "peak MB": round(int(high.split()[1]) / 1024)}))
"""
_IMPORT_TIME = re.compile(r"import time:\s+(\d+) \|")


def run(quick: bool = False) -> dict[str, Any]:
    """Imports in turns, then each use in fresh processes. Nothing compiled by JAX is kept between
    them; what Numba compiled is.
    """
    uses = list(USES)[:1] if quick else list(USES)
    return {
        "imports": imports(1 if quick else TURNS),
        "first posterior": [first_posterior(name, 1 if quick else FEW_TURNS) for name in uses],
    }


def imports(turns: int) -> list[dict[str, Any]]:
    """Wall seconds of a process that imports one thing and ends, beside one that does nothing."""
    lines = [
        "pass",
        *(line for line, package in LINES.items() if importlib.util.find_spec(package)),
    ]
    told = {line: _told(line) for line in lines}
    seconds: dict[str, list[float]] = {line: [] for line in lines}
    for _ in range(turns):
        for line in lines:
            started = time.perf_counter()
            _python("-c", line)
            seconds[line].append(time.perf_counter() - started)
    empty = statistics.median(seconds["pass"])
    return [
        {
            "process": line,
            **_spread(seconds[line]),
            "beyond an empty process": round(statistics.median(seconds[line]) - empty, 3),
            "peak MB": told[line]["peak MB"],
            "loaded": [module for module in WATCHED if module in told[line]["loaded"]],
        }
        for line in lines
    ]


def first_posterior(name: str, turns: int) -> dict[str, Any]:
    """Seconds from the start of the process to the printed summary, and how many of them were
    imports.
    """
    found = [_told(USES[name] + _SHOW, "-X", "importtime") for _ in range(turns)]
    return {
        "use": name,
        **_spread([one["seconds"] for one in found]),
        "imports": round(statistics.median(one["imports"] for one in found), 2),
        "peak MB": max(one["peak MB"] for one in found),
    }


def _told(code: str, *options: str) -> dict[str, Any]:
    started = time.time()
    child = _python(*options, "-c", code + _TELL)
    told = json.loads(child.stdout.splitlines()[-1])
    spent = sum(map(int, _IMPORT_TIME.findall(child.stderr)))
    return told | {"seconds": told["ended"] - started, "imports": spent / 1e6}


def _python(*arguments: str) -> Any:
    environment = {
        name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"
    }
    environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )


def _spread(seconds: list[float]) -> dict[str, Any]:
    middle, least, most = statistics.median(seconds), min(seconds), max(seconds)
    return {
        "seconds": round(middle, 3),
        "least": round(least, 3),
        "most": round(most, 3),
        "runs": len(seconds),
    }


if __name__ == "__main__":
    print(json.dumps(run("--quick" in sys.argv), indent=1))
