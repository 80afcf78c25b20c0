"""The pictures of a report. The infection curve simulates if it must; nothing else does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.ticker import StrMethodFormatter

from noisewise._core.text import Markup, element, join
from noisewise.diagnostics import Certificate, PredictiveCheck
from noisewise.errors import MissingCapabilityError
from noisewise.mechanisms.base import Capability
from noisewise.model.private_model import PrivateModel
from noisewise.plotting import infection_fan, marginals, named_draws, pair_plot, uncertainty_bars
from noisewise.plotting import predictive_check as draw_check
from noisewise.plotting.tables import even_rows
from noisewise.posteriors import AbstractPosterior, Draws
from noisewise.reports.html import captioned, picture, section

_KEY = 7
"""Seed of what is drawn for pictures: fixed, so that a report is the same when written again."""
_PRIOR_DRAWS = 10_000
"""Draws of the prior: enough for a smooth curve, drawn in milliseconds."""
_MOST_PAIRED, _MOST_PANELS = 5, 24
"""Quantities in the pair plot and in single panels: as many as can be read on a page."""
_MOST_CHECKED = 200
"""Published numbers in the picture of predictions: among more none can be told apart, and drawing
takes minutes.
"""
_CURVES, _TRIES = 100, 100
"""Draws of theta, and simulated curves to choose from at each: the ends of a 95% band lie between
the 2nd and 3rd of 100, and one that fits is usually found among 100."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """What the pictures are drawn from: equally weighted draws under names that matplotlib can
    print, with truth and prior.

    Attributes:
        draws: Equally weighted draws.
        columns: The quantities that are finite in all draws.
        prior: Draws of the prior with the same columns.
        truth: True values where they are known.
    """

    draws: Draws
    columns: tuple[str, ...]
    prior: Draws | None
    truth: dict[str, float]

    @staticmethod
    def of(
        posterior: AbstractPosterior, prior: Draws | None, truth: Mapping[str, float]
    ) -> Shown | None:
        """Columns finite in all draws of the posterior and of the prior; None if there are none."""
        rows = even_rows(posterior.weights)
        values = {name: column[rows] for name, column in posterior._columns().items()}
        before = None if prior is None else prior._columns()
        known = values if before is None else set(_finite(before))
        finite = [name for name in _finite(values) if name in known]
        chosen = {name: values[name] for name in finite}
        if not finite:
            return None
        grey = None if before is None else _printable({name: before[name] for name in finite})
        marked = {name: value for name, value in truth.items() if np.isfinite(value)}
        marked = {_safe(name): value for name, value in marked.items() if name in finite}
        return Shown(_printable(chosen), tuple(map(_safe, finite)), grey, marked)

    def known(self, columns: Sequence[str]) -> dict[str, float] | None:
        """The truth of these columns, None where none is known."""
        return {name: self.truth[name] for name in columns if name in self.truth} or None


def _finite(columns: Mapping[str, np.ndarray]) -> list[str]:
    """The names of columns that are finite in all draws."""
    return [name for name, column in columns.items() if np.isfinite(column).all()]


def _printable(columns: dict[str, np.ndarray]) -> Draws:
    """Draws under names that matplotlib prints as they are."""
    names = tuple(map(_safe, columns))
    return Draws(np.stack(list(columns.values()), axis=1), names, report=None)  # type: ignore[arg-type]


def _safe(name: str) -> str:
    """A name in which no part is read as a formula."""
    return name.replace("$", r"\$")


def prior_draws(model: PrivateModel | None, posterior: AbstractPosterior) -> Draws | None:
    """Draws of the prior, with derived quantities: of the model's, or those that the posterior
    keeps where no file holds its prior.
    """
    if model is not None:
        return named_draws(model, model.prior.sample(jax.random.key(_KEY), _PRIOR_DRAWS))
    if posterior.prior_draws is None or posterior.derived:
        return None
    return Draws(posterior.prior_draws, posterior.names, posterior.report)


def posterior_pictures(shown: Shown | None) -> Markup:
    """The section of marginals and pairs."""
    if shown is None:
        return section(
            "pictures",
            "The answer in pictures",
            element("p", "No quantity is finite in all draws."),
        )
    known = "" if not shown.truth else " The black line is the truth."
    grey = "" if shown.prior is None else " Grey: what was believed before the release (the prior)."
    panels = [
        picture(
            _marginal(shown, name), f"Density of {_plain(name)}{_range(shown, name)}.", small=True
        )
        for name in shown.columns[:_MOST_PANELS]
    ]
    parts = [
        captioned(f"Blue: what is known of each quantity given the release.{grey}{known}", *panels)
    ]
    paired = list(shown.columns[:_MOST_PAIRED])
    if len(paired) > 1:
        alt = (
            f"Pairs of {', '.join(map(_plain, paired))}: regions that hold 50% and 90% of the"
            " posterior."
        )
        fewer = (
            f" The first {len(paired)} of {len(shown.columns)} quantities."
            if len(paired) < len(shown.columns)
            else ""
        )
        axes = pair_plot(shown.draws, columns=paired, prior=shown.prior, truth=shown.known(paired))
        words = f"All pairs: the inner region holds 50% of the probability, the outer 90%.{fewer}"
        parts.append(captioned(words, picture(_figure(axes[0, 0]), alt)))
    return section("pictures", "The answer in pictures", *parts)


def _marginal(shown: Shown, name: str) -> Any:
    """The density of one quantity; the caption stands for the legend."""
    figure = _figure(
        marginals(shown.draws, columns=[name], prior=shown.prior, truth=shown.known([name]))[0]
    )
    for legend in figure.legends:
        legend.remove()
    return figure


def _range(shown: Shown, name: str) -> str:
    """The central 95% of a quantity, in words."""
    low, high = np.quantile(shown.draws.theta[:, shown.columns.index(name)], [0.025, 0.975])
    return f", 95% of it between {low:.4g} and {high:.4g}"


def _plain(name: str) -> str:
    """The name without the escapes of `_safe`."""
    return name.replace(r"\$", "$")


def _figure(ax: Any) -> Any:
    return ax.get_figure(root=True)


# Uncertainty --------------------------------------------------------------------------------------


def decomposition_picture(decomposition: Any) -> Markup:
    """The section of what the uncertainty is made of; `decomposition.table` has a row per
    parameter, a column per part.
    """
    table = decomposition.table
    parts = {
        str(name): np.maximum(table[name].to_numpy(dtype=float), 0.0) for name in table.columns
    }
    names = [_safe(str(name)) for name in table.index]
    shares = table.clip(lower=0.0).div(table.clip(lower=0.0).sum(axis=1), axis=0)
    most = shares.mean().idxmax()
    words = ", ".join(f"{name} {100 * share:.0f}%" for name, share in shares.mean().items())
    alt = f"Shares of the posterior variance, on average over parameters: {words}."
    text = (
        "How much of the remaining uncertainty comes from the data being a sample, and how much"
        f" from privacy. On average over the quantities: {words}. Most of it is due to {most}."
    )
    bars = uncertainty_bars(parts, names=names)
    return section(
        "uncertainty",
        "Where the uncertainty comes from",
        element("p", text),
        captioned(alt, picture(_figure(bars), alt)),
    )


# Predictions --------------------------------------------------------------------------------------


def check_picture(check: PredictiveCheck | None) -> Markup:
    """The observation over what the posterior predicts."""
    if check is None:
        return Markup("")
    outside = sum(p < 0.05 for p in check.p_values.values())
    heading = element("h3", "Does the answer predict the release?")
    if len(check.names) > _MOST_CHECKED:
        words = (
            f"Of {len(check.names):,} published numbers, too many for a picture, {outside:,} lie"
            f" outside the 95% intervals of {len(check.simulated)} simulated ones. Chance puts one"
            " in 20 outside, and fewer where a number is an answer or a small count."
        )
        return join(heading, element("p", words))
    alt = (
        f"{len(check.names)} published numbers over intervals of simulated ones; {outside} lie"
        " outside the 95% intervals."
    )
    ax = draw_check(dataclasses.replace(check, names=tuple(map(_safe, check.names))))
    words = (
        f"Each published number (dot) over {len(check.simulated)} simulated ones. Chance alone puts"
        " one in 20 outside."
    )
    return join(heading, captioned(words, picture(_figure(ax), alt)))


def fan_picture(
    posterior: AbstractPosterior,
    model: PrivateModel | None,
    observed: Float[np.ndarray, " kp"] | None,
    certificate: Certificate | None,
    *,
    simulations: int,
) -> Markup:
    """The section with the infection curve given the release, where the query is one.

    Args:
        posterior: The answer; its draws of s are used where it has them.
        model: The model; there is no section without it.
        observed: The observation, shape (k',).
        certificate: Its corrected draws of s are used otherwise, if it is certified.
        simulations: Simulations that a reader can wait for; curves are simulated only if they fit.
    """
    if model is None or observed is None or model.query.over_time is None:
        return Markup("")
    curves = _confidential_curves(posterior, certificate)
    if curves is None and simulations >= _CURVES * _TRIES:
        curves = _simulated_curves(posterior, model, observed)
    if curves is None:
        return Markup("")
    times = getattr(model.simulator, "times", None)
    ax = infection_fan(
        curves, times=times, observed=_infected(model, observed), ylabel="people infected"
    )
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    middle = np.median(curves, axis=0)
    peak = int(np.argmax(middle))
    when = peak if times is None else times[peak]
    low, high = np.quantile(curves[:, peak], [0.025, 0.975])
    text = (
        f"Of the times observed, most people were infected at time {when:g}: {middle[peak]:,.0f} of"
        f" {model.query.largest_integer:,}, and with 95% probability between {low:,.0f} and"
        f" {high:,.0f}."
    )
    words = (
        "The confidential infection curve given the release: median, and bands that hold 50%, 80%"
        " and 95% at each time, with "
    )
    words += "straight lines between the times of the release."
    return section(
        "curve",
        "The infection curve",
        element("p", text),
        captioned(words, picture(_figure(ax), f"{words} {text}")),
    )


def _confidential_curves(
    posterior: AbstractPosterior, certificate: Certificate | None
) -> np.ndarray | None:
    """Draws of s given s_dp, of the posterior itself or of the draws that a certificate vouches
    for.
    """
    sources = (
        [posterior, certificate.corrected]
        if certificate is not None and certificate.certified
        else [posterior]
    )
    for source in sources:
        if source.statistics is not None:
            return source.statistics[even_rows(source.weights)]
    return None


def _simulated_curves(
    posterior: AbstractPosterior, model: PrivateModel, observed: Float[np.ndarray, " kp"]
) -> Float[np.ndarray, "n k"] | None:
    """At each of 100 draws of theta, one of 100 simulated curves, chosen by eta(observed | s):
    draws of s given theta and s_dp.
    """
    if Capability.DENSITY not in model.mechanism.capabilities:
        return None
    draw_key, simulate_key, choose_key = jax.random.split(jax.random.key(_KEY), 3)
    theta = posterior.sample(draw_key, _CURVES)
    s = model.statistics(simulate_key, np.repeat(theta, _TRIES, axis=0), faults=model.new_faults())
    log_eta = model.mechanism.log_prob(observed, s).reshape(_CURVES, _TRIES)
    possible = np.isfinite(log_eta).any(axis=1)
    if not possible.any():
        return None
    rows = np.asarray(
        jax.random.categorical(choose_key, np.where(np.isfinite(log_eta), log_eta, -1e30))
    )
    curves: np.ndarray = s.reshape(_CURVES, _TRIES, -1)[np.arange(_CURVES), rows]
    return curves[possible]


def _infected(model: PrivateModel, observed: Float[np.ndarray, " kp"]) -> Float[np.ndarray, " kp"]:
    """The release on the scale of people infected."""
    try:
        estimate = model.mechanism.estimate(observed)
    except MissingCapabilityError:
        return observed
    return observed if estimate is observed else np.clip(estimate, 0.0, None)
