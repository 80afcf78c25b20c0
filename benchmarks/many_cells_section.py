"""The section on laws that are known: a thousand districts, gradients, and counts by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.sections import result
from experiments.words import markdown


def many_cells() -> str:
    """What `benchmarks.many_cells` measured."""
    found = result("many_cells")
    if found is None:
        return ""
    parts = ["## Many cells whose law is known", _INTRODUCTION]
    if "scale" in found:
        parts.append(_scale(found["scale"]))
    if "gradients" in found:
        parts.append(_gradients(found["gradients"]))
    if "by hand" in found:
        parts.append(_by_hand(found["by hand"]))
    return "\n\n".join(parts)


_INTRODUCTION = """`nw.Privatized` sums the confidential counts out, so that no-U-turn chains see the parameters alone
(`python -m benchmarks.many_cells`)."""


def _scale(found: dict[str, Any]) -> str:
    return (
        f"**{found['districts']:,} districts of ten cells**, counts of about 50, discrete Gaussian"
        f" noise of sd 5, an effect for each around a mean with a spread, by `nw.infer`:"
        f" {found['seconds']:.0f} s with compilation ({found['CPU seconds']:.0f} s of CPU time),"
        f" {found['gradients per draw']:.0f} gradients per draw; the worst of"
        f" {found['parameters']:,} parameters has {found['least effective size, bulk']:,.0f}"
        f" effective draws and R-hat {found['largest R-hat']:.3f}, the mean and the spread"
        f" {found['R-hat of mean and spread']:.3f};"
        f" {100.0 * found['share of R-hat up to 1.01']:.1f}% of all are at most 1.01."
    )


def _gradients(found: dict[str, Any]) -> str:
    rows = []
    for noise, part in found.items():
        for name, size in (("by cells", "cells"), ("by count", "count"), ("by sd of noise", "sd")):
            times = ", ".join(f"{row[size]:,.0f}: {1e3 * row['seconds']:.3g}" for row in part[name])
            rows.append([noise, name, times])
    exponents = " and ".join(f"{part['exponent of cells']:.2f}" for part in found.values())
    text = f"""Milliseconds of a gradient of 10,000 Poisson cells (least of five): it grows with the cells (exponents {exponents}), and neither with
noise nor with counts but for one step: below 10,000 textbook forms of the law serve, at about a third of the cost. Where noise reaches over
less than 384 numbers, a table of what does not depend on rates serves."""
    return f"{text}\n\n{markdown(['noise', 'sweep', 'milliseconds'], rows)}"


def _by_hand(found: dict[str, Any]) -> str:
    ours, hand = found["summed out"], found["by hand"]
    rate = "effective draws of the worst per CPU second"
    return (
        f"**By hand** (latent counts relaxed to positive numbers, Poisson density continued,"
        f" {found['cells']} cells of counts below ten, Laplace noise of sd 2, NUTS in numpyro, one"
        f" run): {hand[rate]:.3g} effective draws of the worst parameter per second of CPU time,"
        f" summed out {ours[rate]:.3g}, **{found['times more effective draws per second']:.1f} times"
        f" as many**; divergent trajectories {hand['divergent']:,} and {ours['divergent']:,}. Relaxed"
        f" counts also give another posterior: the mean log rate is off by"
        f" {found['bias of the mean by hand, in posterior sds']:+.2f} posterior sds, the spread is"
        f" {hand['spread'][0]:.2f} in place of {ours['spread'][0]:.2f}."
    )
