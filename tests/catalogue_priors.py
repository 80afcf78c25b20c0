"""The catalogue of priors: laws of one number and of many, over every kind of support."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpyro.distributions as dist
import scipy.stats as st


@dataclasses.dataclass(frozen=True)
class Case:
    """A distribution, its scipy twin, a point off its support, and which entries of theta are free
    coordinates.
    """

    make: Callable[[], dist.Distribution]
    twin: Any = None
    off: Any = None
    free: tuple[int, ...] | None = None


def affine_of_normal():
    return dist.TransformedDistribution(
        dist.Normal(0, 1), dist.transforms.AffineTransform(1.0, 2.0)
    )


COVARIANCE = np.array([[0.5, 0.1], [0.1, 0.2]])
ONE = {
    "normal": Case(lambda: dist.Normal(1, 2), st.norm(1, 2), np.inf),
    "student": Case(lambda: dist.StudentT(3.0, 1.0, 2.0), st.t(3, 1, 2), -np.inf),
    "log-normal": Case(lambda: dist.LogNormal(0, 0.5), st.lognorm(0.5), 0.0),
    "gamma": Case(lambda: dist.Gamma(2.0, 3.0), st.gamma(2, scale=1 / 3), -1.0),
    "beta": Case(lambda: dist.Beta(2, 3), st.beta(2, 3), 1.5),
    "uniform": Case(lambda: dist.Uniform(-1, 2), st.uniform(-1, 3), 2.1),
    "log-uniform": Case(lambda: dist.LogUniform(0.1, 10.0), st.loguniform(0.1, 10), 0.09),
    "truncated": Case(
        lambda: dist.TruncatedNormal(0, 1, low=-1, high=0.3), st.truncnorm(-1, 0.3), 0.31
    ),
    "left-truncated": Case(
        lambda: dist.TruncatedNormal(0, 1, low=0.1), st.truncnorm(0.1, np.inf), 0.0
    ),
    "transformed": Case(affine_of_normal, st.norm(1, 2), np.inf),
}
MANY = {
    "normals": Case(lambda: dist.Normal(np.arange(3.0), 2).to_event(1), None, [0.0, np.nan, 0.0]),
    "multivariate": Case(
        lambda: dist.MultivariateNormal(np.ones(2), COVARIANCE),
        st.multivariate_normal(np.ones(2), COVARIANCE),
    ),
    "simplex": Case(
        lambda: dist.Dirichlet(np.array([2.0, 1.0, 3.5])),
        st.dirichlet([2, 1, 3.5]),
        [0.2, 0.3, 0.6],
        (0, 1),
    ),
    "simplex-50": Case(
        lambda: dist.Dirichlet(np.linspace(0.5, 3.0, 50)),
        st.dirichlet(np.linspace(0.5, 3, 50)),
        np.full(50, 0.03),
        tuple(range(49)),
    ),
    "simplexes": Case(
        lambda: dist.Dirichlet(np.full((3, 4), 1.5)),
        None,
        np.full(12, 0.3),
        (0, 1, 2, 4, 5, 6, 8, 9, 10),
    ),
    "intervals": Case(lambda: dist.Uniform(np.zeros(2), np.array([1.0, 5.0])), None, [2.0, 2.0]),
    "cholesky": Case(lambda: dist.LKJCholesky(3, 1.5), None, np.full(9, 0.5), (3, 6, 7)),
    "ordered": Case(
        lambda: dist.TransformedDistribution(
            dist.Normal(0, 1).expand([3]).to_event(1), dist.transforms.OrderedTransform()
        ),
        None,
        [0.0, -1.0, 2.0],
    ),
    "zero-sum": Case(lambda: dist.ZeroSumNormal(1.0, event_shape=(3,)), None, [1.0, 1.0, 1.0]),
}
ALL = {**ONE, **MANY}
