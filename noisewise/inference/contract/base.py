"""What every inference method promises: settings, `infer`, and refusals that say what would
work.
"""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise._core.json_values import jsonable, unchanged
from noisewise.errors import InvalidTypeError, MissingCapabilityError
from noisewise.inference.contract.recorded import identity_of, recorded
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Kind
from noisewise.posteriors.base import AbstractPosterior
from noisewise.runs import run_directory

if TYPE_CHECKING:
    from noisewise.disclosure import Release


@dataclasses.dataclass(frozen=True, kw_only=True)
class AbstractMethod(abc.ABC):
    """Settings of a method; `infer` does the work.

    A concrete method is a frozen dataclass that gives `slug`, `needs` and `_infer`, and where it
    cannot serve every model `_refusal`. The report repeats its settings, except fields declared
    with repr=False, such as confidential data.

    Args:
        max_simulations: Budget of simulations. When it is spent, `infer` returns what it has, and
            `posterior.report.stopped` says so. None for no limit.
        max_minutes: Budget of minutes, likewise.
    """

    slug: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = frozenset()
    """Capabilities that the mechanism must have."""
    instead: ClassVar[str] = ""
    """What to use if it lacks them, in a sentence."""
    needs_noise: ClassVar[bool] = False
    """Whether every column of s_dp must have noise: where one is published as it is, neither smooth
    densities nor chains find the simulations that agree with it.
    """

    serves_unknown_parameters: ClassVar[bool] = False
    """Whether the mechanism may depend on theta: the method only needs log eta at, or noise for,
    statistics that carry the parameters at which they were simulated.
    """

    max_simulations: int | None = None
    max_minutes: float | None = None

    def __post_init__(self) -> None:
        self._convert(
            max_simulations=integer("max_simulations", at_least=1, optional=True),
            max_minutes=number("max_minutes", above=0.0, optional=True),
        )

    def settings(self) -> dict[str, Any]:
        """The settings, JSON-ready, as reports repeat them."""
        return {
            field.name: jsonable(getattr(self, field.name), unchanged, repr)
            for field in dataclasses.fields(self)
            if field.repr
        }

    def _convert(self, **converters: Callable[[Any], Any]) -> None:
        """Pass settings through converters, which refuse values that do not fit."""
        for name, converter in converters.items():
            object.__setattr__(self, name, converter(getattr(self, name)))

    @final
    def infer(
        self,
        key: Array,
        model: PrivateModel,
        observed: ArrayLike | Release,
        *,
        run_dir: str | os.PathLike[str] | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> AbstractPosterior:
        """Infer theta from the private statistic `observed`.

        Args:
            key: A JAX PRNG key. The same key gives the same posterior.
            model: The model: prior, simulator, query and mechanism.
            observed: The private statistic, shape (k',), or the `Release` that holds it.
            run_dir: A folder that keeps all work soon after it is done, and the posterior in the
                end. The same call with the same folder resumes an interrupted run, and ends with
                the same posterior to the last bit. A folder with a run of other settings is
                refused, and not changed.
            executor: Runs simulators that are written in Python.
            progress: Whether to show a progress bar on a terminal.

        Returns:
            The posterior; `posterior.report` says how it came about.

        Raises:
            MissingCapabilityError: If the method cannot serve the model; says what would work.
            InvalidInputError: If `observed` does not fit the model.
            ResumeError: If `run_dir` holds another run.
        """
        key, observed = as_key(key), self._checked(model, observed)
        options: dict[str, Any] = {"executor": executor, "progress": progress}
        if run_dir is None:
            return self.posterior_of(key, self.start(model, observed, **options))
        return recorded(
            run_dir,
            self._identity(key, model, observed),
            lambda journal: self.posterior_of(
                key,
                self.start(
                    model, observed, journal=journal, seconds=journal.seconds_before, **options
                ),
            ),
        )

    def posterior_of(self, key: Array, run: InferenceRun) -> AbstractPosterior:
        """What `infer` returns, for a run that `start` made."""
        with run.progress():
            try:
                return self._infer(key, run)
            except OutOfBudget:
                return prior_only(key, run)

    def start(
        self, model: PrivateModel, observed: Float[np.ndarray, " kp"], **options: Any
    ) -> InferenceRun:
        """A run of this method.

        Args:
            model: The model, already checked.
            observed: The private statistic, already checked, shape (k',).
            **options: What else `InferenceRun` takes, but for budgets.
        """
        budgets: dict[str, Any] = {
            "max_simulations": self.max_simulations,
            "max_minutes": self.max_minutes,
        }
        return InferenceRun(self.slug, self.settings(), model, observed, **budgets, **options)

    def _checked(
        self, model: PrivateModel, observed: ArrayLike | Release
    ) -> Float[np.ndarray, " kp"]:
        if not isinstance(model, PrivateModel):
            raise InvalidTypeError(
                f"infer(key, model, observed) needs a PrivateModel second, got {describe(model)}."
            )
        self.check(model)
        return model.observation(observed)

    def _identity(self, key: Array, model: PrivateModel, observed: np.ndarray) -> dict[str, Any]:
        data = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if not field.repr
        }
        return identity_of(self.slug, self.settings(), key, model, observed, **data)

    @final
    def refusal(self, model: PrivateModel) -> str | None:
        """Why this method cannot serve a model, with a method that can; None if it can.

        It asks no more than types and capabilities, and simulates nothing.
        """
        if model.mechanism.unknown and not self.serves_unknown_parameters:
            return (
                f"{type(self).__name__} needs a mechanism that is known, but this one depends on"
                f" {', '.join(model.mechanism.unknown)}. Use MarginalNUTS where the law of the"
                " statistic is known (nw.simulators.StatisticLaw), else ImportanceSampling,"
                " ExactSMC, SMCABC or PrivatePosteriorEstimation."
            )
        missing = self.needs - model.mechanism.capabilities
        if missing:
            names = " and ".join(sorted(missing))
            return (
                f"{type(self).__name__} needs a mechanism with {names}, which"
                f" {type(model.mechanism).__name__} lacks. {self.instead}"
            )
        if self.needs_noise and model.mechanism.has_noiseless_columns:
            return (
                f"{type(self).__name__} needs noise in every column, but"
                f" {type(model.mechanism).__name__} publishes a number without: ImportanceSampling,"
                " ExactSMC and nw.infer weigh simulations that hit the published number."
            )
        return self._refusal(model)

    @final
    def supports(self, model: PrivateModel) -> bool:
        """Whether this method can serve a model."""
        return self.refusal(model) is None

    @final
    def check(self, model: PrivateModel) -> None:
        """Refuse a model that this method cannot serve, or that its settings do not fit.

        Raises:
            MissingCapabilityError: If the method cannot serve the model; says what would work.
            InvalidInputError: If settings or data of the method do not fit the model.
        """
        refusal = self.refusal(model)
        if refusal is not None:
            raise MissingCapabilityError(refusal)
        self._check(model)

    def _refusal(self, model: PrivateModel) -> str | None:
        """Why the method cannot serve a model whose mechanism has all that it `needs`."""
        return None

    def _check(self, model: PrivateModel) -> None:  # noqa: B027, most settings fit every model
        """Raise if settings or data of the method do not fit the model."""

    @abc.abstractmethod
    def _infer(self, key: Array, run: InferenceRun) -> AbstractPosterior: ...


class AbstractSequentialMethod(AbstractMethod):
    """A method that works in rounds, each with a posterior of its own."""

    @final
    def rounds(
        self,
        key: Array,
        model: PrivateModel,
        observed: ArrayLike | Release,
        *,
        run_dir: str | os.PathLike[str] | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Iterator[AbstractPosterior]:
        """Infer, and yield the posterior of every round as it comes.

        The arguments are those of `infer`. The last posterior is the one that `infer` returns, and
        that `run_dir` keeps.
        """
        key, observed = as_key(key), self._checked(model, observed)
        options: dict[str, Any] = {"executor": executor, "progress": progress}
        if run_dir is None:
            yield from self.rounds_of(key, self.start(model, observed, **options))
            return
        with run_directory(run_dir, self._identity(key, model, observed)) as directory:
            options |= {"journal": directory.journal, "seconds": directory.journal.seconds_before}
            for posterior in self.rounds_of(key, self.start(model, observed, **options)):
                yield posterior
            directory.finish(posterior)

    def rounds_of(self, key: Array, run: InferenceRun) -> Iterator[AbstractPosterior]:
        """What `rounds` yields, for a run that `start` made."""
        with run.progress():
            try:
                yield from self._kept_rounds(key, run)
            except OutOfBudget:
                yield prior_only(key, run)

    @abc.abstractmethod
    def _rounds(self, key: Array, run: InferenceRun) -> Iterator[AbstractPosterior]: ...

    def _infer(self, key: Array, run: InferenceRun) -> AbstractPosterior:
        *_, posterior = self._kept_rounds(key, run)
        return posterior

    def _kept_rounds(self, key: Array, run: InferenceRun) -> Iterator[AbstractPosterior]:
        """The rounds, each on disk before the next begins if there is a journal."""
        for posterior in self._rounds(key, run):
            if run.journal is not None:
                run.journal.flush()
            yield posterior


def prior_only(key: Array, run: InferenceRun) -> AbstractPosterior:
    """The posterior if a budget ends before the first draw: draws from the prior, which say so."""
    run.power = 0.0
    run.warn(Kind.ONLY_PRIOR_DRAWS)
    return run.draws(run.model.prior.sample(key, 1000), exact=False)
