"""A small model and a quick run, and how it is interrupted."""

import jax
import numpy as np
import numpyro.distributions as dist

import noisewise as nw

KEY = jax.random.key(3)
SMC = nw.inference.SMCABC(num_particles=60, num_rounds=3)


class Interrupted(Exception):  # noqa: N818
    pass


def a_model(*, sd=1.0, scale=0.3, shift=0.0, names=("s",), parameter="a"):
    """theta ~ N(0, sd^2), s = theta + N(0, .2^2) + shift, in plain Python."""
    return nw.PrivateModel(
        prior=nw.Prior({parameter: dist.Normal(0.0, sd)}),
        simulator=nw.simulators.PythonSimulator(
            lambda rng, theta: theta + 0.2 * rng.normal(size=1) + shift
        ),
        query=nw.queries.FunctionQuery(lambda x: x, names=names),
        mechanism=nw.mechanisms.Gaussian(scale=scale),
    )


def infer(model, method=SMC, observed=(0.7,), key=KEY, **more):
    return method.infer(key, model, np.asarray(observed), progress=False, **more)


def interrupted(interrupt, call):
    """What `call` returns in the end, and in how many sittings, of which the first get one file
    further than the one before.
    """
    for sitting in range(1, 80):
        interrupt(max(1, sitting - 6))
        try:
            result = call()
        except Interrupted:
            continue
        interrupt(0)
        return result, sitting
    raise AssertionError("it never ends")
