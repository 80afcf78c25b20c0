"""Normal laws through Laplace and Gaussian noise, several normal numbers through Gaussian noise."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.mechanisms import Gaussian, Laplace
from tests.laws import reference
from tests.laws.catalogue import array
from tests.laws.test_continuous import LONG, integral

MEANS = array(0.0, 5.0, -3.0, 1e6, 0.0, 0.0, 0.0, 40.0)
SDS = array(1.0, 2.0, 1.0, 1e3, 1e-3, 1e3, 1.0, 5.0)
SCALES = array(2.0, 0.5, 1.0, 30.0, 1.0, 0.1, 1e3, 5.0)
PLACES = array(0.3, 20.0, -20.0, 1.0, 20.0, -20.0, 3.0, -20.0)
"""In sds of what is released."""
NOISES = {"Laplace": (Laplace, reference.laplace), "Gaussian": (Gaussian, reference.gaussian)}


def released(noise):
    unit = np.sqrt(2.0) if noise == "Laplace" else 1.0
    return MEANS + PLACES * np.hypot(SDS, unit * SCALES)


def exactly(mean, sd, log_eta, scale, y):
    """By quadrature between cuts at both, their ends, and the mode of the product."""
    sides = [mean + sign * sd**2 / scale for sign in (-1, 1)]
    middle = (mean * scale**2 + y * sd**2) / (scale**2 + sd**2)
    width = 1.0 / np.sqrt(1.0 / sd**2 + 1.0 / scale**2)
    places = [mean + k * sd for k in (-45, -8, 0, 8, 45)]
    places += [side + k * sd for side in sides for k in (-12, -3, 0, 3, 12)]
    places += [middle + k * width for k in (-12, -3, 0, 3, 12)]
    places += [y + k * scale for k in (-3, 0, 3)]
    # f is cut where it is e^-1000
    cuts = sorted({float(x) for x in places if abs(x - mean) <= 45.0 * sd})

    def log_integrand(s, below, above):
        del below, above
        law = -(((s - mean) / LONG(sd)) ** 2) / 2 - np.log(LONG(sd)) - 0.5 * np.log(2 * np.pi)
        return law + log_eta(LONG(y), s)

    return integral(log_integrand, cuts)


def errors(noise, y=None):
    make, log_eta = NOISES[noise]
    y = released(noise) if y is None else y
    with jax.enable_x64(True):
        found = np.asarray(nw.Privatized(dist.Normal(MEANS, SDS), make(scale=SCALES)).log_prob(y))
    exact = [
        exactly(MEANS[j], SDS[j], log_eta(SCALES[j]), SCALES[j], released(noise)[j])
        for j in range(len(MEANS))
    ]
    return np.abs(found - exact) / np.maximum(1.0, np.abs(exact))


@pytest.mark.parametrize("noise", NOISES)
def test_normal_laws(noise):
    assert errors(noise).max() <= 1e-9


def test_a_shifted_value_is_caught():
    """Planted: a released number that is off by 1e-6 of its sd."""
    y = released("Laplace")
    assert errors("Laplace", y + 1e-6 * np.hypot(SDS, SCALES)).max() > 1e-9


def several():
    """A covariance that is far from diagonal, scales per column, 20 sds away."""
    root = np.array([[3.0, 0.0, 0.0], [2.9, 0.3, 0.0], [-1.0, 5.0, 0.01]])
    covariance, scales = root @ root.T, np.array([0.5, 2.0, 0.1])
    return np.array([1.0, -2.0, 30.0]), covariance, scales, np.array([60.0, -1.0, 40.0])


def long_log_density(mean, covariance, y):
    """By elimination in long double."""
    matrix, rest = covariance.astype(LONG), (y - mean).astype(LONG)
    total = LONG(0)
    for j in range(len(rest)):
        pivot = matrix[j, j]
        total -= (np.log(2 * np.pi * pivot) + rest[j] ** 2 / pivot) / 2
        share = matrix[j + 1 :, j] / pivot
        rest[j + 1 :] -= share * rest[j]
        matrix[j + 1 :] -= share[:, None] * matrix[j]
    return float(total)


def test_several_normal_numbers():
    mean, covariance, scales, y = several()
    exact = long_log_density(mean, covariance + np.diag(scales**2), y)
    forgotten = long_log_density(mean, covariance + np.diag(scales), y)  # planted: no squares
    with jax.enable_x64(True):
        law = dist.MultivariateNormal(jnp.asarray(mean), covariance_matrix=covariance)
        found = float(nw.Privatized(law, Gaussian(scale=scales.tolist())).log_prob(y))
    assert abs(found - exact) <= 1e-9 * abs(exact)
    assert abs(forgotten - exact) > 1e-3 * abs(exact)
