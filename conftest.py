"""Shared fixtures: JAX's global precision flag off and on, and seeds that never change."""

import functools
import gc
import itertools
import os
import sys
from pathlib import Path

import jax
import pytest
import typer.testing

# Tracing programs makes millions of small objects that live on: with Python's own threshold of 700
# a tenth of the suite's time goes into looking for cycles among them.
gc.set_threshold(20_000)


@pytest.fixture(autouse=True, scope="session")
def _records_apart(tmp_path_factory):
    """Tests leave nothing among the user's own records, and find nothing there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _nothing_waits_for_the_disk():
    """No test of this process outlives a power cut; those that kill processes start others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _commands_made_once():
    """Typer makes the commands anew for each of the hundreds of command lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command))
        yield


_LOOK_EVERY = 100
"""Tests between two looks at the memory maps: a look takes some 20 ms."""
_MANY_MAPS = 40_000
"""Memory maps of a process from which compiled programs are forgotten: each program takes several,
and Linux allows 65,530, beyond which the next program ends the process.
"""
_seen = itertools.count(1)


@pytest.fixture(autouse=True)
def _room_for_programs():
    """Thousands of tests in one process compile more programs than it may hold."""
    yield
    if next(_seen) % _LOOK_EVERY == 0 and _num_maps() > _MANY_MAPS:
        jax.clear_caches()
        gc.collect()


def _num_maps() -> int:
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


@pytest.fixture(autouse=True)
def _figures_closed():
    """Examples leave figures open, of which pyplot allows twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(params=[False, True], ids=["x64-off", "x64-on"])
def x64_flag(request):
    """Run a test under both settings of JAX's global flag, which noisewise must not depend on."""
    with jax.enable_x64(request.param):
        yield request.param
