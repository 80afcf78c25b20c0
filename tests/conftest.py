"""Shared fixtures: JAX's global precision flag off and on, and seeds that never change."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="session")
def _records_apart(tmp_path_factory):
    """Tests leave nothing among the user's own records, and find nothing there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(params=[False, True], ids=["x64-off", "x64-on"])
def x64_flag(request):
    """Run a test under both settings of JAX's global flag, which noisewise must not depend on."""
    with jax.enable_x64(request.param):
        yield request.param
