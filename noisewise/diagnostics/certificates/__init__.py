"""Certificates of one posterior: importance weights from fresh simulations.

`certify` makes a `Certificate`. `defensive` makes the proposal, and `measuring` tells a poor
approximation from a noisy simulator. The rules of the verdict are in `assessment.judging`.
"""
