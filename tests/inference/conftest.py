"""Fixtures that tests of methods share."""

import pytest


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """References of problems are computed anew, whatever was kept before."""
    monkeypatch.setenv("NOISEWISE_CACHE_DIR", str(tmp_path))
