"""Who says yes? A logistic regression on answers that were randomised by those who gave them."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import noisewise as nw

age = np.loadtxt(Path(__file__).with_name("ages.csv"), skiprows=1)
prior = nw.Prior({"intercept": dist.Normal(0.0, 2.5), "slope": dist.Normal(0.0, 2.5)})


def answers(theta):
    return dist.Bernoulli(logits=theta["intercept"] + theta["slope"] * jnp.asarray(age))


def model(release):
    law = nw.simulators.StatisticLaw(answers)
    return nw.PrivateModel.from_release(release, prior=prior, simulator=law)
