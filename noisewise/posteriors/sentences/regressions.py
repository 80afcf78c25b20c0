"""Sentences about regressions and the mechanisms that are stated for them."""

from __future__ import annotations

from noisewise.posteriors.kinds import Kind

_SHOWN = 6
"""Designs that a sentence lists: what fits into three lines."""


def _chance(p: float) -> str:
    return f"{p:.2g}" if p >= 1e-12 else "less than 1e-12"


def _out_of_range(side: str, total: int, num: int, expected: float, p: float) -> str:
    least, who = {
        "few": ("at least", "Fewer"),
        "many": ("at most", "More"),
    }[side]
    return (
        f"{who} answers are yes than the stated mechanism can produce: {total:,} of {num:,}, where"
        f" {least} {expected:,.1f} are expected whoever has the attribute (p = {_chance(p)})."
        " Check the parameters of the mechanism and how yes is coded; else people did not follow"
        " the device."
    )


def _disagree(
    p: float,
    statistic: float,
    df: int,
    designs: list[str],
    rows: list[int],
    shares: list[float],
    errors: list[float],
) -> str:
    each = [
        f"{share:.3f} +- {error:.3f} ({num:,} rows with P(yes) {design})"
        for design, num, share, error in zip(designs, rows, shares, errors, strict=True)
    ][:_SHOWN]
    more = f" and {len(shares) - _SHOWN} more" if len(shares) > _SHOWN else ""
    return (
        f"The designs of this file do not agree (chi-square {statistic:.1f} on {df}"
        f" degree{'s' if df > 1 else ''} of freedom, p = {_chance(p)}): by themselves they tell"
        f" shares of {', '.join(each)}{more}. At least one was not followed as stated: do not pool"
        " them."
    )


def _skewed(
    names: list[str],
    symmetric_low: list[float],
    symmetric_high: list[float],
    profile_low: list[float],
    profile_high: list[float],
) -> str:
    rows = zip(names, symmetric_low, symmetric_high, profile_low, profile_high, strict=True)
    each = [
        f"{name} ({low:.3g} to {high:.3g}, where standard errors give {first:.3g} to {last:.3g})"
        for name, first, last, low, high in rows
    ][:_SHOWN]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        f"The likelihood is skewed in {', '.join(each)}{more}: its highest point and standard"
        " errors mislead there. Take the posterior, or profile intervals."
    )


def _prior_decides(names: list[str], before: list[float], after: list[float]) -> str:
    each = [
        f"{name} (standard deviation {left:.2g}, by the prior {first:.2g})"
        for name, first, left in zip(names, before, after, strict=True)
    ][:_SHOWN]
    return (
        f"The data say little about {', '.join(each)}: the prior of what the mechanism leaves open"
        " decides, and the other answers depend on it."
    )


def _groups_of_one(name: str, num: int, groups: int, example: str) -> str:
    have = "has" if num == 1 else "have"
    return (
        f"{num:,} of {groups:,} groups of {name} {have} a single row, such as {example}: the law"
        " that groups share tells their effects, and little else does."
    )


def _separation(names: list[str]) -> str:
    listed = ", ".join(names[:_SHOWN]) + (" and more" if len(names) > _SHOWN else "")
    return (
        f"Yes and no are separated by {listed}: the likelihood has no highest point, and the prior"
        " alone bounds these coefficients."
    )


SENTENCES = {
    Kind.PRIOR_DECIDES: _prior_decides,
    Kind.GROUPS_OF_ONE_ROW: _groups_of_one,
    Kind.SEPARATION: _separation,
    Kind.LIKELIHOOD_SKEWED: _skewed,
    Kind.ANSWERS_OUT_OF_RANGE: _out_of_range,
    Kind.DESIGNS_DISAGREE: _disagree,
}
