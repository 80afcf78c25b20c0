"""What a run came to: the posterior, what it is worth, the naive answer beside it, and where all
that is stored.

| file | content |
|---|---|
| out/certificate.json | the verdict; written when the inference is over |
| out/corrected/ | the corrected draws of a certificate |
| out/report.html | the same for people |
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewise._core.files import dump_json, read_json, reading, require_schema, write_atomically
from noisewise._core.regular_files import check_no_links
from noisewise.cli import settings, show
from noisewise.cli.interrupts import pool
from noisewise.cli.requests import Request
from noisewise.cli.targets import Target
from noisewise.errors import FileFormatError, InvalidInputError, MissingCapabilityError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from noisewise.diagnostics import Certificate
    from noisewise.diagnostics.certificate import Wording
    from noisewise.posteriors import AbstractPosterior
    from noisewise.reports.pictures import Look

CERTIFICATE, CORRECTED, REPORT = "certificate.json", "corrected", "report.html"
_SCHEMA, _VERSION = "noisewise.certificate", 1
_EXACT, _EXACT_FEW, _UNCERTIFIED = "exact", "exact, but few draws", "not certified"
FEW = 100.0
"""Exact draws worth less than this say nothing of intervals."""
_COMPARISONS = ("naive", "confidential")
_KINDS: dict[Any, Any] = {"float": (float, int), "int": int, "str": str}
"""What numbers and texts of a certificate are, by how its fields are annotated."""
_INFINITE = {"pareto_k": float("inf"), "log_evidence": float("-inf")}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A finished run."""

    out: Path
    posterior: AbstractPosterior
    certificate: Certificate | None
    naive: AbstractPosterior | None = None
    look: Look | None = None

    @property
    def answer(self) -> AbstractPosterior:
        """The corrected draws where a certificate has sound ones, else the posterior itself."""
        certificate = self.certificate
        return (
            certificate.corrected
            if certificate and certificate.corrected.report.exact
            else self.posterior
        )

    @property
    def trustworthy(self) -> bool:
        """Whether the command exits with 0: the method is exact and its draws are worth 100 or
        more, or its answer is certified.

        An approximation that its certificate calls poor exits with 3 even where corrected draws are
        exact and may be used: who goes on by the exit code alone reads the posterior, which is the
        approximation. The sentence says that they may.
        """
        if self.certificate is not None:
            return self.certificate.certified
        return self.posterior.report.exact and not self._few

    @property
    def _few(self) -> bool:
        size = self.posterior.effective_size
        return (len(self.posterior.theta) if math.isnan(size) else size) < FEW

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.certificate is not None:
            return self.certificate.verdict
        if not self.posterior.report.exact:
            return _UNCERTIFIED
        return _EXACT_FEW if self._few else _EXACT

    @property
    def sentence(self) -> str:
        """In a sentence or two."""
        if self.certificate is not None:
            return self.certificate.said(_wording(self.out))
        if self.posterior.report.exact:
            size = self.posterior.effective_size
            few = (
                ": too few for intervals. Give the method more simulations or time"
                if self._few
                else ""
            )
            dropped = self.posterior.report.diagnostics.get("simulations dropped")
            given = (
                f", given that the simulator does not fail ({dropped:,} times it did),"
                if dropped
                else ""
            )
            return (
                f"The draws come from the exact posterior{given} and are worth {size:,.0f}"
                f" independent ones{few}."
            )
        if self.posterior.report.method in _COMPARISONS:
            return (
                "This answer is for comparison: it does not know of the noise, or needs the"
                " confidential data."
            )
        return (
            "Nothing shows how good this approximation is: the mechanism has no density by which to"
            " certify it."
        )

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
        """What a reader must know besides."""
        check = None if self.look is None else self.look.check
        misfit = () if check is None or check.passed else (check.sentence,)
        if self.certificate is None:
            return self.posterior.report.warnings + misfit
        return self.certificate.other_warnings(self.posterior) + misfit


def _wording(out: Path) -> Wording:
    """What a certificate advises, in options and files."""
    from noisewise.diagnostics.certificate import Wording

    where = f"they are what is shown, and lie in {out / CORRECTED}"
    return Wording(
        use=f"Use these: {where}.",
        may_use=f"They are exact and may be used: {where}.",
        refine=(
            "Give the method more rounds or simulations (--num-rounds, --num-simulations), or leave"
            " out --method."
        ),
        more="The same command with --certify {num} or more goes on from here.",
        records=(
            "For models of records take --method da-mcmc or exact-smc, which change one record at a"
            " time."
        ),
    )


def infer(request: Request, target: Target, *, progress: bool) -> Outcome:
    """Run, or go on with, the inference that is asked for, and judge it; what is finished is read."""
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
    """Read a finished run."""
    from noisewise.posteriors import load_posterior

    check_no_links(out, CERTIFICATE, CORRECTED)
    if not (out / CERTIFICATE).exists():
        raise InvalidInputError(
            f"The run {out} is not finished: noisewise resume {out} goes on with it."
        )
    certificate = _read_certificate(out)
    return Outcome(
        out, load_posterior(out), certificate, None if target is None else naive(target, seed)
    )


def naive(target: Target, seed: int) -> AbstractPosterior | None:
    """The posterior that ignores the noise, where one is known."""
    import jax

    from noisewise.inference import NaivePlugIn

    with contextlib.suppress(MissingCapabilityError, InvalidInputError):
        key = jax.random.fold_in(jax.random.key(seed), 2)
        return NaivePlugIn().infer(key, target.model, target.observed, progress=False)
    return None


def looked_at(outcome: Outcome, target: Target) -> Outcome:
    """The outcome with a look at whether its answer predicts the release."""
    from noisewise.reports.pictures import Look

    look = Look.at(outcome.answer, target.model, target.model.observation(target.observed))
    return dataclasses.replace(outcome, look=look)


def write_report(request: Request, target: Target | None, outcome: Outcome) -> Path:
    """Write report.html."""
    from noisewise.reports import write_report as write

    known = (
        {}
        if target is None
        else {"model": target.model, "observed": target.observed, "truth": target.truth}
    )
    return write(
        request.out / REPORT,
        outcome.answer,
        title=request.target if target is None else target.title,
        certificate=outcome.certificate,
        approximation=None if outcome.certificate is None else outcome.posterior,
        release=None if target is None else target.release,
        naive=outcome.naive,
        look=outcome.look,
        command=request.command,
        **known,
    )


def _posterior(
    request: Request, target: Target, executor: Executor | None, progress: bool
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
    request: Request,
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
    spec |= {"verdict": outcome.verdict, "sentence": outcome.sentence}
    if outcome.certificate is not None:
        outcome.certificate.corrected.save(out / CORRECTED, overwrite=True)
    record = {"schema": _SCHEMA, "schema_version": _VERSION, **show.plain(spec)}
    write_atomically(out / CERTIFICATE, dump_json(record), overwrite=True)


def _read_certificate(out: Path) -> Certificate | None:
    from noisewise.diagnostics import Certificate
    from noisewise.posteriors import load_posterior

    what = f"The file {out / CERTIFICATE}"
    record = read_json(out / CERTIFICATE, "The file", follow_links=False)
    require_schema(record, _SCHEMA, _VERSION, what)
    if record.get("verdict") in (_EXACT, _EXACT_FEW, _UNCERTIFIED):
        return None
    with reading(what):
        fields = {
            f.name: record[f.name] for f in dataclasses.fields(Certificate) if f.name != "corrected"
        }
        fields = {
            name: _INFINITE.get(name, float("nan")) if value is None else value
            for name, value in fields.items()
        }
        fields["comparison"] = {
            name: (float(mean), float(sd)) for name, (mean, sd) in fields["comparison"].items()
        }
        kinds = {
            f.name: _KINDS[f.type] for f in dataclasses.fields(Certificate) if f.type in _KINDS
        }
        if any(
            not isinstance(fields[name], kind) or isinstance(fields[name], bool)
            for name, kind in kinds.items()
        ):
            raise FileFormatError("it tells numbers and texts of other kinds.")
        certificate = Certificate(**fields, corrected=load_posterior(out / CORRECTED))  # type: ignore[arg-type]
        _ = (
            certificate.sentence,
            certificate.perfect_size,
            certificate.cost,
        )  # which numbers that cannot be have no answer to
        return certificate
