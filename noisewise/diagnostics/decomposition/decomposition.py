"""Where the uncertainty of a posterior comes from."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    import pandas as pd

THREE = ("sampling", "clamping", "privacy")
TWO = ("sampling and clamping", "privacy")
_WORDS = {
    "sampling": "finitely many records",
    "clamping": "clamping and summarising them",
    "sampling and clamping": "finitely many records, clamped and summarised",
    "privacy": "the noise added for privacy",
}


@dataclasses.dataclass(frozen=True)
class Decomposition:
    """Variances (q, parts) of parameters and derived quantities, part by part; what
    `decompose_uncertainty` returns.

    Attributes:
        names: Parameters, then derived quantities.
        parts: Names of the parts, two or three.
        variances: Variance of each quantity, part by part, shape (q, parts).
        standard_errors: Monte Carlo errors of the shares (q, parts).
        method: What drew the records, or the statistics.
        num_draws: Databases, or draws of the statistic.
        num_simulations: Simulations that were run.
        warnings: What a reader must know, in words.
    """

    names: tuple[str, ...]
    parts: tuple[str, ...]
    variances: Float[np.ndarray, "q parts"] = dataclasses.field(repr=False)
    standard_errors: Float[np.ndarray, "q parts"] = dataclasses.field(repr=False)
    method: str
    num_draws: int
    num_simulations: int
    warnings: tuple[str, ...] = ()

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """Variances, one row per parameter and derived quantity, one column per part; rows sum to
        `total`.
        """
        import pandas as pd

        return pd.DataFrame(self.variances, index=list(self.names), columns=list(self.parts))

    @property
    def total(self) -> pd.Series:
        """Var(theta | s_dp)."""
        return self.table.sum(axis=1)

    @property
    def shares(self) -> pd.DataFrame:
        """Parts of the total; rows sum to 1."""
        return self.table.div(self.total.where(self.total > 0.0, 1.0), axis=0)

    def __str__(self) -> str:
        lines = [
            f"{'':{self._width}}  {'sd':>9}  "
            + "  ".join(f"{part:>{max(len(part), 9)}}" for part in self.parts)
        ]
        rows = zip(
            self.names,
            np.sqrt(self.total),
            self.shares.to_numpy(),
            self.standard_errors,
            strict=True,
        )
        for name, sd, shares, errors in rows:
            cells = [
                f"{share:.0%} +-{error:.0%}" for share, error in zip(shares, errors, strict=True)
            ]
            aligned = "  ".join(
                f"{cell:>{max(len(part), 9)}}" for cell, part in zip(cells, self.parts, strict=True)
            )
            lines.append(f"{name:{self._width}}  {sd:>9.3g}  {aligned}")
        lines.append(
            "Shares of the posterior variance: "
            + ", ".join(f"{part}: {_WORDS[part]}" for part in self.parts)
            + "."
        )
        return "\n".join([*lines, *self.warnings])

    @property
    def _width(self) -> int:
        """Characters of the longest name."""
        return max(map(len, self.names))
