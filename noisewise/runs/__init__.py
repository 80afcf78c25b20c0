"""What is kept on disk: arrays without pickled objects, JSON for the rest, nothing half-written."""

from noisewise.runs.archive import check_free, read_archive, write_archive

__all__ = ["check_free", "read_archive", "write_archive"]
