"""Mixtures fitted to weighted draws."""

import numpy as np
import pytest

from noisewise.samplers.t_mixtures import fitted_mixture


@pytest.mark.parametrize("log_weight", [-40.0, -100.0, -800.0])
def test_one_of_two_draws_may_have_nearly_all_weight(log_weight):
    """The covariance of both is then far below the rounding of one of them around the other."""
    z = np.array([[1.61466257, -1.66390345], [1.08571255, -1.08000089]])
    log_weights = np.array([0.0, log_weight])
    law = fitted_mixture(z, log_weights, log_weights, max_components=4, daring=True)
    assert np.isfinite(law.log_prob(z)).all()
    assert np.isfinite(law.roots).all()
