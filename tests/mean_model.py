"""A private model of the mean of 50 normal records, of which tests change parts."""

import jax
import numpy as np
import numpyro.distributions as dist

import noisewise as nw
from noisewise.simulators import JaxSimulator

M, Q = nw.mechanisms, nw.queries

KEY = jax.random.key(2)
PRIOR = nw.Prior({"mu": dist.Normal(0, 1), "sd": dist.LogNormal(0, 0.3)})
THETA = np.array([[0.0, 1.0], [1.0, 0.5], [-2.0, 2.0]])
MEAN = Q.ClampedMean(bounds=(-5.0, 5.0), num_records=50)


def draw(key, theta):
    return theta[0] + theta[1] * jax.random.normal(key, (50, 1))


def model(**changes):
    parts = {
        "prior": PRIOR,
        "simulator": JaxSimulator(draw),
        "query": MEAN,
        "mechanism": M.Laplace.calibrate(
            sensitivity=MEAN.sensitivity(norm=1), guarantee=nw.PureDP(1.0)
        ),
    }
    return nw.PrivateModel(**{**parts, **changes})
