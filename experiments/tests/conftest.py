"""The fixtures of all tests."""

from tests.conftest import _records_apart, x64_flag  # noqa: F401
