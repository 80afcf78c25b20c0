"""Words are put to findings in one place, and nothing depends on them."""

import ast
import dataclasses
import hashlib
import re
from pathlib import Path

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.assessment import Evidence, judge
from noisewise.cli.outcomes import Outcome
from noisewise.diagnostics.certificates import certificate
from noisewise.posteriors import Finding, Kind, Stop, StopKind, sentences
from tests.inference.methods import METHODS
from tests.posteriors.examples import FINDINGS, STOPS

KEY = jax.random.key(3)
PACKAGE = Path(nw.__file__).parent
WORDS = PACKAGE / "posteriors" / "sentences"
FORMATS = {PACKAGE / "posteriors" / "stop.py"}
"""What holds words of files."""

# Every kind has its words -------------------------------------------------------------------------


def test_every_kind_has_a_sentence_and_an_example():
    assert set(sentences.TABLES[Kind]) == set(Kind) == set(FINDINGS)
    assert set(sentences.TABLES[StopKind]) == set(StopKind) == set(STOPS)


EXAMPLES = [
    (kind, numbers)
    for table in (FINDINGS, STOPS)
    for kind, several in table.items()
    for numbers in several
]


@pytest.mark.parametrize(("kind", "numbers"), EXAMPLES, ids=str)
def test_every_sentence_is_whole(kind, numbers):
    said = Finding if isinstance(kind, Kind) else Stop
    sentence = said(kind, numbers).sentence
    assert "{" not in sentence
    assert "  " not in sentence
    assert not isinstance(kind, Kind) or re.fullmatch(r"[A-Z0-9].*\.", sentence)


def test_examples_that_differ_are_worded_differently():
    for kind, several in FINDINGS.items():
        assert len({Finding(kind, numbers).sentence for numbers in several}) == len(several), kind


# In one place alone -------------------------------------------------------------------------------


def texts(path):
    """Every text of a source, parts of f-strings among them."""
    tree = ast.parse(path.read_text())
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def worded(source, phrases):
    """What a source says in words: the phrases it has, and calls that should begin with a kind."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (phrase for phrase in phrases if phrase in node.value)
        if isinstance(node, ast.Call) and node.args and is_text(node):
            yield ast.unparse(node)


def is_text(call):
    """Whether a call warns, ends or states in words of its own; `warnings.warn` of Python is
    another thing.
    """
    *owner, name = ast.unparse(call.func).split(".")
    if name == "stated":
        return isinstance(call.args[0], (ast.Constant, ast.JoinedStr))
    ours = name in ("warn", "end") and owner and owner[-1] in ("run", "work", "self")
    return ours and not ast.unparse(call.args[0]).startswith(("Kind.", "StopKind."))


def phrases():
    """The parts of sentences between their numbers that are long enough to be told from others."""
    found = [text for path in WORDS.glob("*.py") for text in texts(path)]
    parts = [part.strip() for text in found for part in re.split(r"\{[^}]*\}", text)]
    return {part for part in parts if len(part) >= 35}


SOURCES = [path for path in PACKAGE.rglob("*.py") if path.parent != WORDS and path not in FORMATS]


def test_sentences_stand_in_one_place():
    known = phrases()
    assert len(known) > 50
    found = {str(path): list(worded(path.read_text(), known)) for path in SOURCES}
    assert {path: said for path, said in found.items() if said} == {}


@pytest.mark.parametrize(
    "source",
    [
        'work.warn("The chains ended.")',
        'self.work.warn(f"{share} is much.")',
        'run.warn("The chains ended.")',
        'self.run.end("nothing is left")',
        'work.end("nothing is left")',
        'work.add(Finding.stated(f"{share} is much."))',
        'x = "reveals them: it is not private, and that is all."',
    ],
)
def test_sentences_elsewhere_are_found(source):
    assert list(worded(source, {"reveals them: it is not private"}))


# Rewording changes nothing ------------------------------------------------------------------------


def kinds(report):
    return [(finding.kind, finding.numbers) for finding in report.findings], report.stop


def told(posterior):
    """Everything about a posterior but text and time."""
    report = posterior.report
    draws = [posterior.theta, posterior.weights]
    digest = hashlib.sha256(
        b"".join(np.ascontiguousarray(part).tobytes() for part in draws)
    ).hexdigest()
    numbers = {name: repr(value) for name, value in report.diagnostics.items()}
    return digest, kinds(report), numbers, report.exact, report.num_simulations, report.num_failed


def judged(posterior, certificate=None):
    """The verdicts of the report and of the command line."""
    outcome = Outcome(Path("out"), posterior, certificate)
    of_posterior = judge(Evidence.of(posterior, certificate=certificate))
    levels = of_posterior.level, outcome.assessment.level, outcome.assessment.verdict
    trusted = outcome.assessment.trustworthy, outcome.answer is posterior
    return *levels, *trusted, len(outcome.warnings)


SOME = (("smc-abc", None, 7.0), ("sppe", 10, 0.0), ("naive", None, 0.0))
MORE = (
    ("importance", 500, 0.0),
    ("exact-smc", 500, 0.0),
    ("exact-smc", None, 1e3),
    ("pseudo-marginal", 500, 0.0),
    ("sppe", None, 7.0),
)
"""Methods by name, the limit on their simulations, and by how much the observation is moved."""


def of_methods(folder, methods):
    """Methods that are cut short, that fail to reach the observation, and that learn in rounds."""
    for name, limit, shift in methods:
        case = METHODS[name]
        problem = case.make_problem()
        method = case.method if limit is None else limited(case.method, limit)
        observed = np.asarray(problem.observed) + shift
        posterior = method.infer(KEY, problem.model, observed, progress=False)
        yield told(posterior), judged(posterior)
        posterior.save(folder / "p", overwrite=True)
        again = nw.posteriors.load_posterior(folder / "p")
        yield told(again), judged(again)


def limited(method, num):
    return dataclasses.replace(method, max_simulations=num)


def of_the_automatic_route(folder, problems):
    """Chains, importance draws, and both judged by certificates."""
    for make, budget in problems:
        problem = make()
        posterior = nw.infer(
            KEY,
            problem.model,
            problem.observed,
            progress=False,
            max_simulations=budget,
            run_dir=folder / str(budget),
        )
        yield told(posterior), judged(posterior)
        for num in (1000, 4000):
            certificate = nw.diagnostics.certify(
                KEY, posterior, problem.model, problem.observed, num
            )
            others = certificate.other_findings(posterior)
            yield certificate.verdict, certificate.advice, others, judged(posterior, certificate)
            yield told(certificate.corrected)


def behaviour(folder, methods, problems):
    folder.mkdir()
    return [*of_methods(folder, methods), *of_the_automatic_route(folder, problems)]


MEAN = (lambda: nw.problems.gaussian_mean(1.0), 100_000)
EPIDEMIC = (nw.problems.sir, 8000)
"""Problems of the automatic route, and their budgets."""

CASES = {"some": (SOME, [MEAN]), "all": ((*MORE, *SOME), [MEAN, EPIDEMIC])}


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.slow)])
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def usual(case, tmp_path_factory):
    """What is done with the usual words."""
    return behaviour(tmp_path_factory.mktemp("usual") / "a", *case)


def test_rewording_changes_no_behaviour(case, usual, tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "rendered", lambda kind, numbers: str(kind))
    assert Finding(Kind.CONFIDENTIAL).sentence == "confidential"
    assert behaviour(tmp_path / "a", *case) == usual


def test_a_rule_that_reads_words_is_caught(case, usual, tmp_path, monkeypatch):
    """Planted: certificates keep what they found by the words of its sentence."""

    def by_words(certificate):
        found = certificate.found
        return (found,) if " exact ones" in found.sentence else ()

    monkeypatch.setattr(certificate.Certificate, "findings", property(by_words))
    monkeypatch.setattr(sentences, "rendered", lambda kind, numbers: str(kind))
    _, problems = case
    found = list(of_the_automatic_route(tmp_path, problems))
    assert found != usual[-len(found) :]


def test_a_run_goes_on_under_other_words(tmp_path, monkeypatch):
    """What a journal holds is no sentence, so that a run resumes in a version that words things
    differently.
    """
    problem, method = METHODS["sppe"].make_problem(), limited(METHODS["sppe"].method, 150)
    whole = method.infer(KEY, problem.model, problem.observed, progress=False)
    monkeypatch.setattr(sentences, "rendered", lambda kind, numbers: f"reworded: {kind}")
    first = method.infer(
        KEY, problem.model, problem.observed, progress=False, run_dir=tmp_path / "run"
    )
    monkeypatch.undo()
    for path in sorted((tmp_path / "run" / "posterior").iterdir()):
        path.unlink()
    (tmp_path / "run" / "posterior").rmdir()
    again = method.infer(
        KEY, problem.model, problem.observed, progress=False, run_dir=tmp_path / "run"
    )
    assert told(first) == told(again) == told(whole)
    assert again.report.stopped == whole.report.stopped == "the budget of 150 simulations is spent"
    assert b"reworded" not in b"".join(
        path.read_bytes() for path in (tmp_path / "run" / "journal").iterdir()
    )
