"""What is validated on is never trained on, in any round."""

import functools
import itertools

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise.inference.learned.common import learning

SMALL = functools.partial(
    nw.estimators.mixture_density_network, num_components=2, num_units=8, num_hidden=1
)
QUICK = {
    "estimator": SMALL,
    "training": nw.estimators.Training(max_epochs=2),
    "num_simulations": 60,
}
CHAINS = {"num_chains": 10, "num_warmup": 10, "target_ess": 50}
METHODS = {
    "sppe": nw.inference.PrivatePosteriorEstimation(
        num_rounds=3, num_noise=2, noise_bank=4, **QUICK
    ),
    "sple": nw.inference.PrivateLikelihoodEstimation(num_rounds=3, noise_bank=4, **QUICK, **CHAINS),
    "cle": nw.inference.ConfidentialLikelihoodEstimation(num_rounds=3, **QUICK, **CHAINS),
}


@pytest.mark.parametrize(
    "learner",
    [
        "sppe",
        pytest.param("sple", marks=pytest.mark.slow),
        pytest.param("cle", marks=pytest.mark.slow),
    ],
)
def test_rows_keep_their_role(learner, monkeypatch):
    """Disjoint; all rows of a round are used; a row of one round has the same role in the next.
    Truncation may drop rows, no more.
    """
    real, seen = learning.train, []

    def spy(*args, **more):
        seen.append((set(map(int, more["train_rows"])), set(map(int, more["validation_rows"]))))
        return real(*args, **more)

    monkeypatch.setattr(learning, "train", spy)
    problem = nw.problems.gaussian_mean(epsilon=1.0)
    METHODS[learner].infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    assert len(seen) == 3
    for number, (train, validation) in enumerate(seen, start=1):
        assert not train & validation
        assert len(validation) >= number
        rows = np.arange(60 * number)
        if learner == "sppe":
            assert (train | validation) <= set(rows.tolist())
        else:
            assert train | validation == set(rows.tolist())
    for (train, validation), (later_train, later_validation) in itertools.pairwise(seen):
        assert not train & later_validation
        assert not validation & later_train
