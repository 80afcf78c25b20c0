"""How to cite, and how to find the same again."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from typing import Any

from noisewise import __version__, inference
from noisewise._core.text import Markup, element, join
from noisewise.diagnostics import Certificate
from noisewise.inference import AbstractMethod
from noisewise.posteriors import AbstractPosterior, Report
from noisewise.reports.html import facts, paragraphs, section

PAPER = (
    "Yifei Xiong, Nianqiao Phyllis Ju and Sanguo Zhang",
    "Simulation-based Bayesian Inference from Privacy Protected Data",
)
_PACKAGES = ("jax", "numpy", "scipy", "numpyro", "flowjax", "blackjax", "numba")

_BIBTEX = f"""@software{{noisewise,
  title   = {{noisewise: Bayesian inference from differentially private releases}},
  author  = {{{{The noisewise developers}}}},
  version = {{{__version__}}}
}}
@article{{xiong_ju_zhang,
  title  = {{{PAPER[1]}}},
  author = {{Xiong, Yifei and Ju, Nianqiao Phyllis and Zhang, Sanguo}}
}}"""


def citing() -> Markup:
    """The section on citing."""
    return section(
        "cite",
        "How to cite",
        paragraphs(
            f"The noisewise developers. noisewise {__version__}: Bayesian inference from"
            " differentially private releases.",
            f"{PAPER[0]}. {PAPER[1]}.",
        ),
        element("pre", element("code", _BIBTEX)),
    )


def reproducing(
    posterior: AbstractPosterior,
    command: str | None,
    certificate: Certificate | None,
    approximation: AbstractPosterior | None,
) -> Markup:
    """The section on finding the same again: the command, or Python with the settings of the
    report.
    """
    report = posterior.report if approximation is None else approximation.report
    if command:
        how = join(
            paragraphs("This command, with the versions below, gives the same numbers:"),
            element("pre", element("code", command)),
        )
    else:
        words = "In Python, with the model, the release and the key of this run:"
        how = join(paragraphs(words), element("pre", element("code", snippet(report))))
    rows = [
        ("Method", f"{report.method}; {report.stopped}"),
        ("Simulations", _simulations(report, certificate if approximation is not None else None)),
        ("Time", _duration(report.seconds)),
        ("Draws kept", f"{len(posterior.theta):,}"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions().items())),
    ]
    return section("reproduce", "How to reproduce", how, facts(rows))


def _simulations(report: Report, certificate: Certificate | None) -> str:
    """Those of the inference, and apart from them those of the certificate, with their sum."""
    own = _counted(report.num_simulations, report.num_failed)
    if certificate is None:
        return own
    total = report.num_simulations + certificate.num_simulations
    of_certificate = _counted(certificate.num_simulations, certificate.num_failed)
    return f"{own} for the inference and {of_certificate} for its certificate, {total:,} in all"


def _counted(num: int, num_failed: int) -> str:
    """A number of simulations, with the failed ones."""
    return f"{num:,} ({num_failed:,} failed)" if num_failed else f"{num:,}"


def snippet(report: Report) -> str:
    """Python that repeats a run.

    >>> print(snippet(Report("importance", {"num_final": 500})))
    import jax
    import noisewise as nw
    <BLANKLINE>
    key = jax.random.key(...)  # as in the run
    method = nw.inference.ImportanceSampling(num_final=500)
    posterior = method.infer(key, model, observed)
    """
    lines = [
        "import jax",
        "import noisewise as nw",
        "",
        "key = jax.random.key(...)  # as in the run",
    ]
    if "route" in report.diagnostics:
        return "\n".join(
            [
                *lines,
                f"posterior = nw.infer(key, model, observed{_arguments(report.settings, ', ')})",
            ]
        )
    exported = (getattr(inference, name) for name in inference.__all__)
    known = {getattr(kind, "slug", None): kind for kind in exported if _is_method(kind)}
    if report.method not in known:
        return "\n".join([*lines, f"# {report.method}: {_arguments(report.settings, '')}"])
    kind = known[report.method]
    names = {field.name for field in dataclasses.fields(kind)}
    given = _arguments(
        {name: value for name, value in report.settings.items() if name in names}, ""
    )
    method = f"method = nw.inference.{kind.__name__}({given})"
    return "\n".join([*lines, method, "posterior = method.infer(key, model, observed)"])


def _is_method(kind: Any) -> bool:
    """Whether this is the class of a method with settings."""
    return (
        isinstance(kind, type)
        and issubclass(kind, AbstractMethod)
        and dataclasses.is_dataclass(kind)
    )


def _arguments(settings: dict[str, Any], before: str) -> str:
    """Settings as keyword arguments, those that are plain values."""
    plain = {
        name: value for name, value in settings.items() if isinstance(value, (bool, int, float))
    }
    given = ", ".join(f"{name}={value!r}" for name, value in plain.items())
    return f"{before}{given}" if given else ""


def versions() -> dict[str, str]:
    """noisewise, Python, and the packages that numbers depend on."""
    found = {"noisewise": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _duration(seconds: float) -> str:
    """In seconds up to two minutes, then in minutes."""
    return f"{seconds:.1f} seconds" if seconds < 120 else f"{seconds / 60:.1f} minutes"
