"""Measured ratios: `python -m benchmarks`, or `make bench`."""
