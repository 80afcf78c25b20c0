"""Posteriors that bear a model that is wrong about some statistics."""
