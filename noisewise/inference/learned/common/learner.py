"""Learning a density from simulations, the same for all methods but for what is learnt given what.

A task (`AbstractTask`) says what the targets and the conditions are and how a row of them is drawn
for training. The `Learner` simulates, standardises, decides whether networks go on or start again,
trains them and records how that went.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from noisewise._core.arrays import Array
from noisewise._core.keys import split
from noisewise.errors import InvalidInputError
from noisewise.estimators.conditional_density import ConditionalDensity
from noisewise.estimators.conditioner import Scale
from noisewise.estimators.files import to_spec
from noisewise.estimators.members import Estimator, Factory, ensemble, stacked, unstacked
from noisewise.estimators.parameter_scale import scaled_in_place
from noisewise.estimators.training import Loss, Resample, Training, negative_log_prob
from noisewise.estimators.whitening import Whitening
from noisewise.inference.contract.run import InferenceRun
from noisewise.inference.learned.common.learning import check_members, train_or_recall
from noisewise.inference.learned.common.noisy_targets import in_few_widths
from noisewise.inference.learned.common.simulations import Simulations

S = TypeVar("S")
F = TypeVar("F")

RESCALED = 1.5
"""A factor: if any scale changes by more between rounds, data are standardised again and networks
start from new weights. Below it, networks adapt faster than new ones learn.
"""

VALIDATION_NOISE = 16
"""Noisy versions of each simulation in the validation loss: enough to keep early stopping from
following the noise, few enough that validating costs little compared with an epoch.
"""


class LearningSettings(Protocol):
    """The settings of a method that a `Learner` needs."""

    @property
    def num_members(self) -> int: ...
    @property
    def training(self) -> Training: ...
    @property
    def validation_share(self) -> float: ...


@dataclasses.dataclass(frozen=True)
class Columns(Generic[S]):
    """All simulations so far as a task wants them learnt; the standardisation is fitted to them.

    `target` is (n, d), or (n, m, d) for m versions of each simulation. `condition` (n, w) belongs
    to the learner, which overwrites it. `space` holds the coordinates that targets are in. Networks
    start again where `layout`, the columns that are learnt, changes.
    """

    target: Float[np.ndarray, "n ... d"]
    condition: Float[np.ndarray, "n w"]
    space: S
    layout: tuple[int, ...] = ()


class AbstractTask(abc.ABC, Generic[S]):
    """What is learnt given what: the strategy of a `Learner`.

    A task says which columns are targets and which are conditions (`columns`), how rows of them are
    drawn for training (`pairs`), and which rows (`rows`).
    """

    name: ClassVar[str] = "estimator"
    """The setting that makes the networks, for error messages."""
    degree: ClassVar[int] = 2
    """Of the polynomial in the condition that `Whitening` takes out of the target."""
    simulations: Simulations
    bounded: Bool[np.ndarray, " w"] | None = None
    """Which columns of the condition are logits of places between two ends, if any are."""

    @property
    def loss(self) -> Loss:
        """What is minimised."""
        return negative_log_prob

    def extend(self, key: Array, s: Float[np.ndarray, "n k"]) -> None:
        """Keep what else is learnt from new simulations, such as noisy versions; by default
        nothing.

        Args:
            key: JAX PRNG key of the noise.
            s: The statistics of the new simulations.
        """

    @abc.abstractmethod
    def columns(self, key: Array, *, first: bool) -> Columns[S]:
        """All simulations so far, as they are to be learnt.

        Args:
            key: JAX PRNG key, the same that `pairs` gets.
            first: Whether there are no networks yet: then a task may refuse what it cannot learn.

        Returns:
            Targets and conditions, which the standardisation is fitted to.
        """

    def standardisation(
        self, condition: Float[np.ndarray, "n w"], target: Float[np.ndarray, "n ... d"]
    ) -> tuple[Scale, Whitening]:
        """The maps that `pairs` gets; conditions may be overwritten."""
        scale = scaled_in_place(condition, self.bounded)
        if target.ndim == 3:
            condition = np.repeat(condition, target.shape[1], axis=0)
            target = target.reshape(-1, target.shape[2])
        return scale, Whitening.fit(target, condition, degree=self.degree)

    def space_to_keep(self, old: S, new: S) -> S:
        """The coordinates to go on with where networks need not start again; by default the new
        ones.

        Args:
            old: Those that the networks were trained in.
            new: Those of all simulations so far.
        """
        return new

    @abc.abstractmethod
    def pairs(self, key: Array, space: S, scale: Scale, whitening: Whitening) -> Resample:
        """What the training loop draws from.

        Args:
            key: JAX PRNG key, the same that `columns` got.
            space: The coordinates of the targets.
            scale: Standardises conditions.
            whitening: Standardises targets, given standardised conditions.

        Returns:
            (key, rows) -> standardised targets and conditions of these rows, in float32; a pytree
            whose arrays have one size for all rounds, so that one program serves them.
        """

    def validation_pairs(self, pairs: Any) -> Resample:
        """What the validation loss is computed on; by default the same pairs."""
        return pairs

    def rows(self) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " v"]]:
        """Row indices of the training and validation simulations."""
        validation = self.simulations.validation
        return np.flatnonzero(~validation), np.flatnonzero(validation)

    def warn(self, summary: TrainingSummary) -> None:
        """Put into the report what a reader must know about one training."""

    def losses(self, best: float, whitening: Whitening) -> dict[str, float]:
        """The validation loss `best` of standardised targets, in the units of the data, by name."""
        return {"validation_loss": best - float(whitening.log_det)}


@dataclasses.dataclass(frozen=True)
class TrainingSummary:
    """How one training went: epochs, and the best validation loss averaged over members (infinite
    where none was finite).
    """

    epochs: int
    best: float


@dataclasses.dataclass(frozen=True)
class Networks(Generic[S]):
    """What a `Learner` knows of its networks: enough to go back to them."""

    members: Estimator
    space: S
    scale: Scale
    whitening: Whitening
    layout: tuple[int, ...]


class Learner(Generic[S]):
    """One density, trained on the simulations of all rounds so far, round after round.

    Args:
        task: What is learnt given what.
        run: The inference, which simulates, remembers trainings and reports.
        settings: A method, of which only the settings of training are used.
        factory: Makes the networks.
    """

    def __init__(
        self, task: AbstractTask[S], run: InferenceRun, settings: LearningSettings, factory: Factory
    ) -> None:
        self.task, self.run, self.settings, self.factory = task, run, settings, factory
        self.simulations = task.simulations
        self.members: Estimator | None = None
        self.space: S
        self.scale: Scale
        self.whitening: Whitening
        self._layout: tuple[int, ...]

    @property
    def density(self) -> ConditionalDensity:
        """The density by the networks as they are, trained or not."""
        if self.members is None:
            raise ValueError("there are no networks before `prepare`")
        return ConditionalDensity(self.members, self.scale, self.whitening)

    @property
    def networks(self) -> Networks[S]:
        """The networks with the coordinates they work in, to be set again later."""
        if self.members is None:
            raise ValueError("there are no networks before `prepare`")
        return Networks(self.members, self.space, self.scale, self.whitening, self._layout)

    @networks.setter
    def networks(self, kept: Networks[S]) -> None:
        self.members, self.space, self._layout = kept.members, kept.space, kept.layout
        self.scale, self.whitening = kept.scale, kept.whitening

    def simulate(
        self,
        key: Array,
        z: Float[np.ndarray, "n p"],
        number: int,
        *,
        noise_key: Array | None = None,
    ) -> Float[np.ndarray, "m k"]:
        """The simulations of round `number`.

        Args:
            key: Key for the simulations and the validation split.
            z: Unconstrained parameters; as many rows are simulated as the budgets allow.
            number: The round, from 0.
            noise_key: Key of the noise, for tasks that learn from noisy versions.

        Returns:
            Their statistics s, failed rows left out.
        """
        share = self.settings.validation_share
        s = self.simulations.add(key, self.run, z, share=share, number=number)
        self.task.extend(key if noise_key is None else noise_key, s)
        return s

    def prepare(self, key: Array, build_key: Array) -> Resample:
        """Standardise all simulations so far, and make networks where there are none or where the
        old ones no longer fit.

        Args:
            key: JAX PRNG key for the task.
            build_key: JAX PRNG key of the initial weights.

        Returns:
            What the training draws from.
        """
        found = self.task.columns(key, first=self.members is None)
        scale, whitening = self.task.standardisation(found.condition, found.target)
        if self._fits(found.layout, scale, whitening):
            self.space = self.task.space_to_keep(self.space, found.space)
        else:
            self.space, self._layout = found.space, found.layout
            self.scale, self.whitening = scale, whitening
            dims = found.target.shape[-1], scale.num_seen
            made = ensemble(build_key, self.factory, self.settings.num_members, *dims)
            self.members = check_members(self.task.name, made, *dims)
        del found  # before the pairs take their memory
        pairs = self.task.pairs(key, self.space, self.scale, self.whitening)
        return in_few_widths(pairs, self.members)

    def train(
        self, key: Array, pairs: Resample, *, warm_up: Callable[[], Any] | None = None
    ) -> TrainingSummary:
        """Fit the networks to what `prepare` returned, with `warm_up` in another thread."""
        return train_together([self], [key], [pairs], warm_up=warm_up)[0]

    def learn(
        self,
        key: Array,
        number: int,
        fit: Callable[[], F],
        *,
        warm_up: Callable[[F], object] | None = None,
    ) -> F:
        """Fit the density to all simulations so far.

        Args:
            key: JAX PRNG key.
            number: The round, from 0.
            fit: Makes the learnt object by the networks as they are.
            warm_up: Gets that object untrained, in another thread, to compile what it will run.

        Returns:
            The learnt object.
        """
        prepare_key, build_key, train_key = split(key, 3)
        pairs = self.prepare(prepare_key, build_key)
        untrained = fit()
        ahead = None if warm_up is None else (lambda: warm_up(untrained))
        self.record(self.train(train_key, pairs, warm_up=ahead), round=number + 1)
        return fit()

    def record(self, summary: TrainingSummary, **labels: Any) -> None:
        """Put one training into the report."""
        self.task.warn(summary)
        losses = self.task.losses(summary.best, self.whitening)
        self.run.record(**labels, epochs=summary.epochs, **losses)

    def adopt(
        self,
        members: Estimator,
        train_losses: Float[np.ndarray, "epochs members"],
        validation_losses: Float[np.ndarray, "epochs members"],
    ) -> TrainingSummary:
        """Take over trained networks, whose losses are NaN once a member has stopped."""
        self.members = members
        lowest = np.where(np.isfinite(validation_losses), validation_losses, np.inf).min(axis=0)
        ran = int((~np.isnan(train_losses)).any(axis=-1).sum())
        return TrainingSummary(ran, float(lowest.mean()))

    def spec(self, factory: Factory | None = None) -> dict[str, Any] | None:
        """The architecture, as files describe it; None where it is a user's own."""
        factory = factory or self.factory
        try:
            dims = self.density.dims[0], self.scale.num_seen
            return to_spec(factory, *dims, num_members=self.settings.num_members)
        except InvalidInputError:
            return None

    def _fits(self, layout: tuple[int, ...], scale: Scale, whitening: Whitening) -> bool:
        """Whether the networks may go on: same columns, similar scales."""
        if self.members is None or layout != self._layout:
            return False
        roots = np.diag(self.whitening.root), np.diag(whitening.root)
        return not rescaled((self.scale.inverse_sd, scale.inverse_sd), roots)


def train_together(
    learners: Sequence[Learner[S]],
    keys: Sequence[Array],
    pairs: Sequence[Resample],
    *,
    warm_up: Callable[[], Any] | None = None,
) -> list[TrainingSummary]:
    """Fit the densities of several learners of one method in one program, side by side under
    `vmap`; a single learner is trained without that axis.

    Args:
        learners: They may differ in data, not in architecture or settings.
        keys: A JAX PRNG key for each.
        pairs: What `prepare` returned, for each.
        warm_up: Runs in another thread meanwhile.

    Returns:
        A summary for each.
    """
    first, lone = learners[0], len(learners) == 1
    rows = [learner.task.rows() for learner in learners]
    each: Any = list(zip(keys, [learner.members for learner in learners], pairs, strict=True))
    key, members, resample = each[0] if lone else stacked(each)
    train_rows, validation_rows = rows[0] if lone else zip(*rows, strict=True)
    trained = train_or_recall(
        first.run,
        key,
        members,
        resample,
        train_rows=train_rows,
        validation_rows=validation_rows,
        capacity=first.simulations.capacity,
        settings=first.settings.training,
        loss=first.task.loss,
        validation=first.task.validation_pairs(resample),
        warm_up=warm_up,
    )
    if lone:
        return [first.adopt(trained.members, trained.train_losses, trained.validation_losses)]
    return [
        learner.adopt(found, trained.train_losses[:, i], trained.validation_losses[:, i])
        for i, (learner, found) in enumerate(
            zip(learners, unstacked(trained.members, len(learners)), strict=True)
        )
    ]


def rescaled(*scales: tuple[Float[Array, " n"], Float[Array, " n"]]) -> bool:
    """Whether any positive number has changed by more than `RESCALED`, given pairs of old and new
    ones; zeros count as unchanged.
    """
    for old, new in scales:
        both = (np.asarray(old) > 0) & (np.asarray(new) > 0)
        ratio = np.where(both, old, 1.0) / np.where(both, new, 1.0)
        if np.abs(np.log(ratio)).max(initial=0.0) >= np.log(RESCALED):
            return True
    return False
