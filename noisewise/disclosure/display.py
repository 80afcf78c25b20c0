"""A release as a block of text, and the standard deviation of its noise."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from noisewise.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EuclideanLaplace,
    Gaussian,
    Laplace,
    Product,
)
from noisewise.mechanisms.base import AbstractMechanism

if TYPE_CHECKING:
    from noisewise.disclosure.publication import Release

_MAX_COLUMNS = 8
_MAX_NAME = 40
_LONGEST = 1e15
"""Numbers with more digits than float64 keeps are shown with an exponent."""


def noise_sd(mechanism: AbstractMechanism, width: int) -> list[float | None]:
    r"""The standard deviation of each column's noise; None where it depends on the statistic or is unknown.

    Laplace noise of scale b has sqrt(2) b, Gaussian noise its scale. On a lattice of step h: discrete Laplace noise has
    h sqrt(2 q) / (1 - q) with q = exp(-h/b), discrete Gaussian noise the root of h^2 sum_n n^2 w_n / sum_n w_n with
    w_n = exp(-n^2 h^2 / (2 b^2)). Euclidean Laplace noise in k columns has b sqrt(k+1), since E|Z|^2 = k (k+1) b^2.

    >>> import noisewise as nw
    >>> noise_sd(nw.mechanisms.Gaussian(scale=2.0), 3)
    [2.0, 2.0, 2.0]
    """
    if isinstance(mechanism, Product):
        blocks = zip(mechanism.mechanisms, mechanism.widths, strict=True)
        return [sd for block, size in blocks for sd in noise_sd(block, block.output_width(size))]
    try:
        sd = _sd(mechanism, width)
    except ArithmeticError:  # scales and steps near the ends of float64
        sd = None
    return [sd if sd is None or math.isfinite(sd) else None] * width


def _sd(mechanism: AbstractMechanism, width: int) -> float | None:
    if isinstance(mechanism, Laplace):
        return math.sqrt(2.0) * mechanism.scale
    if isinstance(mechanism, Gaussian):
        return mechanism.scale
    if isinstance(mechanism, EuclideanLaplace):
        return mechanism.scale * math.sqrt(width + 1.0)
    if isinstance(mechanism, DiscreteLaplace):
        rate = mechanism.step / mechanism.scale
        return mechanism.step * math.sqrt(2.0) * math.exp(-rate / 2.0) / -math.expm1(-rate)
    if isinstance(mechanism, DiscreteGaussian):
        return _discrete_gaussian_sd(mechanism.scale, mechanism.step)
    return None


def _discrete_gaussian_sd(scale: float, step: float) -> float:
    if scale > 3.0 * step:  # the lattice sums are then the integrals, to 1e-70
        return scale
    weights = [(n, math.exp(-0.5 * (n * step / scale) ** 2)) for n in range(1, 128)]
    total = 1.0 + 2.0 * math.fsum(weight for _, weight in weights)
    return step * math.sqrt(2.0 * math.fsum(n * n * weight for n, weight in weights) / total)


def block(release: Release) -> str:
    """Name and value of each column, with the noise's standard deviation, then what is public about them."""
    deviations = noise_sd(release.mechanism, len(release.values))
    columns = list(zip(release.names or (), release.values, deviations, strict=True))
    shown = columns if len(columns) <= _MAX_COLUMNS else columns[: _MAX_COLUMNS - 2]
    lines = [(_short(name), _number(value, sd)) for name, value, sd in shown]
    if len(columns) > len(shown):
        lines.append(("...", f"and {len(columns) - len(shown)} more"))
    facts = [
        ("mechanism", _kinds(release.mechanism)),
        ("guarantee", _guarantee(release)),
        ("neighbours", f"{release.neighbours}, one {release.privacy_unit}"),
        ("records", "not stated" if release.num_records is None else str(release.num_records)),
    ]
    width = max(len(name) for name, _ in lines + facts)
    title = f"Release: {release.description}" if release.description else "Release"
    noise = "  (value ± standard deviation of the noise)" if any(sd is not None for _, _, sd in shown) else ""
    rows = [f"  {name:<{width}}  {text}" for name, text in lines + facts]
    return "\n".join([title + noise, *rows])


def _number(value: float, sd: float | None) -> str:
    """The value to the precision at which the noise has two digits."""
    if sd is None:
        return f"{value:.10g}"
    decimals = 1 - math.floor(math.log10(sd)) if sd > 0.0 else 99
    if not -12 <= decimals <= 12 or abs(value) >= _LONGEST:
        return f"{value:.10g} ± {sd:.2g}"
    decimals = max(0, decimals)
    return f"{value:.{decimals}f} ± {sd:.{decimals}f}"


def _guarantee(release: Release) -> str:
    if release.guarantee is None:
        return "not stated"
    if release.requested is None or type(release.requested) is type(release.guarantee):
        return repr(release.guarantee)
    return f"{release.guarantee!r}, requested as {release.requested!r}"


def _kinds(mechanism: AbstractMechanism) -> str:
    if not isinstance(mechanism, Product):
        return type(mechanism).__name__
    counts = [(name, len(list(group))) for name, group in itertools.groupby(map(_kinds, mechanism.mechanisms))]
    names = [name if count == 1 else f"{count} x {name}" for name, count in counts]
    return ", ".join(names[:_MAX_COLUMNS]) + (", ..." if len(names) > _MAX_COLUMNS else "")


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 3] + "..."
