"""What is kept on disk: arrays without pickled objects, JSON for the rest, nothing half-written."""

from noisewise.runs.archive import check_free, read_archive, write_archive
from noisewise.runs.directory import RunDirectory, run_directory
from noisewise.runs.journal import Journal
from noisewise.runs.record import RunRecord, posterior_folder, read_run

__all__ = [
    "Journal",
    "RunDirectory",
    "RunRecord",
    "check_free",
    "posterior_folder",
    "read_archive",
    "read_run",
    "run_directory",
    "write_archive",
]
