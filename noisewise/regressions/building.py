"""From a formula, a frame and a mechanism to a model with its observation."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from noisewise._core.arrays import describe
from noisewise.diagnostics.stated_mechanism import check_range
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.mechanisms import PerCell, Unmeasured
from noisewise.mechanisms.base import AbstractMechanism
from noisewise.mechanisms.supports import AbstractSupport
from noisewise.model.private_model import PrivateModel
from noisewise.priors.dependent import DependentLaw
from noisewise.priors.prior import Prior
from noisewise.regressions.analysis import Analysis, UnusualScale, offsets
from noisewise.regressions.families import Family, Link, family_of
from noisewise.regressions.formulas import Design, Formula
from noisewise.regressions.frames import check_frame, numbers, require_columns, rows_where
from noisewise.regressions.notes import groups_of_one, separation
from noisewise.simulators import StatisticLaw
from noisewise.simulators.row_law import AbstractRowLaw

if TYPE_CHECKING:
    import pandas as pd

_USUAL = (0.1, 10.0)
"""Standard deviations of columns between which the default prior of slopes is a wide one."""
_INTERCEPT_SD = 5.0
"""Prior sd of the intercept: on the logit scale any share is likely enough."""
_SLOPE_SD = 2.5
"""Prior sd of slopes: a unit of a column may change odds by a factor of 12, or 150 at two sds."""

Mechanism = AbstractMechanism | Callable[[Any], AbstractMechanism]
"""A mechanism, or a function of named parameters."""


def regression(
    formula: str,
    data: pd.DataFrame,
    *,
    law: str,
    mechanism: Mechanism,
    link: str | None = None,
    offset: str | ArrayLike | None = None,
    prior: Mapping[str, Any] | None = None,
    missing: str | ArrayLike | None = None,
) -> Analysis:
    r"""A regression of an outcome that was noised, randomised, rounded or suppressed:

        y_i released by the mechanism from s_i ~ law(mean_i),
        link(mean_i) = offset_i + x_i beta + effects of the groups of row i.

    The confidential outcomes s are summed out exactly. Priors, on columns as given and not centred:

        Intercept ~ N(0, 5^2), slopes ~ N(0, 2.5^2),
        effects of "district" ~ N(0, sd(district)^2), sd(district) ~ HalfNormal(1),
        overdispersion ~ HalfNormal(1) (negative binomial: variance m + (overdispersion m)^2),
        sigma ~ HalfNormal(5) (normal).

    `print(analysis)` shows the model with its priors.

    Args:
        formula: As in lme4 and bambi: "rr ~ assets + I((age/10)**2) + sex + (1 | district)". Text
            columns are categories, of which the first is the base. Binomial outcomes are written
            "p(yes, asked) ~ age".
        data: A row for each answer or cell. Outcomes may be missing (NaN): these rows stay and say
            nothing, or where the mechanism suppresses, that they were suppressed.
        law: "bernoulli", "binomial", "poisson", "negative binomial" or "normal".
        mechanism: What was done to the outcome, such as `nw.mechanisms.ForcedResponse(truth=2/3)`.
            What differs between rows is a column: `ForcedResponse(truth=data["p"])`. A function
            `lambda theta: ...` has unknown parameters, whose priors are in `prior`.
        link: "logit" or "probit" for shares, "log" for counts, "identity" or "log" for normal
            outcomes; the first of them by default.
        offset: A column, or an array, added to the linear predictor: the logarithm of an exposure.
        prior: Laws by name that replace those above, as {"age": dist.Normal(0, 1)}, and those of
            unknown parameters of the mechanism.
        missing: A column of True and False, or an array: rows of which nothing was measured, where
            the mechanism suppresses numbers, so that NaN says that it did.

    Returns:
        An `Analysis`, which `nw.infer(0, analysis)` and `nw.maximum_likelihood(analysis)` take.

    Raises:
        InvalidInputError: If columns are unknown, hold text among numbers or lack covariates, or
            the mechanism cannot have produced an outcome.
        MissingDependencyError: If formulae is not installed.

    >>> import numpy as np, pandas as pd, noisewise as nw
    >>> data = pd.DataFrame({"answer": [0, 1, 1, 0, 1, np.nan], "age": [2.0, 3, 4, 5, 6, 7]})
    >>> analysis = nw.regression(
    ...     "answer ~ age", data, law="bernoulli", mechanism=nw.mechanisms.ForcedResponse(truth=2/3)
    ... )
    >>> analysis.model.names
    ('Intercept', 'age')
    """
    frame, family = check_frame(data), family_of(law)
    link_name, found_link = family.link(link)
    parsed = Formula(formula, frame)
    observed, trials = _outcome(parsed, frame, family)
    not_measured = rows_where(frame, missing)
    observed = np.where(not_measured, np.nan, observed)
    added, column = offsets(frame, offset)
    laws, labels, extra = _laws(parsed.design, family, prior, mechanism)
    released = _with_missing(mechanism, np.isnan(observed), not_measured)
    model = PrivateModel(
        prior=Prior(laws, labels=labels),
        simulator=StatisticLaw(_OutcomeLaw(parsed.design, family, found_link, added, trials)),
        mechanism=released,  # type: ignore[arg-type]
    )
    _check_extra(extra, laws, model)
    _check_outcomes(parsed, frame, family, model, observed, trials)
    return Analysis(
        model=model,
        observed=model.observation(observed),
        formula=parsed,
        family=family,
        link_name=link_name,
        link=found_link,
        offset=added,
        offset_column=column,
        trials=trials,
        data=frame,
        priors={name: _in_words(law, parsed.design) for name, law in laws.items()},
        findings=(
            *_unusual(parsed.design),
            *groups_of_one(parsed.design),
            *separation(parsed.design, model.mechanism, observed),
            *check_range(model.mechanism, observed),
        ),
    )


# The outcome ------------------------------------------------------------------------------------


def _outcome(
    formula: Formula, frame: pd.DataFrame, family: Family
) -> tuple[np.ndarray, np.ndarray | None]:
    """Outcomes, and numbers of trials."""
    if (formula.trials is not None) != (family.name == "binomial"):
        raise InvalidInputError(
            'A binomial outcome is written "p(yes, asked) ~ ..." with law="binomial": the column of'
            " successes and that of trials; other laws have one column, and an outcome that is 1"
            ' or 0 in each row has law="bernoulli".'
        )
    named = [name for name in (formula.outcome, formula.trials) if name is not None]
    require_columns(frame, named, "The outcome")
    observed = numbers(frame, formula.outcome, "The outcome")
    if np.isnan(observed).all():
        raise InvalidInputError(f"The outcome {formula.outcome!r} is missing in every row.")
    if formula.trials is None:
        return observed, None
    trials = numbers(frame, formula.trials, "The column of trials")
    if np.isnan(trials).any() or np.any((trials < 0) | (trials != np.round(trials))):
        raise InvalidInputError(
            f"The column of trials {formula.trials!r} must hold whole numbers of 0 or more in every"
            " row."
        )
    return observed, trials


def _with_missing(mechanism: Any, missing: np.ndarray, stated: np.ndarray) -> Mechanism:
    """The mechanism, with rows that were not measured: those of which it is stated, and those
    without an outcome where it always publishes.
    """
    if not missing.any():
        return mechanism
    if not isinstance(mechanism, AbstractMechanism):
        return lambda theta: _unmeasured(mechanism(theta), missing, stated)
    return _unmeasured(mechanism, missing, stated)


def _unmeasured(
    mechanism: AbstractMechanism, missing: np.ndarray, stated: np.ndarray
) -> AbstractMechanism:
    unexplained = stated | (missing & ~mechanism.support.may_be_absent(len(missing)))
    if not unexplained.any():
        return mechanism
    kept = mechanism.of_columns(np.flatnonzero(~unexplained).tolist())
    return PerCell([kept, Unmeasured()], unexplained.astype(int).tolist())


def _check_outcomes(
    formula: Formula,
    frame: pd.DataFrame,
    family: Family,
    model: PrivateModel,
    observed: np.ndarray,
    trials: np.ndarray | None,
) -> None:
    """Refuse outcomes that the mechanism, or where there is no noise the law, cannot produce."""
    mechanism = model.mechanism
    if np.all(np.asarray(mechanism.input_bounds[1]) <= 1.0) and family.name != "bernoulli":
        raise InvalidInputError(
            f"The mechanism takes answers, 0 or 1: write law='bernoulli' in place of"
            f" {family.name!r}, with a row for each answer."
        )
    known = ~np.isnan(observed)
    possible = np.asarray(mechanism.support.contains(observed)) | ~known
    allowed = ""
    if possible.all() and family.whole and not mechanism.unknown:
        exact = np.array(mechanism.noise_sd(len(observed)), dtype=float) == 0.0
        most: Any = {"bernoulli": 1.0, "binomial": trials}.get(family.name, np.inf)
        inside = (observed >= 0.0) & (observed <= most) & (observed == np.round(observed))
        possible = inside | ~known | ~exact
        allowed = f"what a {family.name} law gives, as there is no noise"
    if not possible.all():
        j = int(np.flatnonzero(~possible)[0])
        if not allowed:
            allowed = _support_of(mechanism, j).describe()
        raise InvalidInputError(
            f"Outcome {formula.outcome!r} is {observed[j]:g} in row {frame.index[j]!r}, but the"
            f" mechanism releases {allowed}: take the column as it was released, with the mechanism"
            " that made it, or set it to NaN where nothing was measured."
        )


def _support_of(mechanism: AbstractMechanism, row: int) -> AbstractSupport:
    """What is released of one row."""
    if mechanism.unknown or mechanism.width is None:
        return mechanism.support
    return mechanism.of_columns([row]).support


# Laws -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class _OutcomeLaw(AbstractRowLaw):
    """The law of all outcomes as a function of named parameters."""

    design: Design
    family: Family
    link: Link
    offset: np.ndarray
    trials: np.ndarray | None

    def __call__(self, theta: Any) -> dist.Distribution:
        values = {part.name: theta[part.name] for part in self.design.parts}
        eta = self.design.predictor(values) + self.offset
        further = {name: theta[name] for name in self.family.further()}
        return self.family.law(eta, self.link, further, self.trials)

    def of_rows(self, rows: Any) -> _OutcomeLaw:
        trials = None if self.trials is None else self.trials[rows]
        design = self.design.of_rows(rows)
        return _OutcomeLaw(design, self.family, self.link, self.offset[rows], trials)

    @property
    def kinds(self) -> np.ndarray:
        traits = [self.offset[:, None], *(part.values for part in self.design.columns)]
        for effect in self.design.effects:
            traits.append(np.column_stack([effect.group, effect.values]))
        if self.trials is not None:
            traits.append(self.trials[:, None])
        found = np.unique(np.concatenate(traits, axis=1), axis=0, return_inverse=True)[1]
        return found.reshape(-1)


def _laws(
    design: Design, family: Family, given: Mapping[str, Any] | None, mechanism: Any
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The law of each parameter, labels, and the names that only the mechanism may read."""
    replaced = _checked(given)
    laws: dict[str, Any] = {}
    for part in design.columns:
        sd = _INTERCEPT_SD if part.name == "Intercept" else _SLOPE_SD
        law = replaced.get(part.name, dist.Normal(0.0, sd))
        laws[part.name] = _expanded(law, len(part.labels))
    for effect in design.effects:
        spread = f"sd({effect.name})"
        laws[spread] = replaced.get(spread, dist.HalfNormal(1.0))
        own = replaced.get(effect.name, _around_zero(effect.name, spread, len(effect.labels)))
        laws[effect.name] = _expanded(own, len(effect.labels))
    laws |= {name: replaced.get(name, law) for name, law in family.further().items()}
    names = [part.name for part in design.parts]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidInputError(
            f"The formula has {repeated!r} both as a column and as groups, or twice: leave one out."
        )
    extra = [name for name in replaced if name not in laws]
    if extra and isinstance(mechanism, AbstractMechanism):
        raise InvalidInputError(_unknown(extra[0], laws))
    labels = {part.name: part.labels for part in design.parts if part.labels}
    return {name: replaced[name] for name in extra} | laws, labels, extra


def _checked(given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidTypeError(
            'prior must map names to laws, as in prior={"age": dist.Normal(0, 1)}; got'
            f" {describe(given)}."
        )
    return given


def _expanded(law: Any, num: int) -> Any:
    """One law for each of some labels, where a single one is given."""
    if num and isinstance(law, dist.Distribution) and law.batch_shape + law.event_shape == ():
        return law.expand((num,))
    return law


def _around_zero(name: str, spread: str, num: int) -> DependentLaw:
    def law(**values: Any) -> dist.Distribution:
        return dist.Normal(0.0, values[spread]).expand((num,))

    return DependentLaw(name, (spread,), law)


def _check_extra(extra: list[str], laws: Mapping[str, Any], model: PrivateModel) -> None:
    """Refuse laws of names that nothing reads."""
    functions = (law for law in model.prior.distributions.values() if isinstance(law, DependentLaw))
    read = {*model.mechanism.unknown, *(name for law in functions for name in law.parents)}
    unread = next((name for name in extra if name not in read), None)
    if unread is not None:
        raise InvalidInputError(_unknown(unread, [name for name in laws if name not in extra]))


def _unknown(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"prior has {name!r}, which is no parameter of the regression: {hint}They are"
        f" {', '.join(map(repr, known))}."
    )


def _in_words(law: Any, design: Design) -> str:
    """A law as it is printed."""
    effect = next((part for part in design.effects if getattr(law, "name", "") == part.name), None)
    if effect is not None:
        return f"Normal(0, sd({effect.name})) for each of {len(effect.labels)} groups"
    if not isinstance(law, dist.Distribution):
        return "a function of other parameters"
    base = law.base_dist if isinstance(law, dist.ExpandedDistribution) else law
    values = [getattr(base, name, None) for name in base.arg_constraints]
    if any(value is None or np.ndim(value) for value in values):
        return type(base).__name__
    return f"{type(base).__name__}({', '.join(f'{float(v):g}' for v in values if v is not None)})"


def _unusual(design: Design) -> list[UnusualScale]:
    """Columns whose standard deviations are unusual."""
    low, high = _USUAL
    found = []
    for part in design.columns:
        names = [f"{part.name}[{label}]" for label in part.labels] or [part.name]
        for name, sd in zip(names, part.values.std(axis=0).tolist(), strict=True):
            if name != "Intercept" and not low <= sd <= high:
                found.append(UnusualScale(name, sd))
    return found
