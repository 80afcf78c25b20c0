"""`noisewise report`: write the report of a finished run again."""

from __future__ import annotations

from noisewise.cli import exits, show
from noisewise.cli.resume import RunArgument

EPILOG = """
Example:

  noisewise report runs/a
"""


def report(run: RunArgument, as_json: show.Json = False) -> None:
    """Write report.html of a finished run again, from its files."""
    from noisewise.cli import outcomes, targets
    from noisewise.cli.requests import remembered
    from noisewise.errors import NoisewiseError

    request = remembered(run, changed_file_is_an_error=False)
    try:
        target = targets.load(remembered(run))
    except NoisewiseError as error:
        target = None
        exits.tell(f"The report goes without what needs the model. {error}")
    outcome = outcomes.stored(run, target, seed=request.seed)
    page = outcomes.write_report(request, target, outcome)
    if as_json:
        show.print_json(
            {"run": str(run), "report": str(page), "verdict": outcome.verdict, "trustworthy": outcome.trustworthy}
        )
    else:
        show.console().print(str(page), soft_wrap=True)
