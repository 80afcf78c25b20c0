"""How training went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from noisewise._arrays import describe
from noisewise.errors import InvalidInputError
from noisewise.plotting.style import looks, one_axes, styled
from noisewise.plotting.tables import numbers
from noisewise.posteriors import AbstractPosterior, Report

_LOSSES = {"validation_loss": "validation", "atomic_loss": "validation, atomic"}


@runtime_checkable
class HasLosses(Protocol):
    """What training returns."""

    train_losses: np.ndarray
    validation_losses: np.ndarray


@styled
def loss_curves(losses: Any, *, ax: Axes | None = None) -> Axes:
    """Losses over epochs, or over rounds; returns the axes.

    `losses` is what `nw.estimators.train` returns (training and validation loss over epochs), a posterior or its report (the best
    validation loss of each round), or a dictionary from names to arrays (epochs,) or (epochs, members). Arrays may end in NaN, where a
    member has stopped. Means over members are thick, a dot marks the best; training losses, which say nothing of the best epoch, have none.

    >>> epochs = np.arange(50)
    >>> ax = loss_curves({"train": 1.0 / (1 + epochs), "validation": 0.1 + 1.0 / (1 + epochs)})
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_legend().get_texts()]
    ('epoch', ['train', 'validation'])
    """
    curves, xlabel = _curves_of(losses)
    ax = one_axes(ax, (3.4, 2.5))
    for name, look in looks(curves).items():
        steps, values = curves[name]
        style = {"color": look["color"], "linestyle": look["linestyle"]}
        running = ~np.isnan(values)
        mean = np.where(running, values, 0.0).sum(axis=1) / running.sum(axis=1)
        if values.shape[1] > 1:
            ax.plot(steps, values, **style, linewidth=0.6, alpha=0.5)
        ax.plot(steps, mean, **style, label=name)
        if not name.startswith("train"):
            best = int(np.argmin(np.where(running.all(axis=1), mean, np.inf)))
            ax.plot(steps[best], mean[best], "o", color=look["color"], markersize=5.0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    ax.set_xlabel(xlabel)
    ax.set_ylabel("loss")
    if len(curves) > 1:
        ax.legend()
    return ax


def _curves_of(losses: Any) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], str]:
    """Steps (n,) and losses (n, members) by name, and what the steps are."""
    if isinstance(losses, AbstractPosterior):
        losses = losses.report
    if isinstance(losses, Report):
        return _rounds(losses), "round"
    if isinstance(losses, HasLosses):
        losses = {"training": losses.train_losses, "validation": losses.validation_losses}
    if not isinstance(losses, Mapping):
        losses = {"loss": losses}
    return {str(name): _epochs(name, values) for name, values in losses.items()}, "epoch"


def _rounds(report: Report) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {}
    for key, name in _LOSSES.items():
        pairs = [(i, record[key]) for i, record in enumerate(report.rounds, start=1) if key in record]
        if pairs:
            steps, values = np.array(pairs, dtype=np.float64).T
            found[name] = (steps, values[:, None])
    if not found:
        raise InvalidInputError(
            f"The report of {report.method} holds no losses in its {len(report.rounds)} rounds: loss_curves is for methods that "
            "train networks, or takes a dictionary from names to arrays (epochs,)."
        )
    return found


def _epochs(name: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    array = numbers(values, f"losses[{str(name)!r}]")
    array = array.reshape(len(array), -1) if array.ndim else array
    missing = np.isnan(array)
    if array.ndim != 2 or array.size == 0 or missing[0].any() or (missing[:-1] & ~missing[1:]).any():
        raise InvalidInputError(
            f"losses[{str(name)!r}] must be an array (epochs,) or (epochs, members) that is NaN only after training has stopped, got "
            f"{describe(values)}: cut off what came before."
        )
    kept = array[~missing.all(axis=1)]
    return np.arange(1.0, len(kept) + 1.0), kept
