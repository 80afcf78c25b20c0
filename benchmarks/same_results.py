"""Do two commits give the same results, to the last bit? `python -m benchmarks.same_results COMMIT`
compares one with the working tree.

Each tree runs in a process of its own: mechanisms, problems, every method of inference at small
sizes with fixed keys, `nw.infer`, certificates, releases with their noise taken out. What comes
back is a digest of each result; those that differ are listed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent


def digest(*values: Any) -> str:
    """Of arrays and texts."""
    found = hashlib.sha256()
    for value in values:
        array = np.asarray(value)
        found.update(repr((array.shape, str(array.dtype))).encode())
        found.update(array.tobytes() if array.dtype.kind in "fiub" else repr(value).encode())
    return found.hexdigest()[:16]


def results() -> Iterator[tuple[str, str]]:
    """(name, digest) of everything that is compared, by the noisewise that is imported."""
    import jax

    import noisewise as nw
    from tests.inference.methods import METHODS

    key = jax.random.key(3)
    m = nw.mechanisms
    noises = {
        "laplace": m.Laplace(0.7, 1.0),
        "gaussian": m.Gaussian(0.7, 1.0),
        "discrete laplace": m.DiscreteLaplace(2.0, 1.0),
        "discrete gaussian": m.DiscreteGaussian(2.0, 1.0),
        "euclidean": m.EuclideanLaplace(1.0, 1.0),
        "clamped": m.Clamped(m.Laplace(1.0, 1.0), low=0.0, high=5.0),
        "response": m.RandomizedResponse(num_categories=4, truth_probability=0.6),
        "binomial": m.PaddedBinomial(trials=9, padding=3.0, population=20, num_times=2),
    }
    for name, mechanism in noises.items():
        s = np.array([[1.0, 2.0]])
        drawn = mechanism.sample(key, np.repeat(s, 50, axis=0))
        yield (
            f"mechanism {name}",
            digest(
                drawn, mechanism.log_prob(drawn, s), repr(mechanism.guarantee), mechanism.to_spec()
            ),
        )
    for name in ("gaussian_mean", "linear_regression", "log_linear", "sir"):
        problem = getattr(nw.problems, name)(epsilon=1.0)
        theta = problem.model.prior.sample(key, 20)
        yield (
            f"problem {name}",
            digest(theta, problem.model.statistics(key, theta), problem.observed),
        )
    for name, case in METHODS.items():
        problem = case.make_problem()
        posterior = case.method.infer(key, problem.model, problem.observed, progress=False)
        yield (
            f"method {name}",
            digest(
                posterior.sample(key, 200), posterior.report.num_simulations, posterior.report.exact
            ),
        )
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    found = nw.infer(
        key, problem.model, problem.observed, target_ess=300, max_simulations=20_000, progress=False
    )
    yield (
        "infer",
        digest(found.sample(key, 200), found.report.num_simulations, repr(found.report.warnings)),
    )
    rough = nw.inference.SMCABC(num_particles=300, num_rounds=3).infer(
        key, problem.model, problem.observed, progress=False
    )
    certificate = nw.diagnostics.certify(
        key, rough, problem.model, problem.observed, 5000, progress=False
    )
    yield "certificate", digest(certificate.corrected.sample(key, 200), certificate.verdict)
    yield from releases()


def releases() -> Iterator[tuple[str, str]]:
    """With noise taken out: what is added to is what is released."""
    import noisewise as nw
    from noisewise.disclosure import exact_noise

    exact_noise._invoke = lambda measurement, integers: integers
    q = nw.queries
    data = np.linspace(-2.0, 12.0, 40)
    queries = {
        "mean": (data, q.ClampedMean((0.0, 10.0), 40)),
        "histogram": (data, q.Histogram((0.0, 3.0, 10.0))),
        "table": (np.arange(40).reshape(20, 2) % 2, q.ContingencyTable((2, 2))),
        "moments": (
            np.stack([data, data[::-1]], axis=1),
            q.RegressionMoments(num_records=40, num_predictors=1),
        ),
        "joint": (data, q.Joint([q.ClampedMean((0.0, 10.0), 40), q.Histogram((0.0, 3.0, 10.0))])),
    }
    for name, (x, query) in queries.items():
        for guarantee in (nw.PureDP(1.0), nw.ZeroConcentratedDP(0.5), nw.ApproximateDP(1.0, 1e-6)):
            published = nw.release(x, query, guarantee)
            spec = json.dumps(published.mechanism.to_spec(), sort_keys=True)
            yield (
                f"release {name} {guarantee!r}",
                digest(published.observed, spec, repr(published.names)),
            )


def run_in(tree: Path) -> dict[str, str]:
    """The digests of a tree, by a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "JAX_PLATFORMS": "cpu"}
    code = (
        "import json, runpy, noisewise; print(noisewise.__file__); found ="
        " runpy.run_path('same_results.py'); print(json.dumps(dict(found['results']())))"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "same_results.py").write_text(Path(__file__).read_text())
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    if not Path(done.stdout.splitlines()[0]).is_relative_to(tree):
        raise SystemExit(f"{done.stdout.splitlines()[0]} was imported, not {tree}.")
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(commit: str) -> None:
    """Print how many results are the same, and which are not."""
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(old), commit],
            cwd=ROOT,
            check=True,
        )
        try:
            before, now = run_in(old), run_in(ROOT)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(old)], cwd=ROOT, check=True)
    different = [name for name in before if now.get(name) != before[name]]
    print(
        f"{len(before) - len(different)} of {len(before)} results of {commit} are the same to the"
        " last bit."
    )
    for name in different:
        print(f"  different: {name}")


if __name__ == "__main__":
    main(sys.argv[1])
