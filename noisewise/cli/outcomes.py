"""The result of a run: the posterior, how far to trust it, the naive answer, and their files.

| file | content |
|---|---|
| out/certificate.json | the verdict; written when the inference is over |
| out/corrected/ | the corrected draws of a certificate |
| out/report.html | the same for people |
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewise._core.files import write_atomically
from noisewise._core.json_files import dump_json, read_json, reading, require_schema
from noisewise._core.json_values import jsonable
from noisewise._core.regular_files import check_no_links
from noisewise.cli import settings
from noisewise.cli.interrupts import pool
from noisewise.cli.requests import Asked
from noisewise.cli.targets import Target
from noisewise.errors import FileFormatError, InvalidInputError, MissingCapabilityError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from noisewise.assessment import Assessment, QuickCheck
    from noisewise.diagnostics import Certificate, PredictiveCheck
    from noisewise.diagnostics.certificates.advice import Wording
    from noisewise.posteriors import AbstractPosterior

CERTIFICATE, CORRECTED, REPORT = "certificate.json", "corrected", "report.html"
_SCHEMA, _VERSION = "noisewise.certificate", 1
_COMPARISONS = ("naive", "confidential")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A finished run.

    Attributes:
        out: The run directory.
        posterior: What the method returned.
        certificate: Its certificate, if one was made.
        naive: The answer that ignores the noise, where one is known.
        quick_check: Whether the answer predicts the release.
    """

    out: Path
    posterior: AbstractPosterior
    certificate: Certificate | None
    naive: AbstractPosterior | None = None
    quick_check: QuickCheck | None = None

    @property
    def answer(self) -> AbstractPosterior:
        """The corrected draws where a certificate has sound ones, else the posterior itself."""
        certificate = self.certificate
        return (
            certificate.corrected
            if certificate and certificate.corrected.report.exact
            else self.posterior
        )

    @functools.cached_property
    def assessment(self) -> Assessment:
        """How far to trust the answer, by the rules that reports and `nw.assess` share."""
        from noisewise.assessment import Evidence, judge

        return judge(
            Evidence.of(
                self.answer,
                certificate=self.certificate,
                approximation=self.posterior,
                check=self._check,
                certifiable=self.certificate is not None,
            )
        )

    @property
    def sentence(self) -> str:
        """The verdict in a sentence or two, with advice in options and files."""
        if self.certificate is not None:
            return self.certificate.said(_wording(self.out))
        return self.assessment.about_verdict

    @property
    def simulations(self) -> dict[str, int]:
        """How many served what; those of the certificate come on top of `--max-simulations`."""
        own = {"inference": self.posterior.report.num_simulations}
        return (
            own
            if self.certificate is None
            else own | {"certificate": self.certificate.num_simulations}
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What else a reader must know."""
        misfit = () if self._check is None or self._check.passed else (self._check.sentence,)
        return self.assessment.warnings + misfit

    @property
    def _check(self) -> PredictiveCheck | None:
        return None if self.quick_check is None else self.quick_check.check


def _wording(out: Path) -> Wording:
    """What a certificate advises, in options and files."""
    from noisewise.diagnostics.certificates.advice import Wording

    where = f"they are what is shown, and lie in {out / CORRECTED}"
    return Wording(
        use=f"Use these: {where}.",
        may_use=f"They are exact and may be used: {where}.",
        refine=(
            "Give the method more rounds or simulations (--num-rounds, --num-simulations), or leave"
            " out --method."
        ),
        more="Repeat the command with --certify {num} or more.",
        records=(
            "For models of records take --method da-mcmc or exact-smc, which change one record at a"
            " time."
        ),
    )


def infer(request: Asked, target: Target, *, progress: bool) -> Outcome:
    """Run or continue the inference, and certify it; a finished run is read.

    Args:
        request: What was asked for on the command line.
        target: The model and its release.
        progress: Whether to show progress bars.

    Returns:
        The outcome, whose files are written.
    """
    with pool(request.workers) as executor:
        if (request.out / CERTIFICATE).exists():
            known = stored(request.out, target, seed=request.seed)
            if known.certificate is None or known.certificate.num_simulations == request.certify:
                return known
        posterior = _posterior(request, target, executor, progress)
        certificate = _certificate(request, target, posterior, executor, progress)
    outcome = Outcome(request.out, posterior, certificate, naive(target, request.seed))
    _store(request.out, outcome)
    return outcome


def stored(out: Path, target: Target | None = None, *, seed: int = 1) -> Outcome:
    """Read a finished run.

    Args:
        out: The run directory.
        target: The model and its release; without it, there is no naive answer.
        seed: Seed of the run.

    Raises:
        InvalidInputError: If the run is not finished.
        FileFormatError: If its files are altered or damaged.
    """
    from noisewise.posteriors import load_posterior

    check_no_links(out, CERTIFICATE, CORRECTED)
    if not (out / CERTIFICATE).exists():
        raise InvalidInputError(
            f"The run {out} is not finished: run noisewise resume {out} to finish it."
        )
    certificate = _read_certificate(out)
    return Outcome(
        out, load_posterior(out), certificate, None if target is None else naive(target, seed)
    )


def naive(target: Target, seed: int) -> AbstractPosterior | None:
    """The posterior that ignores the noise, where one is known.

    Args:
        target: The model and its release.
        seed: Seed of the run; a stream of its own is drawn from it.

    Returns:
        The posterior; None for models that `NaivePlugIn` does not serve.
    """
    import jax

    from noisewise.inference import NaivePlugIn

    with contextlib.suppress(MissingCapabilityError, InvalidInputError):
        key = jax.random.fold_in(jax.random.key(seed), 2)
        return NaivePlugIn().infer(key, target.model, target.observed, progress=False)
    return None


def checked(outcome: Outcome, target: Target) -> Outcome:
    """The outcome with a check of whether its answer predicts the release."""
    from noisewise.assessment import QuickCheck

    observed = target.model.observation(target.observed)
    quick_check = QuickCheck.run(outcome.answer, target.model, observed)
    return dataclasses.replace(outcome, quick_check=quick_check)


def write_report(request: Asked, target: Target | None, outcome: Outcome) -> Path:
    """Write report.html; without a target, all but what needs the model."""
    from noisewise.reports import write_report as write

    known = (
        {}
        if target is None
        else {
            "model": target.analysis or target.model,
            "observed": target.observed,
            "truth": target.truth,
            "weights": target.weights,
        }
    )
    return write(
        request.out / REPORT,
        outcome.answer,
        title=request.target if target is None else target.title,
        certificate=outcome.certificate,
        approximation=None if outcome.certificate is None else outcome.posterior,
        release=None if target is None else target.release,
        naive=outcome.naive,
        quick_check=outcome.quick_check,
        command=request.command,
        **known,
    )


def _posterior(
    request: Asked, target: Target, executor: Executor | None, progress: bool
) -> AbstractPosterior:
    import jax

    from noisewise.automatic import infer as automatic

    chosen: Any = automatic
    more = dict(request.settings)
    if request.method is not None:
        chosen, more = settings.method_from(request.method, more).infer, {}
    key = jax.random.key(request.seed)
    where = {"run_dir": request.out, "executor": executor, "progress": progress}
    return chosen(key, target.model, target.observed, **where, **more)


def _certificate(
    request: Asked,
    target: Target,
    posterior: AbstractPosterior,
    executor: Executor | None,
    progress: bool,
) -> Certificate | None:
    import jax

    from noisewise.diagnostics import certify
    from noisewise.mechanisms.base import Capability

    certifiable = Capability.DENSITY in target.model.mechanism.capabilities
    if posterior.report.exact or not certifiable or posterior.report.method in _COMPARISONS:
        return None
    key = jax.random.fold_in(jax.random.key(request.seed), 1)
    num = request.certify
    return certify(
        key, posterior, target.model, target.observed, num, executor=executor, progress=progress
    )


def _store(out: Path, outcome: Outcome) -> None:
    check_no_links(out, CORRECTED)
    spec: dict[str, Any] = {} if outcome.certificate is None else outcome.certificate.to_spec()
    spec |= {"verdict": outcome.assessment.verdict.value, "sentence": outcome.sentence}
    if outcome.certificate is not None:
        outcome.certificate.corrected.save(out / CORRECTED, overwrite=True)
    record = {"schema": _SCHEMA, "schema_version": _VERSION, **jsonable(spec)}
    write_atomically(out / CERTIFICATE, dump_json(record), overwrite=True)


def _read_certificate(out: Path) -> Certificate | None:
    """The certificate of a finished run; None if none was made."""
    from noisewise.assessment import Verdict
    from noisewise.diagnostics import Certificate
    from noisewise.posteriors import WeightedSamples, load_posterior

    what = f"The file {out / CERTIFICATE}"
    record = read_json(out / CERTIFICATE, "The file", follow_links=False)
    require_schema(record, _SCHEMA, _VERSION, what)
    if record.get("verdict") in (Verdict.EXACT, Verdict.EXACT_BUT_FEW, Verdict.NOT_CERTIFIED):
        return None
    with reading(what):
        corrected = load_posterior(out / CORRECTED)
        if not isinstance(corrected, WeightedSamples):
            raise FileFormatError(f"{CORRECTED} must hold weighted draws.")
        return Certificate.from_spec(record, corrected)
