"""Simulations on a dask cluster of two real worker processes: the same numbers as here, also when
one of them is killed.
"""

import os
import signal
import threading
import time

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.simulators import Faults, PythonSimulator, Workers
from noisewise.simulators.dispatch import num_workers

distributed = pytest.importorskip("distributed", reason="needs noisewise[distributed]")

KEY = jax.random.key(5)
THETA = np.linspace(0.0, 1.0, 200)[:, None]


def simulate(rng, theta):
    return theta + 0.1 * rng.normal(size=1)


def simulate_slowly(rng, theta):
    time.sleep(0.005)
    return simulate(rng, theta)


def here(x):
    return x


def a_model(fn=simulate, **settings):
    return nw.PrivateModel(
        prior=nw.Prior({"mean": dist.Uniform(0.0, 1.0)}),
        simulator=PythonSimulator(fn, **settings),
        query=nw.queries.FunctionQuery(here, names=("s",)),
        mechanism=nw.mechanisms.Laplace(scale=0.1),
    )


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def infer(executor=None, **options):
    method = nw.inference.SMCABC(num_particles=30, num_rounds=2, max_simulations=300)
    return method.infer(KEY, a_model(), [0.4], executor=executor, progress=False, **options)


@pytest.mark.slow
def test_the_same_posterior_for_one_and_two_workers_here_and_on_a_cluster(client, tmp_path):
    reference = infer()
    with Workers(1) as one, Workers(2) as two:
        found = {
            "one worker": infer(one),
            "two workers": infer(two),
            "dask": infer(client.get_executor()),
            "dask, on disk": infer(client.get_executor(), run_dir=tmp_path / "run"),
        }
    for name, posterior in found.items():
        assert np.array_equal(posterior.sample(KEY, 200), reference.sample(KEY, 200)), name
        assert posterior.report.num_simulations == reference.report.num_simulations, name


def test_its_size_is_known(client):
    assert num_workers(client.get_executor()) == 2


def test_a_worker_killed_in_the_middle_loses_nothing(client):
    reference = a_model().statistics(KEY, THETA)
    pids = client.run(os.getpid)
    victim = next(iter(pids.values()))
    killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    killer.start()
    faults = Faults(max_failed=0.05)
    s = a_model(simulate_slowly).statistics(
        KEY, THETA, executor=client.get_executor(), batch_size=5, faults=faults
    )
    killer.join()
    assert np.array_equal(s, reference)
    assert faults.total == 0
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values()


@pytest.mark.slow
def test_what_hangs_on_a_cluster_is_left_behind(client):
    def hangs(rng, theta):
        if theta[0] == 0.0:
            time.sleep(1000.0)
        return theta

    faults = Faults(max_failed=0.05)
    s = a_model(hangs, timeout=0.5).statistics(
        KEY, THETA, executor=client.get_executor(), batch_size=5, faults=faults
    )
    assert np.flatnonzero(np.isnan(s[:, 0])).tolist() == [0]
    assert faults.num_recovered == 0
    assert "took more than 0.5 s" in faults.example


@pytest.mark.slow
def test_what_kills_every_worker_is_dropped(client):
    """Dask gives up on a batch after some deaths; run one by one, only the simulation to blame is
    dropped.
    """

    def kills(rng, theta):
        if theta[0] == 0.0:
            os._exit(1)
        return theta

    faults = Faults(max_failed=0.05)
    with_deaths = a_model(kills).statistics(
        KEY, THETA[:20], executor=client.get_executor(), batch_size=5, faults=faults
    )
    assert np.flatnonzero(np.isnan(with_deaths[:, 0])).tolist() == [0]
    assert np.array_equal(with_deaths[1:], THETA[1:20])
    assert (faults.total, faults.num_recovered) == (1, 4)
