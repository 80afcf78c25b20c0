"""From the name of a problem, or of a user's file, to a model and its observation."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from noisewise.cli import catalogue, model_files
from noisewise.cli.exits import did_you_mean, tell
from noisewise.cli.model_files import ModelFile
from noisewise.cli.requests import Request
from noisewise.errors import InvalidInputError, NoisewiseError, SimulationError

if TYPE_CHECKING:
    import numpy as np

    from noisewise.disclosure import Release
    from noisewise.model.private_model import PrivateModel
    from noisewise.problems import Problem
    from noisewise.regressions import Analysis

PATIENCE = 10.0
"""Seconds of silence after which a first simulation is remarked on: compiling takes less."""

_NUM_TRIES = 3
"""Draws from the prior at one of which a model must be able to simulate: a model may fail at some.
"""


@dataclasses.dataclass(frozen=True)
class Target:
    """A model and what was observed.

    Attributes:
        title: What to call it.
        model: The model.
        observed: The release, or the observation of a ready problem.
        truth: The parameters that made the observation, shape (d,), where they are known.
        release: The release, if there is one.
        analysis: The regression that the model and the observation are of, if they are.
        weights: Of its rows, where their mean is weighted.
    """

    title: str
    model: PrivateModel
    observed: Any
    truth: np.ndarray | None = None
    release: Release | None = None
    analysis: Analysis | None = None
    weights: np.ndarray | None = None

    @property
    def truths(self) -> dict[str, float]:
        """The truth by name, derived quantities included; empty if it is not known."""
        from noisewise.plotting import named_truth

        return {} if self.truth is None else named_truth(self.model, self.truth)


def load(request: Request) -> Target:
    """The model and the observation that a request names.

    Raises:
        InvalidInputError: If the file or problem has no such model, or the model cannot simulate.
    """
    release = released(request.releases)
    if request.file is None:
        return _problem(request, release)
    file = request.model_file
    model = _tried(model_of(file, release), release)
    return Target(f"{file.path.name}:{file.name}", model, release, release=release)


def model_from(path: Path, name: str, release: Release | None) -> PrivateModel:
    """The model of that name in a file that the user has named."""
    return model_of(model_files.read(path, name), release)


def model_of(file: ModelFile, release: Release | None) -> PrivateModel:
    """The model in a file: a PrivateModel, or a function of the release, or of nothing, that
    returns one.

    Args:
        file: The file, with its content.
        release: The release that a function gets.

    Raises:
        InvalidInputError: If the file fails, or has no such model.
    """
    from noisewise.model.private_model import PrivateModel

    path, name = file.path, file.name
    module = _run(file)
    if not hasattr(module, name):
        known = [
            other
            for other, value in vars(module).items()
            if callable(value) and value.__module__ == module.__name__
        ]
        raise InvalidInputError(
            f"{path} has no {name!r}:"
            f" {did_you_mean(name, known) if known else 'it defines nothing.'}"
        )
    value = getattr(module, name)
    if callable(value) and not isinstance(value, PrivateModel):
        value = _call(value, f"{path}:{name}", release)
    if not isinstance(value, PrivateModel):
        raise InvalidInputError(
            f"{path}:{name} must be a function of the release that returns a nw.PrivateModel, or"
            f" such a model, got {type(value).__name__}."
        )
    return value


def _problem(request: Request, release: Release | None) -> Target:
    from noisewise.model.observation import query_of
    from noisewise.model.private_model import PrivateModel

    item = catalogue.find("problem", request.target, catalogue.problems())
    problem = ready_problem(item, request.epsilon)
    if release is None:
        return Target(_title(item.slug, problem), problem.model, problem.observed, problem.truth)
    ready, query = problem.model, query_of(release)
    model = PrivateModel.from_release(
        release, prior=ready.prior, simulator=ready.simulator, query=query, derived=ready.derived
    )
    return Target(
        f"{item.slug}, {release.description or 'own release'}",
        _tried(model, release),
        release,
        release=release,
    )


def ready_problem(item: catalogue.Item, epsilon: float | None) -> Problem:
    """The problem that the catalogue lists, at its own epsilon if none is given."""
    from noisewise import problems

    name, _, variant = item.name.partition("(")
    arguments = (variant.strip('")'),) if variant else ()
    return getattr(problems, name)(*arguments, **({} if epsilon is None else {"epsilon": epsilon}))


def _tried(model: PrivateModel, release: Release | None) -> PrivateModel:
    """The model, if the release fits it and it can simulate once, so that mistakes show before a
    run begins.
    """
    import jax

    model.observation(release)
    key = jax.random.key(0)
    *others, last = model.prior.sample(key, _NUM_TRIES)
    with _patience():
        for theta in others:
            with contextlib.suppress(SimulationError):
                model.statistics(key, theta[None])
                return model
        model.statistics(key, last[None])
    return model


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Say that the first simulation takes long, as nothing else has been printed by then."""
    text = (
        f"The first simulation has taken {PATIENCE:g} s so far. If it may hang, set"
        " PythonSimulator(..., timeout=)."
    )
    timer = threading.Timer(PATIENCE, tell, [text])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _title(slug: str, problem: Problem) -> str:
    epsilon = problem.settings.get("epsilon")
    return slug if epsilon is None else f"{slug} at epsilon {epsilon:g}"


def released(paths: tuple[Path, ...]) -> Release | None:
    """The release in a file, or several combined; None if there is none."""
    from noisewise.disclosure import Release

    releases = [Release.load(path) for path in paths]
    return releases[0] if len(releases) == 1 else Release.combine(releases) if releases else None


def _call(function: Callable[..., Any], what: str, release: Release | None) -> Any:
    parameters = inspect.signature(function).parameters.values()
    required = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(required) > 1:
        raise InvalidInputError(
            f"{what} must take the release alone, as in def model(release), but it has"
            f" {len(required)}."
        )
    try:
        return function(*[release][: len(required)])
    except NoisewiseError as error:
        without = (
            " It was called without a release, whose query it may need: give one with --release."
            if release is None
            else ""
        )
        raise InvalidInputError(f"{what} failed: {error}{without if required else ''}") from error
    except Exception as error:
        raise _broken(what, error) from error


def _run(file: ModelFile) -> ModuleType:
    """Run the content of a user's file as a module. Its own imports are looked up in its folder, as
    for a script.

    What was read is what is run: Python's loader would use compiled code from __pycache__ instead.
    """
    import cloudpickle

    path = file.path
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = ModuleType(f"noisewise_model_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(file.content, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise _broken(str(path), error) from error
    cloudpickle.register_pickle_by_value(module)  # worker processes cannot import it by its name
    return module


def _broken(what: str, error: BaseException) -> InvalidInputError:
    frames = traceback.extract_tb(error.__traceback__)
    line = (
        error.lineno
        if isinstance(error, SyntaxError)
        else frames[-1].lineno
        if len(frames)
        else None
    )
    where = (
        f" (line {line})"
        if line and what.startswith(frames[-1].filename if len(frames) else what)
        else ""
    )
    return InvalidInputError(f"{what} failed{where}: {type(error).__name__}: {error}.")
