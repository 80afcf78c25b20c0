"""Code in the README and the docs runs as a reader would run it, its printed output is true, and
links and command lines lead somewhere.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import noisewise as nw
from noisewise.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path
    for folder in (
        ".",
        "docs",
        "docs/gallery",
        "examples/seir",
        "examples/contingency",
        "examples/randomized_response",
        "examples/small_area",
        "experiments",
        "experiments/published",
    )
    for path in (ROOT / folder).glob("*.md")
)
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", flags=re.DOTALL)

PRINTED = {
    "README.md": [("hdi low",)],
    "docs/hierarchies.md": [
        ("log_rate[West]",),
        ("nuts True", "log_rate[North]", "('mean', 'spread')"),
        ("counts True",),
    ],
    "docs/methods.md": [
        ("p1_1[0]", "R-hat"),
        ("log_beta", "certified. The corrected draws are worth", "hdi low"),
        ("da-mcmc",),
    ],
    "docs/numpyro.md": [
        ("log_rate[North]", "(2000, 4)"),
        ("spread", "logit_decentered[0]"),
        ("'a':",),
        ("[",),
        ("[",),
        ("sd", "Number of divergences"),
    ],
    "docs/python.md": [("PureDP(epsilon=10", "(1, 2)")],
    "docs/regression.md": [("Intercept ~ Normal(0, 5)", "from scores"), ("nuts True", "97.5%")],
    "docs/releases.md": [
        ("PureDP(epsilon=1.5)",),
        ("add-remove, one person", "AddRemoveOne", "PureDP(epsilon=2.0)"),
        ("noise_sd", "North, 2021  absent", "add-remove, one person"),
        ("intercept", "PureDP(epsilon=1.609"),
        ("share", "no guarantee can be derived"),
        ("hdi low", "effective size", "passed"),
    ],
    "docs/trust.md": [("trust",), ("beta[1]", "privacy"), ("p1_1[0]",)],
}
"""What each block of each page prints, in parts that do not depend on the machine."""
SLOW = {
    ("docs/hierarchies.md", 1),
    ("docs/hierarchies.md", 2),
    ("docs/methods.md", 0),
    ("docs/methods.md", 1),
    ("docs/methods.md", 2),
    ("docs/numpyro.md", 0),
    ("docs/numpyro.md", 1),
    ("docs/numpyro.md", 2),
    ("docs/numpyro.md", 4),
    ("docs/numpyro.md", 5),
    ("docs/regression.md", 1),
    ("docs/releases.md", 3),
    ("docs/releases.md", 4),
    ("docs/releases.md", 5),
    ("docs/trust.md", 0),
    ("docs/trust.md", 1),
    ("docs/trust.md", 2),
}
NEED_A_CLUSTER = {"docs/many_machines.md": 4}
"""The first of these runs in a test of its own; the others need dask workers, SLURM or MPI."""
ONE_DIGIT = 0.15
"""Rounding may end one digit apart: numbers in printed output have one decimal."""


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text())


def run(script, folder):
    """In a process of its own, and compiled as a reader's would be: the suite itself asks for
    programs that are quick to make.
    """
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    env |= {"NOISEWISE_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def differing(shown, printed):
    """Words that are not the same, and numbers that are more than one rounded digit apart."""
    first, second = (re.findall(r"[^\s,\[\]]+", text) for text in (shown, printed))
    if len(first) != len(second):
        return [(shown, printed)]
    return [pair for pair in zip(first, second, strict=True) if not _same(*pair)]


def _same(one, other):
    try:
        return abs(float(one) - float(other)) <= ONE_DIGIT
    except ValueError:
        return one == other


NUMBERS = [
    pytest.param(page, i, marks=[pytest.mark.slow] if (page, i) in SLOW else [])
    for page, parts in PRINTED.items()
    for i in range(len(parts))
]


@pytest.mark.parametrize(("page", "number"), NUMBERS)
def test_a_block_runs_and_prints_what_is_shown(page, number, tmp_path):
    script, shown = blocks(page)[number]
    printed = run(script, tmp_path)
    for expected in PRINTED[page][number]:
        assert expected in printed
    assert not shown or differing(shown, printed) == []


def test_printed_numbers_are_compared():
    """Planted: a number one digit off passes, two digits off or another word does not."""
    assert differing("mean  16.9\n", "mean  17.0\n") == []
    assert differing("mean  16.9\n", "mean  17.1\n") == [("16.9", "17.1")]
    assert differing("mean  16.9\n", "sd  16.9\n") == [("mean", "sd")]
    assert differing("mean  16.9\n", "mean\n")


def test_every_block_is_covered():
    found = {str(page.relative_to(ROOT)): len(blocks(page)) for page in PAGES}
    expected = {page: len(parts) for page, parts in PRINTED.items()} | NEED_A_CLUSTER
    assert {page: number for page, number in found.items() if number} == expected


# Links and command lines --------------------------------------------------------------------------


def anchor(heading):
    """The name that a heading has in a link, as GitHub and mkdocs make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, place = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            yield target
        elif place:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
            if place not in map(anchor, headings):
                yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert list(broken_links(page, page.read_text())) == []


def test_broken_links_are_found():
    """Planted: a file that is not there, and a heading that is not there."""
    text = "[a](docs/none.md) [b](README.md#try-it) [c](README.md#no-such-heading) [d](#try-it)"
    found = list(broken_links(ROOT / "README.md", text))
    assert found == ["docs/none.md", "README.md#no-such-heading"]


def command_lines(text):
    """Calls of noisewise in shell blocks and in indented lines, without comments."""
    fenced = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL))
    calls = re.findall(r"^noisewise [^#\n]*", fenced, flags=re.MULTILINE)
    return calls + re.findall(r"^    (noisewise [^#\n]*)", text, flags=re.MULTILINE)


def unknown_words(line):
    """Commands and options that the program does not have."""
    _, command, *rest = shlex.split(line)
    known = typer.main.get_command(app).commands
    if command not in known:
        return [command]
    options = {name for parameter in known[command].params for name in parameter.opts}
    return [word for word in rest if word.startswith("-") and word not in options]


LINES = sorted({line.strip() for page in PAGES for line in command_lines(page.read_text())})


@pytest.mark.parametrize("line", LINES)
def test_command_lines_are_what_the_program_takes(line):
    assert unknown_words(line) == []


def test_wrong_command_lines_are_found():
    assert unknown_words("noisewise infre sir") == ["infre"]
    assert unknown_words("noisewise infer sir --epsilom 1 --out a") == ["--epsilom"]
    assert len(LINES) > 10


# Many machines ------------------------------------------------------------------------------------

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


@pytest.mark.slow
def test_the_first_script_on_many_machines(tmp_path):
    """Planted: without the line `if __name__ == "__main__":` it ends with 1, as workers import the
    script again.
    """
    (tmp_path / "model.py").write_text(MODEL)
    query = nw.queries.ClampedMean(bounds=(-5.0, 5.0), num_records=50)
    release = nw.Release([0.4], nw.mechanisms.Laplace(scale=0.2, sensitivity=0.2), query=query)
    release.save(tmp_path / "release.json")
    run(blocks("docs/many_machines.md")[0][0], tmp_path)
    posterior = nw.load_posterior(tmp_path / "runs" / "a")
    assert posterior.report.exact
    # the mean of 50 records has sd .14, the noise sd .28: the posterior mean lies near .4, with sd
    # .3
    assert abs(posterior.summary().loc["mean", "mean"] - 0.37) < 0.1
