"""Draws of Markov chains, or independent ones as a single chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from noisewise._core.arrays import Array, integer
from noisewise._core.keys import generator
from noisewise._core.weights import MIN_DRAWS
from noisewise.errors import InvalidInputError
from noisewise.posteriors.base import AbstractPosterior, check_num
from noisewise.posteriors.monte_carlo_errors import chain_times
from noisewise.posteriors.report import Report
from noisewise.samplers.chain_diagnostics import effective_draws, r_hat

if TYPE_CHECKING:
    import pandas as pd


_SETTLED = 1.01
"""R-hat up to which chains have settled, as Vehtari et al. (2021) recommend."""


class Draws(AbstractPosterior):
    """Equally weighted draws of one chain or several, those of chain 0 first, then those of chain
    1, ...

    `diagnostics()` gives split R-hat and the bulk and tail effective sizes of each parameter
    (Vehtari et al. 2021).

    Args:
        theta: Draws, shape (c n, d), n of each of c chains.
        names: Names of the d parameters.
        report: How the posterior came about.
        num_chains: c, the number of chains.
        **more: What else `AbstractPosterior` takes.

    >>> import jax
    >>> theta = np.random.default_rng(0).normal(size=(4000, 1))
    >>> posterior = Draws(theta, ("a",), Report("example"), num_chains=4)
    >>> bool(posterior.diagnostics().loc["a", "r_hat"] < 1.01)
    True
    >>> posterior.sample(jax.random.key(0), 10).shape
    (10, 1)
    """

    def __init__(
        self,
        theta: Float[np.ndarray, "n d"],
        names: tuple[str, ...],
        report: Report,
        *,
        num_chains: int = 1,
        **more: Any,
    ) -> None:
        super().__init__(theta, names, report, **more)
        self.num_chains = integer("num_chains", at_least=1)(num_chains)
        if len(self.theta) % self.num_chains:
            raise InvalidInputError(
                f"{len(self.theta)} draws do not divide into {self.num_chains} chains."
            )
        bad = np.isnan(self.theta).any(axis=1)
        if bad.any():
            raise InvalidInputError(
                f"Draws must be numbers, but {bad.sum():,} of {len(self.theta):,} draws hold NaN,"
                f" the first in row {int(np.argmax(bad))}: leave such rows out, or give them weight"
                " 0 in WeightedSamples."
            )

    @classmethod
    def from_numpyro(
        cls,
        mcmc: Any,
        *,
        parameters: Sequence[str] | None = None,
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> Draws:
        """The draws of a numpyro run, so that summaries, comparisons, plots and reports serve them.

        Args:
            mcmc: A `numpyro.infer.MCMC` that has run.
            parameters: Names of the sites that are parameters, in the order wanted; the others,
                such as deterministic ones, become derived quantities. All by default.
            labels: Labels of the entries of vectors by name.

        Raises:
            InvalidInputError: If it has not run, or a name is unknown.

        >>> import jax, numpyro, numpyro.distributions as dist
        >>> from numpyro.infer import MCMC, NUTS
        >>> def program():
        ...     numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
        >>> mcmc = MCMC(NUTS(program), num_warmup=50, num_samples=50, progress_bar=False)
        >>> mcmc.run(jax.random.key(0))
        >>> Draws.from_numpyro(mcmc, labels={"mu": ["North", "South"]}).names
        ('mu[North]', 'mu[South]')
        """
        from noisewise.posteriors.numpyro_draws import columns_of

        columns, num_chains = columns_of(mcmc, labels)
        sites = {site for site, _ in columns}
        chosen = sites if parameters is None else set(parameters)
        if not chosen <= sites or not chosen:
            unknown = ", ".join(sorted(map(repr, chosen - sites))) or "none"
            raise InvalidInputError(
                f"parameters must be sites of the run, {', '.join(sorted(map(repr, sites)))}; got"
                f" {unknown}."
            )
        theta = {name: values for (site, name), values in columns.items() if site in chosen}
        derived = {name: values for (site, name), values in columns.items() if site not in chosen}
        order = {name: place for place, name in enumerate(parameters or ())}
        kept = sorted(theta, key=lambda name: order.get(name.partition("[")[0], 0))
        draws = np.stack([theta[name] for name in kept], axis=1)
        made = cls(draws, tuple(kept), Report("numpyro"), num_chains=num_chains, derived=derived)
        return made.with_report(_report_of_chains(made, mcmc))

    @property
    def weights(self) -> Float[np.ndarray, " n"]:
        return np.full(len(self.theta), 1.0 / len(self.theta))

    @property
    def effective_size(self) -> float:
        return float(self.diagnostics()["ess_bulk"].min())

    def diagnostics(self) -> pd.DataFrame:
        """How well the chains have mixed.

        Returns:
            A DataFrame with a row per parameter and columns r_hat, ess_bulk and ess_tail; NaN if
            there are too few chains or draws.
        """
        import pandas as pd

        chains = self.theta[self._rows()].transpose(2, 0, 1)
        enough = len(self.theta) >= 4 * self.num_chains
        rows = {
            name: [
                r_hat(values) if enough and self.num_chains > 1 else np.nan,
                *(effective_draws(values, kind) if enough else np.nan for kind in ("bulk", "tail")),
            ]
            for name, values in zip(self.names, chains, strict=True)
        }
        return pd.DataFrame.from_dict(
            rows, orient="index", columns=["r_hat", "ess_bulk", "ess_tail"]
        )

    def sample(self, key: Array, num: int) -> Float[np.ndarray, "num d"]:
        """Draws at random, shape (num, d); none is repeated before all are used."""
        rng, num = generator(key), check_num(num)
        rounds = [rng.permutation(len(self.theta)) for _ in range(-(-num // len(self.theta)))]
        return self.theta[np.concatenate(rounds)[:num]]

    def _autocorrelation_times(self, terms: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " m"]:
        return chain_times(terms, self.num_chains)

    def _beside_draws(self) -> dict[str, np.ndarray]:
        chains = np.repeat(np.arange(self.num_chains), len(self.theta) // self.num_chains)
        return {**super()._beside_draws(), "chain": chains}

    def _rows(self) -> Int[np.ndarray, "c m"]:
        return np.arange(len(self.theta)).reshape(self.num_chains, -1)

    def _own_content(self) -> dict[str, Any]:
        return {"num_chains": self.num_chains}


def _report_of_chains(draws: Draws, mcmc: Any) -> Report:
    """What the chains say of themselves; exact for their own program if they have settled."""
    found = draws.diagnostics()
    r_hat, size = float(found["r_hat"].max()), float(found["ess_bulk"].min())
    diverging = mcmc.get_extra_fields().get("diverging", ())
    numbers = {"R-hat": r_hat, "effective size": size, "divergent": int(np.sum(diverging))}
    settled = r_hat <= _SETTLED and size >= MIN_DRAWS
    return Report("numpyro", numbers=numbers, exact=bool(settled))
