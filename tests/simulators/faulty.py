"""Simulators that fail at theta = .5, each in its own way, and parameters of which that is one."""

import ctypes
import os
import time

import jax
import numpy as np

KEY = jax.random.key(3)
THETA = np.linspace(0.0, 1.0, 101)[:, None]
HALF = 50


def here(x):
    return x


def plain(rng, theta):
    return theta + rng.normal(size=1)


def raises(rng, theta):
    if theta[0] == 0.5:
        raise ValueError("half")
    return plain(rng, theta)


def kills(rng, theta):
    if theta[0] == 0.5:
        os._exit(7)
    return plain(rng, theta)


def sleeps(rng, theta):
    if theta[0] == 0.5:
        time.sleep(1000.0)
    return plain(rng, theta)


def loops(rng, theta):
    while theta[0] == 0.5:
        pass
    return plain(rng, theta)


def keeps_the_gil(rng, theta):
    """As compiled code may: only the end of its process ends it."""
    if theta[0] == 0.5:
        ctypes.PyDLL(None).sleep(1000)
    return plain(rng, theta)
