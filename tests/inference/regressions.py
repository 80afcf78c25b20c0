"""How tests of regression methods infer."""

import jax

from noisewise.inference.baselines.gibbs_sufficient_statistics import GibbsSufficientStatistics

KEY = jax.random.key(5)
SHORT = GibbsSufficientStatistics(num_draws=200, num_warmup=1000, thin=30)


def infer(method, model, observed, key=KEY):
    return method.infer(key, model, observed, progress=False)


def infer_problem(method, problem):
    return infer(method, problem.model, problem.observed)
