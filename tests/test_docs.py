"""Scripts in the docs run as a reader would: beside a model.py, in a process of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import noisewise as nw

ROOT = Path(__file__).parent.parent

MODEL = """
import numpy as np
import numpyro.distributions as dist
import noisewise as nw


def simulate(rng, theta):
    return rng.normal(theta[0], 1.0, size=(50, 1))


def model(release):
    prior = nw.Prior({"mean": dist.Normal(0.0, 1.0)})
    return nw.PrivateModel.from_release(release, prior=prior, simulator=nw.simulators.PythonSimulator(simulate))
"""


def first_block(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), flags=re.DOTALL)[
        0
    ]


def test_the_first_script_on_many_machines(tmp_path):
    """Planted: without the line `if __name__ == "__main__":` it ends with 1, as workers import the
    script anew.
    """
    (tmp_path / "model.py").write_text(MODEL)
    query = nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=50)
    release = nw.Release([0.4], nw.mechanisms.Laplace(scale=0.2, sensitivity=0.2), query=query)
    release.save(tmp_path / "release.json")
    (tmp_path / "script.py").write_text(first_block("many_machines.md"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    ended = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    posterior = nw.load_posterior(tmp_path / "runs" / "a")
    assert posterior.report.exact
    # the mean of 50 records has sd .14, the noise sd .28: the posterior mean lies near .4, with sd
    # .3
    assert abs(posterior.summary().loc["mean", "mean"] - 0.37) < 0.1
