"""The highest point of the likelihood, where the law of what was released is known."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from noisewise._compile.options import filter_jit_fast_compile
from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise.errors import InvalidInputError, InvalidTypeError, MissingCapabilityError
from noisewise.inference.marginal.marginal_nuts import MarginalDensity, MarginalNUTS
from noisewise.model.observation import pair_of
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Finding, Kind
from noisewise.regressions.profiles import Summit

if TYPE_CHECKING:
    import pandas as pd

_TRIED = 64
"""Draws of the prior among which starts are chosen: the likeliest of them."""
_FIRST_STEP = 1e-4
"""Step of the first differences of gradients, relative to 1 + |z|."""
_STEP = 1e-3
"""Step of later differences, in standard errors: derivatives are right to 1e-6."""
_ITERATIONS = 50
"""Newton steps at most: near a maximum two or three do."""
_SETTLED = 1e-6
"""Newton step, relative to 1 + |z|, at which the highest point is found."""
_SINGULAR = 1e-9
"""Smallest eigenvalue of the information, scaled to a diagonal of 1, of parameters that the data
tell apart.
"""
_SAME = 1e-3
"""Nats between optima that are called the same."""
SKEWED = 0.2
"""Half widths of the symmetric interval by which an end of the profile interval differs from it
where a likelihood is called skewed: a tail of 2.5% is then one of 5.8%, or of 0.9%.
"""
_NAMED = 0.3
"""Share of a flat direction from which a parameter is named."""
PROFILE_COLUMNS = ("symmetric low", "symmetric high", "profile low", "profile high")
"""The columns of `MaximumLikelihood.profiles`."""


@dataclasses.dataclass(frozen=True, repr=False)
class MaximumLikelihood:
    """What `nw.maximum_likelihood` returns.

    Attributes:
        estimate: The parameters of the highest likelihood, by name.
        standard_errors: From the observed information, by name.
        score_standard_errors: From outer products of the scores of rows, by name.
        covariance: From the observed information, (d, d).
        log_likelihood: At the estimate.
        num_starts: Starts of the search.
        num_agreeing: Those that ended as high, to .001.
        profiles: For each parameter that was asked for, the ends of its symmetric interval,
            estimate -+ 1.96 standard errors, and of its profile interval; None without.
        findings: That the likelihood is skewed, where profiles show it.
    """

    estimate: pd.Series
    standard_errors: pd.Series
    score_standard_errors: pd.Series
    covariance: Float[np.ndarray, "d d"] = dataclasses.field(repr=False)
    log_likelihood: float
    num_starts: int
    num_agreeing: int
    profiles: pd.DataFrame | None = None
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """The table, and what was reached."""
        said = [finding.sentence for finding in self.findings]
        reached = (
            f"log likelihood {self.log_likelihood:.3f}, reached from {self.num_agreeing} of"
            f" {self.num_starts} starts"
        )
        return "\n".join([self.to_frame().to_string(), reached, *said])

    def to_frame(self) -> pd.DataFrame:
        """A row for each parameter, with profile intervals where they were asked for."""
        import pandas as pd

        table = pd.DataFrame(
            {
                "estimate": self.estimate,
                "standard error": self.standard_errors,
                "from scores": self.score_standard_errors,
            }
        )
        return table if self.profiles is None else table.join(self.profiles)


def maximum_likelihood(
    model: Any,
    observed: Any = None,
    *,
    num_starts: int = 4,
    key: Array | int = 0,
    profile: Sequence[str] | bool = (),
    level: float = 0.95,
) -> MaximumLikelihood:
    r"""The parameters at which what was released is most probable, without a prior.

    With the scores g_i of rows and the observed information H, minus the second derivatives of the
    log likelihood, standard errors are the roots of the diagonals of

        H^-1   and   (sum_i g_i g_i')^-1,

    which are about the same where the model holds and rows are many. Both are taken in
    unconstrained coordinates and carried over. The prior serves only to find starts.

    The profile interval of a parameter holds the values at which the log likelihood, highest over
    the others, is within 1.92 of its maximum (half the .95 quantile of chi-square). It needs no
    symmetry, and is the same on every scale. Where one of its ends differs from the symmetric one,
    estimate -+ 1.96 standard errors, by a fifth of the latter's half width or more, the likelihood
    is called skewed: estimate and standard error then mislead.

    Args:
        model: An `Analysis`, or a `PrivateModel` with a `StatisticLaw` and no effects.
        observed: What was released; left out for an `Analysis`.
        num_starts: Searches, from 0 and from likely draws of the prior.
        key: A JAX PRNG key, for the draws.
        profile: Names of parameters whose profile intervals are found; True for all.
        level: Probability of these intervals.

    Raises:
        InvalidInputError: If the likelihood has no single highest point: it rises without end, as
            where a column separates yes from no, or is flat, as for columns that repeat another.
        MissingCapabilityError: If the law of the statistic is not known, or parameters depend on
            others (effects of groups).

    Reference: Efron and Hinkley (1978), Biometrika 65, 457-483; Berndt, Hall, Hall and Hausman
    (1974), Ann. Econ. Soc. Meas. 3, 653-665.

    >>> import numpyro.distributions as dist, noisewise as nw
    >>> model = nw.PrivateModel(
    ...     prior=nw.Prior({"mean": dist.Normal(0, 10)}),
    ...     simulator=nw.simulators.StatisticLaw(
    ...         lambda theta: dist.Normal(theta["mean"], 1.0).expand([4])
    ...     ),
    ...     mechanism=nw.mechanisms.Gaussian(scale=1.0),
    ... )
    >>> found = nw.maximum_likelihood(model, [1.0, 2.0, 3.0, 4.0])
    >>> found.to_frame().loc["mean", ["estimate", "standard error"]].round(3).tolist()
    [2.5, 0.707]
    """
    model, observed = pair_of(model, observed)
    _check(model)
    num_starts = integer("num_starts", at_least=1)(num_starts)
    level = number("level", above=0.0, below=1.0)(level)
    profiled = _profiled(model, profile)
    search = _Search(model, model.observation(observed))
    found = [search.climb(z) for z in search.starts(as_key(key), num_starts)]
    values = np.array([value for _, value in found])
    if not np.isfinite(values).any():
        raise InvalidInputError(
            "What was released is impossible at every start of the search: check that the mechanism"
            " can produce these numbers."
        )
    best = int(np.nanargmax(np.where(np.isfinite(values), values, -np.inf)))
    agreeing = int(np.sum(values >= values[best] - _SAME))
    return search.result(found[best][0], (num_starts, agreeing), profiled, level)


def _profiled(model: PrivateModel, given: Any) -> tuple[str, ...]:
    """The names of parameters that are profiled."""
    if given is True or given is False:
        names = model.names if given else ()
    else:
        names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in model.names:
            near = difflib.get_close_matches(str(name), model.names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InvalidInputError(
                f"profile has {name!r}, which is no parameter: {hint}They are"
                f" {', '.join(map(repr, model.names))}."
            )
    if names and model.prior.unconstrained_dim != model.prior.dim:
        raise MissingCapabilityError(
            "Profile intervals need parameters that vary by themselves, and some of these add up to"
            " 1 or depend on each other otherwise: leave profile out."
        )
    return names


def _check(model: Any) -> None:
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(
            "maximum_likelihood takes the analysis of nw.regression, or a PrivateModel and what was"
            f" released; got {describe(model)}."
        )
    if model.prior.dependent:
        raise MissingCapabilityError(
            f"{model.prior.dependent[0]!r} has a law that depends on other parameters, which a"
            " likelihood without prior leaves out: take nw.infer, or a formula without groups, with"
            " C(...) in place of (1 | ...)."
        )
    refusal = MarginalNUTS()._refusal(model)
    if refusal is not None:
        raise MissingCapabilityError(refusal.replace("MarginalNUTS", "maximum_likelihood"))


class _Search:
    """The log likelihood of unconstrained coordinates z, its derivatives, and its maximum."""

    def __init__(self, model: PrivateModel, observed: np.ndarray) -> None:
        from noisewise.samplers.densities import as_pytree

        self._model, self._observed, self._prior = model, observed, model.prior
        self._density = as_pytree(MarginalDensity.of(model, observed))

    def starts(self, key: Array, num: int) -> list[np.ndarray]:
        """Zero, and the likeliest of some draws of the prior."""
        centre = np.zeros(self._prior.unconstrained_dim)
        if num == 1:
            return [centre]
        theta = self._prior.sample(key, _TRIED)
        rows = self._model.log_likelihood(theta, self._observed)
        values = np.zeros(_TRIED) if rows is None else rows.sum(axis=1)
        order = np.argsort(-np.where(np.isfinite(values), values, -np.inf))
        return [centre, *np.asarray(self._prior.unconstrain(theta[order[: num - 1]]))]

    def value(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """The log likelihood and its gradient."""
        with jax.enable_x64(True):
            value, gradient = _value_and_gradient(self._density, jnp.asarray(z))
        return float(value), np.asarray(gradient)

    def climb(self, start: np.ndarray) -> tuple[np.ndarray, float]:
        """Where BFGS ends from a start."""
        from scipy.optimize import minimize

        def falling(z: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value(z)
            return (-value, -gradient) if np.isfinite(value) else (1e300, np.zeros_like(z))

        found = minimize(falling, start, jac=True, method="BFGS", options={"gtol": 1e-6})
        value = self.value(found.x)[0]
        return found.x, value

    def result(
        self, z: np.ndarray, starts: tuple[int, int], profiled: tuple[str, ...], level: float
    ) -> MaximumLikelihood:
        """Newton steps to the top, the errors there, and profiles of some parameters."""
        import pandas as pd

        z, information = self._top(z)
        theta = self._prior.constrain(z)
        steps = _STEP / np.sqrt(np.diag(information))
        onto = _differences(lambda rows: self._prior.constrain(rows), z, steps)
        covariance = onto.T @ np.linalg.inv(information) @ onto
        scores = _differences(self._rows, z, steps)
        from_scores = onto.T @ np.linalg.pinv(scores @ scores.T, hermitian=True) @ onto
        names = list(self._model.names)
        estimate = pd.Series(theta, names)
        errors = pd.Series(np.sqrt(np.diag(covariance)), names)
        summit = Summit(self.value, z, information)
        profiles = self._profiles(summit, estimate, errors, profiled, level)
        return MaximumLikelihood(
            estimate=estimate,
            standard_errors=errors,
            score_standard_errors=pd.Series(np.sqrt(np.diag(from_scores)), names),
            covariance=covariance,
            log_likelihood=self.value(z)[0],
            num_starts=starts[0],
            num_agreeing=starts[1],
            profiles=profiles,
            findings=() if profiles is None else _skewed(profiles),
        )

    def _profiles(
        self,
        summit: Summit,
        estimate: pd.Series,
        errors: pd.Series,
        names: tuple[str, ...],
        level: float,
    ) -> pd.DataFrame | None:
        """Symmetric and profile intervals of some parameters."""
        import pandas as pd
        from scipy import stats

        if not names:
            return None
        width = float(stats.norm.isf(0.5 - level / 2.0))
        rows = {}
        for name in names:
            j = self._model.names.index(name)
            ends = [self._at(summit.z, j, end) for end in summit.ends(j, width**2 / 2.0)]
            middle, half = float(estimate[name]), width * float(errors[name])
            rows[name] = [middle - half, middle + half, *sorted(ends)]
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(PROFILE_COLUMNS))

    def _at(self, z: np.ndarray, j: int, end: float) -> float:
        """Parameter j where its unconstrained coordinate is `end`."""
        moved = z.copy()
        moved[j] = end
        return float(self._prior.constrain(moved)[j])

    def _rows(self, z: np.ndarray) -> np.ndarray:
        """The log likelihood of each row, (m, n)."""
        found = self._model.log_likelihood(self._prior.constrain(z), self._observed)
        assert found is not None
        return found

    def _top(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The maximum near z and the information there, by Newton steps that are halved while they
        lead down.
        """
        steps = _FIRST_STEP * (1.0 + np.abs(z))
        for _ in range(_ITERATIONS):
            value, gradient = self.value(z)
            information = self._information(z, steps)
            self._require_curved(information)
            move = np.linalg.solve(information, gradient)
            if np.all(np.abs(move) < _SETTLED * (1.0 + np.abs(z))):
                return z, self._information(z, _STEP / np.sqrt(np.diag(information)))
            while (
                self.value(z + move)[0] < value - 1e-12 * abs(value) and np.abs(move).max() > 1e-12
            ):
                move = move / 2.0
            z = z + move
            steps = np.minimum(
                _FIRST_STEP * (1.0 + np.abs(z)), _STEP / np.sqrt(np.diag(information))
            )
        raise InvalidInputError(self._endless(np.abs(move)))

    def _information(self, z: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Minus the second derivatives, by differences of gradients."""
        found = -_differences(lambda rows: np.stack([self.value(row)[1] for row in rows]), z, steps)
        return (found + found.T) / 2.0

    def _require_curved(self, information: np.ndarray) -> None:
        """Refuse a likelihood that is flat or bent upwards in some direction."""
        size = np.sqrt(np.abs(np.diag(information)))
        if not np.isfinite(size).all() or size.min() == 0.0:
            raise InvalidInputError(self._endless(~(size > 0.0)))
        values, vectors = np.linalg.eigh(information / np.outer(size, size))
        if values[0] < _SINGULAR:
            raise InvalidInputError(self._endless(np.abs(vectors[:, 0])))

    def _endless(self, weights: np.ndarray) -> str:
        names = self._model.names
        if len(names) == len(weights):
            chosen = np.flatnonzero(weights >= _NAMED * np.max(weights))
            names = tuple(names[j] for j in chosen)
        return (
            f"The likelihood has no single highest point: along {', '.join(names)} it rises without"
            " end or is flat, as where a column separates yes from no, or repeats others. Leave out"
            " such a column, or use nw.infer, whose prior bears it."
        )


def _skewed(profiles: pd.DataFrame) -> tuple[Finding, ...]:
    """That ends of profile intervals differ from symmetric ones, where they do."""
    symmetric_low, symmetric_high, low, high = profiles.to_numpy().T
    half = (symmetric_high - symmetric_low) / 2.0
    off = np.maximum(np.abs(low - symmetric_low), np.abs(high - symmetric_high)) / half
    chosen = np.flatnonzero(off >= SKEWED)
    if not chosen.size:
        return ()
    rows = profiles.iloc[chosen]
    numbers = {name: rows[name].tolist() for name in PROFILE_COLUMNS}
    listed = {name.replace(" ", "_"): values for name, values in numbers.items()}
    return (Finding(Kind.LIKELIHOOD_SKEWED, {"names": list(rows.index), **listed}),)


@filter_jit_fast_compile
def _value_and_gradient(density: MarginalDensity, z: Array) -> tuple[Array, Array]:
    def value(z: Array) -> Array:
        return density.log_likelihood(density.prior.constrain(z))

    return jax.value_and_grad(value)(z)


def _differences(
    fn: Callable[[np.ndarray], np.ndarray], z: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Central differences of fn (rows of z to rows): a row for each coordinate of z."""
    around = np.diag(steps)
    ends = np.asarray(fn(np.concatenate([z + around, z - around])))
    up, down = np.split(ends, 2)
    return (up - down) / (2.0 * steps[:, None])
