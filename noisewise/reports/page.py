"""The page as a whole."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from noisewise import __version__
from noisewise._core.arrays import describe
from noisewise._core.files import as_path, write_atomically
from noisewise._core.json_files import require_text
from noisewise._core.text import Markup, element, escape, join
from noisewise.assessment.evidence import Evidence, measured_size
from noisewise.assessment.judging import judge, too_few_for_intervals
from noisewise.assessment.quick_check import QuickCheck
from noisewise.diagnostics import Certificate
from noisewise.diagnostics.stated_mechanism import mechanism_findings
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.model.observation import pair_of
from noisewise.model.private_model import PrivateModel
from noisewise.plotting import named_truth
from noisewise.posteriors import AbstractPosterior, Finding
from noisewise.regressions import Analysis
from noisewise.reports import pictures
from noisewise.reports.answer import answer, headline, sentence
from noisewise.reports.citing import citing, reproducing
from noisewise.reports.hidden import hidden
from noisewise.reports.regression import averages, regression_section
from noisewise.reports.released import guarantee_in_words, guarantee_of, names_of, released
from noisewise.reports.style import CSS
from noisewise.reports.verdict import badge, verdict

if TYPE_CHECKING:
    from noisewise.disclosure import Release


def write_report(
    path: Any,
    posterior: AbstractPosterior,
    *,
    title: str,
    model: PrivateModel | Any = None,
    observed: Any = None,
    truth: Any = None,
    certificate: Certificate | None = None,
    approximation: AbstractPosterior | None = None,
    release: Release | None = None,
    naive: AbstractPosterior | None = None,
    decomposition: Any = None,
    quick_check: QuickCheck | None = None,
    command: str | None = None,
    weights: Any = None,
) -> Path:
    """Write one self-contained page about a posterior, for readers who run nothing; returns its
    path.

    It says what was released under which guarantee, gives the answer in a sentence and a table and
    draws it, says where the uncertainty comes from, how far to trust the answer and why, how to
    cite and how to reproduce it. Images are inside, there are no scripts, nothing is loaded from
    elsewhere. An existing page is replaced.

    Args:
        path: Where to write the page.
        posterior: The answer.
        title: One line.
        model: The model, or the `Analysis` of `nw.regression`, whose coefficients are then put into
            words; without it, there are no prior, no predictive check and no infection curve.
        observed: The observation, shape (k',), or the `Release`.
        truth: The true parameters where they are known: an array, shape (d,), or a dictionary.
        certificate: What `nw.diagnostics.certify` found.
        approximation: What the certificate was made for, if `posterior` is what it corrected; adds
            its warnings and simulations.
        release: The release, where `observed` is an array.
        naive: The answer that ignores the noise, shown for comparison.
        decomposition: What `nw.diagnostics.decompose_uncertainty` found.
        quick_check: A predictive check that was made before; None makes one if simulations are
            fast.
        command: The command line that gives the same again; without it, Python with the settings.
        weights: Of the rows of a regression, for averages over them.

    Returns:
        The path.

    Raises:
        InvalidInputError: If the model is not that of the posterior, or `title` is not one line.
        InvalidTypeError: If one of the others is of another type.

    >>> import jax, pathlib, tempfile, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(epsilon=1.0)
    >>> posterior = nw.infer(jax.random.key(0), problem.model, problem.observed, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(
    ...         pathlib.Path(folder) / "report.html", posterior, title="A mean",
    ...         model=problem.model, observed=problem.observed, truth=problem.truth)
    ...     text = page.read_text()
    >>> "with 95% probability between" in text, "<script" in text
    (True, False)
    """
    path, title = as_path(path), require_text(title, "title")
    analysis = model if isinstance(model, Analysis) else None
    model, observed = pair_of(model, observed)
    _check(posterior, model, certificate, approximation)
    if certificate is not None and approximation is None and posterior is not certificate.corrected:
        approximation = posterior
    observed, release = _observed(model, observed, release)
    known = _truth(posterior, model, truth)
    quick_check = quick_check or QuickCheck.run(posterior, model, observed)
    assessment = judge(
        Evidence.of(
            posterior,
            certificate=certificate,
            approximation=approximation,
            check=quick_check.check,
            found=_about_mechanism(posterior, model, observed),
        )
    )
    prior = pictures.prior_draws(model, posterior)
    with np.errstate(invalid="ignore"):  # derived quantities may be infinite
        summary, before = posterior.summary(), None if prior is None else prior.summary()
    chosen = headline(summary, before, tuple(posterior.derived))
    mechanism = (
        release.mechanism if release is not None else model.mechanism if model is not None else None
    )
    usable = analysis is not None and not too_few_for_intervals(measured_size(posterior))
    lead = (
        averages(analysis, posterior, weights)
        if analysis is not None and usable
        else sentence(posterior, chosen, summary.loc[chosen])
    )
    shown = pictures.Shown.of(posterior, prior, known)
    rows = () if analysis is None else tuple(f"row {row}" for row in analysis.data.index)
    body = [
        element("h1", title),
        element(
            "div",
            element("p", lead, class_="sentence"),
            element("p", badge(assessment.level), " ", assessment.sentence),
            _privacy(mechanism, release),
            class_="lead",
        ),
        released(model, observed, release, rows),
        answer(
            posterior,
            summary,
            chosen,
            prior=before,
            naive=_naive(naive),
            truth=known,
            said=usable and chosen not in known,
        ),
        regression_section(analysis, posterior, weights),
        _hidden(posterior, model, observed, release, mechanism, rows),
        pictures.posterior_pictures(shown),
        pictures.fan_picture(
            posterior, model, observed, certificate, simulations=quick_check.num_affordable
        ),
        "" if decomposition is None else pictures.decomposition_picture(decomposition),
        verdict(posterior, assessment, certificate, pictures.check_picture(quick_check.check)),
        citing(),
        reproducing(posterior, command, certificate, approximation),
        element(
            "footer",
            f"Written by noisewise {__version__} on"
            f" {datetime.datetime.now(datetime.UTC):%d %B %Y, %H:%M} UTC.",
        ),
    ]
    write_atomically(path, _page(title, join(*body)), overwrite=True)
    return path


def _page(title: str, body: Markup) -> str:
    """The document around its body."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="noisewise">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _hidden(
    posterior: AbstractPosterior,
    model: PrivateModel | None,
    observed: Any,
    release: Release | None,
    mechanism: Any,
    rows: tuple[str, ...],
) -> Markup:
    """The confidential numbers, where the answer has them."""
    if mechanism is None or observed is None:
        return Markup("")
    k = len(observed)
    names = rows or names_of(model, release, k)
    return hidden(posterior, observed, names, mechanism.noise_sd(k), mechanism.measured(k))


def _about_mechanism(
    posterior: AbstractPosterior, model: PrivateModel | None, observed: Any
) -> tuple[Finding, ...]:
    """What speaks against the stated mechanism."""
    if model is None or observed is None:
        return ()
    return mechanism_findings(posterior, model, observed)


def _privacy(mechanism: Any, release: Release | None) -> Markup:
    """The guarantee in one paragraph, for the box at the top."""
    if mechanism is None:
        return Markup("")
    guarantee = guarantee_of(mechanism, release)
    if guarantee is None:
        return element("p", "No privacy guarantee is stated for the release.")
    stated = release.guarantee_is_stated if release is not None else not mechanism.derives_guarantee
    whose = ", as stated and not derived" if stated else ""
    return element("p", f"Privacy of the release{whose}: {guarantee_in_words(guarantee)}.")


# What was given -----------------------------------------------------------------------------------


def _check(posterior: Any, model: Any, certificate: Any, approximation: Any) -> None:
    """Refuse what is not a posterior, or does not belong to it."""
    if not isinstance(posterior, AbstractPosterior):
        raise InvalidTypeError(
            "write_report(path, posterior, ...) needs a posterior second, got"
            f" {describe(posterior)}."
        )
    _check_model(posterior, model)
    if not isinstance(certificate, (Certificate, type(None))):
        raise InvalidTypeError(
            f"certificate must come from nw.diagnostics.certify, got {describe(certificate)}."
        )
    if approximation is None:
        return
    if certificate is None or not isinstance(approximation, AbstractPosterior):
        raise InvalidTypeError(
            "approximation must be the posterior that the certificate was made for, beside it, got"
            f" {describe(approximation)}."
        )


def _check_model(posterior: AbstractPosterior, model: Any) -> None:
    """Refuse what is not a model, or that of other parameters."""
    if model is None:
        return
    if not isinstance(model, PrivateModel):
        raise InvalidTypeError(f"model must be a PrivateModel, got {describe(model)}.")
    if model.names != posterior.names:
        raise InvalidInputError(
            f"The posterior is of {', '.join(posterior.names)}, the model of"
            f" {', '.join(model.names)}: pass the model that was inferred."
        )


def _observed(
    model: PrivateModel | None, observed: Any, release: Any
) -> tuple[np.ndarray | None, Any]:
    """The observation as an array, shape (k',), and the release that it comes from, if any."""
    from noisewise.disclosure import Release

    if isinstance(observed, Release):
        release = observed if release is None else release
    if release is not None and not isinstance(release, Release):
        raise InvalidTypeError(f"release must be a nw.Release, got {describe(release)}.")
    given = release if observed is None else observed
    if given is None or model is None:
        return (
            None if given is None else np.asarray(getattr(given, "observed", given), dtype=float)
        ), release
    return model.observation(given), release


def _truth(
    posterior: AbstractPosterior, model: PrivateModel | None, truth: Any
) -> dict[str, float]:
    """True values by name, from a dictionary or from an array, shape (d,)."""
    if truth is None:
        return {}
    if isinstance(truth, Mapping):
        return {str(name): float(value) for name, value in truth.items()}
    if model is not None:
        return named_truth(model, truth)
    values = np.atleast_1d(np.asarray(truth, dtype=float))
    if values.shape != (len(posterior.names),):
        raise InvalidInputError(
            f"truth must hold one value for each of {', '.join(posterior.names)}, got"
            f" {describe(values)}."
        )
    return dict(zip(posterior.names, values.tolist(), strict=True))


def _naive(naive: Any) -> pd.DataFrame | None:
    """The summary of the naive answer."""
    if naive is None or isinstance(naive, pd.DataFrame):
        return naive
    if not isinstance(naive, AbstractPosterior):
        raise InvalidTypeError(
            f"naive must be a posterior, as NaivePlugIn().infer returns it, got {describe(naive)}."
        )
    return naive.summary()
