"""Approximate Bayesian computation, within a tolerance or exact by acceptance."""
