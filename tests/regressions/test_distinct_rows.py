"""Rows that are alike are computed once, and those that say nothing not at all: the same density."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise.inference.marginal.distinct_rows import distinct_rows
from noisewise.inference.marginal.marginal_nuts import MarginalDensity

M = nw.mechanisms


def survey(num=24):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "answer": np.where(np.arange(num) == 5, np.nan, rng.integers(0, 2, num)),
            "age": rng.integers(2, 4, num) * 1.0,
            "district": np.resize(["South", "North"], num),
            "p": np.resize([0.7, 0.8, 0.7], num),
        }
    )


def analysed(frame):
    return nw.regression(
        "answer ~ age + (1 | district)",
        frame,
        law="bernoulli",
        mechanism=M.Crosswise(p=frame["p"].to_numpy()),
    )


def densities(analysis):
    """Of the rows that differ, and of all, at some point; and how many rows are left."""
    few = MarginalDensity.of_distinct_rows(analysis.model, analysis.observed)
    full = MarginalDensity.of(analysis.model, analysis.observed)
    theta = np.linspace(0.2, 0.9, analysis.model.prior.dim)
    with jax.enable_x64(True):
        found = [float(density.log_likelihood(theta)) for density in (few, full)]
    return *found, few


def test_rows_that_are_alike_count_as_often_as_there_are():
    analysis = analysed(survey())
    few, full, density = densities(analysis)
    assert len(density.observed) < 16
    assert density.counts.sum() == 23  # one was not measured
    assert few == pytest.approx(full, rel=1e-12)
    with jax.enable_x64(True):  # planted
        theta = np.linspace(0.2, 0.9, analysis.model.prior.dim)
        wrong = dataclasses.replace(density, counts=np.ones_like(density.counts))
        assert abs(float(wrong.log_likelihood(theta)) - full) > 0.1


def test_rows_differ_by_law_mechanism_and_outcome():
    frame = survey(6).assign(age=3.0, district="South", p=0.7, answer=1.0)
    counts = {}
    for name, change in {
        "none": {},
        "law": {"age": [3.0] * 5 + [4.0]},
        "mechanism": {"p": [0.7] * 5 + [0.8]},
        "outcome": {"answer": [1.0] * 5 + [0.0]},
    }.items():
        analysis = analysed(frame.assign(**change))
        counts[name] = distinct_rows(analysis.model, analysis.observed).counts.tolist()
    assert counts.pop("none") == [6.0]
    assert all(found == [5.0, 1.0] for found in counts.values())


def test_absent_rows_are_alike_and_no_missing_ones():
    frame = pd.DataFrame({"count": [np.nan, 12.0, np.nan, np.nan, 12.0, 30.0], "x": 1.0})
    noise = M.Thresholded(M.DiscreteLaplace(scale=2.0), above=10.0)
    mechanism = M.PerCell([noise, M.Unmeasured()], [0, 0, 0, 1, 0, 0])
    analysis = nw.regression("count ~ 1", frame, law="poisson", mechanism=mechanism)
    found = distinct_rows(analysis.model, analysis.observed)
    np.testing.assert_array_equal(found.observed, [np.nan, 12.0, 30.0])
    assert found.counts.tolist() == [2.0, 2.0, 1.0]


def test_designs_without_a_number():
    """A direct question beside another design."""
    frame = survey(6).assign(age=3.0, district="South", answer=1.0)
    mechanism = M.PerCell([M.DirectQuestion(), M.Warner(p=0.8)], [0, 0, 0, 1, 1, 1])
    analysis = nw.regression("answer ~ 1", frame, law="bernoulli", mechanism=mechanism)
    assert distinct_rows(analysis.model, analysis.observed).counts.tolist() == [3.0, 3.0]


def test_nothing_is_done_where_all_rows_differ():
    frame = survey(6).assign(age=np.arange(6.0), answer=1.0)
    analysis = analysed(frame)
    assert distinct_rows(analysis.model, analysis.observed) is None
