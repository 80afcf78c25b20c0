"""How well chains have mixed: R-hat and effective sizes of one quantity, by the arviz that is
installed, 0.x or 1.x.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

_TAILS = (0.05, 0.95)
"""The quantiles whose smaller effective size is that of the tails (Vehtari et al. 2021)."""


def r_hat(chains: Float[np.ndarray, "c n"]) -> float:
    """The rank-normalised split R-hat.

    Args:
        chains: Draws, shape (c, n).

    Returns:
        R-hat; NaN for one chain, fewer than 4 draws, or NaN among them.

    Reference: Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), Rank-normalization, folding,
    and localization.

    >>> round(r_hat(np.random.default_rng(0).normal(size=(4, 1000))), 2)
    1.0
    """
    return _by_arviz("rhat", chains, method="rank")


def effective_draws(
    chains: Float[np.ndarray, "c n"], kind: Literal["bulk", "tail", "mean"] = "bulk"
) -> float:
    """How many independent draws these are worth, all chains together.

    Args:
        chains: Draws, shape (c, n).
        kind: For what: the ranks, the 5% and the 95% quantile, or the mean.

    Returns:
        The effective size; NaN for fewer than 4 draws, or NaN among them.

    >>> chains = np.random.default_rng(0).normal(size=(4, 1000)).cumsum(axis=1)
    >>> effective_draws(chains) < 40
    True
    """
    more = {"prob": _TAILS} if kind == "tail" else {}  # the default of arviz 0.x alone
    return _by_arviz("ess", chains, method=kind, **more)


def _by_arviz(name: str, chains: np.ndarray, **settings: Any) -> float:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        import arviz

        return float(getattr(arviz, name)(np.ascontiguousarray(chains), **settings))
