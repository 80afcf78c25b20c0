"""The methods of the paper and ours, with the settings of a scale."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import noisewise as nw
from experiments.items import Scale
from noisewise.problems.linear_regression import UNCLAMPED_CROSS, UNCLAMPED_GRAM

NAMES = {
    "exact": "exact",
    "confidential": "confidential",
    "naive": "naive",
    "da-mcmc": "DA-MCMC",
    "smc-abc": "SMC-ABC",
    "sppe": "SPPE",
    "sppe-atomic": "SPPE, atomic",
    "sple": "SPLE",
    "gibbs-ss": "Gibbs-SS",
    "rnpe": "RNPE",
    "exact-smc": "ExactSMC",
    "cle": "CLE",
}
"""How tables call them. `sppe` learns with truncated proposals, `sppe-atomic` with the paper's
loss.
"""

UNCLAMPED_SQUARES = 2521.1204
"""y'y of the regression's confidential records as they are."""
_ABC_TOLERANCE_AT = 3.0
"""The paper's tolerances suit noise of this epsilon or more."""


def method(slug: str, scale: Scale, epsilon: float, layers: int | None = None) -> Any:
    """The inference method of that slug, at the paper's budget or at a smaller one."""
    return _MAKERS[slug](scale, epsilon, layers or scale.layers)


def _flow(scale: Scale, layers: int) -> Callable[..., Any]:
    return functools.partial(
        nw.estimators.neural_spline_flow, num_layers=layers, num_units=scale.hidden
    )


def _training(scale: Scale) -> nw.estimators.Training:
    return nw.estimators.Training(
        **({} if scale.max_epochs is None else {"max_epochs": scale.max_epochs})
    )


def _learning(scale: Scale, layers: int) -> dict[str, Any]:
    rounds = {"num_rounds": scale.rounds, "num_simulations": scale.num_simulations}
    return {**rounds, "estimator": _flow(scale, layers), "training": _training(scale)}


def _chains(scale: Scale) -> dict[str, Any]:
    return {"num_chains": 20, "num_warmup": 20, "target_ess": 200} if scale.quick else {}


def _sppe(scale: Scale, epsilon: float, layers: int) -> Any:
    return nw.inference.as_in_paper("sppe", **_learning(scale, layers))


def _atomic(scale: Scale, epsilon: float, layers: int) -> Any:
    correction = nw.inference.AtomicProposals()
    return nw.inference.as_in_paper(
        "sppe", correction=correction, num_noise=1, **_learning(scale, layers)
    )


def _sple(scale: Scale, epsilon: float, layers: int) -> Any:
    return nw.inference.PrivateLikelihoodEstimation(**_learning(scale, layers), **_chains(scale))


def _smc_abc(scale: Scale, epsilon: float, layers: int) -> Any:
    """The paper's tolerances .5 x .7^t where the noise allows them, else medians of what was
    accepted.
    """
    geometric = epsilon >= _ABC_TOLERANCE_AT
    tolerance = (
        nw.inference.GeometricDecay(0.5, 0.7) if geometric else nw.inference.QuantileDecay(0.5)
    )
    size: dict[str, Any] = (
        {"num_particles": 100, "max_simulations": 3000}
        if scale.quick
        else {"max_simulations": 500_000}
    )
    return nw.inference.SMCABC(tolerance=tolerance, **size)


def _exact_smc(scale: Scale, epsilon: float, layers: int) -> Any:
    size: dict[str, Any] = (
        {"num_particles": 400, "target_ess": 300, "max_simulations": 20_000} if scale.quick else {}
    )
    return nw.inference.ExactSMC(**size)


def _cle(scale: Scale, epsilon: float, layers: int) -> Any:
    budget = scale.rounds * scale.num_simulations
    small: dict[str, Any] = {"num_members": 1} if scale.quick else {}
    return nw.inference.ConfidentialLikelihoodEstimation(
        num_simulations=budget, training=_training(scale), **small, **_chains(scale)
    )


def _da_mcmc(scale: Scale, epsilon: float, layers: int) -> Any:
    return nw.inference.DataAugmentationMCMC(target_ess=400 if scale.quick else 20_000)


def _gibbs_ss(scale: Scale, epsilon: float, layers: int) -> Any:
    return nw.inference.GibbsSufficientStatistics(
        **({"num_draws": 100, "num_warmup": 500, "thin": 10} if scale.quick else {})
    )


def _rnpe(scale: Scale, epsilon: float, layers: int) -> Any:
    budget = scale.rounds * scale.num_simulations
    marginal: dict[str, Any] = {"marginal": _flow(scale, 1)} if scale.quick else {}
    return nw.inference.RobustPosteriorEstimation(
        num_simulations=budget,
        estimator=_flow(scale, layers),
        training=_training(scale),
        **marginal,
        **_chains(scale),
    )


def _naive(scale: Scale, epsilon: float, layers: int) -> Any:
    return nw.inference.NaivePlugIn(num_draws=400_000)


def _confidential(scale: Scale, epsilon: float, layers: int) -> Any:
    return nw.inference.ConfidentialPosterior(data=unclamped_records(), num_draws=400_000)


def unclamped_records() -> np.ndarray:
    """100 records (x1, x2, y) with exactly the sums of the paper's confidential data, of which only
    the sums are known.
    """
    cross = np.array(UNCLAMPED_CROSS)
    sums = np.block([[np.array(UNCLAMPED_GRAM), cross[:, None]], [cross, UNCLAMPED_SQUARES]])
    basis = np.column_stack([np.ones(100), np.random.default_rng(0).normal(size=(100, 3))])
    q, r = np.linalg.qr(basis)
    return (q * np.sign(np.diagonal(r)) @ np.linalg.cholesky(sums).T)[:, 1:]


_MAKERS: dict[str, Callable[[Scale, float, int], Any]] = {
    "confidential": _confidential,
    "naive": _naive,
    "da-mcmc": _da_mcmc,
    "smc-abc": _smc_abc,
    "sppe": _sppe,
    "sppe-atomic": _atomic,
    "sple": _sple,
    "gibbs-ss": _gibbs_ss,
    "rnpe": _rnpe,
    "exact-smc": _exact_smc,
    "cle": _cle,
}
