"""Page views by country, project and page, as the Wikimedia Foundation publishes them each day."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noisewise._core.files import PathLike
from noisewise._core.neighbours import AddRemoveOne
from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.mechanisms.guarantees import AbstractGuarantee, PureDP, ZeroConcentratedDP
from noisewise.readers.description import TableDescription, reader
from noisewise.readers.files import (
    SourceFile,
    check_size,
    lines_of,
    number_in,
    one_of,
    read_source,
)
from noisewise.readers.frames import ABSENT, frame_of, public_cells
from noisewise.readers.laws import Law

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("country", "country_code", "project", "page_id", "page_title", "item_id", "count")
_KEYS = ("country_code", "project", "page_id")
_LABELS = ("date", *_KEYS)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_DAY = datetime.date
_FIRST = _DAY(2015, 7, 1)
_FINER = _DAY(2017, 2, 9)
_GAUSSIAN = _DAY(2023, 2, 6)
_TIERS_BEGIN = _DAY(2024, 2, 15)
_UNITED_STATES = ("US", _DAY(2023, 9, 19))
"""Until this day the country was left out by mistake, and filled in later with Laplace noise."""
_REFILLED = frozenset(
    _DAY(2023, month, day)
    for month, day in ((6, 19), (10, 25), (11, 13), (11, 17), (11, 19), (11, 23), (11, 27))
)
"""Days that were lost, and filled in later with Laplace noise."""
_CONTRIBUTIONS = 10
"""Pages of one device on one day that count, each once."""
_TIERS = {"lower": (0.01505, 90.0), "medium": (0.0006166, 550.0), "higher": (0.0001546, 1000.0)}
"""rho and threshold by the risk that is seen for readers in a country."""


@reader
def wikimedia(
    path: PathLike,
    *,
    cells: pd.DataFrame | PathLike,
    date: datetime.date | str | None = None,
    risk: str | Mapping[str, str] | None = None,
    name: str | None = None,
    description: str = "",
) -> TableDescription:
    r"""Read one day of page views: a text file with tabs and without a line of names.

    The day decides the law. Whole numbers of discrete Laplace noise of scale 300 are published from
    3,500 on (1 July 2015 to 8 February 2017), of scale 30 from 450 on (to 5 February 2023). Since
    then the noise is discrete Gaussian, with sigma = sqrt(10 / (2 rho)), because each device counts
    for at most 10 pages once a day: rho = .01505 from 90 on, and since 15 February 2024 for
    countries of medium and higher risk .0006166 from 550 on and .0001546 from 1,000 on. Seven days
    of 2023, and the United States until 19 September 2023, were filled in with the law before.

    Numbers below the threshold are not in the file: `cells` lists all cells that are of interest.
    The list must not be made from the files themselves, which would select on the outcome. A page
    with at most 150 views in the whole world on that day is not in the file either, whatever the
    noise: list pages that have many more.

    Args:
        path: The file of one day.
        cells: A frame or a file that lists the cells, with the columns country_code, project and
            page_id.
        date: The day, as in 2023-10-25; None to read it from the name of the file.
        risk: "lower", "medium" or "higher", or one of them for each country code: needed from 15
            February 2024 on, when the file does not say it.
        name: What the table is called.
        description: A line about it.

    Returns:
        The release; `wikimedia.describe(...)` gives the `TableDescription`.

    Raises:
        InvalidInputError: If something is missing that the file does not say.
        FileFormatError: If the file is damaged, or a count lies below its threshold.

    Reference:
        Adeleye, Berghel, Desfontaines, Hay, Johnson, Lemoisson, Machanavajjhala, Magerlein,
        Modena, Pujol, Simmons-Marengo and Triedman, "Publishing Wikipedia usage data with strong
        privacy guarantees" (2023), arXiv:2308.16298.

    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp(), "2023-10-24.tsv")
    >>> _ = path.write_text("New Zealand\tNZ\ten.wikipedia\t77\tSheep\tQ7368\t410\n")
    >>> codes = ["NZ", "AU"]
    >>> pages = pd.DataFrame({"country_code": codes, "project": "en.wikipedia", "page_id": 77})
    >>> wikimedia(path, cells=pages).table[["country_code", "value", "absent", "noise_sd"]].round(2)
      country_code  value  absent  noise_sd
    0           NZ  410.0   False     18.23
    1           AU    NaN    True     18.23
    """
    source = read_source(path)
    day = _day(source, date)
    listed = _listed(cells)
    laws = {cell: _law(day, cell[0], risk) for cell in listed}
    counts = _counts(source, laws)
    made = {_word(law): law.mechanism() for law, _ in laws.values()}
    frame = frame_of(
        {
            "date": [day.isoformat()] * len(listed),
            **{key: [cell[place] for cell in listed] for place, key in enumerate(_KEYS)},
            "count": [counts.get(cell, ABSENT) for cell in listed],
            "law": [_word(laws[cell][0]) for cell in listed],
        }
    )
    same = len(made) == 1
    return TableDescription(
        frame,
        value="count",
        labels=_LABELS,
        mechanism=next(iter(made.values())) if same else made,
        by=None if same else "law",
        absent=ABSENT,
        guarantee=next(iter(laws.values()))[1] if same else None,
        name=name,
        description=description,
        source=source.origin("wikimedia", date=day.isoformat(), risk=risk),
    )


def _day(source: SourceFile, given: datetime.date | str | None) -> datetime.date:
    """The day of a file, given or from its name."""
    day = (
        given
        if isinstance(given, datetime.date)
        else _parsed(source.name if given is None else given)
    )
    if isinstance(day, datetime.datetime):
        day = day.date()
    if day is None:
        raise InvalidInputError(
            "The day decides the noise: give --date YYYY-MM-DD (date=), or name the file after it,"
            f" got {source.name if given is None else given!r}."
        )
    if day < _FIRST:
        raise InvalidInputError(f"The first day that was published is {_FIRST}, got {day}.")
    return day


def _parsed(text: Any) -> datetime.date | None:
    """The day that a text names; None if it names none."""
    found = _DATE.search(str(text))
    try:
        return None if found is None else datetime.date(*map(int, found.groups()))
    except ValueError:
        return None


def _listed(cells: Any) -> list[tuple[str, ...]]:
    """The public list of cells."""
    found = public_cells(cells, _KEYS)
    if found is None:
        raise InvalidInputError(
            "Pages below the threshold are not in the file: list the cells of interest by --cells"
            f" FILE (cells=), with the columns {', '.join(_KEYS)}."
        )
    listed = list(found.itertuples(index=False, name=None))
    if len(set(listed)) < len(listed):
        raise InvalidInputError("The list of pages (--cells, cells=) names one cell twice.")
    return listed


def _law(
    day: datetime.date, country: str, risk: str | Mapping[str, str] | None
) -> tuple[Law, AbstractGuarantee]:
    """The law of a country's counts on a day, and what the Foundation states."""
    if day < _FINER:
        return _laplace(300.0, 3500.0)
    refilled = day in _REFILLED or (country == _UNITED_STATES[0] and day <= _UNITED_STATES[1])
    if day < _GAUSSIAN or refilled:
        return _laplace(30.0, 450.0)
    rho, threshold = _TIERS[_tier(day, country, risk)]
    law = Law("discrete-gaussian", math.sqrt(_CONTRIBUTIONS / (2.0 * rho)), threshold=threshold)
    relation = AddRemoveOne(
        unit="device on one day", max_contributions=_CONTRIBUTIONS, max_per_cell=1
    )
    return law, ZeroConcentratedDP(rho, neighbours=relation)


def _laplace(scale: float, threshold: float) -> tuple[Law, AbstractGuarantee]:
    relation = AddRemoveOne(unit="reader on one day", max_contributions=int(scale))
    law = Law("discrete-laplace", scale, threshold=threshold)
    return law, PureDP(1.0, neighbours=relation)


def _tier(day: datetime.date, country: str, risk: str | Mapping[str, str] | None) -> str:
    if day < _TIERS_BEGIN:
        return "lower"
    given = risk.get(country) if isinstance(risk, Mapping) else risk
    if given is None:
        raise InvalidInputError(
            f"From {_TIERS_BEGIN} on the noise depends on the risk that the Foundation sees in"
            f" {country}: give --risk lower, medium or higher (risk=)."
        )
    return one_of(given, tuple(_TIERS), "The risk")


def _word(law: Law) -> str:
    return f"{law.kind} {law.scale:.6g} from {law.threshold:g}"


def _counts(
    source: SourceFile, laws: Mapping[tuple[str, ...], tuple[Law, AbstractGuarantee]]
) -> dict[tuple[str, ...], float]:
    """The published counts of the listed cells; other lines are checked and left."""
    counts: dict[tuple[str, ...], float] = {}
    number = 0
    for number, cells in lines_of(source, "\t", quotes=False):
        if len(cells) != len(_COLUMNS):
            raise FileFormatError(
                f"Line {number} of {source.name} has {len(cells)} cells, expected"
                f" {len(_COLUMNS)} between tabs: {', '.join(_COLUMNS)}. It may be truncated."
            )
        row = dict(zip(_COLUMNS, cells, strict=True))
        cell = tuple(row[key] for key in _KEYS)
        if cell not in laws:
            continue
        where = f"The count in line {number} of {source.name}"
        count, threshold = number_in(row["count"], where), laws[cell][0].threshold or 0.0
        if count != math.floor(count) or count < threshold:
            raise FileFormatError(
                f"{where} is {count:g}, but whole numbers from {threshold:g} on are published on"
                " that day: check --date and --risk (date=, risk=)."
            )
        if cell in counts:
            raise FileFormatError(f"{where} is the second of its page and country.")
        counts[cell] = count
        check_size(source, len(counts) * len(_LABELS))
    if number == 0:
        raise FileFormatError(f"{source.name} is empty: a day without a file is no measurement.")
    return counts
