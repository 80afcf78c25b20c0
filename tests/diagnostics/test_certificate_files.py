"""Certificates as JSON: what is written is read, and what cannot be is refused."""

import dataclasses
import json
import math

import jax
import pytest

import noisewise as nw
from noisewise.diagnostics import Certificate
from noisewise.errors import FileFormatError
from noisewise.posteriors import Draws, Report

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def certificate():
    problem = nw.problems.gaussian_mean(1.0)
    posterior = Draws(problem.reference(KEY, 500), problem.model.names, Report("learnt"))
    return nw.diagnostics.certify(KEY, posterior, problem.model, problem.observed, 2000)


def test_what_is_written_is_read(certificate):
    spec = json.loads(json.dumps(certificate.to_spec(), allow_nan=False))
    again = Certificate.from_spec(spec, certificate.corrected)
    assert again == certificate
    assert again.facts == certificate.facts
    assert again.sentence == spec["sentence"] == certificate.sentence


def test_numbers_that_are_not_finite_are_read(certificate):
    odd = dataclasses.replace(certificate, pareto_k=math.inf, log_evidence=-math.inf)
    spec = json.loads(json.dumps(odd.to_spec(), allow_nan=False))
    again = Certificate.from_spec(spec, certificate.corrected)
    assert (again.pareto_k, again.log_evidence) == (math.inf, -math.inf)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("verdict", "splendid", ValueError),
        ("verdict", 3, FileFormatError),
        ("effective_size", "many", FileFormatError),
        ("num_draws", 3.5, FileFormatError),
        ("num_draws", True, FileFormatError),
        ("comparison", [1.0], FileFormatError),
        ("comparison", {"mean": [1.0]}, ValueError),
        ("relative_variance", 0.0, (ArithmeticError, ValueError)),
    ],
)
def test_what_is_no_certificate_is_refused(certificate, name, value, error):
    spec = {**certificate.to_spec(), name: value}
    with pytest.raises(error):
        Certificate.from_spec(spec, certificate.corrected)


def test_missing_fields_are_refused(certificate):
    spec = certificate.to_spec()
    del spec["missed_share"]
    with pytest.raises(KeyError, match="missed_share"):
        Certificate.from_spec(spec, certificate.corrected)
