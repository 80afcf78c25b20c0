"""`noisewise report`: write the report of a finished run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisewise.cli import exits, show
from noisewise.cli.resume import ModelOption, RunArgument

if TYPE_CHECKING:
    from noisewise.cli.requests import Request
    from noisewise.cli.targets import Target

EPILOG = """
Examples:

  noisewise report runs/a

  noisewise report runs/a --model model.py
"""


def report(run: RunArgument, model: ModelOption = None, as_json: show.Json = False) -> None:
    """Write report.html of a finished run again, from its files.

    A model file is run only if you name it by --model. Without, a report that
    exists is kept, and a new one has all but what needs the model.
    """
    from noisewise.cli import outcomes
    from noisewise.cli.requests import described

    request = described(run)
    outcome, page = outcomes.stored(run, seed=request.seed), run / outcomes.REPORT
    target = _target(request, model)
    if target is None and page.is_file():
        exits.tell(f"{page} was left unchanged.")
    else:
        outcome = outcomes.stored(run, target, seed=request.seed)
        page = outcomes.write_report(request, target, outcome)
    if as_json:
        show.print_json(
            {
                "run": str(run),
                "report": str(page),
                "verdict": outcome.assessment.verdict,
                "trustworthy": outcome.assessment.trustworthy,
                "level": outcome.assessment.level,
            }
        )
    else:
        show.console().print(str(page), soft_wrap=True)


def _target(request: Request, model: str | None) -> Target | None:
    """The model and its release, of a ready problem or of the file that the user names; None
    without one, which stderr explains.
    """
    from noisewise.cli import targets
    from noisewise.cli.requests import remembered, without_model

    if request.file is not None and model is None:
        exits.tell(
            f"The report goes without what needs the model. {without_model(request, 'report')}"
        )
        return None
    return targets.load(remembered(request.out, model, command="report"))
