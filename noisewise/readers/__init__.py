"""Published tables as they are: one reader for each kind of file.

A reader makes a `TableDescription` of a file, and of what it was told because the file does not say
it, and then a release. What cannot be known from a file is asked for by name, never guessed. Files
are bounded, and parsed as data: nothing in them is run.
"""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.readers.census_estimates import census_gls
    from noisewise.readers.census_measurements import census_nmf
    from noisewise.readers.description import TableDescription
    from noisewise.readers.opendp_outputs import opendp
    from noisewise.readers.reading import SOURCES, read
    from noisewise.readers.registry import registry_entry
    from noisewise.readers.tables import table
    from noisewise.readers.wikimedia_days import wikimedia

__all__ = [
    "SOURCES",
    "TableDescription",
    "census_gls",
    "census_nmf",
    "opendp",
    "read",
    "registry_entry",
    "table",
    "wikimedia",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "SOURCES": "noisewise.readers.reading",
        "TableDescription": "noisewise.readers.description",
        "census_gls": "noisewise.readers.census_estimates",
        "census_nmf": "noisewise.readers.census_measurements",
        "opendp": "noisewise.readers.opendp_outputs",
        "read": "noisewise.readers.reading",
        "registry_entry": "noisewise.readers.registry",
        "table": "noisewise.readers.tables",
        "wikimedia": "noisewise.readers.wikimedia_days",
    },
)
