"""From evidence to a level, a verdict and reasons: a table, and bugs that it catches."""

import ast
import dataclasses
from pathlib import Path

import pytest

import noisewise as nw
from noisewise.assessment import Assessment, Reason, ReasonKind, Verdict, judge, judging
from noisewise.assessment.evidence import Source
from tests.assessment.cases import CASES, CERTIFIED, EXACT, certificate

TRUSTED = {"exact", "certified"}


def differences(judged):
    """The cases in which this judge says something else than the table."""
    found = {}
    for name, case in CASES.items():
        try:
            assessment = judged(case.evidence)
        except (ValueError, AttributeError) as error:
            found[name] = repr(error)
            continue
        reasons = ", ".join(reason.kind for reason in assessment.reasons)
        seen = assessment.level, assessment.verdict, reasons, assessment.trustworthy
        trusted = case.verdict in TRUSTED and case.level != "do not trust"
        expected = case.level, case.verdict, case.reasons, trusted
        if seen != expected:
            found[name] = f"{seen}, not {expected}"
    return found


def test_the_table_holds():
    assert differences(judge) == {}


def test_the_table_has_every_reason_and_verdict():
    kinds = {kind for case in CASES.values() for kind in case.reasons.split(", ")}
    assert kinds == set(ReasonKind)
    assert {case.verdict for case in CASES.values()} == set(Verdict)


def blind(**changes):
    """A judge that does not see some of the evidence."""
    return lambda evidence: judge(dataclasses.replace(evidence, **changes))


def without_reason(kind):
    """A judge that has forgotten a rule."""

    def forgetful(evidence):
        found = judge(evidence)
        kept = tuple(reason for reason in found.reasons if reason.kind is not kind)
        worst = max(kept, key=lambda reason: reason.level.severity, default=Reason(kind)).level
        return dataclasses.replace(found, reasons=kept, level=worst)

    return forgetful


def verdict_by_level(evidence):
    """The verdict read off the level."""
    found = judge(evidence)
    good = found.level == "trust"
    return dataclasses.replace(found, verdict=Verdict.EXACT if good else Verdict.NOT_CERTIFIED)


def best_reason_counts(evidence):
    found = judge(evidence)
    return dataclasses.replace(found, level=found.reasons[-1].level)


def corrected_like_any(evidence):
    corrected = evidence.source is Source.CORRECTED
    source = Source.METHOD if corrected else evidence.source
    return judge(dataclasses.replace(evidence, source=source))


PLANTED = {
    "the certificate is ignored": blind(certificate=None),
    "the power is ignored": blind(power=None),
    "the number of draws is ignored": blind(worth=1e6),
    "findings are ignored": blind(findings=()),
    "the check is ignored": blind(prediction=None),
    "naive is like any method": blind(source=Source.METHOD),
    "every method is exact": blind(exact=True),
    "no method is exact": blind(exact=False),
    "every certificate is good": blind(certificate=certificate(CERTIFIED)),
    "corrected draws are like any": corrected_like_any,
    "the verdict follows the level": verdict_by_level,
    "the best reason counts": best_reason_counts,
    **{f"no rule for {kind}": without_reason(kind) for kind in ReasonKind},
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_caught(name):
    assert differences(PLANTED[name])


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("MIN_DRAWS", 99.0),
        ("MIN_DRAWS", 101.0),
        ("MANY_DRAWS", 399.0),
        ("MANY_DRAWS", 401.0),
        ("MAX_MISSED", 0.09),
        ("MAX_MISSED", 0.12),
        ("SUSPICIOUS_EFFICIENCY", 0.04),
        ("SUSPICIOUS_EFFICIENCY", 0.06),
        ("MAX_SHIFT", 0.24),
        ("MAX_SHIFT", 0.27),
        ("MAX_STRETCH", 1.2),
        ("MAX_STRETCH", 1.3),
    ],
)
def test_planted_thresholds_are_caught(constant, value, monkeypatch):
    monkeypatch.setattr(judging, constant, value)
    assert differences(judge)


def test_judging_is_pure():
    """The same evidence gives the same assessment, and stays as it is."""
    for case in CASES.values():
        evidence = case.evidence
        assert judge(evidence) == judge(evidence)
        assert evidence == case.evidence


def test_reasons_come_worst_first():
    for case in CASES.values():
        found = [reason.level.severity for reason in judge(case.evidence).reasons]
        assert found == sorted(found, reverse=True)


def test_an_assessment_cannot_be_altered():
    with pytest.raises(dataclasses.FrozenInstanceError):
        judge(EXACT).level = "trust"
    assert isinstance(judge(EXACT), Assessment)


# Certificates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "certified"),
    [
        ({}, True),
        ({"effective_size": 799.0}, False),
        ({"missed_share": 0.11}, False),
        ({"exact": False}, False),
    ],
)
def test_what_certifies(facts, certified):
    usual = {"exact": True, "effective_size": 800.0, "missed_share": 0.1}
    assert judging.certifies(**{**usual, **facts}) is certified


@pytest.mark.parametrize(
    ("efficiency", "relative_variance", "verdict"),
    [
        (0.9, 10.0, Verdict.POOR),
        (0.9, 10.1, Verdict.NOT_CERTIFIABLE),
        (0.5, 10.1, Verdict.NOT_CERTIFIABLE),
        (0.49, 10.1, Verdict.POOR),
        (0.1, 20.0, Verdict.POOR),
        (0.1, 20.1, Verdict.NOT_CERTIFIABLE),
        (0.0, float("inf"), Verdict.NOT_CERTIFIABLE),
    ],
)
def test_verdicts_of_8000_draws(efficiency, relative_variance, verdict):
    numbers = {"relative_variance": relative_variance, "num_draws": 8000}
    found = judging.certificate_verdict(certified=False, efficiency=efficiency, **numbers)
    assert found is verdict
    blind = judging.certificate_verdict(
        certified=False, efficiency=efficiency, explained=False, **numbers
    )
    assert blind is Verdict.UNEXPLAINED
    certified = judging.certificate_verdict(certified=True, efficiency=efficiency, **numbers)
    assert certified is Verdict.CERTIFIED


# One place ----------------------------------------------------------------------------------------

PURE = ("reasons", "evidence", "judging", "assessment", "sentences")
"""What diagnostics and the rest stand on."""


def modules(source):
    """What a source imports when it runs; names for type checkers alone do not count."""
    tree = ast.parse(source)
    typing = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n)]
    skipped = {id(inner) for block in typing for inner in ast.walk(block)}
    return {
        node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and id(node) not in skipped
    }


@pytest.mark.parametrize("name", PURE)
def test_judging_stands_below_diagnostics(name):
    folder = Path(nw.__file__).parent / "assessment"
    found = modules((folder / f"{name}.py").read_text())
    ours = {module for module in found if module.startswith("noisewise")}
    above = ("noisewise.diagnostics", "noisewise.reports", "noisewise.inference", "noisewise.model")
    assert not {module for module in ours if module.startswith(above)}


def test_no_threshold_stands_elsewhere():
    """Levels and their numbers are written in `assessment` alone."""
    package = Path(nw.__file__).parent
    for path in package.rglob("*.py"):
        if path.parent.name != "assessment":
            text = path.read_text()
            assert not any(f'"{level}"' in text for level in ("trust with care", "do not trust")), (
                path
            )
            assert '"exact, but few draws"' not in text, path
