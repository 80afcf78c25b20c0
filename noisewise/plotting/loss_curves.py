"""How training went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from noisewise._core.arrays import describe
from noisewise.errors import InvalidInputError
from noisewise.inference.learned.common.fits import AbstractFit
from noisewise.plotting.style import looks, one_axes, styled
from noisewise.plotting.tables import numbers
from noisewise.posteriors import AbstractPosterior, Report

_LOSSES = {"validation_loss": "validation", "atomic_loss": "validation, atomic"}


@runtime_checkable
class HasLosses(Protocol):
    """What training returns.

    Attributes:
        train_losses: Over epochs, shape (epochs,) or (epochs, members).
        validation_losses: Of the same shape.
    """

    train_losses: np.ndarray
    validation_losses: np.ndarray


LossesLike = HasLosses | AbstractPosterior | AbstractFit | Report | ArrayLike
"""What training returns, a result of an inference, or losses (epochs,) or (epochs, members)."""


@styled
def loss_curves(losses: LossesLike | Mapping[str, LossesLike], *, ax: Axes | None = None) -> Axes:
    """How training went: losses over epochs, or over rounds.

    Use it to see whether networks had converged when training stopped, and whether they overfit.
    Losses of different data, such as those of truncated rounds, or of different targets, cannot be
    compared.

    Means over members are thick, for as long as all train, and a dot marks their best epoch;
    training losses have no dot, since they do not show which epoch is best.

    Args:
        losses: What `nw.estimators.train` returns (training and validation loss over epochs); a
            posterior, a fit or a report (the best validation loss of each round); an array
            (epochs,) or (epochs, members); or a dictionary from names to these. Arrays may end in
            NaN, where a member has stopped.
        ax: Axes to draw on; those of a new figure by default.

    Returns:
        The axes.

    Raises:
        InvalidInputError: If a report holds no losses, or an array is not finite.

    Example:
        >>> epochs = np.arange(50)
        >>> train, validation = 1.0 / (1 + epochs), 0.1 + 1.0 / (1 + epochs)
        >>> ax = loss_curves({"train": train, "validation": validation})
        >>> ax.get_xlabel(), [text.get_text() for text in ax.get_legend().get_texts()]
        ('epoch', ['train', 'validation'])
    """
    curves, xlabel = _curves_of(losses)
    rounds = xlabel == "round"
    ax = one_axes(ax, (3.6, 2.7))
    for name, look in looks(curves).items():
        steps, values = curves[name]
        style = {"color": look["color"], "linestyle": look["linestyle"]}
        together = ~np.isnan(values).any(axis=1)
        if values.shape[1] > 1:
            ax.plot(steps, values, **style, linewidth=0.6, alpha=0.5)
        steps, mean = steps[together], values[together].mean(axis=1)
        ax.plot(steps, mean, **style, label=name, marker=look["marker"] if rounds else None)
        if not rounds and not name.startswith("train"):
            best = int(np.argmin(mean))
            ax.plot(steps[best], mean[best], "o", color=look["color"], markersize=5.0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    ax.set_xlabel(xlabel)
    ax.set_ylabel("loss")
    if len(curves) > 1:
        ax.legend()
    return ax


_Curves = dict[str, tuple[np.ndarray, np.ndarray]]
"""Steps (n,) and losses (n, members) by name."""


def _curves_of(losses: Any) -> tuple[_Curves, str]:
    """The curves, and what their steps are."""
    report = _report_of(losses)
    if report is not None:
        return _rounds(report), "round"
    if isinstance(losses, HasLosses):
        losses = {"training": losses.train_losses, "validation": losses.validation_losses}
    if not isinstance(losses, Mapping):
        losses = {"loss": losses}
    if not losses:
        raise InvalidInputError(
            "losses must hold at least one curve, such as {'validation': losses}; got none."
        )
    reports = {str(name): _report_of(value) for name, value in losses.items()}
    if None not in reports.values():
        return _by_method(reports), "round"
    return {str(name): _epochs(name, values) for name, values in losses.items()}, "epoch"


def _by_method(reports: Mapping[str, Any]) -> _Curves:
    """The curves of all reports, by method, and by kind of loss where a method has several."""
    curves: _Curves = {}
    for method, report in reports.items():
        found = _rounds(report)
        for name, curve in found.items():
            curves[f"{method}, {name}" if len(found) > 1 else method] = curve
    return curves


def _report_of(value: object) -> Report | None:
    if isinstance(value, (AbstractPosterior, AbstractFit)):
        return value.report
    return value if isinstance(value, Report) else None


def _rounds(report: Report) -> _Curves:
    """The validation loss of each round, by kind."""
    found = {}
    for key, name in _LOSSES.items():
        pairs = [
            (i, record[key]) for i, record in enumerate(report.rounds, start=1) if key in record
        ]
        if pairs:
            steps, values = np.array(pairs, dtype=np.float64).T
            found[name] = (steps, values[:, None])
    if not found:
        raise InvalidInputError(
            f"The report of {report.method} holds no losses in its {len(report.rounds)} rounds:"
            " loss_curves is for methods that train networks, or takes a dictionary from names to"
            " arrays (epochs,)."
        )
    return found


def _epochs(name: object, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    array = numbers(values, f"losses[{str(name)!r}]")
    array = array.reshape(len(array), -1) if array.ndim and array.size else array
    missing = np.isnan(array)
    finite = array.ndim == 2 and array.size > 0 and not np.isinf(array).any()
    if not finite or missing[0].any() or (missing[:-1] & ~missing[1:]).any():
        raise InvalidInputError(
            f"losses[{str(name)!r}] must be an array (epochs,) or (epochs, members) that is finite,"
            f" NaN only after training has stopped, got {describe(values)}: cut off what came"
            " before."
        )
    kept = array[~missing.all(axis=1)]
    return np.arange(1.0, len(kept) + 1.0), kept
