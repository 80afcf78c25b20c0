"""The fixed seed of the observations that ship with the package."""

OBSERVATION_SEED = 20_240
"""Observations that the paper does not print are made once, with keys of this seed and the next."""
