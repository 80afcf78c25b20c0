"""The contract that all inference methods share."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, ClassVar, final

import numpy as np

from noisewise._core.arrays import Array, as_key, describe, integer, number
from noisewise.errors import InvalidTypeError, MissingCapabilityError
from noisewise.inference.contract.recorded import identity_of, recorded
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.posteriors import Kind
from noisewise.posteriors.base import AbstractPosterior
from noisewise.runs import run_directory


@dataclasses.dataclass(frozen=True, kw_only=True)
class AbstractMethod(abc.ABC):
    """Settings of a method; `infer` does the work.

    `max_simulations` and `max_minutes` are budgets: when one is spent, `infer` returns what it has,
    and `posterior.report.stopped` says so. A concrete method is a frozen dataclass that writes
    `_check` and `_infer`. The report repeats its settings, except fields declared with repr=False:
    confidential data are such.
    """

    slug: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = frozenset()
    """What the mechanism must offer."""
    instead: ClassVar[str] = ""
    """What to use where it does not."""

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
            field.name: _json_ready(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.repr
        }

    def _convert(self, **converters: Callable[[Any], Any]) -> None:
        """Pass settings through converters, which refuse what does not fit."""
        for name, converter in converters.items():
            object.__setattr__(self, name, converter(getattr(self, name)))

    @final
    def infer(
        self,
        key: Array,
        model: PrivateModel,
        observed: Any,
        *,
        run_dir: Any = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> AbstractPosterior:
        """The posterior of theta given the private statistic `observed`, an array (k',) or a
        `Release`.

        With `run_dir`, a folder, all work is on disk soon after it is done, and the posterior in
        the end. The same call with the same folder goes on where an earlier one was interrupted,
        and ends with the same posterior to the last bit; a run that was begun with other settings
        is refused, and left alone. `executor` runs simulators written in Python.
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
        """What `infer` returns, by work that was started elsewhere."""
        with run.progress():
            try:
                return self._infer(key, run)
            except OutOfBudget:
                return prior_only(key, run)

    def start(self, model: PrivateModel, observed: np.ndarray, **options: Any) -> InferenceRun:
        """The start of an inference with a checked observation."""
        budgets: dict[str, Any] = {
            "max_simulations": self.max_simulations,
            "max_minutes": self.max_minutes,
        }
        return InferenceRun(self.slug, self.settings(), model, observed, **budgets, **options)

    def _checked(self, model: Any, observed: Any) -> np.ndarray:
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
        missing = self.needs - model.mechanism.capabilities
        if missing:
            names = " and ".join(sorted(missing))
            return (
                f"{type(self).__name__} needs a mechanism with {names}, which"
                f" {type(model.mechanism).__name__} lacks. {self.instead}"
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
        observed: Any,
        *,
        run_dir: Any = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> Iterator[AbstractPosterior]:
        """One posterior per round, as they come; the last is what `infer` returns, and what is
        stored in `run_dir`.
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
        """What `rounds` gives, by work that was started elsewhere."""
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
        """The rounds, each on disk before the next begins, where there is a journal."""
        for posterior in self._rounds(key, run):
            if run.journal is not None:
                run.journal.flush()
            yield posterior


def prior_only(key: Array, run: InferenceRun) -> AbstractPosterior:
    """What is left to say where a budget ends before the first draw."""
    run.power = 0.0
    run.warn(Kind.ONLY_PRIOR_DRAWS)
    return run.draws(run.model.prior.sample(key, 1000), exact=False)


def _json_ready(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_json_ready(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            "type": type(value).__name__,
            **{name: _json_ready(item) for name, item in vars(value).items()},
        }
    if isinstance(value, functools.partial):
        return {
            "type": getattr(value.func, "__name__", repr(value.func)),
            **{k: _json_ready(v) for k, v in value.keywords.items()},
        }
    return getattr(value, "__name__", repr(value))
