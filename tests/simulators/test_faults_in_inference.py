"""Inferences whose simulators fail now and then: what is dropped, counted and reported, over all
sessions, and when it is too much.
"""

import itertools

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise.simulators import PythonSimulator
from tests.simulators.faulty import KEY, THETA, here


def a_model(fn, **settings):
    return nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Uniform(0.0, 1.0)}),
        simulator=PythonSimulator(fn, **settings),
        query=nw.queries.FunctionQuery(here, names=("s",)),
        mechanism=nw.mechanisms.Laplace(scale=0.1),
    )


def fails_above(rng, theta):
    if theta[0] > 0.97:
        raise ValueError("too large")
    return np.array([np.nan]) if theta[0] < 0.01 else theta + 0.1 * rng.normal(size=1)


def test_an_inference_drops_counts_and_reports():
    posterior = nw.inference.ImportanceSampling(num_stages=0, num_final=2000).infer(
        KEY, a_model(fails_above), [0.4], progress=False
    )
    warnings = " ".join(posterior.report.warnings)
    assert 30 < posterior.report.num_failed < 130
    assert "simulations failed twice and were dropped" in warnings
    assert "ValueError: too large" in warnings
    assert "biased" in warnings


def test_the_automatic_choice_tells_crashes_from_impossible_data(tmp_path):
    """Also when it goes on in another session, which knows of the failures of the first."""
    model, options = (
        a_model(fails_above),
        {
            "target_ess": 200,
            "max_simulations": 3000,
            "progress": False,
        },
    )
    whole = nw.infer(KEY, model, [0.9], **options)
    texts = whole.report.warnings
    assert sum("failed twice and were dropped" in text for text in texts) == 1
    assert sum("(NaN): they count as impossible" in text for text in texts) == 1
    dropped = whole.report.diagnostics["simulations dropped"]
    assert 0 < dropped < whole.report.num_failed
    with pytest.raises(KeyboardInterrupt):
        nw.infer(
            KEY,
            a_model(interrupting(fails_above, 1200)),
            [0.9],
            run_dir=tmp_path / "run",
            **options,
        )
    resumed = nw.infer(KEY, a_model(fails_above), [0.9], run_dir=tmp_path / "run", **options)
    assert resumed.report.warnings == texts
    assert resumed.report.diagnostics["simulations dropped"] == dropped


def interrupting(fn, after):
    calls = itertools.count()

    def simulate(rng, theta):
        if next(calls) == after:
            raise KeyboardInterrupt
        return fn(rng, theta)

    return simulate


def test_a_budget_of_failures_is_one_for_all_sessions(tmp_path, monkeypatch):
    """12% fail where 5% may: sessions that are too short to see it do not start to count again."""
    monkeypatch.setattr("noisewise.inference.contract.batches._BATCH_SECONDS", 1e-3)

    def often(rng, theta):
        if theta[0] > 0.88:
            raise ValueError("large")
        return theta + 0.1 * rng.normal(size=1)

    method = nw.inference.ImportanceSampling(num_stages=0, num_final=2000)
    ends = []
    for _ in range(40):
        try:
            method.infer(
                KEY,
                a_model(interrupting(often, 60)),
                [0.4],
                run_dir=tmp_path / "run",
                progress=False,
            )
        except (KeyboardInterrupt, errors.SimulationError) as error:
            ends.append(type(error))
        if ends[-1] is errors.SimulationError:
            break
    assert KeyboardInterrupt in ends
    assert ends[-1] is errors.SimulationError


def test_an_inference_stops_with_an_example_where_too_many_fail():
    model = a_model(fails_above, max_failed=0.001)
    with pytest.raises(
        errors.SimulationError,
        match=r"max_failed=0\.001\) allows, the first of them at theta = \[0\.9",
    ):
        nw.inference.ImportanceSampling(num_stages=0, num_final=20_000).infer(
            KEY, model, [0.4], progress=False
        )


def test_a_model_whose_first_simulation_fails_still_has_a_width():
    def unlucky(rng, theta):
        if theta[0] == first:
            raise ValueError("first")
        return theta

    model = nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Uniform(0.0, 1.0)}), simulator=PythonSimulator(unlucky), query=here,
        mechanism=nw.mechanisms.Laplace(scale=0.1),
    )  # fmt: skip
    first = float(model.prior.sample(jax.random.key(0), 8)[0, 0])
    assert model.statistic_width == 1


def test_nan_in_place_of_data_is_impossible_data_for_any_query():
    def sometimes(rng, theta):
        return np.nan if theta[0] < 0.3 else rng.normal(theta[0], 1.0, size=(20, 1))

    query = nw.queries.ClampedMean(bounds=(-3.0, 3.0), num_records=20)
    s = PythonSimulator(sometimes).statistics(KEY, THETA, query)
    assert np.flatnonzero(np.isnan(s[:, 0])).tolist() == list(range(30))
    model = nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Uniform(0.0, 1.0)}), simulator=PythonSimulator(sometimes), query=query,
        mechanism=nw.mechanisms.Laplace(scale=0.3, sensitivity=0.3),
    )  # fmt: skip
    posterior = nw.inference.ImportanceSampling(num_stages=0, num_final=500).infer(
        KEY, model, [0.4], progress=False
    )
    assert posterior.sample(KEY, 100).min() >= 0.3
    assert not any("twice" in text for text in posterior.report.warnings)
