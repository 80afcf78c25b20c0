"""Small settings with which confidential likelihoods are learnt in seconds."""

import functools

import jax

from noisewise.estimators import masked_autoregressive_flow
from noisewise.inference.learned.confidential.confidential_likelihood_estimation import (
    ConfidentialLikelihoodEstimation,
)

KEY = jax.random.key(6)
AFFINE = functools.partial(masked_autoregressive_flow, num_layers=1, num_units=8, num_hidden=1)
CLE = functools.partial(
    ConfidentialLikelihoodEstimation,
    num_members=1,
    num_chains=256,
    num_warmup=20,
    target_ess=2000,
    estimator=AFFINE,
)
